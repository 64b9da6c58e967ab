//! Asks a server what clients rely on.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zk_proto::explain::MessageKind;
use zk_proto::{
    ConnectRequest, ConnectResponse, Decode as _, EventType, OpCode, Reader, ReplyHeader,
    RequestHeader, SessionId, WatcherEvent, Xid, Zxid, frame,
};

use super::body::{body, hex};
use super::pattern::{fields, has_fields, integer, matches, number};
use super::player::{Played, Stop, fail, framed};
use super::scene::{Scene, Step};
use super::{Judgement, Outcome, Report};

/// Plays scenes against the server at an address, one after another, each in a node of its own.
pub fn run_server(scenes: &[Scene], address: &str, limit: Duration) -> Report {
    let mut version = None;
    let outcomes = scenes.iter().enumerate().map(|(index, scene)| {
        let root = format!("/conform-{}-{index}", process::id());
        let mut asker = Asker {
            address,
            limit,
            root,
            lines: [None, None],
            session: (SessionId::NONE, [0; 16]),
            transcript: Vec::new(),
        };
        version = version.take().or_else(|| asker.version());
        let judgement = match asker.play(scene) {
            Ok(()) => Judgement::Passed,
            Err(Stop::Unsupported) => Judgement::Unsupported,
            Err(Stop::Failed(why)) => Judgement::Failed(why),
        };
        asker.clean();
        Outcome { scene: scene.clone(), judgement, transcript: asker.transcript }
    });
    let outcomes = outcomes.collect();
    let client = format!("server {}", version.as_deref().unwrap_or("of an unknown version"));
    Report { client, outcomes }
}

/// A connection to the server.
struct Line {
    stream: TcpStream,
    inbox: BytesMut,
    xid: i32,
    pending: VecDeque<(i32, OpCode)>,
}

struct Asker<'a> {
    address: &'a str,
    limit: Duration,
    /// The node of the scene, `$root` there.
    root: String,
    lines: [Option<Line>; 2],
    /// The session that was granted last.
    session: (SessionId, [u8; 16]),
    transcript: Vec<String>,
}

impl Asker<'_> {
    fn play(&mut self, scene: &Scene) -> Played {
        for step in &scene.steps {
            self.transcript.push(format!("-- {step}"));
            let words: Vec<_> =
                step.words.iter().map(|word| word.replace("$root", &self.root)).collect();
            self.step(step, &words).map_err(|stop| match stop {
                Stop::Failed(why) => {
                    Stop::Failed(format!("line {} of server.txt, `{step}`: {why}", step.line))
                }
                unsupported => unsupported,
            })?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step, words: &[String]) -> Played {
        let line = step.client;
        match step.verb.as_str() {
            "connect" => self.connect(line, words),
            "granted" => self.granted(line, words),
            "session" => {
                self.connect(line, words)?;
                self.granted(line, &[])
            }
            "send" => self.send(line, words),
            "reply" => self.reply(line, words),
            // Prepares what the scene is about.
            "create" => {
                let [path, flags @ ..] = words else { return fail("no path") };
                let flags = flags.first().map_or("0", String::as_str);
                let request = ["CREATE", &format!("text:{path}"), "text:x", "open"];
                let mut request: Vec<_> = request.map(String::from).into();
                request.push(format!("int:{flags}"));
                self.send(line, &request)?;
                self.reply(line, &["err=OK".into()])
            }
            "event" => self.event(line, words),
            "closed" => match self.receive(line)? {
                None => Ok(()),
                Some(frame) => fail(format!("a frame of {} bytes", frame.len())),
            },
            "end" => {
                self.lines[line] = None;
                Ok(())
            }
            "raw" => {
                let bytes = hex(&words.concat()).map_err(Stop::Failed)?;
                Ok(self.line(line)?.stream.write_all(&bytes)?)
            }
            "word" => {
                let [word, pattern @ ..] = words else { return fail("no word") };
                let answer = self.word(word)?;
                if answer.contains("not executed because it is not in the whitelist") {
                    return Err(Stop::Unsupported);
                }
                match matches(&pattern.join(" "), &answer) {
                    true => Ok(()),
                    false => fail(format!("the answer is {answer:?}")),
                }
            }
            _ => fail("no such step"),
        }
    }

    fn open(&self) -> Played<TcpStream> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.limit))?;
        Ok(stream)
    }

    fn line(&mut self, line: usize) -> Played<&mut Line> {
        self.lines[line].as_mut().map_or_else(|| fail("no connection"), Ok)
    }

    fn connect(&mut self, line: usize, words: &[String]) -> Played {
        let is = |flag: &str| words.iter().any(|word| word == flag);
        let (mut session_id, mut password) = (SessionId::NONE, [0; 16]);
        if is("again") || is("wrong-password") {
            (session_id, password) = self.session;
        }
        if is("wrong-password") {
            password = [1; 16];
        }
        if is("unknown-session") {
            session_id = SessionId(0x77_0077);
        }
        let zxid = words.iter().find_map(|word| word.strip_prefix("zxid="));
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(zxid.map_or(Ok(0), integer)?),
            timeout: number(words, "timeout", 30_000)?,
            session_id,
            password: Some(&password),
            read_only: (!is("no-flag")).then_some(is("read-only")),
        };
        let mut stream = self.open()?;
        let mut bytes = Vec::new();
        frame::encode(&request, &mut bytes).or_else(|error| fail(error.to_string()))?;
        stream.write_all(&bytes)?;
        let line = &mut self.lines[line];
        *line = Some(Line { stream, inbox: BytesMut::new(), xid: 0, pending: VecDeque::new() });
        Ok(())
    }

    fn granted(&mut self, line: usize, words: &[String]) -> Played {
        let Some(frame) = self.receive(line)? else { return fail("the connection is closed") };
        let text = fields(&frame, MessageKind::ConnectResponse).map_err(Stop::Failed)?;
        self.transcript.push(text.clone());
        let before = self.session.0;
        if let Ok(answer) = ConnectResponse::decode_all(&frame)
            && let Some(Ok(password)) = answer.password.map(TryInto::try_into)
        {
            self.session = (answer.session_id, password);
        }
        let (again, words): (Vec<_>, Vec<_>) =
            words.iter().cloned().partition(|word| word == "again");
        if !has_fields(&words, &text) || !again.is_empty() && self.session.0 != before {
            return fail(format!("the answer is {text}"));
        }
        Ok(())
    }

    fn send(&mut self, line: usize, words: &[String]) -> Played {
        let Some((name, words)) = words.split_first() else { return fail("no operation") };
        let opcode = (-11..=1_000).map(OpCode).find(|it| it.to_string() == *name);
        let opcode = opcode.map_or_else(|| integer(name).map(|it| OpCode(it as i32)), Ok)?;
        let line = self.line(line)?;
        line.xid += 1;
        let mut xid = match opcode {
            OpCode::PING => Xid::PING.0,
            OpCode::AUTH => Xid::AUTH.0,
            _ => line.xid,
        };
        let mut parts = Vec::new();
        for word in words {
            match word.strip_prefix("xid=") {
                Some(number) => xid = integer(number)? as i32,
                None => parts.push(word.clone()),
            }
        }
        let mut payload = Vec::new();
        zk_proto::Encode::encode(&RequestHeader { xid: Xid(xid), opcode }, &mut payload);
        payload.extend(body(opcode, &parts).map_err(Stop::Failed)?);
        line.pending.push_back((xid, opcode));
        // The server may have closed the connection, which later steps judge.
        let _ = line.stream.write_all(&framed(&payload));
        Ok(())
    }

    fn reply(&mut self, line: usize, words: &[String]) -> Played {
        let Some(frame) = self.receive(line)? else { return fail("the connection is closed") };
        let header = ReplyHeader::decode(&mut Reader::new(&frame));
        let header = header.or_else(|error| fail(error.to_string()))?;
        if header.xid == Xid::NOTIFICATION {
            return fail("an event comes first");
        }
        let Some((_, opcode)) = self.line(line)?.pending.pop_front() else {
            return fail("a reply to no request");
        };
        let text = fields(&frame, MessageKind::Reply(opcode)).map_err(Stop::Failed)?;
        self.transcript.push(text.clone());
        match has_fields(words, &text) {
            true => Ok(()),
            false => fail(format!("the reply is {text}")),
        }
    }

    fn event(&mut self, line: usize, words: &[String]) -> Played {
        let Some(frame) = self.receive(line)? else { return fail("the connection is closed") };
        let mut reader = Reader::new(&frame);
        let header = ReplyHeader::decode(&mut reader);
        let event = WatcherEvent::decode(&mut reader);
        let (Ok(header), Ok(event)) = (header, event) else { return fail("no event") };
        let kind = match event.event_type {
            EventType::NODE_CREATED => "created",
            EventType::NODE_DELETED => "deleted",
            EventType::NODE_DATA_CHANGED => "changed",
            EventType::NODE_CHILDREN_CHANGED => "children",
            _ => "unknown",
        };
        let text = format!("{kind} {}", event.path);
        match header.xid == Xid::NOTIFICATION && words.join(" ") == text {
            true => Ok(()),
            false => fail(format!("the event is `{text}`, with the xid {}", header.xid)),
        }
    }

    /// Returns the next frame, or `None` if the server has closed the connection.
    fn receive(&mut self, line: usize) -> Played<Option<Bytes>> {
        let line = self.line(line)?;
        loop {
            let split = frame::split_bytes(&mut line.inbox, usize::MAX);
            if let Some(frame) = split.or_else(|error| fail(error.to_string()))? {
                return Ok(Some(frame));
            }
            let mut chunk = [0; 4096];
            match line.stream.read(&mut chunk) {
                Ok(0) => return Ok(None),
                Ok(count) => line.inbox.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                    return Ok(None);
                }
                Err(_) => return fail("nothing comes"),
            }
        }
    }

    fn word(&self, word: &str) -> Played<String> {
        let mut stream = self.open()?;
        stream.write_all(word.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    fn version(&self) -> Option<String> {
        let answer = self.word("srvr").ok()?;
        let version = answer.strip_prefix("Zookeeper version: ")?;
        Some(version.split(['-', ',']).next()?.to_owned())
    }

    /// Deletes the nodes of the scene, as far as it can.
    fn clean(&mut self) {
        let root = self.root.clone();
        self.lines = [None, None];
        let paths = [format!("{root}/a"), format!("{root}/b"), root];
        if self.connect(0, &[]).is_ok() && self.granted(0, &[]).is_ok() {
            for path in paths {
                let request = ["DELETE".into(), format!("text:{path}"), "int:-1".into()];
                let _ = self.send(0, &request).and_then(|()| self.reply(0, &[]));
            }
            let _ = self.send(0, &["CLOSE_SESSION".into()]);
            let _ = self.receive(0);
        }
        self.lines = [None, None];
    }
}
