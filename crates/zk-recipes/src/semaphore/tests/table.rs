//! The table of steps in docs/tables/semaphore.md, compared with the code.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use zk_session::proto::{ErrorCode, EventType};

use super::super::super::tests::{CONNECTED, SESSION, documented_rows, lost, merged, ok, refused};
use super::harness::{Harness, children, created, maximum, stat};
use crate::attempt::WaitPolicy;
use crate::tests::{Command, Input};

type Start = fn(Harness) -> Harness;
type Trigger = fn(&mut Harness);

const STARTS: [(&str, Start); 9] = [
    ("Queueing", Harness::queueing),
    ("Creating", Harness::creating),
    ("MakingParents", Harness::making_parents),
    ("Resolving", Harness::resolving),
    ("Adopting", Harness::adopting),
    ("Unresolved", Harness::unresolved),
    ("Waiting", Harness::waiting),
    ("Held", Harness::held),
    ("Leaving", Harness::leaving),
];

fn answer(h: &mut Harness, line: &str, code: ErrorCode) {
    h.answer_if_asked(line, refused(code));
}

const TRIGGERS: [(&str, Trigger); 24] = [
    ("first in the queue", |h| {
        h.answer_if_asked("list locks", children(&["locks/own-7"]));
    }),
    ("node in the queue deleted", |h| {
        h.fire_if_set("watch locks/own-7", EventType::NODE_DELETED);
    }),
    ("permit nodes created", |h| {
        h.answer_if_asked("create 2 leases", created(&[3, 4]));
    }),
    ("creation: no parent", |h| answer(h, "create 2 leases", ErrorCode::NO_NODE)),
    ("creation: refused for now", |h| answer(h, "create 2 leases", ErrorCode::THROTTLED_OP)),
    ("creation: refused", |h| answer(h, "create 2 leases", ErrorCode::NO_AUTH)),
    ("creation: lost", |h| {
        h.answer_if_asked("create 2 leases", lost());
    }),
    ("parent created", |h| {
        h.answer_if_asked("container /sem/leases", ok());
    }),
    ("list behind a sync: ours", |h| {
        h.answer_if_asked("sync leases", ok());
        h.answer_if_asked("list leases", children(&["leases/own-3", "leases/own-4"]));
    }),
    ("list behind a sync: none", |h| {
        h.answer_if_asked("sync leases", ok());
        h.answer_if_asked("list leases", children(&[]));
    }),
    ("sync: refused for now", |h| answer(h, "sync leases", ErrorCode::THROTTLED_OP)),
    ("owner: our session", |h| {
        h.answer_if_asked("stat leases/own-3", stat(SESSION));
    }),
    ("owner: permit node is gone", |h| answer(h, "stat leases/own-3", ErrorCode::NO_NODE)),
    ("leases change", Harness::leases_change),
    ("leases change: permits are free", |h| {
        h.leases_change();
        h.answer_if_asked("watch leases", children(&["leases/own-3", "leases/own-4"]));
    }),
    ("leases change: one of ours is missing", |h| {
        h.leases_change();
        h.answer_if_asked("watch leases", children(&["leases/own-4"]));
    }),
    ("maximum changes", Harness::maximum_changes),
    ("maximum read: 9", |h| {
        h.maximum_changes();
        h.answer_if_asked("watch max", maximum(9));
    }),
    ("maximum read: 1", |h| {
        h.maximum_changes();
        h.answer_if_asked("watch max", maximum(1));
    }),
    ("permit node deleted", |h| h.fire_if_set("watch leases/own-3", EventType::NODE_DELETED)),
    ("time", |h| h.feed(Input::Timer)),
    ("connection lost and back", |h| {
        h.disconnect();
        h.reconnect();
    }),
    ("session ended", Harness::expire),
    ("release", |h| h.feed(Command::Release)),
];

fn row(step: &str, happening: &str, h: &mut Harness) -> Option<[String; 4]> {
    let outputs = h.wanted().join(", ");
    let after = h.machine.step_name();
    let after = if after == step { "" } else { &after };
    let changed = !after.is_empty() || !outputs.is_empty();
    changed.then(|| [step, happening, after, &outputs].map(String::from))
}

fn table() -> Vec<String> {
    let mut rows = Vec::new();
    for (step, place) in STARTS {
        for (happening, happens) in TRIGGERS {
            let mut h = place(Harness::new());
            assert_eq!(h.machine.step_name(), step);
            // The mutex is held while creating, long enough for its node to be watched.
            if matches!(step, "Waiting" | "Held") && happening.ends_with("deleted") {
                h.feed(Input::Timer);
                for watch in ["locks/own-7", "leases/own-3", "leases/own-4"] {
                    h.answer_if_asked(&format!("watch {watch}"), ok());
                }
                h.wanted();
            }
            happens(&mut h);
            rows.extend(row(step, happening, &mut h));
        }
    }
    let looking = || {
        let mut h = Harness::of(|request| request.config.wait_policy = WaitPolicy::OnlyIfFree);
        h.feed(Input::State(CONNECTED));
        h
    };
    for (happening, permit_nodes) in [
        ("permits are free", &["leases/a-1"][..]),
        ("no permits are free", &["leases/a-1", "leases/b-2"]),
    ] {
        let mut h = looking();
        h.wanted();
        h.answer("watch max", maximum(3));
        h.answer("watch leases", children(permit_nodes));
        rows.extend(row("Looking", happening, &mut h));
    }
    for (happening, number) in [("maximum read: 200", 200), ("maximum read: 3", 3)] {
        let mut h =
            Harness::of(|request| (request.permits, request.maximum) = (200, None)).queueing();
        h.answer("list locks", children(&["locks/own-7"]));
        h.wanted();
        h.answer("watch max", maximum(number));
        rows.extend(row("Asking", happening, &mut h));
    }
    merged(rows)
}

/// Inputs without a row change nothing.
#[test]
fn the_table_shows_every_input_in_every_step() {
    let table = table();
    assert_eq!(documented_rows("semaphore.md"), table, "the table is to be:\n{}", table.join("\n"));
}
