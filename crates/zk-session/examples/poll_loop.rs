//! A session in your own event loop, on a socket that never blocks.
//!
//! It creates a node, reads it, deletes it, and closes the session.
//!
//! `poll_loop [host:port]`. Without an address it starts its own ensemble, which needs tokio. The
//! loop does not.

#[path = "links/tcp.rs"]
mod tcp;

use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::{Duration, Instant as Clock};

use tcp::TcpLink;
use zk_session::End;
use zk_session::dispatch::{Dispatcher, Token};
use zk_session::event_loop::{Link, Loop};
use zk_session::proto::{
    Acl, CreateMode, CreateRequest, DeleteRequest, GetDataRequest, GetDataResponse, Request,
};
use zk_session::session::{Config, Event, State};
use zk_session::time::Instant;
use zk_test_server::serve::Embedded;

const NODE: &str = "/example-poll-loop";

fn main() -> ExitCode {
    match run(std::env::args().nth(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

pub(crate) fn run(address: Option<String>) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (_embedded, servers): (_, Vec<SocketAddr>) = match address {
        Some(address) => (None, address.to_socket_addrs()?.collect()),
        None => {
            let embedded = runtime.block_on(Embedded::start(1))?;
            let address = embedded.address(0);
            (Some(embedded), vec![address])
        }
    };
    let count = servers.len();
    let link = TcpLink { servers, ..TcpLink::default() };
    // A real loop waits for its sockets, too, with `epoll` or the interrupts of a board.
    write_and_read(link, count, |_, wait| std::thread::sleep(wait.min(Duration::from_millis(1))))
}

/// Runs the session over any link. `wait` waits until that has something new, or for so long.
pub(crate) fn write_and_read<L: Link>(
    link: L,
    servers: usize,
    mut wait: impl FnMut(&mut L, Duration),
) -> Result<(), Box<dyn Error>> {
    // Clients with the same seed connect to the same servers at the same time.
    let seed = RandomState::new().hash_one(());
    let mut session = Loop::new(Instant::START, Config::new(servers, seed), link)?;
    // All three requests are sent before the first reply. The token of each is a text.
    let (acl, mode) = ([Acl::OPEN][..].into(), CreateMode::EPHEMERAL);
    let create = CreateRequest { path: NODE, data: Some(b"hello"), acl, mode };
    for (token, request) in [
        ("created", Request::Create2(create)),
        ("read", Request::GetData(GetDataRequest { path: NODE, watch: false })),
        ("deleted", Request::Delete(DeleteRequest { path: NODE, version: -1 })),
    ] {
        session.dispatcher.session_mut().submit(&request, Token::Caller(token))?;
    }
    let start = Clock::now();
    let now = || Instant::after_start(start.elapsed());
    loop {
        match session.dispatcher.session().state() {
            State::Ended(End::Closed) => return Ok(()),
            State::Ended(end) => return Err(end.to_string().into()),
            _ => {}
        }
        let due = session.turn(now(), |dispatcher, event| handle(dispatcher, now(), event));
        let left = due.unwrap_or(Instant::END) - now();
        if !left.is_zero() {
            wait(&mut session.link, left);
        }
    }
}

fn handle(dispatcher: &mut Dispatcher<&'static str>, now: Instant, event: Event<&'static str>) {
    match event {
        Event::Reply { token: token @ "read", result: Ok(reply) } => {
            match reply.decode::<GetDataResponse<'_>>() {
                Ok(read) => println!("{token}: {}", read.data.unwrap_or_default().escape_ascii()),
                Err(error) => println!("{token}, but the reply is malformed: {error}"),
            }
        }
        Event::Reply { token, result: Ok(_) } => println!("{token}"),
        Event::Reply { token, result: Err(error) } => println!("not {token}: {error}"),
        other => println!("{other:?}"),
    }
    // Behind the last reply: a session that has not begun would end without sending the requests.
    if dispatcher.session().pending() == 0 {
        dispatcher.close(now);
    }
}
