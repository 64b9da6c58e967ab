//! What contenders for a lock do in every world within bounds.

use super::super::world::{
    Act, Cause, Flaw, Index, Line, Milestones, Node, Outside, Play, STRANGER, Scene, Told, Tree,
    When, guid, session,
};
use super::*;

const LOCK_PATH: &str = "/lock";

/// What a contender is about.
#[derive(Clone, Copy)]
struct Role {
    mode: LockMode,
    wait_policy: WaitPolicy,
    /// What it may want to hold the lock with, once it holds it.
    wish: Option<LockMode>,
    /// With what it contends once more after it has released it, relying on its hint, if it does.
    returns: Option<LockMode>,
}

impl Hash for Role {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.mode, self.wish, self.returns).hash(state);
    }
}

const fn role(mode: LockMode) -> Role {
    Role { mode, wait_policy: WaitPolicy::Queue, wish: None, returns: None }
}

const READER: Role = role(LockMode::Shared);
const WRITER: Role = role(LockMode::Exclusive);
const DOWNGRADER: Role = Role { wish: Some(LockMode::Shared), ..WRITER };
const UPGRADER: Role = Role { wish: Some(LockMode::Exclusive), ..READER };
const RETURNER: Role = Role { returns: Some(LockMode::Exclusive), ..WRITER };
const PROMOTED: Role = Role { returns: Some(LockMode::Exclusive), ..READER };
const REREADER: Role = Role { returns: Some(LockMode::Shared), ..READER };
const DEMOTED: Role = Role { returns: Some(LockMode::Shared), ..DOWNGRADER };
const TRIER: Role = Role { wait_policy: WaitPolicy::OnlyIfFree, ..WRITER };
const ASKER: Role = Role { wait_policy: WaitPolicy::OnlyIfFirst, ..WRITER };

/// A lock, and those who contend for it.
#[derive(Clone)]
struct Lock {
    scenario: Scenario,
    contenders: Vec<Contending>,
}

impl Hash for Lock {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.contenders.hash(state);
    }
}

#[derive(Clone, Hash)]
struct Contending {
    role: Role,
    attempt: u128,
    told: Told,
    release: bool,
    /// What it wants the lock with, or holds it with.
    mode: LockMode,
    wish: Option<LockMode>,
    converting: Option<LockMode>,
    /// Whether there may be a second node, for an upgrade.
    upgrades: bool,
    /// How often it has asked for a node.
    creations: usize,
    grant: Option<Grant>,
}

/// How a contender got the lock.
#[derive(Clone, Copy, Hash)]
struct Grant {
    /// What it knew of the tree is of then.
    at: Index,
    token: Index,
    mode: LockMode,
    /// The number of its node.
    number: i32,
}

impl Contending {
    const fn new(role: Role, attempt: u128) -> Self {
        Self {
            role,
            attempt,
            told: Told::Nothing,
            release: false,
            mode: role.mode,
            wish: role.wish,
            converting: None,
            upgrades: false,
            creations: 0,
            grant: None,
        }
    }

    /// Whether it relies on having the lock. Whoever gives exclusiveness up, or does not have it
    /// yet, does not rely on that.
    fn believes(&self) -> Option<(LockMode, i32)> {
        let mode = if self.converting.is_some() { LockMode::Shared } else { self.mode };
        let held = self.told.is_held() && !self.release;
        self.grant.filter(|_| held).map(|grant| (mode, grant.number))
    }
}

impl Play for Lock {
    type Machine = Contender;

    fn nodes(&self) -> Vec<(&str, &[u8])> {
        alloc::vec![(LOCK_PATH, b"")]
    }

    fn machines(&self) -> Vec<Contender> {
        (0..self.contenders.len()).map(|contender| self.machine(contender, None)).collect()
    }

    fn acts(&self, contender: usize) -> Vec<(Act, When)> {
        let Contending { told, release, wish, converting, .. } = self.contenders[contender];
        match told {
            _ if release => Vec::new(),
            Told::Held | Told::Suspended => {
                // It can release while it converts, but an answer must come without it, too.
                let when = if converting.is_some() { When::Perhaps } else { When::AtLast };
                let wish = wish.filter(|_| converting.is_none());
                let convert = wish.map(|mode| (Act::Convert(mode), When::Perhaps));
                [(Act::Release, when)].into_iter().chain(convert).collect()
            }
            Told::Nothing | Told::Over => alloc::vec![(Act::Release, When::Whim)],
        }
    }

    fn acted(&mut self, contender: usize, act: Act, milestones: &mut Milestones) {
        let contending = &mut self.contenders[contender];
        match act {
            Act::Convert(mode) => {
                (contending.wish, contending.converting) = (None, Some(mode));
            }
            Act::Release | Act::Leave => {
                contending.release = true;
                if contending.converting.is_some() {
                    milestones.insert("leaves while converting");
                }
            }
        }
    }

    fn asked(&mut self, contender: usize, request: &Request<'_>, milestones: &mut Milestones) {
        if let Request::Create2(create) = request {
            let mode = self.name(&format!("{}0000000000", create.path)).mode;
            let contending = &mut self.contenders[contender];
            contending.upgrades |= mode != contending.mode;
            contending.creations += usize::from(mode == contending.mode);
            if contending.creations > 1 {
                milestones.insert("creates again");
            }
        }
    }

    fn told(
        &mut self,
        contender: usize,
        event: &Event,
        mut scene: Scene<'_>,
    ) -> Result<(), String> {
        let Contending { told, release, converting, .. } = self.contenders[contender];
        let Some(after) = told.after(event, release) else {
            return Err(format!("{contender} tells {event:?} out of turn"));
        };
        match event {
            Event::Enqueued { .. } if scene.cause == Cause::Looked => scene.sees("adopts"),
            Event::Acquired { token, .. } => {
                self.check_grant(contender, *token, &scene)?;
                scene.sees(ACQUIRES[contender]);
                match scene.cause {
                    Cause::Settled => scene.sees("takes over"),
                    Cause::Created => scene.sees("needs no list"),
                    Cause::Looked | Cause::Other => {}
                }
            }
            Event::Resumed => {
                let number = self.contenders[contender].grant.map(|grant| grant.number);
                let mut own = scene.tree.owned_by(contender, scene.now);
                if !own.any(|node| Some(self.number(node)) == number) {
                    return Err(format!("{contender} resumes a lock that it has lost"));
                }
                scene.sees("resumes");
            }
            Event::Converted { mode, node, token } if converting == Some(*mode) => {
                self.check_conversion(contender, *mode, node, *token, &mut scene)?;
                if scene.cause == Cause::Looked {
                    scene.sees("finds itself converted");
                }
            }
            Event::NotConverted(_) if converting.is_some() => {
                if converting == Some(LockMode::Exclusive) {
                    scene.sees("is not upgraded");
                }
                self.contenders[contender].converting = None;
            }
            Event::Converted { .. } | Event::NotConverted(_) => {
                return Err(format!("{contender} tells {event:?} out of turn"));
            }
            Event::Lost(loss) => scene.sees(lost_by(contender, loss)?),
            Event::Released if told == Told::Nothing => scene.sees("gives up"),
            Event::Failed(error) => scene.sees(match error {
                LockError::NodeVanished => "vanishes",
                LockError::Busy | LockError::TimedOut => "is busy",
                LockError::NoConnection => "has no connection",
                LockError::SequenceExhausted => "finds numbers exhausted",
                LockError::Ended(_) => "ends with its session",
                error => return Err(format!("{contender} fails: {error}")),
            }),
            _ => {}
        }
        self.contenders[contender].told = after;
        Ok(())
    }

    fn progress(&self, contender: usize) -> Told {
        self.contenders[contender].told
    }

    fn check(
        &mut self,
        tree: &Tree,
        lines: &[&Line],
        milestones: &mut Milestones,
    ) -> Result<(), String> {
        self.check_exclusion(tree, milestones)?;
        for (contender, contending) in self.contenders.iter().enumerate() {
            let own = tree.owned_by(contender, tree.log);
            let readers = own.clone().filter(|node| is_reader(node)).count();
            let all = own.count();
            if readers.max(all - readers) > 1 || all > 1 && !contending.upgrades {
                return Err(format!("{contender} has two nodes"));
            }
        }
        self.check_wake_ups(tree, lines)
    }

    /// What the next attempt has to rely on, it relies on at once.
    fn next(&mut self, contender: usize, done: &Contender, connected: bool) -> Option<Contender> {
        let Contending { role, attempt, .. } = self.contenders[contender];
        let mode = role.returns.filter(|_| connected)?;
        let mut hint = FastPathHint { followed: u32::MAX, ..done.hint()? };
        if self.scenario.forgets_readers {
            hint.mode = LockMode::Exclusive;
        }
        let role = Role { mode, wish: None, returns: None, ..role };
        self.contenders[contender] = Contending::new(role, attempt + 1);
        Some(self.machine(contender, Some(hint)))
    }

    fn outside(&self, tree: &Tree, may_go_wrong: bool) -> Vec<(Outside, When)> {
        let forged = tree.owned().filter(|(_, node)| node.owner == Some(STRANGER));
        let mut all: Vec<_> =
            forged.map(|(node, _)| (Outside::Vanish(node), When::AtLast)).collect();
        if self.scenario.forgeries && may_go_wrong {
            let open = |contender: &usize| self.contenders[*contender].told != Told::Over;
            let forge = |contender| (Outside::Forge(contender), When::Perhaps);
            all.extend((0..self.contenders.len()).filter(open).map(forge));
        }
        if self.scenario.recreations && may_go_wrong && tree.owned().next().is_none() {
            all.push((Outside::Recreate, When::Perhaps));
        }
        all
    }

    fn happens(&mut self, outside: Outside, tree: &mut Tree) {
        match outside {
            Outside::Forge(contender) => {
                let Contending { mode, attempt, .. } = self.contenders[contender];
                let prefix = self.scenario.scheme.prefix(mode, guid(contender, attempt), SESSION);
                tree.add(STRANGER, &format!("{LOCK_PATH}/{prefix}"));
            }
            Outside::Vanish(node) => tree.delete(node),
            Outside::Recreate => tree.recreate(LOCK_PATH),
            Outside::Change => {}
        }
    }
}

fn is_reader(node: &Node) -> bool {
    node.path.contains("__READ__")
}

impl Lock {
    fn machine(&self, contender: usize, hint: Option<FastPathHint>) -> Contender {
        let Contending { role, attempt, .. } = self.contenders[contender];
        let (guid, session) = (guid(contender, attempt), session(contender));
        let mut machine = Contender::new(AttemptConfig {
            mode: role.mode,
            wait_policy: role.wait_policy,
            hint,
            ..AttemptConfig::new(LOCK_PATH.to_string(), self.scenario.scheme, guid, session)
        });
        if role.wait_policy != WaitPolicy::Queue {
            machine.handle(Input::Session(State::Connected { server: 0, session }));
        }
        machine.mistake = self.scenario.mistake;
        machine
    }

    fn name<'n>(&self, path: &'n str) -> Name<'n> {
        let name = path.rsplit('/').next().unwrap_or_default();
        self.scenario.scheme.parse(name).expect("a lock node")
    }

    fn number(&self, node: &Node) -> i32 {
        self.name(&node.path).sequence.0
    }

    /// The lock may be granted on what is known of the tree.
    fn check_grant(
        &mut self,
        contender: usize,
        token: Zxid,
        scene: &Scene<'_>,
    ) -> Result<(), String> {
        let token = Index::try_from(token.0).expect("a transaction of this world");
        let Some((_, own)) = scene.tree.all().find(|(_, node)| node.created == token) else {
            return Err(format!("{contender} has a token that is nobody's"));
        };
        if own.owner != Some(contender) || !own.exists_at(scene.now) {
            return Err(format!("{contender} is granted the lock without its node"));
        }
        let Name { mode, guid, sequence, .. } = self.name(&own.path);
        let blocks = |other: &Node| {
            let name = self.name(&other.path);
            name.guid != guid && [mode, name.mode].contains(&LockMode::Exclusive)
        };
        let mut before =
            scene.tree.at(scene.now).filter(|(_, it)| it.owner.is_some() && it.place < own.place);
        if before.any(|(_, node)| blocks(node)) {
            return Err(format!("{contender} is granted the lock before its turn"));
        }
        let grant = Grant { at: scene.now, token, mode, number: sequence.0 };
        let out_of_order = |other: Grant| {
            [mode, other.mode].contains(&LockMode::Exclusive)
                && (other.at < grant.at) != (other.token < grant.token)
        };
        let others = self.contenders.iter().enumerate().filter(|(other, _)| *other != contender);
        if others.filter_map(|(_, other)| other.grant).any(out_of_order) {
            return Err(format!("{contender} has a token that does not rise"));
        }
        self.contenders[contender].grant = Some(grant);
        Ok(())
    }

    fn check_conversion(
        &mut self,
        contender: usize,
        mode: LockMode,
        node: &str,
        token: Zxid,
        scene: &mut Scene<'_>,
    ) -> Result<(), String> {
        let before = self.contenders[contender].grant.expect("a grant");
        let path = format!("{LOCK_PATH}/{node}");
        let mut own = scene.tree.owned_by(contender, scene.now);
        if !own.clone().any(|node| *node.path == *path) {
            return Err(format!("{contender} holds the lock by a node that is not there"));
        }
        if mode == LockMode::Shared {
            if Zxid(before.token.into()) != token {
                return Err(format!("{contender} has a token that others do not reach"));
            }
            scene.sees("is downgraded");
        } else {
            // Otherwise somebody else may have had the lock in between.
            if !own.any(|node| self.number(node) == before.number) {
                return Err(format!("{contender} upgrades what it has lost"));
            }
            self.check_grant(contender, token, scene)?;
            scene.sees("is upgraded");
        }
        let contending = &mut self.contenders[contender];
        (contending.mode, contending.converting) = (mode, None);
        Ok(())
    }

    /// Nobody holds the lock beside a writer, as the ensemble sees it.
    fn check_exclusion(&self, tree: &Tree, milestones: &mut Milestones) -> Result<(), String> {
        let holds = |(contender, contending): (usize, &Contending)| {
            let (mode, number) = contending.believes()?;
            let mut own = tree.owned_by(contender, tree.log);
            own.any(|node| self.number(node) == number).then_some(mode)
        };
        let holders: Vec<_> = self.contenders.iter().enumerate().filter_map(holds).collect();
        if holders.len() > 1 {
            if holders.contains(&LockMode::Exclusive) {
                return Err("two hold the lock".to_string());
            }
            milestones.insert("hold together");
        }
        Ok(())
    }

    /// The end of a node wakes one, or readers who waited for a writer: no herd. Whose own node is
    /// gone does not count, having nothing more to wait for.
    fn check_wake_ups(&self, tree: &Tree, lines: &[&Line]) -> Result<(), String> {
        let mut waiting: Vec<(&str, LockMode)> = Vec::new();
        for (contender, line) in lines.iter().enumerate() {
            let own: Vec<_> =
                tree.all().filter(|(_, node)| node.owner == Some(contender)).collect();
            if !own.iter().any(|(_, node)| node.exists_at(tree.log)) {
                continue;
            }
            let is_own = |path: &str| own.iter().any(|(_, node)| node.is(path));
            let others = line.watches.iter().map(|watch| &*watch.path);
            let others: Vec<_> = others.filter(|path| !is_own(path)).collect();
            if others.len() > 1 {
                return Err(format!("{contender} waits for two"));
            }
            waiting.extend(others.into_iter().map(|path| (path, self.contenders[contender].mode)));
        }
        for (path, _) in &waiting {
            let count = |mode| waiting.iter().filter(|it| **it == (*path, mode)).count();
            let is_reader = path.contains("__READ__");
            if count(LockMode::Exclusive) > 1 || is_reader && count(LockMode::Shared) > 0 {
                return Err("too many wait for one node".to_string());
            }
        }
        Ok(())
    }
}

/// A world of contenders, and what is special about it.
#[derive(Clone, Copy)]
struct Scenario {
    scheme: Scheme,
    roles: &'static [Role],
    /// Whether somebody else may also create nodes that look like a contender's.
    forgeries: bool,
    /// Whether somebody may also remove the lock path and make it anew, when nobody is in it.
    recreations: bool,
    /// How many nodes were in the lock path before.
    created_before: i32,
    mistake: Option<Mistake>,
    /// After a reader a writer looks for others as little as another reader: a mistake.
    forgets_readers: bool,
    bounds: Bounds,
}

impl Scenario {
    const fn of(roles: &'static [Role]) -> Self {
        let bounds = Bounds { late: true, timers: Timers::Always, ..Bounds::CALM };
        Self {
            scheme: SCHEME,
            roles,
            forgeries: false,
            recreations: false,
            created_before: 0,
            mistake: None,
            forgets_readers: false,
            bounds,
        }
    }

    const fn shared(roles: &'static [Role]) -> Self {
        Self { scheme: READ_WRITE, ..Self::of(roles) }
    }

    /// Numbers are so high that a hint counts for some transactions.
    const fn later(roles: &'static [Role]) -> Self {
        Self { created_before: 1, recreations: true, ..Self::of(roles) }
    }

    const fn faults(self, faults: usize) -> Self {
        Self { bounds: Bounds { faults, ..self.bounds }, ..self }
    }

    /// On two servers, one of which lags.
    const fn lagging(self) -> Self {
        Self { bounds: Bounds { servers: 2, ..self.bounds }, ..self }
    }

    const fn impatient(self) -> Self {
        Self { bounds: Bounds { whims: 1, ..self.bounds }, ..self }
    }

    const fn numbers(self, numbers: Numbers) -> Self {
        Self { bounds: Bounds { numbers, ..self.bounds }, ..self }
    }

    fn world(self) -> World<Lock> {
        let contenders = self.roles.iter().map(|role| Contending::new(*role, 0)).collect();
        let mut world = World::new(self.bounds, Lock { scenario: self, contenders });
        world.tree.created_before(LOCK_PATH, self.created_before);
        world
    }

    #[track_caller]
    fn proves(self, states: usize, milestones: &[&'static str]) {
        search::prove(self.world(), states, milestones);
    }

    #[track_caller]
    fn refutes(self, flaw: Flaw, wrong: &str, steps: usize) {
        let bounds = Bounds { flaw: Some(flaw), ..self.bounds };
        search::refute(Self { bounds, ..self }.world(), wrong, steps);
    }
}

const FAULT: [&str; 5] = ["adopts", "creates again", "resumes", "loses its node", "vanishes"];
/// What becomes of one who is connected again in time, and of one who is not.
const FAULTS: [&str; 7] = [
    "adopts",
    "creates again",
    "resumes",
    "loses its node",
    "vanishes",
    "loses its session",
    "ends with its session",
];

// ---- Those who queue -----------------------------------------------------------------------------

#[test]
fn three_take_turns() {
    Scenario::of(&[WRITER; 3]).proves(60_919, &[ONE, TWO, THREE, "takes over"]);
}

#[test]
#[ignore = "half a minute; in a release build a few seconds"]
fn two_survive_one_fault_and_one_who_gives_up() {
    let milestones = [&FAULT[..], &[ONE, TWO, "takes over", "gives up"]].concat();
    Scenario::of(&[WRITER; 2]).faults(1).impatient().proves(126_021, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build a few seconds"]
fn two_survive_one_fault_on_servers_that_lag() {
    let milestones = [&FAULT[..], &[ONE, TWO, "takes over"]].concat();
    Scenario::of(&[WRITER; 2]).faults(1).lagging().proves(151_933, &milestones);
}

#[test]
fn one_survives_two_faults_on_servers_that_lag() {
    let milestones = [&FAULTS[..], &[ONE, "gives up"]].concat();
    Scenario::of(&[WRITER]).faults(2).lagging().impatient().proves(10_433, &milestones);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn two_survive_two_faults() {
    let milestones = [&FAULTS[..], &[ONE, TWO, "takes over"]].concat();
    Scenario::of(&[WRITER; 2]).faults(2).proves(559_974, &milestones);
}

#[test]
#[ignore = "half an hour; in a release build five minutes"]
fn three_survive_one_fault() {
    let milestones = [&FAULT[..], &[ONE, TWO, THREE, "takes over"]].concat();
    Scenario::of(&[WRITER; 3]).faults(1).proves(7_370_969, &milestones);
}

// ---- Those who return ----------------------------------------------------------------------------

#[test]
fn one_who_returns_needs_no_list_unless_another_has_come() {
    let milestones = [ONE, TWO, "takes over", "needs no list", "returns"];
    Scenario::later(&[RETURNER, WRITER]).proves(2_181, &milestones);
}

#[test]
fn one_who_returns_alone_survives_two_faults_on_servers_that_lag() {
    let milestones = [&FAULTS[..], &[ONE, "needs no list", "returns"]].concat();
    Scenario::later(&[RETURNER]).faults(2).lagging().proves(27_300, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build a few seconds"]
fn one_who_returns_beside_another_survives_one_fault() {
    Scenario::later(&[RETURNER, WRITER]).faults(1).proves(97_587, &returned());
}

fn returned() -> Vec<&'static str> {
    [&FAULT[..], &[ONE, TWO, "takes over", "needs no list", "returns"]].concat()
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn two_who_return_survive_one_fault_or_a_new_directory() {
    Scenario::later(&[RETURNER, RETURNER]).faults(1).proves(365_630, &returned());
}

#[test]
#[ignore = "a minute; in a release build some seconds"]
fn one_who_returns_survives_one_fault_and_one_who_gives_up() {
    let scenario = Scenario { created_before: 6, ..Scenario::later(&[RETURNER, WRITER]) };
    scenario.faults(1).impatient().proves(360_333, &[&returned()[..], &["gives up"]].concat());
}

#[test]
#[ignore = "a minute; in a release build some seconds"]
fn one_who_returns_survives_one_fault_on_servers_that_lag() {
    let scenario = Scenario { created_before: 6, ..Scenario::later(&[RETURNER, WRITER]) };
    scenario.faults(1).lagging().proves(558_216, &returned());
}

/// As above, among readers and writers.
const fn later_shared(roles: &'static [Role]) -> Scenario {
    Scenario { scheme: READ_WRITE, ..Scenario::later(roles) }
}

#[test]
fn one_who_has_read_and_returns_to_write_beside_a_reader() {
    later_shared(&[PROMOTED, READER]).proves(3_939, &[ONE, TWO, "returns", "hold together"]);
}

#[test]
fn one_who_has_read_and_returns_to_write_beside_one_who_becomes_a_reader() {
    let more = ["returns", "hold together", "is downgraded", "leaves while converting"];
    let milestones = [&more[..], &[ONE, TWO]].concat();
    later_shared(&[PROMOTED, DOWNGRADER]).proves(21_796, &milestones);
}

#[test]
fn one_who_has_become_a_reader_and_returns_to_read_beside_a_writer() {
    let more = ["needs no list", "returns", "is downgraded", "leaves while converting"];
    let milestones = [&more[..], &[ONE, TWO]].concat();
    later_shared(&[DEMOTED, WRITER]).proves(6_079, &milestones);
}

#[test]
fn one_who_returns_to_read_beside_one_who_becomes_a_writer() {
    let milestones = [&UPGRADED[..], &["needs no list", "returns", "hold together"]].concat();
    later_shared(&[REREADER, UPGRADER]).proves(62_793, &milestones);
}

// ---- Those who do not wait, forged nodes, and the end of numbers ---------------------------------

#[test]
fn two_survive_a_fault_or_a_forged_node() {
    let scenario = Scenario { forgeries: true, ..Scenario::of(&[WRITER; 2]) };
    let milestones = [&FAULT[..], &[ONE, TWO, "takes over"]].concat();
    scenario.faults(1).proves(90_657, &milestones);
}

#[test]
fn one_survives_two_faults_and_forged_nodes() {
    let scenario = Scenario { forgeries: true, ..Scenario::of(&[WRITER]) };
    scenario.faults(2).proves(10_734, &[&FAULTS[..], &[ONE]].concat());
}

#[test]
fn one_who_asks_once_beside_one_who_waits() {
    let more = [ONE, TWO, "takes over", "is busy", "has no connection"];
    let milestones = [&FAULT[..], &more].concat();
    Scenario::of(&[ASKER, WRITER]).faults(1).proves(29_505, &milestones);
}

#[test]
fn two_who_ask_once() {
    Scenario::of(&[ASKER, ASKER]).proves(679, &[ONE, TWO, "is busy"]);
}

#[test]
fn one_who_does_not_wait_beside_one_who_does() {
    let more = [ONE, TWO, "takes over", "is busy", "has no connection"];
    let milestones = [&FAULT[..], &more].concat();
    Scenario::of(&[TRIER, WRITER]).faults(1).proves(30_775, &milestones);
}

#[test]
fn where_numbers_have_ended_names_of_others_fail_closed() {
    let scenario = Scenario::of(&[WRITER; 2]).numbers(Numbers::End);
    scenario.proves(97, &["finds numbers exhausted"]);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn where_numbers_have_ended_two_of_ours_survive_a_fault() {
    let scenario = Scenario { scheme: PRIVATE, ..Scenario::of(&[WRITER; 2]) };
    let milestones = [&FAULT[..], &[ONE, TWO]].concat();
    scenario.numbers(Numbers::End).faults(1).proves(67_212, &milestones);
}

// ---- Readers and writers -------------------------------------------------------------------------

#[test]
fn a_reader_and_a_writer_take_turns() {
    Scenario::shared(&[WRITER, READER]).proves(791, &[ONE, TWO]);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn readers_hold_together_and_no_writer_with_them() {
    let milestones = [ONE, TWO, THREE, "hold together"];
    Scenario::shared(&[READER, WRITER, READER]).proves(110_573, &milestones);
}

const DOWNGRADED: [&str; 4] = [ONE, TWO, "is downgraded", "leaves while converting"];

#[test]
fn a_downgrade_keeps_a_writer_out() {
    Scenario::shared(&[DOWNGRADER, WRITER]).proves(4_741, &DOWNGRADED);
}

#[test]
fn a_downgrade_lets_a_reader_in() {
    let milestones = [&DOWNGRADED[..], &["hold together"]].concat();
    Scenario::shared(&[DOWNGRADER, READER]).proves(7_313, &milestones);
}

/// Of one who is alone, and of one who is not.
fn downgraded_with(faults: &[&'static str]) -> [Vec<&'static str>; 2] {
    let alone = [faults, &[ONE, "is downgraded", "leaves while converting"]].concat();
    let alone = [&alone[..], &["finds itself converted"]].concat();
    [alone.clone(), [&alone[..], &[TWO]].concat()]
}

#[test]
fn a_downgrade_survives_one_fault_on_servers_that_lag() {
    let [milestones, _] = downgraded_with(&FAULT);
    Scenario::shared(&[DOWNGRADER]).faults(1).lagging().proves(7_463, &milestones);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn a_downgrade_beside_a_writer_survives_one_fault() {
    let [_, milestones] = downgraded_with(&FAULT);
    Scenario::shared(&[DOWNGRADER, WRITER]).faults(1).proves(241_799, &milestones);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn a_downgrade_beside_a_reader_survives_one_fault() {
    let [_, milestones] = downgraded_with(&FAULT);
    let milestones = [&milestones[..], &["hold together"]].concat();
    Scenario::shared(&[DOWNGRADER, READER]).faults(1).proves(350_971, &milestones);
}

const UPGRADED: [&str; 5] = [ONE, TWO, "is upgraded", "is not upgraded", "leaves while converting"];

#[test]
fn an_upgrade_beside_a_writer_works_or_does_not() {
    Scenario::shared(&[UPGRADER, WRITER]).proves(5_473, &UPGRADED);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn of_two_who_upgrade_nobody_waits_for_ever() {
    let milestones = [&UPGRADED[..], &["hold together"]].concat();
    Scenario::shared(&[UPGRADER, UPGRADER]).proves(196_440, &milestones);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn an_upgrade_beside_a_writer_survives_one_fault() {
    let milestones = [&UPGRADED[..], &FAULT].concat();
    Scenario::shared(&[UPGRADER, WRITER]).faults(1).proves(422_178, &milestones);
}

#[test]
#[ignore = "a minute; in a release build ten seconds"]
fn a_downgrade_between_a_reader_and_a_writer_lets_in_one_and_not_the_other() {
    let milestones = [&DOWNGRADED[..], &[THREE, "hold together"]].concat();
    Scenario::shared(&[DOWNGRADER, READER, WRITER]).proves(547_373, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn a_downgrade_survives_two_faults_on_servers_that_lag() {
    let [milestones, _] = downgraded_with(&FAULTS);
    Scenario::shared(&[DOWNGRADER]).faults(2).lagging().proves(68_829, &milestones);
}

// ---- Negative controls ---------------------------------------------------------------------------

#[test]
fn without_a_sync_a_node_is_created_twice() {
    // The server that has the creation dies, and the other one has not heard of it (H2).
    let scenario = Scenario::of(&[WRITER]).faults(1).lagging();
    scenario.refutes(Flaw::NoSync, "0 has two nodes", 11);
}

#[test]
fn behind_a_sync_that_was_lost_a_node_is_created_twice() {
    let scenario = Scenario::of(&[WRITER]).faults(2).lagging();
    scenario.refutes(Flaw::LostSyncTrusted, "0 has two nodes", 14);
}

#[test]
fn without_a_sync_a_writer_does_not_know_that_it_is_a_reader() {
    let scenario = Scenario::shared(&[DOWNGRADER, READER]).faults(1).lagging();
    scenario.refutes(Flaw::NoSyncForReader, "0 is done and leaves a node", 18);
}

#[test]
fn without_a_watch_on_our_own_node_the_shortcut_grants_too_much() {
    // Somebody deletes our node, and then the one before us goes.
    let scenario = Scenario::of(&[WRITER; 2]).faults(1);
    scenario.refutes(Flaw::NoWatchOnOwnNode, "1 is granted the lock without its node", 19);
}

#[test]
fn the_shortcut_kept_after_a_reconnect_grants_too_much() {
    // Both nodes go while we are away; of the two events, ours comes second.
    let scenario = Scenario::of(&[WRITER; 2]).faults(2);
    scenario.refutes(Flaw::ReconnectUnnoticed, "1 is granted the lock without its node", 22);
}

#[test]
fn the_shortcut_where_there_are_readers_grants_too_much() {
    // The writer before us has not gone: it is a reader now.
    let mistake = Some(Mistake::ShortcutAmongReaders);
    let scenario = Scenario { mistake, ..Scenario::shared(&[DOWNGRADER, WRITER]) };
    search::refute(scenario.world(), "1 is granted the lock before its turn", 17);
}

#[test]
fn who_returns_whatever_its_number_grants_too_much() {
    let mistake = Some(Mistake::PrecedentForAnyNumber);
    let scenario = Scenario { mistake, ..Scenario::later(&[RETURNER, WRITER]) };
    search::refute(scenario.world(), "0 is granted the lock before its turn", 11);
}

#[test]
fn who_returns_to_a_new_directory_grants_too_much() {
    // It begins at 0 again, somebody else gets that, and we get 1, as if nobody had come.
    let mistake = Some(Mistake::PrecedentForEver);
    let scenario =
        Scenario { mistake, created_before: 0, ..Scenario::later(&[RETURNER, WRITER]) }.faults(1);
    search::refute(scenario.world(), "0 is granted the lock before its turn", 12);
}

#[test]
fn a_writer_who_returns_as_after_a_writer_does_not_see_readers() {
    let scenario = Scenario { forgets_readers: true, ..later_shared(&[PROMOTED, READER]) };
    search::refute(scenario.world(), "0 is granted the lock before its turn", 11);
}

#[test]
fn without_a_look_at_its_owner_somebody_elses_node_is_adopted() {
    let scenario = Scenario { forgeries: true, ..Scenario::of(&[WRITER]) }.faults(2);
    scenario.refutes(Flaw::OwnerUnchecked, "0 is granted the lock without its node", 15);
}

#[test]
fn without_a_guid_in_the_name_a_node_is_created_twice() {
    let scenario = Scenario::of(&[WRITER]).faults(1);
    scenario.refutes(Flaw::NamesWithoutGuid, "0 has two nodes", 11);
}

#[test]
fn a_watch_on_a_node_that_is_gone_already_waits_for_ever() {
    Scenario::of(&[WRITER; 2]).refutes(Flaw::ExistsForWatch, "1 waits for ever", 15);
}

#[test]
fn readers_that_look_at_higher_writers_wait_for_ever() {
    let scenario = Scenario::shared(&[READER, WRITER]);
    scenario.refutes(Flaw::ReadersWatchHigherWriters, "0 waits for ever", 12);
}

#[test]
fn a_downgrade_to_the_end_of_the_queue_lets_a_writer_in() {
    let scenario = Scenario::shared(&[DOWNGRADER, WRITER]);
    scenario.refutes(Flaw::DowngradeToTheEnd, "1 is granted the lock before its turn", 11);
}

#[test]
fn numbers_that_have_ended_grant_too_much() {
    let scenario = Scenario { scheme: PRIVATE, ..Scenario::of(&[WRITER; 2]) };
    let world = scenario.numbers(Numbers::EndUnnoticed).world();
    search::refute(world, "1 is granted the lock before its turn", 6);
}

#[test]
fn where_all_watch_the_holder_too_many_are_woken() {
    Scenario::of(&[WRITER; 3]).refutes(Flaw::Herd, "too many wait for one node", 10);
}
