//! The in-memory ensemble, driven by bare frames and a clock that tests set.

extern crate alloc;

mod acls;
mod ensemble;
mod expiry;
#[path = "../../../crates/zk-proto/examples/fuzz_server.rs"]
#[allow(dead_code, reason = "the example's own `main`")]
mod fuzz_server;
mod hostile;
mod keeper;
mod persistent;
mod proxy;
mod read_only;
mod served;
mod sessions;
mod tree;
mod versions;
mod watches;
mod words;
mod world;
