//! Streams that break off, and the stream for what belongs to no request.

use std::time::Duration;

use serde_json::json;

use super::fixture::{BOUND, CALL, Log, Seen, Server, Talk, serve};
use crate::cancel::{CancelToken, Why};
use crate::error::Kind;
use crate::session::Note;

/// A server whose tool answers by a stream that breaks off after `cut`, and whose GET with a cursor is `play`ed.
fn cut(cut: &'static str, play: impl Fn(&Seen, &mut super::fixture::Peer) + Send + Sync + 'static) -> Server {
    serve(move |seen, peer| match (seen.verb.as_str(), seen.method()) {
        ("POST", "tools/call") => {
            peer.stream();
            peer.say(cut);
        }
        ("GET", _) if seen.header("last-event-id").is_some() => play(seen, peer),
        _ => peer.plainly(seen, "2025-11-25", Some("s1")),
    })
}

fn resumed(log: &Log) -> Vec<Seen> {
    log.of("GET").into_iter().filter(|seen| seen.header("last-event-id").is_some()).collect()
}

/// The id of the call, for the answer that comes on another connection.
fn call_id(log: &Log) -> serde_json::Value {
    log.of("POST tools/call")[0].body["id"].clone()
}

#[test]
fn br_23_d_a_cut_stream_is_resumed_by_get_after_its_retry_and_not_before() {
    let rows = [
        ("id: 5\nretry: 300\ndata: \n\n", "5", 300),
        // The default pause, and ids that go on.
        ("id: 1\ndata: \n\nid: e-2\ndata:\n\n", "e-2", 1000),
        ("retry: 20\n\nid: a b\ndata: \n\n", "a b", 20),
    ];
    for (begin, id, pause) in rows {
        let server = cut(begin, |_, peer| {
            peer.stream();
            let answer = json!({"jsonrpc": "2.0", "id": call_id(&peer.log), "result": {"content": [1]}});
            peer.event(&answer);
        });
        let talk = Talk::legacy(&server);
        assert_eq!(talk.ask("tools/call", r#"{"name":"t"}"#).unwrap(), r#"{"content":[1]}"#);
        let gets = resumed(&server.log);
        assert_eq!(gets.len(), 1, "{id}");
        assert_eq!(gets[0].header("last-event-id"), Some(id));
        assert_eq!((gets[0].session(), gets[0].header("mcp-protocol-version")), (Some("s1"), Some("2025-11-25")));
        assert_eq!(gets[0].header("accept"), Some("text/event-stream"));
        let waited = gets[0].at - server.log.of("POST tools/call")[0].at;
        assert!(waited >= Duration::from_millis(pause), "{id}: asked after {waited:?}");
        assert_eq!(server.log.of("POST tools/call").len(), 1, "a tool call is never sent twice");
    }
}

#[test]
fn a_resumed_stream_that_breaks_off_again_is_resumed_from_where_it_was() {
    let server = cut("id: 1\nretry: 10\ndata: \n\n", |seen, peer| {
        peer.stream();
        match seen.header("last-event-id") {
            Some("1") => peer.say("id: 2\nretry: 30\ndata: \n\n"),
            _ => peer.event(&json!({"jsonrpc": "2.0", "id": call_id(&peer.log), "result": {}})),
        }
    });
    let talk = Talk::legacy(&server);
    talk.ask("tools/call", r#"{"name":"t"}"#).unwrap();
    let gets = resumed(&server.log);
    assert_eq!(gets.iter().map(|seen| seen.header("last-event-id").unwrap()).collect::<Vec<_>>(), ["1", "2"]);
    assert!(gets[1].at - gets[0].at >= Duration::from_millis(30));
}

#[test]
fn br_23_e_a_resume_that_is_refused_ends_as_unknown() {
    let refused = cut("id: 5\nretry: 10\ndata: \n\n", |_, peer| peer.answer(405, "", ""));
    let error = Talk::legacy(&refused).ask("tools/call", r#"{"name":"t"}"#).unwrap_err();
    assert_eq!(error.kind(), Kind::OutcomeUnknown);
    assert!(error.message().ends_with("and the server refused to resume it (HTTP 405)"), "{error}");
    assert_eq!(resumed(&refused.log).len(), 1);
    // A server that never has anything to say is asked a few times.
    let empty = cut("id: 5\nretry: 10\ndata: \n\n", |_, peer| peer.stream());
    let error = Talk::legacy(&empty).ask("tools/call", r#"{"name":"t"}"#).unwrap_err();
    assert_eq!(error.kind(), Kind::OutcomeUnknown);
    assert_eq!(resumed(&empty.log).len(), 5);
}

#[test]
fn br_23_without_an_event_id_nothing_is_resumed() {
    for begin in ["", ": hello\n\n", "retry: 10\ndata: \n\n", "id: 1\ndata: \n\nid:\ndata: \n\n"] {
        let server = cut(begin, |_, peer| peer.answer(405, "", ""));
        let error = Talk::legacy(&server).ask("tools/call", r#"{"name":"t"}"#).unwrap_err();
        assert_eq!(error.kind(), Kind::OutcomeUnknown, "{begin:?}");
        assert!(resumed(&server.log).is_empty(), "{begin:?}");
    }
}

#[test]
fn a_cancel_ends_the_pause_before_a_resume() {
    let server = cut("id: 5\nretry: 3600000\ndata: \n\n", |_, peer| peer.answer(405, "", ""));
    let talk = Talk::legacy(&server);
    let token = CancelToken::new();
    // The note of the progress comes just before the cut.
    std::thread::scope(|scope| {
        let call = scope.spawn(|| talk.call_with(CALL, &token, BOUND * 10, &mut |_| {}));
        server.log.wait_names("POST tools/call", 1);
        token.cancel(Why::Host);
        assert_eq!(call.join().unwrap().unwrap_err().kind(), Kind::Cancelled);
    });
    server.log.wait_names("POST notifications/cancelled", 1);
}

#[test]
fn what_belongs_to_no_request_comes_on_the_get_stream_which_is_opened_again() {
    let server = serve(|seen, peer| match (seen.verb.as_str(), peer.log.of("GET").len()) {
        ("GET", 1) => {
            peer.stream();
            peer.say("id: g1\nretry: 20\ndata: {\"method\":\"notifications/tools/list_changed\"}\n\n");
        }
        ("GET", 2) => peer.answer(503, "", ""),
        ("GET", _) => {
            peer.stream();
            peer.say("data: {\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n\n");
            peer.wait_gone();
        }
        _ => peer.plainly(seen, "2025-11-25", Some("s1")),
    });
    let talk = Talk::legacy(&server);
    assert!(matches!(talk.heard(), Note::Other { method, .. } if method == "notifications/tools/list_changed"));
    assert!(matches!(talk.heard(), Note::Log(_)));
    let gets = server.log.of("GET");
    assert_eq!(
        gets.iter().map(|seen| seen.header("last-event-id")).collect::<Vec<_>>(),
        [None, Some("g1"), Some("g1")]
    );
    assert!(gets[1].at - gets[0].at >= Duration::from_millis(20));
    talk.end();
    server.log.wait_names("DELETE", 1);
}

#[test]
fn a_server_without_a_get_stream_is_asked_once() {
    let server = serve(|seen, peer| peer.plainly(seen, "2025-11-25", Some("s1")));
    let talk = Talk::legacy(&server);
    server.log.wait_names("GET", 1);
    for _ in 0..3 {
        talk.ask("tools/list", "{}").unwrap();
    }
    assert_eq!(server.log.of("GET").len(), 1);
}
