//! What came of a run.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fmt, fs, io};

use super::{Judgement, Outcome, families};

/// The outcomes of a client's scenes.
#[derive(Clone, Debug)]
pub struct Report {
    /// The client's name and version, as it says; empty if it has never said it.
    pub client: String,
    /// The scenes, in order.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// Returns the scenes that failed, and why.
    pub fn failed(&self) -> impl Iterator<Item = (&Outcome, &str)> {
        self.outcomes.iter().filter_map(|outcome| match &outcome.judgement {
            Judgement::Failed(why) => Some((outcome, why.as_str())),
            _ => None,
        })
    }

    /// Returns how many scenes of a family, or of all, passed, were not supported, and failed.
    pub fn counts(&self, family: Option<&str>) -> (usize, usize, usize) {
        let count = |is: fn(&Judgement) -> bool| {
            let of = self.outcomes.iter().filter(|it| family.is_none_or(|f| it.scene.family == f));
            of.filter(|outcome| is(&outcome.judgement)).count()
        };
        (
            count(|it| *it == Judgement::Passed),
            count(|it| *it == Judgement::Unsupported),
            count(|it| matches!(it, Judgement::Failed(_))),
        )
    }

    /// Returns the client's row of the table in `docs/conformance.md`: how many scenes of each
    /// family passed, of those that it supports.
    pub fn row(&self) -> String {
        let cell = |family| match self.counts(family) {
            (0, _, 0) => "-".to_owned(),
            (passed, _, 0) => passed.to_string(),
            (passed, _, failed) => format!("{passed}/{}", passed + failed),
        };
        let cells: Vec<_> = families().map(|family| cell(Some(family))).collect();
        format!("| {} | {} | {} |", self.client, cells.join(" | "), cell(None))
    }

    /// Writes the client's row into `conformance.md` in a folder, and its failed scenes into
    /// `conformance.txt`.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written.
    pub fn write_into(&self, folder: &Path) -> io::Result<()> {
        let name = |row: &str| row.rsplit_once(' ').map_or(row, |(name, _)| name).to_owned();
        let page = folder.join("conformance.md");
        let text = fs::read_to_string(&page)?;
        let client = name(&self.client);
        let is_row = |line: &&str| {
            let cell = line.strip_prefix("| ").and_then(|line| line.split(" |").next());
            cell.is_some_and(|cell| name(cell) == client)
        };
        let row = self.row();
        let replaced = match text.lines().find(is_row) {
            Some(old) => text.replace(old, &row),
            // Behind the line below the heads of the columns.
            None => text.replacen("---:|\n", &format!("---:|\n{row}\n"), 1),
        };
        fs::write(page, replaced)?;

        let list = folder.join("conformance.txt");
        let mut clients = BTreeMap::new();
        let text = fs::read_to_string(&list).unwrap_or_default();
        let (head, parts) = text.split_once("\n== ").unwrap_or((&text, ""));
        for part in parts.split("\n== ").filter(|part| !part.is_empty()) {
            let title = part.lines().next().unwrap_or_default();
            clients.insert(name(title), part.trim_end().to_owned());
        }
        let failed: Vec<_> = self
            .failed()
            .map(|(outcome, why)| {
                // What was seen, without the place in the scene.
                let (_, why) = why.split_once("`: ").unwrap_or(("", why));
                format!("{}\n    {}", outcome.scene.title(), without_addresses(why))
            })
            .collect();
        if failed.is_empty() {
            clients.remove(&client);
        } else {
            clients.insert(client, format!("{}\n{}", self.client, failed.join("\n")));
        }
        let parts: String = clients.values().map(|part| format!("\n\n== {part}")).collect();
        fs::write(list, format!("{}{parts}\n", head.trim_end()))
    }
}

/// Replaces ports, which differ from run to run.
fn without_addresses(text: &str) -> String {
    let mut parts = text.split("127.0.0.1:");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown += "SERVER";
        shown += part.trim_start_matches(|char: char| char.is_ascii_digit());
    }
    shown
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (outcome, why) in self.failed() {
            writeln!(f, "FAILED {} ({})\n    {why}", outcome.scene.title(), outcome.scene.source)?;
        }
        writeln!(f, "{}\n{:12} passed unsupported failed", self.client, "")?;
        for family in families().chain(["server"]) {
            let (passed, unsupported, failed) = self.counts(Some(family));
            if passed + unsupported + failed > 0 {
                writeln!(f, "{family:12} {passed:6} {unsupported:11} {failed:6}")?;
            }
        }
        let (passed, unsupported, failed) = self.counts(None);
        write!(f, "{:12} {passed:6} {unsupported:11} {failed:6}", "all")
    }
}
