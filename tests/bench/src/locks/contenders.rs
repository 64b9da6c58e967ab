//! Contenders in this process, with any client.

use core::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use tokio::task::JoinSet;

use super::figures::Timing;
use super::work::Work;

/// A client with locks.
pub(super) trait Locks: Clone + Send + 'static {
    type Lock: Lock;

    fn connect(at: &str) -> impl Future<Output = io::Result<Self>> + Send;
    /// Returns the lock at `path`. Each contender creates one, and keeps it.
    fn lock(&self, path: &str) -> io::Result<Self::Lock>;
}

/// A contender's lock.
pub(super) trait Lock: Send + Sync + 'static {
    /// A held lock.
    type Held: Send;

    fn acquire(&self) -> impl Future<Output = io::Result<Self::Held>> + Send;
    /// Releases the lock, and waits until it is released.
    fn release(&self, held: Self::Held) -> impl Future<Output = io::Result<()>> + Send;
    /// Releases the lock in the background.
    fn let_go(&self, held: Self::Held);
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
            let place = number % work.locks;
            let lock = clients[number % work.sessions].lock(&format!("{path}-{place}"))?;
            contenders.spawn(contend(lock, place, progress.clone()));
        }
        while let Some(contender) = contenders.join_next().await {
            contender.map_err(io::Error::other)??;
        }
        let timing = locked(&progress).timing.take();
        timing.ok_or_else(|| io::Error::other("nothing was measured"))
    })
}

fn locked(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn contend(lock: impl Lock, place: usize, progress: Arc<Mutex<Progress>>) -> io::Result<()> {
    let Work { hold, waits, .. } = locked(&progress).work;
    let hold = Duration::from_millis(hold);
    let mut goes_on = true;
    while goes_on {
        let held = lock.acquire().await?;
        goes_on = locked(&progress).acquired(place);
        if !hold.is_zero() {
            tokio::time::sleep(hold).await;
        }
        locked(&progress).released_at[place] = Instant::now();
        if waits {
            lock.release(held).await?;
        } else {
            lock.let_go(held);
        }
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

    /// Records an acquisition. Returns whether more are to come.
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
