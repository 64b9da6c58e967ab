//! Conversations: what each frame of a connection is, and what it answers.

mod captures;

use captures::{Capture, Kind as Recorded};
use zk_proto::conversation::Direction::{self, ToClient, ToServer};
use zk_proto::conversation::{self, Conversation, End, Kind, MAX_UNANSWERED, Message, Split};
use zk_proto::explain::MessageKind;
use zk_proto::frame::{self, FrameError};
use zk_proto::owned::{self, IntoOwned};
use zk_proto::{
    Encode, ErrorCode, GetDataRequest, List, OpCode, ReplyHeader, Request, RequestHeader,
    SetWatches2, Xid, Zxid,
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
