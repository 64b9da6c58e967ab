//! Conversations: what each frame of a connection is, and what it answers.

mod captures;

use captures::{Capture, Kind as Recorded};
use zk_proto::conversation::Direction::{self, ToClient, ToServer};
use zk_proto::conversation::{self, Conversation, End, Kind, MAX_UNANSWERED, Message, Split};
use zk_proto::explain::MessageKind;
use zk_proto::frame::{self, FrameError};
use zk_proto::owned::{self, IntoOwned};
use zk_proto::{
    Encode, ErrorCode, EventType, GetDataRequest, GetDataResponse, KeeperState, List, OpCode,
    ReplyHeader, Request, RequestHeader, Response, SetWatches2, Stat, WatcherEvent, Xid, Zxid,
};

/// The recordings have their own pairing, which this one must agree with.
#[test]
fn every_recorded_message_is_what_it_was_recorded_as() {
    for capture in Capture::all() {
        let recorded = capture.messages();
        let transcript = conversation::transcript(capture.to_server(), capture.to_client());
        assert_eq!(transcript.messages.len(), recorded.len(), "{}", capture.name);
        let [mut requests, mut replies] = [ToServer, ToClient].map(|direction| {
            transcript.messages.iter().filter(move |message| message.direction == direction)
        });
        for expected in recorded {
            let from_client =
                matches!(expected.kind, Recorded::ConnectRequest | Recorded::Request(_));
            let message = if from_client { requests.next() } else { replies.next() };
            let message = message.expect("as many");
            assert_eq!(message.bytes, expected.bytes, "{}", capture.name);
            let is_same = match (expected.kind, message.kind) {
                (Recorded::ConnectRequest, Kind::ConnectRequest)
                | (Recorded::ConnectResponse, Kind::ConnectResponse) => true,
                (Recorded::Refusal(header), Kind::Refusal(read)) => header == read,
                (Recorded::Request(header), Kind::Request(read)) => header == read,
                (Recorded::Reply(asked, header), Kind::Reply { header: read, opcode, .. }) => {
                    header == read && asked == opcode
                }
                (Recorded::Notification, Kind::Notification(_)) => true,
                _ => false,
            };
            assert!(is_same, "{}: {:?} is not {:?}", capture.name, message.kind, expected.kind);
        }
    }
}

#[test]
fn a_recording_is_in_an_order_that_is_possible() {
    for capture in Capture::all() {
        let mut asked = 0;
        for message in conversation::transcript(capture.to_server(), capture.to_client()).messages {
            match message.kind {
                Kind::Reply { request, .. } => assert!(request < asked, "{}", capture.name),
                _ if message.direction == ToServer => asked = message.number + 1,
                _ => {}
            }
        }
    }
}

fn framed(message: impl Encode) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::encode(&message, &mut bytes).expect("short");
    bytes
}

fn request(xid: Xid, opcode: OpCode) -> Vec<u8> {
    framed(RequestHeader { xid, opcode })
}

fn reply(xid: Xid) -> Vec<u8> {
    framed(ReplyHeader { xid, zxid: Zxid(1), err: ErrorCode::NO_NODE })
}

/// Reads messages that must be whole, and returns their kinds.
fn kinds(conversation: &mut Conversation, direction: Direction, mut stream: &[u8]) -> Vec<Kind> {
    let mut kinds = Vec::new();
    while let Some((message, rest)) = conversation.read(direction, stream).expect("frames") {
        kinds.push(message.kind);
        stream = rest;
    }
    assert!(stream.is_empty());
    kinds
}

#[test]
fn replies_answer_the_oldest_request_with_their_xid() {
    let mut conversation = Conversation::new(100);
    let asked = [
        (Xid(7), OpCode::GET_DATA),
        (Xid(3), OpCode::PING),
        (Xid::AUTH, OpCode::AUTH),
        (Xid(7), OpCode::EXISTS),
    ];
    let stream: Vec<_> = asked.iter().flat_map(|(xid, opcode)| request(*xid, *opcode)).collect();
    kinds(&mut conversation, ToServer, &stream);
    assert_eq!(conversation.unanswered(), 4);
    let answers = [Xid::AUTH, Xid(7), Xid::PING, Xid(7), Xid(7), Xid(3)];
    let answered = answers.map(|xid| match kinds(&mut conversation, ToClient, &reply(xid))[..] {
        [Kind::Reply { opcode, request, .. }] => Some((opcode, request)),
        [Kind::UnmatchedReply(header)] if header.xid == xid => None,
        ref other => panic!("{other:?}"),
    });
    let expected = [
        Some((OpCode::AUTH, 2)),
        Some((OpCode::GET_DATA, 0)),
        Some((OpCode::PING, 1)),
        Some((OpCode::EXISTS, 3)),
        None,
        None,
    ];
    assert_eq!(answered, expected);
    assert_eq!(conversation.unanswered(), 0);
}

#[test]
fn a_client_that_is_never_answered_costs_bounded_memory() {
    let mut conversation = Conversation::new(100);
    for xid in 0..=MAX_UNANSWERED {
        let xid = Xid(i32::try_from(xid).expect("small"));
        kinds(&mut conversation, ToServer, &request(xid, OpCode::GET_DATA));
    }
    assert_eq!(conversation.unanswered(), MAX_UNANSWERED);
    // The second frame, not the first: its xid 0 is that of a refusal.
    kinds(&mut conversation, ToClient, &reply(Xid(-9)));
    assert!(matches!(
        kinds(&mut conversation, ToClient, &reply(Xid(0)))[..],
        [Kind::UnmatchedReply(_)]
    ));
    assert!(matches!(
        kinds(&mut conversation, ToClient, &reply(Xid(1)))[..],
        [Kind::Reply { request: 1, .. }]
    ));
}

#[test]
fn a_connection_of_a_four_letter_word_is_text() {
    let mut conversation = Conversation::new(100);
    assert_eq!(conversation.read(ToServer, b"ruo"), Ok(None));
    assert_eq!(kinds(&mut conversation, ToServer, b"ruok\n"), [Kind::Word(*b"ruok"), Kind::Text]);
    let read = conversation.read(ToClient, b"imok");
    let Ok(Some((message, []))) = read else { panic!("{read:?}") };
    assert_eq!(
        (message.kind, message.payload(), message.body()),
        (Kind::Text, &b"imok"[..], &b"imok"[..])
    );
    assert_eq!((message.explained_as(), message.path(), message.opcode()), (None, None, None));
    assert_eq!(conversation.read(ToClient, b""), Ok(None));
    let transcript = conversation::transcript(b"srvr", b"Zookeeper version: 3");
    assert_eq!(transcript.messages.len(), 2);
    // Letters later are a length.
    let stream = [&request(Xid::PING, OpCode::PING)[..], b"ruok"].concat();
    let transcript = conversation::transcript(&stream, b"");
    assert!(matches!(
        transcript.to_server,
        End::Unreadable { offset: 12, error: FrameError::TooLong { .. } }
    ));
}

#[test]
fn a_frame_without_a_header_is_unreadable_and_the_next_is_not() {
    let mut conversation = Conversation::new(100);
    let stream = [&b"\0\0\0\x02hi"[..], &request(Xid(1), OpCode::EXISTS)].concat();
    let read = kinds(&mut conversation, ToServer, &stream);
    assert!(matches!(read[..], [Kind::Unreadable, Kind::Request(_)]), "{read:?}");
    assert_eq!(kinds(&mut conversation, ToClient, b"\0\0\0\0"), [Kind::Unreadable]);
}

#[test]
fn a_length_beyond_the_limit_ends_its_direction_only() {
    let mut conversation = Conversation::new(8);
    let error = FrameError::TooLong { length: 9, limit: 8 };
    for _ in 0..2 {
        assert_eq!(conversation.read(ToClient, b"\0\0\0\x09"), Err(error));
        let ping = request(Xid::PING, OpCode::PING);
        assert!(matches!(conversation.read(ToServer, &ping), Ok(Some(_))));
    }
}

#[test]
fn a_message_says_what_it_is_about() {
    let get = Request::GetData(GetDataRequest { path: "/a", watch: true });
    let stream = framed((RequestHeader { xid: Xid(1), opcode: OpCode::GET_DATA }, get));
    let mut conversation = Conversation::new(100);
    let read: Option<Split<'_>> = conversation.read(ToServer, &stream).expect("a frame");
    let (message, _): (Message<'_>, _) = read.expect("whole");
    assert_eq!(message.request(), Some(Ok(get)));
    assert_eq!((message.path(), message.opcode()), (Some("/a"), Some(OpCode::GET_DATA)));
    assert_eq!(message.explained_as(), Some(MessageKind::Request));
    assert_eq!((message.response(), message.event(), message.reply_header()), (None, None, None));
    let mut fields = 0;
    assert_eq!(message.explain(&mut |_| fields += 1), Ok(()));
    assert_eq!(fields, 5);
    assert_eq!([ToServer, ToClient].map(Direction::reverse), [ToClient, ToServer]);
}

#[test]
fn the_text_of_a_four_letter_word_has_no_fields() {
    let mut conversation = Conversation::new(100);
    let (message, _) = conversation.read(ToServer, b"ruok").expect("a word").expect("whole");
    assert_eq!(message.explain(&mut |field| panic!("{field:?}")), Ok(()));
}

#[test]
fn a_connection_that_ends_within_a_message_says_where() {
    let get = Request::GetData(GetDataRequest { path: "/a", watch: true });
    let whole = framed((RequestHeader { xid: Xid(1), opcode: OpCode::GET_DATA }, get));
    let stream = [&whole[..], &whole[..7]].concat();
    let transcript = conversation::transcript(&stream, &[]);
    assert_eq!(transcript.messages.len(), 1);
    let end = End::Incomplete { offset: whole.len() as u64, length: 7 };
    assert_eq!((transcript.to_server, transcript.to_client), (end, End::Whole));
}

#[test]
fn a_reply_and_an_event_say_what_they_are_about() {
    let get = Request::GetData(GetDataRequest { path: "/a", watch: true });
    let to_server = framed((RequestHeader { xid: Xid(1), opcode: OpCode::GET_DATA }, get));
    let to_server = [to_server, request(Xid(2), OpCode::EXISTS)].concat();
    let header = |xid, err| ReplyHeader { xid, zxid: Zxid(1), err };
    let data = GetDataResponse { data: Some(b"data"), stat: Stat::default() };
    let event = WatcherEvent {
        event_type: EventType::NODE_DELETED,
        state: KeeperState::SYNC_CONNECTED,
        path: "/b",
    };
    let (done, failed, told) = (
        header(Xid(1), ErrorCode::OK),
        header(Xid(2), ErrorCode::NO_NODE),
        header(Xid::NOTIFICATION, ErrorCode::OK),
    );
    let to_client = [framed((done, data)), framed(failed), framed((told, event))].concat();
    let messages = conversation::transcript(&to_server, &to_client).messages;
    let [_, read, _, missing, changed] = &messages[..] else { panic!("{messages:?}") };

    assert_eq!(read.reply_header(), Some(done));
    assert_eq!(read.response(), Some(Ok(Response::GetData(data))));
    assert_eq!((read.opcode(), read.path()), (Some(OpCode::GET_DATA), None));
    assert_eq!(read.explained_as(), Some(MessageKind::Reply(OpCode::GET_DATA)));

    assert_eq!((missing.reply_header(), missing.response()), (Some(failed), None));
    assert_eq!((missing.opcode(), missing.body()), (Some(OpCode::EXISTS), &[][..]));

    assert_eq!((changed.reply_header(), changed.response()), (Some(told), None));
    assert_eq!((changed.event(), changed.path()), (Some(Ok(event)), Some("/b")));
    assert_eq!((changed.opcode(), changed.request()), (None, None));
    assert_eq!(changed.explained_as(), Some(MessageKind::UnknownReply));
}

#[test]
fn an_unreadable_frame_is_explained_as_a_message_of_its_direction() {
    let read = |direction| {
        let mut conversation = Conversation::new(100);
        let (message, _) = conversation.read(direction, b"\0\0\0\0").expect("a frame")?;
        message.explained_as()
    };
    assert_eq!(read(ToServer), Some(MessageKind::Request));
    assert_eq!(read(ToClient), Some(MessageKind::UnknownReply));
}

#[test]
fn a_first_reply_without_an_error_refuses_nothing() {
    let first = |err| {
        let header = ReplyHeader { xid: Xid(0), zxid: Zxid(0), err };
        kinds(&mut Conversation::new(100), ToClient, &framed(header))
    };
    assert!(matches!(first(ErrorCode::OK)[..], [Kind::UnmatchedReply(_)]));
    assert!(matches!(first(ErrorCode::AUTH_FAILED)[..], [Kind::Refusal(_)]));
}

#[test]
fn a_transcript_has_each_request_as_late_as_its_reply_permits() {
    let order = |to_server: &[u8], to_client: &[u8]| {
        let transcript = conversation::transcript(to_server, to_client);
        let order = transcript.messages.iter().map(|message| (message.direction, message.number));
        (order.collect::<Vec<_>>(), transcript.to_server, transcript.to_client)
    };
    let [one, two, three] = [1, 2, 3].map(|xid| request(Xid(xid), OpCode::EXISTS));
    let requests = [one, two, three].concat();
    let event = reply(Xid::NOTIFICATION);

    // The second request has no reply, and the event answers none.
    let replies = [&event[..], &reply(Xid(1)), &reply(Xid(3)), b"\0"].concat();
    let (c, s) = (ToClient, ToServer);
    let expected = vec![(c, 0), (s, 0), (c, 1), (s, 1), (s, 2), (c, 2)];
    let end = End::Incomplete { offset: 60, length: 1 };
    assert_eq!(order(&requests, &replies), (expected, End::Whole, end));

    // The first request is that of the session, whatever it is.
    let refusal = framed(ReplyHeader { xid: Xid(0), zxid: Zxid(0), err: ErrorCode::AUTH_FAILED });
    let expected = vec![(s, 0), (c, 0), (s, 1), (s, 2)];
    assert_eq!(order(&requests, &refusal), (expected, End::Whole, End::Whole));

    let expected = vec![(s, 0), (s, 1), (c, 0)];
    assert_eq!(order(b"ruok\n", b"imok"), (expected, End::Whole, End::Whole));
}

// ---- Paths -------------------------------------------------------------------------------------

#[test]
fn all_paths_of_every_recorded_request_can_be_changed() {
    let (mut several, mut changed) = (0, 0);
    for capture in Capture::all() {
        for message in conversation::transcript(capture.to_server(), &[]).messages {
            let Some(Ok(request)) = message.request() else { continue };
            let paths: Vec<_> = request.paths().map(|path| format!("/app{path}")).collect();
            several += usize::from(paths.len() > 1);
            let mut rooted: owned::Request = request.into_owned();
            assert_eq!(rooted.path(), request.path());
            for path in rooted.paths_mut() {
                path.insert_str(0, "/app");
                changed += 1;
            }
            let bytes = framed(&rooted);
            let read = Request::decode(request.opcode(), &bytes[frame::PREFIX_LEN..]);
            assert!(read.expect("it is as it was").paths().eq(paths));
        }
    }
    assert!(several > 5 && changed > 500, "{several} {changed}");
}

#[test]
fn the_paths_of_all_watches_are_listed_in_order() {
    let [a, b, c, d, e] = [["/a"], ["/b"], ["/c"], ["/d"], ["/e"]];
    let watches = Request::SetWatches2(SetWatches2 {
        relative_zxid: Zxid(0),
        data_watches: List::new(&a),
        exist_watches: List::new(&b),
        child_watches: List::new(&c),
        persistent_watches: List::new(&d),
        persistent_recursive_watches: List::new(&e),
    });
    assert!(watches.paths().eq(["/a", "/b", "/c", "/d", "/e"]));
    let mut kept: owned::Request = watches.into_owned();
    assert_eq!(kept.paths_mut(), ["/a", "/b", "/c", "/d", "/e"]);
    assert_eq!((watches.path(), kept.path()), (None, None));
}
