//! The barrier where all wait for all, before and after.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use core::future::{Future, poll_fn};
use core::ops::Deref;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

use zk_session::proto::{CreateMode, ErrorCode, path};
use zk_session::{Client, Error};

use crate::error::LockError;
use crate::face::barrier::wait_for_end;
use crate::face::held::{Held, Holding};
use crate::face::options::Options;
use crate::face::queue::{self, Queue};
use crate::machine::{Claim, Entry, Scheme};

/// The node that tells that all have come.
const READY: &str = "ready";

/// Members are contenders for a lock that all of them can share, so all hold it at once.
const MEMBERS: Scheme = Scheme::private("alone-", Some("member-"));

/// A barrier for a number of members: nobody gets in before all have come, nobody gets out before
/// all want to. Laid out as Apache Curator's `DistributedDoubleBarrier`: a node for each member,
/// and `ready` once all are there.
///
/// ```no_run
/// use zk_recipes::{DoubleBarrier, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let barrier = DoubleBarrier::new(&client, "/barriers/sort", 3)?;
/// let inside = barrier.enter().await?; // all three are there
/// inside.leave().await?; // all three are done
/// # Ok(())
/// # }
/// ```
///
/// # Guarantee
///
/// Whoever is in knows that at some moment, after it came, as many members were there as were
/// asked for. Whoever has left knows that of those who were there when it began to leave none is
/// left. A member's node belongs to its session: one that gives up, or dies, is not counted any
/// more, and not waited for. What [`Held`] says, it says of that node.
///
/// With exactly as many members as were asked for, the barrier can be used again by each as soon as
/// it has left. More of them may get in as well; they must not use it again while others leave.
///
/// # Cost
///
/// To enter, three round trips and a watch; the last one, which wakes all others, has one more. To
/// leave, a watch on one member, and a round trip before and after: whoever is first by name waits
/// for the others one after another, and wakes all of them when it goes.
#[derive(Clone, Debug)]
pub struct DoubleBarrier {
    queue: Queue,
    members: usize,
}

impl DoubleBarrier {
    /// The barrier at `path`, for so many members. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn new(client: &Client, path: &str, members: usize) -> Result<Self, LockError> {
        Self::with(client, path, members, Options::new())
    }

    /// The barrier at `path`, with members of this kind.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with(
        client: &Client,
        path: &str,
        members: usize,
        options: Options,
    ) -> Result<Self, LockError> {
        let mut queue = Queue::new(client, path, MEMBERS, options)?;
        queue.scheme = MEMBERS;
        Ok(Self { queue, members })
    }

    /// The path of the barrier.
    pub fn path(&self) -> &str {
        &self.queue.path
    }

    /// Waits until all members have come.
    ///
    /// # Panics
    ///
    /// As for [`Mutex::acquire`](crate::Mutex::acquire).
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when our node was lost meanwhile; see [`LockError`].
    ///
    /// # Ordering
    ///
    /// The member is on its way when this method returns, before its future is awaited.
    ///
    /// # Cancellation
    ///
    /// Dropping the future takes the member back, in the background.
    pub fn enter(&self) -> impl Future<Output = Result<BarrierGuard, LockError>> + Send + use<> {
        let entering = self.queue.enter(Claim::Shared, Entry::Queue);
        let this = self.clone();
        async move {
            let member = entering.await?;
            let coming = this.all_have_come(&member);
            unless_lost(&member, coming).await?;
            Ok(BarrierGuard { ready: this.queue.below(READY), client: this.queue.client, member })
        }
    }

    /// As [`enter`](Self::enter), for no longer than `timeout`, whatever happens.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`].
    pub fn enter_timeout(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<BarrierGuard, LockError>> + Send + use<> {
        queue::within(timeout, self.enter())
    }

    /// As [`Mutex::pending_cleanups`](crate::Mutex::pending_cleanups).
    pub fn pending_cleanups(&self) -> usize {
        self.queue.pending_cleanups()
    }

    async fn all_have_come(&self, member: &Held) -> Result<(), LockError> {
        let Queue { client, path, .. } = &self.queue;
        let ready = self.queue.below(READY);
        loop {
            // The watch before the list: whoever comes after the list sees to it that it fires.
            let (stat, watch) = match client.exists_and_watch(&ready).await {
                Ok(found) => found,
                Err(Error::ConnectionLost) => continue,
                Err(error) => return Err(error.into()),
            };
            // One from before we came is left over from others, and says nothing about us.
            if stat.is_some_and(|stat| stat.mzxid > member.fencing_token()) {
                return Ok(());
            }
            if list(client, path).await?.len() < self.members {
                watch.await?;
                continue;
            }
            let told = match stat {
                None => client.create(&ready, b"", CreateMode::PERSISTENT).await.map(drop),
                Some(_) => client.set_data(&ready, b"", None).await.map(drop),
            };
            match told {
                Ok(()) => return Ok(()),
                // Others do the same. What is there now?
                Err(Error::ConnectionLost)
                | Err(Error::Server(ErrorCode::NODE_EXISTS | ErrorCode::NO_NODE)) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// What comes of `future`, unless the member is lost before.
async fn unless_lost(
    member: &Held,
    future: impl Future<Output = Result<(), LockError>>,
) -> Result<(), LockError> {
    let (mut losing, mut future) = (pin!(member.lost()), pin!(future));
    poll_fn(|cx| match losing.as_mut().poll(cx) {
        Poll::Ready(loss) => Poll::Ready(Err(LockError::Lost(loss))),
        Poll::Pending => future.as_mut().poll(cx),
    })
    .await
}

/// The members that are there, by name.
async fn list(client: &Client, path: &str) -> Result<BTreeSet<String>, LockError> {
    loop {
        match client.get_children(path).await {
            Ok((children, _)) => {
                return Ok(children.into_iter().filter(|child| child != READY).collect());
            }
            Err(Error::Server(ErrorCode::NO_NODE)) => return Ok(BTreeSet::new()),
            Err(Error::ConnectionLost) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A member of a [`DoubleBarrier`] that is in. Dropped, it is out, and does not wait for others.
#[derive(Debug)]
#[must_use = "a member that is dropped is out"]
pub struct BarrierGuard {
    client: Client,
    ready: String,
    member: Held,
}

impl Deref for BarrierGuard {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.member
    }
}

/// What a member does to leave.
#[derive(Debug, PartialEq, Eq)]
enum Step<'a> {
    /// All others are out.
    Finish,
    /// Be out, and look again.
    GetOut,
    /// Wait for the end of this member.
    WaitFor(&'a str),
}

/// The first by name stays in until all others are out: they wait for it, it for the last of them.
fn next_step<'a>(own: &str, is_in: bool, others: &'a BTreeSet<String>) -> Step<'a> {
    match (others.first(), others.last()) {
        (Some(first), _) if is_in && first.as_str() < own => Step::GetOut,
        (Some(_), Some(last)) if is_in => Step::WaitFor(last),
        (Some(first), _) => Step::WaitFor(first),
        (None, _) => Step::Finish,
    }
}

impl BarrierGuard {
    /// Waits until all members that are in now are out, or have begun to leave: the end of the
    /// first one is the end of all.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when our node had been lost before; see [`LockError`]. The member is out
    /// in any case.
    ///
    /// # Cancellation
    ///
    /// The member is out all the same, in the background.
    pub async fn leave(self) -> Result<(), LockError> {
        let Self { client, ready, member } = self;
        if let Holding::Lost(loss) = member.state() {
            return Err(LockError::Lost(loss));
        }
        let (own, directory) = (member.node().to_string(), member.directory().to_string());
        // Who comes later is not waited for: it has been out in between.
        let mut others = list(&client, &directory).await?;
        others.remove(&own);
        let mut member = Some(member);
        loop {
            match next_step(&own, member.is_some(), &others) {
                Step::Finish => break,
                Step::GetOut => get_out(member.take()).await?,
                Step::WaitFor(other) => {
                    let other = path::child(&directory, other);
                    let waiting = async { wait_for_end(&client, &other).await.map(drop) };
                    match &member {
                        Some(member) => unless_lost(member, waiting).await?,
                        None => waiting.await?,
                    }
                }
            }
            let there = list(&client, &directory).await?;
            others.retain(|other| there.contains(other));
        }
        get_out(member).await?;
        match client.delete(&ready, None).await {
            // What is left over does no harm.
            Ok(()) | Err(Error::Server(ErrorCode::NO_NODE) | Error::ConnectionLost) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

async fn get_out(member: Option<Held>) -> Result<(), LockError> {
    match member {
        Some(member) => member.release().await,
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_stays_until_it_is_alone() {
        let others = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let all: BTreeSet<_> = others(&["b", "d"]);
        assert_eq!(next_step("a", true, &all), Step::WaitFor("d"));
        assert_eq!(next_step("c", true, &all), Step::GetOut);
        assert_eq!(next_step("c", false, &all), Step::WaitFor("b"));
        assert_eq!(next_step("a", true, &others(&[])), Step::Finish);
        assert_eq!(next_step("c", false, &others(&[])), Step::Finish);
    }
}
