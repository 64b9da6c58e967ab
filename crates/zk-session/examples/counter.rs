//! A custom state machine attached to a session: it adds to a counter that clients share.
//!
//! `counter [host:port,...]`. Without an address it starts its own ensemble.

use tokio::sync::oneshot;
use zk_session::dispatch::{Attached, Input, Port};
use zk_session::proto::{ErrorCode, NodeKind};
use zk_session::proto::{GetDataRequest, GetDataResponse, Request, SetDataRequest};
use zk_session::session::Reply;
use zk_session::{Client, Error};
use zk_test_server::serve::Embedded;

type Result<T> = core::result::Result<T, Box<dyn core::error::Error + Send + Sync>>;

const COUNTER: &str = "/example-counter";
const READ: u64 = 0;
const WRITE: u64 = 1;

/// Reads the counter and its version, then writes the sum on condition of that version.
struct Add {
    amount: i64,
    sum: i64,
    is_started: bool,
    /// Receives the result. `None` when the machine is finished.
    owner: Option<oneshot::Sender<Result<i64>>>,
}

impl Attached for Add {
    fn handle(&mut self, input: Input, port: &mut Port<'_>) {
        match input {
            // The first input comes with or without a connection: the request waits for one.
            Input::State(_) if !self.is_started => {
                self.is_started = true;
                read(port);
            }
            Input::Reply { tag: READ, result: Ok(reply) } => {
                if let Err(error) = self.write(&reply, port) {
                    self.finish(Err(error), port);
                }
            }
            Input::Reply { tag: WRITE, result: Ok(_) } => self.finish(Ok(self.sum), port),
            // Another client was faster.
            Input::Reply { result: Err(Error::Server(ErrorCode::BAD_VERSION)), .. } => read(port),
            // Repeat reads only: a write may have been applied.
            Input::Reply { tag: READ, result: Err(Error::ConnectionLost) } => read(port),
            Input::Reply { result: Err(error), .. } => self.finish(Err(error.into()), port),
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        self.owner.is_none()
    }
}

fn read(port: &mut Port<'_>) {
    port.submit(READ, &Request::GetData(GetDataRequest { path: COUNTER, watch: false }));
}

impl Add {
    fn write(&mut self, reply: &Reply, port: &mut Port<'_>) -> Result<()> {
        let GetDataResponse { data, stat } = reply.decode()?;
        self.sum = core::str::from_utf8(data.unwrap_or_default())?.parse::<i64>()? + self.amount;
        let (sum, version) = (self.sum.to_string(), stat.version);
        let write = SetDataRequest { path: COUNTER, data: Some(sum.as_bytes()), version };
        port.submit(WRITE, &Request::SetData(write));
        Ok(())
    }

    fn finish(&mut self, result: Result<i64>, port: &mut Port<'_>) {
        if let Some(owner) = self.owner.take() {
            // This wakes a task, which has to wait until the session is unlocked.
            port.defer(move || drop(owner.send(result)));
        }
    }
}

async fn add(client: &Client, amount: i64) -> Result<i64> {
    let (owner, sum) = oneshot::channel();
    client.attach(Box::new(Add { amount, sum: 0, is_started: false, owner: Some(owner) }));
    sum.await?
}

pub(crate) async fn run(at: &str) -> Result<i64> {
    let client = Client::connect(at).await?;
    client.create(COUNTER, b"0", NodeKind::Persistent).await?;
    // All machines read the same version first. One of them writes, and the others read again.
    let sums = tokio::join!(add(&client, 1), add(&client, 20), add(&client, 300));
    client.delete(COUNTER, None).await?;
    client.close().await;
    Ok(sums.0?.max(sums.1?).max(sums.2?))
}

#[tokio::main]
async fn main() -> Result<()> {
    let embedded = Embedded::start(3).await?;
    let at = std::env::args().nth(1).unwrap_or_else(|| embedded.connect_string());
    println!("1 + 20 + 300 = {}", run(&at).await?);
    Ok(())
}
