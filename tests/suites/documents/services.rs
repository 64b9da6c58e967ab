//! `docs/services.md`: its SQL refuses late tokens, its unit is valid, its queries name metrics that
//! exist, and each row of what goes wrong names a test.

use std::fs;
use std::process::Command;

use zk_testkit::skipped::skip;

use super::answers::answered_below;
use super::root;

fn page() -> String {
    fs::read_to_string(root().join("docs/services.md")).expect("the page")
}

/// Returns the blocks of code in a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let blocks = page.split(&fence).skip(1);
    blocks.map(|rest| rest.split("```").next().expect("text").to_owned()).collect()
}

#[test]
fn every_thing_that_goes_wrong_has_a_test() {
    let rows = answered_below("docs/services.md", "## What goes wrong\n");
    assert!(rows.len() > 10, "{} rows", rows.len());
    assert!(rows.iter().all(|row| row.last().is_some_and(|last| last.contains(".rs::"))));
}

/// Two holders, of which the first one is late.
const SQLITE: &str = "
import os, sqlite3, sys
table, fence = sys.argv[1:]
one, other = (sqlite3.connect('fence.db', timeout=0, isolation_level=None) for _ in range(2))
one.execute(table)
one.execute('CREATE TABLE report (text TEXT)')

def write(holder, token, text):
    holder.execute('BEGIN')
    row = holder.execute(fence, {'token': token}).fetchone()
    if row is None:
        holder.execute('ROLLBACK')
        return False
    assert row == (token,), row
    holder.execute('INSERT INTO report VALUES (?)', (text,))
    holder.execute('COMMIT')
    return True

# A transaction of the first one delays the second one, and is either before or refused.
assert write(one, 4294967301, 'a') and write(one, 4294967301, 'b')
one.execute('BEGIN')
one.execute(fence, {'token': 4294967301}).fetchall()
try:
    write(other, 4294967303, 'c')
    sys.exit('two holders write at once')
except sqlite3.OperationalError as error:
    assert 'locked' in str(error), error
    other.execute('ROLLBACK')
one.execute('COMMIT')
assert write(other, 4294967303, 'd')
assert not write(one, 4294967301, 'e') and not write(one, -1, 'f')
assert write(other, 4294967303, 'g') and write(one, 9223372036854775807, 'h')
assert not write(other, 4294967303, 'i')

# A new holder that has not written yet: the late one still writes, until its token is committed.
one.execute('DELETE FROM fence')
assert write(one, 5, 'j') and write(one, 5, 'k')
assert other.execute(fence, {'token': 6}).fetchall() == [(6,)]
assert not write(one, 5, 'l')
assert write(other, 6, 'm')
print(''.join(text for text, in one.execute('SELECT text FROM report ORDER BY rowid')))
";

#[test]
fn sqlite_refuses_a_late_token() {
    let Ok(_) = Command::new("python3").args(["-c", "import sqlite3"]).output() else {
        return skip("python3 is missing");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut python = Command::new("python3");
    python.args(["-c", SQLITE]).args(blocks(&page(), "sql")).current_dir(&folder);
    let output = python.output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "abdghjkm\n");
    assert!(page().contains("As soon as you hold the lock, commit this statement once, alone."));
}

/// systemd prints a line for each setting that it would ignore.
fn complaints(unit: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report.service");
    fs::write(&path, unit.replace("/usr/local/bin/zk-lock", "/bin/true")).expect("written");
    let output = Command::new("systemd-analyze").arg("verify").arg(path).output();
    let lines = String::from_utf8(output.expect("it starts").stderr).expect("text");
    lines.lines().filter(|line| line.contains("report.service")).map(str::to_owned).collect()
}

#[test]
fn the_unit_is_valid() {
    let [unit] = &blocks(&page(), "ini")[..] else { panic!("one unit") };
    for setting in ["Type=notify\n", "KillMode=mixed\n", "TimeoutStartSec=infinity\n"] {
        assert!(unit.contains(setting), "{setting}");
    }
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return skip("systemd-analyze is missing");
    }
    assert_eq!(complaints(unit), "");
    assert!(complaints(&unit.replace("mixed", "mixt")).contains("mixt"));
}

#[test]
fn the_queries_name_metrics_that_exist() {
    let runbook = fs::read_to_string(root().join("docs/operations.md")).expect("text");
    let page = page();
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let metrics = page.split(|c| !is_name(c)).filter(|word| word.starts_with("zk_"));
    let metrics: Vec<_> = metrics.filter(|word| *word != "zk_recipes").collect();
    assert!(metrics.len() > 8, "{metrics:?}");
    for metric in metrics {
        let parts = ["_sum", "_count"];
        let name = parts.into_iter().find_map(|part| metric.strip_suffix(part)).unwrap_or(metric);
        assert!(runbook.contains(&format!("| `{name}` | ")), "{metric}");
    }
}
