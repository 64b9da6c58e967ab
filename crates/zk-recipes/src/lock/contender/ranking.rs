//! The order of contenders whose sequence numbers are unusable.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use zk_session::Error;
use zk_session::proto::{ErrorCode, ExistsResponse, GetChildrenResponse};
use zk_session::session::Reply;

use super::Contender;
use crate::attempt::phase::{Phase, Rank, Ranks};
use crate::attempt::queue::QueuePosition;
use crate::attempt::{Full, OfFull, Turn};

impl Contender {
    /// Asks for the stat of each contender, to sort them by the transactions that created them.
    ///
    /// Contenders missing from the list came after us, so the stats need not be of one moment. But
    /// our own stat must be read last. If our node exists then, it existed while others were found
    /// gone.
    pub(super) fn rank(&mut self, full: Full, list: &Reply, turn: &mut Turn<'_>) {
        let scheme = self.config.scheme;
        let (children, own) = match (list.decode::<GetChildrenResponse<'_>>(), &self.node) {
            (Ok(response), Some(node)) => (response.children, String::from(&*node.name)),
            _ => return self.vanished(turn),
        };
        let mut all = Vec::new();
        let mut ask = |name: &str| {
            let stat = turn.stat(&self.path_of(name));
            all.push(Rank { stat, name: name.to_string(), czxid: None });
        };
        for child in children.iter() {
            if *child != *own && scheme.parse(child).is_some() {
                ask(child);
            }
        }
        ask(&own);
        self.phase = Phase::Ranking(OfFull::new(full, Ranks { left: all.len(), all }));
    }

    pub(super) fn ranked(
        &mut self,
        place: usize,
        result: Result<Reply, Error>,
        turn: &mut Turn<'_>,
    ) {
        let czxid = match result.and_then(|reply| reply.decode::<ExistsResponse>()) {
            Ok(response) => Some(response.stat.czxid),
            Err(Error::Server(ErrorCode::NO_NODE)) => None,
            Err(error) => return self.retry_or_fail(error, turn),
        };
        let queue_reader = self.queue_reader();
        let Phase::Ranking(ranks) = &mut self.phase else { return };
        let Ranks { all, left } = ranks.get_mut();
        if let Some(rank) = all.get_mut(place) {
            rank.czxid = czxid;
        }
        *left -= 1;
        if *left > 0 {
            return;
        }
        let contenders = all.iter().filter_map(|rank| Some((rank.czxid?, rank.name.as_str())));
        let own = self.node.as_ref().map(|node| (node.czxid, &*node.name));
        let view = match own {
            Some(own) if contenders.clone().any(|other| other == own) => {
                queue_reader.position_by_czxid(own.0, contenders)
            }
            _ => QueuePosition::Absent,
        };
        self.judge(view, false, turn);
    }
}
