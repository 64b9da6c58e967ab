//! The interface of a dispatcher to an attached machine.

use alloc::boxed::Box;
use core::any::Any;

use zk_proto::ErrorCode;
use zk_proto::recording::{Description, FieldReader};

use super::port::Port;
use crate::error::Error;
use crate::session::event::{Reply, State, WatchedEvent};

/// A state machine that can be attached to a session.
///
/// The dispatcher calls its methods synchronously; a client calls it with the session locked. They
/// must not block. They act on the session through the [`Port`]. Wakers and user code go to
/// [`Port::wake`] and [`Port::defer`]. They are `Send` on boards, too, so that interrupts and tasks can
/// share a session, as a resource of RTIC or in a mutex of embassy.
///
/// ```
/// use zk_session::dispatch::{Attached, Dispatcher, Input, Port};
/// use zk_session::proto::{ExistsRequest, Request};
/// use zk_session::session::{Config, Session};
/// use zk_session::time::Instant;
///
/// /// Asks once whether a node exists.
/// #[derive(Default)]
/// struct Probe {
///     is_sent: bool,
///     is_done: bool,
/// }
///
/// impl Attached for Probe {
///     fn handle(&mut self, input: Input, port: &mut Port<'_>) {
///         match input {
///             Input::State(_) if !self.is_sent => {
///                 self.is_sent = true;
///                 let request = ExistsRequest { path: "/node", watch: false };
///                 port.submit(0, &Request::Exists(request));
///             }
///             Input::Reply { result, .. } => {
///                 println!("{result:?}");
///                 self.is_done = true;
///             }
///             _ => {}
///         }
///     }
///
///     fn is_done(&self) -> bool {
///         self.is_done
///     }
/// }
///
/// let session = Session::new(Instant::START, Config::new(3, 42));
/// let mut dispatcher: Dispatcher<()> = Dispatcher::new(session);
/// dispatcher.attach(Instant::START, Box::new(Probe::default()));
/// assert_eq!(dispatcher.attached(), 1);
/// assert_eq!(dispatcher.session().pending(), 1);
/// ```
pub trait Attached: Send {
    /// Handles the next input.
    fn handle(&mut self, input: Input, port: &mut Port<'_>);

    /// Handles a message from the machine's owner. The machine may leave its answer in the message.
    /// The default ignores messages.
    fn command(&mut self, _message: &mut dyn Any, _port: &mut Port<'_>) {}

    /// Returns whether the machine is finished. The dispatcher checks it after each call of the
    /// other methods.
    ///
    /// The dispatcher detaches a finished machine, and drops its watches and its timer. The
    /// machine's requests are still sent, but their replies are discarded. The machine itself is
    /// dropped as one of the [effects](super::Effects). Its `Drop` must not wait for the session.
    fn is_done(&self) -> bool;

    /// Returns whether the machine stays attached when the session is
    /// [renewed](crate::session::State::Renewing). The default is `false`.
    ///
    /// * `false`: the machine receives `State::Ended(End::Expired)` as its last input.
    /// * `true`: it receives [`State::Renewing`]. Its watches are gone by then. Requests that end
    ///   with the session, and those that it makes in this call, have failed without a reply. Later
    ///   requests wait for the new session.
    fn outlives_session(&self) -> bool {
        false
    }

    /// Describes the machine's configuration, for [recordings](crate::recording). It is called
    /// before the first input. The default describes nothing, so a replay does not make the machine
    /// again.
    fn describe(&self, _description: &mut Description<'_>) {}

    /// Describes a message for [`command`](Self::command). The default describes nothing.
    fn describe_command(&self, _message: &dyn Any, _description: &mut Description<'_>) {}

    /// Returns the message of a description. With `None`, the default, a replay passes `()`.
    fn described_command(&self, _description: FieldReader<'_>) -> Option<Box<dyn Any>> {
        None
    }
}

/// An input of an attached machine. Inputs come in the order of the session's events.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Debug)]
#[non_exhaustive]
pub enum Input {
    /// The state of the session: first the one that was delivered last, then each new one, unless
    /// only the index of the server is new. [`State::Ended`] is the last input.
    State(State),
    /// The reply to a request, or the error that replaces it.
    ///
    /// If the session refuses a request, the next [`settle`](super::Dispatcher::settle) delivers the
    /// error.
    Reply {
        /// The tag of the request.
        tag: u64,
        /// The reply of the server, or the error that replaces it.
        result: Result<Reply, Error>,
    },
    /// A watch has fired. It is no longer set, unless it is persistent.
    Watch {
        /// The tag of the request that set it.
        tag: u64,
        /// The change of the node.
        event: WatchedEvent,
    },
    /// A persistent watch may have missed events: there is a new connection, whose state came before.
    Gap {
        /// The tag of the request that set the watch.
        tag: u64,
    },
    /// A server that is too old has refused to set a persistent watch again. It is no longer set.
    WatchLost {
        /// The tag of the request that set the watch.
        tag: u64,
        /// The refusal.
        code: ErrorCode,
    },
    /// The lease of the session [has ended](crate::session::Event::LeaseEnded), with or without a
    /// connection.
    ///
    /// A machine may receive the same end several times. If the lease has already ended, it
    /// receives this:
    ///
    /// * right after it is attached, and right after it receives a state;
    /// * right before and right after it receives a command;
    /// * right before it receives [`Settled`](Self::Settled).
    LeaseEnded,
    /// The owner [closes](super::Dispatcher::close) the session. What the machine holds is gone as
    /// soon as the server executes that. Requests are refused from now on.
    Closing,
    /// The time of the [timer](Port::set_timer) has come. No timer is set now.
    Timer,
    /// Everything that had arrived at the time of [`Port::settle`] is delivered.
    Settled,
}
