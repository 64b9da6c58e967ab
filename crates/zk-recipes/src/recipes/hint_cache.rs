//! The hint of one contender for the next one of the same lock.

use alloc::sync::Arc;
use std::sync::PoisonError;

use zk_session::threads::{Mutex as StdMutex, MutexGuard as StdMutexGuard};

use zk_session::State;

use crate::machine::{AttemptConfig, Contender, FastPathHint, Input, Machine, Output, Restart};

/// The latest hint. The clones of a lock share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct HintCache(Arc<StdMutex<Option<FastPathHint>>>);

impl HintCache {
    /// Wraps a contender: it uses the previous hint, and stores its own when it is released, and
    /// when it is done.
    pub(crate) fn contender(&self, config: AttemptConfig) -> HintingContender {
        let config = AttemptConfig { hint: *self.hint(), ..config };
        HintingContender { contender: Contender::new(config), hint_cache: self.clone() }
    }

    fn hint(&self) -> StdMutexGuard<'_, Option<FastPathHint>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Restart for HintingContender {
    fn restart(&self, state: Option<State>) -> Self {
        let Self { contender, hint_cache } = self;
        Self { contender: contender.restart(state), hint_cache: hint_cache.clone() }
    }
}

/// A contender that stores its hint.
#[derive(Debug)]
pub(crate) struct HintingContender {
    contender: Contender,
    hint_cache: HintCache,
}

impl Machine for HintingContender {
    fn handle(&mut self, input: Input) {
        if let Input::Reply { .. } = input
            && self.contender.wants_hint()
            && let Some(hint) = *self.hint_cache.hint()
        {
            self.contender.handle(Input::Hint(hint));
        }
        self.contender.handle(input);
        let hint = self.contender.hint();
        if hint.is_some() || self.contender.is_done() {
            *self.hint_cache.hint() = hint;
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.contender.poll_output()
    }

    fn is_done(&self) -> bool {
        self.contender.is_done()
    }
}
