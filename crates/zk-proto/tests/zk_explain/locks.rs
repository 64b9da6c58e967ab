//! `zk-explain locks`.

use super::*;

const TURNS: [&str; 3] = ["3.8.0-curator5.4.0-turns", "3.8.0-zklock-turns", "3.8.0-zklock-turns.2"];

/// A folder with the recordings of a lock that three clients take in turns.
fn turns(name: &str) -> Folder {
    let folder = Folder::new(name);
    for name in TURNS {
        for end in ["c2s", "s2c", "seq"] {
            let name = format!("{name}.{end}");
            std::fs::copy(golden(&name), folder.join(&name)).expect("copied");
        }
    }
    folder
}

/// The rows of the table, each as its words. Numbers of milliseconds are two.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let rows = text.lines().filter(|line| line.contains("exclusive") || line.contains("shared "));
    rows.map(|row| row.split_whitespace().collect()).collect()
}

#[test]
fn a_lock_taken_in_turns_is_reported() {
    let folder = turns("locks");
    let text = printed(&["locks", &folder.join("")]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "/locks/shared: held 98 % of 9054.721 ms");
    let longest = "  the longest hold: 7347.294 ms by 3.8.0-zklock-turns, session closed";
    assert_eq!(lines[1], longest);
    let rows = rows(&text);
    assert_eq!(rows.len(), 3, "{text}");
    let first = "2026-11-23T12:23:24.609807Z 3.8.0-zklock-turns 0 exclusive 0 6.695 ms 7347.294 ms \
                 0 - - session closed";
    let curators = "2026-11-23T12:23:29.976218Z 3.8.0-curator5.4.0-turns 1 exclusive 1 \
                    2085.728 ms 1216.694 ms 1 4.889 ms 98.150 ms released";
    assert_eq!(rows[0].join(" "), first);
    // It lists again when it is woken.
    assert_eq!(rows[1].join(" "), curators);
    assert!(text.contains("hand-overs: 2, median 98.150 ms, longest 98.150 ms"), "{text}");
    assert_eq!(text.matches("ms       1  ##########").count(), 2, "{text}");

    let json = printed(&["locks", "--format", "json", &folder.join("")]);
    let lock: Value = serde_json::from_str(&json).expect("one lock");
    let hand_overs: Vec<_> =
        (0..3).map(|place| lock["entries"][place]["hand_over_us"].as_u64()).collect();
    assert_eq!(hand_overs, [None, Some(98_150), Some(5521)]);
    assert_eq!(lock["entries"][1]["woken_us"], 4889);
    assert_eq!(printed(&["locks", "--path", "/locks/sha", &folder.join("")]), "");

    // A capture names the clients by their addresses.
    let file = folder.join("a.pcap");
    printed(&["--write-pcap", &file, "--format", "json", &folder.join("")]);
    let piped = fed(&["locks", "-"], &std::fs::read(&file).expect("a capture"));
    assert_eq!((piped.code, &piped.remarks[..]), (Some(0), ""));
    let without = |text: &str| {
        let rows = self::rows(text);
        rows.into_iter().map(|row| row[2..].join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(without(&piped.out), without(&text));
    assert!(piped.out.contains("  10.0.0.1:49153  "), "{}", piped.out);
}

/// A participant that is seen only in lists of the others has no client.
#[test]
fn locks_of_kazoo_are_reported() {
    let text = printed(&["locks", &golden("3.8.0-kazoo-lock")]);
    let found: Vec<_> = rows(&text)
        .into_iter()
        .map(|row| {
            let number = row.iter().position(|it| ["exclusive", "shared"].contains(it));
            let number = number.expect("a claim");
            (row[number - 1].to_owned(), row[number + 1].to_owned(), row.last().copied())
        })
        .collect();
    let expected = [
        ("0", "0", "released"),
        ("1", "0", "released"),
        ("2", "0", "released"),
        ("3", "0", "vanished"),
        ("4", "1", "up"),
        ("5", "1", "released"),
        ("0", "0", "released"),
    ];
    let expected =
        expected.map(|(number, ahead, end)| (number.to_owned(), ahead.to_owned(), Some(end)));
    assert_eq!(found, expected, "{text}");
    assert!(text.contains("not captured"), "{text}");
    assert!(text.contains("/k-lock-sem: "), "{text}");
    assert!(text.contains("  permit "), "{text}");
}

/// Changes the order of a recording: `change` has the direction and the time of each chunk.
fn reorder(folder: &Folder, name: &str, change: &dyn Fn(&str, f64) -> Option<f64>) {
    let file = folder.join(&format!("{name}.seq"));
    let text = std::fs::read_to_string(&file).expect("recorded");
    let lines = text.lines().filter_map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
        [mark @ ("<" | ">"), length, time] => {
            let time = change(mark, time.parse().expect("a time"))?;
            Some(format!("{mark} {length} {time:.3}\n"))
        }
        _ => Some(format!("{line}\n")),
    });
    let lines: String = lines.collect();
    std::fs::write(file, lines).expect("written");
}

/// Removes the end of a session from a recording, and what follows.
fn crash(folder: &Folder, name: &str) {
    for (end, kept) in [("c2s", 1), ("s2c", 2)] {
        let file = folder.join(&format!("{name}.{end}"));
        let bytes = std::fs::read(&file).expect("recorded");
        let (mut frames, mut rest) = (Vec::new(), &bytes[..]);
        while let Some(length) = rest.first_chunk() {
            let (frame, behind) = rest.split_at(4 + u32::from_be_bytes(*length) as usize);
            frames.push(frame);
            rest = behind;
        }
        frames.truncate(frames.len() - kept);
        std::fs::write(file, frames.concat()).expect("written");
    }
}

#[test]
fn a_holder_whose_session_expires_is_reported() {
    let folder = turns("expired");
    let [curator, holder, last] = TURNS;
    crash(&folder, holder);
    // What the others did after the holder went comes as late as its session expires.
    let begins = [(curator, 2600.0), (last, 20.0)];
    for (name, begin) in begins {
        reorder(&folder, name, &|_, time| Some(if time > begin { time + 12_000.0 } else { time }));
    }
    let text = printed(&["locks", &folder.join("")]);
    let rows = rows(&text);
    assert!(rows[0].ends_with(&["session", "expired"]), "{text}");
    // It was of no use since its last message.
    let hand_over: f64 = rows[1][rows[1].len() - 3].parse().expect("milliseconds");
    assert!(hand_over > 10_000.0, "{text}");
}

#[test]
fn a_node_that_another_client_deletes_is_reported() {
    let folder = turns("deleted");
    crash(&folder, TURNS[1]);
    let json = printed(&["locks", "--format", "json", &folder.join("")]);
    let lock: Value = serde_json::from_str(&json).expect("one lock");
    assert_eq!(lock["entries"][0]["end"], "vanished");
    // A third client asks for it just before the event.
    let path = format!("/locks/shared/{}", lock["entries"][0]["name"].as_str().expect("a name"));
    let body = [&[0, 0, 0, 1, 0, 0, 0, 2][..], &(path.len() as u32).to_be_bytes()].concat();
    let body = [&body, path.as_bytes(), &[255; 4]].concat();
    let delete = [&(body.len() as u32).to_be_bytes()[..], &body].concat();
    let reply = [&[0, 0, 0, 16, 0, 0, 0, 1], &[0; 7][..], &[11, 0, 0, 0, 0]].concat();
    let order = format!(
        "# 2026-11-23T12:23:31.960000Z\n> {} 0.000\n< {} 50.000\n",
        delete.len(),
        reply.len()
    );
    let files = [("z.c2s", &delete[..]), ("z.s2c", &reply), ("z.seq", order.as_bytes())];
    for (name, bytes) in files {
        std::fs::write(folder.join(name), bytes).expect("written");
    }
    let text = printed(&["locks", &folder.join("")]);
    assert!(rows(&text)[0].ends_with(&["deleted", "by", "another", "client"]), "{text}");
}
