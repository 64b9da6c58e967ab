//! What the errors list, print and answer.

use alloc::format;
use alloc::string::ToString;
use core::error::Error as _;

use zk_session::proto::path;
use zk_session::proto::{Decode, Reader, ReplyHeader};

use super::*;

#[test]
fn an_error_is_small() {
    assert!(size_of::<RecipeError>() <= 72, "{}", size_of::<RecipeError>());
    #[cfg(feature = "tokio")]
    assert_eq!(size_of::<Result<crate::Guard, RecipeError>>(), size_of::<crate::Guard>());
}

#[test]
fn the_contender_of_another_kind_of_lock_is_named_with_the_ways_out() {
    for (scheme, kind) in [
        (Scheme::CURATOR_MUTEX, "a mutex"),
        (Scheme::CURATOR_READ_WRITE, "a read/write lock"),
        (Scheme::CURATOR_LEADER, "a leader election"),
        (Scheme::CURATOR_LEASE, "a semaphore"),
    ] {
        let printed = LockError::OtherLock { node: "n".into(), scheme: scheme.into() }.to_string();
        assert!(printed.starts_with(&format!("'n' belongs to {kind} of this crate")), "{printed}");
        assert!(printed.contains("Apache Curator"), "{printed}");
        assert!(printed.ends_with("use another path, or `Options::scheme`"), "{printed}");
    }
}

/// Returns how a mutex comes to the error, and whose fault that is. A variant that no mutex can
/// have belongs to another type.
fn of_mutex(error: &LockError) -> (&'static str, Fault) {
    match error {
        LockError::Request(_) => ("`acquire` of a path below an ephemeral node", Fault::Caller),
        LockError::Ended(_) => ("`acquire` after the end of the session", Fault::Session),
        LockError::NodeVanished => ("`acquire` while its node is deleted", Fault::Session),
        LockError::Unreadable { .. } => ("`acquire` behind a private node", Fault::Caller),
        LockError::Abandoned { .. } => ("`acquire` behind a node that stays", Fault::Caller),
        LockError::HeldByOwnSession { .. } => ("`acquire` after a resumption", Fault::Caller),
        LockError::SequenceExhausted => ("`acquire` after 2^31 creations", Fault::Caller),
        LockError::Lost(_) => ("`validate` or `release` after the loss", Fault::Session),
        LockError::NotConfirmed(_) => ("`release` without a server", Fault::Ensemble),
        LockError::Busy => ("`try_acquire` of a held lock", Fault::Others),
        LockError::TimedOut => ("`acquire` of a held lock, with a limit", Fault::Others),
        LockError::NoAnswer => ("`acquire` of a silent server, with a limit", Fault::Ensemble),
        LockError::NoConnection => ("`try_acquire` without a server", Fault::Ensemble),
        LockError::OtherLock { .. } => ("`acquire` beside a read/write lock", Fault::Caller),
        LockError::UnknownNode { .. } => ("`acquire` by `Refuse`", Fault::Caller),
        LockError::NoChroot { .. } => ("`acquire` below a wrong chroot", Fault::Caller),
        LockError::Path(_) => ("`new` with an invalid path", Fault::Caller),
    }
}

/// The own errors of the other recipes. Their types list nothing of each other.
fn of_others(
    semaphore: &SemaphoreError,
    mode: &ModeError,
    cache: &CacheError,
    leave: &LeaveError,
) -> [Fault; 4] {
    let semaphore = match semaphore {
        SemaphoreError::Lock(error) => of_mutex(error).1,
        // `acquire` of one with another number.
        SemaphoreError::OtherMaximum { .. } => Fault::Caller,
        // `acquire_many` and `set_permits`.
        SemaphoreError::TooManyPermits { .. } => Fault::Caller,
        // `acquire_many(0)`.
        SemaphoreError::NoPermits => Fault::Caller,
        // `open` of a semaphore that is missing.
        SemaphoreError::NoMaximum => Fault::Caller,
    };
    let mode = match mode {
        ModeError::Lock(error) => of_mutex(error).1,
        ModeError::NotAlone => Fault::Others, // `try_upgrade` beside other readers.
        ModeError::NoReaders => Fault::Caller, // `RwLock::with` a scheme of mutexes.
    };
    let cache = match cache {
        CacheError::Lock(error) => of_mutex(error).1,
        CacheError::Full => Fault::Caller, // `ready` of a large tree.
    };
    let leave = match leave {
        LeaveError::Lock(error) => of_mutex(error).1,
        LeaveError::OthersInside => Fault::Others, // `leave` with a limit.
    };
    [semaphore, mode, cache, leave]
}

#[test]
fn every_error_answers_the_same_questions_whatever_its_type() {
    let lost_session = Loss::Ended(End::Expired);
    let unconfirmed = Unconfirmed::Ended(End::Closed);
    let invalid = path::validate("relative").expect_err("it is relative");
    for (error, name, may_be_held, end) in [
        (LockError::Request(Error::QueueFull { limit: 1 }), "Request", false, None),
        (LockError::Ended(End::Closed), "Ended", false, Some(End::Closed)),
        (LockError::NodeVanished, "NodeVanished", false, None),
        (LockError::Unreadable { node: "n".into() }, "Unreadable", false, None),
        (LockError::Abandoned { node: "n".into() }, "Abandoned", false, None),
        (LockError::HeldByOwnSession { node: "n".into() }, "HeldByOwnSession", false, None),
        (LockError::SequenceExhausted, "SequenceExhausted", false, None),
        (LockError::Lost(lost_session), "Lost", false, Some(End::Expired)),
        (LockError::Lost(Loss::NodeDeleted), "Lost", false, None),
        (LockError::NotConfirmed(unconfirmed), "NotConfirmed", true, Some(End::Closed)),
        (LockError::NotConfirmed(Unconfirmed::TimedOut), "NotConfirmed", true, None),
        (LockError::Busy, "Busy", false, None),
        (LockError::TimedOut, "TimedOut", false, None),
        (LockError::NoAnswer, "NoAnswer", true, None),
        (LockError::NoConnection, "NoConnection", true, None),
        (LockError::UnknownNode { node: "n".into() }, "UnknownNode", false, None),
        (LockError::NoChroot { chroot: "/app".into() }, "NoChroot", false, None),
        (LockError::Path(invalid), "Path", false, None),
    ] {
        let of_lock =
            RecipeError { operation: "acquire", path: "/l".into(), reason: error.clone() };
        let fault = of_mutex(&error).1;
        let answers = (name, fault, may_be_held, end, of_lock.to_string());
        assert_eq!(answers_of(&of_lock), answers);
        assert_eq!(answers_of(&RecipeError::<SemaphoreError>::from(of_lock.clone())), answers);
        assert_eq!(answers_of(&RecipeError::<ModeError>::from(of_lock.clone())), answers);
        assert_eq!(answers_of(&RecipeError::<CacheError>::from(of_lock.clone())), answers);
        assert_eq!(answers_of(&RecipeError::<LeaveError>::from(of_lock)), answers);
        let (semaphore, mode) = (error.clone().into(), error.clone().into());
        let (cache, leave) = (error.clone().into(), error.into());
        assert_eq!(of_others(&semaphore, &mode, &cache, &leave), [fault; 4]);
    }
    for reason in [Error::ConnectionLost, Error::NoConnection] {
        assert_eq!(LockError::Request(reason).fault(), Fault::Ensemble);
    }
    let (semaphore, mode) = (SemaphoreError::NoPermits, ModeError::NotAlone);
    let (cache, leave) = (CacheError::Full, LeaveError::OthersInside);
    let faults = [semaphore.fault(), mode.fault(), cache.fault(), leave.fault()];
    assert_eq!(of_others(&semaphore, &mode, &cache, &leave), faults);
    assert!(mode.source().is_none() && !mode.may_be_held() && mode.end().is_none());
}

fn answers_of<R: Reason>(
    error: &RecipeError<R>,
) -> (&'static str, Fault, bool, Option<End>, String) {
    (error.name(), error.fault(), error.may_be_held(), error.end(), error.to_string())
}

#[test]
fn an_error_prints_all_of_its_reason_and_has_no_source() {
    let mut short = Reader::new(&[0]);
    let unreadable = Error::Reply(ReplyHeader::decode(&mut short).expect_err("too short"));
    let invalid = path::validate("relative").expect_err("it is relative");
    for (reason, text) in [
        (
            LockError::Request(unreadable),
            "at least 3 bytes are missing at byte 0 in ReplyHeader.xid",
        ),
        (invalid.into(), "a path must start with '/'"),
        (Error::from(invalid).into(), "a path must start with '/'"),
        (LockError::Busy, "the lock is taken"),
    ] {
        assert!(reason.to_string().ends_with(text) && reason.source().is_none(), "{reason}");
        let printed = format!("acquire of '/locks/printer': {reason}");
        let error = RecipeError { operation: "acquire", path: "/locks/printer".into(), reason };
        assert_eq!((error.to_string(), error.source().is_none()), (printed, true));
    }
}
