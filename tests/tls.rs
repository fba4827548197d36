//! HTTPS: whose certificates count, and the client's own.
#![allow(missing_docs, clippy::unwrap_used, clippy::disallowed_methods, unreachable_pub)]

#[path = "support/abi.rs"]
mod abi;
#[path = "support/tls.rs"]
mod tls;

use abi::*;
use mcp_test_server::TestServer;
use rustls::version::{TLS12, TLS13};
use tls::{Authority, Door, Pair};

const BOTH: [&rustls::SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// A client that comes through the door, or why it cannot.
fn enter(door: &Door, host: &str, tls: Value) -> Result<Client, Failure> {
    let url = format!("https://{host}:{}/mcp", door.address.port());
    let client = Client::new(&json!({"url": url, "tls": tls, "proxy": "none", "era": "modern"}));
    client.open()?;
    client.wait_open()?;
    Ok(client)
}

fn refusal(door: &Door, host: &str, tls: Value) -> String {
    let failure = enter(door, host, tls).map(drop).unwrap_err();
    assert_eq!((failure.name().as_str(), failure.retry_safe), ("MCP_E_TLS", true), "{failure:?}");
    failure.message.clone()
}

fn door(pair: &Pair) -> (TestServer, Door) {
    let server = TestServer::start(Script::new());
    let door = Door::open(server.address(), pair, None, &BOTH);
    (server, door)
}

#[test]
fn a_ca_of_ones_own_is_accepted_and_without_it_the_server_is_refused() {
    let authority = Authority::new();
    let pair = authority.issue(&["localhost", "127.0.0.1"], |_| {});
    let (server, door) = door(&pair);
    let file = tempfile(&authority.pem());
    for (host, tls) in [
        ("localhost", json!({"ca_pem": authority.pem()})),
        ("127.0.0.1", json!({"ca_pem": authority.pem(), "roots": "only"})),
        ("localhost", json!({"ca_file": file.0, "roots": "only"})),
    ] {
        let client = enter(&door, host, tls).unwrap();
        for n in 0..3 {
            assert_eq!(client.run("echo", json!({"n": n})).unwrap().structured().unwrap(), format!("{{\"n\":{n}}}"));
        }
    }
    assert_eq!(server.accepted(), 3, "each client kept its connection");
    let message = refusal(&door, "localhost", json!({"ca_pem": Authority::new().pem(), "roots": "only"}));
    assert!(message.contains("unknown issuer; give its CA in settings.tls.ca_file"), "{message}");
    let message = refusal(&door, "localhost", json!({"ca_pem": Authority::new().pem()}));
    assert!(message.contains("unknown issuer"), "{message}");
}

#[test]
fn a_wrong_name_and_a_wrong_time_are_refused() {
    let authority = Authority::new();
    let own = json!({"ca_pem": authority.pem(), "roots": "only"});
    let (_server, wrong_name) = door(&authority.issue(&["server.test"], |_| {}));
    let message = refusal(&wrong_name, "localhost", own.clone());
    assert!(message.contains("is for another name") && message.contains("server.test"), "{message}");
    let mut named = own.clone();
    named["server_name"] = json!("server.test");
    enter(&wrong_name, "127.0.0.1", named).unwrap();
    for (from, to, want) in [(2001, 2002, "has expired"), (2901, 2902, "is not valid yet")] {
        let pair = authority.issue(&["localhost"], |params| {
            params.not_before = rcgen::date_time_ymd(from, 1, 1);
            params.not_after = rcgen::date_time_ymd(to, 1, 1);
        });
        let (_server, wrong_time) = door(&pair);
        let message = refusal(&wrong_time, "localhost", own.clone());
        assert!(message.contains(want), "{message}");
    }
}

#[test]
fn a_client_certificate_is_shown_where_it_is_demanded() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let pair = authority.issue(&["localhost"], |_| {});
    let mine = clients.issue(&["me"], |_| {});
    let strange = Authority::new().issue(&["me"], |_| {});
    for version in [&TLS12, &TLS13] {
        let server = TestServer::start(Script::new());
        let door = Door::open(server.address(), &pair, Some(&clients), &[version]);
        let with = |pair: &Pair| json!({"ca_pem": authority.pem(), "roots": "only", "client_cert_pem": pair.cert, "client_key_pem": pair.key});
        let client = enter(&door, "localhost", with(&mine)).unwrap();
        client.run("echo", json!({})).unwrap();
        let message = refusal(&door, "localhost", json!({"ca_pem": authority.pem(), "roots": "only"}));
        assert!(message.contains("client certificate"), "{version:?}: {message}");
        let message = refusal(&door, "localhost", with(&strange));
        assert!(message.contains("does not accept the client certificate"), "{version:?}: {message}");
        assert_eq!(server.count_of("server/discover"), 1, "nobody else came in");
        // Read from files as well.
        let (cert, key) = (tempfile(&mine.cert), tempfile(&mine.key));
        let files = json!({"ca_pem": authority.pem(), "client_cert_file": cert.0, "client_key_file": key.0});
        enter(&door, "localhost", files).unwrap();
    }
}

#[test]
fn what_is_wrong_with_files_and_texts_is_told_when_the_client_is_made() {
    let authority = Authority::new();
    let (one, other) = (authority.issue(&["a"], |_| {}), authority.issue(&["b"], |_| {}));
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let broken_key = "-----BEGIN PRIVATE KEY-----\ncanary==\n-----END PRIVATE KEY-----\n";
    let client = |cert: &str, key: &str| json!({"client_cert_pem": cert, "client_key_pem": key});
    for (tls, want) in [
        (json!({"ca_file": "/no/such/file.pem"}), "settings.tls.ca_file: /no/such/file.pem cannot be read: "),
        (json!({"ca_pem": "hello"}), "settings.tls.ca_pem: has no certificate in PEM form"),
        (json!({"ca_pem": garbage}), "settings.tls.ca_pem: certificate 1 of 1 is not valid"),
        (json!({"ca_pem": "-----BEGIN CERTIFICATE-----\n"}), "settings.tls.ca_pem: is not valid PEM"),
        (json!({"roots": "only"}), "settings.tls.roots: \"only\" needs ca_file or ca_pem"),
        (json!({"server_name": "a b"}), "settings.tls.server_name: is no host name"),
        (client(&one.key, &one.key), "settings.tls.client_cert_pem: has no certificate in PEM form"),
        (client(&one.cert, &one.cert), "settings.tls.client_key_pem: has no private key in PEM form"),
        (client(&one.cert, encrypted), "settings.tls.client_key_pem: an encrypted key is not supported"),
        (client(&one.cert, broken_key), "settings.tls.client_key_pem: this kind of private key cannot be used"),
        (client(&one.cert, &other.key), "settings.tls.client_key_pem: does not belong to the client's certificate"),
    ] {
        let settings = json!({"url": "https://localhost:1/", "tls": tls, "proxy": "none"});
        let failure = Client::make(settings.to_string().as_bytes()).map(drop).unwrap_err();
        assert_eq!(failure.name(), "MCP_E_ARGUMENT", "{failure:?}");
        assert!(failure.message.contains(want), "{want}: {}", failure.message);
        assert!(!failure.message.contains("canary"), "{}", failure.message);
    }
}

/// A file that goes with its owner.
struct TempFile(String);

impl Drop for TempFile {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

fn tempfile(text: &str) -> TempFile {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("mcp-tls-{}-{}.pem", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst));
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, text).unwrap();
    TempFile(path.to_str().unwrap().to_owned())
}
