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

use super::{AnySubject, stripped};
use crate::chroot::Chroot;
use crate::error::Error;
use crate::session::Reply;

/// The answer to a request, as it has arrived.
pub(super) struct Arrived<'a> {
    pub(super) answer: Result<Reply, Error>,
    /// The root of the caller's paths.
    pub(super) chroot: &'a Chroot,
    /// What the request was about.
    pub(super) subject: &'a AnySubject,
}

pub(super) fn nothing(arrived: Arrived<'_>) -> Result<(), Error> {
    arrived.answer.map(drop)
}

pub(super) fn created(arrived: Arrived<'_>) -> Result<(String, Stat), Error> {
    let reply = arrived.answer?;
    let Create2Response { path, stat } = reply.decode()?;
    Ok((stripped(arrived.chroot, path).to_string(), stat))
}

pub(super) fn stat_if_exists(arrived: Arrived<'_>) -> Result<Option<Stat>, Error> {
    match arrived.answer {
        Ok(reply) => Ok(Some(reply.decode::<ExistsResponse>()?.stat)),
        Err(Error::Server(ErrorCode::NO_NODE)) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn data(arrived: Arrived<'_>) -> Result<(Bytes, Stat), Error> {
    let reply = arrived.answer?;
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

pub(super) fn data_and_watch<W>(arrived: Arrived<'_>, watch: W) -> Result<(Bytes, Stat, W), Error> {
    let (data, stat) = data(arrived)?;
    Ok((data, stat, watch))
}

pub(super) fn data_set(arrived: Arrived<'_>) -> Result<Stat, Error> {
    Ok(arrived.answer?.decode::<SetDataResponse>()?.stat)
}

pub(super) fn acl_set(arrived: Arrived<'_>) -> Result<Stat, Error> {
    Ok(arrived.answer?.decode::<SetAclResponse>()?.stat)
}

pub(super) fn acl(arrived: Arrived<'_>) -> Result<(Vec<owned::Acl>, Stat), Error> {
    let reply = arrived.answer?;
    let GetAclResponse { acl, stat } = reply.decode()?;
    Ok((acl.iter().map(|entry| entry.into_owned()).collect(), stat))
}

pub(super) fn children(arrived: Arrived<'_>) -> Result<(Vec<String>, Stat), Error> {
    let reply = arrived.answer?;
    let GetChildren2Response { children, stat } = reply.decode()?;
    Ok((children.iter().map(ToString::to_string).collect(), stat))
}

/// Nodes outside the chroot are left out: they have no path there.
pub(super) fn ephemerals(arrived: Arrived<'_>) -> Result<Vec<String>, Error> {
    let reply = arrived.answer?;
    let GetEphemeralsResponse { ephemerals } = reply.decode()?;
    Ok(ephemerals
        .iter()
        .filter_map(|path| arrived.chroot.strip(path))
        .map(str::to_string)
        .collect())
}

pub(super) fn descendants(arrived: Arrived<'_>) -> Result<usize, Error> {
    let total = arrived.answer?.decode::<GetAllChildrenNumberResponse>()?.total_number;
    Ok(usize::try_from(total).unwrap_or(0))
}

pub(super) fn identities(arrived: Arrived<'_>) -> Result<Vec<owned::ClientInfo>, Error> {
    let reply = arrived.answer?;
    let WhoAmIResponse { client_info } = reply.decode()?;
    Ok(client_info.iter().map(|identity| identity.into_owned()).collect())
}

/// Fails unless the reply has as many results as the request has operations.
pub(super) fn expect_results(asked: usize, answered: usize) -> Result<(), Error> {
    if asked == answered { Ok(()) } else { Err(Error::Results { asked, answered }) }
}
