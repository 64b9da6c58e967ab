//! Without the feature `tokio`, there is no default client. So programs name theirs, and their types
//! stay the same when another crate enables that feature.

/// The default client: none.
#[derive(Debug)]
pub enum Client {}
