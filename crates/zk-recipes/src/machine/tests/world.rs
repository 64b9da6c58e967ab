//! A small world for the machine: one directory on an ensemble whose members lag, and sessions
//! that are cut, resume elsewhere and expire. Every step is an [`Action`]; what may go wrong is
//! taken from a budget, so the world is finite and can be explored as a whole.
//!
//! It is a model of what a server promises, not of one server. Transactions are ordered; a member
//! applies them in order and answers a session in order; a session does not go back in time, since
//! it resumes only where all is known that it has seen; a watch fires once, in order with replies,
//! or after a resumption in the order of paths.

mod always;
mod session;

use alloc::collections::{BTreeSet, VecDeque};
use alloc::rc::Rc;
use core::fmt::{self, Write as _};
use core::hash::{Hash, Hasher};
use std::hash::DefaultHasher;

use zk_session::Outcome;

use super::*;

const DIRECTORY: &str = "/lock";

/// A transaction's place in the log, and the state of the tree that it leads to.
type Index = u8;
/// A node, by its number in the directory.
type NodeId = usize;

/// What the world is like, and how much may go wrong in it.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) contenders: usize,
    pub(super) members: usize,
    /// Connections cut, sessions expired, and nodes deleted by somebody else.
    pub(super) faults: usize,
    /// Contenders that let go before they have the lock.
    pub(super) impatient: usize,
    /// Whether news of the session overtakes answers that were received before, as they do when
    /// they go through different channels.
    pub(super) overtaking: bool,
    pub(super) flaw: Option<Flaw>,
}

/// What is broken on purpose, to see that it would be noticed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    /// A sync is answered without waiting, as if the list were not sent behind one.
    NoSync,
    /// A sync that was lost passes for one that was answered.
    LostSyncTrusted,
    /// The watch on our own node is never set, although it is confirmed.
    NoWatchOnOwnNode,
    /// A waiter does not hear that its connection was replaced.
    ReconnectUnnoticed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The member answers the next request of this contender.
    Serve(usize),
    /// The contender hears the next thing.
    Hear(usize),
    Timer(usize),
    LetGo(usize),
    /// The connection goes. Of what the member had sent, so much was received; of what it had not
    /// answered, so much was sent, and of that so much has its effect.
    Cut {
        contender: usize,
        received: usize,
        sent: usize,
        applied: usize,
    },
    Resume {
        contender: usize,
        member: usize,
    },
    Expire(usize),
    /// Somebody deletes a node.
    Meddle(NodeId),
    /// The member applies the next transaction.
    CatchUp {
        member: usize,
    },
}

/// What is to happen somewhere in every world that is large enough for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sight {
    Acquired(usize),
    AcquiredWithoutAnotherRequest,
    Adopted,
    CreatedAgain,
    Resumed,
    LostToMeddling,
    LostToExpiry,
    Vanished,
    ReleasedBeforeAcquired,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Wish {
    Create,
    List,
    Sync,
    Stat(NodeId),
    Watch(NodeId),
    Delete(NodeId),
}

#[derive(Clone, Copy, Hash)]
enum Answer {
    Done,
    Created(NodeId),
    NoNode,
    Lost,
    Ended,
}

/// What a member sends.
#[derive(Clone, Copy, Hash)]
enum Message {
    Reply(Answer, Index),
    Deleted(NodeId, Index),
}

/// What a session tells.
#[derive(Clone, Copy, Hash)]
enum News {
    Reply(u64, Wish, Answer, Index),
    Deleted(u64, Index),
    Suspended,
    Connected,
    Expired,
}

impl News {
    fn is_state(&self) -> bool {
        matches!(self, Self::Suspended | Self::Connected | Self::Expired)
    }
}

#[derive(Clone, Hash)]
struct LockNode {
    owner: usize,
    created: Index,
    deleted: Option<Index>,
}

impl LockNode {
    fn exists_at(&self, index: Index) -> bool {
        self.created <= index && self.deleted.is_none_or(|deleted| deleted > index)
    }
}

#[derive(Clone, Hash)]
struct SessionWatch {
    op: u64,
    node: NodeId,
    armed: bool,
}

/// What a contender has told.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Told {
    Nothing,
    Held,
    Suspended,
    Over,
}

/// A contender, and the session that it has for itself.
#[derive(Clone)]
struct Party {
    machine: Rc<Contender>,
    /// Stands for the state of `machine`.
    fingerprint: u64,
    told: Told,
    let_go: bool,
    timer: bool,
    /// How often it has asked for a node.
    creations: usize,
    /// When it got the lock, and the token.
    grant: Option<(Index, Index)>,
    member: Option<usize>,
    /// As the ensemble knows it.
    expired: bool,
    /// As the session knows it.
    ended: bool,
    seen: Index,
    /// Requests without an answer, the oldest first.
    asked: VecDeque<(u64, Wish)>,
    /// To how many of these an answer is on its way.
    served: usize,
    wire: VecDeque<Message>,
    inbox: VecDeque<News>,
    watches: Vec<SessionWatch>,
    watches_of_member: BTreeSet<NodeId>,
}

impl Party {
    fn has_news(&self) -> bool {
        !self.inbox.is_empty() || !self.wire.is_empty()
    }
}

impl Hash for Party {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { fingerprint, told, let_go, timer, creations, grant, .. } = self;
        (fingerprint, told, let_go, timer, creations, grant).hash(state);
        (self.member, self.expired, self.ended, self.seen, self.served).hash(state);
        (&self.asked, &self.wire, &self.inbox, &self.watches, &self.watches_of_member).hash(state);
    }
}

#[derive(Clone)]
pub(super) struct World {
    bounds: Bounds,
    faults: usize,
    impatient: usize,
    nodes: Vec<LockNode>,
    log: Index,
    members: Vec<Index>,
    parties: Vec<Party>,
    pub(super) sights: BTreeSet<Sight>,
}

struct HashedText<'a>(&'a mut DefaultHasher);

impl fmt::Write for HashedText<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

fn fingerprint(machine: &Contender) -> u64 {
    let mut hasher = DefaultHasher::new();
    machine.hash_into(&mut HashedText(&mut hasher)).expect("hashing does not fail");
    hasher.finish()
}

fn guid(contender: usize) -> Uuid {
    Uuid::from_u128(contender as u128 + 1)
}

fn session(contender: usize) -> SessionId {
    SessionId(contender as i64 + 1)
}

impl World {
    pub(super) fn new(bounds: Bounds) -> Self {
        let party = |contender| Party {
            machine: Rc::new(Contender::new(Contest::new(
                DIRECTORY.to_string(),
                SCHEME,
                guid(contender),
                session(contender),
            ))),
            fingerprint: 0,
            told: Told::Nothing,
            let_go: false,
            timer: false,
            creations: 0,
            grant: None,
            member: Some(0),
            expired: false,
            ended: false,
            seen: 0,
            asked: VecDeque::new(),
            served: 0,
            wire: VecDeque::new(),
            inbox: VecDeque::new(),
            watches: Vec::new(),
            watches_of_member: BTreeSet::new(),
        };
        let mut world = Self {
            bounds,
            faults: bounds.faults,
            impatient: bounds.impatient,
            nodes: Vec::new(),
            log: 0,
            members: alloc::vec![0; bounds.members],
            parties: (0..bounds.contenders).map(party).collect(),
            sights: BTreeSet::new(),
        };
        for contender in 0..bounds.contenders {
            world.perform(contender, None, None).expect("nothing has happened");
        }
        world
    }

    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.faults, self.impatient, &self.nodes, self.log).hash(&mut hasher);
        (&self.members, &self.parties).hash(&mut hasher);
        hasher.finish()
    }

    // ---- Steps ---------------------------------------------------------------------------------

    /// What can happen by itself, and what can go wrong.
    pub(super) fn actions(&self) -> (Vec<Action>, Vec<Action>) {
        let (mut steps, mut faults) = (Vec::new(), Vec::new());
        // What a contender does when it hears something touches nobody else before its next
        // request is served. So it may as well happen now, unless a cut can take away what is to
        // be heard, or news can overtake it.
        let safe = |party: &Party| {
            (self.faults == 0 && party.member.is_some() && party.has_news())
                || (!self.bounds.overtaking && !party.inbox.is_empty())
        };
        if let Some(contender) = self.parties.iter().position(safe) {
            self.local_actions(contender, &mut steps, &mut faults);
            return (steps, faults);
        }
        let lagging = |member: &usize| self.members[*member] < self.log;
        steps.extend(
            (0..self.members.len()).filter(lagging).map(|member| Action::CatchUp { member }),
        );
        for (contender, party) in self.parties.iter().enumerate() {
            if party.machine.is_done() {
                continue;
            }
            if party.member.is_some() && party.served < party.asked.len() {
                steps.push(Action::Serve(contender));
            }
            self.local_actions(contender, &mut steps, &mut faults);
            if party.member.is_none() && !party.ended {
                let known = |member: &usize| self.members[*member] >= party.seen;
                let members = (0..self.members.len()).filter(known);
                steps.extend(members.map(|member| Action::Resume { contender, member }));
            }
            if self.faults > 0 {
                faults.extend(self.cuts(contender));
                if party.member.is_none() && !party.expired {
                    faults.push(Action::Expire(contender));
                }
            }
        }
        if self.faults > 0 {
            let there = |node: &NodeId| self.nodes[*node].exists_at(self.log);
            faults.extend((0..self.nodes.len()).filter(there).map(Action::Meddle));
        }
        (steps, faults)
    }

    fn local_actions(&self, contender: usize, steps: &mut Vec<Action>, faults: &mut Vec<Action>) {
        let party = &self.parties[contender];
        if party.has_news() {
            steps.push(Action::Hear(contender));
        }
        if party.timer {
            steps.push(Action::Timer(contender));
        }
        if !party.let_go {
            match party.told {
                Told::Held | Told::Suspended => steps.push(Action::LetGo(contender)),
                _ if self.impatient > 0 => faults.push(Action::LetGo(contender)),
                _ => {}
            }
        }
    }

    fn cuts(&self, contender: usize) -> Vec<Action> {
        let party = &self.parties[contender];
        let mut cuts = Vec::new();
        if party.member.is_none() {
            return cuts;
        }
        // Received and heard at once is the same as received before, unless news overtake.
        let most_received = if self.bounds.overtaking { party.wire.len() } else { 0 };
        let unserved = party.asked.len() - party.served;
        for received in 0..=most_received {
            for sent in 0..=unserved {
                for applied in 0..=sent {
                    cuts.push(Action::Cut { contender, received, sent, applied });
                }
            }
        }
        cuts
    }

    /// The world after `action`, or what is wrong with it.
    pub(super) fn after(&self, action: Action) -> Result<Self, String> {
        let mut world = self.clone();
        match action {
            Action::Serve(contender) => world.serve(contender),
            Action::Hear(contender) => world.hear(contender)?,
            Action::Timer(contender) => {
                world.parties[contender].timer = false;
                world.perform(contender, Some(Input::Timer), None)?;
            }
            Action::LetGo(contender) => {
                let party = &mut world.parties[contender];
                party.let_go = true;
                world.impatient -= usize::from(party.told == Told::Nothing);
                world.perform(contender, Some(Input::LetGo), None)?;
            }
            Action::Cut { contender, received, sent, applied } => {
                world.faults -= 1;
                world.cut(contender, received, sent, applied);
            }
            Action::Resume { contender, member } => world.resume(contender, member),
            Action::Expire(contender) => {
                world.faults -= 1;
                world.parties[contender].expired = true;
                let there = |node: &LockNode| node.owner == contender && node.deleted.is_none();
                if world.nodes.iter().any(there) {
                    world.log += 1;
                    for node in world.nodes.iter_mut().filter(|node| there(node)) {
                        node.deleted = Some(world.log);
                    }
                }
            }
            Action::Meddle(node) => {
                world.faults -= 1;
                world.delete(node);
            }
            Action::CatchUp { member } => world.apply_next(member),
        }
        if world.members.len() == 1 {
            world.catch_up(0);
        }
        world.check()?;
        Ok(world)
    }

    fn serve(&mut self, contender: usize) {
        let party = &self.parties[contender];
        let (wish, member) = (party.asked[party.served].1, party.member.expect("a connection"));
        // A write is answered by a member when it has applied it.
        if matches!(wish, Wish::Create | Wish::Delete(_)) {
            let answer = self.execute(contender, wish);
            self.catch_up(member);
            return self.send(contender, Message::Reply(answer, self.members[member]));
        }
        if wish == Wish::Sync && self.bounds.flaw != Some(Flaw::NoSync) {
            self.catch_up(member);
        }
        let now = self.members[member];
        let answer = match wish {
            Wish::Stat(node) | Wish::Watch(node) if !self.nodes[node].exists_at(now) => {
                Answer::NoNode
            }
            Wish::Watch(node) => {
                self.parties[contender].watches_of_member.insert(node);
                Answer::Done
            }
            _ => Answer::Done,
        };
        self.send(contender, Message::Reply(answer, now));
    }

    fn send(&mut self, contender: usize, reply: Message) {
        let party = &mut self.parties[contender];
        party.served += 1;
        party.wire.push_back(reply);
    }

    /// A write reaches the log.
    fn execute(&mut self, contender: usize, wish: Wish) -> Answer {
        match wish {
            Wish::Create => {
                self.log += 1;
                let node = LockNode { owner: contender, created: self.log, deleted: None };
                self.nodes.push(node);
                Answer::Created(self.nodes.len() - 1)
            }
            Wish::Delete(node) if self.delete(node) => Answer::Done,
            Wish::Delete(_) => Answer::NoNode,
            _ => Answer::Done,
        }
    }

    fn delete(&mut self, node: NodeId) -> bool {
        let exists = self.nodes[node].deleted.is_none();
        if exists {
            self.log += 1;
            self.nodes[node].deleted = Some(self.log);
        }
        exists
    }

    fn catch_up(&mut self, member: usize) {
        while self.members[member] < self.log {
            self.apply_next(member);
        }
    }

    fn apply_next(&mut self, member: usize) {
        self.members[member] += 1;
        let now = self.members[member];
        for (id, _) in self.nodes.iter().enumerate().filter(|(_, node)| node.deleted == Some(now)) {
            for party in self.parties.iter_mut().filter(|party| party.member == Some(member)) {
                if party.watches_of_member.remove(&id) {
                    party.wire.push_back(Message::Deleted(id, now));
                }
            }
        }
    }

    // ---- The machine ---------------------------------------------------------------------------

    /// Gives the machine an input and does what it wants.
    fn perform(
        &mut self,
        contender: usize,
        input: Option<Input>,
        news: Option<News>,
    ) -> Result<(), String> {
        let mut machine = (*self.parties[contender].machine).clone();
        if let Some(input) = input {
            machine.handle(input);
        }
        while let Some(output) = machine.poll_output() {
            let party = &mut self.parties[contender];
            match output {
                Output::SetTimer(_) => party.timer = true,
                Output::Unwatch(OpId(op)) => {
                    party.watches.retain(|watch| watch.op != op);
                    let watches = &party.watches;
                    party
                        .watches_of_member
                        .retain(|node| watches.iter().any(|watch| watch.node == *node));
                }
                Output::Submit { op: OpId(op), operation } => {
                    self.submit(contender, op, operation.with_request(wish));
                }
                Output::Event(event) => self.tell(contender, &event, news)?,
            }
        }
        let done = machine.is_done();
        let party = &mut self.parties[contender];
        party.fingerprint = fingerprint(&machine);
        party.machine = Rc::new(machine);
        if done {
            self.finish(contender)?;
        }
        Ok(())
    }

    fn submit(&mut self, contender: usize, op: u64, wish: Wish) {
        let party = &mut self.parties[contender];
        if party.ended {
            return party.inbox.push_back(News::Reply(op, wish, Answer::Ended, 0));
        }
        party.asked.push_back((op, wish));
        if wish == Wish::Create {
            party.creations += 1;
            if party.creations > 1 {
                self.sights.insert(Sight::CreatedAgain);
            }
        }
        if let Wish::Watch(node) = wish {
            let is_own = self.nodes[node].owner == contender;
            if !(is_own && self.bounds.flaw == Some(Flaw::NoWatchOnOwnNode)) {
                party.watches.push(SessionWatch { op, node, armed: false });
            }
        }
    }

    /// Nothing that is still outstanding may matter.
    fn finish(&mut self, contender: usize) -> Result<(), String> {
        let party = &mut self.parties[contender];
        let creating = party.asked.iter().any(|(_, wish)| *wish == Wish::Create);
        let left = |node: &LockNode| node.owner == contender && node.deleted.is_none();
        if party.told != Told::Over {
            return Err(format!("{contender} is done and has not told how"));
        }
        if !party.watches.is_empty() {
            return Err(format!("{contender} is done and leaves a watch"));
        }
        if creating || self.nodes.iter().any(left) {
            return Err(format!("{contender} is done and leaves a node"));
        }
        party.timer = false;
        party.served = 0;
        party.asked.clear();
        party.wire.clear();
        party.inbox.clear();
        party.watches_of_member.clear();
        Ok(())
    }
}

fn wish(request: &Request<'_>) -> Wish {
    let node = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let number = SCHEME.parse(name).expect("a lock node").sequence.0;
        usize::try_from(number).expect("a number of this world")
    };
    match request {
        Request::Create2(_) => Wish::Create,
        Request::Delete(delete) => Wish::Delete(node(delete.path)),
        Request::Exists(exists) => Wish::Stat(node(exists.path)),
        Request::Sync(_) => Wish::Sync,
        Request::GetChildren(list) if list.watch => Wish::Watch(node(list.path)),
        Request::GetChildren(_) => Wish::List,
        request => panic!("{request:?}"),
    }
}
