use alloc::vec;

use super::*;

/// The challenge of the recording `3.8.0-java3.8.0-sasl`.
const CHALLENGE: &[u8] = b"realm=\"zk-sasl-md5\",\
    nonce=\"BZDREShd8KKb2P24pcZTcdYIFwCsDSjNfP1xamLN\",charset=utf-8,algorithm=md5-sess";

/// User, password, and the proofs of the client and of the server.
const PROOFS: [(&str, &str, &str, &str); 3] = [
    ("alice", "secret", "c4d06e7b66d5808bdf21caf6361d160f", "4902f5aa1bc2cdf915c7b7707798332a"),
    // Hashed as ISO 8859-1, sent as UTF-8.
    ("jürgen", "größe", "3060c3e9ff911c4952eb18f04e21544f", "bcd668c45bd9f1846509b6afffeea714"),
    ("δ", "πw", "2e40625828c5ab27b845190830cd186a", "68ec5d0895afef2a4cbdb4f6bd55787f"),
];

fn begun(user: &str, password: &str) -> ChallengeState {
    ChallengeState::Begun { credentials: DigestMd5::new(user, password), nonce: "00ff".to_string() }
}

fn text(token: Option<Vec<u8>>) -> String {
    String::from_utf8(token.expect("a token")).expect("text")
}

/// The proofs were computed apart, by a program that reproduces the example of RFC 2831.
#[test]
fn the_answer_proves_the_password_and_the_server_has_to_prove_it_too() {
    for (user, password, client, server) in PROOFS {
        let mut exchange = begun(user, password);
        let answer = text(exchange.respond(Some(CHALLENGE)).expect("a usable challenge"));
        assert_eq!(
            answer,
            format!(
                "charset=utf-8,username=\"{user}\",realm=\"zk-sasl-md5\",\
                 nonce=\"BZDREShd8KKb2P24pcZTcdYIFwCsDSjNfP1xamLN\",nc=00000001,cnonce=\"00ff\",\
                 digest-uri=\"zookeeper/zk-sasl-md5\",maxbuf=65536,response={client},qop=auth"
            )
        );
        let proof = format!("rspauth={server}");
        assert_eq!(exchange.respond(Some(proof.as_bytes())), Ok(None));
    }
}

#[test]
fn a_program_without_an_operating_system_brings_its_nonces() {
    let mechanism = DigestMd5::with_nonces("alice", "secret", || Ok([0xa5; 16]));
    let server = ServerAddress { host: "zk1".into(), port: 1 };
    let (mut exchange, _) = mechanism.begin(&server).expect("a nonce");
    let answer = text(exchange.respond(Some(CHALLENGE)).expect("a usable challenge"));
    assert!(answer.contains(&format!("cnonce=\"{}\"", "a5".repeat(16))), "{answer}");
    let none = SaslError::Mechanism("no entropy".into());
    let mechanism = DigestMd5::with_nonces("alice", "secret", || {
        Err(SaslError::Mechanism("no entropy".into()))
    });
    assert_eq!(mechanism.begin(&server).err(), Some(none));
}

#[test]
fn a_server_that_does_not_know_the_password_is_noticed() {
    for proof in [&b"rspauth=00"[..], b"", b"other=1"] {
        let mut exchange = begun("alice", "secret");
        exchange.respond(Some(CHALLENGE)).expect("a usable challenge");
        assert_eq!(exchange.respond(Some(proof)), Err(SaslError::ServerUnproven));
    }
}

#[test]
fn unusable_challenges_are_refused() {
    for (challenge, problem) in [
        (&b"nonce=\"a\",algorithm=md5"[..], "its algorithm is not md5-sess"),
        (b"nonce=\"a\"", "its algorithm is not md5-sess"),
        (b"algorithm=md5-sess", "it has no nonce"),
        (
            b"algorithm=md5-sess,nonce=\"a\",qop=\"auth-int,auth-conf\"",
            "it demands encryption by SASL",
        ),
        (b"algorithm", "it is malformed"),
        (b"nonce=\"a", "it is malformed"),
        (b"nonce=\"a\\", "it is malformed"),
        (b"nonce=\xff", "it is malformed"),
        (&[b'='; MAX_CHALLENGE], "it is too long"),
    ] {
        let refused = begun("alice", "secret").respond(Some(challenge));
        assert_eq!(refused, Err(SaslError::Challenge(problem)));
    }
    assert_eq!(begun("alice", "secret").respond(None), Err(SaslError::Unsupported));
}

#[test]
fn quoted_values_are_read_and_written() {
    let parsed = directives(b" a = \"x \\\" y\" , B=c ,,d=").expect("well formed");
    let pairs: Vec<_> = parsed.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(pairs, vec![("a", "x \" y"), ("b", "c"), ("d", "")]);
    assert_eq!(quote("a\"b\\c"), "a\\\"b\\\\c");
}

#[test]
fn each_exchange_has_another_nonce() {
    let (one, two) = (random_nonce().expect("entropy"), random_nonce().expect("entropy"));
    assert!(one != two, "{one:?}");
}

#[test]
fn nothing_follows_the_proof_of_the_server() {
    let (user, password, _, server) = PROOFS[0];
    let mut exchange = begun(user, password);
    exchange.respond(Some(CHALLENGE)).expect("a usable challenge");
    exchange.respond(Some(format!("rspauth={server}").as_bytes())).expect("a proof");
    let over = Err(SaslError::Challenge("the exchange is over"));
    assert_eq!(exchange.respond(Some(CHALLENGE)), over);
}

#[test]
fn the_mechanism_begins_without_a_token_and_hides_the_password() {
    let mechanism = DigestMd5::new("alice", "secret");
    assert_eq!(mechanism.name(), "DIGEST-MD5");
    assert_eq!(format!("{mechanism:?}"), "DigestMd5 { user: \"alice\", .. }");
    let server = ServerAddress { host: "zk1".to_string(), port: 2181 };
    let (mut exchange, token) = mechanism.begin(&server).expect("entropy");
    assert!(token.is_empty());
    let answer = text(exchange.respond(Some(CHALLENGE)).expect("a usable challenge"));
    assert!(answer.contains("username=\"alice\""), "{answer}");
}
