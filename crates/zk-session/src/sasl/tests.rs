use alloc::string::ToString;

use bytes::Bytes;
use zk_proto::{ConnectResponse, Encode, ErrorCode, OpCode, ReplyHeader, SessionId, Xid, Zxid};

use super::*;
use crate::End;
use crate::session::{Config, Event, Session, State};

/// Answers each challenge by itself, and is content with `!`.
#[derive(Debug)]
struct Echo;

impl Mechanism for Echo {
    fn name(&self) -> &'static str {
        "ECHO"
    }

    fn begin(&self, server: &ServerAddress) -> Result<BegunExchange, SaslError> {
        match &*server.host {
            "unknown" => Err(SaslError::Mechanism("no ticket".to_string())),
            host => Ok((Box::new(Self), host.as_bytes().to_vec())),
        }
    }
}

impl Exchange for Echo {
    fn respond(&mut self, challenge: Option<&[u8]>) -> Result<Option<Vec<u8>>, SaslError> {
        match challenge {
            None => Err(SaslError::Unsupported),
            Some(b"!") => Ok(None),
            Some(challenge) => Ok(Some(challenge.to_vec())),
        }
    }
}

struct World {
    session: SharedSession<u32>,
    authenticator: Authenticator,
    /// The request that was sent last.
    xid: Xid,
}

impl World {
    /// A session whose exchange on its first connection begins with `host`.
    fn begin(host: &str) -> (Self, Result<(), SaslError>) {
        let config = Config { authenticate: true, ..Config::new(1, 0) };
        let session = SharedSession(Session::new(Instant::START, config));
        let mut world =
            Self { session, authenticator: Authenticator::new(Arc::new(Echo)), xid: Xid(0) };
        let begun = world.connect(host);
        (world, begun)
    }

    fn connect(&mut self, host: &str) -> Result<(), SaslError> {
        let Self { session, authenticator, .. } = self;
        while session.poll_action().is_some() {}
        session.handle_connected(Instant::START);
        let length = session.output().len();
        session.handle_sent(Instant::START, length);
        let welcome = ConnectResponse {
            protocol_version: 0,
            timeout: 10_000,
            session_id: SessionId(7),
            password: Some(&[1; 16]),
            read_only: Some(false),
        };
        session.handle_frame(Instant::START, encoded(&welcome));
        assert_eq!(session.0.poll_event(), Some(Event::Authenticate { server: 0 }));
        let server = ServerAddress { host: host.to_string(), port: 2181 };
        authenticator.begin(session, &server)
    }

    /// Loses the connection, as if for this cause, and makes the next one.
    fn reconnect(&mut self, cause: Cause) -> Result<(), SaslError> {
        self.session.handle_disconnected(Instant::START);
        assert!(matches!(self.session.0.poll_event(), Some(Event::Disconnected { .. })));
        self.authenticator.handle_disconnected(cause);
        let retry = self.session.0.poll_timeout().expect("a retry is due");
        self.session.0.handle_timeout(retry);
        self.connect("zk1")
    }

    /// Returns the token that was sent last.
    fn sent(&mut self) -> Vec<u8> {
        let frame = self.session.output().to_vec();
        self.session.handle_sent(Instant::START, frame.len());
        let xid = frame[4..8].try_into().expect("four bytes");
        self.xid = Xid(i32::from_be_bytes(xid));
        // Behind the length of the frame, xid, opcode, and the length of the token.
        frame[16..].to_vec()
    }

    fn reply(&mut self, err: ErrorCode, token: Option<&[u8]>) -> Result<(), SaslError> {
        let header = ReplyHeader { xid: self.xid, zxid: Zxid(0), err };
        self.session.handle_frame(Instant::START, encoded(&(header, SetSaslResponse { token })));
        let Some(Event::AuthenticationReply { server: 0, result }) = self.session.0.poll_event()
        else {
            panic!("no reply");
        };
        self.authenticator.handle_reply(&mut self.session, Instant::START, result)
    }
}

fn encoded(record: &impl Encode) -> Bytes {
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    bytes.into()
}

#[test]
fn tokens_go_back_and_forth_until_the_mechanism_is_content() {
    let (mut world, begun) = World::begin("zk1");
    assert_eq!(begun, Ok(()));
    assert_eq!(world.sent(), b"zk1");
    assert_eq!(world.reply(ErrorCode::OK, Some(b"more")), Ok(()));
    assert_eq!(world.sent(), b"more");
    assert_eq!(world.session.state(), State::Connecting);
    assert_eq!(world.reply(ErrorCode::OK, Some(b"!")), Ok(()));
    assert!(matches!(world.session.state(), State::Connected { .. }));
}

#[test]
fn every_failure_ends_the_session() {
    let failed = State::Ended(End::AuthFailed);
    let (world, begun) = World::begin("unknown");
    assert_eq!(begun, Err(SaslError::Mechanism("no ticket".to_string())));
    assert_eq!(world.session.state(), failed);
    for (code, token, error) in [
        (ErrorCode::AUTH_FAILED, None, SaslError::Refused),
        (ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH, None, SaslError::Refused),
        (ErrorCode::OK, None, SaslError::Unsupported),
    ] {
        let (mut world, _) = World::begin("zk1");
        world.sent();
        assert_eq!(world.reply(code, token), Err(error));
        assert_eq!(world.session.state(), failed, "{code:?}");
    }
}

#[test]
fn three_connections_closed_in_a_row_instead_of_a_reply_are_a_refusal() {
    let (mut world, begun) = World::begin("zk1");
    assert_eq!(begun, Ok(()));
    for _ in 0..9 {
        world.sent();
        assert_eq!(world.reconnect(Cause::Transport), Ok(()), "no proof was sent");
    }
    let prove = |world: &mut World| {
        world.sent();
        assert_eq!(world.reply(ErrorCode::OK, Some(b"more")), Ok(()));
        assert_eq!(world.sent(), b"more");
    };
    // The third server is only slow, so the count begins again.
    for cause in [Cause::Transport, Cause::Transport, Cause::ConnectTimeout] {
        prove(&mut world);
        assert_eq!(world.reconnect(cause), Ok(()));
    }
    for _ in 0..2 {
        prove(&mut world);
        assert_eq!(world.reconnect(Cause::Transport), Ok(()));
    }
    prove(&mut world);
    assert_eq!(world.reconnect(Cause::Transport), Err(SaslError::Unanswered));
    assert_eq!(world.session.state(), State::Ended(End::AuthFailed));
}

#[test]
fn a_reply_that_is_no_token_ends_the_session() {
    let (mut world, _) = World::begin("zk1");
    world.sent();
    let reply = Reply::new(OpCode::SASL, Zxid(0), Bytes::from_static(b"\0\0"));
    let failed = world.authenticator.handle_reply(&mut world.session, Instant::START, Ok(reply));
    assert!(matches!(failed, Err(SaslError::Session(Error::Reply { .. }))), "{failed:?}");
    assert_eq!(world.session.state(), State::Ended(End::AuthFailed));
}

#[test]
fn errors_say_what_failed() {
    for (error, text) in [
        (SaslError::Refused, "the server refused the credentials"),
        (SaslError::Unsupported, "the server is not set up for SASL"),
        (
            SaslError::Unanswered,
            "the servers close the connection instead of answering: they refuse the credentials",
        ),
        (
            SaslError::Challenge("it has no nonce"),
            "the server's challenge is unusable: it has no nonce",
        ),
        (SaslError::ServerUnproven, "the server did not prove that it knows the secret"),
        (SaslError::Mechanism("no ticket".to_string()), "no ticket"),
        (
            SaslError::Session(Error::QueueFull { limit: 1 }),
            "1 requests wait for a reply, which is the limit (max_pending)",
        ),
    ] {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn a_token_that_is_too_long_to_be_sent_is_an_error() {
    let (_, begun) = World::begin(&"x".repeat(2 << 20));
    assert!(matches!(begun, Err(SaslError::Session(Error::Invalid(_)))), "{begun:?}");
}

#[test]
fn a_refusal_for_another_reason_is_an_error_of_the_session() {
    let (mut world, begun) = World::begin("zk1");
    assert_eq!(begun, Ok(()));
    world.sent();
    let failed = world.reply(ErrorCode::SYSTEM_ERROR, None);
    assert_eq!(failed, Err(SaslError::Session(Error::Server(ErrorCode::SYSTEM_ERROR))));
}
