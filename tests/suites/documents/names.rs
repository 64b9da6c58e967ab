//! Checks the names of errors: programs without `core::fmt` print them, and logs are searched for
//! them.

use std::collections::BTreeSet;
use std::fs;

use zk_proto::frame::FrameError;
use zk_proto::path::PathError;
use zk_proto::{CodecError, DecodeErrorKind, EncodeError};
use zk_recipes::{
    CacheError, LeaveError, LockError, Loss, ModeError, MultiLockError, SemaphoreError, Unconfirmed,
};
use zk_session::sasl::SaslError;
use zk_session::session::Cause;
use zk_session::{ConnectError, ConnectStringError, End, Error, Invalid, TlsError};

use super::root;

/// The errors with names of their own, and these names.
const NAMES: [(&str, &[&str]); 21] = [
    ("zk_proto::CodecError", CodecError::NAMES),
    ("zk_proto::DecodeErrorKind", DecodeErrorKind::NAMES),
    ("zk_proto::EncodeError", EncodeError::NAMES),
    ("zk_proto::PathError", PathError::NAMES),
    ("zk_proto::frame::FrameError", FrameError::NAMES),
    ("zk_recipes::CacheError", CacheError::NAMES),
    ("zk_recipes::LeaveError", LeaveError::NAMES),
    ("zk_recipes::LockError", LockError::NAMES),
    ("zk_recipes::Loss", Loss::NAMES),
    ("zk_recipes::ModeError", ModeError::NAMES),
    ("zk_recipes::MultiLockError", MultiLockError::NAMES),
    ("zk_recipes::SemaphoreError", SemaphoreError::NAMES),
    ("zk_recipes::Unconfirmed", Unconfirmed::NAMES),
    ("zk_session::ConnectError", ConnectError::NAMES),
    ("zk_session::ConnectStringError", ConnectStringError::NAMES),
    ("zk_session::End", End::NAMES),
    ("zk_session::Error", Error::NAMES),
    ("zk_session::Invalid", Invalid::NAMES),
    ("zk_session::TlsError", TlsError::NAMES),
    ("zk_session::sasl::SaslError", SaslError::NAMES),
    ("zk_session::session::Cause", Cause::NAMES),
];

/// Returns the listings of public items.
pub(super) fn listings() -> String {
    let read = |name| fs::read_to_string(root().join("docs/api").join(name)).expect("a listing");
    ["zk-proto.txt", "zk-session.txt", "zk-recipes.txt"].map(read).concat()
}

/// So no name changes unless a public item does.
#[test]
fn the_names_of_errors_are_those_of_their_variants() {
    let listings = listings();
    for (path, names) in NAMES {
        let start = format!("pub {path}::");
        let variants: BTreeSet<_> = listings
            .lines()
            .filter_map(|line| line.strip_prefix(&start))
            .map(|line| line.split(['(', ':']).next().unwrap_or(line))
            .collect();
        let unique: BTreeSet<_> = names.iter().copied().collect();
        assert_eq!(unique.len(), names.len(), "{path} has two variants of one name");
        assert_eq!(unique, variants, "{path}");
    }
}

#[test]
fn every_error_has_a_name() {
    let listings = listings();
    let errors = listings.lines().filter_map(|line| {
        let (_, path) = line.strip_prefix("impl")?.split_once("core::error::Error for ")?;
        Some(path.split("::").last().unwrap_or(path))
    });
    let errors: BTreeSet<_> = errors.collect();
    assert!(errors.contains("LockError") && errors.len() >= 18, "{errors:?}");
    let has_name = |error: &&str| {
        let function = format!("::{error}::name(&self) -> &'static str");
        listings.lines().any(|line| line.ends_with(&function))
    };
    let nameless: Vec<_> = errors.into_iter().filter(|error| !has_name(error)).collect();
    assert_eq!(nameless, Vec::<&str>::new());
}
