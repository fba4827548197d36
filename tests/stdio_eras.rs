//! Local servers of both eras as child processes, over the C ABI.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;
#[path = "support/local.rs"]
mod local;

use abi::*;
use local::Local;
use mcpnative::ffi::server::{MCP_SERVER_ERA, MCP_SERVER_VERSION};

fn legacy(name: &str) -> Local {
    Local::new(name, json!({"options": {"era": "legacy"}}))
}

fn probe(options: Value, answer: Value) -> Value {
    json!({"options": options, "rules": [{"match": {"method": "server/discover", "nth": 1}, "do": answer}]})
}

fn era_of(client: &Client) -> String {
    client.server().text(MCP_SERVER_ERA).unwrap()
}

#[test]
fn br_10_every_answer_to_the_probe_that_is_not_modern_leads_to_initialize() {
    let only = json!({"era": "legacy"});
    for (name, script) in [
        ("a-silent", json!({"options": {"era": "legacy", "legacy": {"early": "silent"}}})),
        ("a-late", probe(only.clone(), json!({"delay_ms": 2_500, "error": {"code": -32601, "message": "late"}}))),
        ("b", json!({"options": only})),
        ("c", probe(only.clone(), json!({"error": {"code": -32602, "message": "Invalid request parameters"}}))),
        ("d", probe(only.clone(), json!({"error": {"code": -32600, "message": "no"}, "id": "null"}))),
    ] {
        let server = Local::new(name, script);
        let client =
            server.ready(json!({"timeouts": {"probe_ms": if name.starts_with('a') { 1_500 } else { 20_000 }}}), |_| {});
        assert_eq!(era_of(&client), "legacy", "{name}");
        assert_eq!(client.server().text(MCP_SERVER_VERSION).as_deref(), Some("2025-11-25"), "{name}");
        assert!(client.tool_names().unwrap().contains(&"echo".to_owned()), "{name}");
        client.run("sleep", json!({"ms": 1_500})).unwrap();
        drop(client);
        // Before initialize a legacy server hears nothing but the probe.
        let heard = server.heard();
        assert_eq!(heard[..3], ["server/discover", "initialize", "notifications/initialized"], "{name}: {heard:?}");
        assert_eq!(server.count("notifications/cancelled"), 0, "{name}");
    }
}

#[test]
fn br_10_a_list_of_versions_is_read() {
    let refusal =
        |supported: Value| json!({"error": {"code": -32022, "message": "no", "data": {"supported": supported}}});
    let both = json!({"era": "both"});
    let server = Local::new("e", probe(both.clone(), refusal(json!(["2026-07-28", "2025-11-25"]))));
    assert_eq!(era_of(&server.ready(json!({}), |_| {})), "modern");
    assert_eq!(server.count("initialize"), 0);

    let server = Local::new("e-legacy", probe(both.clone(), refusal(json!(["2025-11-25"]))));
    assert_eq!(era_of(&server.ready(json!({}), |_| {})), "legacy");

    let server = Local::new("f", probe(both, refusal(json!(["2031-01-01"]))));
    let client = server.client(json!({}), |_| {});
    assert_eq!(client.wait_open().unwrap_err().status, MCP_E_VERSION);
    assert_eq!(server.count("initialize"), 0);
}

#[test]
fn a_server_that_ends_at_the_probe_is_started_again_for_initialize() {
    let server = Local::new("gone", probe(json!({"era": "legacy"}), json!({"nothing": true, "exit": 3})));
    let client = server.ready(json!({}), |_| {});
    assert_eq!(era_of(&client), "legacy");
    assert!(!client.run("echo", json!({})).unwrap().is_error());
    assert_eq!((server.count("server/discover"), server.count("initialize")), (1, 1));
}

#[test]
fn the_settings_may_name_the_era() {
    let server = Local::new("named", json!({"options": {"era": "both"}}));
    for (era, want) in [("auto", "modern"), ("modern", "modern"), ("legacy", "legacy")] {
        assert_eq!(era_of(&server.ready(json!({"era": era}), |_| {})), want);
    }
    let server = legacy("wrong");
    let client = server.client(json!({"era": "modern"}), |_| {});
    assert_eq!(client.wait_open().unwrap_err().status, MCP_E_VERSION);
    assert_eq!(server.count("initialize"), 0);
}

#[test]
fn calls_progress_and_questions_are_those_of_any_other_server() {
    let server = legacy("calls");
    let client = server.ready(json!({"log_level": "debug"}), |client| {
        client.record(&[MCP_EVENT_PROGRESS, MCP_EVENT_LOG_MESSAGE, MCP_EVENT_CALL_DONE]);
        for (kind, content) in [
            (MCP_EVENT_ELICITATION, json!({"answer": "yes"})),
            (MCP_EVENT_SAMPLING, json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}})),
            (MCP_EVENT_ROOTS, json!({"roots": []})),
        ] {
            let events = client.events.clone();
            client.on(kind, move |event| {
                assert_eq!(event.input().unwrap().reply(&content), Ok(MCP_OK));
                events.add(event);
            });
        }
    });
    assert!(client.run("add", json!({"a": 2, "b": 3})).unwrap().text().unwrap().contains('5'));
    let call = client.start("progress", json!({"n": 3}), json!({}));
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK));
    client.events.nth(MCP_EVENT_PROGRESS, 3);
    let progress = client.events.of(MCP_EVENT_PROGRESS);
    assert!(progress.iter().all(|event| event.call_id() == Some(call.id())));
    for (tool, kind) in [
        ("ask_elicitation", MCP_EVENT_ELICITATION),
        ("ask_sampling", MCP_EVENT_SAMPLING),
        ("ask_roots", MCP_EVENT_ROOTS),
    ] {
        let call = client.start(tool, json!({}), json!({}));
        assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK), "{tool}");
        assert!(!call.answer().unwrap().is_error(), "{tool}: {:?}", call.answer().unwrap().text());
        assert_eq!(client.events.nth(kind, 1).call_id(), Some(call.id()), "{tool}");
    }
    assert!(!client.run("ask_ping", json!({})).unwrap().is_error());
    // With two calls open nothing says whose question it is: it belongs to none, and is answered all the same.
    let (slow, call) =
        (client.start("sleep", json!({"ms": 2_000}), json!({})), client.start("ask_roots", json!({}), json!({})));
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK));
    assert!(!call.answer().unwrap().is_error());
    assert_eq!(slow.wait(PATIENCE_MS), Ok(MCP_OK));
}

#[test]
fn a_question_may_take_longer_than_the_limits_and_goes_with_its_call() {
    let server = legacy("limits");
    let client = server.ready(json!({"timeouts": {"idle_ms": 3_000, "total_ms": 3_500}}), |client| {
        client.record(&[MCP_EVENT_ELICITATION, MCP_EVENT_INPUT_WITHDRAWN, MCP_EVENT_CALL_DONE]);
    });
    let call = client.start("ask_elicitation", json!({}), json!({}));
    let input = client.events.nth(MCP_EVENT_ELICITATION, 1).input().unwrap();
    let asked = now_ms();
    until("longer than both limits", || now_ms() - asked > 4_000);
    assert_eq!(input.reply(&json!({"answer": "yes"})), Ok(MCP_OK));
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK));

    let call = client.start("ask_elicitation", json!({}), json!({}));
    client.events.nth(MCP_EVENT_ELICITATION, 2);
    assert_eq!(call.cancel(), MCP_OK);
    assert_eq!(call.wait(PATIENCE_MS).unwrap_err().status, MCP_E_CANCELLED);
    client.events.nth(MCP_EVENT_INPUT_WITHDRAWN, 1);
    until("the server is told, once", || server.count("notifications/cancelled") == 1);
    assert!(!client.run("echo", json!({})).unwrap().is_error());
    drop(client);
    assert_eq!(server.count("notifications/cancelled"), 1);
}

#[test]
fn a_session_ends_with_its_process_and_the_next_request_begins_another() {
    let crash = json!({"match": {"method": "tools/call", "name": "count"}, "do": {"nothing": true, "exit": 1}});
    let server = Local::new("restart", json!({"options": {"era": "legacy"}, "rules": [crash]}));
    let client = server.ready(json!({"era": "legacy"}), |_| {});
    assert_eq!(client.run("count", json!({"name": "n"})).unwrap_err().status, MCP_E_OUTCOME_UNKNOWN);
    assert!(!client.run("echo", json!({})).unwrap().is_error());
    drop(client);
    let heard = server.heard();
    let calls = heard.iter().filter(|method| *method == "tools/call").count();
    assert_eq!((server.count("initialize"), server.count("notifications/initialized"), calls), (2, 2, 2), "{heard:?}");
}

fn subscriber(server: &Local) -> Client {
    server.ready(json!({"restart": {"backoff_ms": 10}}), |client| {
        client.record(&[MCP_EVENT_SUBSCRIPTION, MCP_EVENT_NOTIFICATION, MCP_EVENT_CALL_DONE]);
    })
}

fn states(client: &Client) -> Vec<&'static str> {
    client.events.of(MCP_EVENT_SUBSCRIPTION).iter().map(|event| event.subscription()).collect()
}

#[test]
fn br_46_e_f_subscriptions_on_one_channel_do_not_mix() {
    let log = log();
    let meta = json!({"io.modelcontextprotocol/subscriptionId": 999});
    let stray = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}});
    let script = json!({"rules": [
        {"match": {"method": "subscriptions/listen", "nth": 2}, "do": {"id": "string"}},
        {"match": {"method": "tools/call", "name": "add"}, "do": {"lines": [
            {"message": stray}, {"result": {"resultType": "complete", "content": []}}]}}]});
    let server = Local::new("subscriptions", script);
    let client = subscriber(&server);
    let tools = client.subscribe(json!({"toolsListChanged": true}), "");
    client.events.nth(MCP_EVENT_SUBSCRIPTION, 1);
    let prompts = client.subscribe(json!({"promptsListChanged": true}), "");
    client.events.nth(MCP_EVENT_SUBSCRIPTION, 2);
    assert_eq!(states(&client), ["active", "active"]);
    for (n, (what, call)) in [("prompts", &prompts), ("tools", &tools), ("prompts", &prompts)].into_iter().enumerate() {
        client.run("change", json!({"what": what})).unwrap();
        let event = client.events.nth(MCP_EVENT_NOTIFICATION, n + 1);
        assert_eq!(event.method(), Some(format!("notifications/{what}/list_changed")));
        assert_eq!(event.call_id(), Some(call.id()), "{what}");
    }
    log.expect("the server sent the id of a subscription as a string");
    client.run("add", json!({})).unwrap();
    log.expect("a notification for a subscription that is not open");
    // With subscriptions open, a log message is still the one call's.
    let talk = server.ready(json!({"log_level": "debug"}), |client| client.record(&[MCP_EVENT_ANY]));
    let _open = talk.subscribe(json!({"toolsListChanged": true}), "");
    talk.events.nth(MCP_EVENT_SUBSCRIPTION, 1);
    let logs = talk.start("log", json!({"n": 1}), json!({}));
    assert_eq!(talk.events.nth(MCP_EVENT_LOG_MESSAGE, 1).call_id(), Some(logs.id()));
    assert_eq!(tools.cancel(), MCP_OK);
    until("the server is told", || server.count("notifications/cancelled") == 1);
    client.events.nth(MCP_EVENT_CALL_DONE, 1);
    assert_eq!(client.events.of(MCP_EVENT_NOTIFICATION).len(), 3);
}

#[test]
fn br_46_h_a_child_that_ends_is_started_again_by_its_subscription() {
    let crash = json!({"match": {"method": "tools/call", "name": "count"}, "do": {"nothing": true, "exit": 1}});
    for (era, subscribed) in [("modern", "subscriptions/listen"), ("legacy", "resources/subscribe")] {
        let script = json!({"options": {"era": era}, "rules": [crash]});
        let server = Local::new(&format!("again-{era}"), script);
        let client = subscriber(&server);
        let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]});
        let call = client.subscribe(filter.clone(), "");
        assert_eq!(client.events.nth(MCP_EVENT_SUBSCRIPTION, 1).json(), filter, "{era}");
        assert_eq!(client.run("count", json!({"name": "n"})).unwrap_err().status, MCP_E_OUTCOME_UNKNOWN);
        assert_eq!(client.events.nth(MCP_EVENT_SUBSCRIPTION, 3).json(), filter, "{era}");
        assert_eq!(states(&client), ["active", "lost", "catch-up"], "{era}");
        client.run("change", json!({"what": "tools"})).unwrap();
        assert_eq!(client.events.nth(MCP_EVENT_NOTIFICATION, 1).call_id(), Some(call.id()), "{era}");
        assert_eq!(server.count(subscribed), 2, "{era}");
        client.close();
        assert_eq!(call.wait(PATIENCE_MS).unwrap_err().status, MCP_E_CLOSED, "{era}");
    }
}

#[test]
fn a_local_server_pushes_the_end_of_a_task() {
    let server = Local::new("push", json!({}));
    let client = server.ready(json!({}), |client| client.record(&[MCP_EVENT_TASK_DONE]));
    let task = client.task("slow_job", json!({"steps": 1, "step_ms": 4_000, "ttl_ms": null, "poll_ms": 3_600_000}));
    assert_eq!(task.end().reason(), "completed");
    assert_eq!((server.count("subscriptions/listen"), server.count("tasks/get")), (1, 0));
    until("the stream ends with its last task", || server.count("notifications/cancelled") == 1);
}

const KEEP: &str = r#"{"cache":"until_changed"}"#;

#[test]
fn a_change_that_is_told_on_a_channel_drops_the_list() {
    let filter = r#"{"notifications":{"toolsListChanged":true}}"#;
    for era in ["legacy", "modern"] {
        let server = Local::new(&format!("change-{era}"), json!({"options": {"era": era}}));
        let client = server.ready(json!({}), |client| client.record(&[MCP_EVENT_NOTIFICATION, MCP_EVENT_SUBSCRIPTION]));
        let _stream = (era == "modern").then(|| {
            let stream = client.start_request("subscriptions/listen", filter, r#"{"total_ms":-1,"idle_ms":-1}"#);
            client.events.nth(MCP_EVENT_SUBSCRIPTION, 1);
            stream
        });
        let list = || client.request_with("tools/list", "{}", KEEP).unwrap();
        list();
        list();
        assert_eq!((server.count("tools/list"), client.generations()), (1, [1; 3]), "{era}");
        client.run("change", json!({"what": "tools"})).unwrap();
        client.events.until("the change", |events| {
            events.iter().any(|event| event.method().as_deref() == Some("notifications/tools/list_changed"))
        });
        assert_eq!(client.generations(), [2, 1, 1], "{era}");
        list();
        list();
        assert_eq!(server.count("tools/list"), 2, "{era}");
    }
}

#[test]
fn a_process_that_began_anew_is_asked_anew() {
    let crash = json!({"match": {"method": "tools/call", "name": "count"}, "do": {"nothing": true, "exit": 1}});
    for era in ["legacy", "modern"] {
        let name = format!("anew-{era}");
        let server = Local::new(&name, json!({"options": {"era": era}, "rules": [crash]}));
        let client = server.ready(json!({"era": era}), |_| {});
        let list = || client.request_with("tools/list", "{}", KEEP).unwrap();
        list();
        client.run("count", json!({"name": "n"})).unwrap_err();
        // The answer that was kept is not used while the server is gone; this request starts it anew.
        list();
        assert_eq!((server.count("tools/list"), client.generations()), (2, [2; 3]), "{era}");
        list();
        let asked = server.count("tools/list");
        list();
        assert_eq!((server.count("tools/list"), client.generations()), (asked, [2; 3]), "{era}");
    }
}

#[test]
fn any_method_is_cancelled_over_a_channel() {
    let methods = [
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
    for era in ["legacy", "modern"] {
        let silent = |method: &&str| json!({"match": {"method": method}, "do": {"never": true}});
        let rules: Vec<Value> = methods.iter().map(silent).collect();
        let server = Local::new(&format!("cancel-{era}"), json!({"options": {"era": era}, "rules": rules}));
        let client = server.ready(json!({"era": era}), |_| {});
        for (at, method) in methods.iter().enumerate() {
            let call = client.start_request(method, r#"{"name":"echo","uri":"test://a"}"#, "").unwrap();
            until(method, || server.count(method) == 1);
            assert_eq!(call.cancel(), MCP_OK, "{era} {method}");
            assert_eq!(call.wait(PATIENCE_MS).unwrap_err().status, MCP_E_CANCELLED, "{era} {method}");
            until("the server to be told", || server.count("notifications/cancelled") == at + 1);
        }
    }
}
fn with_tasks(name: &str, tasks: Value) -> Local {
    Local::new(name, json!({"options": {"era": "legacy", "legacy": {"tasks": tasks}}}))
}

#[test]
fn tasks_of_2025_11_25_are_followed_over_a_channel() {
    // The status comes before the answer that makes the task, as from real servers.
    let server = with_tasks("tasks", json!({"status": "early"}));
    let kinds = [
        MCP_EVENT_TASK_CREATED,
        MCP_EVENT_CALL_DONE,
        MCP_EVENT_TASK_STATUS,
        MCP_EVENT_TASK_DONE,
        MCP_EVENT_NOTIFICATION,
        MCP_EVENT_ERROR,
    ];
    let client = server.ready(json!({}), |client| {
        client.record(&kinds);
        client.on(MCP_EVENT_ELICITATION, |event| {
            assert_eq!(event.input().unwrap().reply(&json!({"value": "yes"})), Ok(MCP_OK));
        });
    });
    // The polls would come after a minute: what the server tells by itself is enough.
    let task = client.task("slow_job", json!({"steps": 2, "step_ms": 20, "poll_ms": 60_000, "ask": true}));
    assert!(task.end().answer().unwrap().text().unwrap().contains("\"yes\""));
    client.events.nth(MCP_EVENT_TASK_DONE, 1);
    let words = client.events.words(&[]);
    assert_eq!(words[..2], ["created", "call done"], "{words:?}");
    assert_eq!(words.last(), Some(&"done"), "{words:?}");
    assert!(words.len() > 3 && words[2..words.len() - 1].iter().all(|word| *word == "status"), "{words:?}");
    assert_eq!(server.count("tasks/get"), 0);

    let failed = client.task("fail_job", json!({"steps": 1, "step_ms": 10, "poll_ms": 20})).end();
    assert_eq!(failed.failure().unwrap().rpc_code, Some(-32050));
    let task = client.task("slow_job", json!({"steps": 1, "step_ms": 60_000, "poll_ms": 60_000}));
    assert_eq!(task.cancel(), MCP_OK);
    assert_eq!(task.end().reason(), "cancelled");
}

#[test]
fn a_task_asks_over_a_channel_by_tasks_result_or_at_once() {
    for input in ["result", "get"] {
        let server = with_tasks(&format!("asks-{input}"), json!({"input": input}));
        let client = server.ready(json!({"timeouts": {"idle_ms": 3_000, "total_ms": 3_500}}), |client| {
            client.record(&[MCP_EVENT_ELICITATION, MCP_EVENT_INPUT_WITHDRAWN, MCP_EVENT_TASK_DONE]);
        });
        let asking = json!({"steps": 2, "step_ms": 20, "poll_ms": 100, "ask": true});
        let task = client.task("slow_job", asking.clone());
        let input = client.events.nth(MCP_EVENT_ELICITATION, 1).input().unwrap();
        assert_eq!(input.task_id().as_deref(), Some(task.id().as_str()));
        // Longer than every limit of a request: nobody waits for a person by such a limit.
        let asked = now_ms();
        until("longer than the limits", || now_ms() - asked > 4_000);
        assert_eq!(input.reply(&json!({"value": "yes"})), Ok(MCP_OK));
        assert!(task.end().answer().unwrap().text().unwrap().contains("\"yes\""));
        assert!(client.events.of(MCP_EVENT_INPUT_WITHDRAWN).is_empty());
        assert_eq!(client.events.of(MCP_EVENT_ELICITATION).len(), 1);
        assert_eq!(server.count("notifications/cancelled"), 0);

        let task = client.task("slow_job", asking);
        client.events.nth(MCP_EVENT_ELICITATION, 2);
        assert_eq!(task.cancel(), MCP_OK);
        assert_eq!(task.end().reason(), "cancelled");
        client.events.nth(MCP_EVENT_INPUT_WITHDRAWN, 1);
    }
}

#[test]
fn a_task_of_a_process_that_ended_is_unknown_to_the_next() {
    let crash = json!({"match": {"method": "tools/call", "name": "count"}, "do": {"nothing": true, "exit": 1}});
    let options = json!({"era": "legacy", "legacy": {"tasks": {"status": "none"}}});
    let server = Local::new("task-gone", json!({"options": options, "rules": [crash]}));
    let client = server.ready(json!({"era": "legacy", "restart": {"backoff_ms": 1}}), |_| {});
    let task = client.task("slow_job", json!({"steps": 1, "step_ms": 60_000, "poll_ms": 100}));
    assert_eq!(client.run("count", json!({})).unwrap_err().status, MCP_E_OUTCOME_UNKNOWN);
    // The next poll starts the server again.
    assert_eq!(task.end().reason(), "unknown");
}
