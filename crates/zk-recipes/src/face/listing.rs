//! Listing who is there, by tasks.

use alloc::string::String;
use alloc::vec::Vec;

use zk_session::proto::{ErrorCode, Stat, path};
use zk_session::{Answer, Client, Error};

use crate::error::RecipeError;
use crate::face::Queue;
use crate::face::contenders::{Entrant, Found, is_unreadable};
use crate::machine::{Contest, Scheme, standing};

/// How many nodes are read before their answers are waited for.
const AT_ONCE: usize = 1000;

/// The contenders of a queue.
pub(crate) async fn list(
    queue: &Queue,
    operation: &'static str,
) -> Result<Vec<Entrant>, RecipeError> {
    list_in(queue, operation, &queue.path, queue.scheme).await
}

/// The contenders in a directory.
pub(crate) async fn list_in(
    queue: &Queue,
    operation: &'static str,
    directory: &str,
    scheme: Scheme,
) -> Result<Vec<Entrant>, RecipeError> {
    let listed = try_list_in(&queue.client, directory, scheme).await;
    listed.map_err(|error| queue.call(operation).failed(error))
}

async fn try_list_in(
    client: &Client,
    directory: &str,
    scheme: Scheme,
) -> Result<Vec<Entrant>, Error> {
    let children = match client.get_children(directory).await {
        Ok((children, _)) => children,
        Err(error) if error.code() == Some(ErrorCode::NO_NODE) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let standing = standing(scheme, children.iter().map(String::as_str));
    let mut entrants = Vec::with_capacity(standing.len());
    for some in standing.chunks(AT_ONCE) {
        let paths = some.iter().map(|place| path::child(directory, place.name.child));
        let found = look_at(client, &paths.collect::<Vec<_>>()).await?;
        // Whoever is not found left in between.
        let there = some.iter().zip(found).filter_map(|(place, found)| Some((place, found?)));
        entrants.extend(there.map(|(place, found)| Entrant::new(place, found)));
    }
    Ok(entrants)
}

/// What each of these nodes holds, if it is there and may be read, and its stat.
async fn look_at(client: &Client, paths: &[String]) -> Result<Vec<Option<Found>>, Error> {
    let read = ask_each(client, paths, |path| client.get_data(path)).await?;
    let unreadable = |(path, found): (&String, &Result<_, Error>)| {
        found.as_ref().is_err_and(is_unreadable).then(|| path.clone())
    };
    let unreadable: Vec<_> = paths.iter().zip(&read).filter_map(unreadable).collect();
    // A node that may not be read may be seen, unless its server is strict about that, too.
    let stats = ask_each(client, &unreadable, |path| client.exists(path)).await?;
    let mut stats = stats.into_iter();
    let mut found = Vec::with_capacity(paths.len());
    for read in read {
        found.push(match read {
            Ok((data, stat)) => Some((Some(data), stat)),
            Err(error) if is_unreadable(&error) => match stats.next() {
                Some(Ok(stat)) => stat.map(|stat| (None, stat)),
                Some(Err(error)) if !is_unreadable(&error) => return Err(error),
                _ => Some((None, Stat::default())),
            },
            Err(Error::Server(ErrorCode::NO_NODE)) => None,
            Err(error) => return Err(error),
        });
    }
    Ok(found)
}

/// Asks about each of these nodes, with as many requests under way as the session takes.
async fn ask_each<T>(
    client: &Client,
    paths: &[String],
    ask: impl Fn(&str) -> Answer<T>,
) -> Result<Vec<Result<T, Error>>, Error> {
    // All are asked before the first answer is awaited.
    let asked: Vec<_> = paths.iter().map(|path| ask(path)).collect();
    let mut answers = Vec::with_capacity(paths.len());
    for (path, asked) in paths.iter().zip(asked) {
        let mut answer = asked.await.map_err(Error::from);
        while answer.as_ref().is_err_and(Error::is_full) {
            client.ready().await?;
            answer = ask(path).await.map_err(Error::from);
        }
        answers.push(answer);
    }
    Ok(answers)
}

/// Asks the owner of a node to let go.
pub(crate) async fn revoke(client: &Client, path: &str) -> Result<(), RecipeError> {
    let asked = client.set_data(path, Contest::REVOKE, None).await;
    asked.map(drop).map_err(|error| RecipeError::new("revoke", path, error))
}
