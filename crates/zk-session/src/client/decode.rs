//! Decodes the answers to requests.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::{Buf as _, Bytes};
use zk_proto::owned::{self, IntoOwned as _};
use zk_proto::{
    Create2Response, ErrorCode, ExistsResponse, GetAclResponse, GetAllChildrenNumberResponse,
    GetChildren2Response, GetDataResponse, GetEphemeralsResponse, SetAclResponse, SetDataResponse,
    Stat, WhoAmIResponse,
};

use super::stripped;
use crate::chroot::Chroot;
use crate::error::Error;
use crate::session::Reply;

/// Decodes an answer, for a caller whose paths begin at the chroot.
pub(crate) trait DecodeAnswer<T>:
    Fn(Result<Reply, Error>, &Chroot) -> Result<T, Error> + Send + Sync + 'static
{
}

impl<T, F> DecodeAnswer<T> for F where
    F: Fn(Result<Reply, Error>, &Chroot) -> Result<T, Error> + Send + Sync + 'static
{
}

pub(super) fn nothing(answer: Result<Reply, Error>, _: &Chroot) -> Result<(), Error> {
    answer.map(drop)
}

pub(super) fn created(
    answer: Result<Reply, Error>,
    chroot: &Chroot,
) -> Result<(String, Stat), Error> {
    let reply = answer?;
    let Create2Response { path, stat } = reply.decode()?;
    Ok((stripped(chroot, path).to_string(), stat))
}

pub(super) fn stat_if_exists(
    answer: Result<Reply, Error>,
    _: &Chroot,
) -> Result<Option<Stat>, Error> {
    match answer {
        Ok(reply) => Ok(Some(reply.decode::<ExistsResponse>()?.stat)),
        Err(Error::Server(ErrorCode::NO_NODE)) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn data(answer: Result<Reply, Error>, _: &Chroot) -> Result<(Bytes, Stat), Error> {
    let reply = answer?;
    let GetDataResponse { data, stat } = reply.decode()?;
    let Some(data) = data else {
        return Ok((Bytes::new(), stat));
    };
    // The body is not shared, so this cuts the data out of it.
    let (start, length) = (data.as_ptr().addr() - reply.body.as_ptr().addr(), data.len());
    let mut data = reply.body;
    data.advance(start);
    data.truncate(length);
    Ok((data, stat))
}

pub(super) fn data_set(answer: Result<Reply, Error>, _: &Chroot) -> Result<Stat, Error> {
    Ok(answer?.decode::<SetDataResponse>()?.stat)
}

pub(super) fn acl_set(answer: Result<Reply, Error>, _: &Chroot) -> Result<Stat, Error> {
    Ok(answer?.decode::<SetAclResponse>()?.stat)
}

pub(super) fn acl(
    answer: Result<Reply, Error>,
    _: &Chroot,
) -> Result<(Vec<owned::Acl>, Stat), Error> {
    let reply = answer?;
    let GetAclResponse { acl, stat } = reply.decode()?;
    Ok((acl.iter().map(|entry| entry.into_owned()).collect(), stat))
}

pub(super) fn children(
    answer: Result<Reply, Error>,
    _: &Chroot,
) -> Result<(Vec<String>, Stat), Error> {
    let reply = answer?;
    let GetChildren2Response { children, stat } = reply.decode()?;
    Ok((children.iter().map(ToString::to_string).collect(), stat))
}

/// Nodes outside the chroot are left out: they have no path there.
pub(super) fn ephemerals(
    answer: Result<Reply, Error>,
    chroot: &Chroot,
) -> Result<Vec<String>, Error> {
    let reply = answer?;
    let GetEphemeralsResponse { ephemerals } = reply.decode()?;
    Ok(ephemerals.iter().filter_map(|path| chroot.strip(path)).map(str::to_string).collect())
}

pub(super) fn descendants(answer: Result<Reply, Error>, _: &Chroot) -> Result<usize, Error> {
    let total = answer?.decode::<GetAllChildrenNumberResponse>()?.total_number;
    Ok(usize::try_from(total).unwrap_or(0))
}

pub(super) fn identities(
    answer: Result<Reply, Error>,
    _: &Chroot,
) -> Result<Vec<owned::ClientInfo>, Error> {
    let reply = answer?;
    let WhoAmIResponse { client_info } = reply.decode()?;
    Ok(client_info.iter().map(|identity| identity.into_owned()).collect())
}

/// Fails unless the reply has as many results as the request has operations.
pub(super) fn expect_results(asked: usize, answered: usize) -> Result<(), Error> {
    if asked == answered { Ok(()) } else { Err(Error::Results { asked, answered }) }
}
