//! Experiments of a reader: commands of two clients, played on a [stage](super::stage).

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use zk_proto::diagram::Style;
use zk_proto::{
    Acl, AddWatchMode, AddWatchRequest, AuthPacket, CheckVersionRequest, CreateMode, CreateRequest,
    DeleteRequest, ExistsRequest, GetChildrenRequest, GetDataRequest, List, Multi, MultiOp,
    Request, SetDataRequest, SyncRequest,
};

use super::stage::{Client, Stage};

/// What commands are, for people.
pub const HELP: &str = "\
each argument is one command; several with + between them are sent at once, before any reply:
  [b] create PATH [DATA] [ephemeral] [sequential] [mine]   [b] exists PATH [watch]
  [b] set PATH DATA [VERSION]                              [b] get PATH [watch]
  [b] delete PATH [VERSION]                                [b] ls PATH [watch]
  [b] watch PATH        (persistent)                       [b] auth USER:PASSWORD
  [b] check PATH VERSION / set PATH DATA / delete PATH     (a multi: operations with / between)
  [b] ping   [b] sync PATH   [b] close                     [b] cut   [b] connect   wait SECONDS
a b in front makes it a command of the second client";

/// Plays commands, and returns the stage.
///
/// # Errors
///
/// If a command is not understood.
pub fn play(commands: &[String]) -> Result<Stage, String> {
    let uses_b = commands.iter().any(|command| command.starts_with("b "));
    let lanes = ["client a", "server", "client b"];
    let (mut stage, clients) = Stage::new("", &lanes[..if uses_b { 3 } else { 2 }]);
    stage.connect(clients[0], 0);
    if uses_b {
        stage.connect(clients[1], 0);
    }
    for command in commands {
        let (client, rest) = match command.strip_prefix("b ") {
            Some(rest) => (clients[1], rest),
            None => (clients[0], command.as_str()),
        };
        run(&mut stage, client, rest).map_err(|error| format!("{command:?}: {error}\n{HELP}"))?;
    }
    Ok(stage)
}

fn run(stage: &mut Stage, client: Client, command: &str) -> Result<(), String> {
    let words: Vec<_> = command.split_whitespace().collect();
    match words[..] {
        ["cut"] => stage.cut(client),
        ["connect"] => stage.connect(client, 0),
        ["wait", seconds] => {
            let seconds: u64 = seconds.parse().map_err(|_| "seconds are a number")?;
            stage.note(client, Style::Plain, &format!("{seconds} s pass"));
            stage.wait(Duration::from_secs(seconds));
        }
        _ if command.contains(" / ") => {
            let ops: Result<Vec<_>, _> = command.split(" / ").map(op).collect();
            stage.ask(client, &[Request::Multi(Multi::new(&ops?))]);
        }
        _ => {
            let requests: Result<Vec<_>, _> = command.split(" + ").map(request).collect();
            stage.ask(client, &requests?);
        }
    }
    Ok(())
}

const OPEN: &[Acl<'static>] = &[Acl::OPEN];
const MINE: &[Acl<'static>] = &[Acl::CREATOR_ALL];

fn version(words: &[&str]) -> Result<i32, String> {
    words.first().map_or(Ok(-1), |word| word.parse()).map_err(|_| "a version is a number".into())
}

fn creation<'a>(path: &'a str, options: &[&'a str]) -> CreateRequest<'a> {
    let is = |word| options.contains(&word);
    let mode = match (is("ephemeral"), is("sequential")) {
        (false, false) => CreateMode::PERSISTENT,
        (true, false) => CreateMode::EPHEMERAL,
        (false, true) => CreateMode::PERSISTENT_SEQUENTIAL,
        (true, true) => CreateMode::EPHEMERAL_SEQUENTIAL,
    };
    let words = ["ephemeral", "sequential", "mine"];
    let data = options.iter().find(|word| !words.contains(word)).copied().unwrap_or_default();
    let acl = List::new(if is("mine") { MINE } else { OPEN });
    CreateRequest { path, data: Some(data.as_bytes()), acl, mode }
}

fn request(command: &str) -> Result<Request<'_>, String> {
    let words: Vec<_> = command.split_whitespace().collect();
    let watch = words.last() == Some(&"watch");
    Ok(match words[..] {
        ["create", path, ref options @ ..] => Request::Create(creation(path, options)),
        ["exists", path, ..] => Request::Exists(ExistsRequest { path, watch }),
        ["get", path, ..] => Request::GetData(GetDataRequest { path, watch }),
        ["ls", path, ..] => Request::GetChildren(GetChildrenRequest { path, watch }),
        ["set", path, data, ref rest @ ..] => {
            let (data, version) = (Some(data.as_bytes()), version(rest)?);
            Request::SetData(SetDataRequest { path, data, version })
        }
        ["delete", path, ref rest @ ..] => {
            Request::Delete(DeleteRequest { path, version: version(rest)? })
        }
        ["watch", path] => {
            Request::AddWatch(AddWatchRequest { path, mode: AddWatchMode::PERSISTENT })
        }
        ["auth", auth] => {
            let auth = Some(auth.as_bytes());
            Request::Auth(AuthPacket { auth_type: 0, scheme: "digest", auth })
        }
        ["sync", path] => Request::Sync(SyncRequest { path }),
        ["ping"] => Request::Ping(()),
        ["close"] => Request::CloseSession(()),
        _ => return Err("no such command".to_owned()),
    })
}

fn op(command: &str) -> Result<MultiOp<'_>, String> {
    let words: Vec<_> = command.split_whitespace().collect();
    if let ["check", path, ref rest @ ..] = words[..] {
        return Ok(MultiOp::Check(CheckVersionRequest { path, version: version(rest)? }));
    }
    match request(command)? {
        Request::Create(body) => Ok(MultiOp::Create(body)),
        Request::SetData(body) => Ok(MultiOp::SetData(body)),
        Request::Delete(body) => Ok(MultiOp::Delete(body)),
        _ => Err("not an operation of a multi".to_owned()),
    }
}
