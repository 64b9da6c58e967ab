use smoltcp::iface::{Interface, SocketHandle, SocketSet};
use smoltcp::phy::Device;
use smoltcp::socket::tcp::{Socket, State};
use smoltcp::wire::IpEndpoint;
use zk_session::event_loop::{Link, LinkState};
use zk_session::time::Instant;

/// A link over a socket of smoltcp, with the network interface it is on.
pub(crate) struct SmoltcpLink<D> {
    pub(crate) servers: Vec<IpEndpoint>,
    pub(crate) interface: Interface,
    pub(crate) device: D,
    pub(crate) sockets: SocketSet<'static>,
    pub(crate) socket: SocketHandle,
    /// The last local port. Begin at a random one.
    pub(crate) port: u16,
}

impl<D: Device> Link for SmoltcpLink<D> {
    fn connect(&mut self, server: usize) {
        self.port = self.port.checked_add(1).unwrap_or(49_152);
        let socket = self.sockets.get_mut::<Socket<'_>>(self.socket);
        // If it fails, the link stays down, and the session tries the next server.
        let _ = socket.connect(self.interface.context(), self.servers[server], self.port);
    }

    fn hang_up(&mut self) {
        self.sockets.get_mut::<Socket<'_>>(self.socket).abort();
    }

    fn state(&self) -> LinkState {
        match self.sockets.get::<Socket<'_>>(self.socket).state() {
            State::SynSent => LinkState::Connecting,
            State::Established => LinkState::Up,
            _ => LinkState::Down,
        }
    }

    fn send(&mut self, bytes: &[u8]) -> usize {
        self.sockets.get_mut::<Socket<'_>>(self.socket).send_slice(bytes).unwrap_or(0)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> usize {
        self.sockets.get_mut::<Socket<'_>>(self.socket).recv_slice(buffer).unwrap_or(0)
    }

    fn poll(&mut self, now: Instant) {
        self.interface.poll(time(now), &mut self.device, &mut self.sockets);
    }

    fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        let delay = self.interface.poll_delay(time(now), &self.sockets)?;
        Some(now + delay.into())
    }
}

fn time(now: Instant) -> smoltcp::time::Instant {
    smoltcp::time::Instant::from_micros(now.since_start().as_micros() as i64)
}
