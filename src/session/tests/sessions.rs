//! A session's life: answers to notifications, its loss, its end, cancels.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::fixture::{BOUND, CALL, Peer, Talk, serve, settings};
use crate::cancel::{CancelToken, Why};
use crate::clock::{Budget, Clock, Deadline, SystemClock};
use crate::error::Kind;
use crate::session::{EraChoice, Note};

#[test]
fn br_15_any_2xx_answers_a_notification() {
    type Answer = fn(&mut Peer);
    let rows: [(&str, Answer); 8] = [
        ("202, text", |peer| peer.answer(202, "Content-Type: text/plain; charset=utf-8\r\n", "Accepted")),
        ("202, JSON without body", |peer| peer.answer(202, "Content-Type: application/json\r\n", "")),
        ("204", |peer| peer.say("HTTP/1.1 204 No Content\r\n\r\n")),
        ("200, chunked, empty", |peer| peer.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")),
        ("200 null", |peer| peer.json("", &Value::Null)),
        ("200 {}", |peer| peer.json("", &json!({}))),
        ("200, an empty stream", |peer| peer.stream()),
        ("201", |peer| peer.answer(201, "", "")),
    ];
    for (name, answer) in rows {
        let server = serve(move |seen, peer| match seen.method() {
            "notifications/initialized" => answer(peer),
            _ => peer.plainly(seen, "2025-11-25", None),
        });
        let talk = Talk::legacy(&server);
        assert_eq!(talk.ask("tools/list", "{}").unwrap(), r#"{"tools":[]}"#, "{name}");
    }
}

#[test]
fn br_15_a_refused_notification_is_told_and_the_session_goes_on() {
    let server = serve(move |seen, peer| match seen.method() {
        "notifications/initialized" => peer.fault(400, &Value::Null, -32600, Value::Null),
        _ => peer.plainly(seen, "2025-11-25", None),
    });
    let talk = Talk::new(&server, settings(EraChoice::Legacy));
    let mut told = Vec::new();
    talk.session.open(&CancelToken::new(), &mut |note: Note| told.push(format!("{note:?}"))).unwrap();
    assert_eq!(
        told,
        [r#"Oddity("the server refused notifications/initialized: the server answered with error -32600: no")"#]
    );
    talk.ask("tools/list", "{}").unwrap();
}

/// A server that knows session `s1` until it has seen `losses` requests of it beyond the opening, then `s2`.
fn forgetful(refuse: fn(&mut Peer)) -> super::fixture::Server {
    serve(move |seen, peer| {
        let starts = peer.log.of("POST initialize").len();
        let lost = seen.session() == Some("s1") && matches!(seen.method(), "tools/list" | "tools/call");
        match seen.method() {
            "initialize" => peer.greet(seen, "2025-11-25", Some(&format!("s{starts}"))),
            _ if lost => refuse(peer),
            _ => peer.plainly(seen, "2025-11-25", None),
        }
    })
}

#[test]
fn br_16_a_lost_session_is_started_once_and_the_request_goes_out_once_more() {
    type Refuse = fn(&mut Peer);
    let refusals: [(&str, Refuse); 4] = [
        ("404", |peer| peer.answer(404, "", "")),
        ("404, python", |peer| peer.fault(404, &json!("server-error"), -32600, Value::Null)),
        ("400 without id, everything", |peer| peer.fault(400, &Value::Null, -32000, Value::Null)),
        ("400, text", |peer| peer.answer(400, "Content-Type: text/plain\r\n", "no session")),
    ];
    for (name, refuse) in refusals {
        let server = forgetful(refuse);
        let talk = Talk::legacy(&server);
        // Even a tool call: a refusal is an answer, and nothing has run.
        assert_eq!(talk.ask("tools/call", r#"{"name":"t"}"#).unwrap(), r#"{"content":[]}"#, "{name}");
        assert_eq!(server.log.of("POST initialize").len(), 2, "{name}");
        assert_eq!(server.log.of("POST initialize")[1].session(), None, "{name}");
        assert_eq!(server.log.of("POST notifications/initialized").len(), 2, "{name}");
        let calls = server.log.of("POST tools/call");
        let sessions: Vec<_> = calls.iter().map(|seen| seen.session().unwrap()).collect();
        assert_eq!(sessions, ["s1", "s2"], "{name}");
        assert_ne!(calls[0].body["id"], calls[1].body["id"], "a new request has a new id");
        talk.ask("tools/list", "{}").unwrap();
        assert_eq!(server.log.of("POST initialize").len(), 2, "{name}");
    }
}

#[test]
fn br_16_eight_parallel_losers_start_one_session() {
    let server = forgetful(|peer| {
        // All eight are lost before the first one hears of it.
        peer.log.wait_names("POST tools/list", 8);
        peer.answer(404, "", "");
    });
    let talk = Arc::new(Talk::legacy(&server));
    let start = Arc::new(Barrier::new(8));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (talk, start) = (talk.clone(), start.clone());
            thread::spawn(move || {
                start.wait();
                talk.ask("tools/list", "{}").unwrap()
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), r#"{"tools":[]}"#);
    }
    assert_eq!(server.log.of("POST initialize").len(), 2);
    assert_eq!(server.log.of("POST notifications/initialized").len(), 2);
    let lists = server.log.of("POST tools/list");
    assert_eq!(lists.iter().filter(|seen| seen.session() == Some("s2")).count(), 8);
    assert_eq!(lists.len(), 16);
}

#[test]
fn br_16_hopeless_variants_end() {
    // The new `initialize` fails too.
    let server = serve(|seen, peer| match (seen.method(), peer.log.of("POST initialize").len()) {
        ("initialize", 1) => peer.greet(seen, "2025-11-25", Some("s1")),
        ("initialize", _) => peer.answer(500, "", ""),
        ("tools/list", _) => peer.answer(404, "", ""),
        _ => peer.plainly(seen, "2025-11-25", None),
    });
    let error = Talk::legacy(&server).ask("tools/list", "{}").unwrap_err();
    assert_eq!(error.http_status(), Some(500));
    assert_eq!(server.log.of("POST initialize").len(), 2);
    // 404 for ever.
    let server = serve(|seen, peer| match seen.method() {
        "tools/list" => peer.answer(404, "", ""),
        _ => peer.plainly(seen, "2025-11-25", Some("s")),
    });
    let error = Talk::legacy(&server).ask("tools/list", "{}").unwrap_err();
    assert_eq!(error.http_status(), Some(404));
    assert_eq!(server.log.of("POST initialize").len(), 2);
    assert_eq!(server.log.of("POST tools/list").len(), 2);
    // A 404 to a request without a session is an answer.
    let server = serve(|seen, peer| match seen.method() {
        "tools/list" => peer.answer(404, "", ""),
        _ => peer.plainly(seen, "2025-11-25", None),
    });
    let error = Talk::legacy(&server).ask("tools/list", "{}").unwrap_err();
    assert_eq!(error.http_status(), Some(404));
    assert_eq!(server.log.of("POST initialize").len(), 1);
    // So is an error about the very request.
    let server = serve(|seen, peer| match seen.method() {
        "no/such" => peer.fault(404, &seen.body["id"], -32601, Value::Null),
        _ => peer.plainly(seen, "2025-11-25", Some("s")),
    });
    let error = Talk::legacy(&server).ask("no/such", "{}").unwrap_err();
    assert_eq!(error.rpc().map(|fault| fault.code), Some(-32601));
    assert_eq!(server.log.of("POST initialize").len(), 1);
}

#[test]
fn the_get_stream_finds_the_loss_as_well() {
    let server = serve(|seen, peer| match (seen.verb.as_str(), seen.method()) {
        ("GET", _) if seen.session() == Some("s1") => peer.answer(404, "", ""),
        ("POST", "initialize") => {
            let session = format!("s{}", peer.log.of("POST initialize").len());
            peer.greet(seen, "2025-11-25", Some(&session));
        }
        _ => peer.plainly(seen, "2025-11-25", None),
    });
    let talk = Talk::legacy(&server);
    server
        .log
        .wait("the second GET", |seen| seen.iter().any(|seen| seen.verb == "GET" && seen.session() == Some("s2")));
    talk.ask("tools/list", "{}").unwrap();
    assert_eq!(server.log.of("POST tools/list")[0].session(), Some("s2"));
    assert_eq!(server.log.of("POST initialize").len(), 2);
}

#[test]
fn a_notification_finds_the_loss_as_well() {
    let server = serve(|seen, peer| {
        let starts = peer.log.of("POST initialize").len();
        match seen.method() {
            "initialize" => peer.greet(seen, "2025-11-25", Some(&format!("s{starts}"))),
            "notifications/roots/list_changed" if seen.session() == Some("s1") => peer.answer(404, "", ""),
            _ => peer.plainly(seen, "2025-11-25", None),
        }
    });
    let talk = Talk::legacy(&server);
    let (never, total) = (CancelToken::new(), Deadline::after(SystemClock.now(), Some(BOUND), Budget::Total));
    let scope = crate::transport::Scope { cancel: &never, total, idle: None, connect: None };
    talk.session.notify("notifications/roots/list_changed", "{}", &scope).unwrap();
    let sent = server.log.of("POST notifications/roots/list_changed");
    assert_eq!(sent.iter().map(|seen| seen.session().unwrap()).collect::<Vec<_>>(), ["s1", "s2"]);
    assert_eq!(sent[0].body, json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed", "params": {}}));
}

#[test]
fn a_cancelled_and_a_late_request_are_told_to_the_server() {
    let server = serve(|seen, peer| match seen.method() {
        "tools/call" => peer.wait_gone(),
        _ => peer.plainly(seen, "2025-11-25", Some("s1")),
    });
    let talk = Arc::new(Talk::legacy(&server));
    let token = Arc::new(CancelToken::new());
    let (there, cancel) = (talk.clone(), token.clone());
    let call = thread::spawn(move || there.call_with(CALL, &cancel, BOUND, &mut |_| {}));
    server.log.wait_names("POST tools/call", 1);
    token.cancel(Why::Host);
    assert_eq!(call.join().unwrap().unwrap_err().kind(), Kind::Cancelled);
    server.log.wait_names("POST notifications/cancelled", 1);
    let short = Duration::from_millis(100);
    let late = talk.call_with(CALL, &CancelToken::new(), short, &mut |_| {});
    assert_eq!(late.unwrap_err().kind(), Kind::Timeout);
    server.log.wait_names("POST notifications/cancelled", 2);
    let told = server.log.of("POST notifications/cancelled");
    let calls = server.log.of("POST tools/call");
    for (told, call) in told.iter().zip(&calls) {
        assert_eq!(told.body["params"]["requestId"], call.body["id"]);
        assert_eq!(told.session(), Some("s1"));
    }
    assert_eq!(told[1].body["params"]["reason"], "the request ran out of time");
}

#[test]
fn the_log_level_is_set_where_the_server_logs() {
    let server = serve(|seen, peer| peer.plainly(seen, "2025-11-25", Some("s1")));
    let mut with = settings(EraChoice::Legacy);
    with.log_level = Some("warning".into());
    let talk = Talk::new(&server, with);
    talk.open().unwrap();
    let set = &server.log.of("POST logging/setLevel")[0];
    assert_eq!((set.body["params"].clone(), set.session()), (json!({"level": "warning"}), Some("s1")));
}

#[test]
fn br_31_numbers_and_foreign_members_pass_untouched() {
    let server = serve(|seen, peer| match seen.method() {
        "tools/call" => {
            let body = r#"{"jsonrpc":"2.0","id":ID,"result":{"resultType":"later","n":9007199254740993,"f":1.10}}"#;
            let body = body.replace("ID", &seen.body["id"].to_string());
            peer.answer(200, "Content-Type: application/json\r\n", &body);
        }
        _ => peer.plainly(seen, "2025-06-18", None),
    });
    let result = Talk::legacy(&server).ask("tools/call", r#"{"name":"t","_meta":{"traceparent":"00-a"}}"#).unwrap();
    // A member of a later revision means nothing here.
    assert_eq!(result, r#"{"resultType":"later","n":9007199254740993,"f":1.10}"#);
    assert_eq!(
        server.log.of("POST tools/call")[0].body["params"],
        json!({"name": "t", "_meta": {"traceparent": "00-a"}})
    );
}

#[test]
fn batches_are_read_where_they_were_negotiated() {
    let batch = |version: &'static str| {
        serve(move |seen, peer| match seen.method() {
            "tools/list" => {
                let log = json!({"method": "notifications/message", "params": {"level": "info", "data": 1}});
                peer.json("", &json!([log, {"jsonrpc": "2.0", "id": seen.body["id"], "result": {"tools": []}}]));
            }
            _ => peer.plainly(seen, version, None),
        })
    };
    let server = batch("2025-03-26");
    let mut notes = Vec::new();
    let mut hear = |note: Note| notes.push(format!("{note:?}"));
    let talk = Talk::legacy(&server);
    let result = talk.list_with(&mut hear);
    assert_eq!(result.unwrap(), r#"{"tools":[]}"#);
    assert_eq!(notes, [r#"Log({"level":"info","data":1})"#]);
    let error = Talk::legacy(&batch("2025-06-18")).ask("tools/list", "{}").unwrap_err();
    assert_eq!(error.kind(), Kind::Malformed);
}
