//! Messages of a server as text, without what differs between two servers: clock times, session
//! ids, zxids, and unspecified orders.

use std::collections::BTreeMap;

use zk_proto::{ErrorCode, List, MultiReadResult, MultiResult, Response, SessionId, Stat, Zxid};
use zk_testkit::raw::{Message, Reply};

/// Begins the heading of a step.
const STEP: &str = "? ";

#[derive(Default)]
pub(crate) struct Render {
    /// The known sessions; each is printed by its index.
    pub(crate) sessions: Vec<SessionId>,
    /// The number of the current step of the script, and of the zxids that it has shown first.
    step: usize,
    shown: usize,
    /// The known zxids; each is printed by the step that showed it first. So one transaction more
    /// or less changes only the text of its own step.
    zxids: BTreeMap<Zxid, String>,
}

impl Render {
    pub(crate) fn new(sessions: Vec<SessionId>) -> Self {
        Self { sessions, ..Self::default() }
    }

    /// Begins the next step of the script. Returns its heading.
    pub(crate) fn begin(&mut self, what: &str) -> String {
        (self.step, self.shown) = (self.step + 1, 0);
        format!("{STEP}{} {what}", self.step)
    }

    pub(crate) fn message(&mut self, message: Option<&Message>) -> String {
        match message {
            None => "closed".into(),
            Some(Message::Connected(session)) => format!("connected for {}", session.timeout),
            Some(Message::Reply(reply)) => self.reply(reply),
            Some(Message::Event { zxid, kind, path }) => {
                format!("{kind} {path} at {}", self.zxid(*zxid))
            }
            Some(other) => format!("{other:?}"),
        }
    }

    fn reply(&mut self, reply: &Reply) -> String {
        let header = reply.header;
        let zxid = self.zxid(header.zxid);
        let body = match (header.err, reply.response()) {
            (ErrorCode::OK, None) => format!("undecodable {:?}", reply.body),
            (ErrorCode::OK, Some(response)) => self.response(response),
            _ => format!("with {} bytes", reply.body.len()),
        };
        format!("{} {} {} at {zxid}: {body}", header.xid, reply.opcode, header.err)
    }

    fn response(&mut self, response: Response<'_>) -> String {
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

    fn result(&mut self, result: MultiResult<'_>) -> String {
        match result {
            MultiResult::SetData(set) => self.stat(set.stat),
            MultiResult::Create2(created) => {
                format!("{} {}", created.path, self.stat(created.stat))
            }
            other => format!("{other:?}"),
        }
    }

    fn read(&mut self, result: MultiReadResult<'_>) -> String {
        match result {
            MultiReadResult::GetData(got) => format!("{:?} {}", got.data, self.stat(got.stat)),
            MultiReadResult::GetChildren(list) => names(list.children),
            other => format!("{other:?}"),
        }
    }

    fn stat(&mut self, stat: Stat) -> String {
        let owner = self.sessions.iter().position(|id| *id == stat.ephemeral_owner);
        let owner = match owner {
            Some(who) => format!("{who}"),
            None => format!("{}", stat.ephemeral_owner),
        };
        let [czxid, mzxid, pzxid] =
            [stat.czxid, stat.mzxid, stat.pzxid].map(|zxid| self.zxid(zxid));
        format!(
            "c{czxid} m{mzxid} p{pzxid} v{} cv{} av{} owner {owner} length {} children {}",
            stat.version, stat.cversion, stat.aversion, stat.data_length, stat.num_children
        )
    }

    /// Returns the step that showed a zxid first, and how many unknown zxids there were before it.
    fn zxid(&mut self, zxid: Zxid) -> String {
        if zxid <= Zxid::ZERO {
            return format!("{}", zxid.0);
        }
        if let Some(known) = self.zxids.get(&zxid) {
            return known.clone();
        }
        self.shown += 1;
        let mut text = match self.shown {
            1 => format!("#{}", self.step),
            shown => format!("#{}.{shown}", self.step),
        };
        if let Some((last, _)) = self.zxids.range(..zxid).next_back()
            && last.0 + 1 < zxid.0
        {
            text += &format!("+{}", zxid.0 - last.0 - 1);
        }
        self.zxids.insert(zxid, text.clone());
        text
    }
}

/// Reports all steps in which two transcripts differ, each with both forms.
pub(crate) fn compare(expected: &[String], actual: &[String]) -> Result<(), String> {
    let (mut expected, mut actual) = (steps(expected).into_iter(), steps(actual).into_iter());
    let (mut count, mut differences) = (0, String::new());
    loop {
        let (real, in_memory) = match (expected.next(), actual.next()) {
            (None, None) => break,
            (real, in_memory) => (real.unwrap_or_default(), in_memory.unwrap_or_default()),
        };
        // The heading shows a script's own zxids, which may differ.
        if real.get(1..) != in_memory.get(1..) {
            count += 1;
            let heading = real.first().or(in_memory.first()).map_or("", String::as_str);
            differences += &format!("{heading}\n");
            for (who, lines) in [("real", real), ("in-memory", in_memory)] {
                let lines = lines.iter().skip(1).map(|line| format!("    {who}: {line}\n"));
                differences.extend(lines);
            }
        }
    }
    match count {
        0 => Ok(()),
        _ => Err(format!("{count} steps differ:\n{differences}")),
    }
}

fn steps(transcript: &[String]) -> Vec<&[String]> {
    let mut starts: Vec<_> = (0..transcript.len())
        .filter(|line| *line == 0 || transcript[*line].starts_with(STEP))
        .chain([transcript.len()])
        .collect();
    starts.dedup();
    starts.windows(2).map(|step| &transcript[step[0]..step[1]]).collect()
}

fn names(names: List<'_, &str>) -> String {
    sorted(names.iter().map(String::from))
}

fn sorted(items: impl Iterator<Item = String>) -> String {
    let mut items: Vec<_> = items.collect();
    items.sort_unstable();
    format!("{items:?}")
}
