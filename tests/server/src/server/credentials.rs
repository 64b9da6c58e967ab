//! Authentication requests. They are answered at once, without a zxid
//! (`ZooKeeperServer.processPacket`).

use zk_proto::{
    AuthPacket, Decode, ErrorCode, GetSaslRequest, OpCode, ReplyHeader, SessionId, SetSaslResponse,
    Zxid,
};

use super::Ensemble;
use super::auth::Identity;
use super::log::Origin;
use super::outbox;

impl Ensemble {
    pub(super) fn authenticate(
        &mut self,
        origin: Origin,
        session: SessionId,
        opcode: OpCode,
        body: &[u8],
    ) {
        match opcode {
            OpCode::AUTH => self.check_credentials(origin, session, body),
            #[cfg(feature = "sasl")]
            _ if !self.config.users.is_empty() => self.check_token(origin, session, body),
            _ => self.decline_sasl(origin, session, body),
        }
    }

    fn check_credentials(&mut self, origin: Origin, session: SessionId, body: &[u8]) {
        let Ok(packet) = AuthPacket::decode_all(body) else { return self.close(origin.conn) };
        let Some(connection) = self.connections.get_mut(&origin.conn) else { return };
        let identity = Identity::prove(&packet, connection.address);
        let err = match &identity {
            Some(_) => ErrorCode::OK,
            None => ErrorCode::AUTH_FAILED,
        };
        let header = ReplyHeader { xid: origin.xid, zxid: Zxid::ZERO, err };
        self.outbox.send(origin.conn, session, outbox::frame(&header));
        match identity {
            Some(identity) => connection.identify(identity),
            None => self.close(origin.conn),
        }
    }

    /// Answers as a server without SASL.
    fn decline_sasl(&mut self, origin: Origin, session: SessionId, body: &[u8]) {
        match GetSaslRequest::decode_all(body) {
            Ok(GetSaslRequest { token: Some(_) }) => {
                let header = ReplyHeader { xid: origin.xid, zxid: Zxid::ZERO, err: ErrorCode::OK };
                let answer = outbox::frame(&(header, SetSaslResponse { token: None }));
                self.outbox.send(origin.conn, session, answer);
            }
            _ => self.close(origin.conn),
        }
    }
}
