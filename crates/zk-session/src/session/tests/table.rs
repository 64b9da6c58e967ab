//! The state table in docs/session.md, checked against the code in every cell.

use alloc::collections::BTreeMap;
use alloc::format;

use super::*;

/// What a session is in, with a request in flight wherever one can be, and one that is unsent.
const STATES: [&str; 10] = [
    "waiting",
    "connecting",
    "handshaking, new",
    "handshaking",
    "authenticating",
    "connected",
    "read-only",
    "closing",
    "out of patience",
    "ended",
];

type Input = fn(&mut Harness);

const INPUTS: [(&str, Input); 35] = [
    ("transport made", |h| h.session.handle_connected(h.now)),
    ("transport gone", Harness::disconnect),
    ("bad frame", |h| h.session.handle_bad_frame(h.now, frame::FrameError::Negative(-1))),
    ("frame: the session", Harness::welcome),
    ("frame: the session, read-only", |h| welcome(h, SESSION, true)),
    ("frame: another session", |h| h.answer_handshake(GRANTED, SessionId(9))),
    ("frame: no session", |h| h.answer_handshake(0, SessionId::NONE)),
    ("frame: garbage", |h| h.session.handle_frame(h.now, Bytes::from_static(b"?"))),
    ("frame: reply", |h| h.reply(xid_in_flight(h), 1, ErrorCode::OK)),
    ("frame: reply too long", |h| h.reply_too_long(xid_in_flight(h), 1, ErrorCode::OK)),
    ("frame: reply to the close", |h| {
        if h.session.closing && h.session.member().is_some() {
            h.take_all();
            (3..=5).for_each(|xid| h.reply(xid, 1, ErrorCode::OK));
        }
    }),
    ("frame: reply out of order", |h| h.reply(77, 1, ErrorCode::OK)),
    ("frame: event", |h| h.notify(EventType::NODE_DELETED, "/watched")),
    ("frame: event too long", |h| h.reply_too_long(Xid::NOTIFICATION.0, 1, ErrorCode::OK)),
    ("frame: credential accepted", |h| h.reply(Xid::AUTH.0, 0, ErrorCode::OK)),
    ("frame: credential refused", |h| h.reply(Xid::AUTH.0, 0, ErrorCode::AUTH_FAILED)),
    ("frame: watches refused", |h| h.reply(Xid::SET_WATCHES.0, 0, ErrorCode::SYSTEM_ERROR)),
    ("time: retry", |h| due(h, Timer::Retry)),
    ("time: connect", |h| due(h, Timer::Connect)),
    ("time: read", |h| due(h, Timer::Read)),
    ("time: ping", |h| due(h, Timer::Ping)),
    ("time: probe", |h| due(h, Timer::Probe)),
    ("time: patience", |h| due(h, Timer::Patience)),
    ("time: deadline of the unsent", |h| {
        h.now = h.now + ms(8_000);
        due(h, Timer::Deadline);
    }),
    ("probed: read-write", |h| {
        let other = h.session.member().map_or(0, |member| 1 - member);
        h.session.handle_probed(h.now, other, true);
    }),
    ("authenticate", |h| {
        let sasl = Request::Sasl(zk_proto::GetSaslRequest { token: Some(b"?") });
        let _ = h.session.authenticate(&sasl, 9);
    }),
    ("authenticate; frame: its refusal", |h| {
        let sasl = Request::Sasl(zk_proto::GetSaslRequest { token: Some(b"?") });
        if h.session.authenticate(&sasl, 9).is_ok() {
            h.take_all();
            h.reply(h.session.outbox.last_xid().0, 0, ErrorCode::AUTH_FAILED);
        }
    }),
    ("authenticated", |h| h.session.authenticated(h.now)),
    ("submit", |h| {
        if let Err(error) = h.session.submit(&SYNC, 9) {
            h.session.events.push_back(Event::Reply { token: 9, result: Err(error) });
        }
    }),
    ("add_auth", |h| {
        if let Err(error) = h.session.add_auth("digest", b"another", 9) {
            h.session.events.push_back(Event::Reply { token: 9, result: Err(error) });
        }
    }),
    ("unwatch", |h| h.session.unwatch(RequestId(1))),
    ("close", |h| h.session.close()),
    ("detach", |h| drop(h.session.detach())),
    ("members: all stay", |h| h.session.update_members(h.now, &[Some(0), Some(1)], 2)),
    ("members: all are others", |h| h.session.update_members(h.now, &[None, None], 2)),
];

fn welcome(h: &mut Harness, session_id: SessionId, read_only: bool) {
    h.deliver(&ConnectResponse {
        protocol_version: 0,
        timeout: GRANTED,
        session_id,
        password: Some(&PASSWORD),
        read_only: Some(read_only),
    });
}

/// Has a timer, and no other, come due, if it is set.
fn due(h: &mut Harness, timer: Timer) {
    if h.session.timers.has(timer) {
        h.session.timers.clear();
        h.session.timers.set(timer, h.now);
        h.session.handle_timeout(h.now);
    }
}

fn xid_in_flight(h: &Harness) -> i32 {
    let sent = h.session.statistics().requests > 2;
    if sent { 3 } else { 99 }
}

/// A session in that state. Where it has been connected, it has a watch and a credential; where
/// it is, it has request 7 in flight. Request 8, which has a deadline, is unsent.
fn session_in(state: &str) -> Harness {
    let config = Config { read_only: true, patience: Some(ms(9_000)), ..Config::new(2, 0) };
    let mut h = Harness::with(config);
    let authenticates = state == "authenticating";
    if state == "handshaking, new" {
        h.submit_late();
        h.reach();
        h.handshake();
        h.events();
        return h;
    }
    h.connect();
    h.watch(&get_data("/watched"), ErrorCode::OK);
    h.session.add_auth("digest", b"me", 6).expect("taken");
    h.sent();
    h.reply(Xid::AUTH.0, 0, ErrorCode::OK);
    if state == "read-only" {
        h.disconnect();
        h.reach();
        h.handshake();
        welcome(&mut h, SESSION, true);
    }
    h.submit(&create("/filler"), 5);
    h.answer_all();
    h.sync(7);
    h.sent();
    match state {
        "connected" | "read-only" => h.submit_late(),
        "closing" => {
            h.submit_late();
            h.session.close();
        }
        "ended" => {
            h.session.close();
            h.disconnect();
        }
        "out of patience" => {
            h.disconnect();
            due(&mut h, Timer::Patience);
            h.session.timers.set(Timer::Retry, h.now + ms(1));
        }
        _ => {
            h.disconnect();
            h.submit_late();
            if state != "waiting" {
                h.sleep();
            }
            if state == "handshaking" || authenticates {
                h.session.config.authenticate = authenticates;
                h.reach();
                h.handshake();
            }
            if authenticates {
                h.welcome();
            }
        }
    }
    if state != "connecting" {
        h.actions();
    }
    h.events();
    h
}

impl Harness {
    fn submit_late(&mut self) {
        self.session.submit_until(&SYNC, 8, self.now + ms(8_000)).expect("taken");
    }
}

fn state_of(session: &Session<u32>) -> &'static str {
    match session.phase {
        Phase::Ended(End::Expired) => "expired",
        Phase::Ended(End::Closed) => "closed",
        Phase::Ended(End::AuthFailed) => "auth failed",
        _ if session.closing => "closing",
        Phase::Connected(_) if session.read_only => "read-only",
        Phase::Connected(_) => "connected",
        _ if session.impatient => "out of patience",
        Phase::Waiting => "waiting",
        Phase::Connecting(_) => "connecting",
        Phase::Handshaking(_) if session.id == SessionId::NONE => "handshaking, new",
        Phase::Handshaking(_) => "handshaking",
        Phase::Authenticating(_) => "authenticating",
    }
}

/// What an input brings forth, in the words of the table: the actions, the frames, the events.
fn outputs(h: &mut Harness) -> String {
    let mut outputs = Vec::new();
    for action in h.actions() {
        outputs.push(match action {
            Action::Connect(_) => "→ connect".to_string(),
            Action::Disconnect => "→ disconnect".to_string(),
            Action::Probe(_) => "→ probe".to_string(),
        });
    }
    for event in h.events() {
        outputs.push(match event {
            Event::State(_) => "state".to_string(),
            Event::Disconnected { .. } => "disconnected".to_string(),
            Event::Authenticate { .. } => "authenticate".to_string(),
            Event::Reply { token, result } => {
                let who = match token {
                    7 => "in flight",
                    8 => "unsent",
                    _ => "this one",
                };
                let how = match result.map_err(|error| error.outcome()) {
                    Ok(_) => "answered",
                    Err(Outcome::Unknown) => "unknown",
                    Err(Outcome::NotApplied) => "not applied",
                    Err(Outcome::Applied) => "applied",
                };
                format!("{who}: {how}")
            }
            Event::Watch { .. } => "watch".to_string(),
            Event::Gap { .. } => "gap".to_string(),
            Event::WatchLost { .. } => "watch lost".to_string(),
            Event::LeaseEnded => "lease ended".to_string(),
            Event::Room => "room".to_string(),
        });
    }
    outputs.join(", ")
}

/// What can be sent now: the names of the frames.
fn frames(h: &mut Harness, had: &str) -> String {
    let handshaking = matches!(h.session.phase, Phase::Handshaking(_));
    h.take_all();
    let mut names = Vec::new();
    while let Some(payload) = h.payload() {
        let mut reader = Reader::new(&payload);
        let name = if handshaking {
            "handshake".to_string()
        } else {
            let header = RequestHeader::decode(&mut reader).expect("a request");
            format!("{}", header.opcode)
        };
        names.push(name);
    }
    let names = names.join(" ");
    if names == had { String::new() } else { names }
}

fn table() -> String {
    let mut table = String::from("| state | input | state after | outputs | can be sent then |\n");
    table += "|---|---|---|---|---|\n";
    for state in STATES {
        for (input, apply) in INPUTS {
            let mut before = session_in(state);
            let had = frames(&mut before, "");
            let mut h = session_in(state);
            if state != "ended" {
                assert_eq!(state_of(&h.session), state);
            }
            if state == "connecting" {
                assert!(matches!(h.actions()[..], [.., Action::Connect(_)]));
            }
            apply(&mut h);
            let (outputs, frames) = (outputs(&mut h), frames(&mut h, &had));
            let mut after = state_of(&h.session);
            if after == state || (state == "ended" && after == "closed") {
                after = "";
            }
            if !after.is_empty() || !outputs.is_empty() || !frames.is_empty() {
                table += &format!("| {state} | {input} | {after} | {outputs} | {frames} |\n");
            }
        }
    }
    table
}

/// An input that a state's rows do not name changes nothing in it.
#[test]
fn the_state_table_says_what_every_input_does_in_every_state() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/session.md");
    let text = std::fs::read_to_string(path).expect("docs/session.md");
    let row = |line: &&str| line.starts_with("| ") && line.matches('|').count() == 6;
    let documented: Vec<&str> = text.lines().filter(row).skip(1).collect();
    let table = table();
    let actual: Vec<&str> = table.lines().filter(row).skip(1).collect();
    assert_eq!(documented, actual, "the table is to be:\n{table}");
    let states: BTreeMap<&str, ()> =
        actual.iter().filter_map(|row| row.split(" | ").next().map(|state| (state, ()))).collect();
    assert!(states.len() >= STATES.len() - 1, "{states:?}");
}
