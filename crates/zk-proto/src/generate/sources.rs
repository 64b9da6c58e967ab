//! Values drawn from bytes by `arbitrary`.

mod replies;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use arbitrary::{Arbitrary, Result, Unstructured};

use super::NAMES;
use crate::owned::list::List;
use crate::owned::multi::Multi;

/// Draws a valid path.
pub(crate) fn path_from(source: &mut Unstructured<'_>) -> Result<String> {
    Ok(match source.int_in_range(0..=11)? {
        0 => "/".into(),
        1..=8 => format!("/{}", source.choose(&NAMES)?),
        _ => format!("/{}/{}", source.choose(&NAMES)?, source.choose(&NAMES)?),
    })
}

pub(crate) fn paths_from(source: &mut Unstructured<'_>) -> Result<List<String>> {
    let paths: Result<Vec<_>> =
        (0..source.int_in_range(0..=3)?).map(|_| path_from(source)).collect();
    paths.map(List::from)
}

/// Draws names of children, each at most once.
pub(crate) fn names_from(source: &mut Unstructured<'_>) -> Result<List<String>> {
    let chosen = u8::arbitrary(source)?;
    let names = (0..).zip(NAMES).filter(|(bit, _)| (chosen >> bit) & 1 == 1);
    Ok(names.map(|(_, name)| String::from(name)).collect::<Vec<_>>().into())
}

impl<'u, T: Arbitrary<'u>> Arbitrary<'u> for List<T> {
    fn arbitrary(source: &mut Unstructured<'u>) -> Result<Self> {
        Option::<Vec<T>>::arbitrary(source).map(Self)
    }
}

impl<'u, T: Arbitrary<'u>> Arbitrary<'u> for Multi<T> {
    fn arbitrary(source: &mut Unstructured<'u>) -> Result<Self> {
        source.arbitrary().map(Self)
    }
}

#[cfg(test)]
mod tests;
