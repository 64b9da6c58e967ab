//! What only a real ZooKeeper can show.

mod launcher;
