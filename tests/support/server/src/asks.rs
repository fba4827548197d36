//! Tools that ask the client one thing, in either era, and fixtures of the official suite that do.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::action::Content;
use crate::brain::Brain;
use crate::calls::{Answer, message_frame, result_frame, text};
use crate::rounds::{answers, input_required, question};
use crate::rpc::{Call, RpcError};

/// Runs such a tool; `None` if it is none of them.
pub(crate) fn call(brain: &Brain, call: &Call<'_>, name: &str) -> Option<Result<Answer, RpcError>> {
    if name == "test_tool_with_logging" {
        return Some(Ok(logging(call)));
    }
    let question = match name {
        "ask_elicitation" => question("elicitation", "Your name?", "name"),
        "ask_sampling" => question("sampling", "Say something", ""),
        "ask_roots" => question("roots", "", ""),
        "ask_ping" => json!({"method": "ping"}),
        "test_sampling" => question("sampling", call.arguments()["prompt"].as_str().unwrap_or_default(), ""),
        "test_elicitation" => {
            question("elicitation", call.arguments()["message"].as_str().unwrap_or_default(), "username")
        }
        "test_elicitation_sep1034_defaults" => form(&json!({
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": true},
        })),
        "test_elicitation_sep1330_enums" => form(&enums()),
        "test_reconnection" => {
            return Some(Ok(Answer::Later(Duration::from_millis(100), text("after the reconnection"))));
        }
        _ => return None,
    };
    Some(ask(brain, call, question).map(Answer::Result))
}

fn ask(brain: &Brain, call: &Call<'_>, question: Value) -> Result<Value, RpcError> {
    let questions = Map::from_iter([("ask".to_owned(), question)]);
    let Some(found) = answers(call, &questions) else {
        return input_required(brain, call, questions, None);
    };
    let mut result = text(&format!("answer: {}", found["ask"]));
    result["structuredContent"] = found["ask"].clone();
    Ok(result)
}

fn form(properties: &Value) -> Value {
    json!({"method": "elicitation/create", "params": {
        "message": "Please fill in", "requestedSchema": {"type": "object", "properties": properties}}})
}

/// Every way to write a choice.
fn enums() -> Value {
    let titled = |from: u32| {
        let pair = |n: u32, title: &str| json!({"const": format!("value{n}"), "title": title});
        json!([pair(from, "First Option"), pair(from + 1, "Second Option"), pair(from + 2, "Third Option")])
    };
    json!({
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": titled(1)},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled(1)}},
    })
}

fn logging(call: &Call<'_>) -> Answer {
    let mut frames = Vec::new();
    if call.meta("io.modelcontextprotocol/logLevel").is_some() {
        for data in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
            let params = json!({"level": "info", "data": data});
            let message = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params});
            let gap = Duration::from_millis(if frames.is_empty() { 0 } else { 50 });
            frames.push(message_frame(gap, Content::Ready(message)));
        }
    }
    frames.push(result_frame(Duration::ZERO, text("logged")));
    Answer::Frames(frames)
}
