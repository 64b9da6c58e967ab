//! Reads descriptions from recordings. All is `inline`: only programs that replay compile it.

use alloc::string::String;
use alloc::vec::Vec;
use std::sync::{Mutex as StdMutex, PoisonError};

use uuid::Uuid;
use zk_session::proto::recording::{FieldReader, Malformed};
use zk_session::proto::{Acl, Id, Perms, SessionId};

use super::PrefixFormat;
use crate::attempt::full::Full;
use crate::attempt::{
    AccessList, AttemptConfig, Command, DisconnectPolicy, LockMode, Parents, Scheme,
    UnknownNodePolicy, WaitPolicy,
};

/// The longest id of an access control list.
const LONGEST_ID: usize = 1 << 20;

/// Reads an enumeration, by the order of its variants.
fn one_of<T: Copy>(fields: &mut FieldReader<'_>, all: &[T]) -> Result<T, Malformed> {
    all.get(fields.small::<usize>()?).copied().ok_or(Malformed::Record)
}

impl AttemptConfig {
    /// Reads a description, for this path.
    #[inline]
    pub(crate) fn described(path: &str, fields: &mut FieldReader<'_>) -> Result<Self, Malformed> {
        let chroot_length = fields.small()?;
        let (scheme, mode) = (Scheme::described(fields)?, one_of(fields, &LockMode::ALL)?);
        let guid = Uuid::from_u64_pair(fields.number()?, fields.number()?);
        Ok(Self {
            chroot_length,
            mode,
            session: SessionId(fields.signed()?),
            data: fields.message()?.into(),
            acl: AccessList::described(fields)?,
            parent_acl: AccessList::described(fields)?,
            parents: one_of(fields, &[Parents::Containers, Parents::Persistent, Parents::None])?,
            wait_policy: WaitPolicy::described(fields)?,
            disconnect_policy: one_of(
                fields,
                &[
                    DisconnectPolicy::UntilLeaseEnds,
                    DisconnectPolicy::UntilServerReports,
                    DisconnectPolicy::WhileConnected,
                ],
            )?,
            unknown_nodes: one_of(fields, &UnknownNodePolicy::ALL)?,
            revocable: fields.number()? != 0,
            ..Self::new(path.into(), scheme, guid)
        })
    }
}

impl WaitPolicy {
    #[inline]
    pub(crate) fn described(fields: &mut FieldReader<'_>) -> Result<Self, Malformed> {
        let all = [Self::Queue, Self::OnlyIfFirst, Self::OnlyIfFree];
        one_of(fields, &all)
    }
}

impl Scheme {
    #[inline]
    fn described(fields: &mut FieldReader<'_>) -> Result<Self, Malformed> {
        let format = one_of(
            fields,
            &[
                PrefixFormat::Curator { dashes: false },
                PrefixFormat::Curator { dashes: true },
                PrefixFormat::Kazoo(Full::On),
                PrefixFormat::Compact(Full::On),
                PrefixFormat::Session(Full::On),
            ],
        )?;
        let exclusive = marker(fields)?;
        let shared = if fields.number()? != 0 { Some(marker(fields)?) } else { None };
        if let PrefixFormat::Compact(_) = format {
            return Ok(Self::private(exclusive, shared));
        }
        Ok(Self::new(format, exclusive, shared))
    }
}

/// The markers of private schemes in the recordings that this process has replayed. They are
/// leaked, since markers are `'static`. So their length and number are limited.
static MARKERS: StdMutex<Vec<&'static str>> = StdMutex::new(Vec::new());
const MOST_MARKERS: usize = 64;
const LONGEST_MARKER: usize = 256;

#[inline]
fn marker(fields: &mut FieldReader<'_>) -> Result<&'static str, Malformed> {
    let marker = fields.text()?;
    let known = ["", "lock-", "__WRIT__", "__READ__", "latch-", "lease-", "__lock__", "__rlock__"];
    let mut markers = MARKERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.iter().chain(markers.iter()).find(|known| **known == marker) {
        return Ok(known);
    }
    if markers.len() == MOST_MARKERS || marker.len() > LONGEST_MARKER {
        return Err(Malformed::Record);
    }
    markers.push(String::from(marker).leak());
    markers.last().copied().ok_or(Malformed::Record)
}

impl AccessList {
    /// Reads a list. Zeros stand for the ids.
    #[inline]
    fn described(fields: &mut FieldReader<'_>) -> Result<Self, Malformed> {
        let Some(count) = fields.number()?.checked_sub(1) else { return Ok(Self::OPEN) };
        let mut entries = Vec::new();
        for _ in 0..count {
            let perms = Perms(fields.small::<u32>()?.cast_signed());
            let (scheme, length) = (fields.text()?, fields.small::<usize>()?);
            if length > LONGEST_ID {
                return Err(Malformed::Record);
            }
            entries.push((perms, scheme, length.checked_sub(1).map(|it| "\0".repeat(it))));
        }
        let acl = entries
            .iter()
            .map(|(perms, scheme, id)| Acl { perms: *perms, id: Id { scheme, id: id.as_deref() } });
        Ok(Self::new(&acl.collect::<Vec<_>>()))
    }
}

impl Command {
    pub(crate) fn described(fields: &mut FieldReader<'_>) -> Result<Self, Malformed> {
        Ok(match fields.number()? {
            0 => Self::Convert(one_of(fields, &LockMode::ALL)?),
            1 => Self::Leave,
            2 => Self::Release,
            3 => Self::BehindAbandoned,
            4 => Self::CheckLease,
            _ => return Err(Malformed::Record),
        })
    }
}
