//! What only a real ZooKeeper can show.

mod action;
mod conformance;
mod launcher;
mod lock;
mod random;
mod render;
mod script;
mod stage;
