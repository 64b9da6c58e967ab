//! Access control lists, as text.

use zk_recipes::session::proto::{Acl, Id, Perms};

/// Parses entries `scheme:id:permissions` with commas in between, as `zkCli.sh` does.
pub(crate) fn parse(text: &str) -> Result<Vec<Acl<'_>>, String> {
    let entry = |text| {
        let error = || format!("'{text}' is not of the form scheme:id:permissions");
        entry(text).ok_or_else(error)
    };
    text.split(',').map(entry).collect()
}

fn entry(text: &str) -> Option<Acl<'_>> {
    let (scheme, rest) = text.split_once(':').filter(|(scheme, _)| !scheme.is_empty())?;
    let (id, letters) = rest.rsplit_once(':').filter(|(_, letters)| !letters.is_empty())?;
    let perms = letters.chars().try_fold(Perms(0), |perms, letter| Some(perms | perm(letter)?))?;
    Some(Acl { perms, id: Id { scheme, id: Some(id) } })
}

fn perm(letter: char) -> Option<Perms> {
    Some(match letter {
        'c' => Perms::CREATE,
        'd' => Perms::DELETE,
        'r' => Perms::READ,
        'w' => Perms::WRITE,
        'a' => Perms::ADMIN,
        _ => return None,
    })
}

/// Checks an access control list of the command line.
pub(crate) fn check(text: &str) -> Result<String, String> {
    parse(text).map(|_| text.to_owned())
}

#[cfg(test)]
mod tests;
