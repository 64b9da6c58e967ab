//! The table of transitions in docs/tables/session-states.md, compared with the code in every cell.

use alloc::collections::BTreeSet;
use alloc::format;

use super::*;

/// The states of the table, with a request in flight where possible, and an unsent one.
const STATES: [&str; 10] = [
    "waiting",
    "connecting",
    "handshaking, new",
    "handshaking",
    "authenticating",
    "connected",
    "read-only",
    "closing",
    "timed out",
    "ended",
];

type Input = fn(&mut Harness);

const INPUTS: [(&str, Input); 36] = [
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
        if h.session.closing && h.session.server().is_some() {
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
    ("time: retry", |h| due(h, SessionTimer::Retry)),
    ("time: connect", |h| due_on_connection(h, ConnectionTimer::Connect)),
    ("time: read", |h| due_on_connection(h, ConnectionTimer::Read)),
    ("time: ping", |h| due_on_connection(h, ConnectionTimer::Ping)),
    ("time: probe", |h| due_on_connection(h, ConnectionTimer::Probe)),
    ("time: disconnect timeout", |h| due(h, SessionTimer::DisconnectTimeout)),
    ("time: deadline of the unsent", |h| {
        h.now = h.now + ms(8_000);
        due(h, SessionTimer::Deadline);
    }),
    ("probed: read-write", |h| {
        let other = h.session.server().map_or(0, |server| 1 - server);
        h.session.handle_probed(h.now, other, true);
    }),
    ("authenticate", |h| {
        let sasl = Request::Sasl(zk_proto::GetSaslRequest { token: Some(b"?") });
        let _ = h.session.authenticate(&sasl);
    }),
    ("authenticate; frame: its refusal", |h| {
        let sasl = Request::Sasl(zk_proto::GetSaslRequest { token: Some(b"?") });
        if h.session.authenticate(&sasl).is_ok() {
            h.take_all();
            h.reply(h.session.outbox.last_xid().0, 0, ErrorCode::AUTH_FAILED);
        }
    }),
    ("authenticated", |h| h.session.authenticated(h.now)),
    ("authentication failed", |h| h.session.authentication_failed()),
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
    ("unwatch", |h| h.session.unwatch(RequestId::of_caller(1, 0))),
    ("close", |h| h.session.close()),
    ("detach", |h| drop(h.session.detach())),
    ("servers: all stay", |h| h.session.update_servers(h.now, &[Some(0), Some(1)], 2)),
    ("servers: all are replaced", |h| h.session.update_servers(h.now, &[None, None], 2)),
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

/// Expires one timer, and no other, if it is set.
fn due(h: &mut Harness, timer: SessionTimer) {
    if h.session.timers.get(timer).is_some() {
        clear_timers(&mut h.session);
        h.session.timers.set(timer, h.now);
        h.session.handle_timeout(h.now);
    }
}

fn due_on_connection(h: &mut Harness, timer: ConnectionTimer) {
    let is_set = |open: &&mut Connection<u32>| open.timers.get(timer).is_some();
    if h.session.connection.as_mut().filter(is_set).is_some() {
        clear_timers(&mut h.session);
        h.session.connection.as_mut().unwrap().timers.set(timer, h.now);
        h.session.handle_timeout(h.now);
    }
}

fn clear_timers(session: &mut Session<u32>) {
    session.timers.clear();
    if let Some(connection) = &mut session.connection {
        connection.timers.clear();
    }
}

fn xid_in_flight(h: &Harness) -> i32 {
    let sent = h.session.statistics().requests > 2;
    if sent { 3 } else { 99 }
}

/// Makes a session in that state.
///
/// Once connected, it has a watch and a credential. While connected, it has request 7 in flight.
/// Request 8, which has a deadline, is unsent.
fn session_in(state: &str) -> Harness {
    let config =
        Config { read_only: true, disconnect_timeout: Some(ms(9_000)), ..Config::new(2, 0) };
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
        "timed out" => {
            h.disconnect();
            due(&mut h, SessionTimer::DisconnectTimeout);
            h.session.timers.set(SessionTimer::Retry, h.now + ms(1));
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
    match (session.ended, session.stage()) {
        (Some(End::Expired), _) => "expired",
        (Some(End::Closed), _) => "closed",
        (Some(End::AuthFailed), _) => "auth failed",
        _ if session.closing => "closing",
        (_, Some(Stage::Connected)) if session.is_read_only() => "read-only",
        (_, Some(Stage::Connected)) => "connected",
        _ if session.disconnect_timed_out => "timed out",
        (_, None) => "waiting",
        (_, Some(Stage::Connecting)) => "connecting",
        (_, Some(Stage::Handshaking)) if session.id == SessionId::NONE => "handshaking, new",
        (_, Some(Stage::Handshaking)) => "handshaking",
        (_, Some(Stage::Authenticating)) => "authenticating",
    }
}

/// Returns the outputs of an input, in the words of the table: actions, frames, events.
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
            Event::AuthenticationReply { .. } => "authentication reply".to_string(),
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

/// Returns the names of the frames that can be sent now.
fn frames(h: &mut Harness, had: &str) -> String {
    let handshaking = h.session.stage() == Some(Stage::Handshaking);
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
    let mut rows = Vec::new();
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
                rows.push([state, input, after, &outputs, &frames].map(String::from));
            }
        }
    }
    let head =
        "| state | input | state after | outputs | can be sent then |\n|---|---|---|---|---|\n";
    let lines = merged(rows).into_iter().map(|row| format!("| {} |\n", row.join(" | ")));
    [String::from(head)].into_iter().chain(lines).collect()
}

/// States in which an input has the same effect share a row, and then inputs of the same states.
fn merged(mut rows: Vec<[String; 5]>) -> Vec<[String; 5]> {
    for cell in [0, 1] {
        let mut kept: Vec<[String; 5]> = Vec::new();
        for row in rows {
            let is_alike =
                |other: &&mut [String; 5]| (0..5).all(|at| at == cell || other[at] == row[at]);
            match kept.iter_mut().find(is_alike) {
                Some(other) => other[cell] = format!("{}<br>{}", other[cell], row[cell]),
                None => kept.push(row),
            }
        }
        rows = kept;
    }
    rows
}

/// An input that the rows of a state do not list changes nothing there.
#[test]
fn the_state_table_matches_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tables/session-states.md");
    let text = std::fs::read_to_string(path).expect(path);
    let row = |line: &&str| line.starts_with("| ") && line.matches('|').count() == 6;
    let documented: Vec<&str> = text.lines().filter(row).skip(1).collect();
    let table = table();
    let actual: Vec<&str> = table.lines().filter(row).skip(1).collect();
    assert_eq!(documented, actual, "the table is to be:\n{table}");
    let states: BTreeSet<&str> = actual
        .iter()
        .flat_map(|row| row.trim_start_matches("| ").split(" | ").next())
        .flat_map(|states| states.split("<br>"))
        .collect();
    assert!(states.len() >= STATES.len() - 1, "{states:?}");
}
