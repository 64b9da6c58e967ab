//! Replays of recordings in which the machines of this crate decide again.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let replayed = zk_recipes::recording::replay(&std::fs::read("app.zkrec")?)?;
//! println!("{} machines decided again", replayed.decided);
//! # Ok(())
//! # }
//! ```

// All functions are `inline`: only programs that replay compile the machines for it.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use zk_session::Chroot;
use zk_session::dispatch::{Attached, Port};
use zk_session::proto::recording::{Described, FieldReader, Malformed};
pub use zk_session::recording::*;

use crate::attempt::{AttemptConfig, Event, Machine, Observer, OnSession, Requeuing, WaitPolicy};
use crate::barrier::BarrierWait;
use crate::cache::{CacheConfig, recipe::Follower};
use crate::client::lookout::Watcher;
use crate::double_barrier::Participant;
use crate::election::ElectionMachine;
use crate::ephemeral::EphemeralMachine;
use crate::lock::Contender;
use crate::lock::idle_watch::IdleWatch;
use crate::semaphore::{PermitRequest, SemaphoreMachine};
use crate::textbook::{HerdContender, SimpleContender};

/// Replays a recording, like [`zk_session::recording::replay`]. The machines of this crate decide
/// again, and the replay compares each of their requests, watches, timers and reports. Other
/// machines repeat what was recorded.
///
/// # Errors
///
/// [`ReplayError::Diverged`] with the first step that differs: the recording was altered, or made
/// by a version that decides otherwise.
#[inline]
pub fn replay(recording: &[u8]) -> Result<Replayed, ReplayError> {
    replay_with(recording, &mut machine)
}

/// Makes a machine of this crate again, for [`replay_with`]. `None` for other machines.
///
/// It has no owner, so it wakes and calls nobody.
///
/// # Errors
///
/// If its description is malformed.
#[inline]
pub fn machine(described: Described<'_>) -> Result<Option<Box<dyn Attached>>, Malformed> {
    let Described { name, path, fields, .. } = described;
    let mut fields = fields;
    let it = &mut fields;
    Ok(Some(match name {
        "contender" => attached(Contender::new(config(path, it)?), it)?,
        "herd" => attached(HerdContender::new(config(path, it)?), it)?,
        "simple" => attached(SimpleContender::new(config(path, it)?), it)?,
        "ephemeral" => attached(EphemeralMachine::new(config(path, it)?), it)?,
        "election contender" => attached(ElectionMachine::new(config(path, it)?), it)?,
        "requeuing contender" => {
            attached(Requeuing::new(Contender::new(config(path, it)?), true), it)?
        }
        "requeuing herd" => {
            attached(Requeuing::new(HerdContender::new(config(path, it)?), true), it)?
        }
        "barrier" => attached(BarrierWait::new(path.into(), WaitPolicy::described(it)?), it)?,
        "lookout" => lookout(it)?,
        _ => return of_full(name, path, it),
    }))
}

#[inline]
fn of_full(
    name: &str,
    path: &str,
    it: &mut FieldReader<'_>,
) -> Result<Option<Box<dyn Attached>>, Malformed> {
    Ok(Some(match name {
        "semaphore" => attached(semaphore(path, it)?, it)?,
        "requeuing semaphore" => attached(Requeuing::new(semaphore(path, it)?, true), it)?,
        "participant" => attached(Participant::new(config(path, it)?, it.small()?), it)?,
        "idle watch" => {
            let (node, keep) = (it.text()?.into(), Duration::from_nanos(it.number()?));
            attached(IdleWatch::new(path.into(), node, keep), it)?
        }
        "cache" => {
            let config = CacheConfig {
                is_recursive: it.number()? != 0,
                is_persistent: it.number()? != 0,
                max_nodes: it.small()?,
                max_bytes: it.small()?,
                max_requests: it.small()?,
                root: path.into(),
            };
            Box::new(Follower::new(config, Chroot::default()))
        }
        _ => return Ok(None),
    }))
}

#[inline]
fn config(path: &str, it: &mut FieldReader<'_>) -> Result<AttemptConfig, Malformed> {
    AttemptConfig::described(path, it)
}

#[inline]
fn semaphore(path: &str, it: &mut FieldReader<'_>) -> Result<SemaphoreMachine, Malformed> {
    let (config, permits) = (config(path, it)?, it.small()?);
    let maximum = it.number()?.checked_sub(1).map(u32::try_from).transpose();
    let maximum = maximum.map_err(|_| Malformed::Record)?;
    let refuses_other_locks = it.number()? != 0;
    let request =
        PermitRequest { refuses_other_locks, ..PermitRequest::new(config, permits, maximum) };
    Ok(SemaphoreMachine::new(request))
}

#[inline]
fn lookout(it: &mut FieldReader<'_>) -> Result<Box<dyn Attached>, Malformed> {
    let has_timeout = it.number()? != 0;
    let timeout = has_timeout.then(|| it.number().map(Duration::from_nanos)).transpose()?;
    Ok(Box::new(Watcher::new(Arc::default(), timeout, it.number()? != 0)))
}

fn attached(
    machine: impl Machine + Send + 'static,
    it: &mut FieldReader<'_>,
) -> Result<Box<dyn Attached>, Malformed> {
    Ok(Box::new(match it.number()? {
        0 => OnSession::new(machine, Nobody, 0).without_renewals(),
        _ => OnSession::new(machine, Nobody, it.number()?),
    }))
}

/// The owner of a machine in a replay.
struct Nobody;

impl Observer for Nobody {
    fn observe(&mut self, _: Event, _: &mut Port<'_>) {}
}

#[cfg(test)]
mod tests;
