//! Histories of a run, for the checker of linearizability.

use alloc::collections::BTreeMap;
use core::time::Duration;

use zk_proto::{GetDataResponse, MultiResponse, MultiResult, SetDataResponse, Zxid};
use zk_recipes::machine::{Event as LockEvent, LockMode};
use zk_session::session::Reply;
use zk_session::{Error, Outcome};

use super::behaviour::FENCED;
use super::checker::REGISTERS;
use super::{AttemptId, Call, CallId, ClientEvent, LockKind};
use crate::linearizable::{Model, OnFenced, OnLock, OnRegister, Operation, check};

/// A client and its request or attempt.
type Who = (u64, u64);

/// A held lock.
#[derive(Debug)]
struct Hold {
    lock: String,
    mode: LockMode,
    token: Zxid,
    acquired: Duration,
    /// When the conversion began that is not answered yet.
    converting: Option<Duration>,
    /// When its owner gave it up.
    released: Option<Duration>,
}

/// The histories of all registers, mutexes, read/write locks and textbook locks.
#[derive(Debug, Default)]
pub(super) struct Histories {
    registers: BTreeMap<String, Vec<Operation<OnRegister>>>,
    /// That of the register that holders of a lock write.
    fenced: Vec<Operation<OnFenced>>,
    locks: BTreeMap<String, Vec<Operation<OnLock>>>,
    /// Unanswered requests, and when they were submitted.
    calls: BTreeMap<Who, (Duration, alloc::sync::Arc<Call>)>,
    /// The answered `sync` of each client: its number, and when it was submitted.
    synced: BTreeMap<u64, (CallId, Duration)>,
    attempts: BTreeMap<Who, (Duration, String, LockMode)>,
    holds: BTreeMap<Who, Hold>,
}

impl Histories {
    /// Records an event. `owns` says whether the ensemble has the node of an attempt.
    pub(super) fn handle_event(
        &mut self,
        now: Duration,
        who: u64,
        event: &ClientEvent,
        owns: impl Fn((u64, AttemptId)) -> bool,
    ) {
        match event {
            ClientEvent::Submitted(id, call, _)
                if matches!(
                    **call,
                    Call::Write { .. }
                        | Call::WriteFenced { .. }
                        | Call::Read { .. }
                        | Call::Sync { .. }
                ) && (call.path().starts_with(REGISTERS) || call.path() == FENCED) =>
            {
                self.calls.insert((who, *id), (now, call.clone()));
            }
            ClientEvent::Answered(id, result) => self.answered(now, (who, *id), result),
            ClientEvent::AttemptStarted(id, lock, kind) => {
                let mode = match kind {
                    LockKind::Mutex | LockKind::Write | LockKind::Textbook => LockMode::Exclusive,
                    LockKind::Read => LockMode::Shared,
                    _ => return,
                };
                self.attempts.insert((who, *id), (now, lock.clone(), mode));
            }
            ClientEvent::Converting(id) => {
                if let Some(hold) = self.holds.get_mut(&(who, *id)) {
                    hold.converting = Some(now);
                }
            }
            ClientEvent::Lock(id, event) => {
                self.lock_event(now, (who, *id), event, owns((who, *id)));
            }
            ClientEvent::Released(id) => {
                let owns = owns((who, *id));
                if let Some(hold) = self.holds.get_mut(&(who, *id)) {
                    // Otherwise its node is gone, and the owner does not know it yet.
                    hold.released = owns.then_some(now);
                }
            }
            ClientEvent::AttemptFinished(id) => {
                self.attempts.remove(&(who, *id));
                self.gave_up((who, *id), None);
            }
            _ => {}
        }
    }

    fn answered(&mut self, now: Duration, who: Who, result: &Result<Reply, Error>) {
        let Some((from, call)) = self.calls.remove(&who) else { return };
        let (client, id) = who;
        let (from, to, what) = match (&*call, result) {
            (Call::Sync { .. }, Ok(_)) => {
                self.synced.insert(client, (id, from));
                return;
            }
            (Call::Write { data, .. }, Ok(reply)) => {
                let Ok(SetDataResponse { stat }) = reply.decode() else { return };
                let (data, version) = (data.clone(), Some(stat.version));
                (from, Some(now), OnRegister::Write { data, version })
            }
            (Call::WriteFenced { data, .. }, Ok(reply)) => {
                let Ok(results) = reply.decode::<MultiResponse<'_>>() else { return };
                // Otherwise the lock was gone.
                let Some(MultiResult::SetData(SetDataResponse { stat })) = results.iter().last()
                else {
                    return;
                };
                let (data, version) = (data.clone(), Some(stat.version));
                (from, Some(now), OnRegister::Write { data, version })
            }
            (Call::Write { data, .. } | Call::WriteFenced { data, .. }, Err(error))
                if error.outcome() != Outcome::NotApplied =>
            {
                (from, None, OnRegister::Write { data: data.clone(), version: None })
            }
            (Call::Read { .. }, Ok(reply)) => {
                let Some((_, from)) = self.synced.get(&client).filter(|(sync, _)| sync + 1 == id)
                else {
                    return;
                };
                let Ok(GetDataResponse { data, stat }) = reply.decode() else { return };
                let data = String::from_utf8_lossy(data.unwrap_or_default()).into_owned();
                (*from, Some(now), OnRegister::Read { data, version: stat.version })
            }
            _ => return,
        };
        self.push(call.path(), Operation { from, to, what });
    }

    /// Adds an operation to the history of its register.
    fn push(&mut self, path: &str, Operation { from, to, what }: Operation<OnRegister>) {
        if path == FENCED {
            // Before the first write there is no token.
            let (OnRegister::Write { data, .. } | OnRegister::Read { data, .. }) = &what;
            let token = data.split(' ').next().and_then(|token| token.parse().ok());
            let what = OnFenced { token: token.unwrap_or(0), what };
            self.fenced.push(Operation { from, to, what });
        } else {
            let history = self.registers.entry(path.to_owned()).or_default();
            history.push(Operation { from, to, what });
        }
    }

    fn lock_event(&mut self, now: Duration, who: Who, event: &LockEvent, owns: bool) {
        match event {
            LockEvent::Acquired { token, .. } => {
                let Some((from, lock, mode)) = self.attempts.get(&who) else { return };
                let what = match mode {
                    LockMode::Exclusive => OnLock::Acquire(token.0),
                    LockMode::Shared => OnLock::AcquireShared(token.0),
                };
                let history = self.locks.entry(lock.clone()).or_default();
                // Otherwise its node is gone already: it held the lock before, if ever.
                let (acquired, to) = if owns { (now, Some(now)) } else { (*from, None) };
                history.push(Operation { from: *from, to, what });
                let (lock, mode, token) = (lock.clone(), *mode, *token);
                let hold = Hold { lock, mode, token, acquired, converting: None, released: None };
                self.holds.insert(who, hold);
            }
            LockEvent::Converted { mode, token, .. } => {
                self.converted(now, who, *mode, *token, owns);
            }
            LockEvent::NotConverted(_) => {
                if let Some(hold) = self.holds.get_mut(&who) {
                    hold.converting = None;
                }
            }
            LockEvent::Released => self.gave_up(who, Some(now)),
            LockEvent::Lost(_) | LockEvent::Failed(_) | LockEvent::Refused(_) => {
                self.gave_up(who, None);
            }
            _ => {}
        }
    }

    fn converted(&mut self, now: Duration, who: Who, mode: LockMode, token: Zxid, owns: bool) {
        let Some(hold) = self.holds.get_mut(&who) else { return };
        let Some(from) = hold.converting.take().filter(|_| hold.mode != mode) else { return };
        let what = match mode {
            LockMode::Exclusive => OnLock::Upgrade(hold.token.0, token.0),
            LockMode::Shared => OnLock::Downgrade(token.0),
        };
        let history = self.locks.entry(hold.lock.clone()).or_default();
        history.push(Operation { from, to: Some(now), what });
        (hold.mode, hold.token) = (mode, token);
        // If its node is gone already, the lock may have been free before its owner knew the new mode.
        hold.acquired = if owns { now } else { from };
    }

    /// Records the end of a hold. A lock that was lost may be free at any time after its acquisition
    /// or its last conversion.
    fn gave_up(&mut self, who: Who, to: Option<Duration>) {
        let Some(hold) = self.holds.remove(&who) else { return };
        let Hold { lock, mode, token, acquired, converting, released } = hold;
        let history = self.locks.entry(lock).or_default();
        if let (LockMode::Exclusive, Some(from)) = (mode, converting) {
            // The downgrade may have been applied, so readers may have acquired the lock.
            history.push(Operation { from, to: None, what: OnLock::Downgrade(token.0) });
        }
        let what = OnLock::Release(token.0);
        let to = to.filter(|_| released.is_some());
        history.push(Operation { from: released.unwrap_or(acquired), to, what });
    }

    /// Checks all histories, and adds violations to `found`. Returns how many reads of registers,
    /// acquisitions of locks and writes of their holders were judged.
    pub(super) fn conclude(&mut self, found: &mut Vec<String>) -> [usize; 3] {
        // Clients that crashed.
        for who in self.holds.keys().copied().collect::<Vec<_>>() {
            self.gave_up(who, None);
        }
        for (from, call) in core::mem::take(&mut self.calls).into_values() {
            if let Call::Write { path, data } | Call::WriteFenced { path, data, .. } = &*call {
                let what = OnRegister::Write { data: data.clone(), version: None };
                self.push(path, Operation { from, to: None, what });
            }
        }
        self.registers.values_mut().for_each(|history| resolve(history, |what| what));
        resolve(&mut self.fenced, |it| &mut it.what);
        self.registers.iter().for_each(|(path, history)| judge(path, history, found));
        judge(FENCED, &self.fenced, found);
        self.locks.iter().for_each(|(path, history)| judge(path, history, found));
        let is_read = |it: &&Operation<_>| matches!(it.what, OnRegister::Read { .. });
        let is_fenced_write = |it: &&Operation<OnFenced>| {
            it.to.is_some() && matches!(it.what.what, OnRegister::Write { .. })
        };
        let is_acquisition = |it: &&Operation<_>| {
            use OnLock::{Acquire, AcquireShared, Upgrade};
            matches!(it.what, Acquire(_) | AcquireShared(_) | Upgrade(..)) && it.to.is_some()
        };
        [
            self.registers.values().flatten().filter(is_read).count(),
            self.locks.values().flatten().filter(is_acquisition).count(),
            self.fenced.iter().filter(is_fenced_write).count(),
        ]
    }
}

/// Adds what is known about writes of unknown outcome: the version, if their data was read.
/// Otherwise nobody can tell them apart.
fn resolve<M>(history: &mut [Operation<M>], register: impl Fn(&mut M) -> &mut OnRegister) {
    let mut read = BTreeMap::new();
    for operation in history.iter_mut() {
        if let OnRegister::Read { data, version } = register(&mut operation.what) {
            read.insert(data.clone(), *version);
        }
    }
    for operation in history.iter_mut().filter(|operation| operation.to.is_none()) {
        if let OnRegister::Write { data, version } = register(&mut operation.what) {
            match read.get(data) {
                Some(known) => *version = Some(*known),
                None => data.clear(),
            }
        }
    }
}

fn judge<M: Model + Clone + PartialEq + core::fmt::Debug>(
    path: &str,
    history: &[Operation<M>],
    found: &mut Vec<String>,
) {
    if let Err(stuck) = check(history) {
        found.push(format!("{path}: its history is not linearizable at {stuck:?}"));
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;

    use bytes::BytesMut;
    use zk_proto::{Encode, OpCode, Stat};

    use super::*;

    const PATH: &str = "/registers/0";

    /// Writes twice, then reads this version behind a `sync`, on another client.
    fn judged(version: i32) -> ([usize; 3], Vec<String>) {
        let (mut histories, mut now) = (Histories::default(), Duration::ZERO);
        let mut ask = |who, id, call, opcode, body: &dyn Fn(&mut BytesMut)| {
            let mut bytes = BytesMut::new();
            body(&mut bytes);
            let reply = Reply::new(opcode, Zxid(1), bytes.freeze());
            let submitted = ClientEvent::Submitted(id, Arc::new(call), None);
            for event in [submitted, ClientEvent::Answered(id, Ok(reply))] {
                now += Duration::from_secs(1);
                histories.handle_event(now, who, &event, |_| true);
            }
        };
        let stat = |version| Stat { version, ..Stat::default() };
        for version in 1..=2 {
            let call = Call::Write { path: PATH.into(), data: version.to_string() };
            let response = SetDataResponse { stat: stat(version) };
            ask(1, version as u64, call, OpCode::SET_DATA, &|out| response.encode(out));
        }
        ask(2, 1, Call::Sync { path: PATH.into() }, OpCode::SYNC, &|_| {});
        let data = version.to_string();
        let response = GetDataResponse { data: Some(data.as_bytes()), stat: stat(version) };
        let call = Call::Read { path: PATH.into() };
        ask(2, 2, call, OpCode::GET_DATA, &|out| response.encode(out));
        let mut found = Vec::new();
        (histories.conclude(&mut found), found)
    }

    #[test]
    fn a_stale_read_behind_a_sync_is_found() {
        assert_eq!(judged(2), ([1, 0, 0], Vec::new()));
        let (counts, found) = judged(1);
        assert_eq!(counts, [1, 0, 0]);
        assert!(found[0].contains("not linearizable"), "{found:?}");
    }
}
