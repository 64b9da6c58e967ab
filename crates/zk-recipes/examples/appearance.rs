//! A recipe of your own: a state machine on a client's session, which waits until a node exists.
//! `appearance [host:port,...]`: without an address it starts its own ensemble.

use tokio::sync::oneshot::{Sender, channel};
use zk_recipes::machine::{Event, Machine, OnSession, OpId, Turn};
use zk_recipes::session::proto::{ErrorCode, EventType, NodeKind};
use zk_recipes::session::{Client, End, Error, Outcome, State, session::Reply};
use zk_test_server::serve::Embedded;

/// Waits until a node exists. It has no socket, clock or task, so a test can give it any inputs.
#[derive(Debug)]
struct Appearance {
    path: String,
    last_look: Option<OpId>,
    owner: Option<Sender<Result<(), Error>>>,
}

impl Machine for Appearance {
    fn is_done(&self) -> bool {
        // If nobody waits any more, the session drops the machine after its next input.
        self.owner.as_ref().is_none_or(Sender::is_closed)
    }

    fn session_changed(&mut self, state: State, turn: &mut Turn<'_>) {
        if let State::Connected { .. } = state {
            self.look(turn);
        }
    }

    fn session_ended(&mut self, end: End, turn: &mut Turn<'_>) {
        self.answer(Err(Error::Ended { end, outcome: Outcome::NotApplied }), turn);
    }

    fn handle_reply(&mut self, _: OpId, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        match result {
            // It looks again after the event of the watch, or on the next connection.
            Err(Error::ConnectionLost) => {}
            Err(Error::Server(ErrorCode::NO_NODE | ErrorCode::NOT_READ_ONLY)) => {}
            result => self.answer(result.map(drop), turn),
        }
    }

    fn watch_fired(&mut self, _: OpId, _: EventType, turn: &mut Turn<'_>) {
        self.look(turn);
    }
}

impl Appearance {
    fn look(&mut self, turn: &mut Turn<'_>) {
        self.last_look.into_iter().for_each(|earlier| turn.unwatch(earlier));
        self.last_look = Some(turn.watch_presence(self.path.as_str()));
    }

    fn answer(&mut self, result: Result<(), Error>, turn: &mut Turn<'_>) {
        let Some(owner) = self.owner.take() else { return };
        // `send` wakes a task, which is allowed only after the session is unlocked.
        turn.parts().0.defer(move || _ = owner.send(result));
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    const NODE: &str = "/example/appearance";
    let ensemble = Embedded::start(3).await?;
    let servers = std::env::args().nth(1).unwrap_or_else(|| ensemble.connect_string());
    let client = Client::connect(&servers).await?;
    let (owner, there) = channel();
    // The paths of a machine are those of the server, with the chroot.
    let path = client.chroot().apply(NODE).into_owned();
    let machine = Appearance { path, last_look: None, owner: Some(owner) };
    // The machine reports no lock events. The seed spreads the renewals of silent watches.
    client.attach(Box::new(OnSession::new(machine, Vec::<Event>::new(), fastrand::u64(..))));
    client.create_all(NODE, b"", NodeKind::Ephemeral).await?;
    println!("created");
    there.await??;
    println!("there");
    client.close().await;
    Ok(())
}
