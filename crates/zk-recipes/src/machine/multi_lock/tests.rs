//! The order of locks, one attempt by hand, and every world of two attempts within bounds.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::ToString;
use core::fmt::Write;

use super::super::tests::search;
use super::*;

fn member(path: &str, demand: Demand) -> Member {
    Member { session: SessionId(1), root: "/".to_string(), path: path.to_string(), demand }
}

const fn place(mode: LockMode) -> Demand {
    Demand::Place { scheme: Scheme::CURATOR_READ_WRITE, mode }
}

const READ: Demand = place(LockMode::Shared);
const WRITE: Demand = place(LockMode::Exclusive);

#[test]
fn locks_are_taken_in_the_order_of_their_paths() {
    let members = ["/c", "/a", "/b"].map(|path| member(path, WRITE));
    assert_eq!(in_order(&members), Ok([1, 2, 0].map(|place| (place, WRITE)).to_vec()));
}

#[test]
fn what_is_given_twice_is_taken_once_in_a_way_that_satisfies_both() {
    let members = [member("/b", READ), member("/a", READ), member("/b", WRITE)];
    assert_eq!(in_order(&members), Ok([(1, READ), (0, WRITE)].to_vec()));
    let members = [1, 2, u32::MAX].map(|permits| member("/s", Demand::Permits(permits)));
    assert_eq!(in_order(&members[..2]), Ok([(0, Demand::Permits(3))].to_vec()));
    assert_eq!(in_order(&members), Ok([(0, Demand::Permits(u32::MAX))].to_vec()));
}

#[test]
fn what_does_not_go_together_is_refused() {
    let a = member("/a", READ);
    assert_eq!(in_order(&[]), Err(MultiLockError::Empty));
    let elsewhere = Member { session: SessionId(2), ..a.clone() };
    assert_eq!(in_order(&[a.clone(), elsewhere]), Err(MultiLockError::Sessions));
    let below = Member { root: "/app".to_string(), ..a.clone() };
    assert_eq!(in_order(&[a.clone(), below]), Err(MultiLockError::Chroots));
    let mutex = Demand::Place { scheme: Scheme::CURATOR_MUTEX, mode: LockMode::Exclusive };
    for other in [mutex, Demand::Permits(1)] {
        let refusal = Err(MultiLockError::Schemes { path: "/a".to_string() });
        assert_eq!(in_order(&[a.clone(), member("/a", other)]), refusal);
    }
}

// ---- One attempt ---------------------------------------------------------------------------------

fn wanted(together: &mut MultiAcquire) -> Vec<Wanted> {
    core::iter::from_fn(|| together.poll_output()).collect()
}

/// An attempt to take three locks that has got so many.
fn having(held: usize) -> MultiAcquire {
    let mut together = MultiAcquire::new(3);
    for place in 0..held {
        assert_eq!(wanted(&mut together), [Wanted::Enter(place)]);
        together.handle(Happening::Acquired);
    }
    together
}

#[test]
fn each_is_waited_for_when_the_one_before_it_is_held() {
    assert_eq!(wanted(&mut having(3)), [Wanted::Acquired]);
}

#[test]
fn when_one_cannot_be_had_all_are_let_go_the_last_one_first() {
    let busy = LockError::Busy;
    for (happening, to_blame, error) in [
        (Happening::Failed(busy.clone()), 2, busy),
        (Happening::TooLate, 2, LockError::TimedOut),
        (Happening::Lost(0, Loss::NodeDeleted), 0, LockError::Lost(Loss::NodeDeleted)),
    ] {
        let mut together = having(2);
        wanted(&mut together);
        together.handle(happening);
        let all = [2, 1, 0].map(Wanted::Release);
        assert_eq!(wanted(&mut together), [&all[..], &[Wanted::Failed(to_blame, error)]].concat());
    }
}

#[test]
fn letting_go_releases_the_last_one_first_and_ends_it() {
    for held in 0..=3 {
        let mut together = having(held);
        wanted(&mut together);
        together.handle(Happening::Release);
        let first = held.min(2);
        let all: Vec<_> = (0..=first).rev().map(Wanted::Release).collect();
        assert_eq!(wanted(&mut together), all);
        for late in [Happening::Acquired, Happening::TooLate, Happening::Release] {
            together.handle(late);
        }
        assert_eq!(wanted(&mut together), []);
    }
}

#[test]
fn what_is_held_is_not_given_up_for_anything_but_the_callers_wish() {
    let mut together = having(3);
    wanted(&mut together);
    for late in [Happening::TooLate, Happening::Lost(1, Loss::NodeDeleted)] {
        together.handle(late);
    }
    assert_eq!(wanted(&mut together), []);
}

// ---- Two attempts --------------------------------------------------------------------------------

/// Two who want the same locks, which they list in opposite orders. Each lock is a queue.
#[derive(Clone)]
struct World {
    queues: Vec<VecDeque<usize>>,
    clients: [Client; 2],
    faults: usize,
    milestones: BTreeSet<Milestone>,
}

#[derive(Clone, Debug)]
struct Client {
    together: MultiAcquire,
    /// Which of the queues comes when.
    order: Vec<usize>,
    told: Told,
    /// Whether it has heard that it is first in the queue that it is in last.
    heard: usize,
    release: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Acquired,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// It hears that the next lock is its own.
    Acquire(usize),
    Release(usize),
    TooLate(usize),
    Fail(usize),
    /// Somebody takes a lock away from whoever holds it.
    Lose(usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Milestone {
    Acquired(usize),
    Failed,
    Waited,
}

const LOCKS: usize = 3;

impl World {
    /// In canonical order, or as they are listed.
    fn new(faults: usize, is_ordered: bool) -> Self {
        let client = |paths: [&str; LOCKS]| {
            let members = paths.map(|path| member(path, WRITE));
            let order = in_order(&members).expect("they fit").into_iter();
            let places: Vec<_> = match is_ordered {
                true => order.map(|(place, _)| place).collect(),
                false => (0..LOCKS).collect(),
            };
            let queue = |place: usize| ["/a", "/b", "/c"].iter().position(|it| *it == paths[place]);
            Client {
                together: MultiAcquire::new(LOCKS),
                order: places.into_iter().filter_map(queue).collect(),
                told: Told::Nothing,
                heard: 0,
                release: false,
            }
        };
        let clients = [client(["/a", "/b", "/c"]), client(["/c", "/b", "/a"])];
        let queues = alloc::vec![VecDeque::new(); LOCKS];
        let mut world = Self { queues, clients, faults, milestones: BTreeSet::new() };
        for client in 0..2 {
            world.perform(client).expect("nothing has happened");
        }
        world
    }

    /// Does what the attempt wants.
    fn perform(&mut self, index: usize) -> Result<(), String> {
        while let Some(wanted) = self.clients[index].together.poll_output() {
            let client = &mut self.clients[index];
            match wanted {
                Wanted::Enter(place) => self.queues[client.order[place]].push_back(index),
                Wanted::Release(place) => {
                    let later = client.order[place + 1..].iter();
                    if later.into_iter().any(|queue| self.queues[*queue].contains(&index)) {
                        return Err(format!("{index} lets go of {place} before the next"));
                    }
                    client.heard = client.heard.min(place);
                    self.queues[client.order[place]].retain(|other| *other != index);
                }
                Wanted::Acquired => {
                    client.told = Told::Acquired;
                    self.milestones.insert(Milestone::Acquired(index));
                    if self.queues.iter().any(|queue| queue.front() != Some(&index)) {
                        return Err(format!("{index} does not have all"));
                    }
                }
                Wanted::Failed(..) => {
                    client.told = Told::Failed;
                    self.milestones.insert(Milestone::Failed);
                }
            }
        }
        let Client { told, release, .. } = self.clients[index];
        let is_over = release || told == Told::Failed;
        match is_over && self.queues.iter().any(|queue| queue.contains(&index)) {
            true => Err(format!("{index} keeps some")),
            false => Ok(()),
        }
    }
}

impl search::World for World {
    type Action = Action;
    type Milestone = Milestone;

    fn fingerprint(&self) -> u64 {
        let Self { queues, clients, faults, .. } = self;
        search::fingerprint(|text| write!(text, "{queues:?}{clients:?}{faults}"))
    }

    fn actions(&self) -> (Vec<Action>, Vec<Action>) {
        let (mut steps, mut faults) = (Vec::new(), Vec::new());
        for (index, client) in self.clients.iter().enumerate() {
            match client.told {
                _ if client.release => {}
                Told::Failed => {}
                Told::Acquired => steps.push(Action::Release(index)),
                Told::Nothing => {
                    let queue = &self.queues[client.order[client.heard]];
                    steps.extend((queue.front() == Some(&index)).then_some(Action::Acquire(index)));
                    if self.faults > 0 {
                        let whims = [Action::Release, Action::TooLate, Action::Fail];
                        faults.extend(whims.map(|whim| whim(index)));
                        faults.extend((0..client.heard).map(|place| Action::Lose(index, place)));
                    }
                }
            }
        }
        (steps, faults)
    }

    fn after(&self, action: Action) -> Result<Self, String> {
        let mut world = self.clone();
        let (index, happening) = match action {
            Action::Acquire(index) => (index, Happening::Acquired),
            Action::Release(index) => (index, Happening::Release),
            Action::TooLate(index) => (index, Happening::TooLate),
            Action::Fail(index) => (index, Happening::Failed(LockError::Busy)),
            Action::Lose(index, place) => (index, Happening::Lost(place, Loss::NodeDeleted)),
        };
        let client = &mut world.clients[index];
        if let Action::Lose(_, place) = action {
            // The others of its queue go on without it.
            world.queues[client.order[place]].retain(|other| *other != index);
        }
        client.heard += usize::from(action == Action::Acquire(index));
        if action == Action::Release(index) {
            client.release = true;
        }
        if client.told == Told::Nothing && action != Action::Acquire(index) {
            world.faults -= 1;
        }
        client.together.handle(happening);
        world.perform(index)?;
        if world.queues.iter().any(|queue| queue.len() > 1) {
            world.milestones.insert(Milestone::Waited);
        }
        Ok(world)
    }

    fn check_end(&self) -> Result<(), String> {
        let waits = |client: &Client| client.told == Told::Nothing && !client.release;
        match self.clients.iter().position(waits) {
            Some(index) => Err(format!("{index} waits for ever")),
            None => Ok(()),
        }
    }

    fn take_milestones(&mut self) -> BTreeSet<Milestone> {
        core::mem::take(&mut self.milestones)
    }
}

#[test]
fn two_who_want_the_same_never_wait_for_each_other_and_keep_all_or_none() {
    let milestones = [Milestone::Acquired(0), Milestone::Acquired(1), Milestone::Waited];
    search::prove(World::new(0, true), 9, &milestones);
    search::prove(World::new(2, true), 33, &[&milestones[..], &[Milestone::Failed]].concat());
}

#[test]
fn in_the_order_in_which_they_list_them_they_wait_for_each_other() {
    search::refute(World::new(0, false), "0 waits for ever", 3);
}
