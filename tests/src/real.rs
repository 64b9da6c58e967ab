//! A real ZooKeeper, started and stopped by tests.
