//! The lives of scripted tasks that many tests tell.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

use mcp_test_server::TestServer;

use crate::abi::{Script, Value, json};

/// A server whose tasks have these lives.
pub fn lives(lives: Vec<Value>) -> TestServer {
    TestServer::start(lives.into_iter().fold(Script::new(), Script::task))
}

/// The poll that finds a task completed, with this text.
pub fn done(text: &str) -> Value {
    json!({"task": {"status": "completed", "result": {"content": [{"type": "text", "text": text}]}}})
}

/// A task that asks these questions.
pub fn ask(keys: &[&str]) -> Value {
    let question = |key: &&str| {
        let params = json!({"message": format!("{key}?"), "requestedSchema": {"type": "object", "properties": {}}});
        ((*key).to_owned(), json!({"method": "elicitation/create", "params": params}))
    };
    let questions: serde_json::Map<String, Value> = keys.iter().map(question).collect();
    json!({"status": "input_required", "inputRequests": questions})
}
