use alloc::string::{String, ToString};
use alloc::vec;

use proptest::prelude::*;

use super::*;

fn servers(text: &str) -> Vec<String> {
    EnsembleConfig::parse(text.as_bytes()).servers.iter().map(ToString::to_string).collect()
}

#[test]
fn a_configuration_names_the_addresses_for_clients() {
    let text = "server.1=zk1:2888:3888:participant;10.0.0.1:2181\n\
                server.2=zk2:2888:3888:observer;10.0.0.2:2182\r\n\
                server.3 = zk3:2888:3888 ; 2183\n\
                weight.3=1\ngroup.1=1:2:3\n# version=99\n\
                version=1000000ab";
    let config = EnsembleConfig::parse(text.as_bytes());
    assert_eq!(config.version, 0x1_0000_00ab);
    assert_eq!(servers(text), ["10.0.0.1:2181", "10.0.0.2:2182", "zk3:2183"]);
}

#[test]
fn a_server_that_listens_everywhere_is_found_at_its_own_host() {
    for client in ["2181", "0.0.0.0:2181", "[::]:2181", "[0:0:0:0:0:0:0:0]:2181", ":2181"] {
        for (own, found) in [
            ("zk1:2888:3888:participant", vec!["zk1:2181"]),
            ("[fd00::1]:2888:3888", vec!["[fd00::1]:2181"]),
            ("a:2888:3888|[::1]:2889:3889|a:1:2", vec!["a:2181", "[::1]:2181"]),
            ("0.0.0.0:2888:3888", vec![]),
            ("[::]:2888:3888", vec![]),
        ] {
            assert_eq!(servers(&format!("server.1={own};{client}")), found, "{own};{client}");
        }
    }
    assert_eq!(servers("server.1=a:2888:3888;[fd00::1]:2181"), ["[fd00::1]:2181"]);
}

#[test]
fn what_names_no_address_for_clients_is_ignored() {
    for text in [
        "",
        "version=0",
        "server.1=zk1:2888:3888:participant",
        "server.1=zk1:2888:3888;",
        "server.1=zk1:2888:3888;10.0.0.1:",
        "server.1=zk1:2888:3888;0",
        "server.1=zk1:2888:3888;65536",
        "server.1=zk1:2888:3888;-1",
        "server.1=zk1:2888:3888;a:b:2181",
        "server.1=zk1:2888:3888;::1:2181",
        "server.1=zk1:2888:3888;a b:2181",
        "server.1=zk1:2888:3888;a,b:2181",
        "server.1=zk1:2888:3888;a/b:2181",
        "server.1=;2181",
        "server.1=[::1;2181",
        "observer.1=zk1:2888:3888;2181",
        "server.1",
    ] {
        assert_eq!(servers(text), Vec::<String>::new(), "{text}");
    }
    let two = "server.1=zk1:1:1;10.0.0.1:1\nserver.2=zk2:1:1;10.0.0.1:1\nversion=-\nversion=x";
    assert_eq!(servers(two), ["10.0.0.1:1"]);
    assert_eq!(EnsembleConfig::parse(two.as_bytes()).version, 0);
}

#[test]
fn a_configuration_without_end_is_read_in_part() {
    let lines = (0..10_000).map(|n| format!("server.{n}=zk{n}:1:1;1\n"));
    assert_eq!(servers(&lines.collect::<String>()).len(), MAX_SERVERS);
    let own: Vec<_> = (0..10_000).map(|n| format!("zk{n}:1:1")).collect();
    assert_eq!(servers(&format!("server.1={};1", own.join("|"))).len(), MAX_ADDRESSES);
    assert_eq!(servers(&format!("server.1={}:1:1;1", "a".repeat(300))).len(), 0);
    let long = format!("server.1=a:1:1;1\n#{}", "a".repeat(frame::DEFAULT_LIMIT));
    assert_eq!(servers(&long).len(), 0);
}

proptest! {
    #[test]
    fn each_address_is_a_server_of_a_connection_string(
        data in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..60),
            "\\PC{0,40}".prop_map(String::into_bytes),
            "(server\\.[0-9]=[a:\\[\\]|;0-9.,/ -]{0,24}\n|version=[0-9a-f]{0,17}\n){0,4}"
                .prop_map(String::into_bytes),
        ],
    ) {
        let config = EnsembleConfig::parse(&data);
        for (place, server) in config.servers.iter().enumerate() {
            let parsed: crate::ConnectString = server.to_string().parse().unwrap();
            prop_assert_eq!(&parsed.servers, core::slice::from_ref(server));
            prop_assert!(!config.servers[..place].contains(server));
        }
    }

    #[test]
    fn an_address_survives_the_configuration(
        own in "([a-z]{1,9}|\\[fd00::[0-9a-f]{1,4}\\]|10\\.0\\.0\\.[1-9])",
        client in "(|0\\.0\\.0\\.0:|\\[::\\]:|[a-z]{1,9}:|\\[fd00::[0-9a-f]{1,4}\\]:)",
        port in 1..=u16::MAX,
        role in "(|:participant|:observer)",
        version: u64,
    ) {
        let text = format!("server.7={own}:2888:3888{role};{client}{port}\nversion={version:x}\n");
        let host = match client.trim_end_matches(':') {
            "" | "0.0.0.0" | "[::]" => own,
            host => host.to_string(),
        };
        let config = EnsembleConfig::parse(text.as_bytes());
        prop_assert_eq!(config.version, version);
        prop_assert_eq!(servers(&text), [format!("{host}:{port}")]);
    }
}
