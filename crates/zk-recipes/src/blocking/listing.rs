//! Listing the contenders of a lock.

use alloc::string::String;
use alloc::vec::Vec;

use zk_session::Error;
use zk_session::blocking::Client;
use zk_session::proto::{ErrorCode, Stat, path};

use super::Queue;
use crate::error::RecipeError;
use crate::face::contenders::{Entrant, Found, is_unreadable};
use crate::machine::{Contest, Scheme, standing};

/// The contenders of a queue.
pub(super) fn list(queue: &Queue, operation: &'static str) -> Result<Vec<Entrant>, RecipeError> {
    list_in(queue, operation, &queue.path, queue.scheme)
}

/// The contenders below a node.
pub(super) fn list_in(
    queue: &Queue,
    operation: &'static str,
    parent: &str,
    scheme: Scheme,
) -> Result<Vec<Entrant>, RecipeError> {
    let listed = try_list_in(&queue.client, parent, scheme);
    listed.map_err(|error| queue.call(operation).failed(error))
}

fn try_list_in(client: &Client, parent: &str, scheme: Scheme) -> Result<Vec<Entrant>, Error> {
    let children = match client.get_children(parent) {
        Ok((children, _)) => children,
        Err(error) if error.code() == Some(ErrorCode::NO_NODE) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut entrants = Vec::new();
    for place in standing(scheme, children.iter().map(String::as_str)) {
        // A node that is not found was deleted in between.
        if let Some(found) = look_at(client, &path::child(parent, place.name.child))? {
            entrants.push(Entrant::new(&place, found));
        }
    }
    Ok(entrants)
}

/// What a node holds, if it is there and may be read, and its stat.
fn look_at(client: &Client, path: &str) -> Result<Option<Found>, Error> {
    match client.get_data(path).map_err(Error::from) {
        Ok((data, stat)) => Ok(Some((Some(data), stat))),
        Err(Error::Server(ErrorCode::NO_NODE)) => Ok(None),
        // A node that may not be read may be seen, unless its server is strict about that, too.
        Err(error) if is_unreadable(&error) => match client.exists(path).map_err(Error::from) {
            Ok(stat) => Ok(stat.map(|stat| (None, stat))),
            Err(error) if is_unreadable(&error) => Ok(Some((None, Stat::default()))),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Asks the owner of a node to release the lock.
pub(super) fn revoke(client: &Client, path: &str) -> Result<(), RecipeError> {
    let asked = client.set_data(path, Contest::REVOKE, None);
    asked.map(drop).map_err(|error| RecipeError::new("revoke", path, error))
}
