//! A list of children, whole or in pieces.

#[cfg_attr(not(feature = "full"), path = "listing/one_name.rs")]
mod names;

use alloc::boxed::Box;

use zk_session::proto::{DecodeErrorKind, ListReader};
use zk_session::session::Reply;
use zk_session::{Error, Outcome};

pub(crate) use self::names::{Names, each};
use super::queue::Observation;

/// The longest name that is read from a list in pieces, in bytes.
const LONGEST_NAME: usize = 255;

/// The pieces of a list so far.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    names: ListReader,
    seen: Observation,
}

impl Listing {
    /// Reads a reply with a list of names: `see` adds names to what was seen. Returns the result
    /// once the list is complete.
    ///
    /// A reply that is a piece begins or continues `listing`. Drop that to read another list.
    ///
    /// # Errors
    ///
    /// [`Error::Reply`] if the reply is no list, and [`Error::ReplyTooLarge`] if a name of a list in
    /// pieces is too long.
    pub(crate) fn read(
        listing: &mut Option<Box<Self>>,
        reply: &Reply,
        see: &mut dyn FnMut(&mut Observation, Names<'_>),
    ) -> Result<Option<Observation>, Error> {
        if listing.is_none()
            && let Some(all) = names::whole(reply)?
        {
            let mut seen = Observation::default();
            see(&mut seen, all);
            return Ok(Some(seen));
        }
        let longest = if reply.has_more { LONGEST_NAME } else { reply.body.len() };
        let Self { names, seen } = &mut **listing.get_or_insert_with(|| {
            Box::new(Self { names: ListReader::new(4 + longest), seen: Observation::default() })
        });
        let mut see_one = |name: &str| names::one(name, |one| see(seen, one));
        match (names.read(&reply.body, &mut see_one), reply.has_more) {
            (Ok(()), true) => return Ok(None),
            (Ok(()), false) => names.finish().map_err(Error::Reply)?,
            (Err(error), _) => {
                return Err(match error.kind() {
                    DecodeErrorKind::Truncated { missing } => Error::ReplyTooLarge {
                        length: missing as usize,
                        limit: LONGEST_NAME,
                        outcome: Outcome::NotApplied,
                    },
                    _ => Error::Reply(error),
                });
            }
        }
        Ok(listing.take().map(|listing| listing.seen))
    }
}
