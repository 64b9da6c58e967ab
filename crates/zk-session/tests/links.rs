//! The links of `examples/links`, under one program.
#![cfg(all(unix, feature = "tokio"))]

#[path = "../examples/links/mio.rs"]
mod mio_link;
#[path = "../examples/poll_loop.rs"]
#[allow(dead_code, reason = "the example's own `main`")]
mod poll_loop;
#[cfg(target_os = "linux")]
#[path = "../examples/links/smoltcp.rs"]
mod smoltcp_link;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use mio_link::MioLink;
use tokio::runtime::Runtime;
use zk_testkit::serve::Embedded;
use zk_testkit::watchdog::Watchdog;

/// An ensemble of two servers, one of which refuses connections.
fn half_an_ensemble(runtime: &Runtime) -> (Embedded, Vec<SocketAddr>) {
    let embedded = runtime.block_on(Embedded::start(1)).expect("an ensemble");
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|port| port.local_addr());
    let servers = vec![closed.expect("a port"), embedded.address(0)];
    (embedded, servers)
}

#[test]
fn a_loop_on_sockets_of_mio() {
    let _watchdog = Watchdog::start();
    let runtime = Runtime::new().expect("a runtime");
    let (_embedded, servers) = half_an_ensemble(&runtime);
    let mut poll = mio::Poll::new().expect("it starts");
    let registry = poll.registry().try_clone().expect("it can be shared");
    let link = MioLink { servers, registry, token: mio::Token(0), stream: None };
    let mut events = mio::Events::with_capacity(8);
    let wait = |_: &mut MioLink, left| poll.poll(&mut events, Some(left)).expect("it waits");
    poll_loop::write_and_read(link, 2, wait).expect("answered");
}

#[cfg(target_os = "linux")]
mod tap {
    use std::os::fd::AsRawFd as _;

    use smoltcp::iface::{Config, Interface, SocketSet};
    use smoltcp::phy::{Medium, TunTapInterface, wait};
    use smoltcp::socket::tcp;
    use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};
    use zk_testkit::tap::Tap;

    use super::smoltcp_link::SmoltcpLink;
    use super::*;

    #[test]
    fn a_loop_without_sockets_of_the_system() {
        let Some(tap) = Tap::start_or_skip() else { return };
        let _watchdog = Watchdog::start();
        let runtime = Runtime::new().expect("a runtime");
        let embedded = runtime.block_on(Embedded::start(1)).expect("an ensemble");
        let open = runtime.block_on(tap.forward(embedded.address(0))).expect("a port");
        let servers = [tap.closed(), open].map(Into::into).to_vec();

        let mut device = TunTapInterface::new(tap.name(), Medium::Ethernet).expect("it is there");
        let mac = EthernetAddress([2, 0, 0, 0, 0, 1]);
        let start = smoltcp::time::Instant::ZERO;
        let mut interface = Interface::new(Config::new(mac.into()), &mut device, start);
        let address = IpCidr::new(IpAddress::Ipv4(tap.guest()), 24);
        interface.update_ip_addrs(|addresses| addresses.push(address).expect("room for one"));
        let [received, sent] = [(); 2].map(|()| tcp::SocketBuffer::new(vec![0; 1024]));
        let mut sockets = SocketSet::new(Vec::new());
        let socket = sockets.add(tcp::Socket::new(received, sent));

        let file = device.as_raw_fd();
        let link = SmoltcpLink { servers, interface, device, sockets, socket, port: 50_000 };
        let wait = |_: &mut SmoltcpLink<TunTapInterface>, left: std::time::Duration| {
            wait(file, Some(left.into())).expect("it waits");
        };
        poll_loop::write_and_read(link, 2, wait).expect("answered");
    }
}
