//! What `zk-explain` shows of ClickHouse, whose bytes are as recorded of version 26.9.

use crate::wireshark::tshark;
use crate::{Folder, printed, run};

const HANDSHAKE: &str =
    "0000000000000000 00007530 0000000000000000 00000010 00000000000000000000000000000000 01";

fn answer(version: &str) -> String {
    let password = "00".repeat(16);
    format!("00000024 {version} 00007530 0000000000000005 00000010 {password}")
}

/// Writes both directions of a connection to files.
fn recorded(folder: &Folder, sent: &[&str], received: &[&str]) -> [String; 2] {
    [(sent, "c2s"), (received, "s2c")].map(|(parts, ending)| {
        let path = folder.join(ending);
        let digits: Vec<_> = parts.concat().chars().filter_map(|c| c.to_digit(16)).collect();
        let bytes: Vec<_> = digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect();
        std::fs::write(&path, bytes).expect("written");
        path
    })
}

/// Shows both directions of a connection, one line for each message.
fn lines(name: &str, sent: &[&str], received: &[&str]) -> Vec<String> {
    let folder = Folder::new(name);
    let [sent, received] = recorded(&folder, sent, received);
    let ran = run(&["--format", "lines", "--pair", &sent, &received]);
    assert_eq!(ran.code, Some(0), "{}", ran.remarks);
    let trimmed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    ran.out.lines().map(trimmed).collect()
}

#[test]
fn a_connection_with_everything_is_explained() {
    let shown = lines(
        "keeper-all",
        &[
            "0000002d 0000000c 0101",
            HANDSHAKE,
            "1eda2dbcf544867c36a9546c3dbdb833 82 33000000 2b000000 520000002600 0100f011 01000000 04000000 152f6b65 65706572 2f666561 74757265 5f666c61 67730000",
        ],
        &[
            &answer("0000000c"),
            // Not compressed. Nobody checks the sum.
            "00000000000000000000000000000000 02 21000000 18000000 \
             00000014 0000000000000001 0000000000000002 ffffff9b",
        ],
    );
    let expected = [
        "> connect protocol_version=12 wide_xids=true compression=true last_zxid_seen=0x0 \
         timeout=30000 session_id=0x0 read_only=true",
        "< connected protocol_version=12 timeout=30000 session_id=0x5",
        "> 1 GET_DATA \"/keeper/feature_flags\" watch=false",
        "< 1 GET_DATA NO_NODE zxid=0x0/2",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_refused_session_is_shown() {
    let shown = lines("keeper-42", &["0000002d 0000000a", HANDSHAKE], &[&answer("0000002a")]);
    assert_eq!(shown[1], "< rejected protocol_version=42 timeout=30000 session_id=0x5");
}

#[test]
fn an_unknown_dialect_is_named_and_not_decoded() {
    let shown = lines(
        "keeper-13",
        &["0000002d 0000000d", HANDSHAKE, "0000000c 00000001 0000000b 00000000"],
        &[&answer("0000000d"), "00000010 00000001 0000000000000002 00000000"],
    );
    assert!(shown[0].starts_with("> connect protocol_version=13 "), "{shown:?}");
    assert_eq!(shown[2..], ["> an unknown dialect, 16 bytes", "< an unknown dialect, 20 bytes"]);
}

#[test]
fn a_damaged_block_is_reported() {
    let folder = Folder::new("keeper-damaged");
    let block = "00000000000000000000000000000000 55 0a000000 01000000 00";
    let [sent, received] =
        recorded(&folder, &["0000002d 0000000a", HANDSHAKE, block], &[&answer("0000000a")]);
    let ran = run(&["--format", "lines", "--pair", &sent, &received]);
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.remarks.contains("the compression method 0x55 is unknown at byte 49"),
        "{}",
        ran.remarks
    );
}

#[test]
fn operations_of_keeper_have_names_and_paths() {
    // As recorded.
    let request = "0000001e 000000a6 000001f7 0000000e 2f7461626c65732f722f74656d70 000003e8";
    let line = |options: &[&str]| printed(&[options, &["--format", "lines", request]].concat());
    let shown = line(&[]);
    assert!(shown.ends_with("166  REMOVE_RECURSIVE \"/tables/r/temp\" limit=1000\n"), "{shown}");
    assert_eq!(line(&["--op", "removeRecursive", "--path", "/tables"]), shown);
    assert_eq!(line(&["--path", "/other"]), "");
    let unknown = printed(&["--format", "lines", "0000000e 00000001 000001fc 00000002 2f61"]);
    assert!(unknown.contains("508 ! operation 508 is not allowed here"), "{unknown}");
}

#[test]
fn wireshark_shows_what_it_can_and_says_what_it_does_not() {
    let folder = Folder::new("keeper-wireshark");
    let capture = folder.join("capture");
    let dissected = |sent: &[&str], received: &[&str]| {
        let [sent, received] = recorded(&folder, sent, received);
        let ran = run(&["--format", "json", "--pair", &sent, &received, "--write-pcap", &capture]);
        assert_eq!(ran.code, Some(0), "{}", ran.remarks);
        tshark(&folder, &capture, &[])
    };
    let plain = dissected(
        &[
            "0000002d 00000000",
            HANDSHAKE,
            "00000021 00000001 00000016 00000004 00 ffffffff 00000002 2f61 00 ffffffff 01 ffffffff",
            "0000001e 00000002 000001f7 0000000e 2f7461626c65732f722f74656d70 000003e8",
        ],
        &[
            &answer("00000000"),
            "00000022 00000001 0000000000000001 00000000 00000004 00 ffffff9b ffffffff 01 ffffffff",
            "00000010 00000002 0000000000000001 00000000",
        ],
    );
    let Some(plain) = plain else { return };
    assert!(plain.contains("REMOVE_RECURSIVE /tables/r/temp"), "{plain}");
    assert!(plain.contains("reply to MULTI_READ") && !plain.contains("malformed"), "{plain}");
    let wide = dissected(&["0000002d 0000000b 00", HANDSHAKE], &[&answer("0000000b")]);
    let wide = wide.expect("it ran before");
    assert_eq!(wide.matches("protocol version 11, which is not dissected").count(), 2, "{wide}");
}
