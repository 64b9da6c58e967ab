//! `defmt::Format` for the types that need no code of their own.

use core::fmt::Debug;

zk_proto::formatted_by_debug! {
    [] crate::Chroot;
    [] crate::ConnectString;
    [] crate::ServerAddress;
    [T: Debug] crate::dispatch::Dispatcher<T>;
    [T: Debug] crate::dispatch::SharedSession<T>;
    [] crate::dispatch::Effects;
    [] crate::dispatch::Port<'_>;
    [] crate::sasl::Authenticator;
    [] crate::session::Config;
    [T: Debug, L: Debug] crate::event_loop::Loop<T, L>;
    [T: Debug] crate::session::Session<T>;
}

#[cfg(feature = "sasl")]
zk_proto::formatted_by_debug! {
    [] crate::sasl::DigestMd5;
}

/// Shows no password.
impl defmt::Format for crate::SessionTicket {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "SessionTicket({}, {})", self.id, self.last_zxid);
    }
}

/// Shows the length of the body.
impl defmt::Format for crate::session::Reply {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "Reply({}, {}, {=usize} bytes)", self.opcode, self.zxid, self.body.len());
    }
}

impl defmt::Format for crate::WatchedEvent {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "{}({=str}, {})", self.event_type, self.path, self.zxid);
    }
}
