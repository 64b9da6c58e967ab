use alloc::string::ToString as _;

use zk_proto::{Decode as _, Reader, Xid, path};

use super::*;
use crate::{ConnectError, ConnectString};

#[test]
fn an_unknown_error_code_leaves_the_outcome_unknown() {
    let cases = [
        (ErrorCode::NO_NODE, Outcome::NotApplied),
        (ErrorCode::RUNTIME_INCONSISTENCY, Outcome::NotApplied),
        (ErrorCode::SYSTEM_ERROR, Outcome::Unknown),
        (ErrorCode(-12_345), Outcome::Unknown),
        (ErrorCode(7), Outcome::Unknown),
    ];
    for (code, outcome) in cases {
        assert_eq!(Error::Server(code).outcome(), outcome, "{code}");
        assert_eq!(Error::Transaction { index: 0, code }.outcome(), outcome, "{code}");
    }
}

#[test]
fn an_unsupported_operation_names_the_version_that_it_needs() {
    for (opcode, text) in [
        (OpCode::CREATE2, "the server does not support CREATE2, which needs ZooKeeper 3.5"),
        (OpCode::ADD_WATCH, "the server does not support ADD_WATCH, which needs ZooKeeper 3.6"),
        (OpCode::MULTI, "the server does not support MULTI, which needs ZooKeeper 3.4"),
        (OpCode::WHO_AM_I, "the server does not support WHO_AM_I, which needs ZooKeeper 3.7"),
        (
            OpCode::RECONFIG,
            "the server does not support RECONFIG, which needs ZooKeeper 3.5 and an ensemble",
        ),
        (
            OpCode::CREATE_TTL,
            "the server does not support CREATE_TTL, which needs ZooKeeper 3.5.4 with \
             extendedTypesEnabled",
        ),
        (OpCode::CREATE, "the server refused the request: UNIMPLEMENTED"),
    ] {
        let error = Error::refused(opcode, ErrorCode::UNIMPLEMENTED);
        assert_eq!(error.to_string(), text);
        assert_eq!(error.code(), Some(ErrorCode::UNIMPLEMENTED));
        assert_eq!(error.outcome(), Outcome::NotApplied);
    }
    assert_eq!(
        Error::refused(OpCode::CREATE2, ErrorCode::NO_NODE),
        Error::Server(ErrorCode::NO_NODE)
    );
}

#[test]
fn an_error_says_which_limit_was_exceeded_and_what_became_of_the_request() {
    let too_large = |outcome| Error::ReplyTooLarge { length: 9, limit: 8, outcome };
    let passed = |outcome| Error::DeadlinePassed { outcome };
    let ended = |outcome| Error::Ended { end: End::AuthFailed, outcome };
    for (error, outcome, end) in [
        (
            too_large(Outcome::NotApplied),
            Outcome::NotApplied,
            "of 9 bytes exceeds the limit of 8 (max_reply)",
        ),
        (too_large(Outcome::Unknown), Outcome::Unknown, "; the request may have been applied"),
        (too_large(Outcome::Applied), Outcome::Applied, "; the request was applied"),
        (passed(Outcome::NotApplied), Outcome::NotApplied, "before the request was sent"),
        (passed(Outcome::Unknown), Outcome::Unknown, "; the request may have been applied"),
        (ended(Outcome::NotApplied), Outcome::NotApplied, "refused a credential or require one"),
        (ended(Outcome::Unknown), Outcome::Unknown, "; the request may have been applied"),
        (Error::NoConnection, Outcome::NotApplied, "longer than the disconnect timeout"),
        (Error::QueueFull { limit: 8 }, Outcome::NotApplied, "which is the limit (max_pending)"),
        (Error::BufferFull { limit: 8 }, Outcome::NotApplied, "which is the limit (max_unsent)"),
        (
            Invalid::Reserved(OpCode::PING).into(),
            Outcome::NotApplied,
            "only the session itself sends it",
        ),
        (
            Invalid::TooLarge { length: 9, limit: 8 }.into(),
            Outcome::NotApplied,
            "the server's limit of 8",
        ),
        (
            Invalid::HarmsServer(OpCode::CHECK).into(),
            Outcome::NotApplied,
            "outside a transaction crashes some servers",
        ),
        (
            Error::Undeliverable { opcode: OpCode::CREATE2, length: 100_087 },
            Outcome::NotApplied,
            "at CREATE2 of 100087 bytes: it is probably too long, or they lack it",
        ),
        (
            Error::EphemeralsFull { limit: 8 },
            Outcome::NotApplied,
            "more than 8 bytes (max_ephemerals); the end of such a session stops the ensemble (ZOOKEEPER-4306)",
        ),
        (
            Error::Results { asked: 2, answered: 1 },
            Outcome::Unknown,
            "answered 2 operations with 1 results",
        ),
    ] {
        assert!(error.to_string().ends_with(end), "{error}");
        assert_eq!(error.outcome(), outcome, "{error}");
    }
    let code = ErrorCode::NO_NODE;
    let refused = Error::Transaction { index: 1, code }.to_string();
    assert_eq!(refused, "operation 1 of the transaction was refused: NO_NODE");
}

#[test]
fn a_failed_read_never_says_that_it_may_have_been_applied() {
    let outcome = Outcome::Unknown;
    let end = End::Expired;
    for reason in
        [Error::ConnectionLost, Error::DeadlinePassed { outcome }, Error::Ended { end, outcome }]
    {
        let failed = |operation| RequestError::new(operation, Some("/a"), reason.clone());
        for (operation, outcome) in [
            (OpCode::GET_DATA, Outcome::NotApplied),
            (OpCode::MULTI_READ, Outcome::NotApplied),
            (OpCode::SYNC, Outcome::NotApplied),
            (OpCode::SET_DATA, Outcome::Unknown),
            (OpCode::MULTI, Outcome::Unknown),
        ] {
            let error = failed(operation);
            assert_eq!(error.outcome(), outcome, "{error}");
            let says = error.to_string().ends_with("; the request may have been applied");
            assert_eq!(says, outcome == Outcome::Unknown, "{error}");
        }
    }
    // The operation is that of a transaction.
    let code = ErrorCode::SYSTEM_ERROR;
    let check = RequestError::new(OpCode::CHECK, None, Error::Transaction { index: 0, code });
    assert_eq!(check.outcome(), Outcome::Unknown);
}

#[test]
fn the_error_of_a_request_has_the_name_and_the_end_of_its_reason() {
    let ended = Error::Ended { end: End::Expired, outcome: Outcome::NotApplied };
    for (reason, name, end) in
        [(ended, "Ended", Some(End::Expired)), (Error::NoConnection, "NoConnection", None)]
    {
        let error = RequestError { operation: OpCode::CREATE, path: None, reason };
        assert_eq!((error.name(), error.end()), (name, end));
    }
}

#[test]
fn an_error_prints_all_of_its_reason_and_has_no_source() {
    let malformed = Xid::decode(&mut Reader::new(&[])).expect_err("no bytes");
    let path = path::validate("a").expect_err("relative");
    let chroot: Result<ConnectString, _> = "a//b".parse();
    let chroot = chroot.expect_err("an empty name");
    let connection = ConnectError::Address(chroot.clone());
    let deletion = RequestError::new(OpCode::DELETE, Some("a"), path.into());
    let relative = "a path must start with '/'";
    let errors: [(&dyn core::error::Error, &str); 6] = [
        (
            &Error::Reply(malformed),
            "the server's reply is malformed: at least 4 bytes are missing at byte 0",
        ),
        (&Error::from(path), relative),
        (&Invalid::Path(path), relative),
        (&deletion, "DELETE \"a\": a path must start with '/'"),
        (&chroot, "the chroot is invalid: a name in a path must not be empty (byte 1)"),
        (
            &connection,
            "the connection string is invalid: the chroot is invalid: \
             a name in a path must not be empty (byte 1)",
        ),
    ];
    for (error, text) in errors {
        assert_eq!(error.to_string(), text);
        assert!(error.source().is_none(), "{text}");
    }
}

#[test]
fn an_error_says_whose_fault_it_is() {
    let (end, outcome) = (End::Expired, Outcome::Unknown);
    for (error, fault) in [
        (Error::Server(ErrorCode::NO_NODE), Fault::Caller),
        (Error::Server(ErrorCode::NO_AUTH), Fault::Caller),
        (Error::Transaction { index: 0, code: ErrorCode::BAD_VERSION }, Fault::Caller),
        (Error::refused(OpCode::CREATE2, ErrorCode::UNIMPLEMENTED), Fault::Caller),
        (Error::Undeliverable { opcode: OpCode::CREATE2, length: 100_087 }, Fault::Caller),
        (Error::EphemeralsFull { limit: 8 }, Fault::Caller),
        (Error::QueueFull { limit: 8 }, Fault::Caller),
        (Error::BufferFull { limit: 8 }, Fault::Caller),
        (Error::ReplyTooLarge { length: 9, limit: 8, outcome }, Fault::Caller),
        (Invalid::Scheme.into(), Fault::Caller),
        (Error::Server(ErrorCode::RECONFIG_IN_PROGRESS), Fault::Others),
        (Error::ConnectionLost, Fault::Ensemble),
        (Error::NoConnection, Fault::Ensemble),
        (Error::DeadlinePassed { outcome: Outcome::NotApplied }, Fault::Ensemble),
        (Error::Results { asked: 2, answered: 1 }, Fault::Ensemble),
        (Error::Server(ErrorCode::SYSTEM_ERROR), Fault::Ensemble),
        (Error::Server(ErrorCode::NOT_READ_ONLY), Fault::Ensemble),
        (Error::Server(ErrorCode::SESSION_MOVED), Fault::Ensemble),
        (Error::Server(ErrorCode::THROTTLED_OP), Fault::Ensemble),
        (Error::Server(ErrorCode::NEW_CONFIG_NO_QUORUM), Fault::Ensemble),
        (Error::Server(ErrorCode(-12_345)), Fault::Ensemble),
        (Error::Server(ErrorCode::SESSION_EXPIRED), Fault::Session),
        (Error::Ended { end, outcome }, Fault::Session),
    ] {
        assert_eq!(error.fault(), fault, "{error}");
        // A read whose connection was lost is not applied, but it is no fault of the caller's.
        let read = RequestError { operation: OpCode::GET_DATA, path: None, reason: error };
        assert_eq!(read.fault(), fault, "{read}");
    }
}
