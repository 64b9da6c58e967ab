//! What only a real ZooKeeper can show.

mod conformance;
mod launcher;
mod lock;
mod random;
mod script;
