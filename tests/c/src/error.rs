//! Errors as codes and text.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_int};

use zk_recipes::{Fault, LockError, RecipeError};
use zk_session::{ConnectError, Error, Outcome, RequestError};

/// Codes of errors that no server has. Servers' codes are below 0, such as -101 for a node that does
/// not exist, -103 for another version, -110 for a node that exists.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "as it is written in C")]
pub enum zk_error {
    /// Done.
    ZK_OK = 0,
    /// An argument is invalid, or the call is not allowed here. Nothing was sent.
    ZK_ARGUMENT = 1,
    /// No server of a quorum was reached. Nothing was applied.
    ZK_NOT_CONNECTED = 2,
    /// No answer has come: the request may have been applied, or the lock may still be held.
    ZK_UNKNOWN = 3,
    /// The session has ended: its locks are lost, and this client is of no more use.
    ZK_SESSION_ENDED = 4,
    /// The time limit has passed, and another contender holds the lock.
    ZK_TIMED_OUT = 5,
    /// The lock was lost before it was released.
    ZK_LOST = 6,
    /// Another reason, in zk_last_error().
    ZK_FAILED = 7,
}

use zk_error::{
    ZK_ARGUMENT, ZK_FAILED, ZK_LOST, ZK_NOT_CONNECTED, ZK_SESSION_ENDED, ZK_TIMED_OUT, ZK_UNKNOWN,
};

pub(crate) struct Failure {
    code: c_int,
    text: String,
}

pub(crate) fn argument(text: impl ToString) -> Failure {
    Failure { code: ZK_ARGUMENT as c_int, text: text.to_string() }
}

fn code_of(error: &Error) -> c_int {
    match error {
        _ if let Some(code) = error.code() => code.0,
        Error::Ended { .. } => ZK_SESSION_ENDED as c_int,
        _ if error.outcome() == Outcome::Unknown => ZK_UNKNOWN as c_int,
        Error::NoConnection | Error::ConnectionLost | Error::DeadlinePassed { .. } => {
            ZK_NOT_CONNECTED as c_int
        }
        Error::Invalid(_) => ZK_ARGUMENT as c_int,
        _ => ZK_FAILED as c_int,
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        Self { code: code_of(&error.reason), text: error.to_string() }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let code = match &error {
            ConnectError::Unreachable { .. } => ZK_NOT_CONNECTED,
            ConnectError::Address(_) => ZK_ARGUMENT,
            ConnectError::Ended(_) => ZK_SESSION_ENDED,
            _ => ZK_FAILED,
        };
        Self { code: code as c_int, text: error.to_string() }
    }
}

impl From<RecipeError> for Failure {
    fn from(error: RecipeError) -> Self {
        let code = match (&error.reason, error.fault()) {
            (LockError::Request(error), _) => code_of(error),
            (LockError::Lost(_) | LockError::NodeVanished, _) => ZK_LOST as c_int,
            (_, Fault::Others) => ZK_TIMED_OUT as c_int,
            (_, Fault::Session) => ZK_SESSION_ENDED as c_int,
            (LockError::NoConnection, _) => ZK_NOT_CONNECTED as c_int,
            (_, Fault::Ensemble) => ZK_UNKNOWN as c_int,
            (LockError::Path(_), _) => ZK_ARGUMENT as c_int,
            _ => ZK_FAILED as c_int,
        };
        Self { code, text: error.to_string() }
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs a call, and returns its code. Keeps the text of its error.
pub(crate) fn returning(call: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let Err(Failure { code, text }) = call() else { return 0 };
    let text = CString::new(text.replace('\0', "?")).expect("no NUL in it");
    LAST.set(text);
    code
}

/// Calls `with` with the last error's text.
pub(crate) fn with_last<T>(with: impl FnOnce(&CStr) -> T) -> T {
    LAST.with_borrow(|text| with(text))
}
