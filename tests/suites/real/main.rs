//! What only a real ZooKeeper can show.

mod action;
mod chaos;
mod conformance;
mod generators;
mod interop;
mod launcher;
mod lock;
mod odd;
mod operations;
mod player;
mod random;
mod recipes;
mod reconnect;
mod render;
mod script;
mod survival;
