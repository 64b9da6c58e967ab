//! What contenders do with the lock, and with the register that it guards, for the checker of
//! linearizability.

use core::time::Duration;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use zk_session::proto::Zxid;
use zk_session::{AnyClient, Outcome, Transaction, TransactionResult};
use zk_testkit::linearizable::{Model, OnFenced, OnLock, OnRegister, Operation, check};

use super::contender::Contender;

#[derive(Debug)]
pub(super) struct Histories {
    /// The node that only the holder of the lock writes.
    register_path: &'static str,
    start: Instant,
    /// The number of the last write, which makes its data unique.
    writes: AtomicU64,
    lock: Mutex<Vec<Operation<OnLock>>>,
    register: Mutex<Vec<Operation<OnFenced>>>,
    violations: Mutex<Vec<String>>,
}

impl Histories {
    pub(super) fn new(register_path: &'static str) -> Self {
        Self {
            register_path,
            start: Instant::now(),
            writes: AtomicU64::new(0),
            lock: Mutex::default(),
            register: Mutex::default(),
            violations: Mutex::default(),
        }
    }

    /// Returns the time of an operation.
    pub(super) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    pub(super) fn violation(&self, what: String) {
        push(&self.violations, what);
    }

    pub(super) fn violations(&self) -> Vec<String> {
        self.violations.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes a fencing token into the register, in a transaction that checks the lock node. Returns
    /// when the write was submitted, and its zxid, if it was applied.
    pub(super) async fn write<C: AnyClient>(
        &self,
        Zxid(token): Zxid,
        fenced: Transaction<'_, C>,
    ) -> Option<(Duration, Zxid)> {
        let number = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        let data = format!("{token} {number}");
        let from = self.now();
        let transaction = fenced.set_data(self.register_path, data.as_bytes(), None);
        let (to, stat) = match C::commit(transaction).await.map(|mut results| results.pop()) {
            Ok(Some(TransactionResult::DataSet(stat))) => (Some(self.now()), Some(stat)),
            Ok(other) => panic!("{other:?} instead of a stat"),
            Err(error) if error.outcome() == Outcome::NotApplied => return None,
            Err(_) => (None, None),
        };
        let version = stat.map(|stat| stat.version);
        let what = OnFenced { token, what: OnRegister::Write { data, version } };
        push(&self.register, Operation { from, to, what });
        stat.map(|stat| (from, stat.mzxid))
    }

    /// Reads the register, behind a `sync`.
    pub(super) async fn read(&self, client: &impl Contender) {
        let from = self.now();
        if !client.sync(self.register_path).await {
            return;
        }
        let Ok((data, stat)) = client.get_data(self.register_path).await else { return };
        let data = String::from_utf8_lossy(&data).into_owned();
        let token = data.split(' ').next().and_then(|token| token.parse().ok());
        let Some(token) = token else {
            return self.violation(format!("the register contains {data:?}"));
        };
        let what = OnRegister::Read { data, version: stat.version };
        push(
            &self.register,
            Operation { from, to: Some(self.now()), what: OnFenced { token, what } },
        );
    }

    /// Records an acquisition or a release.
    pub(super) fn lock(&self, from: Duration, to: Option<Duration>, what: OnLock) {
        push(&self.lock, Operation { from, to, what });
    }

    /// Checks both histories. Returns their lengths, and all violations.
    pub(super) fn conclude(&self) -> ([usize; 2], Vec<String>) {
        let mut violations = take(&self.violations);
        let (lock, register) = (take(&self.lock), take(&self.register));
        violations.extend(judge("lock", &lock));
        violations.extend(judge("register", &register));
        ([lock.len(), register.len()], violations)
    }
}

fn judge<M: Model + Clone + PartialEq + core::fmt::Debug>(
    name: &str,
    history: &[Operation<M>],
) -> Option<String> {
    let stuck = check(history).err()?;
    Some(format!("the {name} is not linearizable at {stuck:?}"))
}

fn push<T>(list: &Mutex<Vec<T>>, item: T) {
    list.lock().unwrap_or_else(PoisonError::into_inner).push(item);
}

fn take<T>(list: &Mutex<Vec<T>>) -> Vec<T> {
    core::mem::take(&mut *list.lock().unwrap_or_else(PoisonError::into_inner))
}
