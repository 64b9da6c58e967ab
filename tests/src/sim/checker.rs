//! Checks the guarantees of the session and the locks, and records violations.
//!
//! It trusts neither side: it compares the events of clients with the state of the ensemble, and
//! with earlier events.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::time::Duration;

use rustc_hash::FxHashMap;
use zk_proto::{Create2Response, CreateMode, ErrorCode, ExistsResponse, GetDataResponse};
use zk_proto::{OpCode, SessionId, SetDataResponse, Zxid};
use zk_recipes::LockError;
use zk_recipes::machine::Event as LockEvent;
use zk_session::session::Reply;
use zk_session::{Error, Outcome, State};

use super::barriers::BarrierChecker;
use super::histories::Histories;
use super::locks::LockChecker;
use super::tasks::Turns;
use super::watching::{Seen, Watching};
use super::{Call, CallId, ClientEvent, SimClient, rare};
use crate::server::Ensemble;

/// The prefix of nodes that the checker counts one by one.
const MADE: &str = "/made/";
/// The prefix of nodes that always exist.
pub(super) const REGISTERS: &str = "/registers/";
/// How late a request may fail by its deadline: 0.1 µs for each pending request, as
/// `Session::submit_until` documents. No simulated client has more than a thousand.
const MAX_LATENESS: Duration = Duration::from_micros(100);

/// What is known about the effect of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Waits,
    Applied,
    NotApplied,
    Unknown,
}

/// What the checker knows about one client.
#[derive(Debug, Default)]
struct View {
    calls: BTreeMap<CallId, (Arc<Call>, Fate)>,
    /// When pending requests with a deadline must have been answered.
    deadlines: BTreeMap<CallId, Duration>,
    last_zxid: Zxid,
    watching: Watching,
}

/// Records every violation of a guarantee. See the module `sim`.
#[derive(Debug, Default)]
pub struct Checker {
    pub(super) locks: LockChecker,
    turns: Turns,
    barriers: BarrierChecker,
    histories: Histories,
    views: BTreeMap<u64, View>,
    /// The requests of authentication exchanges of each session, by its last connection.
    exchanged: BTreeMap<(u64, SessionId), u64>,
    /// Clients that must lose neither session nor lock before they are connected again.
    keepers: BTreeSet<u64>,
    /// The data of each node and version.
    written: BTreeMap<(String, i32), String>,
    counts: FxHashMap<&'static str, u64>,
    violations: Vec<String>,
}

impl Checker {
    /// Returns all violations.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Returns how often each thing has happened.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.iter().map(|(what, count)| (*what, *count)).collect()
    }

    /// Adds one to a count.
    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(super) fn violated(&mut self, what: String) {
        // Later violations mostly follow from the first ones.
        if self.violations.len() < 8 && !self.violations.contains(&what) {
            self.violations.push(what);
        }
    }

    /// Records that the ensemble loses all data.
    pub(super) fn history_is_lost(&mut self) {
        self.locks.history_is_lost();
        self.turns.history_is_lost();
    }

    /// Expects these clients to keep session and locks in an outage. Returns their number.
    pub(super) fn expect_kept(&mut self, clients: impl Iterator<Item = u64>) -> usize {
        self.keepers = clients.collect();
        self.keepers.len()
    }

    /// Checks that a client keeps its session and its locks throughout an outage.
    fn check_kept(&mut self, who: u64, event: &ClientEvent) {
        match event {
            ClientEvent::State(State::Connected { .. }) => {
                self.keepers.remove(&who);
            }
            ClientEvent::State(State::Ended(_)) | ClientEvent::Lock(_, LockEvent::Lost(_))
                if self.keepers.remove(&who) =>
            {
                self.violated(format!("{who}: {event:?} in an outage shorter than the lease"));
            }
            _ => {}
        }
    }

    /// Handles an event of a client.
    pub fn handle_event(
        &mut self,
        now: Duration,
        (who, client): (u64, &SimClient),
        event: &ClientEvent,
        ensemble: &Ensemble,
    ) {
        self.check_kept(who, event);
        let is_connected = matches!(client.state(), State::Connected { .. });
        if !is_connected || matches!(event, ClientEvent::State(_)) {
            self.locks.connection_was_lost(who);
        }
        let mut found = Vec::new();
        match self.barriers.handle_event((who, client.last_zxid()), event, ensemble) {
            Some(Ok(passed)) => self.count(passed),
            Some(Err(what)) => found.push(what),
            None => {}
        }
        match self.turns.handle_event(now, who, event, &self.locks, ensemble) {
            Ok(what) => what.into_iter().for_each(|what| self.count(what)),
            Err(what) => found.push(what),
        }
        match event {
            ClientEvent::Submitted(id, call, until) => {
                let view = self.views.entry(who).or_default();
                view.calls.insert(*id, (call.clone(), Fate::Waits));
                view.deadlines.extend(until.map(|until| (*id, until + MAX_LATENESS)));
            }
            ClientEvent::Answered(id, result) => self.answered(who, *id, result),
            ClientEvent::Fired(id, event) => {
                let view = self.views.entry(who).or_default();
                if !view.watching.fired(*id, &event.path) {
                    self.violated(format!("{who}: the watch of {id} fired without being set"));
                }
                self.count("watches fired");
            }
            ClientEvent::Gap(id) => {
                let view = self.views.entry(who).or_default();
                if !view.watching.has_gap(*id) {
                    self.violated(format!("{who}: the watch of {id} has a gap without being set"));
                }
                self.count("gaps");
            }
            ClientEvent::Unwatched(id) => self.views.entry(who).or_default().watching.dropped(*id),
            ClientEvent::State(State::Ended(_)) => {
                self.count("sessions ended");
                self.views.entry(who).or_default().watching.clear();
            }
            ClientEvent::State(State::Renewing) => {
                self.count("sessions renewed");
                let view = self.views.entry(who).or_default();
                view.watching.renewed();
                view.last_zxid = Zxid::ZERO;
                self.locks.session_expired(who, &mut found);
            }
            ClientEvent::State(State::Connected { .. }) => self.count("connections"),
            ClientEvent::State(State::ReadOnly { .. }) => self.count("read-only"),
            ClientEvent::State(_) => {}
            ClientEvent::AcquiredTogether(attempts) => {
                self.count("several locks: acquired");
                if !self.locks.all_hold(who, attempts) {
                    found.push(format!("{who}: acquired {attempts:?} together, but not each"));
                }
            }
            ClientEvent::AcquiredWithoutList(_) => self.count("locks without a list"),
            ClientEvent::Reached(what) => self.count(what),
            ClientEvent::Contended(_) => self.count("kept locks contended"),
            ClientEvent::Late(_) => self.count("kept locks late"),
            _ => {
                if let ClientEvent::Lock(_, LockEvent::Failed(error)) = event
                    && matches!(error, LockError::Request(Error::ReplyTooLarge { .. }))
                {
                    self.count("lists too long");
                }
                if let ClientEvent::Lock(id, event) = event
                    && let Some(kind) = self.locks.kind((who, *id))
                    && let Some(what) = rare::of_recipe(kind, event)
                {
                    self.count(what);
                }
                if let ClientEvent::Lock(id, event) = event
                    && !self.locks.has_cause((who, *id), event, (now, client), ensemble)
                {
                    found.push(format!("{:?}: {event:?} without a cause", (who, id)));
                }
                self.locks.handle_event((who, client.id()), event, ensemble, &mut found);
            }
        }
        let owns = |attempt| self.locks.owns(attempt, ensemble);
        self.histories.handle_event(now, who, event, owns);
        found.into_iter().for_each(|what| self.violated(what));
    }

    /// Checks a client after a step. Deadlines before `now` must have been reported, and it must
    /// wake for the next one.
    pub fn check_client(&mut self, now: Duration, who: u64, client: &SimClient) {
        self.check_timeout(who, client);
        let view = self.views.entry(who).or_default();
        let (before, last) = (view.last_zxid, client.last_zxid());
        view.last_zxid = last;
        let late = view.deadlines.iter().find(|(_, until)| **until < now).map(|(id, _)| *id);
        if let Some(id) = late {
            view.deadlines.remove(&id);
            self.violated(format!("{who}: {id} was not answered by its deadline"));
        }
        if last < before {
            self.violated(format!("{who}: the last zxid goes back from {before} to {last}"));
        }
        if matches!(client.state(), State::ReadOnly { .. }) && !client.accepts_read_only() {
            self.violated(format!("{who}: served by a read-only server without having asked"));
        }
        if let Some(unaware) = self.locks.check_client(who, last) {
            self.violated(format!("{who}: {unaware}"));
        }
        if client.lease().is_some_and(|lease| lease < now) && self.locks.is_holder(who) {
            self.violated(format!("{who}: holds a lock at {now:?}, after the end of its lease"));
        }
        if client.has_ended() && (client.waiting() > 0 || client.attempts() > 0) {
            self.violated(format!(
                "{who}: the session has ended with requests or attempts pending"
            ));
        }
    }

    /// Checks that a client wakes for its next deadline, and for the end of the lease of a lock.
    fn check_timeout(&mut self, who: u64, client: &SimClient) {
        let deadlines = self.views.get(&who).and_then(|view| view.deadlines.values().min());
        let lease = client.lease().filter(|_| self.locks.is_holder(who));
        if let Some(next) = deadlines.copied().into_iter().chain(lease).min()
            && client.poll_timeout().is_none_or(|wakes| wakes > next)
        {
            let wakes = client.poll_timeout();
            self.violated(format!("{who}: sleeps until {wakes:?}, beyond {next:?}"));
        }
    }

    /// Checks that a connection has begun with an authentication exchange of two requests.
    pub(super) fn check_exchange(&mut self, who: (u64, SessionId), ensemble: &Ensemble) {
        let counters = ensemble.session_counters(who.1);
        let count = counters.map_or(0, |counters| counters.requests(OpCode::SASL));
        if count < self.exchanged.insert(who, count).unwrap_or(0) + 2 {
            self.violated(format!("{}: served without an authentication exchange", who.0));
        }
    }

    /// Checks the ensemble after a step.
    pub fn check(&mut self, ensemble: &Ensemble) {
        let mut found = Vec::new();
        self.locks.check(ensemble, &mut found);
        self.barriers.check(ensemble);
        found.into_iter().for_each(|what| self.violated(what));
    }

    /// Forgets a client that was removed.
    pub fn forget(&mut self, who: u64) {
        self.locks.forget(who);
        self.turns.forget(who);
        self.barriers.forget(who);
        self.keepers.remove(&who);
        if let Some(view) = self.views.get_mut(&who) {
            view.watching.clear();
            view.deadlines.clear();
            for (_, fate) in view.calls.values_mut().filter(|(_, fate)| *fate == Fate::Waits) {
                *fate = Fate::Unknown;
            }
        }
    }

    fn answered(&mut self, who: u64, id: CallId, result: &Result<Reply, Error>) {
        self.count("answers");
        let fate = match result {
            Ok(_) => Fate::Applied,
            Err(error) => match error.outcome() {
                Outcome::Applied => Fate::Applied,
                Outcome::NotApplied => Fate::NotApplied,
                Outcome::Unknown => Fate::Unknown,
            },
        };
        let Some(view) = self.views.get_mut(&who) else { return };
        view.deadlines.remove(&id);
        let Some((call, before)) = view.calls.get_mut(&id) else { return };
        let call = call.clone();
        if core::mem::replace(before, fate) != Fate::Waits {
            self.violated(format!("{who}: {id} {call:?} was answered twice"));
            return;
        }
        match fate {
            Fate::Applied => self.count("answered: applied"),
            Fate::NotApplied => self.count("answered: not applied"),
            _ => self.count("answered: unknown"),
        }
        match result {
            Err(Error::DeadlinePassed { .. }) => self.count("deadlines passed"),
            Err(Error::ReplyTooLarge { .. }) => self.count("replies too long"),
            _ => {}
        }
        self.check_order(who, id, &call, result);
        if let Ok(reply) = result {
            self.check_data(who, &call, reply);
        }
    }

    /// Checks that a reply is not older than earlier replies, nor newer than the watch events.
    fn check_order(&mut self, who: u64, id: CallId, call: &Call, result: &Result<Reply, Error>) {
        let Some(view) = self.views.get_mut(&who) else { return };
        if let Ok(reply) = result
            && reply.zxid < view.last_zxid
        {
            let (last, zxid) = (view.last_zxid, reply.zxid);
            self.violated(format!("{who}: {id} {call:?} is from {zxid}, {last} was seen before"));
            return;
        }
        if let Ok(reply) = result {
            view.last_zxid = reply.zxid;
        }
        if let (Call::Watch { path, below }, Ok(_)) = (call, result) {
            view.watching.set_persistent(id, path, *below);
        }
        let Some(seen) = seen(call, result) else { return };
        if let Err(missed) = view.watching.saw(id, call, seen) {
            self.violated(format!("{who}: {missed}"));
        }
    }

    /// Checks that all clients agree on the data of each version of a node.
    fn check_data(&mut self, who: u64, call: &Call, reply: &Reply) {
        let (version, data) = match call {
            Call::Write { data, .. } => match reply.decode::<SetDataResponse>() {
                Ok(response) => (response.stat.version, data.clone()),
                Err(error) => return self.violated(format!("{who}: {error}")),
            },
            Call::Read { .. } => match reply.decode::<GetDataResponse<'_>>() {
                Ok(response) => {
                    let data = response.data.unwrap_or_default();
                    (response.stat.version, String::from_utf8_lossy(data).into_owned())
                }
                Err(error) => return self.violated(format!("{who}: {error}")),
            },
            _ => return,
        };
        // Versions start again at 0 when a node is created again.
        if call.path().starts_with(REGISTERS) {
            self.check_version(call.path(), version, data);
        }
    }

    fn check_version(&mut self, path: &str, version: i32, data: String) {
        let known = self.written.entry((path.to_owned(), version)).or_insert_with(|| data.clone());
        if *known != data {
            let what = format!("version {version} of {path} is {known} and {data}");
            self.violated(what);
        }
    }

    /// Checks the final state, after a time without requests and faults.
    pub fn conclude(&mut self, ensemble: &Ensemble, clients: &[(u64, &SimClient)]) {
        for (who, client) in clients {
            match client.state() {
                State::Connected { .. } | State::Ended(_) => {}
                state => self.violated(format!("{who}: still {state:?}")),
            }
            if client.waiting() > 0 || client.attempts() > 0 {
                let (calls, attempts) = (client.waiting(), client.attempts());
                self.violated(format!(
                    "{who}: {calls} requests and {attempts} attempts unanswered"
                ));
            }
        }
        self.conclude_watches(ensemble, clients);
        self.conclude_calls(ensemble);
        let mut found = Vec::new();
        self.locks.conclude(ensemble, &mut found);
        // Whatever was found before, they are judged.
        let judged = self.histories.conclude(&mut self.violations);
        let what = ["reads judged", "acquisitions judged", "fenced writes judged"];
        for (what, count) in what.into_iter().zip(judged).filter(|(_, count)| *count > 0) {
            *self.counts.entry(what).or_default() += count as u64;
        }
        found.into_iter().for_each(|what| self.violated(what));
    }

    /// Checks that the ensemble has the expected watches only, and that no event is missing.
    fn conclude_watches(&mut self, ensemble: &Ensemble, clients: &[(u64, &SimClient)]) {
        let (mut wanted, mut wrong) = (BTreeSet::new(), Vec::new());
        for (who, client) in clients {
            let Some(View { watching, .. }) = self.views.get(who) else { continue };
            wanted.extend(watching.paths().map(|path| (client.id(), path)));
            let mut missed = Vec::new();
            watching.conclude(ensemble, &mut missed);
            wrong.extend(missed.into_iter().map(|what| format!("{who}: {what}")));
        }
        let watched = ensemble.watched();
        // A Keeper keeps watches that were dropped until one shows that it can remove them.
        let unwanted = watched.difference(&wanted).filter(|_| ensemble.keeper().is_none());
        let unwanted = unwanted.map(|it| format!("{it:?}: an unexpected watch"));
        let lost = wanted.difference(&watched).map(|it| format!("{it:?}: a missing watch"));
        wrong.extend(unwanted.chain(lost));
        wrong.into_iter().for_each(|what| self.violated(what));
    }

    /// Checks that a node's version counts all applied writes, and unknown ones at most once.
    fn conclude_writes(&mut self, register: &str, version: i32) {
        let (mut applied, mut unknown) = (0, 0);
        for (call, fate) in self.views.values().flat_map(|view| view.calls.values()) {
            match (&**call, fate) {
                (Call::Write { path, .. }, _) if path != register => {}
                (Call::Write { .. }, Fate::Applied) => applied += 1,
                (Call::Write { .. }, Fate::Unknown | Fate::Waits) => unknown += 1,
                _ => {}
            }
        }
        if !(applied..=applied + unknown).contains(&version) {
            self.violated(format!(
                "{register} was written {version} times: {applied} applied, {unknown} unknown"
            ));
        }
    }

    /// Checks that the outcomes of requests match the state of the ensemble.
    fn conclude_calls(&mut self, ensemble: &Ensemble) {
        let mut made: BTreeMap<String, usize> = BTreeMap::new();
        for (path, node) in ensemble.paths().filter_map(|path| Some((path, ensemble.node(path)?))) {
            let data = String::from_utf8_lossy(node.data().unwrap_or_default()).into_owned();
            if path.starts_with(MADE) {
                *made.entry(data).or_default() += 1;
            } else if path.starts_with(REGISTERS) {
                self.check_version(path, node.stat().version, data);
                self.conclude_writes(path, node.stat().version);
            }
        }
        let written: BTreeSet<&str> = self.written.values().map(String::as_str).collect();
        let mut wrong = Vec::new();
        for (who, view) in &self.views {
            for (id, (call, fate)) in &view.calls {
                let times = match &**call {
                    Call::Create { path, .. } if path.starts_with(MADE) => {
                        made.get(path).copied().unwrap_or(0)
                    }
                    // Not every version was read, but each that was read must have been written.
                    Call::Write { data, .. } if *fate == Fate::NotApplied => {
                        usize::from(written.contains(data.as_str()))
                    }
                    _ => continue,
                };
                let is_right = match fate {
                    Fate::Applied => times == 1,
                    Fate::NotApplied => times == 0,
                    Fate::Unknown | Fate::Waits => times <= 1,
                };
                if !is_right {
                    wrong
                        .push(format!("{who}: {id} {call:?} is {fate:?}, but {times} times there"));
                }
            }
        }
        wrong.into_iter().for_each(|what| self.violated(what));
    }
}

/// Returns the version of the node that a reply shows.
fn seen(call: &Call, result: &Result<Reply, Error>) -> Option<Seen> {
    let reply = match result {
        Ok(reply) => reply,
        Err(Error::Server(ErrorCode::NO_NODE))
            if matches!(call, Call::Look { .. } | Call::Peek { .. }) =>
        {
            return Some(None);
        }
        Err(_) => return None,
    };
    let stat = match call {
        Call::Read { .. } => reply.decode::<GetDataResponse<'_>>().ok()?.stat,
        Call::Look { .. } | Call::Peek { .. } => reply.decode::<ExistsResponse>().ok()?.stat,
        Call::Write { .. } => reply.decode::<SetDataResponse>().ok()?.stat,
        Call::Create { mode: CreateMode::PERSISTENT | CreateMode::EPHEMERAL, .. } => {
            reply.decode::<Create2Response<'_>>().ok()?.stat
        }
        Call::Create { .. }
        | Call::Delete { .. }
        | Call::Watch { .. }
        | Call::Sync { .. }
        | Call::WriteFenced { .. } => return None,
    };
    Some(Some(stat.mzxid))
}
