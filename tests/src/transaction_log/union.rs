//! The logs of all servers of an ensemble, as one.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use zk_proto::Zxid;

use super::{LogReader, Logged, damaged};

/// More transactions than a log has of one epoch.
const MAX_COUNTER: u32 = 1 << 28;

/// Which servers have logged a transaction: one bit for each server.
#[derive(Clone, Copy, Debug, Default)]
struct LoggedBy {
    ever: u8,
    /// Without servers that have gone back to it, or before it, since.
    last: u8,
}

/// Decides which logged transactions the ensemble has committed.
///
/// A leader commits in the order of its epoch, once a majority has logged a transaction. So all up
/// to the last one of an epoch that a majority has logged are committed. Those behind it are
/// committed only if the next leader began with them. That leader has the first transaction of its
/// epoch in its log. A follower that has it, too, has been synchronized before: then transactions
/// that the leader lacks were removed from its log. But a server that joins later may get a
/// snapshot, and keeps in its log what was never committed. It lacks the first transaction of the
/// epoch.
///
/// A follower that leaves its leader may still write transactions to its log, and then forget them
/// (ZOOKEEPER-4712). It *goes back*: it logs the transactions of the next leader from an earlier
/// zxid on. Its older records from that zxid on no longer count, as if they had been removed.
#[derive(Clone, Debug, Default)]
struct Committed {
    /// By epoch and counter.
    epochs: BTreeMap<u32, Vec<LoggedBy>>,
    /// The last transaction of each server.
    last: BTreeMap<usize, Zxid>,
    dropped: BTreeSet<Zxid>,
    /// Those of the dropped ones that a majority had logged.
    forgotten: BTreeSet<Zxid>,
    committed: u64,
    missing: u64,
}

impl Committed {
    /// Records the next transaction in the log of a server. Returns whether it is logged again.
    fn record(&mut self, zxid: Zxid, server: usize) -> io::Result<bool> {
        if zxid.counter() > MAX_COUNTER {
            return Err(damaged(format!("a transaction {zxid}")));
        }
        let bit = 1 << server;
        if self.last.insert(server, zxid).is_some_and(|last| last >= zxid) {
            for (epoch, logged) in self.epochs.range_mut(zxid.epoch()..) {
                let from = if *epoch == zxid.epoch() { zxid.counter() as usize } else { 0 };
                logged.iter_mut().skip(from).for_each(|by| by.last &= !bit);
            }
        }
        let (epoch, at) = (self.epochs.entry(zxid.epoch()).or_default(), zxid.counter() as usize);
        if epoch.len() <= at {
            epoch.resize(at + 1, LoggedBy::default());
        }
        let is_repeated = epoch[at].ever & bit != 0;
        epoch[at].ever |= bit;
        epoch[at].last |= bit;
        Ok(is_repeated)
    }

    /// Decides, when all transactions are recorded.
    fn decide(&mut self, servers: usize) {
        let is_majority = |by: u8| 2 * by.count_ones() as usize > servers;
        // The servers that were there when the next epoch began.
        let mut founders = 0;
        for (epoch, logged) in self.epochs.iter().rev() {
            let settled = logged.iter().rposition(|by| is_majority(by.last));
            let settled = settled.map_or(0, |last| last + 1);
            for (counter, by) in logged.iter().enumerate() {
                let zxid = Zxid(i64::from(*epoch) << 32 | counter as i64);
                if by.last != 0 && (counter < settled || by.last & founders != 0) {
                    self.committed += 1;
                } else if counter >= settled && by.ever != 0 {
                    self.dropped.insert(zxid);
                    self.forgotten.extend(is_majority(by.ever).then_some(zxid));
                // The first has number 1.
                } else if (1..settled).contains(&counter) {
                    self.missing += 1;
                }
            }
            // An epoch whose first transaction was lost decides nothing about those before.
            founders = match logged.get(1) {
                Some(first) if settled > 1 || first.last & founders != 0 => first.last,
                _ => founders,
            };
        }
    }

    fn contains(&self, zxid: Zxid) -> bool {
        !self.dropped.contains(&zxid)
    }
}

/// What the logs of all servers have.
#[derive(Clone, Debug, Default)]
pub struct Union {
    /// The number of transactions in each log.
    pub logged: Vec<u64>,
    /// The number of transactions that each server has logged again.
    pub repeated: Vec<u64>,
    /// The number of committed transactions.
    pub committed: u64,
    /// The transactions that were logged, but never committed.
    pub dropped: BTreeSet<Zxid>,
    /// Those of them that a majority had logged before a server went back. That server need not have
    /// acknowledged them.
    pub forgotten: BTreeSet<Zxid>,
    /// The number of zxids between committed transactions that no log has.
    pub missing: u64,
    /// The transactions that one server has logged otherwise than another.
    pub differing: Vec<Zxid>,
}

/// Passes each committed transaction of an ensemble to `apply`, in order, with its body. Reads the
/// logs twice, file by file. Takes at most eight folders.
///
/// # Errors
///
/// If a log cannot be read, or a transaction is damaged, or `apply` fails.
pub fn replay(
    folders: &[impl AsRef<Path>],
    mut apply: impl FnMut(Logged, &[u8]) -> io::Result<()>,
) -> io::Result<Union> {
    let (mut committed, mut union) = (Committed::default(), Union::default());
    for (server, folder) in folders.iter().enumerate() {
        let (mut log, mut logged, mut repeated) = (LogReader::open(folder.as_ref())?, 0, 0);
        while let Some(Logged { zxid, .. }) = log.read_next()? {
            logged += 1;
            repeated += u64::from(committed.record(zxid, server)?);
        }
        union.logged.push(logged);
        union.repeated.push(repeated);
    }
    committed.decide(folders.len());

    let open = |folder| Log::open(AsRef::as_ref(folder));
    let mut logs = folders.iter().map(open).collect::<io::Result<Vec<_>>>()?;
    let mut last = Zxid::ZERO;
    while let Some(next) = logs.iter().filter_map(|log| log.head.map(|head| head.zxid)).min() {
        let mut same = logs.iter().filter_map(|log| log.at(next));
        if let Some((head, body)) = same.next()
            // Otherwise it is logged again.
            && next > last
            && committed.contains(next)
        {
            if same.any(|other| other != (head, body)) {
                union.differing.push(next);
            }
            apply(head, body)?;
            union.committed += 1;
        }
        last = last.max(next);
        for log in logs.iter_mut().filter(|log| log.at(next).is_some()) {
            log.head = log.reader.read_next()?;
        }
    }
    // What a server logs behind a later transaction is read too late.
    union.missing = committed.missing + committed.committed.saturating_sub(union.committed);
    (union.dropped, union.forgotten) = (committed.dropped, committed.forgotten);
    Ok(union)
}

/// A log, and its next transaction.
struct Log {
    head: Option<Logged>,
    reader: LogReader,
}

impl Log {
    /// Opens a log that has been read, so no transaction is damaged.
    fn open(folder: &Path) -> io::Result<Self> {
        let mut reader = LogReader::open(folder)?.without_checksums();
        Ok(Self { head: reader.read_next()?, reader })
    }

    /// Returns the next transaction and its body, if it has this number.
    fn at(&self, zxid: Zxid) -> Option<(Logged, &[u8])> {
        self.head.filter(|head| head.zxid == zxid).map(|head| (head, self.reader.body()))
    }
}
