use zk_proto::{Acl, CheckVersionRequest, CreateTtlRequest, Multi, MultiOp};

use super::*;

#[test]
fn requests_are_numbered_from_1_and_answered_in_order() {
    let mut h = Harness::connected();
    for token in 10..13 {
        h.sync(token);
    }
    assert_eq!(h.sent_xids(), [1, 2, 3]);
    h.reply(1, 1, ErrorCode::OK);
    h.reply(2, 1, ErrorCode::NO_NODE);
    h.reply(3, 1, ErrorCode(-12345));
    assert_eq!(
        h.answers(),
        [
            (10, None),
            (11, Some(Error::Server(ErrorCode::NO_NODE))),
            (12, Some(Error::Server(ErrorCode(-12345)))),
        ]
    );
    assert_eq!(h.session.pending(), 0);
}

#[test]
fn a_reply_is_returned_unchanged_with_any_trailing_bytes() {
    let mut h = Harness::connected();
    h.submit(&create("/a"), 7);
    let sent = h.sent();
    assert_eq!(sent[0].request(), create("/a"));
    let created = Create2Response { path: "/a", stat: Stat { czxid: Zxid(9), ..Stat::default() } };
    h.reply_with(1, 9, ErrorCode::OK, &(created, 77));
    let Some(Event::Reply { token: 7, result: Ok(reply) }) = h.events().pop() else {
        panic!("no reply");
    };
    assert_eq!((reply.opcode, reply.zxid), (OpCode::CREATE2, Zxid(9)));
    assert_eq!(reply.decode::<Create2Response<'_>>(), Ok(created));
    let error = reply.decode::<GetChildren2Response<'_>>().expect_err("another record");
    assert_eq!(error.outcome(), Outcome::Unknown);
}

#[test]
fn xids_wrap_to_1_and_continue_across_connections() {
    let mut h = Harness::connected();
    h.session.outbox.set_last_xid(Xid(i32::MAX - 2));
    for token in 0..3 {
        h.sync(token);
    }
    assert_eq!(h.sent_xids(), [i32::MAX - 1, i32::MAX, 1]);
    for xid in [i32::MAX - 1, i32::MAX, 1] {
        h.reply(xid, 1, ErrorCode::OK);
    }
    assert_eq!(h.answers(), [(0, None), (1, None), (2, None)]);
    h.disconnect();
    h.connect();
    h.sync(3);
    assert_eq!(h.sent_xids(), [2]);
}

#[test]
fn a_reply_out_of_order_costs_the_connection() {
    let mut h = Harness::connected();
    h.sync(1);
    h.sync(2);
    h.sent();
    h.reply(2, 99, ErrorCode::OK);
    let cause = Cause::UnexpectedReply { expected: Some(Xid(1)), received: Xid(2) };
    let events = h.events();
    assert!(events.contains(&Event::Disconnected { server: 0, cause }), "{events:?}");
    let lost = |token| Event::Reply { token, result: Err(Error::ConnectionLost) };
    assert!(events.contains(&lost(1)) && events.contains(&lost(2)), "{events:?}");
    assert_eq!(h.actions(), [Action::Disconnect]);
    assert_eq!(h.session.last_zxid(), Zxid::ZERO, "such a reply is not believed");
}

#[test]
fn a_reply_to_no_request_costs_the_connection() {
    for xid in [1, 0, -3, i32::MIN] {
        let mut h = Harness::connected();
        h.reply(xid, 99, ErrorCode::OK);
        let cause = Cause::UnexpectedReply { expected: None, received: Xid(xid) };
        assert_eq!(h.cause(), Some(cause));
    }
}

#[test]
fn a_reply_before_the_request_is_fully_written_costs_the_connection() {
    let mut h = Harness::connected();
    h.sync(1);
    h.take(h.session.output().len() - 1);
    h.reply(1, 1, ErrorCode::OK);
    assert_eq!(h.cause(), Some(Cause::UnexpectedReply { expected: None, received: Xid(1) }));
    h.connect();
    assert_eq!(h.sent_xids(), [1]);
}

#[test]
fn a_frame_that_cannot_be_read_costs_the_connection() {
    for bytes in
        [&b""[..], &[0; 15], &[0xff; 15], &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]]
    {
        let mut h = Harness::connected();
        h.sync(1);
        h.sent();
        h.session.handle_frame(h.now, Bytes::copy_from_slice(bytes));
        let events = h.events();
        assert!(
            matches!(events[0], Event::Disconnected { cause: Cause::Malformed(_), .. }),
            "{events:?}"
        );
        assert_eq!(h.actions(), [Action::Disconnect]);
    }
}

#[test]
fn a_frame_of_invalid_length_costs_the_connection() {
    let mut h = Harness::connected();
    h.session.handle_bad_frame(h.now, frame::FrameError::Negative(-2));
    assert_eq!(h.cause(), Some(Cause::Frame(frame::FrameError::Negative(-2))));
    assert_eq!(h.actions(), [Action::Disconnect]);
}

#[test]
fn the_loss_of_a_connection_is_reported_in_order() {
    let mut h = Harness::connected();
    h.sync(1);
    h.sync(2);
    h.sent();
    h.sync(3);
    h.disconnect();
    let lost = |token| Event::Reply { token, result: Err(Error::ConnectionLost) };
    assert_eq!(
        h.events(),
        [
            Event::Disconnected { server: 0, cause: Cause::Transport },
            lost(1),
            lost(2),
            Event::State(State::Suspended),
        ]
    );
    assert_eq!(Error::ConnectionLost.outcome(), Outcome::Unknown);
}

/// Wherever the connection breaks: requests that the server may have seen are of unknown outcome,
/// and all others reach it complete, once, in order.
#[test]
fn unsent_requests_are_sent_again_as_a_whole_wherever_the_connection_broke() {
    let paths = ["/a", "/bb", "/ccc", "/dddd"];
    let lengths = paths.map(|path| outbox::request_length(&get_data(path)) + frame::PREFIX_LEN);
    let total: usize = lengths.iter().sum();
    for cut in 0..=total {
        for piece in [1, 7, total] {
            let mut h = Harness::connected();
            for (token, path) in paths.iter().enumerate() {
                h.submit(&get_data(path), token as u32);
            }
            let mut left = cut;
            while left > 0 {
                h.take(left.min(piece));
                left -= left.min(piece);
            }
            h.disconnect();
            let mut end = 0;
            let whole = lengths.iter().take_while(|length| {
                end += **length;
                end <= cut
            });
            let whole = whole.count();
            assert_eq!(h.answers(), (0..whole as u32).map(unknown).collect::<Vec<_>>(), "{cut}");
            assert_eq!(h.session.pending(), paths.len() - whole);

            h.connect();
            let sent = h.sent();
            let requests: Vec<_> = sent.iter().map(Sent::request).collect();
            let expected: Vec<_> = paths[whole..].iter().map(|path| get_data(path)).collect();
            assert_eq!(requests, expected, "cut at {cut}");
            for request in &sent {
                h.reply(request.xid.0, 1, ErrorCode::OK);
            }
            let answered: Vec<_> = (whole as u32..paths.len() as u32).map(|t| (t, None)).collect();
            assert_eq!(h.answers(), answered);
        }
    }
}

#[test]
fn waiting_requests_survive_many_connections_in_order() {
    let mut h = Harness::new(2);
    h.sync(1);
    h.reach();
    h.handshake();
    h.disconnect();
    h.sync(2);
    h.connect();
    h.take(5);
    h.disconnect();
    h.sync(3);
    h.connect();
    assert_eq!(h.sent_xids(), [1, 2, 3]);
    assert_eq!(h.answers(), []);
}

#[test]
fn the_zxid_only_rises_and_only_by_ordinary_replies() {
    let mut h = Harness::connected();
    h.watch(&get_data("/a"), ErrorCode::OK);
    h.notify(EventType::NODE_DELETED, "/a");
    assert_eq!(h.session.last_zxid(), Zxid(1));
    for token in 0..5 {
        h.sync(token);
    }
    h.sent();
    for (xid, zxid, err, seen) in [
        (Xid::PING.0, 50, ErrorCode::OK, 1),
        (Xid::AUTH.0, 50, ErrorCode::OK, 1),
        (Xid::SET_WATCHES.0, 50, ErrorCode::OK, 1),
        (2, 10, ErrorCode::OK, 10),
        (3, 12, ErrorCode::NO_NODE, 12),
        (4, 11, ErrorCode::OK, 12),
        (5, -1, ErrorCode::UNIMPLEMENTED, 12),
        (6, 0, ErrorCode::NO_AUTH, 12),
    ] {
        h.reply(xid, zxid, err);
        assert_eq!(h.session.last_zxid(), Zxid(seen), "reply {xid}");
    }
}

#[test]
fn a_request_too_long_for_the_server_fails_alone() {
    let limit = outbox::request_length(&create("/just"));
    let mut h = Harness::with(Config { max_request: limit, ..Config::new(1, 0) });
    h.connect();
    h.sync(1);
    assert_eq!(
        h.session.submit(&create("/longer"), 2),
        Err(Error::Invalid(Invalid::TooLarge { length: limit + 2, limit }))
    );
    h.submit(&create("/just"), 3);
    assert_eq!(h.sent_xids(), [1, 2]);
}

/// Otherwise replies could be mistaken for those to the session's own requests, or the other way
/// round. And a watch that a caller waits for could be removed.
#[test]
fn requests_reserved_for_the_session_are_refused() {
    let watches = SetWatches {
        relative_zxid: Zxid(1),
        data_watches: List::new(&["/a"]),
        exist_watches: List::new(&[]),
        child_watches: List::new(&[]),
    };
    let auth = zk_proto::AuthPacket { auth_type: 0, scheme: "digest", auth: Some(b"me:me") };
    for request in [
        Request::Ping(()),
        Request::CloseSession(()),
        Request::Auth(auth),
        Request::SetWatches(watches),
        Request::SetWatches2(SetWatches2 {
            relative_zxid: Zxid(1),
            data_watches: List::new(&[]),
            exist_watches: List::new(&[]),
            child_watches: List::new(&[]),
            persistent_watches: List::new(&["/a"]),
            persistent_recursive_watches: List::new(&[]),
        }),
        Request::RemoveWatches(zk_proto::RemoveWatchesRequest {
            path: "/a",
            watcher_type: zk_proto::WatcherType::ANY,
        }),
    ] {
        let mut h = Harness::connected();
        let reserved = Error::Invalid(Invalid::Reserved(request.opcode()));
        assert_eq!(h.session.submit(&request, 1), Err(reserved.clone()));
        assert_eq!(h.session.submit_until(&request, 1, h.now + ms(1)), Err(reserved.clone()));
        assert_eq!(reserved.outcome(), Outcome::NotApplied);
        assert_eq!((h.session.pending(), h.sent()), (0, Vec::new()));
    }
}

#[test]
fn requests_that_crash_servers_are_refused() {
    let create_ttl = |mode, ttl| {
        let acl = List::new(&[Acl::OPEN]);
        Request::CreateTtl(CreateTtlRequest { path: "/a", data: None, acl, mode, ttl })
    };
    let check = CheckVersionRequest { path: "/a", version: -1 };
    let mut deadly = Vec::from([Request::Check(check)]);
    for mode in [-1, 0, 1, 2, 3, 4, 7] {
        deadly.extend([-1, -2, i64::MIN].map(|ttl| create_ttl(CreateMode(mode), ttl)));
    }
    let mut h = Harness::connected();
    for request in &deadly {
        let refused = Error::Invalid(Invalid::HarmsServer(request.opcode()));
        assert_eq!(h.session.submit(request, 1), Err(refused.clone()));
        assert_eq!(h.session.submit_until(request, 1, h.now + ms(1)), Err(refused.clone()));
        assert_eq!(refused.outcome(), Outcome::NotApplied);
    }
    assert_eq!((h.session.pending(), h.sent()), (0, Vec::new()));
    // Servers refuse these or execute them.
    let checks = [MultiOp::Check(check)];
    let multi = Request::Multi(Multi::new(&checks));
    let plain = create_ttl(CreateMode::EPHEMERAL, 0);
    for request in [multi, plain, create_ttl(CreateMode::PERSISTENT_WITH_TTL, -1)] {
        assert!(h.session.submit(&request, 1).is_ok(), "{request:?}");
    }
}

/// The length field of a frame is a limit too, whatever the configuration.
#[test]
fn limits_are_clamped_to_the_length_of_a_frame() {
    let h = Harness::with(Config { max_request: usize::MAX, ..Config::new(1, 0) });
    assert_eq!(h.session.config.max_request, i32::MAX as usize);
}

#[test]
fn a_request_beyond_the_limit_fails_alone() {
    let mut h = Harness::with(Config { max_pending: 2, ..Config::new(1, 0) });
    h.sync(1);
    h.connect();
    h.sent();
    h.sync(2);
    assert_eq!(h.session.submit(&SYNC, 3), Err(Error::QueueFull { limit: 2 }));
    h.reply(1, 1, ErrorCode::OK);
    h.sync(4);
    h.answer_all();
    assert_eq!(h.answers(), [(1, None), (2, None), (4, None)]);
}

/// A server that checks permissions when it receives a request answers with no zxid.
#[test]
fn a_refusal_before_execution_may_overtake_other_replies_and_a_later_one_may_not() {
    for err in [ErrorCode::NO_AUTH, ErrorCode::INVALID_ACL] {
        let mut h = Harness::connected();
        h.sync(1);
        h.submit(&create("/a"), 2);
        h.submit(&create("/b"), 3);
        h.sent();
        h.reply(2, 0, err);
        assert_eq!(h.answers(), [(2, Some(Error::Server(err)))]);
        h.reply(3, 9, err);
        let cause = Cause::UnexpectedReply { expected: Some(Xid(1)), received: Xid(3) };
        assert_eq!(h.cause(), Some(cause));
    }
}
