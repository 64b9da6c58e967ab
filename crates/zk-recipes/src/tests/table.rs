//! The table of transitions in docs/tables/contender.md, compared with the code.

use super::*;

pub(crate) type Arrive<M> = fn() -> Harness<M>;
pub(crate) type Happen<M> = fn(&mut Harness<M>);
/// A phase: how to reach it, and the inputs that only it can receive.
pub(crate) type Start<M = Contender> = (Arrive<M>, &'static [(&'static str, Happen<M>)]);

/// The inputs that every phase can receive.
pub(crate) fn everywhere<M: Machine + Clone>() -> [(&'static str, Happen<M>); 8] {
    [
        ("release", |h| h.feed(Command::Release)),
        ("connection lost", Harness::disconnect),
        ("the lease ends", |h| h.feed(Input::LeaseEnded)),
        ("connection lost, lease ends", |h| {
            h.disconnect();
            h.feed(Input::LeaseEnded);
        }),
        ("read-only server", |h| h.feed(Input::State(READ_ONLY))),
        ("connected again", Harness::reconnect),
        ("session ended", Harness::expire),
        ("timer", |h| h.feed(Input::Timer)),
    ]
}

pub(crate) const STARTS: [Start; 18] = [
    (|| Harness::of(|config| config.wait_policy = WaitPolicy::OnlyIfFree), &[]),
    (
        || {
            let mut h = Harness::of(|config| config.wait_policy = WaitPolicy::OnlyIfFree);
            h.feed(Input::State(CONNECTED));
            h
        },
        &[
            ("list: another contender", |h| h.answer("list", children(&["a-5"]))),
            ("list: no contender", |h| h.answer("list", children(&[]))),
            ("list: no parent", |h| h.answer("list", refused(ErrorCode::NO_NODE))),
        ],
    ),
    (
        Harness::creating,
        &[
            ("created", |h| h.created(7)),
            ("create: no parent", |h| h.answer("create", refused(ErrorCode::NO_NODE))),
            ("create: refused", |h| h.answer("create", refused(ErrorCode::NO_AUTH))),
            ("create: refused for now", |h| {
                h.answer("create", refused(ErrorCode::SYSTEM_ERROR));
            }),
        ],
    ),
    (
        Harness::with_hint,
        &[
            ("created: nobody has come since", |h| h.created(7)),
            ("created: somebody has come since", |h| h.created(8)),
            ("create: no parent", |h| h.answer("create", refused(ErrorCode::NO_NODE))),
            ("create: refused", |h| h.answer("create", refused(ErrorCode::NO_AUTH))),
            ("create: refused for now", |h| {
                h.answer("create", refused(ErrorCode::SYSTEM_ERROR));
            }),
        ],
    ),
    (
        Harness::making_parents,
        &[("all created", |h| {
            h.answer("container /locks", ok());
            h.answer("container /locks/printer", ok());
        })],
    ),
    (
        || {
            let mut h = Harness::creating();
            h.answer("create", refused(ErrorCode::SYSTEM_ERROR));
            h
        },
        &[],
    ),
    (
        Harness::resolving,
        &[
            ("list: refused before it was sent", |h| h.answer("list", Err(QUEUE_FULL))),
            ("synced; list: our node", |h| {
                h.answer("sync", ok());
                h.answer("list", children(&["own-7"]));
            }),
            ("synced; list: no node of ours", |h| {
                h.answer("sync", ok());
                h.answer("list", children(&["a-5"]));
            }),
        ],
    ),
    (
        Harness::adopting,
        &[
            ("stat: of our session", |h| h.answer("stat own-7", stat(SESSION, 7))),
            ("stat: of another", |h| h.answer("stat own-7", stat(SessionId(9), 7))),
            ("stat: gone", |h| h.answer("stat own-7", refused(ErrorCode::NO_NODE))),
        ],
    ),
    (
        Harness::deciding,
        &[
            ("list: we are first", |h| h.answer("list", children(&["own-7"]))),
            ("list: one contender ahead", |h| h.answer("list", children(&["a-5", "own-7"]))),
            ("list: two contenders ahead", |h| {
                h.answer("list", children(&["a-5", "b-6", "own-7"]));
            }),
            ("list: our node is missing", |h| h.answer("list", children(&["a-5"]))),
            ("list: sequence numbers have ended", |h| {
                h.answer("list", children(&["own-7", "a-2147483647"]));
            }),
        ],
    ),
    (
        || {
            let mut h = Harness::of(|config| config.scheme = PRIVATE);
            h.created_as("create", "own-M7", Zxid(7));
            h.answer("list", children(&["own-M7", "a-M-5"]));
            h
        },
        &[
            ("stats: we are first", |h| {
                h.answer("stat a-M-5", stat_at(SESSION, Zxid(9)));
                h.answer("stat own-M7", stat_at(SESSION, Zxid(7)));
            }),
            ("stats: one contender ahead", |h| {
                h.answer("stat a-M-5", stat_at(SESSION, Zxid(5)));
                h.answer("stat own-M7", stat_at(SESSION, Zxid(7)));
            }),
        ],
    ),
    (
        Harness::second,
        &[
            ("the contender ahead is gone", |h| h.deleted("watch a-5")),
            ("our node is gone", |h| h.deleted("watch own-7")),
        ],
    ),
    (
        Harness::third,
        &[
            ("the contender ahead is gone", |h| h.deleted("watch b-6")),
            ("it was gone before the watch was set", |h| {
                h.deleted("watch b-6");
                h.wanted();
                h.answer("list", children(&["a-5", "own-7"]));
                h.wanted();
                h.answer("watch a-5", refused(ErrorCode::NO_NODE));
            }),
        ],
    ),
    (Harness::held_and_watched, &[("our node is gone", |h| h.deleted("watch own-7"))]),
    (
        || {
            let mut h = writer();
            h.feed(Input::Timer);
            h.answer("watch own-W7", ok());
            h.feed(Command::Convert(LockMode::Shared));
            h
        },
        &[
            ("our node is gone; replaced", |h| {
                h.deleted("watch own-W7");
                h.answer("replace own-W7 by own-R7", replaced(None));
            }),
            ("replace: our node is missing", |h| {
                h.answer("replace own-W7 by own-R7", replaced(Some(ErrorCode::NO_NODE)));
            }),
            ("replace: refused", |h| {
                h.answer("replace own-W7 by own-R7", replaced(Some(ErrorCode::NO_AUTH)));
            }),
            ("our node is gone; replace: refused", |h| {
                h.deleted("watch own-W7");
                h.answer("replace own-W7 by own-R7", replaced(Some(ErrorCode::NO_AUTH)));
            }),
        ],
    ),
    (
        || {
            let mut h = writer();
            h.feed(Command::Convert(LockMode::Shared));
            h.disconnect();
            h.reconnect();
            h
        },
        &[
            ("synced; stat: it is there", |h| {
                h.answer("sync", ok());
                h.answer("stat own-R7", stat(SESSION, 12));
            }),
            ("synced; stat: it is not", |h| {
                h.answer("sync", ok());
                h.answer("stat own-R7", refused(ErrorCode::NO_NODE));
            }),
        ],
    ),
    (
        || {
            let mut h = reader();
            h.feed(Command::Convert(LockMode::Exclusive));
            h
        },
        &[
            ("created; list: we are alone", |h| {
                h.created_as("create W", "own-W9", czxid(9));
                h.answer("list", children(&["own-R7", "own-W9"]));
            }),
            ("created; list: we are not", |h| {
                h.created_as("create W", "own-W9", czxid(9));
                h.answer("list", children(&["own-R7", "a-R8", "own-W9"]));
            }),
            ("created; list: the reader is gone", |h| {
                h.created_as("create W", "own-W9", czxid(9));
                h.answer("list", children(&["own-W9"]));
            }),
        ],
    ),
    (
        || {
            let mut h = reader();
            h.feed(Command::Convert(LockMode::Exclusive));
            h.disconnect();
            h.reconnect();
            h
        },
        &[("synced; list: the writer is there", |h| {
            h.answer("sync", ok());
            h.answer("list", children(&["own-R7", "own-W9"]));
        })],
    ),
    (
        || {
            let mut h = Harness::held();
            h.feed(Command::Release);
            h
        },
        &[("deleted, or gone", |h| h.answer("delete own-7", ok()))],
    ),
];

pub(crate) fn writer() -> Harness {
    let mut h = Harness::reader_or_writer(LockMode::Exclusive);
    h.created_as("create W", "own-W7", czxid(7));
    h.answer("list", children(&["own-W7"]));
    h
}

pub(crate) fn reader() -> Harness {
    let mut h = Harness::reader_or_writer(LockMode::Shared);
    h.created_as("create R", "own-R7", czxid(7));
    h.answer("list", children(&["own-R7"]));
    h
}

/// Returns the name of the phase, or of the conversion.
pub(crate) fn place(h: &Harness) -> String {
    let text = format!("{:?}", h.machine);
    let after = |what: &str| {
        let (_, rest) = text.split_once(what)?;
        Some(rest.chars().take_while(|c| c.is_alphanumeric()).collect::<String>())
    };
    let phase = match after(" phase: ").expect("a phase") {
        phase if phase == "Creating" => after(" step: ").expect("a step"),
        phase => phase,
    };
    let suffix = match phase.as_str() {
        "Held" if text.contains("suspended: true") => ", suspended",
        "Done" => "",
        _ if text.contains("is_releasing: true") => ", releasing",
        "Creating" if text.contains("list: None") => ", with a hint",
        "Waiting" if text.contains("only: true") => ", second in line",
        _ => "",
    };
    match after("conversion: Some(") {
        Some(conversion) if phase != "Done" => format!("{phase}{suffix}, {conversion}"),
        _ => format!("{phase}{suffix}"),
    }
}

/// Returns the rows of the table in `docs/tables/{document}`, without its head.
pub(crate) fn documented_rows(document: &str) -> Vec<String> {
    let path = format!("{}/../../docs/tables/{document}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect(&path);
    text.lines().filter(|line| line.starts_with("| ")).skip(1).map(String::from).collect()
}

/// Compares the effect of every input in all these phases with the table in
/// `docs/tables/{document}`.
#[track_caller]
pub(crate) fn check_table<M: Machine + Clone>(
    document: &str,
    places: &[Start<M>],
    name: fn(&Harness<M>) -> String,
) {
    let mut rows = Vec::new();
    for (arrive, special) in places {
        for (what, happen) in special.iter().chain(&everywhere()) {
            let mut h = arrive();
            h.wanted();
            let before = name(&h);
            happen(&mut h);
            let lines = h.wanted().join(", ");
            let mut after = name(&h);
            if after == before {
                after.clear();
            }
            // Inputs without an effect are not in the table.
            if !lines.is_empty() || !after.is_empty() {
                rows.push([before, String::from(*what), lines, after]);
            }
        }
    }
    let table = merged(rows);
    assert_eq!(documented_rows(document), table, "the table is to be:\n{}", table.join("\n"));
}

/// Returns the rows of a table. States in which an input has the same effect share a row, and then
/// inputs of the same states.
pub(crate) fn merged<const CELLS: usize>(mut rows: Vec<[String; CELLS]>) -> Vec<String> {
    for cell in [0, 1] {
        let mut kept: Vec<[String; CELLS]> = Vec::new();
        for row in rows {
            let is_alike = |other: &&mut [String; CELLS]| {
                (0..CELLS).all(|at| at == cell || other[at] == row[at])
            };
            match kept.iter_mut().find(is_alike) {
                Some(other) => other[cell] = format!("{}<br>{}", other[cell], row[cell]),
                None => kept.push(row),
            }
        }
        rows = kept;
    }
    rows.iter().map(|row| format!("| {} |", row.join(" | "))).collect()
}

#[test]
pub(crate) fn the_table_shows_every_input_in_every_phase() {
    check_table("contender.md", &STARTS, place);
}
