//! Messages of a server as text, without what differs between two servers: clock times, session
//! ids, the zxid before the script, and unspecified orders.

use zk_proto::{ErrorCode, List, MultiReadResult, MultiResult, Response, SessionId, Stat, Zxid};
use zk_testkit::raw::{Message, Reply};

#[derive(Default)]
pub(crate) struct Render {
    /// The zxid from which others are counted.
    pub(crate) start: Zxid,
    /// The known sessions; each is printed by its index.
    pub(crate) sessions: Vec<SessionId>,
}

impl Render {
    pub(crate) fn message(&self, message: Option<&Message>) -> String {
        match message {
            None => "closed".into(),
            Some(Message::Connected(session)) => format!("connected for {}", session.timeout),
            Some(Message::Reply(reply)) => self.reply(reply),
            Some(other) => format!("{other:?}"),
        }
    }

    fn reply(&self, reply: &Reply) -> String {
        let header = reply.header;
        let zxid = self.relative(header.zxid);
        let body = match (header.err, reply.response()) {
            (ErrorCode::OK, None) => format!("undecodable {:?}", reply.body),
            (ErrorCode::OK, Some(response)) => self.response(response),
            _ => format!("with {} bytes", reply.body.len()),
        };
        format!("{} {} {} at {zxid}: {body}", header.xid, reply.opcode, header.err)
    }

    fn response(&self, response: Response<'_>) -> String {
        match response {
            Response::Exists(found) => self.stat(found.stat),
            Response::GetData(got) => format!("{:?} {}", got.data, self.stat(got.stat)),
            Response::SetData(set) => self.stat(set.stat),
            Response::SetAcl(set) => self.stat(set.stat),
            Response::GetAcl(got) => {
                let acl = sorted(got.acl.iter().map(|acl| format!("{acl:?}")));
                format!("{acl} {}", self.stat(got.stat))
            }
            Response::GetChildren(list) => names(list.children),
            Response::GetChildren2(list) => {
                format!("{} {}", names(list.children), self.stat(list.stat))
            }
            Response::GetEphemerals(list) => names(list.ephemerals),
            Response::WhoAmI(answer) => {
                sorted(answer.client_info.iter().map(|info| format!("{info:?}")))
            }
            Response::Create2(created)
            | Response::CreateContainer(created)
            | Response::CreateTtl(created) => {
                format!("{} {}", created.path, self.stat(created.stat))
            }
            Response::Multi(results) => {
                let results: Vec<_> = results.iter().map(|result| self.result(result)).collect();
                results.join(", ")
            }
            Response::MultiRead(results) => {
                let results: Vec<_> = results.iter().map(|result| self.read(result)).collect();
                results.join(", ")
            }
            other => format!("{other:?}"),
        }
    }

    fn result(&self, result: MultiResult<'_>) -> String {
        match result {
            MultiResult::SetData(set) => self.stat(set.stat),
            MultiResult::Create2(created) => {
                format!("{} {}", created.path, self.stat(created.stat))
            }
            other => format!("{other:?}"),
        }
    }

    fn read(&self, result: MultiReadResult<'_>) -> String {
        match result {
            MultiReadResult::GetData(got) => format!("{:?} {}", got.data, self.stat(got.stat)),
            MultiReadResult::GetChildren(list) => names(list.children),
            other => format!("{other:?}"),
        }
    }

    fn stat(&self, stat: Stat) -> String {
        let owner = self.sessions.iter().position(|id| *id == stat.ephemeral_owner);
        let owner = match owner {
            Some(who) => format!("{who}"),
            None => format!("{}", stat.ephemeral_owner),
        };
        let [czxid, mzxid, pzxid] =
            [stat.czxid, stat.mzxid, stat.pzxid].map(|zxid| self.relative(zxid));
        format!(
            "c{czxid} m{mzxid} p{pzxid} v{} cv{} av{} owner {owner} length {} children {}",
            stat.version, stat.cversion, stat.aversion, stat.data_length, stat.num_children
        )
    }

    fn relative(&self, zxid: Zxid) -> i64 {
        if zxid.0 > 0 { zxid.0 - self.start.0 } else { zxid.0 }
    }
}

fn names(names: List<'_, &str>) -> String {
    sorted(names.iter().map(String::from))
}

fn sorted(items: impl Iterator<Item = String>) -> String {
    let mut items: Vec<_> = items.collect();
    items.sort_unstable();
    format!("{items:?}")
}
