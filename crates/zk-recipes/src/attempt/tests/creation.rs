//! `Creation` alone: every reply at every step.

use super::super::creation::{Creation, Nodes, Owner, Progress};
use crate::tests::*;

const OTHER_SESSION: SessionId = SessionId(0x52);

/// Drives a creation by hand, and compares what it does as lines of text.
struct Rig {
    creation: Creation,
    config: AttemptConfig,
    outputs: Driven<()>,
    /// Requests without a reply.
    asked: Vec<(OpId, String)>,
    /// Nodes that are being deleted.
    leaving: Vec<String>,
}

impl Rig {
    fn new(make: impl FnOnce(&AttemptConfig, &mut Turn<'_>) -> Creation) -> Self {
        let (config, mut outputs) = (config(), Driven::idle(()));
        let creation = outputs.act(|(), turn| make(&config, turn));
        Self { creation, config, outputs, asked: Vec::new(), leaving: Vec::new() }
    }

    // ---- Places on the way ---------------------------------------------------------------------

    fn creating() -> Self {
        let mut rig =
            Self::new(|config, outputs| Creation::start(config.mode, None, config, outputs));
        assert_eq!(rig.lines(), ["create"]);
        rig
    }

    fn creating_two() -> Self {
        let mut rig = Self::new(|config, outputs| {
            Creation::start(config.mode, Some((2, Full::On)), config, outputs)
        });
        assert_eq!(rig.lines(), ["create 2"]);
        rig
    }

    fn making_parents(mut self) -> Self {
        let containers = ["container /locks", "container /locks/printer"];
        self.answers(refused(ErrorCode::NO_NODE), &containers);
        self
    }

    fn unresolved(mut self) -> Self {
        self.answers(refused(ErrorCode::THROTTLED_OP), &["timer"]);
        self
    }

    fn resolving(mut self) -> Self {
        self.answers(lost(), &["sync", "list"]);
        self
    }

    fn synced(self) -> Self {
        let mut rig = self.resolving();
        rig.answers(ok(), &[]);
        rig
    }

    fn listing_own(self) -> Self {
        let mut rig = self.synced();
        rig.answers(too_long(), &["list own"]);
        rig
    }

    fn adopting(self) -> Self {
        let mut rig = self.synced();
        rig.answers(children(&["own-7", "a-5"]), &["stat own-7"]);
        rig
    }

    fn cancelled(mut self) -> Self {
        self.creation.cancel();
        self
    }

    fn expecting(mut self, session: SessionId) -> Self {
        self.config.session = session;
        self
    }

    // ---- What happens --------------------------------------------------------------------------

    /// Answers the oldest request, and compares the strays, the progress and the outputs.
    #[track_caller]
    fn answers(&mut self, result: Result<Reply, Error>, expected: &[&str]) {
        let (op, _) = self.asked.remove(0);
        self.hears(op, result, expected);
    }

    /// As `answers`, but for the newest request.
    #[track_caller]
    fn answers_last(&mut self, result: Result<Reply, Error>, expected: &[&str]) {
        let (op, _) = self.asked.pop().expect("a request");
        self.hears(op, result, expected);
    }

    #[track_caller]
    fn hears(&mut self, op: OpId, result: Result<Reply, Error>, expected: &[&str]) {
        let Self { creation, config, outputs, leaving, .. } = self;
        let is_leaving = |child: &str| leaving.iter().any(|it| name(it) == child);
        let owner = Owner { config, is_leaving: &is_leaving };
        let progress = outputs.act(|(), turn| creation.handle_reply(op, result, owner, turn));
        let progress = match progress {
            Progress::Pending => None,
            Progress::Created(nodes) => Some(format!("created {}", text(&nodes))),
            Progress::Found(nodes) => Some(format!("found {}", text(&nodes))),
            Progress::NotCreated => Some("not created".to_string()),
            Progress::Failed(LockError::Request(error)) => Some(match error {
                Error::Server(code) => format!("failed: {code:?}"),
                Error::ReplyTooLarge { .. } => "failed: too long".to_string(),
                error => format!("failed: {error:?}"),
            }),
            Progress::Failed(error) => Some(format!("failed: {error}")),
        };
        let strays = self.creation.take_strays();
        let strays = strays.iter().map(|stray| format!("stray {}", label(stray)));
        let mut lines: Vec<_> = strays.chain(progress).collect();
        lines.extend(self.lines());
        assert_eq!(lines, expected);
    }

    #[track_caller]
    fn timer(&mut self, expected: &[&str]) {
        self.outputs.act(|(), turn| self.creation.handle_timer(&self.config, turn));
        assert_eq!(self.lines(), expected);
    }

    #[track_caller]
    fn repeats(&mut self, expected: &[&str]) {
        self.outputs.act(|(), turn| self.creation.repeat(&self.config, turn));
        assert_eq!(self.lines(), expected);
    }

    /// Takes the outputs.
    fn lines(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(output) = self.outputs.poll_output() {
            lines.push(match output {
                Output::Submit { op, operation } => {
                    let line = operation.with_request(line);
                    self.asked.push((op, line.clone()));
                    line
                }
                Output::SetTimer(_) => "timer".to_string(),
                output => panic!("{output:?}"),
            });
        }
        lines
    }
}

fn line(request: &Request<'_>) -> String {
    match request {
        Request::Create2(create) => labels::creation(create.path),
        Request::Multi(multi) => format!("create {}", multi.iter().count()),
        Request::CreateContainer(create) => format!("container {}", create.path),
        Request::Sync(sync) if sync.path == "/locks/printer" => "sync".to_string(),
        Request::GetChildren(list) if list.path == "/locks/printer" => "list".to_string(),
        Request::GetEphemerals(own) => {
            assert_eq!(own.prefix_path, Some(&*format!("/locks/printer/{}", prefix(OWN))));
            "list own".to_string()
        }
        Request::Exists(exists) => format!("stat {}", label(exists.path)),
        request => panic!("{request:?}"),
    }
}

fn text(nodes: &Nodes) -> String {
    let all = [&nodes.first].into_iter().chain(&nodes.others);
    let all = all.map(|node| format!("{} token {}", label(node.path()), node.czxid.0));
    all.collect::<Vec<_>>().join(", ")
}

fn path(label: &str) -> String {
    format!("/locks/printer/{}", name(label))
}

fn created(label: &str) -> Result<Reply, Error> {
    let stat = Stat { czxid: czxid(7), ephemeral_owner: SESSION, ..Stat::default() };
    reply(OpCode::CREATE2, &Create2Response { path: &path(label), stat })
}

/// The reply to a transaction, which was number 107.
fn created_all(labels: &[&str]) -> Result<Reply, Error> {
    let paths: Vec<_> = labels.iter().map(|label| path(label)).collect();
    let result = |path: &'static str| MultiResult::Create(CreateResponse { path });
    let results: Vec<_> = paths.into_iter().map(|path| result(path.leak())).collect();
    let reply = reply(OpCode::MULTI, &Multi::new(&results))?;
    Ok(Reply::new(reply.opcode, czxid(7), reply.body))
}

fn own_nodes(labels: &[&str]) -> Result<Reply, Error> {
    let paths: Vec<_> = labels.iter().map(|label| path(label)).collect();
    let mut paths: Vec<_> = paths.iter().map(String::as_str).collect();
    // Of other locks, and of other contenders of the same session.
    paths.extend(["/locks/scanner/x", "/locks/printer/x", "/locks/printer", ""]);
    reply(OpCode::GET_EPHEMERALS, &GetEphemeralsResponse { ephemerals: paths[..].into() })
}

fn too_long() -> Result<Reply, Error> {
    let outcome = Outcome::NotApplied;
    Err(Error::ReplyTooLarge { length: 5_000, limit: 4_096, outcome })
}

/// Replies after which a request is repeated later.
fn for_now() -> [Result<Reply, Error>; 6] {
    [
        Err(QUEUE_FULL),
        Err(Error::NoConnection),
        Err(Error::DeadlinePassed { outcome: Outcome::Unknown }),
        refused(ErrorCode::THROTTLED_OP),
        refused(ErrorCode::SYSTEM_ERROR),
        refused(ErrorCode::SESSION_MOVED),
    ]
}

/// A reply that cannot be read. A `sync` has no body to misread.
fn garbage() -> Result<Reply, Error> {
    ok()
}

// ---- The reply to the create arrives -------------------------------------------------------------

#[test]
fn the_reply_names_the_nodes() {
    Rig::creating().answers(created("own-7"), &["created own-7 token 107"]);
    let two = "created own-7 token 107, own-8 token 107";
    Rig::creating_two().answers(created_all(&["own-7", "own-8"]), &[two]);
    // Too late to prevent it.
    Rig::creating().cancelled().answers(created("own-7"), &["created own-7 token 107"]);
}

#[test]
fn a_refusal_for_good_ends_it() {
    Rig::creating().answers(refused(ErrorCode::NO_AUTH), &["failed: ErrorCode(NO_AUTH)"]);
    Rig::creating()
        .cancelled()
        .answers(refused(ErrorCode::NO_AUTH), &["failed: ErrorCode(NO_AUTH)"]);
    let results = [MultiResult::<'_>::Error(ErrorResponse { err: ErrorCode::NO_AUTH })];
    let refused = reply(OpCode::MULTI, &Multi::new(&results));
    Rig::creating_two().answers(refused, &["failed: ErrorCode(NO_AUTH)"]);
}

#[test]
fn a_lost_reply_begins_a_search_at_once_and_any_other_doubt_one_in_a_while() {
    for make in [Rig::creating, Rig::creating_two] {
        make().answers(lost(), &["sync", "list"]);
        make().cancelled().answers(lost(), &["sync", "list"]);
        for result in for_now().into_iter().chain([garbage()]) {
            let mut rig = make();
            rig.answers(result, &["timer"]);
            rig.timer(&["sync", "list"]);
            rig.timer(&[]);
        }
    }
    for labels in [&["own-7"][..], &[], &["own-7", "own-8", "own-9"]] {
        Rig::creating_two().answers(created_all(labels), &["timer"]);
    }
}

#[test]
fn a_timer_means_something_only_while_nothing_is_under_way() {
    for make in [Rig::creating, Rig::creating_two] {
        let places: [fn(Rig) -> Rig; 6] = [
            |rig| rig,
            Rig::making_parents,
            Rig::resolving,
            Rig::synced,
            Rig::listing_own,
            Rig::adopting,
        ];
        for place in places {
            place(make()).timer(&[]);
        }
        make().unresolved().timer(&["sync", "list"]);
    }
}

// ---- The parent is missing -----------------------------------------------------------------------

#[test]
fn parents_are_made_and_the_create_is_up_to_the_owner_again() {
    let mut rig = Rig::creating().making_parents();
    rig.answers(ok(), &[]);
    rig.answers(refused(ErrorCode::NODE_EXISTS), &["not created"]);
    rig.repeats(&["create"]);
    rig.answers(created("own-7"), &["created own-7 token 107"]);
}

#[test]
fn parents_that_go_again_are_made_five_times() {
    let mut rig = Rig::creating();
    for _ in 0..5 {
        rig = rig.making_parents();
        rig.answers(ok(), &[]);
        rig.answers(ok(), &["not created"]);
        rig.repeats(&["create"]);
    }
    rig.answers(refused(ErrorCode::NO_NODE), &["failed: ErrorCode(NO_NODE)"]);
}

#[test]
fn parents_whose_outcome_is_unknown_are_made_again_unless_cancelled() {
    let mut rig = Rig::creating().making_parents();
    rig.answers(lost(), &[]);
    rig.answers(lost(), &["container /locks", "container /locks/printer"]);

    let mut rig = Rig::creating().making_parents().cancelled();
    rig.answers(lost(), &[]);
    rig.answers(lost(), &["not created"]);

    Rig::creating().cancelled().answers(refused(ErrorCode::NO_NODE), &["not created"]);
}

/// Attempts that are lost or refused for now do not count.
#[test]
fn parents_that_are_refused_for_now_are_made_later() {
    for refusal in for_now() {
        let mut rig = Rig::creating();
        for _ in 0..9 {
            rig = rig.making_parents();
            rig.answers(ok(), &[]);
            rig.answers(refusal.clone(), &["timer"]);
            rig.timer(&["sync", "list"]);
            rig.answers(ok(), &[]);
            rig.answers(refused(ErrorCode::NO_NODE), &["not created"]);
            rig.repeats(&["create"]);
        }
        rig = rig.making_parents().cancelled();
        rig.answers(ok(), &[]);
        rig.answers(refusal, &["not created"]);
    }
    let mut rig = Rig::creating().making_parents();
    for _ in 0..9 {
        rig.answers(lost(), &[]);
        rig.answers(lost(), &["container /locks", "container /locks/printer"]);
    }
    // Without the topmost one, the others have no parent.
    rig.answers(refused(ErrorCode::THROTTLED_OP), &[]);
    rig.answers(refused(ErrorCode::NO_NODE), &["timer"]);
}

#[test]
fn parents_that_are_refused_end_it() {
    let mut rig = Rig::creating().making_parents();
    rig.answers(refused(ErrorCode::NO_AUTH), &[]);
    rig.answers(refused(ErrorCode::NO_NODE), &["failed: ErrorCode(NO_AUTH)"]);
}

#[test]
fn parents_are_made_below_the_chroot_only() {
    let containers = |chroot_length, expected: &[&str]| {
        let mut rig = Rig::creating();
        rig.config.chroot_length = chroot_length;
        rig.answers(refused(ErrorCode::NO_NODE), expected);
        rig
    };
    containers(1, &["container /locks", "container /locks/printer"]);
    let mut rig = containers("/locks".len(), &["container /locks/printer"]);
    rig.answers(refused(ErrorCode::NO_NODE), &[NO_CHROOT]);
    containers(
        "/locks/printer".len(),
        &["failed: the chroot '/locks/printer' does not exist: \
        correct the connection string, or create this node"],
    );
    // A length that makes no sense does no harm.
    containers(usize::MAX, &["failed: ErrorCode(NO_NODE)"]);
}

const NO_CHROOT: &str = "failed: the chroot '/locks' does not exist: \
    correct the connection string, or create this node";

#[test]
fn a_chroot_is_missing_only_if_the_topmost_parent_cannot_be_made() {
    let making = || {
        let mut rig = Rig::creating();
        rig.config = AttemptConfig {
            lock_path: "/locks/printer/a/b".into(),
            chroot_length: "/locks".len(),
            ..rig.config
        };
        let containers = ["printer", "printer/a", "printer/a/b"];
        let containers = containers.map(|path| format!("container /locks/{path}"));
        rig.answers(refused(ErrorCode::NO_NODE), &containers.each_ref().map(String::as_str));
        (rig, containers)
    };
    let missing = || refused(ErrorCode::NO_NODE);
    let (mut rig, _) = making();
    rig.answers(missing(), &[]);
    rig.answers(missing(), &[]);
    rig.answers(missing(), &[NO_CHROOT]);
    // One of them was there, or may have been.
    let unknown = || refused(ErrorCode::SYSTEM_ERROR);
    for topmost in [ok(), refused(ErrorCode::NODE_EXISTS), unknown()] {
        let (mut rig, containers) = making();
        rig.answers(topmost, &[]);
        rig.answers(missing(), &[]);
        rig.answers(missing(), &containers.each_ref().map(String::as_str));
    }
    let (mut rig, _) = making();
    rig.answers(refused(ErrorCode::NO_AUTH), &[]);
    rig.answers(missing(), &[]);
    rig.answers(missing(), &["failed: ErrorCode(NO_AUTH)"]);
    // An owner that does not want the node any more does not care.
    let (mut rig, _) = making();
    rig.creation.cancel();
    rig.answers(missing(), &[]);
    rig.answers(missing(), &[]);
    rig.answers(missing(), &["not created"]);
}

// ---- The sync and the list -----------------------------------------------------------------------

#[test]
fn a_list_counts_only_behind_its_sync() {
    // The `sync` is lost, and the list is sent on the next connection.
    let mut rig = Rig::creating().resolving();
    rig.answers(lost(), &["sync", "list"]);
    rig.answers(children(&[]), &[]);
    rig.answers(ok(), &[]);
    rig.answers(children(&["own-7"]), &["stat own-7"]);

    for refusal in for_now() {
        let mut rig = Rig::creating().resolving();
        rig.answers(refusal.clone(), &["timer"]);
        rig.answers(children(&[]), &[]);
        rig.timer(&["sync", "list"]);

        // The list is refused before it is sent, so its reply comes first.
        let mut rig = Rig::creating().resolving();
        rig.answers_last(refusal, &["timer"]);
        rig.answers(ok(), &[]);
        rig.timer(&["sync", "list"]);
    }
    // A session that mixes replies up is not believed.
    Rig::creating().resolving().answers_last(children(&[]), &["sync", "list"]);
    let mut rig = Rig::creating().resolving();
    rig.answers_last(refused(ErrorCode::NO_NODE), &["failed: ErrorCode(NO_NODE)"]);
    Rig::creating()
        .resolving()
        .answers(refused(ErrorCode::NO_AUTH), &["failed: ErrorCode(NO_AUTH)"]);
}

#[test]
fn a_list_without_our_nodes_means_that_none_were_created() {
    for place in [Rig::synced(Rig::creating()), Rig::synced(Rig::creating_two())] {
        let mut rig = place;
        rig.answers(children(&["a-7", "b-8"]), &["not created"]);
    }
    Rig::creating().synced().answers(children(&[]), &["not created"]);
    Rig::creating().synced().answers(refused(ErrorCode::NO_NODE), &["not created"]);
    let mut rig = Rig::creating().synced();
    rig.leaving = alloc::vec!["own-7".to_string()];
    rig.answers(children(&["own-7"]), &["not created"]);
}

#[test]
fn of_too_many_nodes_the_lowest_are_adopted_and_the_others_are_strays() {
    let all = ["own-9", "a-5", "own-7", "own-8"];
    let strays = ["stray own-8", "stray own-9", "stat own-7"];
    Rig::creating().synced().answers(children(&all), &strays);
    Rig::creating_two().synced().answers(children(&all), &["stray own-9", "stat own-7"]);
    let mut rig = Rig::creating_two().synced();
    rig.leaving = alloc::vec!["own-7".to_string()];
    rig.answers(children(&all), &["stat own-8"]);
}

#[test]
fn all_that_a_search_finds_are_strays() {
    for all in [&[][..], &["own-7"], &["own-7", "own-8"]] {
        let strays = all.iter().map(|label| format!("stray {label}"));
        let lines: Vec<_> = strays.chain(["not created".to_string()]).collect();
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let mut rig = Rig::new(|config, outputs| Creation::search(config.mode, config, outputs));
        assert_eq!(rig.lines(), ["sync", "list"]);
        rig.answers(ok(), &[]);
        rig.answers(children(all), &lines);
    }
}

#[test]
fn a_cancelled_creation_adopts_its_nodes_so_that_its_owner_can_delete_them() {
    let mut rig = Rig::creating().synced().cancelled();
    rig.answers(children(&["own-7"]), &["stat own-7"]);
    rig.answers(stat(SESSION, 7), &["found own-7 token 107"]);
    Rig::creating().synced().cancelled().answers(children(&[]), &["not created"]);
}

#[test]
fn a_list_that_fails_is_repeated_behind_another_sync() {
    let mut rig = Rig::creating().synced();
    rig.answers(lost(), &["sync", "list"]);
    rig.answers(ok(), &[]);
    rig.answers(children(&["own-7"]), &["stat own-7"]);
    for result in for_now().into_iter().chain([garbage()]) {
        let mut rig = Rig::creating().synced();
        rig.answers(result, &["timer"]);
        rig.timer(&["sync", "list"]);
    }
    Rig::creating().synced().answers(refused(ErrorCode::NO_AUTH), &["list own"]);
}

// ---- The list of the session's own nodes ---------------------------------------------------------

#[test]
fn where_the_list_is_too_long_all_own_nodes_are_strays() {
    for make in [Rig::creating, Rig::creating_two] {
        make().listing_own().answers(own_nodes(&[]), &["failed: too long"]);
        let two = ["stray own-7", "stray own-8", "failed: too long"];
        make().listing_own().answers(own_nodes(&["own-8", "own-7"]), &two);
        make().listing_own().cancelled().answers(own_nodes(&["own-8", "own-7"]), &two);
        let mut rig = make().listing_own();
        rig.leaving = alloc::vec!["own-7".to_string()];
        rig.answers(own_nodes(&["own-7"]), &["failed: too long"]);
    }
}

#[test]
fn a_list_of_own_nodes_that_fails_is_repeated_from_the_sync_on() {
    Rig::creating().listing_own().answers(lost(), &["sync", "list"]);
    for result in for_now().into_iter().chain([garbage()]) {
        let mut rig = Rig::creating().listing_own();
        rig.answers(result, &["timer"]);
        rig.timer(&["sync", "list"]);
    }
    for result in [refused(ErrorCode::UNIMPLEMENTED), too_long()] {
        Rig::creating().listing_own().answers(result, &["failed: too long"]);
    }
}

// ---- The stat ------------------------------------------------------------------------------------

#[test]
fn nodes_of_our_session_are_adopted_with_their_czxid() {
    Rig::creating().adopting().answers(stat(SESSION, 7), &["found own-7 token 107"]);
    let mut rig = Rig::creating_two().synced();
    rig.answers(children(&["own-8", "own-7"]), &["stat own-7"]);
    rig.answers(stat(SESSION, 7), &["found own-7 token 107, own-8 token 107"]);
}

#[test]
fn nodes_of_another_session_are_strays() {
    let strays = ["stray own-7", "not created"];
    let mut rig = Rig::creating().adopting();
    rig.answers(stat(OTHER_SESSION, 7), &strays);
    rig.repeats(&["create"]);
    let mut rig = Rig::creating_two().synced();
    rig.answers(children(&["own-7", "own-8"]), &["stat own-7"]);
    rig.answers(stat(OTHER_SESSION, 7), &["stray own-7", "stray own-8", "not created"]);
    // The session that counts is the one of the reply, not the one of the create.
    let rig = || Rig::creating().adopting().expecting(OTHER_SESSION);
    rig().answers(stat(SESSION, 7), &strays);
    rig().answers(stat(OTHER_SESSION, 7), &["found own-7 token 107"]);
}

#[test]
fn nodes_that_are_not_all_there_are_strays() {
    let mut rig = Rig::creating_two().adopting();
    rig.answers(stat(SESSION, 7), &["stray own-7", "not created"]);
    Rig::creating().adopting().answers(refused(ErrorCode::NO_NODE), &["not created"]);
    let mut rig = Rig::creating_two().synced();
    rig.answers(children(&["own-7", "own-8"]), &["stat own-7"]);
    rig.answers(refused(ErrorCode::NO_NODE), &["stray own-8", "not created"]);
}

#[test]
fn a_stat_that_fails_is_repeated_from_the_sync_on() {
    Rig::creating().adopting().answers(lost(), &["sync", "list"]);
    for result in for_now().into_iter().chain([garbage()]) {
        let mut rig = Rig::creating().adopting();
        rig.answers(result, &["timer"]);
        rig.timer(&["sync", "list"]);
    }
    let strays = ["stray own-7", "failed: ErrorCode(NO_AUTH)"];
    Rig::creating().adopting().answers(refused(ErrorCode::NO_AUTH), &strays);
}

#[test]
fn replies_to_earlier_requests_change_nothing() {
    let mut rig = Rig::creating();
    let (create, _) = rig.asked[0];
    rig = rig.synced();
    for result in [created("own-7"), lost(), refused(ErrorCode::NO_AUTH)] {
        rig.hears(create, result, &[]);
    }
    assert!(!rig.creation.is_create(create));
    rig.answers(children(&["own-7"]), &["stat own-7"]);
}
