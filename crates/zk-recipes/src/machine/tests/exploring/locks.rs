//! Every course of a lock within bounds.

use super::super::world::{
    Bug, Cause, Index, Line, Milestones, Node, OTHER_PROGRAM, OutsideChange, OwnerAction, Progress,
    ReportContext, Timing, Tree, Workload, guid, session,
};
use super::*;

const LOCK_PATH: &str = "/lock";

/// The behaviour of a contender.
#[derive(Clone, Copy)]
struct Role {
    mode: LockMode,
    wait_policy: WaitPolicy,
    /// The mode that it may convert to while it holds the lock.
    conversion: Option<LockMode>,
    /// The mode of its second attempt, which uses the hint of the first. `None`: there is none.
    returns: Option<LockMode>,
}

impl Hash for Role {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.mode, self.conversion, self.returns).hash(state);
    }
}

const fn role(mode: LockMode) -> Role {
    Role { mode, wait_policy: WaitPolicy::Queue, conversion: None, returns: None }
}

const READER: Role = role(LockMode::Shared);
const WRITER: Role = role(LockMode::Exclusive);
const DOWNGRADER: Role = Role { conversion: Some(LockMode::Shared), ..WRITER };
const UPGRADER: Role = Role { conversion: Some(LockMode::Exclusive), ..READER };
const RETURNER: Role = Role { returns: Some(LockMode::Exclusive), ..WRITER };
const PROMOTED: Role = Role { returns: Some(LockMode::Exclusive), ..READER };
const REREADER: Role = Role { returns: Some(LockMode::Shared), ..READER };
const DEMOTED: Role = Role { returns: Some(LockMode::Shared), ..DOWNGRADER };
const FREE_ONLY: Role = Role { wait_policy: WaitPolicy::OnlyIfFree, ..WRITER };
const FIRST_ONLY: Role = Role { wait_policy: WaitPolicy::OnlyIfFirst, ..WRITER };

/// A lock and its contenders.
#[derive(Clone)]
struct Lock {
    scenario: Scenario,
    contenders: Vec<ContenderState>,
}

impl Hash for Lock {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.contenders.hash(state);
    }
}

#[derive(Clone, Hash)]
struct ContenderState {
    role: Role,
    attempt: u128,
    progress: Progress,
    release: bool,
    /// The mode that it wants, or holds.
    mode: LockMode,
    conversion: Option<LockMode>,
    converting: Option<LockMode>,
    /// Whether it may have a second node, for an upgrade.
    upgrades: bool,
    /// The number of creations that it has submitted.
    creations: usize,
    grant: Option<Grant>,
}

/// The circumstances of an acquisition.
#[derive(Clone, Copy, Hash)]
struct Grant {
    /// The state of the tree that the contender knew.
    at: Index,
    token: Index,
    mode: LockMode,
    /// The sequence number of its node.
    number: i32,
}

impl ContenderState {
    const fn new(role: Role, attempt: u128) -> Self {
        Self {
            role,
            attempt,
            progress: Progress::Nothing,
            release: false,
            mode: role.mode,
            conversion: role.conversion,
            converting: None,
            upgrades: false,
            creations: 0,
            grant: None,
        }
    }

    /// Returns the mode that the owner relies on. During a conversion that is the weaker one, and
    /// before the acquisition or after the release none.
    fn relied_on(&self) -> Option<(LockMode, i32)> {
        let mode = if self.converting.is_some() { LockMode::Shared } else { self.mode };
        let held = self.progress.is_held() && !self.release;
        self.grant.filter(|_| held).map(|grant| (mode, grant.number))
    }
}

impl Workload for Lock {
    type Machine = Contender;

    fn nodes(&self) -> Vec<(&str, &[u8])> {
        alloc::vec![(LOCK_PATH, b"")]
    }

    fn machines(&self) -> Vec<Contender> {
        (0..self.contenders.len()).map(|contender| self.machine(contender, None)).collect()
    }

    fn owner_actions(&self, contender: usize) -> Vec<(OwnerAction, Timing)> {
        let ContenderState { progress, release, conversion, converting, .. } =
            self.contenders[contender];
        match progress {
            _ if release => Vec::new(),
            Progress::Held | Progress::Suspended => {
                // It can release while it converts, but a result must also come without that.
                let when = if converting.is_some() { Timing::Optional } else { Timing::Eventually };
                let conversion = conversion.filter(|_| converting.is_none());
                let convert = conversion.map(|mode| (OwnerAction::Convert(mode), Timing::Optional));
                [(OwnerAction::Release, when)].into_iter().chain(convert).collect()
            }
            Progress::Nothing | Progress::Over => {
                alloc::vec![(OwnerAction::Release, Timing::Budgeted)]
            }
        }
    }

    fn owner_acted(&mut self, contender: usize, act: OwnerAction, milestones: &mut Milestones) {
        let contending = &mut self.contenders[contender];
        match act {
            OwnerAction::Convert(mode) => {
                (contending.conversion, contending.converting) = (None, Some(mode));
            }
            OwnerAction::Release | OwnerAction::Leave => {
                contending.release = true;
                if contending.converting.is_some() {
                    milestones.insert("leaves while converting");
                }
            }
        }
    }

    fn requested(&mut self, contender: usize, request: &Request<'_>, milestones: &mut Milestones) {
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

    fn reported(
        &mut self,
        contender: usize,
        event: &Event,
        mut context: ReportContext<'_>,
    ) -> Result<(), String> {
        let ContenderState { progress, release, converting, .. } = self.contenders[contender];
        let Some(after) = progress.after(event, release) else {
            return Err(format!("{contender} reports {event:?} out of turn"));
        };
        match event {
            Event::Enqueued { .. } if context.cause == Cause::Looked => context.reach("adopts"),
            Event::Acquired { token, .. } => {
                self.check_grant(contender, *token, &context)?;
                context.reach(ACQUIRES[contender]);
                match context.cause {
                    Cause::Settled => context.reach("takes over"),
                    Cause::Created => context.reach("needs no list"),
                    Cause::Looked | Cause::Other => {}
                }
            }
            Event::Resumed => {
                let number = self.contenders[contender].grant.map(|grant| grant.number);
                let mut own = context.tree.owned_by(contender, context.now);
                if !own.any(|node| Some(self.number(node)) == number) {
                    return Err(format!("{contender} resumes a lock that it has lost"));
                }
                context.reach("resumes");
            }
            Event::Converted { mode, node, token } if converting == Some(*mode) => {
                self.check_conversion(contender, *mode, node, *token, &mut context)?;
                if context.cause == Cause::Looked {
                    context.reach("finds itself converted");
                }
            }
            Event::NotConverted(_) if converting.is_some() => {
                if converting == Some(LockMode::Exclusive) {
                    context.reach("is not upgraded");
                }
                self.contenders[contender].converting = None;
            }
            Event::Converted { .. } | Event::NotConverted(_) => {
                return Err(format!("{contender} reports {event:?} out of turn"));
            }
            Event::Lost(loss) => context.reach(lost_by(contender, loss)?),
            Event::Released if progress == Progress::Nothing => context.reach("gives up"),
            Event::Failed(error) => context.reach(match error {
                LockError::NodeVanished => "vanishes",
                LockError::Busy | LockError::TimedOut => "is busy",
                LockError::NoConnection => "has no connection",
                LockError::SequenceExhausted => "finds numbers exhausted",
                LockError::Ended(_) => "ends with its session",
                error => return Err(format!("{contender} fails: {error}")),
            }),
            _ => {}
        }
        self.contenders[contender].progress = after;
        Ok(())
    }

    fn progress(&self, contender: usize) -> Progress {
        self.contenders[contender].progress
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

    /// The hint of the first attempt must be valid at once.
    fn next(&mut self, contender: usize, done: &Contender, connected: bool) -> Option<Contender> {
        let ContenderState { role, attempt, .. } = self.contenders[contender];
        let mode = role.returns.filter(|_| connected)?;
        let mut hint = FastPathHint { followed: u32::MAX, ..done.hint()? };
        if self.scenario.forgets_readers {
            hint.mode = LockMode::Exclusive;
        }
        let role = Role { mode, conversion: None, returns: None, ..role };
        self.contenders[contender] = ContenderState::new(role, attempt + 1);
        Some(self.machine(contender, Some(hint)))
    }

    fn outside_changes(&self, tree: &Tree, may_go_wrong: bool) -> Vec<(OutsideChange, Timing)> {
        let forged = tree.owned().filter(|(_, node)| node.owner == Some(OTHER_PROGRAM));
        let mut all: Vec<_> =
            forged.map(|(node, _)| (OutsideChange::Vanish(node), Timing::Eventually)).collect();
        if self.scenario.forgeries && may_go_wrong {
            let open = |contender: &usize| self.contenders[*contender].progress != Progress::Over;
            let forge = |contender| (OutsideChange::Forge(contender), Timing::Optional);
            all.extend((0..self.contenders.len()).filter(open).map(forge));
        }
        if self.scenario.recreations && may_go_wrong && tree.owned().next().is_none() {
            all.push((OutsideChange::Recreate, Timing::Optional));
        }
        all
    }

    fn apply_outside(&mut self, outside: OutsideChange, tree: &mut Tree) {
        match outside {
            OutsideChange::Forge(contender) => {
                let ContenderState { mode, attempt, .. } = self.contenders[contender];
                let prefix = self.scenario.scheme.prefix(mode, guid(contender, attempt), SESSION);
                tree.add(OTHER_PROGRAM, &format!("{LOCK_PATH}/{prefix}"));
            }
            OutsideChange::Vanish(node) => tree.delete(node),
            OutsideChange::Recreate => tree.recreate(LOCK_PATH),
            OutsideChange::Change => {}
        }
    }
}

fn is_reader(node: &Node) -> bool {
    node.path.contains("__READ__")
}

impl Lock {
    fn machine(&self, contender: usize, hint: Option<FastPathHint>) -> Contender {
        let ContenderState { role, attempt, .. } = self.contenders[contender];
        let (guid, session) = (guid(contender, attempt), session(contender));
        let mut machine = Contender::new(AttemptConfig {
            mode: role.mode,
            wait_policy: role.wait_policy,
            hint,
            ..AttemptConfig::new(LOCK_PATH.into(), self.scenario.scheme, guid, session)
        });
        if role.wait_policy != WaitPolicy::Queue {
            machine.handle(Input::Session(State::Connected { server: 0, session }));
        }
        machine.injected_bug = self.scenario.injected_bug;
        machine
    }

    fn name<'n>(&self, path: &'n str) -> Name<'n> {
        let name = path.rsplit('/').next().unwrap_or_default();
        self.scenario.scheme.parse(name).expect("a lock node")
    }

    fn number(&self, node: &Node) -> i32 {
        self.name(&node.path).sequence.0
    }

    /// Checks that the lock may be granted by the state of the tree that the contender knew.
    fn check_grant(
        &mut self,
        contender: usize,
        token: Zxid,
        context: &ReportContext<'_>,
    ) -> Result<(), String> {
        let token = Index::try_from(token.0).expect("a transaction of this world");
        let Some((_, own)) = context.tree.all().find(|(_, node)| node.created == token) else {
            return Err(format!("{contender} has a token that is nobody's"));
        };
        if own.owner != Some(contender) || !own.exists_at(context.now) {
            return Err(format!("{contender} is granted the lock without its node"));
        }
        let Name { mode, guid, sequence, .. } = self.name(&own.path);
        let blocks = |other: &Node| {
            let name = self.name(&other.path);
            name.guid != guid && [mode, name.mode].contains(&LockMode::Exclusive)
        };
        let mut before = context
            .tree
            .at(context.now)
            .filter(|(_, it)| it.owner.is_some() && it.place < own.place);
        if before.any(|(_, node)| blocks(node)) {
            return Err(format!("{contender} is granted the lock before its turn"));
        }
        let grant = Grant { at: context.now, token, mode, number: sequence.0 };
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
        context: &mut ReportContext<'_>,
    ) -> Result<(), String> {
        let before = self.contenders[contender].grant.expect("a grant");
        let path = format!("{LOCK_PATH}/{node}");
        let mut own = context.tree.owned_by(contender, context.now);
        if !own.clone().any(|node| *node.path == *path) {
            return Err(format!("{contender} holds the lock by a node that is not there"));
        }
        if mode == LockMode::Shared {
            if Zxid(before.token.into()) != token {
                return Err(format!("{contender} has a token that others do not reach"));
            }
            context.reach("is downgraded");
        } else {
            // Another contender may have held the lock in between.
            if !own.any(|node| self.number(node) == before.number) {
                return Err(format!("{contender} upgrades what it has lost"));
            }
            self.check_grant(contender, token, context)?;
            context.reach("is upgraded");
        }
        let contending = &mut self.contenders[contender];
        (contending.mode, contending.converting) = (mode, None);
        Ok(())
    }

    /// Checks that no other contender holds the lock beside a writer, as the ensemble sees it.
    fn check_exclusion(&self, tree: &Tree, milestones: &mut Milestones) -> Result<(), String> {
        let holds = |(contender, contending): (usize, &ContenderState)| {
            let (mode, number) = contending.relied_on()?;
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

    /// Checks that a deletion wakes one waiter, or the readers behind a writer: no herd. A
    /// contender whose own node is gone does not count, since it waits no longer.
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

/// The contenders of a world, and its special conditions.
#[derive(Clone, Copy)]
struct Scenario {
    scheme: Scheme,
    roles: &'static [Role],
    /// Whether another program may create nodes that look like a contender's.
    forgeries: bool,
    /// Whether another program may delete and create the lock path again, while it is empty.
    recreations: bool,
    /// The number of nodes created below the lock path before.
    created_before: i32,
    injected_bug: Option<InjectedBug>,
    /// An injected bug: a writer uses the hint of a reader.
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
            injected_bug: None,
            forgets_readers: false,
            bounds,
        }
    }

    const fn shared(roles: &'static [Role]) -> Self {
        Self { scheme: READ_WRITE, ..Self::of(roles) }
    }

    /// The sequence numbers are so high that a hint stays valid for some transactions.
    const fn later(roles: &'static [Role]) -> Self {
        Self { created_before: 1, recreations: true, ..Self::of(roles) }
    }

    const fn faults(self, faults: usize) -> Self {
        Self { bounds: Bounds { faults, ..self.bounds }, ..self }
    }

    /// Two servers, one of which lags.
    const fn lagging(self) -> Self {
        Self { bounds: Bounds { servers: 2, ..self.bounds }, ..self }
    }

    const fn with_early_release(self) -> Self {
        Self { bounds: Bounds { early_commands: 1, ..self.bounds }, ..self }
    }

    const fn numbers(self, numbers: Numbers) -> Self {
        Self { bounds: Bounds { numbers, ..self.bounds }, ..self }
    }

    fn world(self) -> World<Lock> {
        let contenders = self.roles.iter().map(|role| ContenderState::new(*role, 0)).collect();
        let mut world = World::new(self.bounds, Lock { scenario: self, contenders });
        world.tree.created_before(LOCK_PATH, self.created_before);
        world
    }

    #[track_caller]
    fn proves(self, states: usize, milestones: &[&'static str]) {
        search::prove(self.world(), states, milestones);
    }

    #[track_caller]
    fn refutes(self, bug: Bug, wrong: &str, steps: usize) {
        let bounds = Bounds { bug: Some(bug), ..self.bounds };
        search::refute(Self { bounds, ..self }.world(), wrong, steps);
    }
}

const FAULT: [&str; 5] = ["adopts", "creates again", "resumes", "loses its node", "vanishes"];
/// The milestones of contenders that reconnect in time, and of those that do not.
const FAULTS: [&str; 7] = [
    "adopts",
    "creates again",
    "resumes",
    "loses its node",
    "vanishes",
    "loses its session",
    "ends with its session",
];

// ---- Waiting in the queue
// ------------------------------------------------------------------------

#[test]
fn three_take_turns() {
    Scenario::of(&[WRITER; 3]).proves(57_166, &[ONE, TWO, THREE, "takes over"]);
}

#[test]
#[ignore = "half a minute; in a release build a few seconds"]
fn two_survive_one_fault_and_one_release() {
    let milestones = [&FAULT[..], &[ONE, TWO, "takes over", "gives up"]].concat();
    Scenario::of(&[WRITER; 2]).faults(1).with_early_release().proves(119_338, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build a few seconds"]
fn two_survive_one_fault_on_servers_that_lag() {
    let milestones = [&FAULT[..], &[ONE, TWO, "takes over"]].concat();
    Scenario::of(&[WRITER; 2]).faults(1).lagging().proves(152_169, &milestones);
}

#[test]
fn one_survives_two_faults_on_servers_that_lag() {
    let milestones = [&FAULTS[..], &[ONE, "gives up"]].concat();
    Scenario::of(&[WRITER]).faults(2).lagging().with_early_release().proves(11_460, &milestones);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn two_survive_two_faults() {
    let milestones = [&FAULTS[..], &[ONE, TWO, "takes over"]].concat();
    Scenario::of(&[WRITER; 2]).faults(2).proves(604_125, &milestones);
}

#[test]
#[ignore = "half an hour; in a release build five minutes"]
fn three_survive_one_fault() {
    let milestones = [&FAULT[..], &[ONE, TWO, THREE, "takes over"]].concat();
    Scenario::of(&[WRITER; 3]).faults(1).proves(7_201_354, &milestones);
}

// ---- Contenders that return with a hint
// ----------------------------------------------------------

#[test]
fn a_returning_contender_needs_no_list_unless_another_has_come() {
    let milestones = [ONE, TWO, "takes over", "needs no list", "returns"];
    Scenario::later(&[RETURNER, WRITER]).proves(2_005, &milestones);
}

#[test]
fn a_returning_contender_survives_two_faults_on_servers_that_lag() {
    let milestones = [&FAULTS[..], &[ONE, "needs no list", "returns"]].concat();
    Scenario::later(&[RETURNER]).faults(2).lagging().proves(30_749, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build a few seconds"]
fn a_returning_contender_beside_another_survives_one_fault() {
    Scenario::later(&[RETURNER, WRITER]).faults(1).proves(97_656, &returned());
}

fn returned() -> Vec<&'static str> {
    [&FAULT[..], &[ONE, TWO, "takes over", "needs no list", "returns"]].concat()
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn two_returning_contenders_survive_one_fault_or_a_new_lock_path() {
    Scenario::later(&[RETURNER, RETURNER]).faults(1).proves(369_665, &returned());
}

#[test]
#[ignore = "a minute; in a release build some seconds"]
fn a_returning_contender_survives_one_fault_and_one_release() {
    let scenario = Scenario { created_before: 6, ..Scenario::later(&[RETURNER, WRITER]) };
    scenario
        .faults(1)
        .with_early_release()
        .proves(343_384, &[&returned()[..], &["gives up"]].concat());
}

#[test]
#[ignore = "a minute; in a release build some seconds"]
fn a_returning_contender_survives_one_fault_on_servers_that_lag() {
    let scenario = Scenario { created_before: 6, ..Scenario::later(&[RETURNER, WRITER]) };
    scenario.faults(1).lagging().proves(566_066, &returned());
}

/// The same for read/write locks.
const fn later_shared(roles: &'static [Role]) -> Scenario {
    Scenario { scheme: READ_WRITE, ..Scenario::later(roles) }
}

#[test]
fn a_reader_returns_as_a_writer_beside_a_reader() {
    later_shared(&[PROMOTED, READER]).proves(3_332, &[ONE, TWO, "returns", "hold together"]);
}

#[test]
fn a_reader_returns_as_a_writer_beside_a_downgrade() {
    let more = ["returns", "hold together", "is downgraded", "leaves while converting"];
    let milestones = [&more[..], &[ONE, TWO]].concat();
    later_shared(&[PROMOTED, DOWNGRADER]).proves(19_567, &milestones);
}

#[test]
fn a_downgraded_reader_returns_beside_a_writer() {
    let more = ["needs no list", "returns", "is downgraded", "leaves while converting"];
    let milestones = [&more[..], &[ONE, TWO]].concat();
    later_shared(&[DEMOTED, WRITER]).proves(5_541, &milestones);
}

#[test]
fn a_returning_reader_beside_an_upgrade() {
    let milestones = [&UPGRADED[..], &["needs no list", "returns", "hold together"]].concat();
    later_shared(&[REREADER, UPGRADER]).proves(52_816, &milestones);
}

// ---- Attempts without waiting, forged nodes, exhausted numbers
// -----------------------------------

#[test]
fn two_survive_a_fault_or_a_forged_node() {
    let scenario = Scenario { forgeries: true, ..Scenario::of(&[WRITER; 2]) };
    let milestones = [&FAULT[..], &[ONE, TWO, "takes over"]].concat();
    scenario.faults(1).proves(84_425, &milestones);
}

#[test]
fn one_survives_two_faults_and_forged_nodes() {
    let scenario = Scenario { forgeries: true, ..Scenario::of(&[WRITER]) };
    scenario.faults(2).proves(10_766, &[&FAULTS[..], &[ONE]].concat());
}

#[test]
fn only_if_first_beside_a_waiter() {
    let more = [ONE, TWO, "takes over", "is busy", "has no connection"];
    let milestones = [&FAULT[..], &more].concat();
    Scenario::of(&[FIRST_ONLY, WRITER]).faults(1).proves(29_041, &milestones);
}

#[test]
fn two_that_try_only_if_first() {
    Scenario::of(&[FIRST_ONLY, FIRST_ONLY]).proves(599, &[ONE, TWO, "is busy"]);
}

#[test]
fn only_if_free_beside_a_waiter() {
    let more = [ONE, TWO, "takes over", "is busy", "has no connection"];
    let milestones = [&FAULT[..], &more].concat();
    Scenario::of(&[FREE_ONLY, WRITER]).faults(1).proves(30_315, &milestones);
}

#[test]
fn exhausted_numbers_fail_closed_in_shared_schemes() {
    let scenario = Scenario::of(&[WRITER; 2]).numbers(Numbers::End);
    scenario.proves(97, &["finds numbers exhausted"]);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn exhausted_numbers_of_a_private_scheme_survive_a_fault() {
    let scenario = Scenario { scheme: PRIVATE, ..Scenario::of(&[WRITER; 2]) };
    let milestones = [&FAULT[..], &[ONE, TWO]].concat();
    scenario.numbers(Numbers::End).faults(1).proves(65_845, &milestones);
}

// ---- Readers and writers ------------------------------------------------------------------------

#[test]
fn a_reader_and_a_writer_take_turns() {
    Scenario::shared(&[WRITER, READER]).proves(700, &[ONE, TWO]);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn readers_share_the_lock_and_exclude_writers() {
    let milestones = [ONE, TWO, THREE, "hold together"];
    Scenario::shared(&[READER, WRITER, READER]).proves(92_235, &milestones);
}

const DOWNGRADED: [&str; 4] = [ONE, TWO, "is downgraded", "leaves while converting"];

#[test]
fn a_downgrade_keeps_a_writer_out() {
    Scenario::shared(&[DOWNGRADER, WRITER]).proves(4_364, &DOWNGRADED);
}

#[test]
fn a_downgrade_lets_a_reader_in() {
    let milestones = [&DOWNGRADED[..], &["hold together"]].concat();
    Scenario::shared(&[DOWNGRADER, READER]).proves(6_393, &milestones);
}

/// The milestones with one reader, and with several.
fn downgraded_with(faults: &[&'static str]) -> [Vec<&'static str>; 2] {
    let alone = [faults, &[ONE, "is downgraded", "leaves while converting"]].concat();
    let alone = [&alone[..], &["finds itself converted"]].concat();
    [alone.clone(), [&alone[..], &[TWO]].concat()]
}

#[test]
fn a_downgrade_survives_one_fault_on_servers_that_lag() {
    let [milestones, _] = downgraded_with(&FAULT);
    Scenario::shared(&[DOWNGRADER]).faults(1).lagging().proves(7_261, &milestones);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn a_downgrade_beside_a_writer_survives_one_fault() {
    let [_, milestones] = downgraded_with(&FAULT);
    Scenario::shared(&[DOWNGRADER, WRITER]).faults(1).proves(231_176, &milestones);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn a_downgrade_beside_a_reader_survives_one_fault() {
    let [_, milestones] = downgraded_with(&FAULT);
    let milestones = [&milestones[..], &["hold together"]].concat();
    Scenario::shared(&[DOWNGRADER, READER]).faults(1).proves(327_781, &milestones);
}

const UPGRADED: [&str; 5] = [ONE, TWO, "is upgraded", "is not upgraded", "leaves while converting"];

#[test]
fn an_upgrade_beside_a_writer_succeeds_or_fails() {
    Scenario::shared(&[UPGRADER, WRITER]).proves(4_982, &UPGRADED);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn two_upgrades_do_not_deadlock() {
    let milestones = [&UPGRADED[..], &["hold together"]].concat();
    Scenario::shared(&[UPGRADER, UPGRADER]).proves(173_757, &milestones);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn an_upgrade_beside_a_writer_survives_one_fault() {
    let milestones = [&UPGRADED[..], &FAULT].concat();
    Scenario::shared(&[UPGRADER, WRITER]).faults(1).proves(390_137, &milestones);
}

#[test]
#[ignore = "a minute; in a release build ten seconds"]
fn a_downgrade_lets_in_readers_and_no_writers() {
    let milestones = [&DOWNGRADED[..], &[THREE, "hold together"]].concat();
    Scenario::shared(&[DOWNGRADER, READER, WRITER]).proves(485_716, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn a_downgrade_survives_two_faults_on_servers_that_lag() {
    let [milestones, _] = downgraded_with(&FAULTS);
    Scenario::shared(&[DOWNGRADER]).faults(2).lagging().proves(67_234, &milestones);
}

// ---- Negative controls --------------------------------------------------------------------------

#[test]
fn without_a_sync_a_node_is_created_twice() {
    // The server that executed the creation dies, and the other one has not applied it yet (H2).
    let scenario = Scenario::of(&[WRITER]).faults(1).lagging();
    scenario.refutes(Bug::NoSync, "0 has two nodes", 11);
}

#[test]
fn a_lost_sync_that_is_trusted_creates_a_node_twice() {
    let scenario = Scenario::of(&[WRITER]).faults(2).lagging();
    scenario.refutes(Bug::LostSyncTrusted, "0 has two nodes", 14);
}

#[test]
fn without_a_sync_a_downgraded_writer_is_not_found() {
    let scenario = Scenario::shared(&[DOWNGRADER, READER]).faults(1).lagging();
    scenario.refutes(Bug::NoSyncForReader, "0 is done and leaves a node", 18);
}

#[test]
fn without_a_watch_on_our_own_node_the_takeover_is_unsafe() {
    // Another client deletes our node, then the one before us is deleted.
    let scenario = Scenario::of(&[WRITER; 2]).faults(1);
    scenario.refutes(Bug::NoWatchOnOwnNode, "1 is granted the lock without its node", 19);
}

#[test]
fn a_takeover_after_a_reconnect_is_unsafe() {
    // Both nodes are deleted during a disconnect. Of the two events, ours arrives second.
    let scenario = Scenario::of(&[WRITER; 2]).faults(2);
    scenario.refutes(Bug::ReconnectUnnoticed, "1 is granted the lock without its node", 22);
}

#[test]
fn a_takeover_among_readers_is_unsafe() {
    // The writer before us has not released the lock: it is a reader now.
    let injected_bug = Some(InjectedBug::ShortcutAmongReaders);
    let scenario = Scenario { injected_bug, ..Scenario::shared(&[DOWNGRADER, WRITER]) };
    search::refute(scenario.world(), "1 is granted the lock before its turn", 17);
}

#[test]
fn a_hint_used_for_any_number_is_unsafe() {
    let injected_bug = Some(InjectedBug::HintForAnyNumber);
    let scenario = Scenario { injected_bug, ..Scenario::later(&[RETURNER, WRITER]) };
    search::refute(scenario.world(), "0 is granted the lock before its turn", 11);
}

#[test]
fn a_hint_used_in_a_new_lock_path_is_unsafe() {
    // The numbers begin again at 0. Another client gets 0, and we get 1, which seems to continue.
    let injected_bug = Some(InjectedBug::HintForEver);
    let scenario =
        Scenario { injected_bug, created_before: 0, ..Scenario::later(&[RETURNER, WRITER]) }
            .faults(1);
    search::refute(scenario.world(), "0 is granted the lock before its turn", 12);
}

#[test]
fn a_hint_of_a_reader_used_by_a_writer_is_unsafe() {
    let scenario = Scenario { forgets_readers: true, ..later_shared(&[PROMOTED, READER]) };
    search::refute(scenario.world(), "0 is granted the lock before its turn", 11);
}

#[test]
fn without_an_owner_check_a_foreign_node_is_adopted() {
    let scenario = Scenario { forgeries: true, ..Scenario::of(&[WRITER]) }.faults(2);
    scenario.refutes(Bug::OwnerUnchecked, "0 is granted the lock without its node", 15);
}

#[test]
fn without_a_guid_in_the_name_a_node_is_created_twice() {
    let scenario = Scenario::of(&[WRITER]).faults(1);
    scenario.refutes(Bug::NamesWithoutGuid, "0 has two nodes", 11);
}

#[test]
fn a_watch_on_a_deleted_node_waits_for_ever() {
    Scenario::of(&[WRITER; 2]).refutes(Bug::ExistsForWatch, "1 waits for ever", 15);
}

#[test]
fn readers_that_wait_for_higher_writers_deadlock() {
    let scenario = Scenario::shared(&[READER, WRITER]);
    scenario.refutes(Bug::ReadersWatchHigherWriters, "0 waits for ever", 12);
}

#[test]
fn a_downgrade_to_the_end_of_the_queue_lets_a_writer_in() {
    let scenario = Scenario::shared(&[DOWNGRADER, WRITER]);
    scenario.refutes(Bug::DowngradeToTheEnd, "1 is granted the lock before its turn", 11);
}

#[test]
fn exhausted_numbers_are_unsafe() {
    let scenario = Scenario { scheme: PRIVATE, ..Scenario::of(&[WRITER; 2]) };
    let world = scenario.numbers(Numbers::EndUnnoticed).world();
    search::refute(world, "1 is granted the lock before its turn", 6);
}

#[test]
fn a_herd_wakes_too_many() {
    Scenario::of(&[WRITER; 3]).refutes(Bug::Herd, "too many wait for one node", 10);
}
