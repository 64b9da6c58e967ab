//! The driver for embassy, over a network stack of embassy on a TAP interface.
#![cfg(target_os = "linux")]

#[path = "../../firmware/src/embassy.rs"]
#[allow(unreachable_pub, reason = "a part of the firmware")]
mod embassy;
#[path = "../../firmware/src/io_async.rs"]
#[allow(unreachable_pub, reason = "a part of the firmware")]
mod io_async;

use std::cell::Cell;
use std::net::SocketAddrV4;
use std::time::Duration;

use embassy_net::tcp::TcpSocket;
use embassy_net::{Ipv4Cidr, StackResources, StaticConfigV4};
use embassy_net_tuntap::TunTapDevice;
use embassy_sync::blocking_mutex::raw::NoopRawMutex;
use embassy_sync::signal::Signal;
use embassy_time::{Instant as Clock, Timer};
use tokio::runtime::Runtime;
use uuid::Uuid;
use zk_recipes::machine::{AttemptConfig, Command, Contender, Event, Observer, OnSession, Scheme};
use zk_session::dispatch::{Dispatcher, Key, Port};
use zk_session::session::{Config, Event as SessionEvent, State};
use zk_testkit::serve::Embedded;
use zk_testkit::suite::ephemerals;
use zk_testkit::tap::Tap;
use zk_testkit::watchdog::Watchdog;

const LOCK: &str = "/locks/embassy";
const HOLD: Duration = Duration::from_millis(100);
const TURNS: u32 = 10;

/// Tells the program what happened, as an interrupt or another task would.
struct Report(std::sync::mpsc::Sender<Event>);

impl Observer for Report {
    fn observe(&mut self, event: Event, _: &mut Port<'_>) {
        // The program may have ended.
        let _ = self.0.send(event);
    }
}

/// What the program wants of the session.
#[derive(Clone, Copy, Default)]
enum Wish {
    #[default]
    Nothing,
    Acquire,
    Release,
    Close,
}

/// Runs `program` beside a session on a stack of embassy. Its servers are these.
fn on_board<R>(
    tap: &Tap,
    runtime: &Runtime,
    servers: &[SocketAddrV4],
    program: impl AsyncFnOnce(
        &dyn Fn(Wish),
        &std::sync::mpsc::Receiver<Event>,
        &Cell<Option<usize>>,
    ) -> R,
) -> R {
    let device = TunTapDevice::new(tap.name()).expect("it is there");
    let address = Ipv4Cidr::new(tap.guest(), 24);
    let config = StaticConfigV4 { address, gateway: None, dns_servers: Default::default() };
    let mut resources = StackResources::<2>::new();
    let config = embassy_net::Config::ipv4_static(config);
    let (stack, mut runner) = embassy_net::new(device, config, &mut resources, 1);
    let mut buffers = [[0; 1024]; 2];
    let [received, sent] = &mut buffers;
    let socket = TcpSocket::new(stack, received, sent);
    let servers: Vec<_> = servers.iter().map(|server| (*server).into()).collect();
    let mut network = embassy::Socket { socket, servers: &servers };

    let config = Config::small(servers.len(), 1);
    let signal = Signal::<NoopRawMutex, ()>::new();
    let (wish, connected) = (Cell::new(Wish::Nothing), Cell::new(None));
    let (sender, events) = std::sync::mpsc::channel();
    let (mut attempts, mut lock) = (0, None::<Key>);
    let work = |dispatcher: &mut Dispatcher<()>, event: Option<SessionEvent<()>>| {
        let now = embassy::now();
        if let Some(SessionEvent::State(State::Connected { server, .. })) = event {
            connected.set(Some(server));
        }
        match wish.take() {
            Wish::Nothing => {}
            Wish::Acquire => {
                attempts += 1;
                let guid = Uuid::from_u128(attempts.into());
                let attempt = AttemptConfig::new(LOCK.into(), Scheme::CURATOR_MUTEX, guid);
                let observer = Report(sender.clone());
                let machine = OnSession::new(Contender::new(attempt), observer, attempts);
                lock = Some(dispatcher.attach(now, Box::new(machine)));
            }
            Wish::Release => {
                let key = lock.take().expect("attached");
                assert!(dispatcher.command(now, key, &mut Command::Release));
            }
            Wish::Close => dispatcher.close(now),
        }
    };
    let ask = |wanted| {
        wish.set(wanted);
        signal.signal(());
    };
    let wait = async |until| embassy::wait(&signal, until).await;
    runtime.block_on(async {
        let driver = io_async::run(config, &mut network, embassy::now, wait, work);
        let program = async {
            let result = program(&ask, &events, &connected).await;
            ask(Wish::Close);
            result
        };
        tokio::select! {
            (result, ended) = async { tokio::join!(program, driver) } => {
                ended.expect("settings that can work");
                result
            }
            _ = runner.run() => unreachable!("the network never ends"),
        }
    })
}

/// Waits for an event of the lock.
async fn next(events: &std::sync::mpsc::Receiver<Event>, wanted: impl Fn(&Event) -> bool) {
    while !events.try_iter().any(|event| wanted(&event)) {
        Timer::after_millis(1).await;
    }
}

#[test]
fn a_program_on_embassy_holds_a_lock_as_long_as_it_wants() {
    let Some(tap) = Tap::start_or_skip() else { return };
    let _watchdog = Watchdog::start();
    let runtime = Runtime::new().expect("a runtime");
    let embedded = runtime.block_on(Embedded::start(1)).expect("an ensemble");
    let open = runtime.block_on(tap.forward(embedded.address(0))).expect("a port");
    let holds = on_board(&tap, &runtime, &[tap.closed(), open], async |ask, events, _| {
        let mut holds = Vec::new();
        for _ in 0..TURNS {
            ask(Wish::Acquire);
            next(events, |event| matches!(event, Event::Acquired { .. })).await;
            let start = Clock::now();
            Timer::after_millis(HOLD.as_millis() as u64).await;
            ask(Wish::Release);
            next(events, |event| *event == Event::Released).await;
            holds.push(Duration::from_micros(start.elapsed().as_micros()));
        }
        holds
    });
    println!("holds: {holds:?}");
    assert_eq!(ephemerals(&embedded), Vec::<String>::new());
    // Without the signal, each lasted until the next deadline of the session, up to a third of its
    // timeout. The best of ten does not depend on the machine.
    let best = holds.iter().min().expect("ten");
    assert!((HOLD..HOLD * 3).contains(best), "{holds:?}");
}

#[test]
fn a_board_leaves_no_connection_behind_at_a_server_that_stops_answering() {
    let Some(tap) = Tap::start_or_skip() else { return };
    let _watchdog = Watchdog::start();
    let runtime = Runtime::new().expect("a runtime");
    let embedded = runtime.block_on(Embedded::start(1)).expect("an ensemble");
    let open = runtime.block_on(tap.forward(embedded.address(0))).expect("a port");
    // It accepts, and says nothing: the session gives it up, and the reset must reach it.
    let silent = runtime.block_on(tokio::net::TcpListener::bind((tap.host(), 0))).expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let mute = SocketAddrV4::new(tap.host(), port);
    let reset = runtime.spawn(async move {
        let (mut stream, _) = silent.accept().await.expect("a connection");
        let mut sink = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut sink).await.map(drop)
    });
    on_board(&tap, &runtime, &[mute, open], async |_, _, connected| {
        while connected.get().is_none() {
            Timer::after_millis(1).await;
        }
    });
    let ended = runtime.block_on(reset).expect("no panic");
    assert_eq!(ended.map_err(|error| error.kind()), Err(std::io::ErrorKind::ConnectionReset));
}
