//! What only a real ZooKeeper can show.

mod conformance;
mod launcher;
mod random;
mod script;
