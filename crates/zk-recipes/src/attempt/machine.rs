//! What every machine does with an input.

use zk_session::dispatch::Input;
use zk_session::proto::EventType;
use zk_session::proto::recording::Description;
use zk_session::session::{Reply, State};
use zk_session::{End, Error};

use super::command::Command;
use super::event::Event;
use super::name::LockMode;
use super::turn::Turn;
use super::watches::OpId;

/// A state machine for one attempt: it acquires something, holds it, and releases it.
///
/// It acts on its session, and reports to its owner, by its [`Turn`]. [`handle`](Self::handle) and
/// [`command`](Self::command) call the other methods, which by default do nothing. Once the machine
/// [is done](Self::is_done), they call none.
pub trait Machine: core::fmt::Debug {
    /// Returns whether the attempt is over. Then it submits and reports nothing more, and no node of
    /// it is left on the server.
    fn is_done(&self) -> bool;

    /// Returns whether the machine continues when its session is [renewed](State::Renewing). It then
    /// receives that state, and no replies to requests that end with the old session. The default is
    /// `false`: the end of the session is its last input.
    fn outlives_session(&self) -> bool {
        false
    }

    /// Describes the machine's configuration, for
    /// [recordings](zk_session::dispatch::Attached::describe). The default describes nothing.
    fn describe(&self, _description: &mut Description<'_>) {}

    /// Handles an input. The first one is the state of the session.
    ///
    /// A successful reply of a read-only server is replaced by its refusal to write.
    fn handle(&mut self, input: Input, turn: &mut Turn<'_>) {
        self.before_input(turn);
        match input {
            _ if self.is_done() => {}
            Input::Reply { tag, result } => match result.as_ref().err().and_then(Error::end) {
                Some(end) => self.session_ended(end, turn),
                None => {
                    if let Err(Error::ConnectionLost) = result {
                        self.not_connected(turn);
                    }
                    let result = turn.connection().check_reply(result);
                    self.handle_reply(OpId(tag), result, turn);
                }
            },
            Input::Watch { tag, event } => self.watch_fired(OpId(tag), event.event_type, turn),
            Input::State(State::Ended(end)) => self.session_ended(end, turn),
            Input::State(state) => {
                turn.connection_changed(state);
                self.session_changed(state, turn);
            }
            Input::LeaseEnded => self.lease_ended(turn),
            Input::Timer => self.timer_fired(turn),
            Input::Settled => self.settled(turn),
            _ => {}
        }
        self.after_input(turn);
    }

    /// Handles a command.
    fn command(&mut self, command: Command, turn: &mut Turn<'_>) {
        self.before_input(turn);
        match command {
            _ if self.is_done() => {}
            #[cfg(feature = "full")]
            Command::Convert(mode) => self.convert(mode, turn),
            Command::Leave => self.leave(turn),
            Command::Release => self.release(turn),
            Command::BehindAbandoned => self.behind_abandoned(turn),
            Command::CheckLease => {}
        }
        self.after_input(turn);
    }

    /// Called before each input and command. An attempt that does not wait for a state of its session
    /// begins here.
    fn before_input(&mut self, _turn: &mut Turn<'_>) {}

    /// Called after each input and command.
    fn after_input(&mut self, _turn: &mut Turn<'_>) {}

    /// Handles the reply to a request.
    fn handle_reply(&mut self, _op: OpId, _result: Result<Reply, Error>, _turn: &mut Turn<'_>) {}

    /// Handles the event of a watch, which is no longer set.
    fn watch_fired(&mut self, _op: OpId, _event_type: EventType, _turn: &mut Turn<'_>) {}

    /// Handles the first state of the session, and each new one, except its end.
    fn session_changed(&mut self, _state: State, _turn: &mut Turn<'_>) {}

    /// Handles the end of the session: the machine must be done then.
    fn session_ended(&mut self, _end: End, _turn: &mut Turn<'_>) {}

    /// Called before [`handle_reply`](Self::handle_reply) if the request was lost with its connection.
    fn not_connected(&mut self, _turn: &mut Turn<'_>) {}

    /// Handles the [end of the lease](Input::LeaseEnded).
    fn lease_ended(&mut self, _turn: &mut Turn<'_>) {}

    /// Called when the delay of the last [`Turn::set_timer`] has passed.
    fn timer_fired(&mut self, _turn: &mut Turn<'_>) {}

    /// Called when all inputs that had arrived at the last [`Turn::settle`] have been handled.
    fn settled(&mut self, _turn: &mut Turn<'_>) {}

    /// Executes `Command::Convert`, of the feature `full`. The default refuses, for locks without a
    /// shared mode.
    fn convert(&mut self, _mode: LockMode, turn: &mut Turn<'_>) {
        turn.report(Event::NO_READERS);
    }

    /// Executes [`Command::Leave`]. The default releases.
    fn leave(&mut self, turn: &mut Turn<'_>) {
        self.release(turn);
    }

    /// Executes [`Command::Release`].
    fn release(&mut self, _turn: &mut Turn<'_>) {}

    /// Executes [`Command::BehindAbandoned`].
    fn behind_abandoned(&mut self, _turn: &mut Turn<'_>) {}
}

/// An input, a command or a watch event that a machine passes on to a sub-machine.
#[derive(Debug)]
pub(crate) enum Given {
    Input(Input),
    Command(Command),
    /// The event of the watch that a request has set.
    Watch(OpId, EventType),
}

impl Given {
    /// Passes it to the machine.
    pub(crate) fn to(self, machine: &mut impl Machine, turn: &mut Turn<'_>) {
        match self {
            Self::Input(input) => machine.handle(input, turn),
            Self::Command(command) => machine.command(command, turn),
            Self::Watch(op, event_type) => machine.watch_fired(op, event_type, turn),
        }
    }
}

impl From<Input> for Given {
    fn from(input: Input) -> Self {
        Self::Input(input)
    }
}

impl From<Command> for Given {
    fn from(command: Command) -> Self {
        Self::Command(command)
    }
}
