//! What Wireshark shows with the dissector.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Runs tshark with the dissector on a capture, or says why it does not.
pub(crate) fn tshark(folder: &Folder, capture: &str, arguments: &[&str]) -> Option<String> {
    let script = folder.join("zookeeper.lua");
    std::fs::write(&script, printed(&["wireshark"])).expect("written");
    let output = Command::new("tshark")
        .args(["-X", &format!("lua_script:{script}"), "-r", capture])
        .args(arguments)
        .output();
    let Ok(output) = output else {
        assert!(std::env::var_os("ZK_TSHARK").is_none(), "ZK_TSHARK=require, and no tshark");
        skip("tshark is not installed");
        return None;
    };
    let remarks = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !remarks.contains("Lua"), "{remarks}");
    // It passes on strings that are not UTF-8.
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns an attribute of an element of PDML, which has one element on each line.
fn attribute<'x>(line: &'x str, name: &str) -> Option<&'x str> {
    let (_, rest) = line.split_once(&format!(" {name}=\""))?;
    rest.split('"').next()
}

/// The fields of a message: the last part of each name, and the bytes in hexadecimal.
type Fields = Vec<(String, String)>;

/// The fields of all messages, by the number of the connection and the direction.
type Streams = BTreeMap<(usize, bool), Vec<Fields>>;

/// Returns the fields that `zk-explain` finds in every message of these lines of JSON, without
/// null and empty values, which have no field in Wireshark.
fn explained_fields(json: &str, not_utf8: &mut BTreeSet<((usize, bool), usize)>) -> Streams {
    let names: Vec<_> = Capture::all().into_iter().map(|capture| capture.name).collect();
    let mut streams = Streams::new();
    for line in json.lines() {
        let message: Value = serde_json::from_str(line).expect("JSON");
        let connection = names.iter().position(|name| message["connection"] == name.as_str());
        let stream = (connection.expect("a recording"), message["direction"] == "to_client");
        let hex = message["hex"].as_str().expect("a string");
        let messages = streams.entry(stream).or_default();
        if message["malformed"].as_str().is_some_and(|error| error.contains("UTF-8")) {
            not_utf8.insert((stream, messages.len()));
        }
        messages.push(read_fields(hex, &message));
    }
    streams
}

/// Returns the fields that Wireshark finds, from its output in PDML.
fn dissected_fields(pdml: &str, seen: &mut BTreeSet<String>) -> Streams {
    let (mut streams, mut is_reply, mut stream, mut is_ours) = (Streams::new(), false, 0, false);
    for line in pdml.lines().map(str::trim_start) {
        let name = attribute(line, "name").unwrap_or_default();
        match name {
            "tcp.srcport" => is_reply = attribute(line, "show") == Some("2181"),
            "tcp.stream" => {
                stream = attribute(line, "show").and_then(|n| n.parse().ok()).expect("a number");
            }
            _ => {}
        }
        if line.starts_with("<proto") {
            is_ours = name == "zookeeper";
            if is_ours {
                streams.entry((stream, is_reply)).or_default().push(Fields::new());
            }
        }
        // Generated fields have no bytes.
        let is_field = is_ours && attribute(line, "size") != Some("0");
        if let Some(name) = name.strip_prefix("zookeeper.").filter(|_| is_field)
            && let Some(value) = attribute(line, "value")
        {
            let is_null = name.ends_with(".count") && value == "ffffffff";
            let mut parts = name.split('.');
            let record = parts.next().expect("a name");
            let name = parts.next().unwrap_or(record).to_owned();
            seen.insert(format!("{record}.{name}"));
            if !is_null {
                let messages = streams.get_mut(&(stream, is_reply)).expect("a stream");
                messages.last_mut().expect("a message").push((name, value.to_owned()));
            }
        }
    }
    streams
}

fn read_fields(hex: &str, message: &Value) -> Fields {
    let (mut fields, mut at) = (Vec::new(), 0);
    for (path, value) in message["fields"].as_object().expect("an object") {
        let last = path.rsplit('.').next().expect("a name");
        let name = last.split('[').next().expect("a name").to_owned();
        let length = |at: usize| usize::from_str_radix(&hex[at..at + 8], 16).expect("digits");
        // Strings and buffers have their length before them, and numbers have theirs.
        let (skipped, count) = match (value, type_of(&name)) {
            (Value::Null, _) => (8, 0),
            (_, "buffer") => (8, 2 * length(at)),
            (Value::Bool(_), _) => (0, 2),
            (_, "long") => (0, 16),
            (Value::String(_), _) => (0, 8 + 2 * length(at)),
            _ => (0, 8),
        };
        let bytes = &hex[at + skipped..at + skipped + count];
        at += skipped + count;
        if !bytes.is_empty() && name != "body" {
            fields.push((name, bytes.to_owned()));
        }
    }
    fields
}

/// Returns the type of a field whose value in JSON does not show it.
fn type_of(name: &str) -> &'static str {
    match name {
        "data" | "password" | "auth" | "token" => "buffer",
        "zxid" | "czxid" | "mzxid" | "pzxid" | "relative_zxid" | "last_zxid_seen" | "ctime"
        | "mtime" | "ephemeral_owner" | "session_id" | "ttl" | "cur_config_id" => "long",
        _ => "",
    }
}

#[test]
fn wireshark_finds_the_same_fields() {
    let (folder, mut seen) = (Folder::new("wireshark"), BTreeSet::new());
    let (goldens, file) = (captures::directory(), folder.join("a.pcap"));
    let goldens = goldens.to_str().expect("UTF-8");
    let json = run(&["--format", "json", "--write-pcap", &file, goldens]).out;
    let Some(pdml) = tshark(&folder, &file, &["-T", "pdml", "-Y", "zookeeper"]) else { return };
    let mut not_utf8 = BTreeSet::new();
    let expected = explained_fields(&json, &mut not_utf8);
    let found = dissected_fields(&pdml, &mut seen);
    assert!(!not_utf8.is_empty());
    assert!(found.keys().eq(expected.keys()));
    for (stream, messages) in expected {
        assert_eq!(found[&stream].len(), messages.len(), "{stream:?}");
        for (place, (found, expected)) in found[&stream].iter().zip(&messages).enumerate() {
            // Wireshark also shows strings that are not UTF-8, and what follows them.
            let is_same = found == expected
                || not_utf8.contains(&(stream, place)) && found.starts_with(expected);
            assert!(is_same, "{stream:?}: message {place}: {found:?} is not {expected:?}");
        }
    }
    assert!(seen.len() > 90, "{seen:?}");
}

#[test]
fn wireshark_links_requests_and_replies() {
    let (folder, recording) = (Folder::new("links"), golden("3.8.0-zkproto-every"));
    let file = folder.join("a.pcap");
    printed(&["--format", "json", "--write-pcap", &file, &golden("3.8.0-raw-ops")]);
    let list = [
        "-T",
        "fields",
        "-e",
        "frame.number",
        "-e",
        "zookeeper.response_to",
        "-e",
        "zookeeper.time",
    ];
    let filter = ["-2", "-Y", "zookeeper.response_to && zookeeper.path contains \"/\""];
    let Some(replies) = tshark(&folder, &file, &[&list[..], &filter].concat()) else { return };
    assert!(replies.lines().count() > 3, "{replies}");
    for line in replies.lines() {
        let parts: Vec<_> = line.split('\t').collect();
        let [reply, request] =
            [0, 1].map(|place| parts[place].split(',').next().expect("a number"));
        let number = |text: &str| text.parse::<u32>().expect("a number");
        assert!(number(request) < number(reply), "{line}");
        assert!(!parts[2].is_empty(), "{line}");
    }
    let requests = ["-2", "-Y", "zookeeper.response_in", "-T", "fields", "-e", "frame.number"];
    assert!(tshark(&folder, &file, &requests).is_some_and(|out| out.lines().count() > 3));
    run(&["--write-pcap", &file, &recording]);
    let count =
        |filter| tshark(&folder, &file, &["-Y", filter]).expect("tshark is there").lines().count();
    assert!(count("zookeeper.path == \"/every\"") > 5);
    assert_eq!(count("zookeeper.malformed"), 0);
    assert_eq!(count("zookeeper.err == -103"), 1);
    assert!(count("zookeeper.failed") > 3);
    assert_eq!(count("zookeeper.opcode == 14"), 2);
}

#[test]
fn wireshark_shows_words_and_malformed_messages() {
    let folder = Folder::new("malformed");
    let file = folder.join("a.pcap");
    std::fs::write(folder.join("w.c2s"), "ruok").expect("written");
    std::fs::write(folder.join("w.s2c"), "imok").expect("written");
    run(&["--write-pcap", &file, &folder.join("w")]);
    let words = ["-T", "fields", "-e", "zookeeper.word", "-e", "zookeeper.text", "-Y", "zookeeper"];
    let Some(words) = tshark(&folder, &file, &words) else { return };
    assert_eq!(words, "ruok\t\n\timok\n");
    // The table of the recordings lists three malformed requests of this one, and no reply.
    run(&["--write-pcap", &file, &golden("3.8.0-raw-garbage")]);
    let malformed =
        tshark(&folder, &file, &["-Y", "zookeeper.malformed"]).expect("tshark is there");
    assert_eq!(malformed.lines().count(), 2, "{malformed}");
}
