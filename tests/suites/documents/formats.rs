//! Checks that the firmware's check of `defmt::Format` names every public type of the cores.

use std::fs;

use super::names::listings;
use super::root;

/// The types of the clients and of features that need an operating system.
const NOT_CORES: [&str; 36] = [
    "zk_proto::ClientCodec",
    "zk_proto::ClientMessage",
    "zk_proto::CodecError",
    "zk_proto::DigestId",
    "zk_proto::FrameCodec",
    "zk_proto::GeneratorMode",
    "zk_proto::ServerCodec",
    "zk_proto::ServerMessage",
    "zk_proto::diagram::",
    "zk_proto::recording::",
    "zk_recipes::",
    "zk_session::Answer",
    "zk_session::Attachment",
    "zk_session::Client",
    "zk_session::ClientBuilder",
    "zk_session::ConnectError",
    "zk_session::MultiRead",
    "zk_session::PersistentWatch",
    "zk_session::ReadResult",
    "zk_session::Ready",
    "zk_session::TcpConnect",
    "zk_session::TlsConfig",
    "zk_session::TlsError",
    "zk_session::Tokio",
    "zk_session::Transaction",
    "zk_session::TransactionResult",
    "zk_session::Watch",
    "zk_session::WatchUpdate",
    "zk_session::blocking::",
    "zk_session::dispatch::Attachment",
    "zk_session::driver::",
    "zk_session::metrics::",
    "zk_session::recording::",
    "zk_session::sasl::DigestMd5",
    "zk_session::sasl::Gssapi",
    "zk_recipes::metrics::",
];

/// Returns whether a type belongs to a client. Most of those in the root of zk-recipes do.
fn is_clients(path: &str) -> bool {
    const CORES: [&str; 8] = [
        "CacheError",
        "LeaveError",
        "LockError",
        "Loss",
        "ModeError",
        "RecipeError",
        "SemaphoreError",
        "Unconfirmed",
    ];
    let in_root = path.strip_prefix("zk_recipes::").filter(|name| !name.contains("::"));
    in_root.is_some_and(|name| !CORES.contains(&name))
        || NOT_CORES.iter().any(|other| match other.ends_with("::") {
            true => path.starts_with(other),
            false => path == *other,
        })
}

#[test]
fn every_public_type_of_the_cores_is_checked() {
    let checked = fs::read_to_string(root().join("tests/firmware/src/formats.rs")).expect("text");
    let listings = listings();
    let types: Vec<_> = listings.lines().filter_map(path_of_type).collect();
    assert!(types.len() > 250, "{} types", types.len());
    let is_missing = |path: &&&str| {
        let name = [format!("<{path}>"), format!("<{path}<")];
        !is_clients(path) && !name.iter().any(|name| checked.contains(name))
    };
    let missing: Vec<_> = types.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn path_of_type(line: &str) -> Option<&str> {
    let line = line.trim_start_matches("#[non_exhaustive] ");
    let item = line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub enum "))?;
    item.split(['<', '(', ' ']).next()
}
