//! Contenders in this process, whoever's client they use.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use tokio::task::LocalSet;

use super::figures::Timing;
use super::work::Work;

/// A client that has locks.
pub(super) trait Locks: Clone + 'static {
    /// A lock that is held.
    type Held;

    async fn connect(at: &str) -> io::Result<Self>;
    async fn acquire(&self, path: &str) -> io::Result<Self::Held>;
    /// Returns when the lock is released.
    async fn release(&self, held: Self::Held) -> io::Result<()>;
}

pub(super) fn measure<C: Locks>(at: &str, path: &str, work: Work) -> io::Result<Timing> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let mut clients = Vec::new();
        for _ in 0..work.sessions {
            clients.push(C::connect(at).await?);
        }
        let progress = Rc::new(RefCell::new(Progress::new(work)));
        let contenders: Vec<_> = (0..work.contenders())
            .map(|number| {
                let client = clients[number % work.sessions].clone();
                let lock = number % work.locks;
                let path = format!("{path}-{lock}");
                tokio::task::spawn_local(contend(client, path, lock, progress.clone()))
            })
            .collect();
        for contender in contenders {
            contender.await.map_err(io::Error::other)??;
        }
        let timing = progress.borrow_mut().timing.take();
        timing.ok_or_else(|| io::Error::other("nothing was measured"))
    })
}

async fn contend<C: Locks>(
    client: C,
    path: String,
    lock: usize,
    progress: Rc<RefCell<Progress>>,
) -> io::Result<()> {
    let hold = Duration::from_millis(progress.borrow().work.hold);
    let mut goes_on = true;
    while goes_on {
        let held = client.acquire(&path).await?;
        goes_on = progress.borrow_mut().acquired(lock);
        if !hold.is_zero() {
            tokio::time::sleep(hold).await;
        }
        progress.borrow_mut().released_at[lock] = Instant::now();
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
