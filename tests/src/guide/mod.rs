//! What is generated of the guide in `docs/guide`: pictures, bytes and tables.
//!
//! `cargo run -p zk-testkit --bin guide` writes all of it; the suite `documents` fails when
//! something is out of date. The text of a chapter names what belongs between two comments:
//!
//! | comment | what follows, up to `<!-- end -->` |
//! |---|---|
//! | `<!-- bytes SCRIPT N M -->` | these frames of a [script](scripts::SCRIPTS), field by field |
//! | `<!-- recorded NAME N M -->` | these frames of a [recorded] connection |
//! | `<!-- table NAME -->` | a [table](tables) |

pub mod dump;
pub mod label;
pub mod played;
pub mod recorded;
pub mod scripts;
pub mod stage;
pub mod tables;
pub mod trying;

use alloc::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use zk_proto::diagram::Diagram;

/// Pictures of recorded connections: their names, the recordings and the titles.
const RECORDINGS: &[(&str, &str, &str)] = &[
    ("lock", "3.8.0-zkproto-lock", "A lock of zk-recipes on ZooKeeper 3.8.0, as recorded"),
    ("sasl", "3.8.0-java3.8.0-sasl", "DIGEST-MD5 with the Java client on 3.8.0, as recorded"),
];

/// Pictures of several connections that were recorded in one run: their names, and the recording of
/// each lane with the name of the lane.
pub const RUNS: &[(&str, &[(&str, &str)])] = &[(
    "turns",
    &[
        ("3.8.0-zklock-turns", "1 zk-lock"),
        ("3.8.0-curator5.4.0-turns", "2 Curator"),
        ("3.8.0-zklock-turns.2", "3 zk-lock"),
    ],
)];

/// Returns the folder of the guide.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide")
}

fn invalid(error: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.into())
}

/// Returns every generated file, and every chapter with its generated parts renewed.
///
/// # Errors
///
/// If a file cannot be read, or a comment names nothing that can be generated.
pub fn generate() -> io::Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    let picture = |name: &str| folder().join("pictures").join(format!("{name}.svg"));
    for (name, script) in scripts::SCRIPTS {
        files.insert(picture(name), script().0.to_svg());
    }
    for (name, draw) in scripts::TIMELINES {
        files.insert(picture(name), draw());
    }
    for (name, recording, title) in RECORDINGS {
        let diagram: Diagram = recorded::diagram(recording, title)?;
        files.insert(picture(name), diagram.to_svg());
    }
    for (name, run) in RUNS {
        files.insert(picture(name), recorded::lanes(run, "svg")?);
    }
    for entry in fs::read_dir(folder())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let text = renew(&fs::read_to_string(&path)?)
                .map_err(|error| invalid(format!("{}: {error}", path.display())))?;
            files.insert(path, text);
        }
    }
    Ok(files)
}

/// Replaces everything between comments that name something generated.
fn renew(text: &str) -> io::Result<String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = next_comment(rest) {
        let (before, behind) = rest.split_at(at);
        let (comment, behind) = behind.split_once("-->").ok_or_else(|| invalid("no end"))?;
        let (_, behind) = behind
            .split_once("<!-- end -->")
            .ok_or_else(|| invalid(format!("{comment}--> has no <!-- end -->")))?;
        let words: Vec<_> = comment.trim_start_matches("<!--").split_whitespace().collect();
        let generated = match words[..] {
            ["bytes", script, ref frames @ ..] => block(&script_frames(script)?, frames)?,
            ["recorded", name, ref frames @ ..] => block(&recorded_frames(name)?, frames)?,
            ["table", name] => {
                tables::table(name)?.ok_or_else(|| invalid(format!("no table {name}")))?
            }
            _ => return Err(invalid(format!("{comment}-->: what is that?"))),
        };
        out += &format!("{before}{comment}-->\n\n{generated}\n<!-- end -->");
        rest = behind;
    }
    Ok(out + rest)
}

fn next_comment(text: &str) -> Option<usize> {
    ["<!-- bytes ", "<!-- recorded ", "<!-- table "]
        .into_iter()
        .filter_map(|it| text.find(it))
        .min()
}

fn script_frames(name: &str) -> io::Result<Vec<stage::Frame>> {
    let script = scripts::SCRIPTS.iter().find(|(it, _)| *it == name);
    let (_, script) = script.ok_or_else(|| invalid(format!("no script {name}")))?;
    Ok(script().1)
}

fn recorded_frames(name: &str) -> io::Result<Vec<stage::Frame>> {
    Ok(recorded::frames(name)?.into_iter().map(|(_, frame)| frame).collect())
}

/// Returns these frames as one block.
fn block(frames: &[stage::Frame], numbers: &[&str]) -> io::Result<String> {
    let mut blocks = Vec::new();
    for number in numbers {
        let frame = number.parse().ok().and_then(|number: usize| frames.get(number));
        let frame = frame.ok_or_else(|| invalid(format!("no frame {number}")))?;
        blocks.push(dump::dump(frame));
    }
    Ok(format!("```text\n{}```\n", blocks.join("\n")))
}
