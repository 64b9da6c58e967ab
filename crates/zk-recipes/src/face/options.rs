//! What all recipes can be told.

use alloc::sync::Arc;
use core::fmt;

use bytes::Bytes;
use zk_session::proto::Acl;

use crate::machine::{AccessList, Event, Foreign, Scheme, Trust};

/// One attempt to get a lock, of those that an [observer](Options::observer) hears of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt<'a> {
    /// The path of the lock.
    pub path: &'a str,
    /// Counts from 1, for each lock made by this process; a clone of a lock counts on.
    pub number: usize,
}

pub(crate) type Observer = Arc<dyn Fn(Attempt<'_>, &Event) + Send + Sync>;

/// How a lock is to be taken. The defaults are what most people want.
///
/// ```
/// use zk_recipes::{Options, Trust};
///
/// let options = Options::new().data("host-7").trust(Trust::WhileConnected);
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct Options {
    pub(crate) scheme: Option<Scheme>,
    pub(crate) data: Bytes,
    pub(crate) acl: AccessList,
    pub(crate) parent_acl: AccessList,
    pub(crate) foreign: Foreign,
    pub(crate) trust: Trust,
    pub(crate) revocable: bool,
    pub(crate) observer: Option<Observer>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, data, acl, parent_acl, foreign, trust, revocable, observer: _ } = self;
        f.debug_struct("Options")
            .field("scheme", scheme)
            .field("data", data)
            .field("acl", acl)
            .field("parent_acl", parent_acl)
            .field("foreign", foreign)
            .field("trust", trust)
            .field("revocable", revocable)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Names as Apache Curator has them, no data, open to everybody.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names lock nodes in this way. All contenders of a lock must use the same names.
    pub fn scheme(self, scheme: Scheme) -> Self {
        Self { scheme: Some(scheme), ..self }
    }

    /// Has lock nodes hold `data`, for people who look who is there.
    pub fn data(self, data: impl Into<Bytes>) -> Self {
        Self { data: data.into(), ..self }
    }

    /// Gives lock nodes this access control list. Other contenders must be able to read them, or
    /// they cannot wait for their end.
    pub fn acl(self, acl: &[Acl<'_>]) -> Self {
        Self { acl: AccessList::new(acl), ..self }
    }

    /// Gives directories that are missing this access control list. Contenders must be able to
    /// create, delete and read in them; whoever may delete in them can break locks.
    pub fn parent_acl(self, acl: &[Acl<'_>]) -> Self {
        Self { parent_acl: AccessList::new(acl), ..self }
    }

    /// What to do about nodes at the lock's path that are no contenders of this lock. Those of
    /// another kind of lock are refused, unless this says otherwise.
    pub fn foreign(self, foreign: Foreign) -> Self {
        Self { foreign, ..self }
    }

    /// How long to believe that the lock is held while the connection is lost; until the lease
    /// ends, unless this says otherwise.
    pub fn trust(self, trust: Trust) -> Self {
        Self { trust, ..self }
    }

    /// Notices when another client asks for the lock: `revoked` of an async guard, or
    /// `wait_revoked` of a blocking one, reports it. It costs a watch as soon as the lock is held.
    pub fn revocable(self) -> Self {
        Self { revocable: true, ..self }
    }

    /// Calls `observer` for every event of every attempt. It runs in the task of the session, or
    /// where callbacks of the blocking client run, and must neither block nor panic.
    pub fn observer(self, observer: impl Fn(Attempt<'_>, &Event) + Send + Sync + 'static) -> Self {
        Self { observer: Some(Arc::new(observer)), ..self }
    }
}
