//! Hand-made logs: a right one, and one for each broken guarantee.

use zk_proto::OpCode;

use super::*;

const LOCK: &str = "/lock";
const REGISTER: &str = "/register";
const GUID: &str = "_c_12345678-1234-1234-1234-123456789abc-lock-";

/// Applies hand-made transactions with consecutive zxids.
struct Log {
    oracle: LogOracle,
    zxid: i64,
    versions: BTreeMap<String, i32>,
}

impl Log {
    /// Two open sessions, 1 and 2, and a lock with a register and a marker of each.
    fn new() -> Self {
        let place = Place {
            lock: LOCK,
            scheme: Scheme::CURATOR_MUTEX,
            register: Some(REGISTER),
            markers: &["/marker-"],
        };
        let oracle = LogOracle::new(vec![place]);
        let mut log = Self { oracle, zxid: 0, versions: BTreeMap::new() };
        for session in [1, 2] {
            log.apply(session, &Change::OpenSession);
            log.create(session, &format!("/marker-{session}"), false);
        }
        log.create(1, LOCK, false);
        log.create(1, REGISTER, false);
        log
    }

    fn apply(&mut self, session: i64, change: &Change<'_>) -> Zxid {
        self.zxid += 1;
        let (zxid, session) = (Zxid(self.zxid), SessionId(session));
        // The oracle goes by the change.
        self.oracle.apply(&Logged { zxid, operation: OpCode::MULTI, session }, change);
        zxid
    }

    fn create(&mut self, session: i64, path: &str, is_ephemeral: bool) -> Zxid {
        self.apply(session, &Change::Create { path, data: Some(b"0 0"), is_ephemeral })
    }

    /// Creates a lock node. Returns its token.
    fn enqueue(&mut self, session: i64, sequence: u32) -> Zxid {
        self.create(session, &lock_node(sequence), true)
    }

    fn delete(&mut self, session: i64, sequence: u32) {
        self.apply(session, &Change::Delete { path: &lock_node(sequence) });
    }

    fn set(&mut self, session: i64, path: &str, data: &str) -> Zxid {
        let version = self.versions.entry(path.to_owned()).or_default();
        *version += 1;
        let (version, data) = (*version, Some(data.as_bytes()));
        self.apply(session, &Change::SetData { path, data, version })
    }

    /// Writes to the register, in a transaction that checks the lock node.
    fn write(&mut self, session: i64, sequence: u32, Zxid(token): Zxid) -> Zxid {
        let version = self.versions.entry(REGISTER.to_owned()).or_default();
        *version += 1;
        let (version, data, node) = (*version, format!("{token} 7"), lock_node(sequence));
        let set = Change::SetData { path: REGISTER, data: Some(data.as_bytes()), version };
        self.apply(session, &Change::Multi(vec![Change::Check { path: &node }, set]))
    }

    fn mark(&mut self, session: i64, Zxid(token): Zxid) -> Zxid {
        self.set(session, &format!("/marker-{session}"), &token.to_string())
    }

    fn conclude(mut self) -> (Counts, Vec<Violation>) {
        for session in [1, 2] {
            if self.oracle.sessions.contains(&SessionId(session)) {
                self.apply(session, &Change::CloseSession { paths: vec![] });
            }
        }
        let verdict = self.oracle.conclude();
        assert_eq!(verdict.violation_count, verdict.violations.len() as u64);
        (verdict.counts(LOCK), verdict.violations)
    }
}

fn lock_node(sequence: u32) -> String {
    format!("{LOCK}/{GUID}{sequence:010}")
}

#[test]
fn turns_that_follow_each_other_break_nothing() {
    let mut log = Log::new();
    let first = log.enqueue(1, 0);
    let second = log.enqueue(2, 1);
    log.mark(1, first);
    log.write(1, 0, first);
    log.mark(1, first);
    log.delete(1, 0);
    log.write(2, 1, second);
    // Lost by expiry.
    let third = log.enqueue(1, 2);
    log.apply(2, &Change::CloseSession { paths: vec![&lock_node(1)] });
    log.write(1, 2, third);
    log.delete(1, 2);
    // A contender that never wrote.
    log.enqueue(1, 3);
    log.delete(1, 3);
    let counts = Counts {
        nodes: 4,
        acquisitions: 4,
        turns: 3,
        register_writes: 3,
        marker_writes: 2,
        unproven_writes: 0,
    };
    assert_eq!(log.conclude(), (counts, vec![]));
}

#[test]
fn reports_of_clients_that_the_logs_contradict_are_found() {
    let mut log = Log::new();
    let first = log.enqueue(1, 0);
    let second = log.enqueue(2, 1);
    log.write(1, 0, first);
    let verdict = log.oracle.conclude();
    let found =
        |acquired: &[Zxid], written: &[Zxid]| verdict.contradictions(LOCK, acquired, written);
    assert_eq!(found(&[first], &[first]), [""; 0]);
    assert_eq!(found(&[], &[]), [""; 0]);
    let what = |what: &str| format!("{LOCK}: 1 not {what} by the logs, such as {second}");
    assert_eq!(found(&[first, second], &[first]), [what("acquired")]);
    assert_eq!(found(&[first], &[second, first]), [what("written")]);
    assert_eq!(found(&[first, first], &[]), [format!("{LOCK}: 1 tokens acquired twice")]);
    assert_eq!(verdict.contradictions("/other", &[first], &[]).len(), 1);
}

#[test]
fn a_second_holder_is_found() {
    let mut log = Log::new();
    let first = log.enqueue(1, 0);
    let second = log.enqueue(2, 1);
    log.mark(1, first);
    let zxid = log.mark(2, second);
    let two = Violation::TwoHolders {
        zxid,
        marker: "/marker-2".into(),
        token: second,
        first: lock_node(0),
    };
    assert_eq!(log.conclude().1, [two]);
}

#[test]
fn a_write_without_a_lock_node_proves_nothing() {
    let mut log = Log::new();
    let lost = log.enqueue(2, 0);
    log.enqueue(1, 1);
    log.delete(2, 0);
    log.enqueue(2, 2);
    // It was on its way when the lock was lost.
    log.mark(2, lost);
    let (counts, violations) = log.conclude();
    assert_eq!((counts.unproven_writes, violations), (1, vec![]));
}

#[test]
fn a_late_fenced_write_is_found() {
    let mut log = Log::new();
    let first = log.enqueue(1, 0);
    let second = log.enqueue(2, 1);
    log.delete(1, 0);
    let version = 1;
    let data = format!("{} 7", first.0);
    // Without a check of the lock node.
    let late = Change::SetData { path: REGISTER, data: Some(data.as_bytes()), version };
    let zxid = log.apply(1, &late);
    let late = Violation::LateWrite {
        zxid,
        register: REGISTER.into(),
        token: first,
        holder: Some(second),
    };
    assert_eq!(log.conclude().1, [late]);
}

#[test]
fn a_fenced_write_by_a_waiting_contender_is_found() {
    let mut log = Log::new();
    let first = log.enqueue(1, 0);
    let second = log.enqueue(2, 1);
    let zxid = log.write(2, 1, second);
    let late = Violation::LateWrite {
        zxid,
        register: REGISTER.into(),
        token: second,
        holder: Some(first),
    };
    assert_eq!(log.conclude().1, [late]);
}

#[test]
fn a_token_that_goes_back_is_found() {
    let mut log = Log::new();
    let first = log.enqueue(1, 5);
    let second = log.enqueue(2, 4);
    log.write(2, 4, second);
    log.delete(2, 4);
    let zxid = log.write(1, 5, first);
    let overtaken = Violation::Overtaken { zxid: second, node: lock_node(4), first: lock_node(5) };
    let register = REGISTER.into();
    let back = Violation::TokenBack { zxid, register, token: first, highest: second };
    assert_eq!(log.conclude().1, [overtaken, back]);
}

#[test]
fn nodes_and_sessions_that_are_left_are_found() {
    let mut log = Log::new();
    log.create(1, &format!("{LOCK}/other"), false);
    log.apply(3, &Change::OpenSession);
    log.create(3, "/living", true);
    let left = [
        Violation::NodeLeft { node: "/living".into() },
        Violation::NodeLeft { node: format!("{LOCK}/other") },
        Violation::SessionLeft { session: SessionId(3) },
    ];
    assert_eq!(log.conclude().1, left);
}

#[test]
fn transactions_that_do_not_fit_are_found() {
    let mut log = Log::new();
    log.set(1, "/marker-1", "0");
    // One write is missing.
    log.versions.insert("/marker-1".into(), 2);
    log.set(1, "/marker-1", "0");
    log.create(1, "/marker-1", false);
    log.create(1, "/missing/child", false);
    log.apply(1, &Change::Delete { path: "/missing" });
    log.write(1, 9, Zxid(3));
    log.create(4, "/of-no-session", false);
    log.set(1, REGISTER, "no token");
    // Without what follows the token.
    log.set(1, REGISTER, "3");
    let (_, violations) = log.conclude();
    let contradictions =
        violations.iter().filter(|found| matches!(found, Violation::Contradiction { .. }));
    assert_eq!((contradictions.count(), violations.len()), (8, 9), "{violations:#?}");
}

#[test]
fn a_multi_with_a_failed_part_changes_nothing() {
    let mut log = Log::new();
    let token = log.enqueue(1, 0);
    let node = lock_node(0);
    let failed = Change::Failed(zk_proto::ErrorCode::NO_NODE);
    log.apply(2, &Change::Multi(vec![Change::Delete { path: &node }, failed]));
    log.mark(1, token);
    let (counts, violations) = log.conclude();
    assert_eq!((counts.marker_writes, violations), (1, vec![]));
}
