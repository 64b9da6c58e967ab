//! Without the feature `tokio`, there is no default client: programs name theirs. So their types
//! stay the same when another crate enables the feature.

/// The default client: none.
#[derive(Debug)]
pub enum Client {}

/// Returns the function itself: there is no runtime.
pub(crate) fn in_context(run: impl FnOnce()) -> impl FnOnce() {
    run
}
