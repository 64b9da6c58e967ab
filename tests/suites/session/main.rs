//! zk-session's clients under load, at rest, and before a peer that means them no good.

mod reconnect;
