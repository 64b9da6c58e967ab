//! The bodies of the fuzz targets, from the sources of `zk-testkit`, without its dependencies.

extern crate alloc;

#[path = "../../tests/src/fuzz.rs"]
pub mod fuzz;
#[path = "../../tests/src/fuzz_cache.rs"]
mod fuzz_cache;
#[path = "../../tests/src/fuzz_machine.rs"]
pub mod fuzz_machine;
#[path = "../../tests/src/fuzz_server.rs"]
pub mod fuzz_server;
#[path = "../../tests/src/fuzz_session.rs"]
pub mod fuzz_session;
#[path = "../../tests/src/fuzz_text.rs"]
pub mod fuzz_text;
pub mod mutator;
#[path = "../../tests/server/src/server/mod.rs"]
pub mod server;
#[path = "../../tests/src/spied.rs"]
pub mod spied;
