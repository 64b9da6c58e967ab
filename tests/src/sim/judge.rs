//! Looks on and notes every promise that is broken.
//!
//! It believes neither side: what clients say about requests is compared with what the ensemble
//! has, and with what they said before.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use rustc_hash::FxHashMap;
use zk_proto::{Create2Response, CreateMode, ErrorCode, ExistsResponse, GetDataResponse};
use zk_proto::{SessionId, SetDataResponse, Zxid};
use zk_session::session::Reply;
use zk_session::{Error, Outcome, State};

use super::locks::LockJudge;
use super::{Call, CallId, Note, SimClient};
use crate::server::Ensemble;

/// What the nodes lie under that are looked for one by one.
const MADE: &str = "/made/";

/// What is known of the fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Waits,
    Applied,
    NotApplied,
    Unknown,
}

/// A version of a node: the transaction that wrote it, if there is a node.
type Seen = Option<Zxid>;

#[derive(Debug, Default)]
struct View {
    calls: BTreeMap<CallId, (Arc<Call>, Fate)>,
    last_zxid: Zxid,
    /// What was to be seen when each watch was set.
    watches: BTreeMap<CallId, (String, Seen)>,
}

/// See the module `sim`.
#[derive(Debug, Default)]
pub struct Judge {
    pub(super) locks: LockJudge,
    views: BTreeMap<u64, View>,
    /// What was written, by node and version.
    written: BTreeMap<(String, i32), String>,
    counts: FxHashMap<&'static str, u64>,
    violations: Vec<String>,
}

impl Judge {
    /// Every promise that was broken.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// How often what has happened.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.iter().map(|(what, count)| (*what, *count)).collect()
    }

    /// Adds one to a count.
    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(super) fn violated(&mut self, what: String) {
        // The first ones tell what went wrong.
        if self.violations.len() < 8 {
            self.violations.push(what);
        }
    }

    /// A client tells something.
    pub fn hear(&mut self, who: u64, session: SessionId, note: &Note, ensemble: &Ensemble) {
        let mut found = Vec::new();
        match note {
            Note::Called(id, call) => {
                let view = self.views.entry(who).or_default();
                view.calls.insert(*id, (call.clone(), Fate::Waits));
            }
            Note::Answered(id, result) => self.answered(who, *id, result),
            Note::Fired(id, _) => {
                let view = self.views.entry(who).or_default();
                if view.watches.remove(id).is_none() {
                    self.violated(format!("{who}: the watch of {id} fired without being set"));
                }
                self.count("watches fired");
            }
            Note::State(state) => {
                if let State::Ended(_) = state {
                    self.count("sessions ended");
                    self.views.entry(who).or_default().watches.clear();
                } else if let State::Connected { .. } = state {
                    self.count("connections");
                }
            }
            _ => {
                self.locks.hear((who, session), note, ensemble, &mut found);
            }
        }
        found.into_iter().for_each(|what| self.violated(what));
    }

    /// A client has done a step.
    pub fn look_at_client(&mut self, who: u64, client: &SimClient) {
        let view = self.views.entry(who).or_default();
        let (before, now) = (view.last_zxid, client.last_zxid());
        view.last_zxid = now;
        if now < before {
            self.violated(format!("{who}: the last transaction goes back, {before} to {now}"));
        }
        if client.has_ended() && (client.waiting() > 0 || client.attempts() > 0) {
            self.violated(format!("{who}: the session has ended, and not all were told"));
        }
    }

    /// A step was done.
    pub fn look(&mut self, ensemble: &Ensemble) {
        let mut found = Vec::new();
        self.locks.look(ensemble, &mut found);
        found.into_iter().for_each(|what| self.violated(what));
    }

    /// A client is no more.
    pub fn forget(&mut self, who: u64) {
        self.locks.forget(who);
        if let Some(view) = self.views.get_mut(&who) {
            view.watches.clear();
            for (_, fate) in view.calls.values_mut().filter(|(_, fate)| *fate == Fate::Waits) {
                *fate = Fate::Unknown;
            }
        }
    }

    fn answered(&mut self, who: u64, id: CallId, result: &Result<Reply, Error>) {
        self.count("answers");
        let fate = match result {
            Ok(_) => Fate::Applied,
            Err(error) if error.outcome() == Outcome::NotApplied => Fate::NotApplied,
            Err(_) => Fate::Unknown,
        };
        let Some(view) = self.views.get_mut(&who) else { return };
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
        self.check_order(who, id, &call, result);
        if let Ok(reply) = result {
            self.check_data(who, &call, reply);
        }
    }

    /// What is read is not older than what was read before, and not newer than what watches told.
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
        let Some(seen) = seen(call, result) else { return };
        let missed = view.watches.values().find(|(path, set)| path == call.path() && *set != seen);
        if let Some((path, set)) = missed {
            let what = format!("{who}: {path} is of {seen:?}, watched since {set:?}, no event");
            self.violated(what);
        } else if call.watches() {
            view.watches.insert(id, (call.path().to_owned(), seen));
        }
    }

    /// All agree on what each version of a node holds.
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
        self.note_data(call.path(), version, data);
    }

    fn note_data(&mut self, path: &str, version: i32, data: String) {
        let known = self.written.entry((path.to_owned(), version)).or_insert_with(|| data.clone());
        if *known != data {
            let what = format!("version {version} of {path} is {known} and {data}");
            self.violated(what);
        }
    }

    /// All is quiet, and has been for a while: looks at what is there.
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
        self.conclude_watches(ensemble);
        self.conclude_calls(ensemble);
        let mut found = Vec::new();
        self.locks.conclude(ensemble, &mut found);
        found.into_iter().for_each(|what| self.violated(what));
    }

    fn conclude_watches(&mut self, ensemble: &Ensemble) {
        let mut missed = Vec::new();
        let mut set = BTreeSet::new();
        for (who, view) in &self.views {
            for (path, seen) in view.watches.values() {
                set.insert((who, path));
                let there = ensemble.node(path).map(|node| node.stat().mzxid);
                if there != *seen {
                    missed.push(format!("{who}: {path} is of {there:?}, but watched at {seen:?}"));
                }
            }
        }
        let (wanted, there) = (set.len(), ensemble.watches());
        missed.into_iter().for_each(|what| self.violated(what));
        if wanted != there {
            self.violated(format!("{there} watches are set where {wanted} are waited for"));
        }
    }

    /// A node was written as often as clients were told, and at most as often as they cannot tell.
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
                "{register} was written {version} times: {applied} were told so, {unknown} may be"
            ));
        }
    }

    /// What was answered is what has happened.
    fn conclude_calls(&mut self, ensemble: &Ensemble) {
        let mut made: BTreeMap<String, usize> = BTreeMap::new();
        for (path, node) in ensemble.paths().filter_map(|path| Some((path, ensemble.node(path)?))) {
            let data = String::from_utf8_lossy(node.data().unwrap_or_default()).into_owned();
            if path.starts_with(MADE) {
                *made.entry(data).or_default() += 1;
            } else if path.starts_with("/registers/") {
                self.note_data(path, node.stat().version, data);
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
                    // Not every version was seen, but what was seen was written.
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

/// The version of the node that an answer shows.
fn seen(call: &Call, result: &Result<Reply, Error>) -> Option<Seen> {
    let reply = match result {
        Ok(reply) => reply,
        Err(Error::Server(ErrorCode::NO_NODE)) if matches!(call, Call::Look { .. }) => {
            return Some(None);
        }
        Err(_) => return None,
    };
    let stat = match call {
        Call::Read { .. } => reply.decode::<GetDataResponse<'_>>().ok()?.stat,
        Call::Look { .. } => reply.decode::<ExistsResponse>().ok()?.stat,
        Call::Write { .. } => reply.decode::<SetDataResponse>().ok()?.stat,
        Call::Create { mode: CreateMode::PERSISTENT | CreateMode::EPHEMERAL, .. } => {
            reply.decode::<Create2Response<'_>>().ok()?.stat
        }
        Call::Create { .. } | Call::Delete { .. } => return None,
    };
    Some(Some(stat.mzxid))
}
