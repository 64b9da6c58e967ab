//! Names of lock nodes: how ours are made, and how those of other contenders are read.

use alloc::format;
use alloc::string::String;

use uuid::Uuid;
use zk_session::proto::Sequence;

/// How the nodes of one kind of lock are named.
///
/// All contenders of a lock must use the same one, in whatever language they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    marker: &'static str,
}

impl Scheme {
    /// The exclusive lock of Apache Curator (`InterProcessMutex`), which go-zk shares:
    /// `_c_<guid>-lock-<sequence>`.
    pub const CURATOR_MUTEX: Self = Self { marker: "lock-" };

    /// The beginning of the name of a node of ours; the server appends the sequence number.
    pub fn prefix(&self, guid: Uuid) -> String {
        format!("_c_{}-{}", guid.as_hyphenated(), self.marker)
    }

    /// Reads the name of a child of the lock's directory. `None` if it is not a contender's.
    pub fn parse<'a>(&self, child: &'a str) -> Option<Name<'a>> {
        let rest = child.strip_prefix("_c_")?;
        // Curator and we write a guid with dashes, go-zk without.
        [36, 32].into_iter().find_map(|length| {
            let (guid, rest) = rest.split_at_checked(length)?;
            let suffix = rest.strip_prefix('-')?.strip_prefix(self.marker)?;
            let sequence = Sequence::parse(suffix)?;
            Some(Name { child, guid: Uuid::try_parse(guid).ok()?, sequence })
        })
    }
}

/// The name of a contender's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// The whole name.
    pub child: &'a str,
    /// What makes it this contender's.
    pub guid: Uuid,
    /// Its place in the queue.
    pub sequence: Sequence,
}

impl<'a> Name<'a> {
    /// What contenders are served by. The server gives no number twice, but where somebody else
    /// did, all must agree on the order nevertheless.
    pub(super) const fn place(&self) -> (Sequence, &'a str) {
        (self.sequence, self.child)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    const DASHED: &str = "1f0e8c1a-7a53-4c0f-9d9e-0a1b2c3d4e5f";
    const PLAIN: &str = "1f0e8c1a7a534c0f9d9e0a1b2c3d4e5f";

    fn sequence(child: &str) -> Option<i32> {
        Scheme::CURATOR_MUTEX.parse(child).map(|name| name.sequence.0)
    }

    #[test]
    fn contenders_of_all_implementations_are_read() {
        for guid in [DASHED, PLAIN] {
            for (suffix, number) in [
                ("0000000007", 7),
                ("2147483647", i32::MAX),
                ("-2147483648", i32::MIN),
                ("-000000001", -1),
            ] {
                assert_eq!(sequence(&format!("_c_{guid}-lock-{suffix}")), Some(number), "{suffix}");
            }
        }
    }

    #[test]
    fn everything_else_is_foreign() {
        for child in [
            "lease_holder",
            "lock-abc",
            "_c_short",
            "foo-12",
            "_c_-lock-0000000001",
            "x-72057654740451328-0000000000",
            "da57da57da57da57da57da57da57bba5__lock__0000000003",
        ] {
            assert_eq!(sequence(child), None, "{child}");
        }
        for suffix in
            ["latch-0000000001", "lock-12", "lock-00000000070", "lock-", "__WRIT__0000000005"]
        {
            assert_eq!(sequence(&format!("_c_{DASHED}-{suffix}")), None, "{suffix}");
        }
        // Not a guid, though as long as one, and cut within a character.
        assert_eq!(sequence("_c_gggggggg-7a53-4c0f-9d9e-0a1b2c3d4e5f-lock-0000000001"), None);
        assert_eq!(sequence("_c_üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü"), None);
    }

    #[test]
    fn what_we_write_is_read_back() {
        let guid = Uuid::try_parse(DASHED).expect("a guid");
        let child = Scheme::CURATOR_MUTEX.prefix(guid) + &Sequence(42).to_string();
        assert_eq!(child, format!("_c_{DASHED}-lock-0000000042"));
        let name = Scheme::CURATOR_MUTEX.parse(&child).expect("ours");
        assert_eq!((name.guid, name.sequence), (guid, Sequence(42)));
    }
}
