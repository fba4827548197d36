//! BR-26: what keeps a call alive, in both eras and over HTTP and pipes alike. The library has no switch that turns the
//! reset by progress off; variant (b), a limit that progress does not move, is `total_ms`.
#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;
#[path = "support/local.rs"]
mod local;

use abi::*;
use local::Local;
use mcp_test_server::TestServer;

/// A client that hears no progress, of a server of each era on each link. All at once: what is tested here takes time.
fn each(name: &str, rule: Option<Value>, test: impl Fn(&str, &Client) + Sync) {
    let script = |era: &str| match &rule {
        Some(rule) => json!({"options": {"era": era}, "rules": [rule]}),
        None => json!({"options": {"era": era}}),
    };
    std::thread::scope(|scope| {
        for era in ["modern", "legacy"] {
            let test = &test;
            scope.spawn(move || {
                let mut builder = Script::new().options(json!({"era": era}));
                for rule in script(era)["rules"].as_array().into_iter().flatten() {
                    builder = builder.rule(rule.clone());
                }
                let server = TestServer::start(builder);
                let client = Client::recording(&server, json!({}), &[]);
                test(&format!("{era} over HTTP"), &client);
                for sent in server.requests_of("tools/call") {
                    assert!(!sent.at("/params/_meta/progressToken").is_null(), "{era}: {}", sent.body);
                }
            });
            scope.spawn(move || {
                let server = Local::new(&format!("26-{name}-{era}"), script(era));
                let client = server.ready(json!({}), |_| {});
                test(&format!("{era} over pipes"), &client);
                drop(client);
                for sent in server.messages().iter().filter(|sent| sent["method"] == "tools/call") {
                    assert!(!sent["params"]["_meta"]["progressToken"].is_null(), "{era}: {sent}");
                }
            });
        }
    });
}

fn run(client: &Client, tool: &str, arguments: Value, options: Value) -> Result<i32, Failure> {
    client.tool_run(tool, &arguments.to_string(), &options.to_string(), PATIENCE_MS).0
}

#[test]
fn br_26_a_d_progress_keeps_a_call_alive_though_nobody_listens() {
    each("ad", None, |name, client| {
        for meta in [json!({}), json!({"progressToken": 0}), json!({"progressToken": "of the host"})] {
            let begun = now_ms();
            let ran = run(
                client,
                "progress",
                json!({"n": 8, "gap_ms": 400}),
                json!({"idle_ms": 2_000, "total_ms": -1, "meta": meta}),
            );
            assert_eq!(ran, Ok(MCP_OK), "{name}, {meta}");
            assert!(now_ms() - begun >= 2_000, "{name}, {meta}: it took longer than the silence that is allowed");
        }
    });
}

#[test]
fn br_26_b_c_no_progress_moves_the_limit_of_the_whole() {
    each("bc", None, |name, client| {
        for options in [json!({"idle_ms": 2_000, "total_ms": 1_000}), json!({"total_ms": 1_000})] {
            let begun = now_ms();
            let failure = run(client, "progress", json!({"n": 200, "gap_ms": 100}), options).unwrap_err();
            assert_eq!(failure.name(), "MCP_E_TIMEOUT", "{name}: {failure:?}");
            assert!(failure.message.contains("total_ms"), "{name}: {failure:?}");
            assert!(now_ms() - begun >= 1_000, "{name}: never early");
        }
    });
}

#[test]
fn br_26_e_progress_of_another_request_does_not_keep_a_call_alive() {
    for token in [json!("made up"), json!(987_654)] {
        let other = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}});
        let mut frames = vec![json!({"delay_ms": 200, "message": other}); 50];
        frames.push(json!({"result": {"resultType": "complete", "content": []}}));
        let action = json!({"sse": frames});
        let rule = json!({"match": {"method": "tools/call", "name": "echo"}, "do": action});
        each("e", Some(rule), |name, client| {
            let begun = now_ms();
            let failure = run(client, "echo", json!({}), json!({"idle_ms": 1_000})).expect_err(name);
            assert_eq!(failure.name(), "MCP_E_TIMEOUT", "{name}: {failure:?}");
            assert!(failure.message.contains("idle_ms"), "{name}: {failure:?}");
            assert!(now_ms() - begun >= 1_000, "{name}: never early");
        });
    }
}

#[test]
fn br_26_comments_and_progress_of_its_own_do_keep_it_alive_beside_that() {
    let other = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"x\",\"progress\":1}}\n\n";
    for own in [json!(": still here\n\n"), json!({"progress": {"progress": 1}})] {
        let mut frames = Vec::new();
        for _ in 0..10 {
            frames.extend([
                json!({"delay_ms": 150, "raw": other}),
                json!({"delay_ms": 150, "raw": other}),
                own.clone(),
            ]);
        }
        frames.push(json!({"result": {"resultType": "complete", "content": []}}));
        let rule = json!({"match": {"method": "tools/call"}, "do": {"sse": frames}});
        let server = TestServer::start(Script::new().rule(rule));
        let client = Client::recording(&server, json!({}), &[]);
        assert_eq!(run(&client, "echo", json!({}), json!({"idle_ms": 2_000})), Ok(MCP_OK), "{own}");
    }
}
