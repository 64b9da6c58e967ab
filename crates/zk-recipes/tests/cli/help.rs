//! Help, manual pages and completions.

use std::collections::BTreeSet;
use std::process::Command;

use tempfile::TempDir;

use crate::{out, output, unignoring};

const COMMANDS: [&str; 8] = ["run", "hold", "release", "ls", "watch", "break", "doctor", "top"];

fn help(arguments: &[&str], columns: &str) -> String {
    let mut command = unignoring(env!("CARGO_BIN_EXE_zk-lock"));
    command.args(arguments).arg("--help").env("COLUMNS", columns);
    out(&output(command))
}

/// Returns the long options in a text.
fn options(text: &str) -> BTreeSet<&str> {
    let is_end = |c: char| !(c.is_ascii_lowercase() || c == '-');
    let words = text.split(|c: char| c.is_whitespace() || "`[]/=(),".contains(c));
    let names = words.filter_map(|word| word.strip_prefix("--"));
    let names = names.map(|name| name.split(is_end).next().unwrap_or(name));
    names.filter(|name| !name.is_empty()).collect()
}

#[test]
fn help_fits_the_terminal() {
    let commands = COMMANDS.map(|command| vec![command]);
    for command in commands.iter().chain([&vec![]]) {
        for columns in [60, 80, 200] {
            let text = help(command, &columns.to_string());
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(longest <= columns.min(100), "{command:?} {columns}: {longest}\n{text}");
        }
    }
    assert!(help(&["run"], "80").contains("Examples:"));
    assert!(help(&[], "80").contains("Exit codes:"));
}

#[test]
fn the_documentation_names_every_option() {
    let page = include_str!("../../../../docs/zk-lock.md");
    let known = options(page);
    for command in COMMANDS {
        let text = help(&[command], "100");
        let missing: Vec<_> =
            options(&text).into_iter().filter(|option| !known.contains(option)).collect();
        let generic = ["help", "version"];
        assert!(missing.iter().all(|option| generic.contains(option)), "{command}: {missing:?}");
        assert!(page.contains(&format!("zk-lock {command}")), "{command}");
    }
}

#[test]
fn manual_pages_and_completions_are_generated_for_every_command() {
    let folder = TempDir::new().expect("a temporary folder");
    let mut command = unignoring(env!("CARGO_BIN_EXE_zk-lock"));
    command.arg("generate").arg(folder.path());
    let done = output(command);
    assert_eq!((done.status.code(), out(&done)), (Some(0), String::new()));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect(name);
    let page = read("zk-lock.1");
    assert!(page.contains(".TH zk-lock 1") && page.contains("Exit codes"), "{page}");
    for command in COMMANDS {
        assert!(page.contains(&format!("zk\\-lock\\-{command}(1)")), "{command}: {page}");
        let page = read(&format!("zk-lock-{command}.1"));
        let plain = page.replace("\\-", "-");
        let text = help(&[command], "100");
        // Pages have no second names.
        let named = options(&text).into_iter().filter(|option| !["nb", "timeout"].contains(option));
        for option in named {
            assert!(plain.contains(&format!("--{option}")), "{command} {option}: {page}");
        }
    }
    // Internal commands have no page.
    for internal in ["exec", "generate"] {
        assert!(!folder.path().join(format!("zk-lock-{internal}.1")).exists());
    }
    for name in ["zk-lock.bash", "_zk-lock", "zk-lock.fish", "zk-lock.elv", "_zk-lock.ps1"] {
        let text = read(name);
        assert!(COMMANDS.iter().all(|command| text.contains(command)), "{name}");
        assert!(text.contains("session-timeout"), "{name}");
        assert!(!text.contains("supervisor") && !text.contains("handled"), "{name}: {text}");
    }
    // Bash completes the commands and the options.
    let complete = |words: &str| {
        let script = format!(
            "source '{}'; name=$(complete -p zk-lock); name=${{name##*-F }}; \
             COMP_WORDS=({words} ''); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             ${{name%% *}} zk-lock '' ''; echo \"${{COMPREPLY[@]}}\"",
            folder.path().join("zk-lock.bash").display()
        );
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", &script]);
        out(&output(bash))
    };
    let commands = complete("zk-lock");
    assert!(COMMANDS.iter().all(|command| commands.contains(command)), "{commands}");
    assert!(!commands.contains("exec") && !commands.contains("generate"), "{commands}");
    let run = complete("zk-lock run");
    assert!(run.contains("--nonblock") && run.contains("--tls-ca"), "{run}");
}
