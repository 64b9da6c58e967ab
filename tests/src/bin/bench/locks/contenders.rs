//! Contenders in this process, whoever's client they use.

use core::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use tokio::task::JoinSet;

use super::figures::Timing;
use super::work::Work;

/// A client that has locks.
pub(super) trait Locks: Clone + Send + Sync + 'static {
    /// A lock that is held.
    type Held: Send;

    fn connect(at: &str) -> impl Future<Output = io::Result<Self>> + Send;
    fn acquire(&self, path: &str) -> impl Future<Output = io::Result<Self::Held>> + Send;
    /// Returns when the lock is released.
    fn release(&self, held: Self::Held) -> impl Future<Output = io::Result<()>> + Send;
}

pub(super) fn measure<C: Locks>(at: &str, path: &str, work: Work) -> io::Result<Timing> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..work.sessions {
            clients.push(C::connect(at).await?);
        }
        let progress = Arc::new(Mutex::new(Progress::new(work)));
        let mut contenders = JoinSet::new();
        for number in 0..work.contenders() {
            let client = clients[number % work.sessions].clone();
            let lock = number % work.locks;
            contenders.spawn(contend(client, format!("{path}-{lock}"), lock, progress.clone()));
        }
        while let Some(contender) = contenders.join_next().await {
            contender.map_err(io::Error::other)??;
        }
        let timing = lock(&progress).timing.take();
        timing.ok_or_else(|| io::Error::other("nothing was measured"))
    })
}

fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn contend<C: Locks>(
    client: C,
    path: String,
    number: usize,
    progress: Arc<Mutex<Progress>>,
) -> io::Result<()> {
    let hold = Duration::from_millis(lock(&progress).work.hold);
    let mut goes_on = true;
    while goes_on {
        let held = client.acquire(&path).await?;
        goes_on = lock(&progress).acquired(number);
        if !hold.is_zero() {
            tokio::time::sleep(hold).await;
        }
        lock(&progress).released_at[number] = Instant::now();
        client.release(held).await?;
    }
    Ok(())
}

struct Progress {
    work: Work,
    acquisitions: usize,
    released_at: Vec<Instant>,
    latencies: Vec<Duration>,
    began: (Instant, ProcessTime),
    timing: Option<Timing>,
}

impl Progress {
    fn new(work: Work) -> Self {
        Self {
            work,
            acquisitions: 0,
            released_at: vec![Instant::now(); work.locks],
            latencies: Vec::with_capacity(work.measured),
            began: (Instant::now(), ProcessTime::now()),
            timing: None,
        }
    }

    /// Notes an acquisition. Whether there are more to come.
    fn acquired(&mut self, lock: usize) -> bool {
        let now = Instant::now();
        self.acquisitions += 1;
        let all = self.work.warm_up + self.work.measured;
        if (self.work.warm_up + 1..=all).contains(&self.acquisitions) {
            self.latencies.push(now - self.released_at[lock]);
        }
        if self.acquisitions == self.work.warm_up {
            println!("begin");
            self.began = (now, ProcessTime::now());
        } else if self.acquisitions == all {
            println!("end");
            let (elapsed, processor) = (now - self.began.0, self.began.1.elapsed());
            self.timing = Some(Timing::new(&mut self.latencies, elapsed, processor));
        }
        self.acquisitions < all
    }
}
