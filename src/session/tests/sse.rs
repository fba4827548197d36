//! HTTP+SSE of 2024-11-05, found by falling back and spoken to the end.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::fixture::{BOUND, Peer, Seen, Server, Talk, serve, settings};
use crate::cancel::CancelToken;
use crate::error::Kind;
use crate::protocol::json::Json;
use crate::protocol::version::Era;
use crate::session::{EraChoice, Note};

/// The event stream that is open, and what is said on it.
#[derive(Clone, Default)]
struct Line(Arc<Mutex<Option<TcpStream>>>);

impl Line {
    fn say(&self, message: &Value) {
        if let Some(stream) = &mut *self.0.lock() {
            stream.write_all(format!("event: message\ndata: {message}\n\n").as_bytes()).unwrap();
        }
    }

    fn cut(&self) {
        let stream = self.0.lock().take();
        if let Some(stream) = stream {
            stream.shutdown(std::net::Shutdown::Both).unwrap();
        }
    }
}

/// A server of 2024-11-05. `play` may answer a POST in another way than by an empty result.
fn old(endpoint: &'static str, play: impl Fn(&Seen, &Line) -> bool + Send + Sync + 'static) -> (Server, Line) {
    old_at(endpoint, "/messages?session=1", play)
}

/// The same, with the path that its endpoint leads to. `$host` in the endpoint is the server's own address.
fn old_at(
    endpoint: &'static str,
    leads_to: &'static str,
    play: impl Fn(&Seen, &Line) -> bool + Send + Sync + 'static,
) -> (Server, Line) {
    let line = Line::default();
    let there = line.clone();
    let server = serve(move |seen, peer: &mut Peer| match (seen.verb.as_str(), seen.path.as_str()) {
        ("GET", "/mcp") => {
            peer.stream();
            let endpoint = endpoint.replace("$host", seen.header("host").unwrap_or_default());
            // Before the client can know the way to ask.
            *there.0.lock() = Some(peer.share());
            peer.say(&format!("event: endpoint\ndata: {endpoint}\n\n"));
            peer.wait_gone();
        }
        ("POST", path) if path == leads_to => {
            peer.answer(202, "", "Accepted");
            let result = match seen.method() {
                _ if seen.body["id"].is_null() || seen.method().is_empty() || play(seen, &there) => return,
                "initialize" => json!({"protocolVersion": "2024-11-05", "capabilities": {}}),
                _ => json!({"tools": []}),
            };
            there.say(&json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result}));
        }
        _ => peer.answer(405, "", ""),
    });
    (server, line)
}

#[test]
fn a_server_of_http_and_sse_is_found_and_remembered() {
    let (server, _) = old("/messages?session=1", |_, _| false);
    let talk = Talk::new(&server, settings(EraChoice::Auto));
    let facts = talk.open().unwrap();
    assert_eq!((facts.era, facts.version.as_str()), (Era::Legacy, "2024-11-05"));
    assert_eq!(talk.ask("tools/list", "{}").unwrap(), r#"{"tools":[]}"#);
    assert_eq!(
        server.log.names(),
        [
            "POST server/discover",
            "POST initialize",
            "GET",
            "POST initialize",
            "POST notifications/initialized",
            "POST tools/list"
        ]
    );
    talk.end();
    let second = Talk::remembering(&server, settings(EraChoice::Auto), talk.verdicts.clone());
    second.open().unwrap();
    assert_eq!(server.log.names()[6..], ["GET", "POST initialize", "POST notifications/initialized"]);
}

#[test]
fn an_endpoint_is_named_in_any_form_that_an_address_has() {
    // go-sdk#687. The stream is at /mcp.
    for (endpoint, leads_to) in [
        ("/messages?session=1", "/messages?session=1"),
        ("http://$host/messages?session=1", "/messages?session=1"),
        ("HTTP://$host/messages", "/messages"),
        ("//$host/messages", "/messages"),
        ("messages?session=1", "/messages?session=1"),
        ("./messages", "/messages"),
        ("?session=1", "/mcp?session=1"),
        ("/a/../b/./../messages?a=../b", "/messages?a=../b"),
        ("../../messages", "/messages"),
        ("/messages?then=https://elsewhere.example/", "/messages?then=https://elsewhere.example/"),
        ("  /messages  ", "/messages"),
        ("/messages#part", "/messages"),
    ] {
        let (server, _) = old_at(endpoint, leads_to, |_, _| false);
        let talk = Talk::new(&server, settings(EraChoice::Legacy));
        let facts = talk.open().unwrap_or_else(|error| panic!("{endpoint}: {error:?}"));
        assert_eq!(facts.version, "2024-11-05", "{endpoint}");
        assert_eq!(talk.ask("tools/list", "{}").unwrap(), r#"{"tools":[]}"#, "{endpoint}");
    }
}

#[test]
fn messages_go_to_no_other_origin() {
    for endpoint in [
        "http://127.0.0.1:9/messages",
        "//evil.example/messages",
        "https://evil.example/",
        "https://$host/messages",
        "http://user@$host.evil.example/messages",
        "file:///etc/passwd",
    ] {
        let (server, _) = old(endpoint, |_, _| false);
        let error = Talk::new(&server, settings(EraChoice::Legacy)).open().unwrap_err();
        assert_eq!(
            (error.kind(), error.message()),
            (Kind::Malformed, "the server named an endpoint of another origin")
        );
    }
}

#[test]
fn answers_progress_and_questions_find_their_way_on_the_one_stream() {
    let (server, _) = old("/messages?session=1", |seen, line| {
        if seen.method() != "tools/call" {
            return false;
        }
        line.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
        line.say(&json!({"jsonrpc": "2.0", "id": "q", "method": "roots/list"}));
        let token = &seen.body["params"]["_meta"]["progressToken"];
        line.say(&json!({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}}));
        line.say(&json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {"content": []}}));
        true
    });
    let talk = Talk::legacy(&server);
    let mut progress = 0;
    let mut hear = |note: Note| progress += usize::from(matches!(note, Note::Progress(_)));
    let params = r#"{"name":"t","_meta":{"progressToken":"p"}}"#;
    talk.call_with(params, &CancelToken::new(), BOUND, &mut hear).unwrap();
    assert_eq!(progress, 1);
    let Note::Asked(question) = talk.heard() else { panic!("a question") };
    question.answer(&Json::trusted(r#"{"roots":[]}"#));
    assert_eq!(server.log.wait_answer(&json!("q"))["result"], json!({"roots": []}));
    assert_eq!(server.log.wait_answer(&json!(1))["result"], json!({}));
}

#[test]
fn a_stream_that_ends_takes_its_calls_along_and_the_next_request_starts_anew() {
    let (server, line) = old("/messages?session=1", |seen, line| {
        let cut = seen.method() == "tools/call";
        if cut {
            line.cut();
        }
        cut
    });
    let talk = Talk::legacy(&server);
    let error = talk.ask("tools/call", r#"{"name":"t"}"#).unwrap_err();
    assert_eq!(error.kind(), Kind::OutcomeUnknown);
    talk.ask("tools/list", "{}").unwrap();
    assert_eq!(server.log.of("POST initialize").len(), 3, "one was refused by the new transport");
    assert_eq!(server.log.of("POST tools/call").len(), 1);
    drop(line);
}
