//! What local servers do to the pipe, in both eras: noise, floods, odd ids, late progress, hard ends.
#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;
#[path = "support/local.rs"]
mod local;

use std::os::unix::fs::PermissionsExt;

use abi::*;
use local::Local;
use mcpnative::ffi::server::MCP_SERVER_ERA;

const ERAS: [&str; 2] = ["modern", "legacy"];

/// No limit of time: what ends here ends by itself.
fn patient() -> Value {
    json!({"timeouts": {"idle_ms": -1, "total_ms": -1}})
}

/// A server of this era that treats the first call of `echo` so, and a client of it.
fn first_echo(name: &str, era: &str, action: &Value) -> (Local, Client) {
    let rule = json!({"match": {"method": "tools/call", "name": "echo", "nth": 1}, "do": action});
    let server = Local::new(&format!("{name}-{era}"), json!({"options": {"era": era}, "rules": [rule]}));
    let mut settings = patient();
    settings["era"] = json!(era);
    let client = server.ready(settings, |client| client.record(&[MCP_EVENT_PROGRESS, MCP_EVENT_CALL_DONE]));
    (server, client)
}

fn works(client: &Client, name: &str) {
    assert_eq!(client.run("echo", json!({"next": 1})).expect(name).structured().unwrap(), "{\"next\":1}", "{name}");
}

#[test]
fn br_01_a_flood_on_standard_error_at_the_probe_and_at_a_call() {
    let flood = json!({"bytes": 262_144, "newline": true});
    let rules = json!([
        {"match": {"method": "server/discover"}, "do": {"stderr": flood, "error": {"code": -32601, "message": "Method not found"}}},
        {"match": {"method": "tools/call", "name": "echo"}, "do": {"stderr": flood}},
        {"match": {"method": "tools/call", "name": "add"}, "do": {"stderr": {"bytes": 67_108_864, "newline": false}}}]);
    let server = Local::new("flood", json!({"options": {"era": "legacy"}, "rules": rules}));
    // (b) at the probe, which is refused; (a) at a call, while nobody asks for it; (c) without any line end.
    let client = server.ready(patient(), |_| {});
    assert_eq!(client.server().text(MCP_SERVER_ERA).as_deref(), Some("legacy"));
    client.run("echo", json!({})).unwrap();
    client.run("add", json!({"a": 1, "b": 2})).unwrap();
}

#[test]
fn br_02_noise_before_an_answer_in_both_eras() {
    for era in ERAS {
        let noise = "Server ready on stdio\n";
        // A banner, two bytes that are no UTF-8, a lone byte in a text, an empty line, spaces, an array; then the answer.
        let (_server, client) = first_echo(
            "noise",
            era,
            &json!({"lines": [
            {"raw": noise}, {"raw_base64": "wygK"}, {"raw_base64": "eyJqc29ucnBjIjogImGXYiJ9Cg=="}, {"raw": "\n"},
            {"raw": "    \n"}, {"raw": "[1]\n"}, {"result": {"content": []}, "eol": "\r\n"}]}),
        );
        client.run("echo", json!({})).expect(era);
        works(&client, era);
    }
}

#[test]
fn br_03_long_events_of_a_stream_arrive_whole() {
    for size in [65_535, 65_536, 65_537, 1 << 20, 10 << 20] {
        let shell =
            "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"\"}]}}".len();
        let text = format!("{}{}", "\u{e9}".repeat((size - shell) / 2), "x".repeat((size - shell) % 2));
        let answer = json!({"sse": [{"result": {"content": [{"type": "text", "text": text}]}}],
            "slice_bytes": if size > 1 << 20 { 40_961 } else { 4_097 }});
        let rule = json!({"match": {"method": "tools/call"}, "do": answer});
        let server = mcp_test_server::TestServer::start(Script::new().rule(rule));
        let client = Client::ready(&server, patient());
        assert!(client.run("echo", json!({})).unwrap().text().as_deref() == Some(&*text), "{size}");
    }
}

#[test]
fn br_06_each_end_of_a_server_ends_its_call_and_the_next_request_starts_another() {
    for era in ERAS {
        for (name, action, code) in [
            ("b: exit 0 without an answer", json!({"nothing": true, "exit": 0}), Some(0)),
            (
                "exit 1 in the middle of an answer",
                json!({"body": "{\"jsonrpc\":\"2.0\",\"id\":$id,\"res", "exit": 1}),
                Some(1),
            ),
            ("a crash", json!({"nothing": true, "then": "reset"}), None),
            ("c: its output closed, and it stays", json!({"nothing": true, "then": "close_silently"}), None),
        ] {
            let (server, client) = first_echo("end", era, &action);
            let failure = client.run("echo", json!({})).expect_err(name);
            assert_eq!(failure.name(), "MCP_E_OUTCOME_UNKNOWN", "{era}, {name}: {failure:?}");
            if let Some(code) = code {
                assert!(failure.message.contains(&format!("exited with code {code}")), "{era}, {name}: {failure:?}");
            }
            // A fresh process counts from one again: `add` has no rule.
            client.run("add", json!({"a": 1, "b": 2})).expect(name);
            drop(client);
            assert_eq!(server.count("tools/call"), 2, "{era}, {name}: nothing was repeated");
        }
    }
}

#[test]
fn br_06_d_e_what_cannot_be_started_is_no_timeout() {
    let folder = std::env::temp_dir();
    let plain = folder.join(format!("mcpnative-plain-{}", std::process::id()));
    std::fs::write(&plain, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    for (command, words) in [("/no/such/server", "does not exist"), (plain.to_str().unwrap(), "is not executable")] {
        let client = Client::new(&json!({"command": command}));
        client.open().unwrap();
        let failure = client.wait_open().unwrap_err();
        assert_eq!(failure.name(), "MCP_E_CONNECT");
        assert!(failure.message.contains(words), "{failure:?}");
    }
    std::fs::remove_file(plain).unwrap();
}

#[test]
fn br_07_a_server_that_cannot_be_asked_to_end_is_ended_with_its_tree() {
    // server-everything stays after the end of its input while a timer of a task runs: kill is needed.
    for era in ERAS {
        let stays = json!({"options": {"era": era, "ignore_sigterm": true, "grandchild_ms": 60_000}, "rules": [{"match": {"end": true}, "do": {"never": true}}]});
        let server = Local::new(&format!("stays-{era}"), stays);
        let client = server.ready(json!({"era": era, "timeouts": {"close_ms": 200}}), |_| {});
        let about = client.run("arguments", json!({})).unwrap().json().to_string();
        let grandchild = server.grandchild();
        assert!(std::path::Path::new(&format!("/proc/{grandchild}")).exists(), "{era}: {about}");
        client.close();
        assert_eq!(client.wait_closed(PATIENCE_MS), MCP_OK, "{era}");
        until("the grandchild to be gone", || gone(grandchild));
    }
}

/// Gone, or a zombie of somebody else's.
fn gone(process: i64) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

#[test]
fn br_07_a_server_that_needs_a_moment_is_given_it() {
    for era in ERAS {
        let marker = std::env::temp_dir().join(format!("mcpnative-marker-{era}-{}", std::process::id()));
        let slow = json!({"options": {"era": era}, "rules": [{"match": {"end": true}, "do": {"delay_ms": 300, "marker": marker, "exit": 0}}]});
        let server = Local::new(&format!("marker-{era}"), slow);
        let client = server.ready(json!({"era": era, "timeouts": {"close_ms": 20_000}}), |_| {});
        client.run("echo", json!({})).unwrap();
        drop(client);
        std::fs::remove_file(marker).expect("the server had its time");
    }
}

#[test]
fn br_12_odd_ids_over_a_pipe_with_two_requests_in_flight() {
    for era in ERAS {
        for (name, action, want) in [
            ("a: a number as a string", json!({"id": "string"}), Some(MCP_OK)),
            ("b: 7.0", json!({"id": "float"}), Some(MCP_OK)),
            ("c: null with an error", json!({"error": {"code": -32600, "message": "m"}, "id": "null"}), None),
            ("d: an id never sent", json!({"id": "other"}), None),
            (
                "f: result and error",
                json!({"message": {"jsonrpc": "2.0", "id": "$id", "result": {}, "error": {"code": 1, "message": "both"}}}),
                Some(MCP_E_MALFORMED),
            ),
            ("g: neither", json!({"message": {"jsonrpc": "2.0", "id": "$id"}}), Some(MCP_E_MALFORMED)),
        ] {
            let (_server, client) = first_echo("ids", era, &action);
            let other = client.start("sleep", json!({"ms": 200}), json!({}));
            let call =
                client.start("echo", json!({"n": 1}), json!({"idle_ms": if want.is_some() { -1 } else { 1_500 }}));
            let ended = call.wait(PATIENCE_MS);
            let status = ended.as_ref().map_or_else(|failure| failure.status, |status| *status);
            match want {
                Some(want) => assert_eq!(name_of(status), name_of(want), "{era}, {name}"),
                // Nobody's answer: its own request ends by its own limit.
                None => assert_eq!(name_of(status), "MCP_E_TIMEOUT", "{era}, {name}"),
            }
            assert_eq!(other.wait(PATIENCE_MS), Ok(MCP_OK), "{era}, {name}: the other has its own answer");
            works(&client, name);
        }
        // (e): the answer of one request twice, while another is open.
        let twice = json!({"lines": [{"result": {"content": [{"type": "text", "text": "first"}]}}, {"result": {"content": [{"type": "text", "text": "second"}]}}]});
        let (_server, client) = first_echo("twice", era, &twice);
        let other = client.start("sleep", json!({"ms": 200}), json!({}));
        assert_eq!(client.run("echo", json!({})).unwrap().text().as_deref(), Some("first"), "{era}");
        assert_eq!(other.wait(PATIENCE_MS), Ok(MCP_OK), "{era}");
        works(&client, era);
    }
}

#[test]
fn br_13_progress_over_a_pipe_is_delivered_to_its_request_alone() {
    let note =
        |params: Value| json!({"message": {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}});
    for era in ERAS {
        let (_server, client) = first_echo(
            "progress",
            era,
            &json!({"lines": [
            note(json!({"progressToken": "made up", "progress": 100})),
            note(json!({"progress": 101})),
            note(json!({"progressToken": "$token", "progress": 1})),
            note(json!({"progressToken": "$token", "progress": 1})),
            note(json!({"progressToken": "$token", "progress": 0})),
            {"result": {"content": []}},
            note(json!({"progressToken": "$token", "progress": 102, "total": 102}))]}),
        );
        let call = client.start("echo", json!({}), json!({}));
        assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK), "{era}");
        client.events.nth(MCP_EVENT_CALL_DONE, 1);
        works(&client, era);
        client.events.nth(MCP_EVENT_CALL_DONE, 1);
        let all = client.events.all();
        let last = all.iter().position(|event| event.word() == "call done").unwrap();
        assert!(all[last..].iter().all(|event| event.word() != "progress"), "{era}: none after the end");
        assert!(last > 0, "{era}: some before it");
        for event in &all[..last] {
            assert_eq!(event.call_id(), Some(call.id()), "{era}");
            assert!(event.json()["progress"].as_i64() < Some(100), "{era}: {}", event.json());
        }
    }
}

#[test]
fn br_13_a_burst_over_a_pipe_harms_nothing() {
    for era in ERAS {
        let server = Local::new(&format!("burst-{era}"), json!({"options": {"era": era}}));
        let client = server.ready(json!({"era": era, "queue_limit": 50}), |client| {
            client.record(&[MCP_EVENT_PROGRESS, MCP_EVENT_CALL_DONE])
        });
        let call = client.start("progress", json!({"n": 10_000}), json!({}));
        assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK), "{era}");
        client.events.nth(MCP_EVENT_CALL_DONE, 1);
        works(&client, era);
    }
}

#[test]
fn an_answer_that_nests_too_deeply_ends_its_call_at_once_on_every_link() {
    // mcp-execution#303: dropped as a bad line, and the call waited for its limit.
    let deep = format!("{{\"content\":[],\"structuredContent\":{}7{}}}", "[".repeat(200), "]".repeat(200));
    for era in ERAS {
        for body in [
            format!("{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{deep}}}"),
            format!("{{\"result\":{deep},\"jsonrpc\":\"2.0\",\"id\":$id}}"),
            format!("{{\"jsonrpc\":\"2.0\",\"error\":{{\"code\":-1,\"message\":\"m\",\"data\":{deep}}},\"id\":$id}}"),
        ] {
            let (_server, client) = first_echo("deep", era, &json!({"body": body, "eol": "\n"}));
            let other = client.start("sleep", json!({"ms": 200}), json!({}));
            let failure = client.run("echo", json!({})).unwrap_err();
            assert_eq!(failure.name(), "MCP_E_TOO_LARGE", "{era} over pipes: {failure:?}");
            assert!(failure.message.contains("limits.nesting"), "{era} over pipes: {failure:?}");
            assert_eq!(other.wait(PATIENCE_MS), Ok(MCP_OK), "{era}: the other request goes on");
            works(&client, era);
            for action in [
                json!({"headers": {"Content-Type": "application/json"}, "body": body}),
                json!({"sse": [format!("data: {body}\n\n")], "then": "stall"}),
            ] {
                let rule = json!({"match": {"method": "tools/call", "nth": 1}, "do": action});
                let server = mcp_test_server::TestServer::start(Script::new().options(json!({"era": era})).rule(rule));
                let client = Client::ready(&server, patient());
                let failure = client.run("echo", json!({})).unwrap_err();
                assert_eq!(failure.name(), "MCP_E_TOO_LARGE", "{era} over HTTP: {failure:?}");
                works(&client, &format!("{era} over HTTP, {action}"));
            }
        }
    }
}

#[test]
fn line_separators_of_unicode_are_no_line_ends_on_any_link() {
    // claude-agent-sdk-typescript#137: U+2028, U+2029 and U+0085 are legal inside a JSON text.
    let text = "a\u{2028}b\u{2029}c\u{85}d\u{b}e\u{c}f";
    let body = "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a\u{2028}b\u{2029}c\u{85}d\\u000be\\u000cf\"}]}}";
    for era in ERAS {
        let (server, client) = first_echo("separators", era, &json!({"body": body, "eol": "\n"}));
        assert_eq!(client.run("echo", json!({"t": text})).unwrap().text().as_deref(), Some(text), "{era}");
        drop(client);
        let sent = server.messages().into_iter().find(|sent| sent["method"] == "tools/call").unwrap();
        assert_eq!(sent["params"]["arguments"]["t"], text, "{era}: and in the other direction");
        for action in [
            json!({"headers": {"Content-Type": "application/json"}, "body": body}),
            json!({"headers": {"Content-Type": "text/event-stream"}, "body": format!("data: {body}\n\n")}),
        ] {
            let rule = json!({"match": {"method": "tools/call"}, "do": action});
            let server = mcp_test_server::TestServer::start(Script::new().options(json!({"era": era})).rule(rule));
            let client = Client::ready(&server, json!({}));
            assert_eq!(client.run("echo", json!({})).unwrap().text().as_deref(), Some(text), "{era} over HTTP");
        }
    }
}

#[test]
fn br_41_rounds_over_a_pipe_count_as_over_http() {
    let server = Local::new("rounds-41", json!({}));
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut settings = patient();
    settings["limits"] = json!({"input_rounds": 3});
    let count = asked.clone();
    let client = server.ready(settings, |client| {
        client.on(MCP_EVENT_ELICITATION, move |event| {
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            assert_eq!(event.input().unwrap().reply(&json!({"answer": "yes", "value": "yes"})), Ok(MCP_OK));
        });
    });
    client.run("ask_first", json!({"rounds": 3})).unwrap();
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 3);
    let failure = client.run("ask_first", json!({"rounds": 4})).unwrap_err();
    assert_eq!(failure.name(), "MCP_E_TOO_LARGE");
    assert!(failure.message.contains("limits.input_rounds"), "{failure:?}");
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 6, "once each round, and none over the limit");
}
