//! Tables of the protocol, from the declarations of `zk-proto` and from recorded connections.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use std::path::Path;
use std::{fs, io};

use zk_proto::explain::MessageKind;
use zk_proto::{Decode, ErrorCode, OpCode, Reader, ReplyHeader, Xid, frame};

use super::recorded;

/// Returns a table by its name, if there is one.
///
/// # Errors
///
/// If a source cannot be read.
pub fn table(name: &str) -> io::Result<Option<String>> {
    let table = match name {
        "operations" => operations()?,
        "errors" => errors()?,
        "records" => records()?,
        _ => return Ok(None),
    };
    Ok(Some(table))
}

fn source(file: &str) -> io::Result<String> {
    fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/zk-proto/src").join(file),
    )
}

/// What the documentation of a declaration says.
#[derive(Clone, Debug, Default)]
struct Docs {
    /// Its first sentences, without the release.
    text: String,
    since: String,
    /// Its name in ZooKeeper.
    alias: String,
}

impl Docs {
    /// Takes the first text in quotes as the alias, unless there is one.
    fn add_alias(&mut self, declared: &str) {
        if let Some(alias) = declared.split('"').nth(1).filter(|_| self.alias.is_empty()) {
            self.alias = alias.to_owned();
        }
    }
}

/// Returns the declarations of a source file that `is` accepts, each with its documentation.
fn declared<T>(source: &str, mut is: impl FnMut(&str) -> Option<T>) -> Vec<(T, Docs)> {
    let (mut found, mut docs, mut paragraph) = (Vec::new(), Docs::default(), true);
    for line in source.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            paragraph &= !text.trim().is_empty();
            if paragraph {
                docs.text += text;
            } else if let Some((_, since)) = text.split_once(" Since ") {
                docs.since = since.trim_end_matches('.').to_owned();
            }
        } else if let Some(rest) = line.strip_prefix("#[doc(alias") {
            docs.add_alias(rest);
        } else if !line.starts_with("#[") {
            if let Some(declaration) = is(line) {
                docs.add_alias(line);
                if let Some((text, since)) = docs.text.clone().split_once(" Since ") {
                    // "Since 3.5.3; usable since 3.5.4." keeps its remark.
                    docs.since = since.trim_end_matches('.').to_owned();
                    docs.text = text.to_owned();
                }
                docs.text = plain(docs.text.trim());
                found.push((declaration, core::mem::take(&mut docs)));
            }
            (docs, paragraph) = (Docs::default(), true);
        }
    }
    found
}

/// Removes the links of rustdoc, which lead nowhere outside of it.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('[') {
        out += before;
        let (name, behind) = behind.split_once(']').unwrap_or((behind, ""));
        out += name;
        rest = match behind.strip_prefix('(') {
            Some(target) => target.split_once(')').map_or("", |(_, rest)| rest),
            None => behind,
        };
    }
    (out + rest).replace('|', "\\|")
}

/// The errors that real servers were recorded to reply with.
fn seen() -> io::Result<BTreeSet<(i32, i32)>> {
    let mut seen = BTreeSet::new();
    for name in recorded::names()? {
        for (_, frame) in recorded::frames(&name)? {
            if let MessageKind::Reply(opcode) = frame.kind
                && let Ok(header) =
                    ReplyHeader::decode(&mut Reader::new(&frame.bytes[frame::PREFIX_LEN..]))
                && header.err != ErrorCode::OK
                && header.xid != Xid::NOTIFICATION
            {
                seen.insert((opcode.0, header.err.0));
            }
        }
    }
    Ok(seen)
}

/// Returns the documentation of each number of one type in `codes.rs`.
fn numbers(name: &str) -> io::Result<BTreeMap<i32, Docs>> {
    let source = source("codes.rs")?;
    let start = source.find(&format!("pub struct {name} {{")).unwrap_or_default();
    let end = source[start..].find("\n    }\n").map_or(source.len(), |end| start + end);
    let constant = |line: &str| line.strip_suffix(',')?.split_once(" = ")?.1.parse().ok();
    Ok(declared(&source[start..end], constant).into_iter().collect())
}

fn cell(text: &str) -> String {
    if text.is_empty() { "–".to_owned() } else { text.to_owned() }
}

fn operations() -> io::Result<String> {
    let (docs, seen, source) = (numbers("OpCode")?, seen()?, source("operations.rs")?);
    let layouts: BTreeMap<_, _> = layouts()?.into_iter().collect();
    let mut out = "\
        | opcode | operation | since | request | response | sets a watch | errors that were recorded |\n\
        |---|---|---|---|---|---|---|\n"
        .to_owned();
    let record = |text: &str| match text.trim().trim_matches(['(', ')', ';']).trim() {
        "" => "–".to_owned(),
        name => format!("`{}`", name.trim_end_matches("<'a>")),
    };
    for line in source.lines().filter(|line| line.contains("=>") && line.ends_with(';')) {
        let Some((name, rest)) = line.trim().split_once("=>") else { continue };
        let (name, Some((request, response))) = (name.trim(), rest.split_once("->")) else {
            continue;
        };
        let Some(opcode) = OpCode::REQUESTS.iter().find(|op| op.name() == Some(name)) else {
            continue;
        };
        let request = record(request.split_once('(').map_or("", |(_, record)| record));
        let docs = docs.get(&opcode.0).cloned().unwrap_or_default();
        let layout = layouts.get(request.trim_matches('`')).cloned().unwrap_or_default();
        let watch = match *opcode {
            OpCode::ADD_WATCH => "yes",
            OpCode::SET_WATCHES | OpCode::SET_WATCHES2 => "sets again",
            OpCode::MULTI_READ => "its parts may",
            _ if layout.contains("watch: boolean") => "if asked to",
            _ => "–",
        };
        let errors: Vec<_> = seen
            .iter()
            .filter(|(of, _)| *of == opcode.0)
            .map(|(_, error)| error.to_string())
            .collect();
        out += &format!(
            "| {} | `{}` | {} | {request} | {} | {watch} | {} |\n",
            opcode.0,
            docs.alias,
            docs.since,
            record(response),
            cell(&errors.join(", "))
        );
    }
    Ok(out)
}

fn errors() -> io::Result<String> {
    let docs = numbers("ErrorCode")?;
    let mut out = "| code | name | since | meaning | from |\n|---|---|---|---|---|\n".to_owned();
    let known: BTreeMap<_, _> = ErrorCode::KNOWN.iter().map(|code| (-code.0, code)).collect();
    for code in known.values() {
        let docs = docs.get(&code.0).cloned().unwrap_or_default();
        let mut text = docs.text.clone();
        let from = ["clients", "the C client"].into_iter().find(|from| {
            let prefix = format!("Reported by {from}: ");
            let rest = text.strip_prefix(&prefix).map(str::to_owned);
            rest.map(|rest| text = rest[..1].to_uppercase() + &rest[1..]).is_some()
        });
        out += &format!(
            "| {} | `{}` | {} | {text} | {} |\n",
            code.0,
            code.name().unwrap_or_default(),
            docs.since,
            from.unwrap_or(if text.starts_with("Never sent") { "nobody" } else { "servers" })
        );
    }
    Ok(out)
}

/// Returns the name of a type in `zookeeper.jute`.
fn jute(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(inner) = rust.strip_prefix("Option<").and_then(|rest| rest.strip_suffix('>')) {
        return match inner {
            "&'a [u8]" => "buffer".to_owned(),
            "bool" => "boolean, may be absent".to_owned(),
            inner => format!("{} or null", jute(inner)),
        };
    }
    if let Some(inner) = rust.strip_prefix("List<'a, ").and_then(|rest| rest.strip_suffix('>')) {
        return format!("vector of {}", jute(inner));
    }
    match rust.trim_end_matches("<'a>") {
        "i32" | "ErrorCode" | "OpCode" | "Xid" | "EventType" | "KeeperState" | "CreateMode"
        | "AddWatchMode" | "WatcherType" | "Perms" => "int".to_owned(),
        "i64" | "Zxid" | "SessionId" => "long".to_owned(),
        "bool" => "boolean".to_owned(),
        "&'a str" => "ustring".to_owned(),
        record => record.to_owned(),
    }
}

/// Returns each record with its fields.
fn layouts() -> io::Result<Vec<(String, String)>> {
    let mut layouts: Vec<(String, String)> = Vec::new();
    for file in ["header.rs", "connect.rs", "records.rs"] {
        let mut inside = false;
        for line in source(file)?.lines().map(str::trim) {
            let line = line.strip_prefix("[secret] ").unwrap_or(line);
            if let Some(rest) = line.strip_prefix("pub struct ")
                && let Some(name) = rest.strip_suffix(" {")
            {
                layouts.push((name.trim_end_matches("<'a>").to_owned(), String::new()));
                inside = true;
            } else if line == "}" {
                inside = false;
            } else if inside
                && let Some((field, rust)) = line
                    .strip_prefix("pub ")
                    .and_then(|line| line.strip_suffix(',')?.split_once(": "))
                && let Some((_, fields)) = layouts.last_mut()
            {
                if !fields.is_empty() {
                    *fields += ", ";
                }
                *fields += &format!("{field}: {}", jute(rust));
            }
        }
    }
    layouts.retain(|(_, fields)| !fields.is_empty());
    Ok(layouts)
}

/// The table of operations has the releases.
fn records() -> io::Result<String> {
    let rows = layouts()?.into_iter().map(|(name, fields)| format!("| `{name}` | {fields} |\n"));
    let head = "| record | fields, in their order |\n|---|---|\n".to_owned();
    Ok(core::iter::once(head).chain(rows).collect())
}
