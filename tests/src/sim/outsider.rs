//! Third parties: clients of other programs, which write to the leader without delay.

use zk_proto::{
    Acl, ConnectRequest, CreateMode, CreateRequest, DeleteRequest, Password, Perms, Request,
    RequestHeader, SessionId, SetAclRequest, Xid, Zxid, frame,
};

use super::behaviour::{DOUBLE_BARRIER, MUTEX, SHARED};
use super::*;

/// The shortest session timeout. Nodes of a third party stay about as long.
const TIMEOUT: Duration = Duration::from_secs(4);
/// The parents of contenders, and the names of exclusive ones.
const QUEUES: [(&str, &str); 4] = [
    ("/locks/mutex", "-lock-"),
    ("/locks/shared", "-__WRIT__"),
    ("/locks/permits/locks", "-lock-"),
    ("/locks/often", "-lock-"),
];
/// The same for [`Targets::Recipes`].
const QUEUES_OF_RECIPES: [(&str, &str); 4] =
    [(MUTEX, "-lock-"), (SHARED, "-__WRIT__"), (DOUBLE_BARRIER, "-member-"), (TEXTBOOK, "-lock-")];
/// The parent of the textbook lock.
const TEXTBOOK: &str = "/textbook";
/// Other nodes whose access control list changes.
const NODES: [&str; 5] =
    ["/registers/0", "/registers/1", "/signals", "/made", "/locks/permits/leases"];
/// Without the permission to delete, nodes of released locks would stay. Without the permission to
/// read, servers withhold watch events, and the checker would miss those of other nodes.
const FORBIDDEN: [Perms; 3] = [Perms::READ, Perms::WRITE, Perms::CREATE];

/// # Third parties
impl Sim {
    /// Sends requests on a session of their own, if there is a leader. The session expires later.
    fn write_outside(&mut self, requests: &[Request<'_>]) {
        let leader = self.ensemble.leader();
        let Some(conn) = leader.and_then(|leader| self.ensemble.handle_connect(leader)) else {
            return;
        };
        let handshake = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid::ZERO,
            timeout: TIMEOUT.as_millis() as i32,
            session_id: SessionId::NONE,
            password: Some(&Password::NONE.0),
            read_only: Some(false),
        };
        let mut bytes = Vec::new();
        frame::encode(&handshake, &mut bytes).expect("a short request");
        for (xid, request) in (1..).zip(requests) {
            let header = RequestHeader { xid: Xid(xid), opcode: request.opcode() };
            frame::encode(&(header, request), &mut bytes).expect("a short request");
        }
        self.ensemble.handle_bytes(self.now, conn, &bytes);
        self.ensemble.handle_disconnect(conn);
        self.drain_ensemble();
    }

    /// Closes the session of a third party after these requests.
    fn write_outside_and_close(&mut self, request: Request<'_>) {
        self.write_outside(&[request, Request::CloseSession(())]);
    }

    /// Enqueues contenders of one third party. They leave when its session expires.
    pub fn contend_outside(&mut self, queue: usize, contenders: usize) {
        let (parent, marker) = self.queues()[queue % QUEUES.len()];
        let guids: Vec<_> = (0..contenders).map(|_| self.rng.u128(..)).collect();
        // As go-zk, without dashes in the GUID.
        let path = |guid: &u128| format!("{parent}/_c_{guid:032x}{marker}");
        let paths: Vec<_> = guids.iter().map(path).collect();
        const OPEN: &[Acl<'static>] = &[Acl::OPEN];
        let create = |path| CreateRequest {
            path,
            data: None,
            acl: OPEN.into(),
            mode: CreateMode::EPHEMERAL_SEQUENTIAL,
        };
        let requests: Vec<_> =
            paths.iter().map(|path| Request::Create(create(path.as_str()))).collect();
        self.write_outside(&requests);
    }

    /// Deletes the node of a contender, if there is one.
    pub fn clean_outside(&mut self, queue: usize) {
        if let Some(path) = self.contender(queue) {
            self.delete_outside(&path);
        }
    }

    /// Deletes a node, if it exists.
    pub fn delete_outside(&mut self, path: &str) {
        self.write_outside_and_close(Request::Delete(DeleteRequest { path, version: -1 }));
    }

    /// Forbids an operation on a node until [`permit_outside`](Self::permit_outside).
    pub fn forbid_outside(&mut self, node: usize) {
        let node = node % (NODES.len() + QUEUES.len() * 2);
        // A textbook lock must be able to read its node.
        let is_textbook = self.options.targets == Targets::Recipes
            && node >= NODES.len() + QUEUES.len()
            && self.queues()[node % QUEUES.len()].0 == TEXTBOOK;
        let first = usize::from(node < NODES.len() || is_textbook);
        let forbidden = FORBIDDEN[self.rng.usize(first..FORBIDDEN.len())];
        let path = match node {
            place if place < NODES.len() => Some(NODES[place].to_owned()),
            place if place < NODES.len() + QUEUES.len() => {
                Some(self.queues()[place - NODES.len()].0.to_owned())
            }
            place => self.contender(place),
        };
        if let Some(path) = path {
            self.set_acl_outside(&path, Perms(Perms::ALL.0 & !forbidden.0));
            self.forbidden.insert(path);
        }
    }

    /// Permits everything again.
    pub fn permit_outside(&mut self) {
        for path in core::mem::take(&mut self.forbidden) {
            self.set_acl_outside(&path, Perms::ALL);
        }
    }

    fn set_acl_outside(&mut self, path: &str, perms: Perms) {
        let acl = [Acl { perms, ..Acl::OPEN }];
        let request = SetAclRequest { path, acl: acl[..].into(), version: -1 };
        self.write_outside_and_close(Request::SetAcl(request));
    }

    fn queues(&self) -> &'static [(&'static str, &'static str); 4] {
        match self.options.targets {
            Targets::Locks | Targets::Tasks | Targets::Crowd => &QUEUES,
            Targets::Recipes => &QUEUES_OF_RECIPES,
        }
    }

    fn contender(&mut self, queue: usize) -> Option<String> {
        let (parent, _) = self.queues()[queue % QUEUES.len()];
        let children: Vec<_> = self.ensemble.node(parent)?.children().collect();
        let child = *children.get(self.rng.usize(..children.len().max(1)))?;
        Some(format!("{parent}/{child}"))
    }
}
