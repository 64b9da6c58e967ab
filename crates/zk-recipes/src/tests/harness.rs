//! A harness that drives one machine by hand.

use super::noise::check_ignores_noise;
use super::*;

pub(crate) struct Asked {
    pub(crate) op: OpId,
    pub(crate) line: String,
    pub(crate) answered: bool,
}

/// How to write requests and events as text.
#[derive(Clone, Copy)]
pub(crate) struct OutputFormat {
    pub(crate) line: fn(&str, &Operation) -> String,
    pub(crate) event: fn(&Event) -> String,
}

pub(crate) struct Harness<M = Contender> {
    pub(crate) machine: Driven<M>,
    lock_path: Arc<str>,
    format: OutputFormat,
    pub(crate) asked: Vec<Asked>,
    /// Outputs that no test has checked yet.
    lines: Vec<String>,
    /// Whether more inputs arrive whenever the machine asks to settle.
    pub(crate) has_more: bool,
}

impl<M: Machine + Clone> Harness<M> {
    /// Creates the machine and takes its first outputs.
    pub(crate) fn driving(config: AttemptConfig, make: impl FnOnce(AttemptConfig) -> M) -> Self {
        let lock_path = config.lock_path.clone();
        let format = OutputFormat { line, event: event_line };
        Self::with_format(format, lock_path, make(config))
    }

    pub(crate) fn with_format(format: OutputFormat, lock_path: Arc<str>, machine: M) -> Self {
        let (machine, asked, lines) = (Driven::new(machine), Vec::new(), Vec::new());
        let mut h = Self { machine, lock_path, format, asked, lines, has_more: false };
        h.take_outputs();
        h
    }

    // ---- Inputs --------------------------------------------------------------------------------

    pub(crate) fn feed(&mut self, given: impl Into<Given>) {
        self.machine.handle(given);
        self.take_outputs();
    }

    /// Answers the oldest request of this line without a reply.
    #[track_caller]
    pub(crate) fn answer(&mut self, line: &str, result: Result<Reply, Error>) {
        let asked = self.asked.iter_mut().find(|asked| !asked.answered && asked.line == line);
        let asked = asked.unwrap_or_else(|| panic!("{line} was not asked"));
        asked.answered = true;
        let op = asked.op;
        self.feed(Input::Reply { tag: op.tag(), result });
    }

    /// Returns the oldest request of this line without a reply.
    #[track_caller]
    pub(crate) fn op(&self, line: &str) -> OpId {
        let asked = self.asked.iter().find(|asked| !asked.answered && asked.line == line);
        asked.unwrap_or_else(|| panic!("{line} was not asked")).op
    }

    /// Answers with pieces of this many bytes each.
    #[track_caller]
    pub(crate) fn answer_in_pieces(&mut self, line: &str, whole: &Reply, length: usize) {
        let op = self.op(line);
        let mut body = whole.body.clone();
        while body.len() > length {
            self.feed(Input::Reply {
                tag: op.tag(),
                result: Ok(piece(whole, body.split_to(length), true)),
            });
            self.expect(&[]);
        }
        self.answer(line, Ok(piece(whole, body, false)));
    }

    #[track_caller]
    pub(crate) fn created(&mut self, number: i32) {
        self.created_as("create", &format!("own-{number}"), czxid(number));
    }

    #[track_caller]
    pub(crate) fn created_as(&mut self, line: &str, label: &str, czxid: Zxid) {
        let path = format!("{}/{}", self.lock_path.trim_end_matches('/'), name(label));
        let stat = Stat { czxid, ephemeral_owner: SESSION, ..Stat::default() };
        self.answer(line, reply(OpCode::CREATE2, &Create2Response { path: &path, stat }));
    }

    /// Gives the reply to a renewed watch.
    #[track_caller]
    pub(crate) fn renewed(&mut self, line: &str, result: Result<Reply, Error>) {
        let asked = self.asked.iter().rfind(|asked| asked.line == line && asked.answered);
        let op = asked.unwrap_or_else(|| panic!("{line} was not answered")).op;
        self.feed(Input::Reply { tag: op.tag(), result });
    }

    /// Fires the newest watch of this line.
    #[track_caller]
    pub(crate) fn fire(&mut self, line: &str, event_type: EventType) {
        let asked = self.asked.iter().rfind(|asked| asked.line == line);
        let op = asked.unwrap_or_else(|| panic!("{line} was not asked")).op;
        self.feed(fired(op, event_type));
    }

    #[track_caller]
    pub(crate) fn deleted(&mut self, line: &str) {
        self.fire(line, EventType::NODE_DELETED);
    }

    /// Breaks the connection. All requests in flight fail, in order.
    pub(crate) fn disconnect(&mut self) {
        for place in 0..self.asked.len() {
            if !core::mem::replace(&mut self.asked[place].answered, true) {
                let op = self.asked[place].op;
                self.feed(Input::Reply { tag: op.tag(), result: lost() });
            }
        }
        self.feed(Input::State(State::Suspended));
    }

    pub(crate) fn reconnect(&mut self) {
        self.feed(Input::State(CONNECTED));
    }

    pub(crate) fn expire(&mut self) {
        self.feed(Input::State(State::Ended(End::Expired)));
    }

    // ---- Outputs -------------------------------------------------------------------------------

    pub(crate) fn take_outputs(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            let line = match output {
                Output::Submit { op, operation } => {
                    let line = (self.format.line)(&self.lock_path, &operation);
                    assert!(self.asked.iter().all(|asked| asked.op != op), "{op:?} is not new");
                    self.asked.push(Asked { op, line: line.clone(), answered: false });
                    line
                }
                Output::Unwatch(op) => {
                    let asked = self.asked.iter().find(|asked| asked.op == op);
                    format!("un{}", asked.expect("a watch that was asked for").line)
                }
                Output::SetTimer(_) => "timer".to_string(),
                Output::Settle => {
                    if !self.has_more {
                        self.machine.handle(Input::Settled);
                    }
                    continue;
                }
                Output::Event(event) => (self.format.event)(&event),
            };
            self.lines.push(line);
        }
        check_ignores_noise(&self.machine);
    }

    pub(crate) fn wanted(&mut self) -> Vec<String> {
        core::mem::take(&mut self.lines)
    }

    #[track_caller]
    pub(crate) fn expect(&mut self, lines: &[&str]) {
        assert_eq!(self.wanted(), lines);
    }

    /// Like `expect`, and checks that no request is unanswered.
    #[track_caller]
    pub(crate) fn expect_last(&mut self, lines: &[&str]) {
        self.expect(lines);
        assert!(self.machine.is_done(), "there is more to come");
        self.expect_silence();
    }

    /// Checks that no further input changes anything.
    #[track_caller]
    pub(crate) fn expect_silence(&mut self) {
        for place in 0..self.asked.len() {
            let op = self.asked[place].op;
            self.feed(Input::Reply { tag: op.tag(), result: children(&["own-7"]) });
            self.feed(Input::Reply { tag: op.tag(), result: lost() });
            self.feed(fired(op, EventType::NODE_DELETED));
        }
        for state in [State::Suspended, CONNECTED, State::Ended(End::Expired)] {
            self.feed(Input::State(state));
        }
        self.feed(Input::Timer);
        self.feed(Command::Release);
        self.expect(&[]);
    }
}

pub(crate) fn line(lock_path: &str, operation: &Operation) -> String {
    operation.with_request(|request| request_line(lock_path, operation, request))
}

pub(crate) fn request_line(
    lock_path: &str,
    operation: &Operation,
    request: &Request<'_>,
) -> String {
    let with_lock_path = |path: &str| {
        let parent = zk_session::proto::path::parent(path);
        assert_eq!(parent, Some(lock_path), "{path}");
        label(path)
    };
    match request {
        Request::Create2(create) => {
            assert_eq!(create.mode, CreateMode::EPHEMERAL_SEQUENTIAL);
            assert_eq!(create.data, Some(&b"who"[..]));
            with_lock_path(create.path);
            labels::creation(create.path)
        }
        Request::Multi(multi) => {
            let operations: Vec<_> = multi.iter().collect();
            let checked = |checks: &[MultiOp<'_>]| {
                let checked = checks.iter().map(|check| match check {
                    MultiOp::Check(check) if check.version == -1 => with_lock_path(check.path),
                    other => panic!("{other:?}"),
                });
                checked.collect::<Vec<_>>().join(", ")
            };
            match &operations[..] {
                [MultiOp::Create(create), MultiOp::Delete(delete)] => {
                    assert_eq!(create.mode, CreateMode::EPHEMERAL);
                    assert_eq!(create.data, Some(&b"who"[..]));
                    assert_eq!(delete.version, -1);
                    let (old, new) = (with_lock_path(delete.path), with_lock_path(create.path));
                    format!("replace {old} by {new}")
                }
                [checks @ .., MultiOp::Create(create)] => {
                    assert_eq!(create.mode, CreateMode::PERSISTENT);
                    let ready = with_lock_path(create.path);
                    format!("create {ready} beside {}", checked(checks))
                }
                [checks @ .., MultiOp::SetData(set)] => {
                    assert_eq!((set.data, set.version), (Some(&b""[..]), -1));
                    format!("touch {} beside {}", with_lock_path(set.path), checked(checks))
                }
                [checks @ .., MultiOp::Delete(delete)] => {
                    let (path, version) = (with_lock_path(delete.path), delete.version);
                    format!("delete {path} of version {version} beside {}", checked(checks))
                }
                other => panic!("{other:?}"),
            }
        }
        Request::GetData(get) => {
            assert!(get.watch && operation.watches());
            format!("watch data {}", with_lock_path(get.path))
        }
        Request::CreateContainer(create) => {
            assert_eq!(create.mode, CreateMode::CONTAINER);
            format!("container {}", create.path)
        }
        Request::Exists(exists) if exists.watch => {
            assert!(operation.watches());
            format!("watch presence {}", with_lock_path(exists.path))
        }
        Request::Create(create) => {
            assert_eq!(create.mode, CreateMode::PERSISTENT);
            format!("parent {}", create.path)
        }
        Request::Delete(delete) => {
            assert_eq!(delete.version, -1);
            format!("delete {}", with_lock_path(delete.path))
        }
        Request::Exists(exists) => {
            assert!(!exists.watch);
            format!("stat {}", with_lock_path(exists.path))
        }
        Request::GetEphemerals(own) => {
            let prefix = own.prefix_path.expect("a prefix");
            with_lock_path(prefix);
            labels::creation(prefix).replace("create", "list own")
        }
        Request::Sync(sync) => {
            assert_eq!(sync.path, lock_path);
            "sync".to_string()
        }
        Request::GetChildren(list) if list.watch && list.path == lock_path => {
            "watch list".to_string()
        }
        Request::GetChildren(list) if list.watch => {
            assert!(operation.watches());
            format!("watch {}", with_lock_path(list.path))
        }
        Request::GetChildren(list) => {
            assert_eq!(list.path, lock_path);
            "list".to_string()
        }
        request => panic!("{request:?}"),
    }
}

pub(crate) fn piece(whole: &Reply, body: Bytes, has_more: bool) -> Reply {
    let mut reply = Reply::new(whole.opcode, whole.zxid, body);
    reply.has_more = has_more;
    reply
}
