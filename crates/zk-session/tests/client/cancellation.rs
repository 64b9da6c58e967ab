//! Drops each future after each of its polls.

use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use zk_session::proto::{
    Acl, Create2Response, CreateRequest, CreateResponse, ErrorCode, ErrorResponse, EventType,
    ExistsResponse, GetAclResponse, GetAllChildrenNumberResponse, GetChildren2Response,
    GetDataResponse, GetEphemeralsResponse, MultiReadResponse, MultiReadResult, MultiResponse,
    MultiResult, NodeKind, OpCode, Request, SetDataResponse, Stat, SyncResponse, WhoAmIResponse,
};
use zk_session::{Client, Error};

use crate::server::{Server, builder, connected, pipes, settle};

/// Polls `future` so many times, after each change, then drops it. Returns whether it was ready.
async fn polled(future: impl Future, times: usize) -> bool {
    let mut future = Box::pin(future);
    for _ in 0..times {
        if poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await {
            return true;
        }
        settle().await;
    }
    false
}

/// The watches that the server has.
type Watches = Arc<Mutex<HashSet<String>>>;

/// Answers every request with success. Every node exists, except that nodes below `/new` must have
/// been created. `/a` has a child.
async fn grant_everything(mut server: Server, watches: Watches) {
    let stat = Stat::default();
    let mut created = HashSet::new();
    while let Some(sent) = server.request().await {
        let (xid, ok) = (sent.xid, ErrorCode::OK);
        let watch = |kind: &str, path: &str| {
            watches.lock().unwrap().insert(format!("{kind}{path}"));
        };
        match sent.request() {
            request @ (Request::Create(body) | Request::Create2(body)) => {
                let parent = zk_session::proto::path::parent(body.path).unwrap();
                if parent.starts_with("/new") && !created.contains(parent) {
                    server.reply(xid, ErrorCode::NO_NODE, &()).await;
                    continue;
                }
                created.insert(body.path.to_string());
                match request {
                    Request::Create(CreateRequest { path, .. }) => {
                        server.reply(xid, ok, &CreateResponse { path }).await;
                    }
                    _ => server.reply(xid, ok, &Create2Response { path: body.path, stat }).await,
                }
            }
            Request::Exists(body) => {
                if body.watch {
                    watch("data", body.path);
                }
                server.reply(xid, ok, &ExistsResponse { stat }).await;
            }
            Request::GetData(body) => {
                if body.watch {
                    watch("data", body.path);
                }
                server.reply(xid, ok, &GetDataResponse { data: None, stat }).await;
                if body.path == "/fires" {
                    watches.lock().unwrap().remove("data/fires");
                    server.notify(EventType::NODE_DELETED, "/fires").await;
                }
            }
            Request::GetChildren2(body) => {
                if body.watch {
                    watch("child", body.path);
                }
                let children: &[&str] = if body.path == "/a" { &["x"] } else { &[] };
                let response = GetChildren2Response { children: children.into(), stat };
                server.reply(xid, ok, &response).await;
            }
            Request::AddWatch(body) => {
                watch("persistent", body.path);
                server.reply(xid, ok, &ErrorResponse { err: ok }).await;
                server.notify(EventType::NODE_CREATED, body.path).await;
            }
            Request::RemoveWatches(body) => {
                let suffix = body.path.to_string();
                watches.lock().unwrap().retain(|watch| !watch.ends_with(&suffix));
                server.reply(xid, ok, &()).await;
            }
            Request::SetData(_) | Request::SetAcl(_) => {
                server.reply(xid, ok, &SetDataResponse { stat }).await;
            }
            Request::GetAcl(_) => {
                let acl = (&[Acl::OPEN]).into();
                server.reply(xid, ok, &GetAclResponse { acl, stat }).await;
            }
            Request::GetAllChildrenNumber(_) => {
                server.reply(xid, ok, &GetAllChildrenNumberResponse { total_number: 1 }).await;
            }
            Request::GetEphemerals(_) => {
                let ephemerals = (&["/a"]).into();
                server.reply(xid, ok, &GetEphemeralsResponse { ephemerals }).await;
            }
            Request::WhoAmI(()) => {
                let client_info = (&[]).into();
                server.reply(xid, ok, &WhoAmIResponse { client_info }).await;
            }
            Request::Multi(_) => {
                server.reply(xid, ok, &MultiResponse::new(&[MultiResult::Check(())])).await;
            }
            Request::MultiRead(_) => {
                let error = MultiReadResult::Error(ErrorResponse { err: ErrorCode::NO_NODE });
                server.reply(xid, ok, &MultiReadResponse::new(&[error])).await;
            }
            Request::Sync(body) => {
                server.reply(xid, ok, &SyncResponse { path: body.path }).await;
            }
            _ => server.reply(xid, ok, &()).await,
        }
    }
}

type Called = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs a call to its successful end.
fn call<T, E, F>(call: impl Fn(Client) -> F + 'static) -> Box<dyn Fn(&Client) -> Called>
where
    E: std::fmt::Debug + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    Box::new(move |client| {
        let called = call(client.clone());
        Box::pin(async move { drop(called.await.expect("the server grants everything")) })
    })
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_after_any_poll_affects_no_other_and_leaves_no_watch() {
    let (client, server, _listener) = connected().await;
    let watches = Watches::default();
    tokio::spawn(grant_everything(server, watches.clone()));
    let calls = [
        ("create", call(|c| c.create("/a", b"", NodeKind::Persistent))),
        ("delete", call(|c| c.delete("/a", None))),
        ("exists", call(|c| c.exists("/a"))),
        ("exists_and_watch", call(|c| c.exists_and_watch("/a"))),
        ("get_data", call(|c| c.get_data("/a"))),
        ("get_data_and_watch", call(|c| c.get_data_and_watch("/a"))),
        ("set_data", call(|c| c.set_data("/a", b"", None))),
        ("get_children", call(|c| c.get_children("/a"))),
        ("get_children_and_watch", call(|c| c.get_children_and_watch("/a"))),
        ("count_descendants", call(|c| c.count_descendants("/a"))),
        ("get_ephemerals", call(|c| c.get_ephemerals("/"))),
        ("get_acl", call(|c| c.get_acl("/a"))),
        ("set_acl", call(|c| c.set_acl("/a", &[Acl::OPEN], None))),
        ("add_auth", call(|c| c.add_auth("digest", b"a:b"))),
        ("who_am_i", call(|c| c.who_am_i())),
        ("sync", call(|c| c.sync("/"))),
        ("get_config", call(|c| c.get_config())),
        ("get_config_and_watch", call(|c| c.get_config_and_watch())),
        ("commit", call(|c| c.transaction().check("/a", None).commit())),
        ("multi_read", call(|c| c.multi_read().get_data("/a").send())),
        ("watch", call(|c| c.watch("/a"))),
        ("watch_recursively", call(|c| c.watch_recursively("/a"))),
        ("ready", call(|c| async move { c.ready().await })),
        ("ensure_path", call(|c| async move { c.ensure_path("/b/c").await })),
        (
            "create_all",
            call(|c| async move { c.create_all("/new/b/c", b"", NodeKind::Persistent).await }),
        ),
        ("delete_all", call(|c| async move { c.delete_all("/a").await })),
        (
            "a watch that fires",
            call(|c| async move {
                let (_, _, watch) = c.get_data_and_watch("/fires").await.map_err(Error::from)?;
                watch.await
            }),
        ),
        (
            "a watch that stays",
            call(|c| async move { c.watch("/a").await.map_err(Error::from)?.next().await }),
        ),
    ];
    for (name, call) in calls {
        let mut times = 0;
        while !polled(call(&client), times).await {
            times += 1;
            assert!(times < 100, "{name} never ends");
            assert_eq!(client.sync("/").await, Ok(()), "behind {name}, polled {times} times");
            settle().await;
            assert_eq!(*watches.lock().unwrap(), HashSet::new(), "{name}, polled {times} times");
        }
        assert!(times > 0 || name == "ready", "{name} was never cut short");
        client.sync("/").await.unwrap();
        settle().await;
        assert_eq!(*watches.lock().unwrap(), HashSet::new(), "behind {name}");
    }
    assert_eq!(client.statistics().connections, 1);
}

#[tokio::test(start_paused = true)]
async fn connecting_can_be_cancelled_at_any_time() {
    for times in 0.. {
        let (pipes, mut listener) = pipes(1 << 16);
        let server = tokio::spawn(async move {
            let mut server = listener.accept().await;
            if server.frame().await.is_some() {
                server.answer_handshake(6_000, crate::server::SESSION).await;
            }
            let mut asked = Vec::new();
            while let Some(sent) = server.request().await {
                asked.push(sent.opcode);
                server.reply(sent.xid, ErrorCode::OK, &()).await;
            }
            asked
        });
        let is_ready = polled(builder().connect_with(pipes), times).await;
        if times == 0 {
            // Nothing was started.
            server.abort();
            continue;
        }
        let asked = server.await.expect("the client hangs up");
        assert!(asked.iter().all(|opcode| *opcode == OpCode::CLOSE_SESSION), "{asked:?}");
        if is_ready {
            assert_eq!(asked, [OpCode::CLOSE_SESSION], "a client was there, and was dropped");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_is_closed_without_a_waiting_caller() {
    for times in 0..2 {
        let (client, mut server, _listener) = connected().await;
        assert!(!polled(client.close(), times).await);
        server.expect(OpCode::CLOSE_SESSION).await;
    }
}
