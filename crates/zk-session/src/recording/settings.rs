//! The settings of a session in its recording.

use core::time::Duration;

use bytes::Bytes;
use zk_proto::recording::{FieldReader, Fields, Malformed};
use zk_proto::{SessionId, Zxid};

use crate::session::{Config, SessionTicket};

/// More servers than any ensemble has.
pub(super) const MOST_SERVERS: usize = 1 << 16;
/// Longer than any password or credential.
pub(super) const LONGEST_SECRET: usize = 1 << 20;

pub(super) fn put(fields: &mut Fields<'_>, config: &Config) {
    let numbers = [
        config.servers as u64,
        nanoseconds(config.timeout),
        config.max_request as u64,
        config.max_reply as u64,
        config.max_pending as u64,
        config.max_unsent as u64,
        config.max_ephemerals.map_or(0, |bytes| (bytes as u64).saturating_add(1)),
        config.max_kept as u64,
        config.disconnect_timeout().map_or(0, |it| nanoseconds(it).saturating_add(1)),
        config.read_only.into(),
        config.authenticates().into(),
        config.renews().into(),
        config.seed,
        config.resume.is_some().into(),
    ];
    for number in numbers {
        fields.number(number);
    }
    if let Some(SessionTicket { id, password, last_zxid }) = &config.resume {
        fields.signed(id.0);
        fields.signed(last_zxid.0);
        fields.number(password.len() as u64);
    }
}

pub(super) fn get(fields: &mut FieldReader<'_>) -> Result<Config, Malformed> {
    let servers = fields.small()?;
    if servers > MOST_SERVERS {
        return Err(Malformed::Record);
    }
    let mut config = Config::new(servers, 0);
    config.timeout = Duration::from_nanos(fields.number()?);
    config.max_request = fields.small()?;
    config.max_reply = fields.small()?;
    config.max_pending = fields.small()?;
    config.max_unsent = fields.small()?;
    config.max_ephemerals = fields.small::<usize>()?.checked_sub(1);
    config.max_kept = fields.small()?;
    let disconnect_timeout = fields.number()?.checked_sub(1).map(Duration::from_nanos);
    config.read_only = fields.number()? != 0;
    let (authenticates, renews) = (fields.number()? != 0, fields.number()? != 0);
    #[cfg(feature = "full")]
    {
        config.disconnect_timeout = disconnect_timeout;
        config.authenticate = authenticates;
        config.renew = renews;
    }
    #[cfg(not(feature = "full"))]
    if disconnect_timeout.is_some() || authenticates || renews {
        return Err(Malformed::Record);
    }
    config.seed = fields.number()?;
    if fields.number()? != 0 {
        let (id, last_zxid) = (SessionId(fields.signed()?), Zxid(fields.signed()?));
        config.resume = Some(SessionTicket::new(id, zeros(fields.small()?)?, last_zxid));
    }
    Ok(config)
}

/// Stands for a secret of this length.
fn zeros(length: usize) -> Result<Bytes, Malformed> {
    match length <= LONGEST_SECRET {
        true => Ok(alloc::vec![0; length].into()),
        false => Err(Malformed::Record),
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
