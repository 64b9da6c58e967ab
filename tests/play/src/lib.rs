//! The page `docs/play`: films of locks in the simulator, as data for a browser.
//!
//! A [`Film`](film::Film) is a run of the simulator, step by step: each message with its bytes and
//! the meaning of its fields, and the state of servers, sessions and the queue. The told
//! [stories] are films made in advance, and [`free`] makes one in the browser as its reader acts.
//!
//! `tests/play/build.sh` writes both.

extern crate alloc;

#[path = "../../src/guide/label.rs"]
#[allow(dead_code, reason = "the guide uses more of it")]
mod label;
#[path = "../../src/linearizable.rs"]
#[allow(missing_docs, unreachable_pub, reason = "the simulator uses it")]
pub mod linearizable;
#[path = "../../server/src/server/mod.rs"]
pub mod server;
#[path = "../../src/sim/mod.rs"]
pub mod sim;
#[path = "../../src/spied.rs"]
#[allow(dead_code, unreachable_pub, reason = "the fuzz targets use more of it")]
mod spied;

pub mod film;
pub mod free;
mod json;
pub mod stories;
mod wire;
