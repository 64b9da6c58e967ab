//! The virtual network between clients and servers.

use super::*;

/// One in this many pieces is delayed much longer.
const SLOW: u32 = 64;

impl Sim {
    /// Opens a connection of a client.
    fn dial(&mut self, client: usize, server: usize) {
        let id = LinkId(self.next_link);
        self.next_link += 1;
        // Some send buffers are small, so that requests are split.
        let window = if self.rng.u8(..4) == 0 { self.rng.usize(32..256) } else { 1 << 16 };
        self.links.insert(id, Link::new(client, server, window));
        self.slots[client].link = Some(id);
        self.send(id, Direction::Up, Segment::Open);
    }

    /// Closes the connection of a client. Bytes already sent still arrive.
    pub(super) fn hang_up(&mut self, client: usize) {
        if let Some(id) = self.slots[client].link.take() {
            if let Some(link) = self.links.get_mut(&id) {
                link.down.cut(self.now, Tail { bytes: 0, silent: true });
            }
            self.send(id, Direction::Up, Segment::End);
        }
    }

    /// Returns the arrival time of bytes sent now.
    fn arrival(&mut self) -> Duration {
        let jitter = self.rng.u64(..2_000);
        let factor = if self.rng.u32(..SLOW) == 0 { 20 } else { 1 };
        self.now + self.options.latency + Duration::from_micros(jitter) * factor
    }

    fn send(&mut self, id: LinkId, direction: Direction, segment: Segment) {
        let mut at = self.arrival();
        if let Some(link) = self.links.get(&id) {
            let (delay, until) = self.slots[link.client].slow;
            at += if self.now < until { delay } else { Duration::ZERO };
        }
        if let (Some(link), Segment::Bytes(bytes)) = (self.links.get(&id), &segment) {
            let (client, server, bytes) = (link.client, link.server, bytes);
            self.trace.wire(self.now, || What::Sent {
                link: id,
                client,
                server,
                direction,
                bytes: bytes.clone(),
            });
        }
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

    /// Sends a probe of a client to a server.
    fn probe(&mut self, client: usize, server: usize) {
        let incarnation = self.slots[client].incarnation;
        let at = self.arrival();
        self.queue.schedule(at, Occurrence::Probe(Probe { client, incarnation, server }));
    }

    pub(super) fn arrive_probe(&mut self, probe: Probe) {
        self.trace.bytes(self.now, "probe from client", probe.client as u64, &[]);
        // A blocked probe is lost, not delayed.
        let is_blocked = Direction::ALL.into_iter().any(|direction| {
            let until = self.blocked.get(&(probe.client, probe.server, direction));
            until.is_some_and(|until| *until > self.now)
        });
        if !is_blocked && let Some(conn) = self.ensemble.handle_connect(probe.server) {
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
            self.trace.bytes(self.now, "probe answer for client", probe.client as u64, &[]);
            let mut servers = machine.servers().iter().map(following::number);
            let place = match servers.len() {
                0 => Some(probe.server),
                _ => servers.position(|server| server == probe.server),
            };
            if let Some(place) = place {
                machine.handle_probed(self.now, place, read_write);
            }
            self.drain_client(probe.client);
        }
    }

    /// Closes connections that no client has any more on the servers, as TCP keep-alive does.
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

    /// Delivers the next segment of a connection if it is due.
    pub(super) fn arrive(&mut self, id: LinkId, direction: Direction) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let client = link.client;
        let is_current = self.slots[client].link == Some(id);
        let mut open_at =
            self.blocked.get(&(client, link.server, direction)).copied().unwrap_or_default();
        if direction == Direction::Down && is_current {
            open_at = open_at.max(self.slots[client].paused_until);
        }
        if open_at > self.now {
            return self.queue.schedule(open_at, Occurrence::Arrival(id, direction));
        }
        let Some(segment) = link.pipe(direction).pop(self.now) else { return };
        if let Segment::Bytes(bytes) = &segment {
            self.trace.wire(self.now, || What::Arrived(id, direction, bytes.len()));
        }
        match direction {
            Direction::Up => self.arrive_at_server(id, segment),
            Direction::Down if is_current => self.arrive_at_client(client, segment),
            Direction::Down => {}
        }
        let is_left = |link: &Link| self.slots[link.client].link != Some(id) && link.is_over();
        if self.links.get(&id).is_some_and(is_left) {
            self.links.remove(&id);
        }
    }

    fn arrive_at_server(&mut self, id: LinkId, segment: Segment) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let client = link.client;
        match (segment, link.conn) {
            (Segment::Open, _) => {
                self.trace.bytes(self.now, "call from client", client as u64, &[]);
                link.conn = self.ensemble.handle_connect(link.server);
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
        // The send buffer has room again.
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

    /// Executes all outputs of the ensemble.
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

    /// Executes all actions of a client and sends its bytes.
    pub(super) fn drain_client(&mut self, client: usize) {
        while let Some(machine) = &mut self.slots[client].machine
            && let Some(action) = machine.poll_action()
        {
            let number = |server| machine.servers().get(server).map_or(server, following::number);
            match action {
                Action::Probe(server) => {
                    let server = number(server);
                    self.probe(client, server);
                }
                Action::Disconnect => self.hang_up(client),
                Action::Connect(server) => {
                    let server = number(server);
                    self.hang_up(client);
                    self.dial(client, server);
                }
            }
        }
        self.deliver_events(client);
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

    /// Passes the events of a client to its behaviour and to the checker.
    fn deliver_events(&mut self, client: usize) {
        let slot = &mut self.slots[client];
        let Some(machine) = &mut slot.machine else { return };
        while let Some(event) = machine.poll_event() {
            self.trace.moment(self.now, || What::Client(client, event.clone()));
            slot.behaviour.handle_event(self.now, &event);
            let who = (slot.incarnation, &*machine);
            self.checker.handle_event(self.now, who, &event, &self.ensemble);
            if let ClientEvent::State(State::Connected { .. } | State::ReadOnly { .. }) = event
                && machine.authenticates()
            {
                let who = (slot.incarnation, machine.id());
                self.checker.check_exchange(who, &self.ensemble);
            }
        }
        // A client whose pause ends now handles its timeouts only now.
        let due = if slot.paused_until < self.now { self.now } else { Duration::ZERO };
        self.checker.check_client(due, slot.incarnation, machine);
    }
}
