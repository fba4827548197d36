//! A connection is recorded, and its record is played without a server.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;
#[path = "support/local.rs"]
mod local;

use abi::*;
use local::Local;
use mcp_test_server::TestServer;
use std::path::{Path, PathBuf};

const SECRET: &str = "canary-\"7f3a\\9c";

fn file(name: &str) -> PathBuf {
    let file = std::env::temp_dir().join(format!("mcpnative-record-{name}-{}", std::process::id()));
    drop(std::fs::remove_file(&file));
    file
}

/// What a session brought: the outcomes of its calls, and the events without those that may come in any number.
#[derive(Debug, PartialEq)]
struct Story {
    server: Vec<Option<String>>,
    tools: Vec<String>,
    outcomes: Vec<String>,
    events: Vec<&'static str>,
}

/// A list, a call, a call that the server refuses, a question, and a job that asks.
fn session(settings: &Value, job_asks: bool) -> Story {
    let client = Client::new(settings);
    for kind in [MCP_EVENT_TASK_CREATED, MCP_EVENT_TASK_DONE, MCP_EVENT_INPUT_WITHDRAWN, MCP_EVENT_ERROR] {
        client.record(&[kind]);
    }
    let events = client.events.clone();
    client.on(MCP_EVENT_ELICITATION, move |event| {
        event.input().unwrap().reply(&json!({"value": "yes", "answer": "yes", "name": "Ada"})).unwrap();
        events.add(event);
    });
    client.open().unwrap();
    client.wait_open().unwrap();
    let outcome = |name: &str, arguments: Value| match client.run(name, arguments) {
        Ok(answer) => answer.raw_json(),
        Err(failure) => format!("{failure:?}"),
    };
    let tools = client.tool_names().unwrap();
    let job = json!({"steps": 2, "step_ms": 20, "poll_ms": 100, "ask": job_asks});
    let mut outcomes = vec![outcome("add", json!({"a": 40, "b": 2})), outcome("echo", json!({"text": SECRET}))];
    outcomes.extend([outcome("no_such_tool", json!({})), outcome("ask_elicitation", json!({}))]);
    let task = client.start("slow_job", job, json!({}));
    assert_eq!(task.wait(PATIENCE_MS).map_err(|failure| panic!("{failure:?}")), Ok(MCP_S_TASK));
    let end = task.task().unwrap().end();
    outcomes.push(format!("{} {}", end.reason(), end.answer().unwrap().raw_json()));
    client.events.nth(MCP_EVENT_TASK_DONE, 1);
    let server = (1..=5).map(|field| client.server().text(field)).collect();
    Story { server, tools, outcomes, events: client.events.words(&[]) }
}

/// A record is made of a session with these settings, and played.
fn there_and_back(name: &str, mut settings: Value, job_asks: bool) {
    let file = file(name);
    settings["record"] = json!({"file": file});
    let story = session(&settings, job_asks);
    assert_eq!(
        story.events.iter().filter(|word| **word == "elicitation").count(),
        1 + usize::from(job_asks),
        "{story:?}"
    );
    assert_eq!(session(&json!({"replay": {"file": file}, "limits": {"input_rounds": 3}}), job_asks), story, "{name}");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_session_over_http_is_played_without_its_server() {
    let server = TestServer::start(Script::new());
    there_and_back("modern", settings(&server, json!({})), true);
}

#[test]
fn a_legacy_session_is_played_with_the_servers_own_questions() {
    let server = TestServer::start(Script::new().options(json!({"era": "legacy", "legacy": {"tasks": {}}})));
    // The job of 2025-11-25 asks nothing: its questions come by a stream that a poll opens, and a replay, where polls come
    // at other moments, may ask them twice.
    there_and_back("legacy", settings(&server, json!({})), false);
}

#[cfg(unix)]
#[test]
fn a_session_with_a_child_is_played_without_one() {
    there_and_back("child", Local::new("record", json!({})).settings(json!({})), true);
}

fn text(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn a_record_is_its_owners_and_holds_no_credentials() {
    let (server, file) = (TestServer::start(Script::new()), file("secrets"));
    let headers = json!({"Authorization": format!("Bearer {SECRET}"), "X-Key": "other-canary"});
    let client = Client::ready(&server, json!({"headers": headers, "record": {"file": file}}));
    let said = json!({"text": format!("{SECRET} and other-canary")});
    let told = parse(&client.run("echo", said.clone()).unwrap().structured().unwrap());
    assert_eq!(told, said, "the program itself has it all");
    drop(client);
    let text = text(&file);
    assert!(text.lines().count() > 4 && text.contains("tools/call") && text.contains("***"));
    for canary in ["canary", "7f3a", "9c\"", "authorization", "Authorization"] {
        assert!(!text.contains(canary), "{canary} in {text}");
    }
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions()) & 0o777,
        0o600
    );
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_record_that_is_full_ends_alone() {
    let (server, file) = (TestServer::start(Script::new()), file("full"));
    let client = Client::ready(&server, json!({"record": {"file": file, "max_bytes": 4096}}));
    for n in 0..20 {
        assert_eq!(client.run("add", json!({"a": n, "b": 0})).unwrap().text(), Some(n.to_string()));
    }
    let failure = client.events.nth(MCP_EVENT_ERROR, 1).failure().unwrap();
    assert_eq!((failure.status, failure.message.contains("max_bytes")), (MCP_E_TOO_LARGE, true), "{failure:?}");
    assert_eq!(client.events.of(MCP_EVENT_ERROR).len(), 1, "told once");
    assert!(text(&file).len() <= 4096);
    std::fs::remove_file(file).unwrap();
}

#[test]
fn what_is_no_record_is_refused_and_what_a_record_lacks_is_named() {
    let (server, file) = (TestServer::start(Script::new()), file("lacks"));
    let client = Client::ready(&server, json!({"record": {"file": file}}));
    client.run("add", json!({"a": 1, "b": 2})).unwrap();
    drop(client);
    let whole = text(&file);
    let refusal = |text: &str| {
        std::fs::write(&file, text).unwrap();
        Client::make(json!({"replay": {"file": file}}).to_string().as_bytes()).err().unwrap()
    };
    for (text, want) in [
        (&whole[..whole.len() - 9], "was cut off"),
        ("hello\n", "line 1 is no JSON"),
        ("{}\n", "line 1 does not begin a record"),
        ("{\"mcpnative_record\":99}\n", "a record of form 99"),
        ("{\"mcpnative_record\":1}\n{\"dir\":\"<\",\"kind\":\"end\",\"n\":5}\n", "line 2 is no line of a record"),
        ("", "it is empty"),
    ] {
        let failure = refusal(text);
        assert_eq!(failure.status, MCP_E_ARGUMENT);
        assert!(failure.message.contains(want), "{want}: {failure:?}");
    }
    std::fs::write(&file, whole).unwrap();
    let client = Client::new(&json!({"replay": {"file": file}}));
    client.open().unwrap();
    client.wait_open().unwrap();
    assert_eq!(client.run("add", json!({})).unwrap().text().as_deref(), Some("3"));
    let failure = client.run("add", json!({})).unwrap_err();
    assert!(failure.message.contains("the record has no further request tools/call add"), "{failure:?}");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn wrong_settings_are_named() {
    for (settings, want) in [
        (json!({"url": "http://127.0.0.1:9/", "record": "x"}), "settings.record: expected an object"),
        (json!({"url": "http://127.0.0.1:9/", "record": {}}), "settings.record.file is missing"),
        (json!({"url": "http://127.0.0.1:9/", "record": {"file": 1}}), "settings.record.file: expected a string"),
        (json!({"url": "http://127.0.0.1:9/", "record": {"file": "/", "max_bytes": 1}}), "settings.record.max_bytes"),
        (json!({"url": "http://127.0.0.1:9/", "record": {"file": "/"}}), "settings.record.file: the file cannot be"),
        (json!({"url": "http://127.0.0.1:9/", "record": {"file": "x", "y": 1}}), "settings.record.y is not a known"),
        (json!({"replay": {}}), "settings.replay.file is missing"),
        (json!({"replay": {"file": "/no/such/file"}}), "settings.replay.file: it cannot be read"),
        (json!({"replay": {"file": "x", "speed": 1}}), "settings.replay.speed is not a known"),
        (json!({"replay": {"file": "x"}, "url": "http://a/"}), "settings.url and settings.replay exclude each other"),
    ] {
        let failure = Client::make(settings.to_string().as_bytes()).err().unwrap();
        assert!(failure.status == MCP_E_ARGUMENT && failure.message.contains(want), "{want}: {failure:?}");
    }
}
