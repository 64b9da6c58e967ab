//! The command `zk-explain`, as a user runs it.

#[path = "../captures/mod.rs"]
mod captures;
mod keeper;
mod locks;
mod pcap;
mod recorded;
#[path = "../skipped/mod.rs"]
pub mod skipped;
mod variants;
mod wireshark;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use captures::{Capture, Kind};
use serde_json::Value;
use skipped::skip;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zk-explain"));
    command.args(arguments).stdin(Stdio::null());
    command
}

struct Ran {
    code: Option<i32>,
    out: String,
    /// Errors, notes and hints.
    remarks: String,
}

fn ran(output: Output) -> Ran {
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: output.status.code(), out: text(output.stdout), remarks: text(output.stderr) }
}

fn run(arguments: &[&str]) -> Ran {
    ran(command(arguments).output().expect("zk-explain starts"))
}

/// Runs the command, which must succeed and have no remarks.
fn printed(arguments: &[&str]) -> String {
    let Ran { code, out, remarks } = run(arguments);
    assert_eq!((code, &remarks[..]), (Some(0), ""), "{arguments:?}");
    out
}

/// Runs the command with an input.
fn fed(arguments: &[&str], input: &[u8]) -> Ran {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("zk-explain starts");
    let mut pipe = child.stdin.take().expect("piped");
    // It may end before it has read everything.
    let _ = pipe.write_all(input);
    drop(pipe);
    ran(child.wait_with_output().expect("it ends"))
}

fn golden(name: &str) -> String {
    captures::directory().join(name).to_str().expect("UTF-8").to_owned()
}

/// A folder that is removed at the end of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("zk-explain-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn join(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

// ---- Bytes -------------------------------------------------------------------------------------

#[test]
fn hexadecimal_is_explained() {
    let ping = "     0  00 00 00 08              int      Frame.length = 8
     4  ff ff ff fe              int      RequestHeader.xid = PING
     8  00 00 00 0b              int      RequestHeader.opcode = PING
";
    let out = printed(&["00000008 fffffffe 0000000b 00000008 fffffffe 0000000b 0000"]);
    let expected = format!(
        "> 0: PING, xid PING (12 bytes at 0)\n{ping}\n> 1: PING, xid PING (12 bytes at 12)\n{ping}\n\
         2 bytes at byte 24 are an incomplete frame\n"
    );
    assert_eq!(out, expected);
}

#[test]
fn hexadecimal_is_read_as_others_write_it() {
    let expected = printed(&["00000008fffffffe0000000b"]);
    for written in [
        "00 00 00 08 ff ff ff fe 00 00 00 0b",
        "00:00:00:08:FF:FF:FF:FE:00:00:00:0B",
        "0x00000008fffffffe0000000b",
        "0X00000008\n0xfffffffe\t0x0000000b\n",
        "0x00, 0x00, 0x00, 0x08, 0xff, 0xff, 0xff, 0xfe, 0x00, 0x00, 0x00, 0x0b,",
    ] {
        assert_eq!(printed(&[written]), expected, "{written}");
    }
}

#[test]
fn an_operation_that_nobody_knows_is_shown_as_bytes() {
    let out = printed(&["0000000a 00000001 000003e7 6869"]);
    let last = out.trim_end().lines().last().expect("a line");
    assert_eq!(
        last,
        "    12  68 69                    ?        operation 999 is not allowed here at byte 12"
    );
}

/// A limit would only hide the frame, which is in memory already.
#[test]
fn a_frame_that_a_server_would_refuse_as_too_long_is_shown() {
    let path = "61".repeat(1 << 20);
    let input = format!("0010000d 00000001 00000003 00100000 {path} 00");
    let Ran { code, out, .. } = fed(&["-"], input.as_bytes());
    assert_eq!(code, Some(0));
    assert!(out.starts_with("> 0: EXISTS, xid 1 (1048593 bytes at 0)\n"));
    assert!(out.ends_with("boolean  ExistsRequest.watch = false\n\n"));
}

#[test]
fn replies_to_a_recorded_client_are_known_by_what_they_answer() {
    for capture in Capture::all() {
        let [c2s, s2c] = ["c2s", "s2c"].map(|end| golden(&format!("{}.{end}", capture.name)));
        let out = printed(&["--pair", &c2s, &s2c]);
        let titles: Vec<_> = out.lines().filter(|line| line.starts_with(['<', '>'])).collect();
        let messages = capture.messages();
        assert_eq!(titles.len(), messages.len(), "{}", capture.name);
        assert!(!out.contains(": reply, "), "{}", capture.name);
        // The ending says which direction it is.
        let alone = printed(&[&s2c]);
        let handshakes = out.lines().filter(|line| line.contains(": handshake")).count();
        assert_eq!(handshakes, 1 + alone.matches(": handshake").count(), "{}", capture.name);
        let replies = messages.iter().filter(|m| matches!(m.kind, Kind::Reply(..))).count();
        assert_eq!(alone.matches(": reply, ").count(), replies, "{}", capture.name);
    }
}

#[test]
fn what_cannot_be_explained_is_one_line() {
    for (arguments, error) in [
        (&["no such file"][..], "\"no such file\" is neither a file nor hexadecimal digits"),
        (&["123"], "\"123\" is neither a file nor hexadecimal digits"),
        (&["00x0"], "\"00x0\" is neither a file nor hexadecimal digits"),
        (&["52554f4b"], "a frame of 1381322571 bytes exceeds the limit of 1048575 bytes at byte 0"),
        (&["00000000 ffffffff"], "the frame length -1 is negative at byte 4"),
        (&[], "the following required arguments were not provided: <INPUT>"),
        (&["--what"], "unexpected argument '--what' found"),
    ] {
        let Ran { code, remarks, .. } = run(arguments);
        let last = remarks.lines().last().unwrap_or_default();
        assert_eq!((code, last), (Some(2), &format!("error: {error}")[..]));
    }
}

// ---- Mistakes ----------------------------------------------------------------------------------

#[test]
fn mistakes_get_a_hint() {
    let (c2s, s2c) = (golden("3.8.0-raw-ops.c2s"), golden("3.8.0-raw-ops.s2c"));
    let exchanged = run(&["--pair", &s2c, &c2s]).remarks;
    assert!(exchanged.contains("this begins as what a server sent"), "{exchanged}");
    assert!(exchanged.contains("this begins as what a client sent"), "{exchanged}");
    for (arguments, hint) in [
        (&["--server", &c2s][..], "hint: this begins as what a client sent"),
        (&["1603010200010001fc"], "hint: this begins as TLS"),
        (&["474554202f20485454502f312e31"], "hint: this begins as text"),
        (&["0000000100000003000000022f6101"], "put 0000000f in front of it"),
        (&["fffffffe0000000b"], "put 00000008 in front of it"),
    ] {
        let remarks = run(arguments).remarks;
        assert!(remarks.contains(hint), "{arguments:?}: {remarks}");
    }
    assert_eq!(run(&[&c2s]).remarks, "");
}

#[test]
fn four_letter_words_are_text() {
    let Ran { code, out, .. } = fed(&["-"], b"srvr");
    assert_eq!(code, Some(0));
    assert!(out.starts_with("> 0: four-letter word srvr (4 bytes at 0)\n"), "{out}");
    let folder = Folder::new("words");
    std::fs::write(folder.join("a.c2s"), "mntr").expect("written");
    std::fs::write(folder.join("a.s2c"), "zk_version\t3\u{1b}[31m\n").expect("written");
    let lines = run(&["--format", "lines", &folder.join("a")]).out;
    assert_eq!(lines, ">         word \"mntr\"\n<         text \"zk_version\\t3\\u{1b}[31m\\n\"\n");
}

#[test]
fn a_single_reply_is_read_with_the_operation_it_answers() {
    let reply = "0000001000000001000000000000000500000000";
    for name in ["delete", "DELETE", "2"] {
        let out = printed(&["--reply-to", name, reply]);
        assert!(out.starts_with("< 0: reply to DELETE, xid 1, OK (20 bytes at 0)\n"), "{out}");
    }
    assert!(printed(&["--server", reply]).starts_with("< 0: reply, xid 1, OK"));
    let error = run(&["--reply-to", "deleet", reply]);
    assert!(error.remarks.contains("an operation such as getData"), "{}", error.remarks);
}

// ---- Views -------------------------------------------------------------------------------------

#[test]
fn a_recorded_burst_is_shown_in_its_order() {
    let lines = printed(&["--format", "lines", &golden("3.8.0-raw-pipeline")]);
    assert!(lines.contains("watch=false, behind 90 in flight"), "{lines}");
    let first = lines.lines().position(|line| line.contains(" NO_NODE ")).expect("a reply");
    assert!(first > 60, "the burst comes first: {first}");
    let [c2s, s2c] = ["c2s", "s2c"].map(|end| golden(&format!("3.8.0-raw-pipeline.{end}")));
    let unordered = run(&["--format", "lines", "--pair", &c2s, &s2c]);
    assert!(!unordered.out.contains("in flight"));
    assert!(unordered.remarks.contains("without a .seq file"), "{}", unordered.remarks);
}

#[test]
fn zxids_dates_and_latencies_are_for_people() {
    let dump = printed(&[&golden("3.6.3-kazoo-lock")]);
    assert!(dump.contains("(epoch 1, counter 245)"), "{dump}");
    let date = dump.lines().find(|line| line.contains("ctime")).expect("a date");
    assert!(date.contains(" (20") && date.ends_with("Z)"), "{date}");
    assert!(
        dump.contains(
            "< 1: reply to EXISTS, xid 1, OK (88 bytes at 41), at 15.000 ms, after 1.000 ms\n"
        ),
        "{dump}"
    );
    assert!(!dump.contains('\u{1b}'), "colours are for terminals");
}

#[test]
fn filters_select_messages_and_their_replies() {
    let recording = golden("3.6.3-kazoo-lock");
    let all = printed(&["--format", "lines", &recording]);
    let count = |arguments: &[&str]| {
        printed(&[&["--format", "lines", &recording], arguments].concat()).lines().count()
    };
    let matching = |text: &str| all.lines().filter(|line| line.contains(text)).count();
    assert_eq!(count(&["--op", "getChildren"]), matching("GET_CHILDREN"));
    assert_eq!(
        count(&["--op", "getChildren,create"]),
        matching("GET_CHILDREN") + matching("  CREATE")
    );
    assert_eq!(count(&["--errors"]), 3);
    assert_eq!(count(&["--path", "/k-lock/"]), count(&["--path", "/k-lock"]));
    assert_eq!(count(&["--path", "/k-loc"]), 0);
    assert!(count(&["--path", "/k-lock"]) > 40);
    assert_eq!(count(&["--path", "/k-lock", "--errors", "--op", "getData"]), 0);
}

/// The marker behind the last operation of a multi has the operation -1, which is that of errors.
#[test]
fn the_end_of_a_multi_is_no_error() {
    let lines = printed(&["--format", "lines", &golden("3.8.0-java3.8.0-multi")]);
    let ends = |line: &&str| line.ends_with("; DELETE \"/t-multi-3.8.0/m/e\" version=-1");
    assert_eq!(lines.lines().filter(ends).count(), 1, "{lines}");
    assert!(lines.contains("; CHECK; DELETE, after "), "{lines}");
    assert!(lines.contains("; ERROR err=NODE_EXISTS, after "), "{lines}");
    assert!(!lines.contains("; ERROR\n") && !lines.contains("; ERROR, "), "{lines}");
}

#[test]
fn lanes_show_who_wakes_whom() {
    let folder = Folder::new("lanes");
    for (name, part) in [("a", "3.8.0-kazoo-watch"), ("b", "3.8.0-kazoo-watch.2")] {
        for end in ["c2s", "s2c", "seq"] {
            let (from, to) =
                (golden(&format!("{part}.{end}")), folder.join(&format!("{name}.{end}")));
            std::fs::copy(from, to).expect("copied");
        }
    }
    let lanes = printed(&["--format", "lanes", &folder.join("")]);
    assert!(lanes.lines().next().expect("names").contains('a'));
    assert!(lanes.contains("GET_DATA") && lanes.contains("* NODE_"), "{lanes}");
    let svg = printed(&["--format", "svg", &folder.join("")]);
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert_eq!(svg, printed(&["--format", "svg", &folder.join("")]));
}

// ---- Captures ----------------------------------------------------------------------------------

#[test]
#[cfg(unix)]
fn only_the_owner_can_read_what_is_saved() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("private");
    let (record, pcap) = (folder.join("recorded"), folder.join("a.pcap"));
    // A file of an earlier run.
    std::fs::write(&pcap, "before").expect("a file");
    std::fs::set_permissions(&pcap, PermissionsExt::from_mode(0o644)).expect("ours");
    printed(&[
        "--record",
        &record,
        "--write-pcap",
        &pcap,
        "--format",
        "json",
        &golden("3.8.0-raw-ops"),
    ]);
    let saved =
        std::fs::read_dir(&record).expect("a folder").map(|file| file.expect("a file").path());
    let files: Vec<_> = saved.chain([PathBuf::from(&pcap)]).collect();
    assert_eq!(files.len(), 4, "{files:?}");
    for file in files {
        let mode = std::fs::metadata(&file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
    // A pipe has no owner to protect.
    assert!(!printed(&["--write-pcap", "/dev/null", &golden("3.8.0-raw-ops")]).is_empty());
}

#[test]
fn extreme_times_of_a_recording_are_shown_and_copied() {
    let folder = Folder::new("times");
    let name = folder.join("a");
    std::fs::copy(golden("3.8.0-raw-garbage.c2s"), folder.join("a.c2s")).expect("copied");
    std::fs::write(folder.join("a.s2c"), b"").expect("written");
    for (number, time) in ["0", "1e15", "1e18", "1.8e22"].iter().enumerate() {
        std::fs::write(folder.join("a.seq"), format!("> 44 {time}\n")).expect("written");
        let record = folder.join(&number.to_string());
        let pcap = folder.join("a.pcap");
        let asked = [&["--record", &record][..], &["--write-pcap", &pcap], &["--format", "json"]];
        for options in asked {
            let Ran { code, remarks, .. } = run(&[options, &[&name]].concat());
            assert!(matches!(code, Some(0 | 2)), "{time}: {remarks}");
            assert!(!remarks.contains("panicked"), "{time}: {remarks}");
        }
    }
}

#[test]
fn hostile_bytes_end_without_a_panic() {
    let bytes = std::fs::read(golden("3.8.0-zkproto-every.s2c")).expect("a recording");
    for format in ["dump", "lines", "json", "lanes", "svg"] {
        for step in 0..12 {
            let mut bytes = bytes.clone();
            for place in (step..bytes.len()).step_by(53) {
                bytes[place] = bytes[place].rotate_left(step as u32) ^ 0x80;
            }
            let ran = fed(&["--server", "--format", format, "-"], &bytes);
            assert!(matches!(ran.code, Some(0 | 2)), "{}", ran.remarks);
            assert!(!ran.remarks.contains("panicked"), "{}", ran.remarks);
        }
    }
}

#[test]
fn nobody_who_reads_is_no_error() {
    let mut child = command(&[&golden("3.8.0-java3.8.0-many")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("zk-explain starts");
    drop(child.stdout.take());
    let ran = ran(child.wait_with_output().expect("it ends"));
    assert_eq!((ran.code, &ran.remarks[..]), (Some(0), ""));
}

// ---- Live --------------------------------------------------------------------------------------

/// Starts a proxy, and returns it with its address.
fn proxy(server: &str, arguments: &[&str]) -> (Child, String) {
    let mut child = command(&[&["--proxy", "127.0.0.1:0", server], arguments].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("zk-explain starts");
    let mut line = Vec::new();
    let remarks = child.stderr.as_mut().expect("piped");
    while line.last() != Some(&b'\n') {
        let mut byte = [0];
        remarks.read_exact(&mut byte).expect("the address");
        line.push(byte[0]);
    }
    let line = String::from_utf8(line).expect("UTF-8");
    let at = line.trim().strip_prefix("listening on ").expect("the address").to_owned();
    (child, at)
}

#[test]
fn a_proxy_passes_bytes_on_and_records_them() {
    let folder = Folder::new("proxy");
    let server = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let at = server.local_addr().expect("an address").to_string();
    let record = folder.join("recorded");
    let (child, proxy) =
        proxy(&at, &["--connections", "1", "--record", &record, "--format", "lines"]);
    let [asked, replied] = ["3.8.0-raw-ops.c2s", "3.8.0-raw-ops.s2c"]
        .map(|name| std::fs::read(golden(name)).expect("a recording"));
    let mut client = TcpStream::connect(proxy).expect("the proxy listens");
    let (mut accepted, _) = server.accept().expect("the proxy connects");
    client.write_all(&asked).expect("sent");
    let mut passed = vec![0; asked.len()];
    accepted.read_exact(&mut passed).expect("passed on");
    assert_eq!(passed, asked);
    accepted.write_all(&replied).expect("sent");
    drop(accepted);
    let mut passed = Vec::new();
    client.read_to_end(&mut passed).expect("passed on");
    assert_eq!(passed, replied);
    drop(client);
    let ran = ran(child.wait_with_output().expect("it ends after one connection"));
    assert_eq!(ran.code, Some(0), "{}", ran.remarks);
    let messages = printed(&["--format", "lines", &golden("3.8.0-raw-ops")]);
    assert_eq!(ran.out.lines().count(), messages.lines().count());
    let [c2s, s2c] = ["0001.c2s", "0001.s2c"]
        .map(|name| std::fs::read(folder.0.join("recorded").join(name)).expect("recorded"));
    assert_eq!((c2s, s2c), (asked, replied));
    let again = printed(&["--format", "lines", &record]);
    assert_eq!(again.lines().count(), messages.lines().count());
    let refused = run(&["--record", &record, &golden("3.8.0-raw-ops")]);
    assert!(refused.remarks.contains("0001.c2s"), "nothing is overwritten: {}", refused.remarks);
}

/// The picture is drawn at the end, when it is known how many connections there are.
#[test]
fn lanes_of_a_proxy_join_replies_that_came_before_the_next_connection() {
    let server = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let at = server.local_addr().expect("an address").to_string();
    let (child, proxy) = proxy(&at, &["--connections", "2", "--format", "lanes"]);
    let exists = b"\0\0\0\x0f\0\0\0\x01\0\0\0\x03\0\0\0\x02/a\x01";
    let failed = b"\0\0\0\x10\0\0\0\x01\0\0\0\0\0\0\0\x05\xff\xff\xff\x9b";
    for _ in 0..2 {
        let mut client = TcpStream::connect(&proxy).expect("the proxy listens");
        let (mut accepted, _) = server.accept().expect("the proxy connects");
        client.write_all(exists).expect("sent");
        accepted.read_exact(&mut [0; 19]).expect("passed on");
        accepted.write_all(failed).expect("sent");
        client.read_exact(&mut [0; 20]).expect("passed on");
    }
    let ran = ran(child.wait_with_output().expect("it ends after two connections"));
    assert_eq!(ran.code, Some(0), "{}", ran.remarks);
    assert_eq!(ran.out.matches("! EXISTS /a + watch: NO_NODE (").count(), 2, "{}", ran.out);
    assert_eq!(ran.out.lines().count(), 3, "{}", ran.out);
}

// ---- The corpus --------------------------------------------------------------------------------

/// The longest file of the corpus, in bytes.
const LONGEST: usize = 300_000;

fn corpus() -> PathBuf {
    captures::directory().with_file_name("corpus")
}

#[test]
fn the_corpus_for_other_languages_is_that_of_the_recordings() {
    let writes = std::env::var_os("ZK_WRITE_CORPUS").is_some();
    let mut expected = vec!["README.md".to_owned()];
    for capture in Capture::all() {
        let Ran { code, out, .. } = run(&["--format", "json", &golden(&capture.name)]);
        assert_eq!(code, Some(0), "{}", capture.name);
        if out.len() > LONGEST {
            continue;
        }
        let file = format!("{}.jsonl", capture.name);
        if writes {
            std::fs::write(corpus().join(&file), &out).expect("written");
        }
        let kept = std::fs::read_to_string(corpus().join(&file)).unwrap_or_default();
        assert!(kept == out, "{file} is stale: the corpus' README says how to write it again");
        expected.push(file);
    }
    let entries = std::fs::read_dir(corpus()).expect("the corpus");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("readable").file_name().into_string().expect("ASCII"))
        .collect();
    names.sort();
    expected.sort();
    assert_eq!(names, expected);
}

#[test]
fn the_program_of_the_corpus_reads_it() {
    let readme = std::fs::read_to_string(corpus().join("README.md")).expect("the README");
    let (_, program) = readme.split_once("```python\n").expect("a program");
    let (program, _) = program.split_once("```").expect("its end");
    let output = Command::new("python3").args(["-c", program]).arg(corpus()).output();
    let Ok(output) = output else {
        return skip("python3 is not installed");
    };
    let Ran { code, out, remarks } = ran(output);
    assert_eq!((code, &remarks[..]), (Some(0), ""));
    let count: usize = out.split(' ').next().and_then(|count| count.parse().ok()).expect("a count");
    assert!(count > 700, "{count}");
}

// ---- The documents -----------------------------------------------------------------------------

/// `docs/protocol.md` links the file.
#[test]
fn every_byte_of_the_recorded_lock_is_printed_as_in_the_documents() {
    let printed = printed(&[&golden("3.8.0-zkproto-lock")]);
    assert!(printed == include_str!("lock.txt"), "lock.txt should be:\n{printed}");
}

#[test]
fn the_front_page_shows_what_the_tool_prints() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let page = std::fs::read_to_string(page).expect("the front page");
    let (_, shown) = page.split_once("--bin zk-explain -- ").expect("the command");
    let (hexadecimal, rest) = shown.split_once('\n').expect("and what it prints");
    let out = printed(&[hexadecimal]);
    assert_eq!(rest.split_once("```").expect("the end of it").0, out.trim_end().to_owned() + "\n");
}
