//! What can be chosen about an ensemble.

use core::time::Duration;

use zk_proto::frame;

/// Settings of an [`Ensemble`](super::Ensemble). The defaults are those of a real server.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many members there are; at least one.
    pub members: usize,
    /// Sessions expire at multiples of this.
    pub tick: Duration,
    /// The shortest session timeout that is granted; two ticks by default.
    pub min_session_timeout: Duration,
    /// The longest session timeout that is granted; twenty ticks by default.
    pub max_session_timeout: Duration,
    /// How often empty containers are looked for.
    pub container_check: Duration,
    /// The longest frame that is accepted (`jute.maxbuffer`).
    pub frame_limit: usize,
    /// What the passwords of sessions are made from.
    pub seed: u64,
}

impl Config {
    /// An ensemble of this many members.
    #[must_use]
    pub fn members(members: usize) -> Self {
        Self { members, ..Self::default() }
    }

    /// Sets the tick, and the limits of session timeouts with it.
    #[must_use]
    pub fn with_tick(self, tick: Duration) -> Self {
        let (min_session_timeout, max_session_timeout) = (tick * 2, tick * 20);
        Self { tick, min_session_timeout, max_session_timeout, ..self }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            members: 1,
            tick: Duration::from_secs(2),
            min_session_timeout: Duration::from_secs(4),
            max_session_timeout: Duration::from_secs(40),
            container_check: Duration::from_secs(60),
            frame_limit: frame::DEFAULT_LIMIT,
            seed: 0,
        }
    }
}
