//! Values drawn from bytes by `arbitrary`.

use alloc::format;
use alloc::string::String;

use arbitrary::{Arbitrary, Result, Unstructured};

use super::replies::{alone, alone_read, reads, transaction};
use super::*;
use crate::operations::owned::{Request, Response};

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

impl Request {
    /// Draws the body of a successful reply to this request.
    ///
    /// A multi has one result for each operation: those of the operations, or the errors of
    /// a transaction that failed. Paths, lengths and counts fit the request and each other.
    ///
    /// # Errors
    ///
    /// As [`Arbitrary::arbitrary`](arbitrary::Arbitrary::arbitrary).
    pub fn reply_from(&self, source: &mut Unstructured<'_>) -> Result<Response> {
        match self {
            Self::Multi(Multi(ops)) => {
                let results: Result<_> =
                    ops.iter().map(|op| alone(op).reply_from(source)).collect();
                let failure = match source.ratio(1, 3)? {
                    true => Some(source.arbitrary()?),
                    false => None,
                };
                Ok(transaction(results?, failure))
            }
            Self::MultiRead(Multi(ops)) => {
                let results: Result<_> = ops
                    .iter()
                    .map(|op| {
                        let result = alone_read(op).reply_from(source)?;
                        let failure = match source.ratio(1, 3)? {
                            true => Some(source.arbitrary()?),
                            false => None,
                        };
                        Ok((result, failure))
                    })
                    .collect();
                Ok(reads(results?))
            }
            _ => Response::draw_to(self, source).map(|it| it.fitted(self)),
        }
    }
}

#[cfg(test)]
mod tests;
