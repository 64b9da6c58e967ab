//! The fuzz target `text`: whatever is parsed from text that people or other programs write.

use alloc::string::ToString;

use zk_proto::SequenceNumber;
use zk_proto::path::{self, ZnodePath};
use zk_recipes::machine::Scheme;
use zk_session::{Chroot, ConnectString};

/// Parses text as a connection string, a chroot with a path, and the name of a lock node.
///
/// What is parsed prints as text that parses to the same.
pub fn text(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    connect_string(text);
    chroot(text);
    name(text);
}

fn connect_string(text: &str) {
    let Ok(parsed) = text.parse::<ConnectString>() else { return };
    assert!(!parsed.servers.is_empty());
    for server in &parsed.servers {
        assert!(!server.host.is_empty() && server.port > 0, "{server:?}");
    }
    assert_eq!(parsed.to_string().parse(), Ok(parsed));
}

/// Reads a chroot up to the first line break, and a path behind it.
fn chroot(text: &str) {
    let (root, path) = text.split_once('\n').unwrap_or((text, "/a"));
    assert_eq!(ZnodePath::parse(root).is_ok(), path::validate(root).is_ok());
    let Ok(chroot) = Chroot::new(root) else { return };
    if let Ok(parsed) = ZnodePath::parse(path) {
        let full = chroot.apply(path).into_owned();
        assert_eq!(path::validate(&full), Ok(()));
        assert_eq!(chroot.strip(&full), Some(path));
        let below = chroot.below(path);
        assert_eq!(
            below.map(|it| it.apply("/x").into_owned()),
            Ok(chroot.apply(&path::child(path, "x")).into_owned())
        );
        assert!(parsed.ancestors().all(|above| path.starts_with(above.as_str())));
    }
    // What a server sends is a valid path.
    if path::validate(path).is_ok()
        && let Some(inside) = chroot.strip(path)
    {
        assert_eq!(&*chroot.apply(inside), path);
    }
}

const SCHEMES: [Scheme; 6] = [
    Scheme::CURATOR_MUTEX,
    Scheme::CURATOR_READ_WRITE,
    Scheme::CURATOR_LEADER,
    Scheme::CURATOR_LEASE,
    Scheme::KAZOO_READ_WRITE,
    Scheme::ZOOKEEPER_RECIPE,
];

fn name(text: &str) {
    if let Some(number) = SequenceNumber::parse(text) {
        assert_eq!(number.to_string(), text);
    }
    let recognized = Scheme::recognize(text);
    let mut readers = 0;
    for scheme in SCHEMES {
        let Some(name) = scheme.parse(text) else { continue };
        readers += 1;
        assert_eq!(name.child, text);
        assert!(text.ends_with(&name.sequence.to_string()), "{name:?}");
        assert!(recognized.is_some(), "{text} is a contender of {scheme:?}");
    }
    assert!(readers <= 1, "{text} is a contender of two kinds of locks");
}
