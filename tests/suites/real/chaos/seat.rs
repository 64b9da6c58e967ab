//! One client: a session that counts and watches, and a new session when it has expired.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;
use zk_session::proto::{
    ErrorCode, GetDataRequest, GetDataResponse, NodeKind, Request, SessionId, SetDataRequest,
    SetDataResponse, Zxid,
};
use zk_session::{Client, End, Error, Outcome, PersistentWatch, RequestError, Tokio, WatchUpdate};

use super::access::Access;
use super::ledger::{Entry, Ledger};
use super::{BELL, COUNTERS, HANG_TIMEOUT, LIVING, counter};

pub(super) struct Seat {
    number: usize,
    access: Access,
    rng: fastrand::Rng,
    ledger: Arc<Ledger>,
    /// The newest version of the bell received here.
    bell: watch::Sender<i32>,
    stopped: watch::Receiver<bool>,
    events: u64,
}

/// The final state of a seat.
pub(super) struct Found {
    /// The last session, still alive.
    pub(super) client: Client,
    /// The name of its ephemeral node.
    pub(super) node: String,
    pub(super) expired: Vec<SessionId>,
    pub(super) connections: u64,
    pub(super) events: u64,
}

impl Seat {
    pub(super) fn new(
        number: usize,
        access: &Access,
        rng: fastrand::Rng,
        ledger: Arc<Ledger>,
        bell: watch::Sender<i32>,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        Self { number, access: access.clone(), rng, ledger, bell, stopped, events: 0 }
    }

    pub(super) async fn run(mut self) -> Found {
        let (mut expired, mut connections) = (Vec::new(), 0);
        loop {
            let client = self.access.connect().await;
            let ended = self.live(&client).await;
            connections += client.statistics().connections;
            match ended {
                Ok(node) => {
                    return Found { client, node, expired, connections, events: self.events };
                }
                Err(End::Expired) => expired.push(client.session_id()),
                Err(end) => panic!("seat {}: {end}", self.number),
            }
        }
    }

    /// Uses the session until the test or the session ends. Returns the name of its ephemeral node.
    async fn live(&mut self, client: &Client) -> Result<String, End> {
        let node = format!("{}-{}", self.number, client.session_id());
        let path = format!("{LIVING}/{node}");
        loop {
            match client.create(&path, b"", NodeKind::Ephemeral).await {
                Ok(_) => break,
                Err(error) if error.code() == Some(ErrorCode::NODE_EXISTS) => break,
                Err(error) => survivable(&error.reason)?,
            }
        }
        let counting = count(client, self.rng.fork(), &self.ledger, &self.stopped);
        let listening = listen(client, self.number, &self.ledger, &self.bell, &mut self.events);
        tokio::select! {
            end = listening => return Err(end),
            counted = counting => counted?,
        }
        loop {
            let answer = tokio::time::timeout(HANG_TIMEOUT, client.sync("/")).await;
            match answer.unwrap_or_else(|_| panic!("{node} is neither alive nor expired")) {
                Ok(()) => return Ok(node),
                Err(error) => survivable(&error.reason)?,
            }
        }
    }
}

/// Returns how the session has ended, if the error says so. Any other error except a lost
/// connection is a fault.
fn survivable(error: &Error) -> Result<(), End> {
    match error {
        Error::Ended { end, .. } => Err(*end),
        Error::ConnectionLost => Ok(()),
        other => panic!("{other}"),
    }
}

/// The newest zxid and versions seen by one task, which must not go back.
struct Seen<'a> {
    ledger: &'a Ledger,
    zxid: Zxid,
    versions: HashMap<String, i32>,
}

impl<'a> Seen<'a> {
    fn new(ledger: &'a Ledger) -> Self {
        Self { ledger, zxid: Zxid::ZERO, versions: HashMap::new() }
    }

    fn see(&mut self, zxid: Zxid, path: &str, version: i32) {
        if zxid < self.zxid {
            self.ledger.violation(format!("zxid {zxid} in a reply after {}", self.zxid));
        }
        self.zxid = zxid;
        let newest = self.versions.entry(path.to_owned()).or_default();
        if version < *newest {
            self.ledger.violation(format!("version {version} of {path} after {newest}"));
        }
        *newest = version;
    }

    async fn read(&mut self, client: &Client, path: &str) -> Result<(i32, Vec<u8>), Error> {
        let reply = client.submit(&Request::GetData(GetDataRequest { path, watch: false })).await?;
        let GetDataResponse { data, stat } = reply.decode()?;
        self.see(reply.zxid, path, stat.version);
        Ok((stat.version, data.unwrap_or_default().to_vec()))
    }
}

/// Increments counters from the value read, until it is stopped.
async fn count(
    client: &Client,
    mut rng: fastrand::Rng,
    ledger: &Ledger,
    stopped: &watch::Receiver<bool>,
) -> Result<(), End> {
    let mut seen = Seen::new(ledger);
    while !*stopped.borrow() {
        let number = rng.usize(..COUNTERS);
        if let Err(error) = raise(client, number, rng.u64(1..), &mut seen).await {
            survivable(&error)?;
        }
        tokio::time::sleep(Duration::from_millis(rng.u64(..10))).await;
    }
    Ok(())
}

async fn raise(
    client: &Client,
    number: usize,
    attempt: u64,
    seen: &mut Seen<'_>,
) -> Result<(), Error> {
    let path = &counter(number);
    let (version, data) = seen.read(client, path).await?;
    let entry = str::from_utf8(&data).ok().and_then(|text| text.parse::<Entry>().ok());
    let Some(entry) = entry else {
        seen.ledger.violation(format!("{path} holds {data:?}"));
        return Ok(());
    };
    seen.ledger.seen(number, version, entry);
    let next = Entry { count: entry.count + 1, attempt };
    let data = next.to_string();
    let request = SetDataRequest { path, data: Some(data.as_bytes()), version };
    let from = seen.ledger.now();
    match client.submit(&Request::SetData(request)).await {
        Ok(reply) => {
            let SetDataResponse { stat } = reply.decode()?;
            seen.see(reply.zxid, path, stat.version);
            seen.ledger.acknowledged(number, from, stat.version, next);
            Ok(())
        }
        Err(error) if error.code() == Some(ErrorCode::BAD_VERSION) => Ok(()),
        Err(error) => {
            if error.outcome() == Outcome::Unknown {
                seen.ledger.unknown(number, from, next);
            }
            Err(error.into())
        }
    }
}

/// Watches the bell until the session ends, in one of three ways.
async fn listen(
    client: &Client,
    number: usize,
    ledger: &Ledger,
    bell: &watch::Sender<i32>,
    events: &mut u64,
) -> End {
    let mut seen = Seen::new(ledger);
    loop {
        let listened = match number % 4 {
            0 => listen_for_ever(client, client.watch(BELL), &mut seen, bell, events).await,
            1 => {
                let watch = client.watch_recursively("/chaos");
                listen_for_ever(client, watch, &mut seen, bell, events).await
            }
            _ => listen_once(client, &mut seen, bell, events).await,
        };
        if let Err(Err(end)) = listened.map_err(|error| survivable(&error)) {
            return end;
        }
    }
}

async fn listen_once(
    client: &Client,
    seen: &mut Seen<'_>,
    bell: &watch::Sender<i32>,
    events: &mut u64,
) -> Result<(), Error> {
    let request = Request::GetData(GetDataRequest { path: BELL, watch: true });
    let (answer, watch) = client.submit_and_watch(&request);
    let reply = answer.await?;
    let version = reply.decode::<GetDataResponse<'_>>()?.stat.version;
    seen.see(reply.zxid, BELL, version);
    bell.send_replace(version);
    if let Some(watch) = watch {
        watch.await?;
        *events += 1;
    }
    Ok(())
}

async fn listen_for_ever(
    client: &Client,
    watch: impl Future<Output = Result<PersistentWatch<Tokio>, RequestError>>,
    seen: &mut Seen<'_>,
    bell: &watch::Sender<i32>,
    events: &mut u64,
) -> Result<(), Error> {
    let mut watch = watch.await?;
    loop {
        match seen.read(client, BELL).await {
            Ok((version, _)) => drop(bell.send_replace(version)),
            Err(Error::ConnectionLost) => continue,
            Err(error) => return Err(error),
        }
        // Skips the events of the counters.
        loop {
            match watch.next().await? {
                WatchUpdate::Event(event) if &*event.path != BELL => {}
                _ => break,
            }
        }
        *events += 1;
    }
}
