//! The guide in `docs/guide`: its generated parts are current, its chapters complete, and the
//! commands of its exercises run.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use zk_testkit::guide::{folder, generate};

use super::root;

/// Returns the chapters, in the order of the summary.
fn chapters() -> Vec<(PathBuf, String)> {
    let summary = fs::read_to_string(folder().join("SUMMARY.md")).expect("a summary");
    let links = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let chapters = links.filter(|link| link.starts_with(char::is_numeric));
    let read = |link: &str| (folder().join(link), fs::read_to_string(folder().join(link)));
    chapters.map(read).map(|(path, text)| (path, text.expect("a chapter"))).collect()
}

#[test]
fn everything_generated_is_current() {
    let mut stale = Vec::new();
    for (path, text) in generate().expect("the guide can be generated") {
        if fs::read_to_string(&path).ok().as_deref() != Some(&text) {
            stale.push(path.display().to_string());
        }
    }
    let command = "cargo run -p zk-testkit --bin guide";
    assert!(stale.is_empty(), "out of date; run `{command}`:\n{}", stale.join("\n"));
}

#[test]
fn no_picture_is_left_over_or_unused() {
    let generated = generate().expect("the guide can be generated");
    let chapters: String = chapters().into_iter().map(|(_, text)| text).collect();
    for entry in fs::read_dir(folder().join("pictures")).expect("pictures") {
        let path = entry.expect("readable").path();
        assert!(generated.contains_key(&path), "{} is not generated", path.display());
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(chapters.contains(&format!("](pictures/{name})")), "{name} is in no chapter");
    }
}

#[test]
fn every_chapter_has_bytes_a_picture_an_exercise_and_sources() {
    let chapters = chapters();
    assert_eq!(chapters.len(), 12);
    for (path, text) in chapters {
        let blocks = ["<!-- bytes ", "<!-- recorded "].map(|it| text.matches(it).count());
        let hex = text.matches("```text\n> ").count() + text.matches("```text\n< ").count();
        assert!(hex > 0, "{} shows no bytes", path.display());
        assert_eq!(blocks.iter().sum::<usize>(), hex, "{}: bytes typed by hand", path.display());
        for part in ["](pictures/", "## Exercise\n", "## Sources\n"] {
            assert!(text.contains(part), "{} lacks {part}", path.display());
        }
        let exercise = text.split("## Exercise").nth(1).expect("an exercise");
        assert!(exercise.contains("```sh\ncargo run "), "{}: no command", path.display());
    }
}

/// Returns the commands in the blocks for a shell.
fn commands(text: &str) -> Vec<String> {
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks
        .flat_map(|block| block.replace("\\\n", " ").lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

#[test]
fn the_commands_run() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("target")).expect("a folder");
    let readme = fs::read_to_string(zk_testkit::guide::folder().join("README.md")).expect("text");
    let mut texts = chapters();
    texts.push((PathBuf::from("README.md"), readme));
    let mut ran = 0;
    for (path, command) in
        texts.iter().flat_map(|(path, text)| commands(text).into_iter().map(move |it| (path, it)))
    {
        let options = command.split_once("cargo run ").expect("a command of cargo").1;
        let (options, arguments) = options.split_once(" -- ").unwrap_or((options, ""));
        let words: Vec<_> = options.split_whitespace().collect();
        let after = |option| words.iter().skip_while(|word| **word != option).nth(1);
        if let (Some(package), Some(example)) = (after("-p"), after("--example")) {
            let sources = root().join("crates").join(package).join("examples").join(example);
            let exists = sources.is_dir() || sources.with_extension("rs").exists();
            assert!(exists, "{}: {command}", path.display());
            continue;
        }
        let binary = match after("--bin") {
            // Without arguments, it writes to the repository. `generate` is tested above.
            Some(&"guide") if arguments.is_empty() => continue,
            Some(&"guide") => env!("CARGO_BIN_EXE_guide"),
            Some(&"sim") => env!("CARGO_BIN_EXE_sim"),
            // It is in the README, too, and CI runs it.
            None if after("-p") == Some(&"zk-demo") => continue,
            _ => panic!("{}: {command}", path.display()),
        };
        let output = Command::new("sh")
            .args(["-c", &format!("'{binary}' {arguments}")])
            .current_dir(folder.path())
            .output()
            .expect("a shell");
        // A bug that is injected on purpose must be found.
        let expected = i32::from(arguments.contains("--bug"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(expected), "{}: {command}\n{error}", path.display());
        assert!(text.lines().count() > 5, "{}: {command}\n{text}", path.display());
        ran += 1;
    }
    assert!(ran >= 18, "only {ran} commands ran");
}

#[test]
fn the_three_questions_are_answered_where_the_front_page_says() {
    let page = fs::read_to_string(folder().join("README.md")).expect("text");
    let questions =
        page.split("## Three questions").nth(1).and_then(|rest| rest.split("##").next());
    let rows = questions.expect("the questions").lines().filter(|line| line.contains("](")).count();
    assert_eq!(rows, 3);
}
