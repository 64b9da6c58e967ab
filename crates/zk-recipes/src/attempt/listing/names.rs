//! The names of a list: all at once if the list comes whole.

use zk_session::Error;
use zk_session::proto::{GetChildrenResponse, List};
use zk_session::session::Reply;

/// Some names of a list: all, or one.
pub(crate) type Names<'a> = List<'a, &'a str>;

pub(crate) fn each(names: Names<'_>) -> impl Iterator<Item = &str> + Clone {
    names.iter()
}

/// Returns the names of a list that comes whole.
pub(super) fn whole(reply: &Reply) -> Result<Option<Names<'_>>, Error> {
    match reply.has_more {
        true => Ok(None),
        false => Ok(Some(reply.decode::<GetChildrenResponse<'_>>()?.children)),
    }
}

pub(super) fn one(name: &str, see: impl FnOnce(Names<'_>)) {
    see(List::new(&[name]));
}
