//! Public types that are exhaustive are so on purpose.

use std::collections::BTreeSet;
use std::fs;

use super::root;

/// Returns a path without generic parameters.
fn path(item: &str) -> &str {
    item.split('<').next().unwrap_or_default()
}

/// Returns the last part of a path.
fn name(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or_default()
}

#[test]
fn exhaustive_types_have_a_reason() {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).expect("text");
    let part = text.split("### What may grow").nth(1).expect("the table");
    let rows = part.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let allowed: BTreeSet<_> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let listings = ["zk-proto", "zk-session", "zk-recipes"].map(|name| {
        let listing = root().join("docs/api").join(name).with_extension("txt");
        (name, fs::read_to_string(listing).expect("a listing"))
    });
    let mut found = BTreeSet::new();
    for (krate, listing) in &listings {
        let items = |prefix| listing.lines().filter_map(move |line| line.strip_prefix(prefix));
        found.extend(items("pub enum ").map(path).map(name));
        // Those of zk-proto are records.
        if *krate != "zk-proto" {
            let fields = items("pub ").filter_map(|item| item.split_once(": "));
            let owners = fields.filter_map(|(field, _)| field.rsplit_once("::"));
            let owners: BTreeSet<_> = owners.map(|(owner, _)| owner).collect();
            let structs = items("pub struct ").map(path).filter(|path| owners.contains(path));
            found.extend(structs.map(name));
        }
    }
    assert_eq!(found, allowed);
}
