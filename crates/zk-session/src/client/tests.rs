//! The auto traits and sizes of public types, which callers rely on.

use core::mem::size_of;

use crate::dispatch::Dispatcher;
use crate::session::{Action, Event, Reply, Session};
use crate::{Error, State, WatchUpdate, WatchedEvent};

const fn is_shared<T: Send + Sync + Unpin + 'static>() {}
const fn is_sent<T: Send + Unpin + 'static>() {}

const _: () = {
    is_shared::<Error>();
    is_shared::<State>();
    is_shared::<WatchUpdate>();
    is_shared::<WatchedEvent>();
    is_shared::<Session<u64>>();
    is_shared::<Event<u64>>();
    is_sent::<Dispatcher<u64>>();
    is_shared::<crate::ConnectError>();
};

const _: () = {
    use crate::blocking::{Client, Threads};
    is_shared::<Client>();
    is_shared::<crate::Watch<Threads>>();
    is_shared::<crate::PersistentWatch<Threads>>();
    is_sent::<crate::Answer<alloc::rc::Rc<()>, Threads>>();
};

#[test]
#[cfg(target_pointer_width = "64")]
fn what_is_passed_around_is_small() {
    assert_eq!(size_of::<Action>(), 16);
    assert_eq!(size_of::<Reply>(), 48);
    assert_eq!(size_of::<WatchedEvent>(), 32);
    assert!(size_of::<Error>() <= 56, "{}", size_of::<Error>());
}

#[cfg(feature = "tokio")]
mod of_tokio {
    use super::*;

    const _: () = {
        is_shared::<crate::Client>();
        is_shared::<crate::Watch<crate::Tokio>>();
        is_shared::<crate::PersistentWatch<crate::Tokio>>();
    };

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn a_client_is_small() {
        assert!(size_of::<crate::Client>() <= 64, "{}", size_of::<crate::Client>());
    }
}
