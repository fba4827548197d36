//! What a host says and hears beside tool calls reaches the other side as it was said, over the C ABI.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;

use std::sync::{Arc, Mutex};

use abi::*;
use mcp_test_server::TestServer;

const ERAS: [&str; 2] = ["modern", "legacy"];

fn script(era: &str) -> Script {
    Script::new().options(json!({ "era": era }))
}

/// The params of the last request of this method.
fn sent(server: &TestServer, method: &str) -> Value {
    server.requests_of(method).last().unwrap_or_else(|| panic!("no {method}")).json()["params"].clone()
}

#[test]
fn trace_context_reaches_the_wire_untouched() {
    let meta = r#"{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01","tracestate":"a=1,b=\u00fc","baggage":"k=v%20w","com.example/deep":{"n":1.50,"big":12345678901234567890}}"#;
    for era in ERAS {
        let server = TestServer::start(script(era));
        let client = Client::ready(&server, json!({}));
        for (method, params) in [
            ("tools/call", r#"{"name":"echo","arguments":{}}"#),
            ("tools/list", "{}"),
            ("prompts/get", r#"{"name":"test_simple_prompt"}"#),
            ("resources/read", r#"{"uri":"test://static-text"}"#),
            ("completion/complete", r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"p"}}"#),
        ] {
            client.request_with(method, params, &format!("{{\"meta\":{meta}}}")).unwrap();
            let body = server.requests_of(method).last().unwrap().body.clone();
            let members = meta.trim_start_matches('{').trim_end_matches('}');
            // Member by member, each value byte for byte.
            for member in members.split(",\"").map(|member| member.trim_start_matches('"')) {
                assert!(body.contains(&format!("\"{member}")), "{era} {method}: {member} is not in {body}");
            }
            // The same in the params of a request that the host writes by itself.
            let own = format!("{{\"_meta\":{meta},{}", &params[1..]).replace(",}", "}");
            client.request_with(method, &own, r#"{"cache":"off"}"#).unwrap();
            assert_eq!(sent(&server, method)["_meta"]["traceparent"], parsed(meta)["traceparent"], "{era} {method}");
        }
        client.run("echo", json!({})).unwrap();
        assert!(sent(&server, "tools/call")["_meta"].get("traceparent").is_none(), "{era}: only where it was said");
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn an_extension_is_declared_and_what_it_says_comes_through() {
    let result = json!({"resultType": "complete", "com.example/blob": {"n": 7, "list": [1, [2]]}, "_meta": {"x": 1}});
    let told = json!({"jsonrpc": "2.0", "method": "notifications/com.example/moved", "params": {"to": {"x": 1}}});
    for era in ERAS {
        let server = TestServer::start(script(era).rule(
            json!({"match": {"method": "com.example/act"}, "do": {"sse": [{"message": told}, {"result": result}]}}),
        ));
        let client = Client::ready(&server, json!({"extensions": {"com.example/x": {"depth": 3, "on": [true]}}}));
        let answer = client.request("com.example/act", json!({"deep": {"a": [1, 2]}})).unwrap();
        assert_eq!(answer.json(), result, "{era}");
        let mut params = sent(&server, "com.example/act");
        let capabilities = params["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone();
        params.as_object_mut().unwrap().remove("_meta");
        assert_eq!(params, json!({"deep": {"a": [1, 2]}}), "{era}");
        // The revisions of initialize know no extensions: nothing is declared, all of it works.
        let declared = json!({"depth": 3, "on": [true]});
        let seen = capabilities.get("extensions").and_then(|extensions| extensions.get("com.example/x"));
        assert_eq!(seen, (era == "modern").then_some(&declared), "{era}");
        let event = client.events.nth(MCP_EVENT_NOTIFICATION, 1);
        assert_eq!(event.method().as_deref(), Some("notifications/com.example/moved"), "{era}");
        assert_eq!((event.json(), event.call_id().is_some()), (json!({"to": {"x": 1}}), true), "{era}");
        client.notify("notifications/com.example/seen", &json!({"a": 1})).unwrap();
        assert_eq!(sent(&server, "notifications/com.example/seen")["a"], 1, "{era}");
    }
}

#[test]
fn a_modern_server_hears_the_log_level_with_each_request() {
    const LEVEL: &str = "io.modelcontextprotocol/logLevel";
    let server = TestServer::start(Script::new());
    let level = |client: &Client, options: &str| {
        client.request_with("tools/list", "{}", options).unwrap();
        let body = server.requests_of("tools/list").last().unwrap().body.clone();
        assert!(body.matches(LEVEL).count() <= 1, "{body}");
        sent(&server, "tools/list")["_meta"].get(LEVEL).cloned()
    };
    let client = Client::ready(&server, json!({}));
    assert_eq!(level(&client, ""), None);
    let debug = json!({"meta": {LEVEL: "debug"}}).to_string();
    assert_eq!(level(&client, &debug), Some(json!("debug")));
    let client = Client::ready(&server, json!({"log_level": "warning"}));
    assert_eq!(level(&client, ""), Some(json!("warning")));
    assert_eq!(level(&client, &debug), Some(json!("debug")), "a call may want another one");
    assert_eq!(level(&client, ""), Some(json!("warning")));
}

#[test]
fn a_legacy_server_is_told_the_log_level_and_the_next_session_the_last_one() {
    let server = TestServer::start(script("legacy"));
    let client = Client::ready(&server, json!({"log_level": "warning"}));
    assert_eq!(sent(&server, "logging/setLevel")["level"], "warning");
    client.request("logging/setLevel", json!({"level": "debug"})).unwrap();
    assert_eq!(sent(&server, "logging/setLevel")["level"], "debug");
    server.forget_sessions();
    client.run("echo", json!({})).unwrap();
    assert_eq!((server.count_of("logging/setLevel"), server.count_of("initialize")), (3, 2));
    assert_eq!(sent(&server, "logging/setLevel")["level"], "debug");
    // What the server refuses is not what it was told.
    let server = TestServer::start(script("legacy").rule(json!({"match": {"method": "logging/setLevel", "nth": 2},
        "do": {"error": {"code": -32602, "message": "no such level"}}})));
    let client = Client::ready(&server, json!({"log_level": "warning"}));
    client.request("logging/setLevel", json!({"level": "loud"})).unwrap_err();
    server.forget_sessions();
    client.run("echo", json!({})).unwrap();
    assert_eq!(sent(&server, "logging/setLevel")["level"], "warning");
    // Without a level nobody is told of one.
    let server = TestServer::start(script("legacy"));
    Client::ready(&server, json!({})).run("echo", json!({})).unwrap();
    assert_eq!(server.count_of("logging/setLevel"), 0);
}

#[test]
fn completions_of_prompts_and_templates_come_with_their_context() {
    for era in ERAS {
        let server = TestServer::start(script(era));
        let client = Client::ready(&server, json!({}));
        for reference in [
            json!({"type": "ref/prompt", "name": "code_review"}),
            json!({"type": "ref/resource", "uri": "file:///{path}"}),
        ] {
            let params = json!({"ref": reference, "argument": {"name": "framework", "value": "par"},
                "context": {"arguments": {"language": "python"}}});
            let answer = client.request("completion/complete", params.clone()).unwrap().json();
            assert_eq!(answer["completion"]["values"], json!(["paris", "park", "party"]), "{era}");
            assert_eq!(answer["completion"]["hasMore"], false);
            let mut heard = sent(&server, "completion/complete");
            heard.as_object_mut().unwrap().remove("_meta");
            assert_eq!(heard, params, "{era}");
        }
    }
}

#[test]
fn any_method_is_cancelled_over_http() {
    for era in ERAS {
        let mut methods = vec![
            "tools/list",
            "tools/call",
            "prompts/list",
            "prompts/get",
            "resources/list",
            "resources/templates/list",
            "resources/read",
            "completion/complete",
            "com.example/act",
        ];
        methods.extend(if era == "modern" { ["server/discover", "tasks/get"] } else { ["logging/setLevel", "ping"] });
        for method in methods {
            let held = json!({"match": {"method": method, "params": {"com.example/hold": true}}, "do": {"hold": true}});
            let server = TestServer::start(script(era).rule(held));
            let client = Client::ready(&server, json!({}));
            let params = r#"{"name":"echo","uri":"test://a","taskId":"t","level":"info","com.example/hold":true}"#;
            let call = client.start_request(method, params, "").unwrap();
            assert!(server.wait_held(1, PATIENCE), "{era} {method}");
            assert_eq!(call.cancel(), MCP_OK, "{era} {method}");
            assert_eq!(call.wait(PATIENCE_MS).unwrap_err().status, MCP_E_CANCELLED, "{era} {method}");
            let request = server.requests_of(method).last().unwrap().json();
            if era == "legacy" {
                // The end of a stream says nothing in these revisions.
                assert!(server.wait_requests("notifications/cancelled", 1, PATIENCE), "{method}");
                assert_eq!(sent(&server, "notifications/cancelled")["requestId"], request["id"], "{method}");
            } else {
                let left = |all: &[mcp_test_server::Recorded]| {
                    all.iter().any(|one| one.method.as_deref() == Some(method) && one.closed_early)
                };
                assert!(server.wait_for(left, PATIENCE), "{method}: the stream is closed");
                assert_eq!(server.count_of("notifications/cancelled"), 0, "{method}");
            }
        }
    }
}

#[test]
fn prompts_and_resources_may_ask_first() {
    let question = json!({"method": "elicitation/create", "params": {"mode": "form", "message": "Which?",
        "requestedSchema": {"type": "object", "properties": {"context": {"type": "string"}}}}});
    let round = json!({"resultType": "input_required", "requestState": "s-1", "inputRequests": {"k": question}});
    for (method, params, done) in [
        ("prompts/get", json!({"name": "asks"}), json!({"resultType": "complete", "messages": []})),
        ("resources/read", json!({"uri": "test://asks"}), json!({"resultType": "complete", "contents": []})),
    ] {
        let server = TestServer::start(
            Script::new()
                .rule(json!({"match": {"method": method, "nth": 1}, "do": {"result": round}}))
                .rule(json!({"match": {"method": method}, "do": {"result": done}})),
        );
        let client = Client::new(&settings(&server, json!({})));
        client.record(&[MCP_EVENT_CALL_DONE]);
        client.on(MCP_EVENT_ELICITATION, |event| {
            assert_eq!(event.input().unwrap().reply(&json!({"context": "this"})), Ok(MCP_OK));
        });
        client.open().unwrap();
        assert_eq!(client.request(method, params.clone()).unwrap().json(), done, "{method}");
        let mut second = sent(&server, method);
        second.as_object_mut().unwrap().remove("_meta");
        let mut want = params;
        want["requestState"] = "s-1".into();
        want["inputResponses"] = json!({"k": {"action": "accept", "content": {"context": "this"}}});
        assert_eq!((second, server.count_of(method)), (want, 2), "{method}");
    }
}

// ---- roots -----------------------------------------------------------------------------------------------------------

const ROOTS_CHANGED: &str = "notifications/roots/list_changed";

/// A client whose roots the test may change.
fn with_roots(server: &TestServer) -> (Client, Arc<Mutex<Value>>) {
    let roots = Arc::new(Mutex::new(json!({"roots": [{"uri": "file:///one"}]})));
    let client = Client::new(&settings(server, json!({})));
    let now = roots.clone();
    client.on(MCP_EVENT_ROOTS, move |event| {
        let answer = now.lock().unwrap().clone();
        assert_eq!(event.input().unwrap().reply(&answer), Ok(MCP_OK));
    });
    client.open().unwrap();
    client.wait_open().unwrap();
    (client, roots)
}

#[test]
fn a_legacy_server_is_told_that_the_roots_changed_and_gets_the_new_ones() {
    let server = TestServer::start(script("legacy"));
    let (client, roots) = with_roots(&server);
    assert_eq!(sent(&server, "initialize")["capabilities"]["roots"], json!({"listChanged": true}));
    let asked = || client.run("ask_roots", json!({})).unwrap().raw_json();
    assert!(asked().contains("file:///one"));
    *roots.lock().unwrap() = json!({"roots": [{"uri": "file:///two", "name": "Two"}]});
    assert_eq!(client.notify(ROOTS_CHANGED, &json!({})), Ok(MCP_OK));
    assert_eq!(server.count_of(ROOTS_CHANGED), 1);
    let second = asked();
    assert!(second.contains("file:///two") && !second.contains("file:///one"), "{second}");
}

#[test]
fn nobody_else_is_told_that_the_roots_changed() {
    // A legacy server that was not told of roots; a modern one, whose revision has no such notification.
    let server = TestServer::start(script("legacy"));
    let client = Client::recording(&server, json!({}), &[MCP_EVENT_CALL_DONE]);
    let failure = client.notify(ROOTS_CHANGED, &json!({})).unwrap_err();
    assert_eq!((failure.status, server.count_of(ROOTS_CHANGED)), (MCP_E_UNSUPPORTED, 0), "{failure:?}");
    assert!(failure.message.contains("settings.input.roots"), "{failure:?}");

    let server = TestServer::start(script("modern"));
    let (client, roots) = with_roots(&server);
    let failure = client.notify(ROOTS_CHANGED, &json!({})).unwrap_err();
    assert_eq!((failure.status, server.count_of(ROOTS_CHANGED)), (MCP_E_UNSUPPORTED, 0), "{failure:?}");
    // It asks anew each time.
    assert!(client.run("ask_roots", json!({})).unwrap().raw_json().contains("file:///one"));
    *roots.lock().unwrap() = json!({"roots": [{"uri": "file:///two"}]});
    assert!(client.run("ask_roots", json!({})).unwrap().raw_json().contains("file:///two"));
}
