//! A recipe of your own: a state machine on a client's session, which waits until a node exists.
//!
//! `appearance [host:port,...]`. Without an address it starts its own ensemble.

use tokio::sync::oneshot::{Receiver, Sender, channel};
use zk_recipes::LockError;
use zk_recipes::machine::{Event, Machine, OnSession, OpId, Turn};
use zk_recipes::session::proto::{ErrorCode, NodeKind};
use zk_recipes::session::{Client, Error, State, dispatch::Input};
use zk_test_server::serve::Embedded;

const NODE: &str = "/example/appearance";

/// Waits until a node exists. It has no socket, clock or task, so a test can give it any inputs.
#[derive(Debug)]
struct Appearance {
    path: String,
    /// The last request that reads the node and sets the watch.
    last: Option<OpId>,
    owner: Option<Sender<Result<(), LockError>>>,
}

impl Machine for Appearance {
    fn is_done(&self) -> bool {
        // If nobody waits any more, the session drops the machine after its next input.
        self.owner.as_ref().is_none_or(Sender::is_closed)
    }

    fn handle(&mut self, input: Input, turn: &mut Turn<'_>) {
        let result = match input {
            Input::State(State::Ended(end)) => Err(LockError::Ended(end)),
            // Without a connection, requests wait, and the session sets watches again on the next one.
            Input::State(_) if self.last.is_some() => return,
            // The node is missing, and the watch reports its creation.
            Input::Reply { result: Err(Error::Server(ErrorCode::NO_NODE)), .. } => return,
            Input::State(_)
            | Input::Watch { .. }
            | Input::Reply { result: Err(Error::ConnectionLost), .. } => return self.look(turn),
            Input::Reply { result, .. } => result.map(drop).map_err(LockError::from),
            _ => return,
        };
        let owner = self.owner.take();
        // `send` wakes a task, which is allowed only after the session is unlocked.
        turn.parts().0.defer(move || drop(owner.map(|owner| owner.send(result))));
    }
}

impl Appearance {
    fn look(&mut self, turn: &mut Turn<'_>) {
        // A request that failed may have left its watch.
        self.last.into_iter().for_each(|earlier| turn.unwatch(earlier));
        self.last = Some(turn.watch_presence(self.path.as_str()));
    }
}

fn appearance(client: &Client, path: &str) -> Receiver<Result<(), LockError>> {
    let (owner, result) = channel();
    // The paths of a machine are those of the server, with the chroot.
    let path = client.chroot().apply(path).into_owned();
    let machine = Appearance { path, last: None, owner: Some(owner) };
    // The machine reports no lock events. The seed spreads the renewals of silent watches.
    client.attach(Box::new(OnSession::new(machine, Vec::<Event>::new(), fastrand::u64(..))));
    result
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ensemble = Embedded::start(3).await?;
    let servers = std::env::args().nth(1).unwrap_or_else(|| ensemble.connect_string());
    let client = Client::connect(&servers).await?;
    let there = appearance(&client, NODE);
    client.create_all(NODE, b"", NodeKind::Ephemeral).await?;
    println!("created");
    there.await??;
    println!("there");
    client.close().await;
    Ok(())
}
