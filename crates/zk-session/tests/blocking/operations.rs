use zk_session::blocking::Client;
use zk_session::proto::{
    Acl, ClientInfo, Create2Response, Encode, ErrorCode, ErrorResponse, ExistsResponse,
    GetAclResponse, GetAllChildrenNumberResponse, GetChildren2Response, GetChildrenResponse,
    GetDataResponse, GetEphemeralsResponse, MultiReadResponse, MultiReadResult, MultiResponse,
    MultiResult, NodeKind, OpCode, ReconfigRequest, Request, SetDataResponse, Stat, SyncResponse,
    Ttl, WhoAmIResponse,
};
use zk_session::{ReadResult, RequestError, TransactionResult};

use crate::server::{Server, connected, connected_with, during};

const STAT: Stat = Stat { version: 3, ..ZERO };
const ZERO: Stat = Stat {
    czxid: zk_session::proto::Zxid(0),
    mzxid: zk_session::proto::Zxid(0),
    ctime: 0,
    mtime: 0,
    version: 0,
    cversion: 0,
    aversion: 0,
    ephemeral_owner: zk_session::proto::SessionId(0),
    data_length: 0,
    num_children: 0,
    pzxid: zk_session::proto::Zxid(0),
};

/// Returns the result of `call` for a scripted reply, after `check` has seen the request.
fn answered<T: Send>(
    (client, server): (&Client, &mut Server),
    call: impl FnOnce(&Client) -> Result<T, RequestError> + Send,
    opcode: OpCode,
    check: impl FnOnce(Request<'_>),
    body: &impl Encode,
) -> T {
    let serve = || {
        let sent = server.expect(opcode);
        check(sent.request());
        server.reply(sent.xid, ErrorCode::OK, body);
    };
    during(|| call(client), serve).expect("the server grants it")
}

#[test]
fn every_operation_sends_its_request_and_decodes_the_reply() {
    let (client, mut server, _listener) = connected_with(|builder| builder);
    let client = client.with_chroot("/app").unwrap();
    let on = &mut server;
    let data = GetDataResponse { data: Some(b"data"), stat: STAT };

    let kind = NodeKind::PersistentWithTtl(Ttl::from_millis(5).unwrap());
    let body = Create2Response { path: "/app/a", stat: STAT };
    let created = answered(
        (&client, on),
        |client| client.create("/a", b"data", kind).wait(),
        OpCode::CREATE_TTL,
        |request| {
            let Request::CreateTtl(body) = request else { unreachable!() };
            assert_eq!((body.path, body.ttl), ("/app/a", 5));
        },
        &body,
    );
    assert_eq!(created, ("/a".to_string(), STAT));
    let created = answered(
        (&client, on),
        |client| client.create_with_acl("/a", b"", NodeKind::Container, &[Acl::READ]).wait(),
        OpCode::CREATE_CONTAINER,
        |request| {
            let Request::CreateContainer(body) = request else { unreachable!() };
            assert_eq!(body.acl.iter().collect::<Vec<_>>(), [Acl::READ]);
        },
        &body,
    );
    assert_eq!(created.0, "/a");

    let stat = answered(
        (&client, on),
        |client| client.exists("/a").wait(),
        OpCode::EXISTS,
        |_| {},
        &ExistsResponse { stat: STAT },
    );
    assert_eq!(stat, Some(STAT));
    let read = answered(
        (&client, on),
        |client| client.get_data("/a").wait(),
        OpCode::GET_DATA,
        |_| {},
        &data,
    );
    assert_eq!(read, ("data".into(), STAT));
    let set = answered(
        (&client, on),
        |client| client.set_data("/a", b"new", Some(2)).wait(),
        OpCode::SET_DATA,
        |request| {
            let Request::SetData(body) = request else { unreachable!() };
            assert_eq!((body.path, body.data, body.version), ("/app/a", Some(&b"new"[..]), 2));
        },
        &SetDataResponse { stat: STAT },
    );
    assert_eq!(set, STAT);
    answered(
        (&client, on),
        |client| client.delete("/a", None).wait(),
        OpCode::DELETE,
        |request| {
            let Request::Delete(body) = request else { unreachable!() };
            assert_eq!((body.path, body.version), ("/app/a", -1));
        },
        &(),
    );
    let children = GetChildren2Response { children: (&["x", "y"]).into(), stat: STAT };
    let (names, stat) = answered(
        (&client, on),
        |client| client.get_children("/a").wait(),
        OpCode::GET_CHILDREN2,
        |_| {},
        &children,
    );
    assert_eq!((names, stat), (vec!["x".to_string(), "y".to_string()], STAT));
    let count = answered(
        (&client, on),
        |client| client.count_descendants("/a").wait(),
        OpCode::GET_ALL_CHILDREN_NUMBER,
        |_| {},
        &GetAllChildrenNumberResponse { total_number: 7 },
    );
    assert_eq!(count, 7);
    let ephemerals = answered(
        (&client, on),
        |client| client.get_ephemerals("/a").wait(),
        OpCode::GET_EPHEMERALS,
        |request| {
            let Request::GetEphemerals(body) = request else { unreachable!() };
            assert_eq!(body.prefix_path, Some("/app/a"));
        },
        &GetEphemeralsResponse { ephemerals: (&["/app/a", "/app/ab"]).into() },
    );
    assert_eq!(ephemerals, ["/a", "/ab"]);
    let (acl, _) = answered(
        (&client, on),
        |client| client.get_acl("/a").wait(),
        OpCode::GET_ACL,
        |_| {},
        &GetAclResponse { acl: (&[Acl::READ]).into(), stat: STAT },
    );
    assert_eq!(acl[0].id.scheme, "world");
    let set = answered(
        (&client, on),
        |client| client.set_acl("/a", &[Acl::CREATOR_ALL], Some(1)).wait(),
        OpCode::SET_ACL,
        |request| {
            let Request::SetAcl(body) = request else { unreachable!() };
            assert_eq!((body.path, body.version), ("/app/a", 1));
        },
        &SetDataResponse { stat: STAT },
    );
    assert_eq!(set, STAT);
    answered(
        (&client, on),
        |client| client.add_auth("digest", b"user:password").wait(),
        OpCode::AUTH,
        |request| {
            let Request::Auth(body) = request else { unreachable!() };
            assert_eq!((body.scheme, body.auth), ("digest", Some(&b"user:password"[..])));
        },
        &(),
    );
    let identities = [ClientInfo { auth_scheme: "ip", user: "127.0.0.1" }];
    let whoami = answered(
        (&client, on),
        |client| client.who_am_i().wait(),
        OpCode::WHO_AM_I,
        |_| {},
        &WhoAmIResponse { client_info: (&identities).into() },
    );
    assert_eq!(whoami[0].user, "127.0.0.1");
    answered(
        (&client, on),
        |client| client.sync("/").wait(),
        OpCode::SYNC,
        |_| {},
        &SyncResponse { path: "/app" },
    );
    let config = answered(
        (&client, on),
        |client| client.get_config().wait(),
        OpCode::GET_DATA,
        |request| {
            let Request::GetData(body) = request else { unreachable!() };
            assert_eq!(body.path, "/zookeeper/config", "wherever the root is");
        },
        &data,
    );
    assert_eq!(config.0, "data");
    let change = ReconfigRequest {
        joining_servers: None,
        leaving_servers: Some("3"),
        new_members: None,
        cur_config_id: -1,
    };
    let config = answered(
        (&client, on),
        |client| client.reconfig(&change).wait(),
        OpCode::RECONFIG,
        |_| {},
        &data,
    );
    assert_eq!(config.1, STAT);
}

#[test]
fn several_operations_in_one_request_have_one_result_each() {
    let (client, mut server, _listener) = connected();
    let results = [
        MultiResult::Create2(Create2Response { path: "/a", stat: STAT }),
        MultiResult::Delete(()),
        MultiResult::SetData(SetDataResponse { stat: STAT }),
        MultiResult::Check(()),
    ];
    let acl = [Acl::READ];
    let done = answered(
        (&client, &mut server),
        |client| {
            client
                .transaction()
                .create_with_acl("/a", b"data", NodeKind::Container, &acl)
                .delete("/b", Some(1))
                .set_data("/c", b"data", None)
                .check("/d", None)
                .commit()
                .wait()
        },
        OpCode::MULTI,
        |request| {
            let Request::Multi(body) = request else { unreachable!() };
            assert_eq!(body.iter().count(), 4);
        },
        &MultiResponse::new(&results),
    );
    assert_eq!(
        done,
        [
            TransactionResult::Created { path: "/a".into() },
            TransactionResult::Deleted,
            TransactionResult::DataSet(STAT),
            TransactionResult::Checked,
        ]
    );

    let results = [
        MultiReadResult::GetData(GetDataResponse { data: Some(b"data"), stat: STAT }),
        MultiReadResult::Error(ErrorResponse { err: ErrorCode::NO_NODE }),
        MultiReadResult::GetChildren(GetChildrenResponse { children: (&["x"]).into() }),
    ];
    let read = answered(
        (&client, &mut server),
        |client| client.multi_read().get_data("/a").get_data("/b").get_children("/c").send().wait(),
        OpCode::MULTI_READ,
        |request| {
            let Request::MultiRead(body) = request else { unreachable!() };
            assert_eq!(body.iter().count(), 3);
        },
        &MultiReadResponse::new(&results),
    );
    assert_eq!(
        read,
        [
            ReadResult::Data("data".into(), STAT),
            ReadResult::Failed(ErrorCode::NO_NODE),
            ReadResult::Children(vec!["x".into()]),
        ]
    );
}
