//! The auto traits and sizes of public types, which callers rely on.

use core::mem::size_of;

use crate::attempt::AttemptConfig;
use crate::lock::Contender;
use crate::semaphore::SemaphoreMachine;
use crate::{LockError, Loss, Options};

const fn is_shared<T: Send + Sync + Unpin + 'static>() {}

const _: () = {
    is_shared::<LockError>();
    is_shared::<Loss>();
    is_shared::<Options>();
    is_shared::<AttemptConfig>();
    is_shared::<Contender>();
    is_shared::<SemaphoreMachine>();
};

const _: () = {
    use zk_session::blocking::Client;
    is_shared::<crate::Mutex<Client>>();
    is_shared::<crate::Guard<Client>>();
    is_shared::<crate::RwLock<Client>>();
    is_shared::<crate::Semaphore<Client>>();
};

#[test]
#[cfg(target_pointer_width = "64")]
fn what_is_passed_around_is_small() {
    assert!(size_of::<LockError>() <= 72, "{}", size_of::<LockError>());
}

#[cfg(feature = "tokio")]
mod of_tokio {
    use super::*;

    const _: () = {
        is_shared::<crate::Mutex>();
        is_shared::<crate::Guard>();
        is_shared::<crate::RwLock>();
        is_shared::<crate::ReadGuard>();
        is_shared::<crate::WriteGuard>();
        is_shared::<crate::Semaphore>();
        is_shared::<crate::ReentrantMutex>();
    };

    /// Futures of an acquisition can be spawned.
    #[allow(dead_code, reason = "compiled, not called")]
    fn acquisitions_are_send(mutex: &crate::Mutex, guard: crate::Guard) {
        fn is_send(_: impl Send) {}
        is_send(mutex.acquire());
        is_send(mutex.try_acquire());
        is_send(guard.release());
        let held = |guard: &crate::Guard| guard.fencing_token();
        is_send(mutex.acquire().run(async |guard| {
            tokio::task::yield_now().await;
            held(guard)
        }));
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn a_guard_is_small() {
        assert_eq!(size_of::<crate::Guard>(), 152);
    }
}
