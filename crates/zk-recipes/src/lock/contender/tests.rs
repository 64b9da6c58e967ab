//! Tests of the contender. Outputs are compared as lines of text, in order.

mod acquiring;
mod asking_once;
mod disconnect_policy;
mod downgrading;
mod exploring;
mod holding;
mod leaving;
mod listing;
mod long_lists;
mod ranking;
mod reading_only;
mod renewing;
mod resolving;
mod returning;
mod revoking;
mod trying;
mod unknown_nodes;
mod upgrading;
