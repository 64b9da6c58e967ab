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

pub(crate) fn noise(is_done: bool) -> impl Iterator<Item = Given> {
    // Of each part that a machine may have.
    let unknown = (0..4).map(|part: u64| OpId((part << 32) + u64::from(u32::MAX)));
    let of_unknown = unknown.flat_map(|op| {
        [
            Input::Reply { tag: op.tag(), result: ok() },
            Input::Reply { tag: op.tag(), result: refused(ErrorCode::NO_NODE) },
            fired(op, EventType::NODE_DELETED),
            fired(op, EventType::NODE_DATA_CHANGED),
        ]
        .map(Given::Input)
    });
    let outcome = Outcome::NotApplied;
    let ended = Err(Error::Ended { end: End::Closed, outcome });
    let of_others = [
        Input::Reply { tag: OpId(1).tag(), result: lost() },
        Input::Reply { tag: OpId(1).tag(), result: ended },
        Input::State(State::Suspended),
        Input::State(State::Renewing),
        Input::State(READ_ONLY),
        Input::State(CONNECTED),
        Input::State(State::Ended(End::Expired)),
        Input::LeaseEnded,
        Input::Timer,
        Input::Settled,
    ];
    let commands = [
        Command::BehindAbandoned,
        Command::Convert(LockMode::Shared),
        Command::Convert(LockMode::Exclusive),
        Command::Leave,
        Command::Release,
    ];
    let others = of_others.into_iter().map(Given::Input);
    let others = others.chain(commands.into_iter().map(Given::Command));
    of_unknown.chain(is_done.then_some(others).into_iter().flatten())
}
