//! `defmt::Format` for the types that need no code of their own.

use core::fmt::Debug;

zk_proto::formatted_by_debug! {
    [] crate::Chroot;
    [] crate::ConnectString;
    [] crate::ServerAddress;
    [T: Debug] crate::dispatch::Dispatcher<T>;
    [] crate::dispatch::Effects;
    [] crate::dispatch::Port<'_>;
    [] crate::sasl::Authenticator;
    [] crate::session::Config;
    [T: Debug] crate::session::Session<T>;
}

#[cfg(feature = "sasl")]
zk_proto::formatted_by_debug! {
    [] crate::sasl::DigestMd5;
}
