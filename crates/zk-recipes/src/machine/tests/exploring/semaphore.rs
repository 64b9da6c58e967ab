//! What contenders of permits do in every world within bounds.

use super::super::world::{
    Act, Flaw, Index, Line, Milestones, Node, Outside, Play, Refusal, Scene, Told, Tree, When,
    guid, session,
};
use super::*;

const LOCK_PATH: &str = "/sem";
const PLACES: &str = "/sem/locks";
const LEASES: &str = "/sem/leases";
const MAXIMUM: &str = "/sem/max";

/// A semaphore, and what is special about it.
#[derive(Clone, Copy)]
struct Semaphore {
    /// How many permits each contender wants.
    wants: &'static [u32],
    maximum: u32,
    /// Whether the first contender keeps what it has got for ever.
    keeper: bool,
    /// Whether the last contender only tries.
    trier: bool,
    /// Whether the first has to make the parents and the maximum.
    fresh: bool,
    /// What the maximum may be changed to, one after another.
    changes: &'static [u32],
    /// Who wants two permits borrows one, leaves the queue, and borrows another: a mistake. The
    /// contenders of the second half are those of the first once more.
    one_at_a_time: bool,
    bounds: Bounds,
}

/// A semaphore, and those who borrow its permits.
#[derive(Clone)]
struct Lending {
    semaphore: Semaphore,
    borrowers: Vec<Borrowing>,
    /// How often the maximum was changed.
    changed: usize,
}

#[derive(Clone, Default, Hash)]
struct Borrowing {
    told: Told,
    release: bool,
    creations: usize,
    /// The transaction that created the permits that it was granted.
    token: Index,
}

impl Borrowing {
    fn holds(&self) -> bool {
        self.told.is_held() && !self.release
    }
}

impl Hash for Lending {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.borrowers, self.changed).hash(state);
    }
}

const CALM: Semaphore = Semaphore {
    wants: &[1, 1],
    maximum: 1,
    keeper: false,
    trier: false,
    fresh: false,
    changes: &[],
    one_at_a_time: false,
    bounds: Bounds::CALM,
};

const ROOMY: Semaphore = Semaphore { maximum: 2, ..CALM };

fn is_lease(node: &Node) -> bool {
    node.is_in(LEASES)
}

fn maximum_at(tree: &Tree, index: Index) -> Option<u32> {
    let maximum = tree.find_at(MAXIMUM, index).map(|node| tree.node(node));
    maximum.and_then(|node| PermitRequest::read_maximum(node.data_at(index).1))
}

impl Lending {
    fn partner(&self, machine: usize) -> usize {
        let half = self.borrowers.len() / 2;
        (machine + half) % self.borrowers.len()
    }

    /// The permits may be granted on what is known of the tree.
    fn check_grant(
        &mut self,
        machine: usize,
        token: Zxid,
        scene: &Scene<'_>,
    ) -> Result<(), String> {
        let token = Index::try_from(token.0).expect("a transaction of this world");
        let permit_nodes =
            || scene.tree.at(scene.now).map(|(_, node)| node).filter(|node| is_lease(node));
        let is_own = |node: &&Node| node.created == token && node.owner == Some(machine);
        if permit_nodes().filter(is_own).count() != self.semaphore.wants[machine] as usize {
            return Err(format!("{machine} is granted permits without its leases"));
        }
        let taken = permit_nodes().filter(|node| node.created <= token).count();
        if maximum_at(scene.tree, scene.now).is_none_or(|maximum| taken > maximum as usize) {
            return Err(format!("{machine} is granted permits that there are not"));
        }
        self.borrowers[machine].token = token;
        Ok(())
    }
}

impl Play for Lending {
    type Machine = SemaphoreMachine;

    fn nodes(&self) -> Vec<(&str, &[u8])> {
        const BYTES: [[u8; 4]; 3] = [[0; 4], [0, 0, 0, 1], [0, 0, 0, 2]];
        match self.semaphore.fresh {
            true => Vec::new(),
            false => alloc::vec![
                (LOCK_PATH, &b""[..]),
                (PLACES, b""),
                (LEASES, b""),
                (MAXIMUM, &BYTES[self.semaphore.maximum as usize]),
            ],
        }
    }

    fn machines(&self) -> Vec<SemaphoreMachine> {
        let machine = |(machine, permits): (usize, &u32)| {
            let tries = self.semaphore.trier && machine + 1 == self.semaphore.wants.len();
            let wait_policy = if tries { WaitPolicy::OnlyIfFree } else { WaitPolicy::Queue };
            let (guid, session) = (guid(machine, 0), session(machine));
            let config = AttemptConfig::new(LOCK_PATH.to_string(), SCHEME, guid, session);
            let config = AttemptConfig { wait_policy, ..config };
            let maximum = Some(self.semaphore.maximum);
            let mut machine =
                SemaphoreMachine::new(PermitRequest { config, permits: *permits, maximum });
            if tries {
                machine.handle(Input::Session(State::Connected { server: 0, session }));
            }
            machine
        };
        self.semaphore.wants.iter().enumerate().map(machine).collect()
    }

    fn acts(&self, machine: usize) -> Vec<(Act, When)> {
        let partner = &self.borrowers[self.partner(machine)];
        let has_all = !self.semaphore.one_at_a_time || partner.holds() || partner.release;
        let keeps = self.semaphore.keeper && machine == 0;
        let Borrowing { told, release, .. } = self.borrowers[machine];
        let when = match told {
            _ if release => None,
            Told::Held | Told::Suspended => (!keeps && has_all).then_some(When::AtLast),
            Told::Nothing => Some(When::Whim),
            Told::Over => None,
        };
        when.map(|when| (Act::Release, when)).into_iter().collect()
    }

    fn acted(&mut self, machine: usize, _: Act, _: &mut Milestones) {
        self.borrowers[machine].release = true;
    }

    fn asked(&mut self, machine: usize, request: &Request<'_>, milestones: &mut Milestones) {
        if let Request::Multi(_) = request {
            self.borrowers[machine].creations += 1;
            if self.borrowers[machine].creations > 1 {
                milestones.insert("creates again");
            }
        }
    }

    fn told(&mut self, machine: usize, event: &Event, mut scene: Scene<'_>) -> Result<(), String> {
        let Borrowing { told, release, .. } = self.borrowers[machine];
        let Some(after) = told.after(event, release) else {
            return Err(format!("{machine} tells {event:?} out of turn"));
        };
        match event {
            Event::Acquired { token, .. } => {
                self.check_grant(machine, *token, &scene)?;
                scene.sees(ACQUIRES[machine]);
            }
            Event::Resumed => scene.sees("resumes"),
            Event::Lost(loss) => scene.sees(lost_by(machine, loss)?),
            Event::Released if told == Told::Nothing => scene.sees("gives up"),
            Event::Failed(error) => scene.sees(match error {
                LockError::NodeVanished => "vanishes",
                LockError::Busy => "is busy",
                LockError::NoConnection => "has no connection",
                LockError::Request(_) => "is refused",
                LockError::TooManyPermits { .. } => "wants too many",
                LockError::OtherMaximum { .. } => "finds another maximum",
                LockError::Ended(_) => "ends with its session",
                error => return Err(format!("{machine} fails: {error}")),
            }),
            _ => {}
        }
        self.borrowers[machine].told = after;
        Ok(())
    }

    fn heard(&mut self, request: &Request<'_>, milestones: &mut Milestones) {
        if let Request::Exists(exists) = request
            && exists.path.starts_with(LEASES)
        {
            milestones.insert("adopts");
        }
    }

    fn progress(&self, machine: usize) -> Told {
        self.borrowers[machine].told
    }

    fn check(&mut self, tree: &Tree, lines: &[&Line], _: &mut Milestones) -> Result<(), String> {
        let is_granted = |node: &Node| {
            let borrowing = node.owner.and_then(|owner| self.borrowers.get(owner));
            borrowing.is_some_and(|it| it.holds() && it.token == node.created)
        };
        let granted = tree.owned().filter(|(_, node)| is_lease(node) && is_granted(node)).count();
        if granted
            > self.semaphore.changes.iter().fold(self.semaphore.maximum, |a, b| a.max(*b)) as usize
        {
            return Err("more permits are out than there are".to_string());
        }
        // One waits for permits: no herd. Somebody who tries looks as well, and who lost its place
        // has not heard it yet.
        let waits = |line: &&&Line| line.is_watched(LEASES);
        if self.semaphore.bounds.faults == 0
            && !self.semaphore.trier
            && lines.iter().filter(waits).count() > 1
        {
            return Err("two wait for leases".to_string());
        }
        Ok(())
    }

    /// The other half of what is wanted comes second.
    fn is_to_come(&self, machine: usize) -> bool {
        let is_second = machine >= self.borrowers.len() / 2;
        let first = &self.borrowers[self.partner(machine)];
        self.semaphore.one_at_a_time && is_second && first.told == Told::Nothing
    }

    /// What they want is kept by somebody.
    fn may_wait(&self, machine: usize, tree: &Tree) -> bool {
        let Borrowing { release, .. } = self.borrowers[machine];
        if !self.semaphore.keeper || release || self.borrowers[machine].holds() {
            return machine == 0 && self.semaphore.keeper && self.borrowers[machine].holds();
        }
        let all = self.borrowers.iter().zip(self.semaphore.wants);
        let out: u32 = all.filter(|(it, _)| it.holds()).map(|(_, wants)| *wants).sum();
        let maximum = maximum_at(tree, tree.log).unwrap_or(u32::MAX);
        let first = tree.owned().find(|(_, node)| node.is_in(PLACES));
        let is_first = first.is_none_or(|(_, node)| node.owner == Some(machine));
        !(is_first && out + self.semaphore.wants[machine] <= maximum)
    }

    /// What it may not, only costs the contender the knowledge of what there is to clean up.
    fn refusals(&self, request: &Request<'_>) -> &'static [Refusal] {
        use Refusal::{ForGood, ForNow, Garbage};
        match request {
            Request::Create2(_) => &[ForGood, Garbage],
            Request::Multi(_) | Request::GetData(_) => &[ForNow, ForGood, Garbage],
            Request::GetChildren(list) => match (list.path == LEASES, list.watch) {
                (true, true) => &[ForNow, ForGood, Garbage],
                (true, false) => &[ForNow, Garbage],
                (false, true) => &[ForNow],
                (false, false) => &[],
            },
            Request::Create(_) => &[ForNow, ForGood],
            Request::Exists(_) => &[ForNow, Garbage],
            Request::Sync(_) | Request::Delete(_) => &[ForNow],
            _ => &[],
        }
    }

    fn outside(&self, _: &Tree, _: bool) -> Vec<(Outside, When)> {
        let left = self.semaphore.changes.get(self.changed);
        left.map(|_| (Outside::Change, When::Perhaps)).into_iter().collect()
    }

    fn happens(&mut self, _: Outside, tree: &mut Tree) {
        let maximum = self.semaphore.changes[self.changed].to_be_bytes();
        self.changed += 1;
        tree.set_data(MAXIMUM, &maximum).expect("it is there");
    }
}

impl Semaphore {
    const fn faults(mut self, faults: usize) -> Self {
        self.bounds.faults = faults;
        self
    }

    const fn refusals(mut self, refusals: usize) -> Self {
        self.bounds.refusals = refusals;
        self
    }

    const fn impatient(mut self) -> Self {
        self.bounds.whims = 1;
        self
    }

    fn world(self) -> World<Lending> {
        let borrowers = alloc::vec![Borrowing::default(); self.wants.len()];
        World::new(self.bounds, Lending { semaphore: self, borrowers, changed: 0 })
    }

    #[track_caller]
    fn proves(self, states: usize, milestones: &[&'static str]) {
        search::prove(self.world(), states, milestones);
    }

    #[track_caller]
    fn refutes(mut self, flaw: Flaw, wrong: &str, steps: usize) {
        self.bounds.flaw = Some(flaw);
        search::refute(self.world(), wrong, steps);
    }
}

const SURVIVED: [&str; 7] =
    [ONE, "adopts", "creates again", "resumes", "loses its node", "vanishes", "gives up"];

#[test]
fn two_take_turns() {
    CALM.impatient().proves(4_407, &[ONE, TWO, "gives up"]);
}

#[test]
fn two_have_a_permit_each() {
    ROOMY.proves(797, &[ONE, TWO]);
}

#[test]
fn two_that_want_all_take_turns() {
    Semaphore { wants: &[2, 2], ..ROOMY }.proves(1_311, &[ONE, TWO]);
}

#[test]
fn who_tries_never_waits() {
    let semaphore = Semaphore { trier: true, ..CALM };
    semaphore.impatient().proves(3_620, &[ONE, TWO, "gives up", "is busy"]);
}

#[test]
fn one_who_tries_leaves_nothing_when_it_loses_its_connection() {
    let milestones = [&SURVIVED[..6], &["has no connection"]].concat();
    Semaphore { wants: &[1], trier: true, ..CALM }.faults(1).proves(814, &milestones);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn who_tries_beside_another_leaves_nothing_when_it_loses_its_connection() {
    let milestones = [&SURVIVED[..6], &[TWO, "is busy", "has no connection"]].concat();
    Semaphore { trier: true, ..CALM }.faults(1).proves(243_490, &milestones);
}

#[test]
fn who_waits_hears_of_other_maxima() {
    let semaphore = Semaphore { keeper: true, changes: &[2, 1], ..CALM };
    semaphore.proves(30_674, &[ONE, TWO, "finds another maximum"]);
}

#[test]
fn who_waits_for_more_than_there_will_be_fails() {
    let semaphore = Semaphore { wants: &[1, 2], keeper: true, changes: &[1], ..ROOMY };
    semaphore.proves(8_662, &[ONE, TWO, "wants too many", "finds another maximum"]);
}

#[test]
fn one_survives_a_fault() {
    Semaphore { wants: &[2], ..ROOMY }.faults(1).impatient().proves(4_049, &SURVIVED);
}

#[test]
fn one_survives_a_refusal() {
    let semaphore = Semaphore { wants: &[2], fresh: true, ..ROOMY };
    let milestones = [ONE, "adopts", "creates again", "gives up", "is refused"];
    semaphore.refusals(1).impatient().proves(1_829, &milestones);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn one_survives_two_faults() {
    let milestones = [&SURVIVED[..], &["loses its session", "ends with its session"]].concat();
    Semaphore { wants: &[2], ..ROOMY }.faults(2).impatient().proves(78_461, &milestones);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn one_survives_a_refusal_and_a_fault() {
    let semaphore = Semaphore { wants: &[2], fresh: true, ..ROOMY };
    let milestones = [&SURVIVED[..], &["is refused"]].concat();
    semaphore.faults(1).refusals(1).impatient().proves(87_715, &milestones);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn two_survive_a_fault() {
    CALM.faults(1).impatient().proves(1_561_116, &[&SURVIVED[..], &[TWO]].concat());
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn one_that_keeps_a_permit_is_in_nobodys_way() {
    let semaphore = Semaphore { wants: &[1, 1, 1], keeper: true, ..ROOMY };
    semaphore.proves(98_579, &[ONE, TWO, THREE]);
}

// ---- Negative controls ---------------------------------------------------------------------------

#[test]
fn counting_before_creating_grants_too_much() {
    // Somebody deletes the place of the first, so that there are two who count (H43).
    let wrong = "1 is granted permits that there are not";
    CALM.faults(1).refutes(Flaw::CountedBeforeCreated, wrong, 10);
}

#[test]
fn watching_one_lease_misses_the_end_of_others() {
    // The permit node that is watched stays, another one goes (H42).
    let semaphore = Semaphore { wants: &[1, 1, 1], keeper: true, ..ROOMY };
    semaphore.refutes(Flaw::OnePermitWatched(2), "2 waits for ever", 24);
}

#[test]
fn permits_one_at_a_time_keep_two_waiting_for_ever() {
    // Each has one of two and wants the other (H44).
    let semaphore = Semaphore { wants: &[1; 4], one_at_a_time: true, ..ROOMY };
    search::refute(semaphore.world(), "0 waits for ever", 27);
}

#[test]
fn a_maximum_that_is_not_watched_keeps_waiters_waiting() {
    // It is raised, and nobody hears it (H45).
    let semaphore = Semaphore { keeper: true, changes: &[2], ..CALM };
    semaphore.refutes(Flaw::DataUnwatched, "1 waits for ever", 17);
}
