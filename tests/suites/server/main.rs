//! The in-memory ensemble, driven by bare frames and a clock that tests set.

extern crate alloc;

mod ensemble;
mod hostile;
mod served;
mod sessions;
mod tree;
mod watches;
mod world;
