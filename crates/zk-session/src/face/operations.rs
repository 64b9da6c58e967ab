//! Every operation: what is sent, and how its answer is read.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use zk_proto::owned;
use zk_proto::{
    Acl, AddWatchMode, AddWatchRequest, DeleteRequest, ExistsRequest, GetAclRequest,
    GetAllChildrenNumberRequest, GetChildrenRequest, GetDataRequest, GetEphemeralsRequest,
    NodeKind, OpCode, ReconfigRequest, Request, SetAclRequest, SetDataRequest, Stat, SyncRequest,
};

use super::{Face, answers, any_version, server_path, server_path_to_create};
use crate::error::RequestError;

/// Where the configuration of the ensemble is, whatever the chroot.
const CONFIG: &str = "/zookeeper/config";

type Answered<F, T> = Result<<F as Face>::Answer<T>, RequestError>;
type Watched<F, T> = Result<(<F as Face>::Answer<T>, <F as Face>::Watch), RequestError>;

pub(crate) fn create<F: Face>(
    face: &F,
    path: &str,
    data: &[u8],
    kind: NodeKind,
    acl: &[Acl<'_>],
) -> Answered<F, (String, Stat)> {
    let path = server_path_to_create(face.chroot(), kind.opcode(), path, kind.is_sequential())?;
    face.send(&kind.create(&path, Some(data), acl.into()), answers::created)
}

pub(crate) fn delete<F: Face>(face: &F, path: &str, version: Option<i32>) -> Answered<F, ()> {
    let path = server_path(face.chroot(), OpCode::DELETE, path)?;
    let version = any_version(version);
    face.send(&Request::Delete(DeleteRequest { path: &path, version }), answers::nothing)
}

pub(crate) fn exists<F: Face>(face: &F, path: &str) -> Answered<F, Option<Stat>> {
    let path = server_path(face.chroot(), OpCode::EXISTS, path)?;
    let body = ExistsRequest { path: &path, watch: false };
    face.send(&Request::Exists(body), answers::stat_if_exists)
}

pub(crate) fn exists_and_watch<F: Face>(face: &F, path: &str) -> Watched<F, Option<Stat>> {
    let path = server_path(face.chroot(), OpCode::EXISTS, path)?;
    let body = ExistsRequest { path: &path, watch: true };
    face.send_and_watch(&Request::Exists(body), answers::stat_if_exists)
}

pub(crate) fn get_data<F: Face>(face: &F, path: &str) -> Answered<F, (Bytes, Stat)> {
    let path = server_path(face.chroot(), OpCode::GET_DATA, path)?;
    let body = GetDataRequest { path: &path, watch: false };
    face.send(&Request::GetData(body), answers::data)
}

pub(crate) fn get_data_and_watch<F: Face>(face: &F, path: &str) -> Watched<F, (Bytes, Stat)> {
    let path = server_path(face.chroot(), OpCode::GET_DATA, path)?;
    let body = GetDataRequest { path: &path, watch: true };
    face.send_and_watch(&Request::GetData(body), answers::data)
}

pub(crate) fn set_data<F: Face>(
    face: &F,
    path: &str,
    data: &[u8],
    version: Option<i32>,
) -> Answered<F, Stat> {
    let path = server_path(face.chroot(), OpCode::SET_DATA, path)?;
    let version = any_version(version);
    let body = SetDataRequest { path: &path, data: Some(data), version };
    face.send(&Request::SetData(body), answers::data_set)
}

pub(crate) fn get_children<F: Face>(face: &F, path: &str) -> Answered<F, (Vec<String>, Stat)> {
    let path = server_path(face.chroot(), OpCode::GET_CHILDREN2, path)?;
    let body = GetChildrenRequest { path: &path, watch: false };
    face.send(&Request::GetChildren2(body), answers::children)
}

pub(crate) fn get_children_and_watch<F: Face>(
    face: &F,
    path: &str,
) -> Watched<F, (Vec<String>, Stat)> {
    let path = server_path(face.chroot(), OpCode::GET_CHILDREN2, path)?;
    let body = GetChildrenRequest { path: &path, watch: true };
    face.send_and_watch(&Request::GetChildren2(body), answers::children)
}

pub(crate) fn count_descendants<F: Face>(face: &F, path: &str) -> Answered<F, usize> {
    let path = server_path(face.chroot(), OpCode::GET_ALL_CHILDREN_NUMBER, path)?;
    let body = GetAllChildrenNumberRequest { path: &path };
    face.send(&Request::GetAllChildrenNumber(body), answers::descendants)
}

pub(crate) fn get_ephemerals<F: Face>(face: &F, path: &str) -> Answered<F, Vec<String>> {
    let path = server_path(face.chroot(), OpCode::GET_EPHEMERALS, path)?;
    let body = GetEphemeralsRequest { prefix_path: Some(&path) };
    face.send(&Request::GetEphemerals(body), answers::ephemerals)
}

pub(crate) fn get_acl<F: Face>(face: &F, path: &str) -> Answered<F, (Vec<owned::Acl>, Stat)> {
    let path = server_path(face.chroot(), OpCode::GET_ACL, path)?;
    face.send(&Request::GetAcl(GetAclRequest { path: &path }), answers::acl)
}

pub(crate) fn set_acl<F: Face>(
    face: &F,
    path: &str,
    acl: &[Acl<'_>],
    version: Option<i32>,
) -> Answered<F, Stat> {
    let path = server_path(face.chroot(), OpCode::SET_ACL, path)?;
    let body = SetAclRequest { path: &path, acl: acl.into(), version: any_version(version) };
    face.send(&Request::SetAcl(body), answers::acl_set)
}

pub(crate) fn sync<F: Face>(face: &F, path: &str) -> Answered<F, ()> {
    let path = server_path(face.chroot(), OpCode::SYNC, path)?;
    face.send(&Request::Sync(SyncRequest { path: &path }), answers::nothing)
}

pub(crate) fn who_am_i<F: Face>(face: &F) -> Answered<F, Vec<owned::ClientInfo>> {
    face.send(&Request::WhoAmI(()), answers::identities)
}

pub(crate) fn get_config<F: Face>(face: &F) -> Answered<F, (Bytes, Stat)> {
    let body = GetDataRequest { path: CONFIG, watch: false };
    face.send(&Request::GetData(body), answers::data)
}

pub(crate) fn get_config_and_watch<F: Face>(face: &F) -> Watched<F, (Bytes, Stat)> {
    let body = GetDataRequest { path: CONFIG, watch: true };
    face.send_and_watch(&Request::GetData(body), answers::data)
}

pub(crate) fn reconfig<F: Face>(
    face: &F,
    change: &ReconfigRequest<'_>,
) -> Answered<F, (Bytes, Stat)> {
    face.send(&Request::Reconfig(*change), answers::data)
}

pub(crate) fn watch<F: Face>(
    face: &F,
    path: &str,
    mode: AddWatchMode,
) -> Result<(F::Answer<()>, F::PersistentWatch), RequestError> {
    let path = server_path(face.chroot(), OpCode::ADD_WATCH, path)?;
    let body = AddWatchRequest { path: &path, mode };
    face.send_and_keep_watching(&Request::AddWatch(body), answers::nothing)
}
