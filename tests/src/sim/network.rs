//! What lies between clients and members.

use super::*;

/// One in so many pieces takes much longer.
const SLOW: u32 = 64;

impl Sim {
    /// A client tries to connect.
    fn dial(&mut self, client: usize, member: usize) {
        let id = LinkId(self.next_link);
        self.next_link += 1;
        // Some sockets take little, so that requests are cut in the middle.
        let window = if self.rng.u8(..4) == 0 { self.rng.usize(32..256) } else { 1 << 16 };
        self.links.insert(id, Link::new(client, member, window));
        self.slots[client].link = Some(id);
        self.send(id, Direction::Up, Segment::Open);
    }

    /// A client leaves its connection. What it has sent still arrives.
    pub(super) fn hang_up(&mut self, client: usize) {
        if let Some(id) = self.slots[client].link.take() {
            if let Some(link) = self.links.get_mut(&id) {
                link.down.cut(self.now, Tail { bytes: 0, silent: true });
            }
            self.send(id, Direction::Up, Segment::End);
        }
    }

    /// When something arrives that is sent now.
    fn arrival(&mut self) -> Duration {
        let jitter = self.rng.u64(..2_000);
        let factor = if self.rng.u32(..SLOW) == 0 { 20 } else { 1 };
        self.now + self.options.latency + Duration::from_micros(jitter) * factor
    }

    fn send(&mut self, id: LinkId, direction: Direction, segment: Segment) {
        let at = self.arrival();
        if let Some(link) = self.links.get_mut(&id)
            && let Some(at) = link.pipe(direction).push(at, segment)
        {
            self.queue.schedule(at, Occurrence::Arrival(id, direction));
        }
    }

    /// Cuts the connection of a client, if it has one.
    pub(super) fn cut_link(&mut self, client: usize, cut: Cut) {
        let Some(id) = self.slots[client].link else { return };
        let Some(link) = self.links.get_mut(&id) else { return };
        for (direction, tail) in Direction::ALL.into_iter().zip([cut.up, cut.down]) {
            if let Some(at) = link.pipe(direction).cut(self.now, tail) {
                self.queue.schedule(at, Occurrence::Arrival(id, direction));
            }
        }
    }

    /// A client asks a member whether it can write.
    fn probe(&mut self, client: usize, member: usize) {
        let incarnation = self.slots[client].incarnation;
        let at = self.arrival();
        self.queue.schedule(at, Occurrence::Probe(Probe { client, incarnation, member }));
    }

    pub(super) fn arrive_probe(&mut self, probe: Probe) {
        self.trace.bytes(self.now, "question from client", probe.client as u64, &[]);
        // What does not arrive now is not waited for.
        let is_blocked = Direction::ALL.into_iter().any(|direction| {
            let until = self.blocked.get(&(probe.client, probe.member, direction));
            until.is_some_and(|until| *until > self.now)
        });
        if !is_blocked && let Some(conn) = self.ensemble.handle_connect(probe.member) {
            self.probes.insert(conn, probe);
            self.ensemble.handle_bytes(self.now, conn, b"isro");
            self.drain_ensemble();
        }
    }

    pub(super) fn arrive_probed(&mut self, probe: Probe, read_write: bool) {
        let slot = &mut self.slots[probe.client];
        if slot.paused_until > self.now {
            let at = slot.paused_until;
            return self.queue.schedule(at, Occurrence::Probed(probe, read_write));
        }
        if let Some(machine) = &mut slot.machine
            && slot.incarnation == probe.incarnation
        {
            self.trace.bytes(self.now, "answer for client", probe.client as u64, &[]);
            machine.handle_probed(self.now, probe.member, read_write);
            self.drain_client(probe.client);
        }
    }

    /// Closes the members' ends of connections that no client has, as keep-alive does.
    pub(super) fn reap_half_open(&mut self) {
        let owned: Vec<_> = self.slots.iter().filter_map(|slot| slot.link).collect();
        let mut orphans: Vec<_> =
            self.conns.iter().filter(|(_, id)| !owned.contains(id)).map(|(c, _)| *c).collect();
        orphans.sort_unstable();
        for conn in orphans {
            self.conns.remove(&conn);
            self.ensemble.handle_disconnect(conn);
        }
    }

    /// Something may have arrived.
    pub(super) fn arrive(&mut self, id: LinkId, direction: Direction) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let client = link.client;
        let is_current = self.slots[client].link == Some(id);
        let mut open_at =
            self.blocked.get(&(client, link.member, direction)).copied().unwrap_or_default();
        if direction == Direction::Down && is_current {
            open_at = open_at.max(self.slots[client].paused_until);
        }
        if open_at > self.now {
            return self.queue.schedule(open_at, Occurrence::Arrival(id, direction));
        }
        let Some(segment) = link.pipe(direction).pop(self.now) else { return };
        match direction {
            Direction::Up => self.arrive_at_member(id, segment),
            Direction::Down if is_current => self.arrive_at_client(client, segment),
            Direction::Down => {}
        }
        let is_left = |link: &Link| self.slots[link.client].link != Some(id) && link.is_over();
        if self.links.get(&id).is_some_and(is_left) {
            self.links.remove(&id);
        }
    }

    fn arrive_at_member(&mut self, id: LinkId, segment: Segment) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let client = link.client;
        match (segment, link.conn) {
            (Segment::Open, _) => {
                self.trace.bytes(self.now, "call from client", client as u64, &[]);
                link.conn = self.ensemble.handle_connect(link.member);
                match link.conn {
                    Some(conn) => {
                        self.conns.insert(conn, id);
                        self.send(id, Direction::Down, Segment::Open);
                    }
                    None => self.send(id, Direction::Down, Segment::End),
                }
            }
            (Segment::Bytes(bytes), Some(conn)) => {
                self.trace.bytes(self.now, "bytes from client", client as u64, &bytes);
                self.ensemble.handle_bytes(self.now, conn, &bytes);
            }
            (Segment::End, Some(conn)) => {
                self.trace.bytes(self.now, "end from client", client as u64, &[]);
                link.conn = None;
                self.conns.remove(&conn);
                self.ensemble.handle_disconnect(conn);
            }
            (Segment::Bytes(_) | Segment::End, None) => {}
        }
        self.drain_ensemble();
        // There is room for more now.
        if self.slots[client].paused_until <= self.now {
            self.drain_client(client);
        }
    }

    fn arrive_at_client(&mut self, client: usize, segment: Segment) {
        let slot = &mut self.slots[client];
        let Some(machine) = &mut slot.machine else { return };
        let who = client as u64;
        match segment {
            Segment::Open => {
                self.trace.bytes(self.now, "connection for client", who, &[]);
                machine.handle_connected(self.now);
            }
            Segment::Bytes(bytes) => {
                self.trace.bytes(self.now, "bytes for client", who, &bytes);
                machine.handle_bytes(self.now, &bytes);
            }
            Segment::End => {
                self.trace.bytes(self.now, "end for client", who, &[]);
                slot.link = None;
                machine.handle_disconnected(self.now);
            }
        }
        self.drain_client(client);
    }

    /// Does what the ensemble wants.
    pub(super) fn drain_ensemble(&mut self) {
        while let Some(output) = self.ensemble.poll_output() {
            match output {
                Output::Send { conn, frame } if self.probes.contains_key(&conn) => {
                    if let Some(probe) = self.probes.remove(&conn) {
                        let at = self.arrival();
                        self.queue.schedule(at, Occurrence::Probed(probe, *frame == *b"rw"));
                    }
                }
                Output::Send { conn, mut frame } => {
                    let Some(id) = self.conns.get(&conn).copied() else { continue };
                    let cut = if self.rng.u8(..8) == 0 { self.rng.usize(..frame.len()) } else { 0 };
                    if cut > 0 {
                        self.send(id, Direction::Down, Segment::Bytes(frame.split_to(cut)));
                    }
                    self.send(id, Direction::Down, Segment::Bytes(frame));
                }
                Output::Close { conn } => {
                    let Some(id) = self.conns.remove(&conn) else { continue };
                    if let Some(link) = self.links.get_mut(&id) {
                        link.conn = None;
                    }
                    self.send(id, Direction::Down, Segment::End);
                }
            }
        }
    }

    /// Does what a client wants.
    pub(super) fn drain_client(&mut self, client: usize) {
        while let Some(machine) = &mut self.slots[client].machine
            && let Some(action) = machine.poll_action()
        {
            match action {
                Action::Probe(member) => self.probe(client, member),
                Action::Disconnect => self.hang_up(client),
                Action::Connect(member) => {
                    self.hang_up(client);
                    self.dial(client, member);
                }
            }
        }
        self.listen(client);
        while let Some(id) = self.slots[client].link
            && let Some(link) = self.links.get(&id)
            && let Some(room) = link.window.checked_sub(link.up.in_flight).filter(|room| *room > 0)
            && let Some(machine) = &mut self.slots[client].machine
        {
            let bytes = machine.transmit(self.now, room);
            if bytes.is_empty() {
                break;
            }
            self.send(id, Direction::Up, Segment::Bytes(bytes));
        }
        self.plan(client);
    }

    /// Tells the judge and the habits of a client what it tells.
    fn listen(&mut self, client: usize) {
        let slot = &mut self.slots[client];
        let Some(machine) = &mut slot.machine else { return };
        while let Some(note) = machine.poll_note() {
            self.trace.say(self.now, format_args!("client {client}: {note:?}"));
            slot.habits.hear(self.now, &note);
            self.judge.hear(slot.incarnation, machine.id(), &note, &self.ensemble);
        }
        // Who was paused until now does only now what was due.
        let due = if slot.paused_until < self.now { self.now } else { Duration::ZERO };
        self.judge.look_at_client(due, slot.incarnation, machine);
    }
}
