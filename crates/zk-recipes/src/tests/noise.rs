//! Inputs that must change nothing.

use super::*;

/// Checks that a machine ignores replies and watch events of requests that it has not submitted. One
/// that is done ignores every input.
#[track_caller]
pub(crate) fn check_ignores_noise(machine: &Driven<impl Machine + Clone>) {
    let quiet = || {
        let mut machine = machine.clone();
        while machine.poll_output().is_some() {}
        machine
    };
    let before = format!("{:?}", quiet().machine);
    for input in noise(machine.is_done()) {
        let (mut machine, shown) = (quiet(), format!("{input:?}"));
        machine.handle(input);
        let output = machine.poll_output();
        assert_eq!(
            (output, format!("{:?}", machine.machine)),
            (None, before.clone()),
            "after {shown}"
        );
    }
}

pub(crate) fn noise(is_done: bool) -> impl Iterator<Item = Input> {
    // Of each part that a machine may have.
    let unknown = (0..4).map(|part: u64| OpId((part << 32) + u64::from(u32::MAX)));
    let of_unknown = unknown.flat_map(|op| {
        [
            Input::Reply { op, result: ok() },
            Input::Reply { op, result: refused(ErrorCode::NO_NODE) },
            Input::Watch { op, event_type: EventType::NODE_DELETED },
            Input::Watch { op, event_type: EventType::NODE_DATA_CHANGED },
        ]
    });
    let outcome = Outcome::NotApplied;
    let ended = Err(Error::Ended { end: End::Closed, outcome });
    let of_others = [
        Input::Reply { op: OpId(1), result: lost() },
        Input::Reply { op: OpId(1), result: ended },
        Input::Session(State::Suspended),
        Input::Session(State::Renewing),
        Input::Session(READ_ONLY),
        Input::Session(CONNECTED),
        Input::Session(State::Ended(End::Expired)),
        Input::LeaseEnded,
        Input::Timer,
        Input::Settled,
        Input::BehindAbandoned,
        Input::Convert(LockMode::Shared),
        Input::Convert(LockMode::Exclusive),
        Input::Leave,
        Input::Release,
    ];
    of_unknown.chain(is_done.then_some(of_others).into_iter().flatten())
}
