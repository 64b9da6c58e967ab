//! The SASL mechanism DIGEST-MD5 (RFC 2831), as servers have it from the JDK.

use alloc::collections::BTreeMap;

use md5::{Digest, Md5};
use zk_proto::{Decode, ErrorCode, GetSaslRequest, ReplyHeader, SessionId, SetSaslResponse, Zxid};

use super::Ensemble;
use super::auth::Identity;
use super::log::Origin;
use super::outbox;

/// The realm, and the name of the service.
const REALM: &str = "zk-sasl-md5";

impl Ensemble {
    /// Answers an empty token with a challenge, and a client's proof with the server's.
    pub(super) fn check_token(&mut self, origin: Origin, session: SessionId, body: &[u8]) {
        let Ok(GetSaslRequest { token: Some(token) }) = GetSaslRequest::decode_all(body) else {
            return self.close(origin.conn);
        };
        // A function of the seed, so that a run can be repeated.
        let nonce = hex(&self.table_of(session).password(session).0);
        let header = |err| ReplyHeader { xid: origin.xid, zxid: Zxid::ZERO, err };
        let answer = match token {
            [] => challenge(&nonce),
            token => match verify(&self.config.users, &nonce, token) {
                Some((user, proof)) => {
                    if let Some(connection) = self.connections.get_mut(&origin.conn) {
                        connection.identify(Identity { scheme: "sasl", id: user });
                    }
                    proof
                }
                None => {
                    let refusal = outbox::frame(&header(ErrorCode::AUTH_FAILED));
                    self.outbox.send(origin.conn, session, refusal);
                    return self.close(origin.conn);
                }
            },
        };
        let answer = SetSaslResponse { token: Some(answer.as_bytes()) };
        self.outbox.send(origin.conn, session, outbox::frame(&(header(ErrorCode::OK), answer)));
    }
}

fn challenge(nonce: &str) -> String {
    format!("realm=\"{REALM}\",nonce=\"{nonce}\",charset=utf-8,algorithm=md5-sess")
}

/// Returns the user whose password a token proves, and the proof that the server knows it, too.
fn verify(users: &BTreeMap<String, String>, nonce: &str, token: &[u8]) -> Option<(String, String)> {
    let token = core::str::from_utf8(token).ok()?;
    let field = |wanted: &str| {
        let mut fields = token.split(',').filter_map(|field| field.split_once('='));
        fields.find(|(name, _)| *name == wanted).map(|(_, value)| value.trim_matches('"'))
    };
    let (user, client_nonce) = (field("username")?, field("cnonce")?);
    let mut secret = Md5::new();
    secret.update(Md5::digest(format!("{user}:{REALM}:{}", users.get(user)?)));
    secret.update(format!(":{nonce}:{client_nonce}"));
    if let Some(identity) = field("authzid") {
        secret.update(format!(":{identity}"));
    }
    let secret = hex(&secret.finalize());
    let proof = |method| {
        let uri = hex(&Md5::digest(format!("{method}:zookeeper/{REALM}")));
        hex(&Md5::digest(format!("{secret}:{nonce}:00000001:{client_nonce}:auth:{uri}")))
    };
    let is_proven = field("nonce")? == nonce && field("response")? == proof("AUTHENTICATE");
    is_proven.then(|| (user.to_owned(), format!("rspauth={}", proof(""))))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The challenge of the recording `3.8.0-java3.8.0-sasl`.
    const CHALLENGE: &str = "realm=\"zk-sasl-md5\",\
        nonce=\"BZDREShd8KKb2P24pcZTcdYIFwCsDSjNfP1xamLN\",charset=utf-8,algorithm=md5-sess";
    const NONCE: &str = "BZDREShd8KKb2P24pcZTcdYIFwCsDSjNfP1xamLN";

    fn token(user: &str, proof: &str) -> String {
        format!(
            "charset=utf-8,username=\"{user}\",realm=\"zk-sasl-md5\",nonce=\"{NONCE}\",\
             nc=00000001,cnonce=\"00ff\",digest-uri=\"zookeeper/zk-sasl-md5\",maxbuf=65536,\
             response={proof},qop=auth"
        )
    }

    /// The proofs are those of the tests of `zk_session::sasl`, which were computed apart.
    #[test]
    fn only_a_right_proof_for_this_challenge_is_answered() {
        let users = [("alice".to_owned(), "secret".to_owned())].into();
        assert_eq!(challenge(NONCE), CHALLENGE);
        let right = token("alice", "c4d06e7b66d5808bdf21caf6361d160f");
        let answer = "rspauth=4902f5aa1bc2cdf915c7b7707798332a".to_owned();
        let proven = verify(&users, NONCE, right.as_bytes());
        assert_eq!(proven, Some(("alice".to_owned(), answer)));
        assert_eq!(verify(&users, "another", right.as_bytes()), None);
        let wrong = token("alice", "c4d06e7b66d5808bdf21caf6361d1600");
        let unknown = token("bob", "c4d06e7b66d5808bdf21caf6361d160f");
        let tokens = [wrong.as_bytes(), unknown.as_bytes(), b"", b"username=\"alice\"", b"\xff"];
        for token in tokens {
            assert_eq!(verify(&users, NONCE, token), None);
        }
    }
}
