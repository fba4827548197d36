//! Through a proxy: plain HTTP and HTTPS, by a setting and by the environment.
#![allow(missing_docs, clippy::unwrap_used, clippy::disallowed_methods, unreachable_pub)]

#[path = "support/abi.rs"]
mod abi;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "support/tls.rs"]
mod tls;

use std::process::Command;

use abi::*;
use mcp_test_server::TestServer;
use proxy::{Manner, Proxy};
use rustls::version::{TLS12, TLS13};
use tls::{Authority, Door};

/// Nobody can look this name up but the proxy.
const NAME: &str = "far.away.invalid";
const BASIC: &str = "Basic dTpjYW5hcnktcHc=";

/// `u:canary-pw` before the proxy's place.
fn given(scheme: &str, address: std::net::SocketAddr) -> Value {
    json!(format!("{scheme}://u:canary-pw@localhost:{}", address.port()))
}

struct World {
    server: TestServer,
    door: Door,
    authority: Authority,
}

fn world() -> World {
    let server = TestServer::start(Script::new().options(json!({"path": "/mcp/"})));
    let authority = Authority::new();
    let pair = authority.issue(&[NAME, "localhost"], |_| {});
    let door = Door::open(server.address(), &pair, None, &[&TLS12, &TLS13]);
    World { server, door, authority }
}

impl World {
    fn settings(&self, scheme: &str, proxy: Value) -> Value {
        json!({
            "url": format!("{scheme}://{NAME}:4711/mcp/"),
            "proxy": proxy,
            "headers": {"Authorization": "Bearer canary-token"},
            "tls": {"ca_pem": self.authority.pem(), "roots": "only"},
            "era": "modern",
        })
    }
}

fn enter(settings: &Value) -> Result<Client, Failure> {
    let client = Client::new(settings);
    client.open()?;
    client.wait_open()?;
    Ok(client)
}

#[test]
fn plain_http_names_the_server_in_each_request_and_keeps_its_connection() {
    let world = world();
    let proxy = Proxy::start(world.server.address(), Manner::Pass);
    let client = enter(&world.settings("http", given("http", proxy.address))).unwrap();
    for n in 0..4 {
        assert_eq!(client.run("echo", json!({"n": n})).unwrap().structured().unwrap(), format!("{{\"n\":{n}}}"));
    }
    let asked = proxy.asked();
    assert!(asked.len() >= 5, "{asked:?}");
    for one in &asked {
        assert_eq!(one.line, format!("POST http://{NAME}:4711/mcp/ HTTP/1.1"));
        assert_eq!(one.header("host"), Some(format!("{NAME}:4711").as_str()));
        assert_eq!(one.header("proxy-authorization"), Some(BASIC));
        assert_eq!((one.connection, one.reads), (0, 1), "one connection, one write for each request");
    }
    assert!(
        world.server.requests().iter().all(|request| request.header("authorization") == Some("Bearer canary-token"))
    );
}

#[test]
fn https_goes_through_a_tunnel_and_each_side_gets_its_own_credentials() {
    let world = world();
    let proxy = Proxy::start(world.door.address, Manner::Pass);
    let client = enter(&world.settings("https", given("http", proxy.address))).unwrap();
    for n in 0..4 {
        assert_eq!(client.run("echo", json!({"n": n})).unwrap().structured().unwrap(), format!("{{\"n\":{n}}}"));
    }
    let asked = proxy.asked();
    assert_eq!(proxy.lines(), [format!("CONNECT {NAME}:4711")], "one tunnel serves all");
    assert_eq!(asked[0].header("proxy-authorization"), Some(BASIC));
    assert_eq!(asked[0].header("host"), Some(format!("{NAME}:4711").as_str()));
    assert_eq!(asked[0].headers.len(), 2, "no more than these: {asked:?}");
    for request in world.server.requests() {
        assert_eq!(request.header("authorization"), Some("Bearer canary-token"));
        assert_eq!((request.header("proxy-authorization"), request.path.as_str()), (None, "/mcp/"));
    }
}

#[test]
fn a_proxy_that_is_reached_over_tls() {
    let world = world();
    for (scheme, behind) in [("http", world.server.address()), ("https", world.door.address)] {
        let proxy = Proxy::start(behind, Manner::Pass);
        let pair = world.authority.issue(&["localhost"], |_| {});
        let door = Door::open(proxy.address, &pair, None, &[&TLS13]);
        let client = enter(&world.settings(scheme, given("https", door.address))).unwrap();
        for n in 0..3 {
            assert_eq!(client.run("echo", json!({"n": n})).unwrap().structured().unwrap(), format!("{{\"n\":{n}}}"));
        }
        let asked = proxy.asked();
        assert!(asked.iter().all(|one| one.header("proxy-authorization") == Some(BASIC)), "{asked:?}");
        assert_eq!(asked.iter().map(|one| one.connection).max(), Some(0), "{asked:?}");
    }
    let pair = world.authority.issue(&["other.test"], |_| {});
    let proxy = Proxy::start(world.server.address(), Manner::Pass);
    let door = Door::open(proxy.address, &pair, None, &[&TLS13]);
    let failure = enter(&world.settings("http", given("https", door.address))).map(drop).unwrap_err();
    assert_eq!(failure.name(), "MCP_E_TLS", "{failure:?}");
    assert!(failure.message.contains("the proxy https://localhost:"), "{failure:?}");
    assert!(proxy.asked().is_empty());
}

#[test]
fn a_refusal_of_the_proxys_is_a_connect_error_that_names_it_without_its_password() {
    let world = world();
    for (scheme, answer, want) in [
        (
            "https",
            "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
            "does not accept its user and password (HTTP 407)",
        ),
        (
            "https",
            "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 5\r\n\r\nsorry",
            "refused a tunnel to far.away.invalid:4711 (HTTP 502)",
        ),
        ("https", "HTTP/1.1 301 Moved\r\nLocation: /\r\n\r\n", "(HTTP 301)"),
        ("https", "", "ended the connection instead of answering CONNECT"),
        ("https", "HTTP/1.1 200 OK", "ended the connection instead of answering CONNECT"),
        ("https", "SSH-2.0-OpenSSH\r\n\r\n", "answered CONNECT with something that is not HTTP"),
        (
            "http",
            "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
            "does not accept its user and password (HTTP 407)",
        ),
    ] {
        let proxy = Proxy::start(world.server.address(), Manner::Say(answer));
        let failure = enter(&world.settings(scheme, given("http", proxy.address))).map(drop).unwrap_err();
        assert_eq!((failure.name().as_str(), failure.retry_safe), ("MCP_E_CONNECT", true), "{failure:?}");
        let place = format!("the proxy http://localhost:{} ", proxy.address.port());
        assert!(failure.message.contains(&place) && failure.message.contains(want), "{failure:?}");
        assert!(!failure.message.contains("canary") && !failure.message.contains("dTpj"), "{failure:?}");
    }
    // Nobody listens there.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let failure = enter(&world.settings("https", given("http", nobody))).map(drop).unwrap_err();
    assert_eq!((failure.name().as_str(), failure.retry_safe), ("MCP_E_CONNECT", true), "{failure:?}");
    let place = format!("cannot connect: the proxy http://localhost:{}: ", nobody.port());
    assert!(failure.message.starts_with(&place), "{failure:?}");
    assert_eq!(world.server.accepted(), 0);
}

#[test]
fn a_proxy_that_says_nothing_is_bounded_by_the_connect_limit() {
    let world = world();
    let proxy = Proxy::start(world.door.address, Manner::Hold);
    let mut settings = world.settings("https", given("http", proxy.address));
    settings["timeouts"] = json!({"connect_ms": 200});
    let failure = enter(&settings).map(drop).unwrap_err();
    assert_eq!((failure.name().as_str(), failure.retry_safe), ("MCP_E_TIMEOUT", true), "{failure:?}");
    assert!(failure.message.contains("timeouts.connect_ms"), "{failure:?}");
    assert_eq!(proxy.lines(), [format!("CONNECT {NAME}:4711")]);
}

#[test]
fn a_cancel_through_a_proxy_ends_its_own_call_and_no_other() {
    for scheme in ["http", "https"] {
        let rule = json!({"match": {"method": "tools/call", "name": "echo"}, "do": {"hold": true}});
        let server = TestServer::start(Script::new().options(json!({"path": "/mcp/"})).rule(rule));
        let authority = Authority::new();
        let door = Door::open(server.address(), &authority.issue(&[NAME], |_| {}), None, &[&TLS13]);
        let behind = if scheme == "http" { server.address() } else { door.address };
        let proxy = Proxy::start(behind, Manner::Pass);
        let world = World { server, door, authority };
        let client = enter(&world.settings(scheme, given("http", proxy.address))).unwrap();
        let (one, other) =
            (client.start("echo", json!({"n": 1}), json!({})), client.start("echo", json!({"n": 2}), json!({})));
        assert!(world.server.wait_held(2, PATIENCE), "{scheme}");
        one.cancel();
        assert_eq!(one.wait(PATIENCE_MS).unwrap_err().name(), "MCP_E_CANCELLED", "{scheme}");
        world.server.release();
        other.wait(PATIENCE_MS).unwrap();
    }
}

// ---- the environment -----------------------------------------------------------------------------------------------

const URLS: &str = "MCP_TEST_URLS";
const MORE: &str = "MCP_TEST_SETTINGS";

/// Runs in a process of its own, whose environment is what is tested.
#[test]
fn br_19_child() {
    let Ok(urls) = std::env::var(URLS) else {
        return;
    };
    let mut settings: Value = serde_json::from_str(&std::env::var(MORE).unwrap()).unwrap();
    for url in urls.split(' ') {
        settings["url"] = json!(url);
        settings["era"] = json!("modern");
        let made = Client::make(settings.to_string().as_bytes());
        let opened = made.and_then(|client| client.open().and_then(|_| client.wait_open()));
        println!("{url} {}", opened.map_or_else(|failure| failure.message, |_| "open".to_owned()));
    }
}

/// Which of these hosts come to the proxy, in a process with this environment.
fn through(proxy: &Proxy, port: u16, hosts: &[&str], env: &[(&str, &str)], settings: Value) -> Vec<String> {
    let before = proxy.lines().len();
    let urls: Vec<String> = hosts.iter().map(|host| format!("http://{host}:{port}/mcp")).collect();
    let mut child = Command::new(std::env::current_exe().unwrap());
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        child.env_remove(name).env_remove(name.to_ascii_lowercase());
    }
    child.args(["--exact", "br_19_child", "--nocapture"]).env_remove("REQUEST_METHOD");
    child.env(URLS, urls.join(" ")).env(MORE, settings.to_string());
    for (name, value) in env {
        child.env(name, value.replace("PROXY", &format!("http://{}", proxy.address)));
    }
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let opened = text.lines().filter(|line| line.ends_with(" open")).count();
    assert!(output.status.success() && opened == hosts.len(), "{env:?}: {text}");
    let asked = proxy.asked();
    let mut found: Vec<String> = asked[before..]
        .iter()
        .map(|asked| asked.header("host").unwrap().trim_end_matches(&format!(":{port}")).to_owned())
        .collect();
    found.dedup();
    found
}

#[test]
fn br_19_exactly_the_hosts_that_are_not_excluded_come_to_the_proxy() {
    let server = TestServer::start(Script::new());
    let proxy = Proxy::start(server.address(), Manner::Pass);
    let port = server.address().port();
    let hosts = ["127.0.0.1", "localhost", "a.internal.localhost", "other.localhost"];
    let all: &[&str] = &hosts;
    let plain = json!({});
    let list = "localhost:1, 127.0.0.1,.internal.localhost";
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], Value, &'a [&'a str]);
    let rows: &[Row<'_>] = &[
        ("no variable", &[], plain.clone(), &[]),
        ("for http", &[("HTTP_PROXY", "PROXY")], plain.clone(), all),
        ("lower case", &[("http_proxy", "PROXY")], plain.clone(), all),
        ("for all", &[("ALL_PROXY", "PROXY")], plain.clone(), all),
        ("for https", &[("HTTPS_PROXY", "PROXY")], plain.clone(), &[]),
        ("in CGI", &[("HTTP_PROXY", "PROXY"), ("REQUEST_METHOD", "GET")], plain.clone(), &[]),
        ("a list", &[("HTTP_PROXY", "PROXY"), ("NO_PROXY", list)], plain.clone(), &["localhost", "other.localhost"]),
        ("a list in lower case", &[("http_proxy", "PROXY"), ("no_proxy", "localhost")], plain.clone(), &["127.0.0.1"]),
        ("all excluded", &[("HTTP_PROXY", "PROXY"), ("NO_PROXY", "*")], plain, &[]),
        ("the setting none", &[("HTTP_PROXY", "PROXY")], json!({"proxy": "none"}), &[]),
        (
            "a list in the settings",
            &[("HTTP_PROXY", "PROXY"), ("NO_PROXY", "*")],
            json!({"no_proxy": ["127.0.0.0/8", "internal.localhost"]}),
            &["localhost", "other.localhost"],
        ),
        (
            "a proxy in the settings",
            &[("HTTP_PROXY", "http://127.0.0.1:1"), ("NO_PROXY", "*")],
            json!({"proxy": format!("http://{}", proxy.address)}),
            all,
        ),
    ];
    for (what, env, settings, want) in rows {
        assert_eq!(&through(&proxy, port, &hosts, env, settings.clone()), want, "{what}");
    }
}

#[test]
fn a_proxy_that_cannot_be_used_is_told_when_the_client_is_made() {
    for (proxy, status, want) in [
        ("socks5://localhost:1080", "MCP_E_UNSUPPORTED", "settings.proxy: a proxy of kind socks5 is not supported"),
        ("http://u:canary@localhost:0", "MCP_E_ARGUMENT", "settings.proxy: the port is no number from 1 to 65535"),
        ("", "MCP_E_ARGUMENT", "settings.proxy: expected \"env\", \"none\" or a URL"),
    ] {
        let settings = json!({"url": "http://localhost:1/", "proxy": proxy});
        let failure = Client::make(settings.to_string().as_bytes()).map(drop).unwrap_err();
        assert_eq!(failure.name(), status, "{failure:?}");
        assert!(failure.message.contains(want) && !failure.message.contains("canary"), "{failure:?}");
    }
}
