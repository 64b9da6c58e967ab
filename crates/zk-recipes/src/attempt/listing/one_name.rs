//! The names of a list, one by one, for programs without the feature `full`.

use zk_session::Error;
use zk_session::session::Reply;

/// One name of a list.
pub(crate) type Names<'a> = &'a str;

pub(crate) fn each(name: Names<'_>) -> impl Iterator<Item = &str> + Clone {
    core::iter::once(name)
}

/// Returns nothing: every list is read in pieces.
pub(super) const fn whole(_: &Reply) -> Result<Option<Names<'_>>, Error> {
    Ok(None)
}

pub(super) fn one(name: &str, see: impl FnOnce(Names<'_>)) {
    see(name);
}
