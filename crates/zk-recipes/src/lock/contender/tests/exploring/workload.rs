//! A lock and its contenders: what they do, and what must hold.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;

use super::world::{
    Cause, Command, Index, Line, Milestones, Node, OTHER_PROGRAM, OutsideChange, Owner, Progress,
    Refusal, ReportContext, Timing, Tree, Workload, guid, is_guid_of, session,
};
use super::*;

/// A lock and its contenders, which are machines of the type `M`.
#[derive(Clone)]
pub(super) struct Lock<M> {
    scenario: Scenario,
    contenders: Vec<ContenderState>,
    /// The hint that each contender has left.
    hints: Vec<Option<FastPathHint>>,
    machine: PhantomData<M>,
}

impl<M> Hash for Lock<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let left = |hint: &FastPathHint| (hint.czxid.0, hint.is_deleted);
        self.contenders.hash(state);
        self.hints.iter().for_each(|hint| hint.as_ref().map(left).hash(state));
    }
}

std::thread_local! {
    /// The hint for the contender whose turn it is.
    static HINT: Cell<Option<FastPathHint>> = const { Cell::new(None) };
}

/// The cell of all contenders in all worlds.
#[derive(Clone)]
pub(super) struct Hint;

impl fmt::Debug for Hint {
    /// Writes nothing: the hint belongs to the workload, not to the machine.
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl HintCell for Hint {
    fn get(&self) -> Option<FastPathHint> {
        HINT.get()
    }

    fn set(&self, hint: Option<FastPathHint>) {
        HINT.set(hint);
    }
}

#[derive(Clone, Hash)]
struct ContenderState {
    role: Role,
    attempt: u128,
    /// The mode that it wants, or holds.
    mode: LockMode,
    conversion: Option<LockMode>,
    converting: Option<LockMode>,
    /// Whether it may have a second node, for an upgrade.
    upgrades: bool,
    /// The number of creations that it has submitted.
    creations: usize,
    /// Whether it waits for its predecessor to leave.
    is_unstarted: bool,
    /// Whether it has waited behind a single one. Only for an injected bug.
    was_second: bool,
    /// Whether it knows that it is asked to release the lock.
    is_revoked: bool,
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
            mode: role.mode,
            conversion: role.conversion,
            converting: None,
            upgrades: false,
            creations: 0,
            is_unstarted: role.succeeds,
            was_second: false,
            is_revoked: false,
            grant: None,
        }
    }

    /// Returns the mode that the owner relies on. During a conversion that is the weaker one, and
    /// before the acquisition or after the release none.
    fn relied_on(&self, owner: &Owner) -> Option<(LockMode, i32)> {
        let mode = if self.converting.is_some() { LockMode::Shared } else { self.mode };
        self.grant.filter(|_| owner.holds()).map(|grant| (mode, grant.number))
    }
}

impl<M: Machine + Clone + Send + Sync + From<Contender>> Workload for Lock<M> {
    type Machine = M;

    fn nodes(&self) -> Vec<(&str, &[u8])> {
        alloc::vec![(LOCK_PATH, b"")]
    }

    fn machines(&self) -> Vec<M> {
        (0..self.contenders.len()).map(|contender| self.machine(contender)).collect()
    }

    fn twin(&self, contender: usize) -> Option<usize> {
        let Scenario { roles, forgeries, .. } = self.scenario;
        (0..contender).rfind(|other| roles[*other] == roles[contender] && !forgeries)
    }

    fn owner_actions(&self, contender: usize, owners: &[Owner]) -> Vec<(Command, Timing)> {
        let ContenderState { role, conversion, converting, is_revoked, .. } =
            self.contenders[contender];
        let owner = &owners[contender];
        if !owner.holds() {
            return owner.release_action();
        }
        // It can release while it converts, but a result must also come without that.
        let when = if converting.is_some() { Timing::Optional } else { Timing::Eventually };
        let conversion = conversion.filter(|_| converting.is_none());
        let convert = conversion.map(|mode| (Command::Convert(mode), Timing::Optional));
        let release = (!role.keeps || is_revoked).then_some((Command::Release, when));
        release.into_iter().chain(convert).collect()
    }

    fn owner_acted(
        &mut self,
        contender: usize,
        act: Command,
        _: &[Owner],
        milestones: &mut Milestones,
    ) {
        let contending = &mut self.contenders[contender];
        match act {
            Command::Convert(mode) => {
                (contending.conversion, contending.converting) = (None, Some(mode));
            }
            Command::Release | Command::Leave if contending.converting.is_some() => {
                milestones.insert("leaves while converting");
            }
            _ => {}
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
    ) -> Result<Progress, String> {
        let converting = self.contenders[contender].converting;
        let owner = &context.owners[contender];
        let after = owner.after(contender, event)?;
        let has_held = owner.progress != Progress::Nothing;
        match event {
            Event::Enqueued { node, .. } => {
                if context.cause == Cause::Looked {
                    context.reach("adopts");
                }
                let ContenderState { role, attempt, .. } = self.contenders[contender];
                let (guid, session) = (guid(contender, attempt), session(contender));
                if !node.starts_with(&self.scenario.scheme.prefix(role.mode, guid, session)) {
                    context.reach("queues again");
                }
            }
            Event::Waiting { ahead: 1, .. } => {
                let bug = self.scenario.injected_bug;
                self.contenders[contender].was_second =
                    bug == Some(InjectedBug::ShortcutAmongReaders);
            }
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
                context.reach(match converting {
                    Some(LockMode::Exclusive) => "is not upgraded",
                    _ => "is not downgraded",
                });
                self.contenders[contender].converting = None;
            }
            Event::Converted { .. } | Event::NotConverted(_) => {
                return Err(format!("{contender} reports {event:?} out of turn"));
            }
            Event::Revoked => {
                let mut own = context.tree.owned_by(contender, context.now);
                let is_known = core::mem::replace(&mut self.contenders[contender].is_revoked, true);
                if is_known || !own.any(|node| is_revoked(node, context.now)) {
                    return Err(format!("{contender} is not asked to release, or twice"));
                }
                context.reach("is asked to release");
            }
            Event::Lost(loss) => context.reach(lost_by(contender, loss)?),
            Event::Released if !has_held => context.reach("gives up"),
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
        Ok(after)
    }

    fn check(
        &mut self,
        tree: &Tree,
        owners: &[Owner],
        lines: &[&Line],
        milestones: &mut Milestones,
    ) -> Result<(), String> {
        self.check_exclusion(tree, owners, milestones)?;
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

    fn overlooks_others(&self, contender: usize, tree: &Tree, now: Index) -> bool {
        let own = tree.owned_by(contender, now).next();
        let (Some(bug), Some(own)) = (self.scenario.injected_bug, own) else { return false };
        let (mode, number, czxid) =
            (self.name(&own.path).mode, self.number(own), Zxid(own.created.into()));
        match (bug, self.hints[self.leader(contender)]) {
            (InjectedBug::ShortcutAmongReaders, _) => self.contenders[contender].was_second,
            (_, None) => false,
            (InjectedBug::HintForAnyNumber, Some(_)) => true,
            (InjectedBug::HintForEver, Some(hint)) => number == hint.number.0 + 1,
            (InjectedBug::HintBeforeDeletion, Some(hint)) => {
                let gone = FastPathHint { is_deleted: true, ..hint };
                gone.is_followed_by(mode, SequenceNumber(number), czxid)
            }
        }
    }

    fn is_unstarted(&self, contender: usize, _: &[Owner]) -> bool {
        self.contenders[contender].is_unstarted
    }

    /// The predecessor may have been lost.
    fn may_wait(&self, contender: usize, _: &[Owner], _: &Tree) -> bool {
        self.contenders[contender].is_unstarted
    }

    fn next(&mut self, contender: usize, connected: bool) -> Option<M> {
        let ContenderState { role, attempt, .. } = self.contenders[contender];
        let mode = role.returns.filter(|_| connected && self.hints[contender].is_some())?;
        let role = Role { mode, conversion: None, returns: None, ..role };
        self.contenders[contender] = ContenderState::new(role, attempt + 1);
        Some(self.machine(contender))
    }

    fn begin_turn(&mut self, contender: usize) {
        Hint.set(self.hints[self.leader(contender)]);
    }

    /// The hint of the first attempt must be valid at once.
    fn end_turn(&mut self, contender: usize, milestones: &mut Milestones) -> Option<(usize, M)> {
        let leader = self.leader(contender);
        self.hints[leader] = Hint.get().map(|hint| FastPathHint {
            followed: u32::MAX,
            mode: if self.scenario.forgets_readers { LockMode::Exclusive } else { hint.mode },
            ..hint
        });
        let successor = contender + 1;
        let begins = self.contenders.get_mut(successor).filter(|it| it.is_unstarted);
        let begins = begins.filter(|_| self.hints[leader].is_some())?;
        // What it asked before was never sent.
        *begins = ContenderState { is_unstarted: false, ..ContenderState::new(begins.role, 0) };
        milestones.insert("begins beside one that leaves");
        Some((successor, self.machine(successor)))
    }

    /// How a server refuses a downgrade, or the search for its outcome.
    fn refusals(&self, request: &Request<'_>) -> &'static [Refusal] {
        match request {
            Request::Multi(_) => &[Refusal::Temporary, Refusal::Permanent],
            Request::Sync(_) | Request::Exists(_) => &[Refusal::Temporary],
            _ => &[],
        }
    }

    fn outside_changes(
        &self,
        owners: &[Owner],
        tree: &Tree,
        may_go_wrong: bool,
    ) -> Vec<(OutsideChange, Timing)> {
        let forged = tree.owned().filter(|(_, node)| node.owner == Some(OTHER_PROGRAM));
        let mut all: Vec<_> =
            forged.map(|(node, _)| (OutsideChange::Vanish(node), Timing::Eventually)).collect();
        if self.scenario.forgeries && may_go_wrong {
            let open = |contender: &usize| owners[*contender].progress != Progress::Over;
            let forge = |contender| (OutsideChange::Forge(contender), Timing::Optional);
            all.extend((0..self.contenders.len()).filter(open).map(forge));
        }
        if self.scenario.recreations && may_go_wrong && tree.owned().next().is_none() {
            all.push((OutsideChange::Recreate, Timing::Optional));
        }
        let is_kept = |node: &Node| {
            let owner = node.owner.and_then(|owner| self.contenders.get(owner));
            owner.is_some_and(|it| it.role.keeps) && !is_revoked(node, tree.log)
        };
        let kept = tree.owned().filter(|(_, node)| is_kept(node));
        all.extend(kept.map(|(node, _)| (OutsideChange::Revoke(node), Timing::Eventually)));
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
            OutsideChange::Revoke(node) => tree.revoke(node),
            OutsideChange::Change => {}
        }
    }
}

fn is_reader(node: &Node) -> bool {
    node.path.contains("__READ__")
}

impl<M: From<Contender>> Lock<M> {
    pub(super) fn new(scenario: Scenario) -> Self {
        let contenders: Vec<_> =
            scenario.roles.iter().map(|role| ContenderState::new(*role, 0)).collect();
        let hints = alloc::vec![None; contenders.len()];
        Self { scenario, contenders, hints, machine: PhantomData }
    }

    /// Returns the contender with whose cell this one begins and ends.
    fn leader(&self, contender: usize) -> usize {
        contender - usize::from(self.contenders[contender].role.succeeds)
    }

    fn machine(&self, contender: usize) -> M {
        let ContenderState { role, attempt, .. } = self.contenders[contender];
        let (guid, session) = (guid(contender, attempt), session(contender));
        let config = AttemptConfig {
            mode: role.mode,
            wait_policy: role.wait_policy,
            revocable: role.keeps,
            hint_cell: Some(Arc::new(Hint)),
            ..AttemptConfig::of_node(LOCK_PATH.into(), self.scenario.scheme, guid, session)
        };
        Contender::new(config).into()
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
            return Err(format!("{contender} is granted the lock without its node"));
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
    fn check_exclusion(
        &self,
        tree: &Tree,
        owners: &[Owner],
        milestones: &mut Milestones,
    ) -> Result<(), String> {
        let holds = |(contender, contending): (usize, &ContenderState)| {
            let (mode, number) = contending.relied_on(&owners[contender])?;
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
            if tree.owned_by(contender, tree.log).next().is_none() {
                continue;
            }
            let guid_of = |path: &str| self.scenario.scheme.parse(path.rsplit('/').next()?)?.guid;
            let is_own = |path: &str| guid_of(path).is_some_and(|it| is_guid_of(contender, it));
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
