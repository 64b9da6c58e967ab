//! Machines with a lock path that no server accepts.

use alloc::boxed::Box;
use alloc::vec;

use zk_session::proto::path::{self, PathError};

use crate::error::CacheError;
use crate::tests::*;

const INVALID: [&str; 5] = ["", "locks", "/locks/", "/a//b", "/a/../b"];

/// Makes a machine of each kind. Some begin at once, and others when they are connected.
fn machines(path: &str, wait_policy: WaitPolicy) -> Vec<(&'static str, Box<dyn Machine>)> {
    let config = || AttemptConfig {
        wait_policy,
        ..AttemptConfig::of_node(path.into(), SCHEME, Uuid::from_u128(OWN), SESSION)
    };
    let request = || PermitRequest::new(config(), 1, Some(1));
    vec![
        ("contender", Box::new(Contender::new(config()))),
        ("requeuing", Box::new(Requeuing::new(Contender::new(config()), true))),
        ("candidate", Box::new(ElectionMachine::new(config()))),
        ("participant", Box::new(Participant::new(config(), 2))),
        ("semaphore", Box::new(SemaphoreMachine::new(request()))),
        ("ephemeral", Box::new(EphemeralMachine::new(config()))),
        ("barrier", Box::new(BarrierWait::new(path.into(), wait_policy))),
        ("simple", Box::new(SimpleContender::new(config()))),
    ]
}

impl Machine for Box<dyn Machine> {
    fn handle(&mut self, input: Input, turn: &mut Turn<'_>) {
        (**self).handle(input, turn);
    }

    fn is_done(&self) -> bool {
        (**self).is_done()
    }
}

#[test]
fn an_invalid_path_fails_at_once_and_sends_nothing() {
    for path in INVALID {
        let error = path::validate(path).expect_err("it is invalid");
        for wait_policy in [WaitPolicy::Queue, WaitPolicy::OnlyIfFirst, WaitPolicy::OnlyIfFree] {
            for (kind, machine) in machines(path, wait_policy) {
                let mut machine = Driven::new(machine);
                machine.handle(Input::State(CONNECTED));
                let outputs: Vec<_> = core::iter::from_fn(|| machine.poll_output()).collect();
                let failed = Output::Event(Event::Failed(LockError::Path(error)));
                assert_eq!(outputs, [failed], "{kind} at {path:?}");
                assert!(machine.is_done(), "{kind} at {path:?}");
            }
        }
    }
    assert!(matches!(path::validate(""), Err(PathError::Empty | PathError::Relative)));
}

#[test]
fn a_cache_of_an_invalid_path_has_ended() {
    for path in INVALID {
        let mut cache = CacheMachine::new(CacheConfig::new(path.into()));
        let mut outputs = core::iter::from_fn(|| cache.poll_output());
        let has_ended = outputs.any(|output| {
            matches!(
                output,
                CacheOutput::Event(CacheEvent::Ended(CacheError::Lock(LockError::Path(_))))
            )
        });
        assert!(has_ended && outputs.next().is_none(), "{path:?}");
        cache.handle(Input::State(CONNECTED));
        assert_eq!(cache.poll_output(), None, "{path:?}");
    }
}

/// A control: the check rejects no path that a lock may have.
#[test]
fn a_valid_path_is_contended_for() {
    for path in ["/", "/locks", "/locks/ä b"] {
        for (kind, machine) in machines(path, WaitPolicy::Queue) {
            let mut machine = Driven::new(machine);
            machine.handle(Input::State(CONNECTED));
            let outputs = core::iter::from_fn(|| machine.poll_output());
            let submits = outputs.filter(|output| matches!(output, Output::Submit { .. })).count();
            assert!(submits > 0, "{kind} at {path:?}");
        }
    }
}
