//! The paths that servers accept (`PathUtils.validatePath`).

use core::fmt;

named! {
    /// The reason why a path is invalid.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum PathError {
        /// The path is empty.
        Empty,
        /// The path does not start with `/`.
        Relative,
        /// The path ends with `/`.
        TrailingSlash,
        /// A name is empty: two slashes follow one another. Holds the offset of the second in
        /// bytes.
        EmptyComponent(usize),
        /// A name is `.` or `..`. Holds the offset of the name in bytes.
        DotComponent(usize),
        /// A character is forbidden. Holds its offset in bytes.
        ///
        /// ZooKeeper forbids control characters, private-use characters and those beyond the first
        /// plane.
        ForbiddenCharacter(usize),
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a path must not be empty"),
            Self::Relative => f.write_str("a path must start with '/'"),
            Self::TrailingSlash => f.write_str("a path must not end with '/'"),
            Self::EmptyComponent(at) => write!(f, "a name in a path must not be empty (byte {at})"),
            Self::DotComponent(at) => {
                write!(f, "a name in a path must not be '.' or '..' (byte {at})")
            }
            Self::ForbiddenCharacter(at) => {
                write!(f, "the character at byte {at} is not allowed in a path")
            }
        }
    }
}

impl core::error::Error for PathError {}

/// A valid path of a node, checked once by [`parse`](Self::parse).
///
/// Records contain plain strings instead, since a peer can send an invalid path, and a proxy must
/// forward it unchanged.
///
/// ```
/// use zk_proto::path::{PathError, ZnodePath};
///
/// let path = ZnodePath::parse("/locks/printer")?;
/// assert_eq!((path.name(), path.as_str()), ("printer", "/locks/printer"));
/// assert!(path.ancestors().map(ZnodePath::as_str).eq(["/locks", "/"]));
/// assert_eq!(ZnodePath::parse("/locks//printer"), Err(PathError::EmptyComponent(7)));
/// # Ok::<(), PathError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZnodePath<'a>(&'a str);

impl ZnodePath<'static> {
    /// The path of the root.
    pub const ROOT: Self = Self("/");
}

impl<'a> ZnodePath<'a> {
    /// Checks that a string is the path of a node.
    ///
    /// # Errors
    ///
    /// Returns the first violation.
    pub fn parse(path: &'a str) -> Result<Self, PathError> {
        match path.strip_prefix('/') {
            Some("") => Ok(Self(path)),
            Some(_) if path.ends_with('/') => Err(PathError::TrailingSlash),
            // Boards have no vectors, and no room.
            Some(_) if cfg!(not(target_os = "none")) && is_plain(path) => Ok(Self(path)),
            Some(names) => validate_names(names).map(|()| Self(path)),
            None if path.is_empty() => Err(PathError::Empty),
            None => Err(PathError::Relative),
        }
    }

    /// Returns the path as a string, as records contain it.
    pub fn as_str(self) -> &'a str {
        self.0
    }

    /// Returns the name of the node, as the list of its parent's children shows it.
    ///
    /// The name of the root is empty.
    pub fn name(self) -> &'a str {
        split(self.0).map_or("", |(_, name)| name)
    }

    /// Returns the path of the parent, or `None` for the root.
    pub fn parent(self) -> Option<Self> {
        parent(self.0).map(Self)
    }

    /// Returns the paths of all ancestors, from the parent to the root.
    pub fn ancestors(self) -> impl Iterator<Item = Self> {
        core::iter::successors(self.parent(), |path| path.parent())
    }
}

impl fmt::Display for ZnodePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

impl<'a> TryFrom<&'a str> for ZnodePath<'a> {
    type Error = PathError;

    fn try_from(path: &'a str) -> Result<Self, PathError> {
        Self::parse(path)
    }
}

/// Checks that `path` is the path of a node.
///
/// # Errors
///
/// Returns the first violation.
///
/// ```
/// use zk_proto::path::{self, PathError};
///
/// assert_eq!(path::validate("/locks/printer"), Ok(()));
/// assert_eq!(path::validate("/locks/"), Err(PathError::TrailingSlash));
/// ```
pub fn validate(path: &str) -> Result<(), PathError> {
    ZnodePath::parse(path).map(drop)
}

/// Checks that `path` is valid for the creation of a sequential node.
///
/// Unlike in [`validate`], the last name may be empty, `.` or `..`, since the server appends a
/// sequence number to it.
///
/// # Errors
///
/// Returns the first violation.
///
/// ```
/// use zk_proto::path;
///
/// assert!(path::validate_sequential("/locks/").is_ok());
/// assert!(path::validate("/locks/").is_err());
/// ```
pub fn validate_sequential(path: &str) -> Result<(), PathError> {
    let Some((parent, prefix)) = path.rsplit_once('/') else {
        return validate(path);
    };
    if parent.ends_with('/') {
        return Err(PathError::EmptyComponent(parent.len()));
    }
    if !parent.is_empty() {
        validate(parent)?;
    }
    validate_characters(prefix.as_bytes(), parent.len() + 1)
}

/// Returns whether a path, which begins with a slash, is obviously valid.
///
/// That is the case if it is printable ASCII, and no name is empty or starts with a dot. The loop
/// has no early exit, so that the compiler can vectorize it.
fn is_plain(path: &str) -> bool {
    let bytes = path.as_bytes();
    let pairs = bytes.iter().zip(bytes.get(1..).unwrap_or_default());
    pairs.fold(true, |all, (before, byte)| {
        let begins_name = *before == b'/';
        all & matches!(byte, b' '..=b'~') & !(begins_name & matches!(byte, b'/' | b'.'))
    })
}

fn validate_names(names: &str) -> Result<(), PathError> {
    let mut start = 1;
    // Bytes take less code than characters.
    for name in names.as_bytes().split(|byte| *byte == b'/') {
        match name {
            b"" => return Err(PathError::EmptyComponent(start)),
            b"." | b".." => return Err(PathError::DotComponent(start)),
            _ => {}
        }
        validate_characters(name, start)?;
        start += name.len() + 1;
    }
    Ok(())
}

/// Checks the characters of a name, in UTF-8, that starts at byte `start` of its path.
fn validate_characters(name: &[u8], start: usize) -> Result<(), PathError> {
    let mut rest = name;
    while let [_, next @ ..] = rest {
        if starts_forbidden(rest) {
            return Err(PathError::ForbiddenCharacter(start + name.len() - rest.len()));
        }
        rest = next;
    }
    Ok(())
}

/// Returns whether UTF-8 starts with a forbidden character.
fn starts_forbidden(utf8: &[u8]) -> bool {
    // Java checks UTF-16 units, so everything beyond the first plane is a forbidden surrogate.
    matches!(
        utf8,
        // U+0000 to U+001F, and U+007F to U+009F.
        [0..=0x1f | 0x7f, ..] | [0xc2, 0x80..=0x9f, ..]
            // U+E000 to U+F8FF.
            | [0xee, ..] | [0xef, 0x80..=0xa3, ..]
            // U+FFF0 and all behind.
            | [0xef, 0xbf, 0xb0..=0xff, ..] | [0xf0..=0xff, ..]
    )
}

/// Splits a path at its last slash.
fn split(path: &str) -> Option<(&str, &str)> {
    let slash = match cfg!(target_os = "none") {
        // `rfind` is faster, but takes more code.
        true => path.bytes().rposition(|byte| byte == b'/')?,
        false => path.rfind('/')?,
    };
    Some((path.get(..slash)?, path.get(slash + 1..)?))
}

/// Returns the last part of a path, behind its last slash. Without a slash that is all of it.
///
/// ```
/// use zk_proto::path;
///
/// assert_eq!(path::name("/locks/lock-0000000001"), "lock-0000000001");
/// assert_eq!(path::name("lock"), "lock");
/// ```
pub fn name(path: &str) -> &str {
    split(path).map_or(path, |(_, name)| name)
}

/// Returns the path of the parent of `path`, or `None` for the root.
///
/// ```
/// use zk_proto::path;
///
/// assert_eq!(path::parent("/app/config"), Some("/app"));
/// assert_eq!(path::parent("/"), None);
/// ```
pub fn parent(path: &str) -> Option<&str> {
    match split(path)? {
        ("", "") => None,
        ("", _) => Some("/"),
        (parent, _) => Some(parent),
    }
}

/// Returns the path of the child `name` of `parent`.
///
/// ```
/// use zk_proto::path;
///
/// assert_eq!(path::child("/", "app"), "/app");
/// assert_eq!(path::child("/app", "config"), "/app/config");
/// ```
#[cfg(feature = "alloc")]
pub fn child(parent: &str, name: &str) -> alloc::string::String {
    let parent = if parent == "/" { "" } else { parent };
    let mut path = alloc::string::String::with_capacity(parent.len() + 1 + name.len());
    path.push_str(parent);
    path.push('/');
    path.push_str(name);
    path
}

#[cfg(test)]
mod tests;
