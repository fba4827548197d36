//! The server on standard input and output.
#![allow(missing_docs, clippy::unwrap_used)]

mod pipe;

use pipe::Pipe;
use serde_json::{Value, json};

#[test]
fn requests_are_answered_in_order_and_recorded() {
    let mut pipe = Pipe::start(&json!({}), &[]);
    for id in 0..3 {
        pipe.send(json!(id), "tools/call", json!({"name": "echo", "arguments": {"n": id}}));
    }
    for id in 0..3 {
        let answer = pipe.json();
        assert_eq!((&answer["id"], &answer["result"]["structuredContent"]["n"]), (&json!(id), &json!(id)));
    }
    for number in 0..3 {
        pipe.wait_record(|entry| entry["number"] == number && entry["done_us"].is_u64());
    }
    let record = pipe.record_at_end();
    assert_eq!(record.iter().filter(|entry| entry["method"] == "tools/call").count(), 3);
    assert_eq!(record[3]["http_method"], "end");
}

#[test]
fn notifications_share_the_channel_and_a_slow_answer_does_not_block() {
    let mut pipe = Pipe::start(&json!({}), &[]);
    pipe.send(json!("slow"), "tools/call", json!({"name": "sleep", "arguments": {"ms": 3_600_000}}));
    pipe.send(
        json!("p"),
        "tools/call",
        json!({"name": "progress", "arguments": {"n": 2}, "_meta": {"progressToken": "t"}}),
    );
    assert_eq!(pipe.json()["params"]["progressToken"], "t");
    assert_eq!(pipe.json()["params"]["progress"], 2);
    assert_eq!(pipe.json()["id"], "p");
    pipe.write(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}}));
    let record = pipe.record_at_end();
    assert_eq!((&record[0]["closed_early"], &record[1]["closed_early"]), (&json!(true), &json!(false)));
    assert_eq!(record[2]["method"], "notifications/cancelled");
}

#[test]
fn subscriptions_share_the_channel_and_end_by_cancellation() {
    let mut pipe = Pipe::start(&json!({}), &[]);
    for id in [5, 6] {
        pipe.send(json!(id), "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
        let told = pipe.json();
        assert_eq!(told["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    }
    pipe.write(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}));
    pipe.send(json!(7), "tools/call", json!({"name": "change"}));
    let mut heard = [pipe.json(), pipe.json()];
    heard.sort_by_key(|message| message.get("id").is_some());
    assert_eq!(heard[0]["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 6);
    pipe.close_input();
    let farewell = pipe.json();
    assert_eq!((&farewell["id"], &farewell["result"]["resultType"]), (&json!(6), &json!("complete")));
    assert_eq!(pipe.rest(), b"");
}

/// The bytes that answer one `echo`.
fn bytes(action: &Value) -> String {
    let mut pipe = Pipe::start(&json!({"rules": [{"match": {"method": "tools/call"}, "do": action}]}), &[]);
    pipe.send(json!(7), "tools/call", json!({"name": "echo"}));
    pipe.close_input();
    String::from_utf8_lossy(&pipe.rest()).into_owned()
}

#[test]
fn bytes_are_as_scripted() {
    let rows = [
        (json!({"body_base64": "/w=="}), "\u{fffd}"),
        (json!({"body": "Server ready\n"}), "Server ready\n"),
        (
            json!({"result": 1, "before": "\u{feff}", "eol": "\r\n"}),
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":1}\r\n",
        ),
        (json!({"result": 1, "id": "float", "slice_bytes": 5}), "{\"jsonrpc\":\"2.0\",\"id\":7.0,\"result\":1}\n"),
        (json!({"result": 1, "id": "string"}), "{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"result\":1}\n"),
        (
            json!({"result": 1, "id": "null", "extra": "noise\n"}),
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":1}\nnoise\n",
        ),
        (json!({"message": {"id": "$id"}}), "{\"id\":7}\n"),
        (
            json!({"lines": ["a\n", {"message": {"b": 1}}, {"result": 2}]}),
            "a\n{\"b\":1}\n{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":2}\n",
        ),
        (json!({"result": 1, "cut_body_after": 9}), "{\"jsonrpc"),
        (json!({"never": true}), ""),
        (json!({"nothing": true, "exit": 3}), ""),
    ];
    for (action, expected) in rows {
        assert_eq!(bytes(&action), expected, "{action}");
    }
}

#[test]
fn the_end_of_output_and_of_the_process_are_two_things() {
    let closing = json!({"rules": [{"match": {"method": "tools/call"}, "do": {"close": true}}]});
    let mut pipe = Pipe::start(&closing, &[]);
    pipe.send(json!(7), "tools/call", json!({"name": "echo"}));
    assert_eq!((pipe.rest(), pipe.running()), (Vec::new(), true));
    assert_eq!(pipe.record_at_end().len(), 2);
    let exiting = json!({"rules": [{"match": {"method": "tools/call"}, "do": {"exit": 3}}]});
    let mut pipe = Pipe::start(&exiting, &[]);
    pipe.send(json!(7), "tools/call", json!({"name": "echo"}));
    assert_eq!((pipe.json()["id"].clone(), pipe.code()), (json!(7), Some(3)));
}

#[test]
fn beginning_and_end_have_rules() {
    let mut pipe = Pipe::start(
        &json!({"rules": [{"match": {"accept": true}, "do": {"stderr": "no token\n", "body": "bye\n", "exit": 9}}]}),
        &[],
    );
    assert_eq!((pipe.stderr(), pipe.rest(), pipe.code()), (b"no token\n".to_vec(), b"bye\n".to_vec(), Some(9)));
    let marker = pipe::scratch("marker");
    let mut pipe = Pipe::start(
        &json!({"rules": [{"match": {"end": true}, "do": {"delay_ms": 10, "marker": marker, "exit": 4}}]}),
        &[],
    );
    pipe.close_input();
    assert_eq!(pipe.code(), Some(4));
    assert_eq!(std::fs::read_to_string(&marker).unwrap(), pipe.id().to_string());
    std::fs::remove_file(&marker).unwrap();
    let mut pipe = Pipe::start(&json!({"rules": [{"match": {"end": true}, "do": {"never": true}}]}), &[]);
    pipe.close_input();
    pipe.wait_record(|entry| entry["http_method"] == "end");
    assert!(pipe.running());
}

#[test]
fn standard_error_can_be_flooded() {
    let flood = json!({"match": {"method": "tools/call"}, "do": {"stderr": {"bytes": 300_000, "newline": false}}});
    let mut pipe = Pipe::start(&json!({"rules": [flood]}), &[]);
    pipe.send(json!(1), "tools/call", json!({"name": "echo"}));
    pipe.send(json!(2), "server/discover", json!({}));
    // The flood blocks its own answer only.
    assert_eq!(pipe.json()["id"], 2);
    pipe.close_input();
    let noise = pipe.stderr();
    assert!(noise.len() == 300_000 && noise.iter().all(|byte| *byte == b'e'));
}

#[test]
fn the_process_tells_how_it_was_started() {
    let mut pipe = Pipe::start(&json!({}), &["--", "one", "t w o"]);
    pipe.send(json!(1), "tools/call", json!({"name": "arguments"}));
    let told = pipe.json()["result"]["structuredContent"].take();
    assert!(told["arguments"].as_array().unwrap().ends_with(&[json!("one"), json!("t w o")]));
    assert_eq!(told["pid"], pipe.id());
    pipe.send(json!(2), "tools/call", json!({"name": "environment"}));
    assert_eq!(pipe.json()["result"]["structuredContent"]["PIPE_TEST"], "ü");
}

#[test]
fn malformed_lines_are_refused_and_blank_ones_ignored() {
    let mut pipe = Pipe::start(&json!({}), &[]);
    pipe.raw(b"\n\xff{\n[]\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    pipe.send(json!(2), "nobody/knows", json!({}));
    let codes = [pipe.json(), pipe.json(), pipe.json()].map(|answer| answer["error"]["code"].clone());
    assert_eq!(codes, [json!(-32700), json!(-32600), json!(-32601)]);
}

#[cfg(unix)]
#[test]
fn a_grandchild_holds_the_pipes_and_sigterm_can_be_ignored() {
    let mut pipe = Pipe::start(&json!({"options": {"grandchild_ms": 30_000, "ignore_sigterm": true}}), &[]);
    pipe.send(json!(1), "tools/call", json!({"name": "arguments"}));
    assert_eq!(pipe.json()["result"]["structuredContent"]["pid"], pipe.id());
    pipe.signal("TERM", &pipe.id().to_string());
    pipe.send(json!(2), "server/discover", json!({}));
    assert_eq!(pipe.json()["id"], 2);
    pipe.close_input();
    assert_eq!(pipe.code(), Some(0));
    let record = pipe.record();
    assert_eq!(record[0]["http_method"], "grandchild");
    // The grandchild ignores SIGTERM too. The output ends only with it.
    pipe.signal("KILL", record[0]["body"].as_str().unwrap());
    assert_eq!(pipe.rest(), b"");
}

#[test]
fn the_control_door_is_told_on_standard_error() {
    let mut pipe = Pipe::start(&json!({}), &["--control", "127.0.0.1:0"]);
    let line = pipe.stderr_line();
    let address = line.strip_prefix("control http://").unwrap();
    pipe.send(json!(1), "tools/call", json!({"name": "count"}));
    pipe.json();
    let counters = pipe::get(address, "/_control/counters");
    assert!(counters.ends_with("}") && counters.contains(r#""counters":{"count":1}"#), "{counters}");
}

fn old(pipe: &mut Pipe, id: i32, method: &str, params: &Value) -> Value {
    pipe.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    pipe.json()
}

#[test]
fn the_legacy_handshake_comes_first() {
    let mut pipe = Pipe::start(&json!({"options": {"era": "legacy"}}), &["--control", "127.0.0.1:0"]);
    assert_eq!(old(&mut pipe, 1, "server/discover", &json!({}))["error"]["code"], -32601);
    let params = json!({"protocolVersion": "2025-03-26", "capabilities": {"roots": {}}});
    assert_eq!(old(&mut pipe, 2, "initialize", &params)["result"]["protocolVersion"], "2025-03-26");
    pipe.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let question = old(&mut pipe, 3, "tools/call", &json!({"name": "ask_roots"}));
    assert_eq!(question["method"], "roots/list");
    pipe.write(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}}));
    assert_eq!(pipe.json()["id"], 3);
    pipe.write(&json!([{"jsonrpc": "2.0", "id": 4, "method": "ping"}]));
    assert_eq!(pipe.json(), json!([{"jsonrpc": "2.0", "id": 4, "result": {}}]));
    pipe.write(&json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "change"}}));
    let mut heard = [pipe.json(), pipe.json()];
    heard.sort_by_key(|message| message.get("id").is_some());
    assert_eq!(heard[0]["method"], "notifications/tools/list_changed");
}

#[test]
fn a_silent_old_server_and_one_of_both_eras() {
    let mut pipe = Pipe::start(&json!({"options": {"era": "legacy", "legacy": {"early": "silent"}}}), &[]);
    pipe.send(json!(1), "server/discover", json!({}));
    assert_eq!(old(&mut pipe, 2, "initialize", &json!({}))["id"], 2);
    let mut pipe = Pipe::start(&json!({"options": {"era": "both"}}), &[]);
    pipe.send(json!(1), "server/discover", json!({}));
    assert_eq!(pipe.json()["result"]["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(old(&mut pipe, 2, "initialize", &json!({}))["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(old(&mut pipe, 3, "tools/list", &json!({}))["result"].get("resultType"), None);
    pipe.write(&json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "sleep", "arguments": {"ms": 3_600_000}}}));
    pipe.write(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}}));
    let record = pipe.record_at_end();
    assert_eq!(record[3]["closed_early"], true);
}
