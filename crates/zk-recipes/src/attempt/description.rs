//! Descriptions of machines for recordings: their configuration, observations and decisions.
//!
//! [`Description`] documents the fields.

#[cfg(all(feature = "full", feature = "blocking"))]
mod read;

use zk_session::proto::recording::{Description, Fields};

use super::access::AccessList;
use super::command::Command;
use super::config::AttemptConfig;
use super::event::Event;
use super::name::{LockMode, PrefixFormat, Scheme};
use super::queue::UnknownNodePolicy;

impl LockMode {
    pub(crate) const ALL: [Self; 2] = [Self::Shared, Self::Exclusive];
}

impl UnknownNodePolicy {
    pub(crate) const ALL: [Self; 4] =
        [Self::RefuseOtherLocks, Self::Ignore, Self::Refuse, Self::Count];
}

impl AttemptConfig {
    /// Describes a machine with this configuration.
    pub(crate) fn describe(&self, name: &str, description: &mut Description<'_>) {
        let Self { lock_path, chroot_length, scheme, mode, guid, session, data, .. } = self;
        let Self { acl, parent_acl, parents, wait_policy, disconnect_policy, .. } = self;
        let Self { unknown_nodes, revocable, .. } = self;
        description.machine(name, lock_path);
        description.number(*chroot_length as u64);
        scheme.describe(description);
        description.number(*mode as u64);
        let (high, low) = guid.as_u64_pair();
        description.number(high);
        description.number(low);
        description.signed(session.0);
        description.data(data);
        acl.describe(description);
        parent_acl.describe(description);
        description.number(*parents as u64);
        description.number(*wait_policy as u64);
        description.number(*disconnect_policy as u64);
        description.number(*unknown_nodes as u64);
        description.number((*revocable).into());
    }
}

impl Scheme {
    fn describe(&self, fields: &mut Fields<'_>) {
        fields.number(match self.format {
            PrefixFormat::Curator { dashes } => dashes.into(),
            PrefixFormat::Kazoo(_) => 2,
            PrefixFormat::Compact(_) => 3,
            PrefixFormat::Session(_) => 4,
        });
        fields.bytes(self.exclusive.as_bytes());
        fields.number(self.shared.is_some().into());
        self.shared.iter().for_each(|shared| fields.bytes(shared.as_bytes()));
    }
}

impl AccessList {
    /// Describes the list without the ids, which may be secrets.
    fn describe(&self, fields: &mut Fields<'_>) {
        if *self == Self::OPEN {
            return fields.number(0);
        }
        fields.number(self.list().iter().count() as u64 + 1);
        for entry in self.list().iter() {
            fields.number(u64::from(entry.perms.0.cast_unsigned()));
            fields.bytes(entry.id.scheme.as_bytes());
            fields.number(entry.id.id.map_or(0, |id| id.len() as u64 + 1));
        }
    }
}

impl Command {
    #[cfg(all(feature = "full", feature = "blocking"))]
    pub(crate) fn describe(self, fields: &mut Fields<'_>) {
        match self {
            Self::Convert(mode) => {
                fields.number(0);
                fields.number(mode as u64);
            }
            Self::Leave => fields.number(1),
            Self::Release => fields.number(2),
            Self::BehindAbandoned => fields.number(3),
            Self::CheckLease => fields.number(4),
        }
    }
}

impl Event {
    /// Writes the fields of a note, without names of nodes.
    pub(crate) fn note(&self, fields: &mut Fields<'_>) {
        let (name, value) = match self {
            Self::Enqueued { token, .. } => ("enqueued", token.0),
            Self::Waiting { ahead, .. } => ("waiting", *ahead as i64),
            Self::Permits(nodes) => ("permits", nodes.len() as i64),
            Self::Acquired { token, .. } => ("acquired", token.0),
            Self::Suspended => ("suspended", 0),
            Self::Resumed => ("resumed", 0),
            Self::Lost(loss) => (loss.name(), 0),
            Self::Converted { mode: LockMode::Shared, token, .. } => ("downgraded", token.0),
            Self::Converted { token, .. } => ("upgraded", token.0),
            Self::NotConverted(error) => (error.name(), 0),
            Self::Revoked => ("revoked", 0),
            Self::UnknownNode(_) => ("unknown node", 0),
            Self::Abandoned { .. } => ("abandoned", 0),
            Self::Releasing => ("releasing", 0),
            Self::Released => ("released", 0),
            Self::Failed(error) => (error.name(), 0),
            Self::Refused(error) => (error.name(), 0),
        };
        fields.bytes(name.as_bytes());
        fields.signed(value);
    }
}
