//! Fixtures that the official conformance suite's server scenarios call.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::brain::Brain;
use crate::calls::{Answer, error_result, progress_frames, result_frame, text};
use crate::content::{PNG, WAV};
use crate::jobs::{create, granted, named, plan};
use crate::plan::{Ask, End, Plan};
use crate::rounds::{answers, input_required, question, unseal};
use crate::rpc::{Call, RpcError};
use crate::world::Change;

/// Runs a fixture; a tool that is none of them is unknown.
pub(crate) fn call(brain: &Brain, call: &Call<'_>, name: &str) -> Result<Answer, RpcError> {
    match name {
        "greet" => {
            let name = call.arguments()["name"].as_str().unwrap_or("World");
            Ok(Answer::Result(text(&format!("Hello, {name}!"))))
        }
        "slow_compute"
        | "failing_job"
        | "protocol_error_job"
        | "confirm_delete"
        | "multi_input"
        | "test_tool_with_task" => job(brain, call, name),
        "test_tool_with_progress" => Ok(progress(call)),
        "test_trigger_tool_change" => Ok(changed(brain, Change::Tools)),
        "test_trigger_prompt_change" => Ok(changed(brain, Change::Prompts)),
        "test_missing_capability" if !call.has_capability("sampling") => {
            Err(RpcError::missing(json!({"sampling": {}})))
        }
        "test_streaming_elicitation" => ask(brain, call, elicit("user_name", "What is your name?", "name"), false),
        "test_missing_capability" | "test_logging_tool" | "json_schema_2020_12_tool" => Ok(Answer::Result(text("ok"))),
        other if other.starts_with("test_input_required_result_") => rounds(brain, call, other),
        other => fixed(other).map(Answer::Result),
    }
}

/// Results that never change.
fn fixed(name: &str) -> Result<Value, RpcError> {
    let resource = |uri: &str, kind: &str, text: &str| json!({"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}});
    let content = match name {
        "test_simple_text" => {
            json!([{"type": "text", "text": "This is a simple text response for testing."}])
        }
        "test_image_content" => json!([{"type": "image", "data": PNG, "mimeType": "image/png"}]),
        "test_audio_content" => json!([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]),
        "test_embedded_resource" => {
            json!([resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")])
        }
        "test_multiple_content_types" => json!([
            {"type": "text", "text": "Multiple content types test:"},
            {"type": "image", "data": PNG, "mimeType": "image/png"},
            resource("test://mixed-content-resource", "application/json", "{\"test\":\"data\",\"value\":123}"),
        ]),
        "test_error_handling" => {
            return Ok(error_result("This tool intentionally returns an error for testing"));
        }
        other => return Err(RpcError::invalid(format!("Unknown tool: {other}"))),
    };
    Ok(json!({"resultType": "complete", "content": content}))
}

fn progress(call: &Call<'_>) -> Answer {
    let gap = Duration::from_millis(50);
    let mut frames = progress_frames(call, &[0, 50, 100], 100, gap);
    frames.push(result_frame(gap, text("progress told")));
    Answer::Frames(frames)
}

fn changed(brain: &Brain, what: Change) -> Answer {
    brain.change(|world| world.changes.push(what));
    Answer::Result(text("changed"))
}

fn job(brain: &Brain, call: &Call<'_>, name: &str) -> Result<Answer, RpcError> {
    let base = Plan { steps: 1, step: Duration::from_millis(200), ..plan(brain, call) };
    let plan = match name {
        "slow_compute" => {
            let seconds = call.number("seconds", 1);
            if seconds == 0 || !granted(brain, call) {
                return Ok(Answer::Later(Duration::from_secs(seconds), text("computed")));
            }
            Plan { step: Duration::from_secs(seconds), end: End::Result(text("computed")), ..base }
        }
        "failing_job" => Plan { end: End::Result(error_result("the job failed")), ..base },
        "protocol_error_job" => Plan { end: End::Error(json!({"code": -32603, "message": "the job crashed"})), ..base },
        "confirm_delete" => asking(&["confirm-1"], "deleted", base),
        "multi_input" => asking(&["first", "second"], "both", base),
        _ => {
            let questions = elicit("user_name", "What is your name?", "name");
            let Some(found) = answers(call, &questions) else {
                return ask(brain, call, questions, true);
            };
            Plan { end: End::Result(text(&format!("Hello, {}", named(&found["user_name"])))), ..base }
        }
    };
    create(brain, call, plan)
}

/// Asks all of `keys` at once before the work.
fn asking(keys: &[&str], done: &str, base: Plan) -> Plan {
    let confirm = |key: &&str| ((*key).to_owned(), question("elicitation", "Really?", "confirm"));
    let requests = keys.iter().map(confirm).collect();
    Plan { asks: vec![Ask { after: 0, requests }], end: End::Result(text(done)), ..base }
}

fn elicit(key: &str, message: &str, field: &str) -> Map<String, Value> {
    Map::from_iter([(key.to_owned(), question("elicitation", message, field))])
}

fn ask(brain: &Brain, call: &Call<'_>, questions: Map<String, Value>, state: bool) -> Result<Answer, RpcError> {
    let state = state.then(|| json!({"round": 1}));
    input_required(brain, call, questions, state.as_ref()).map(Answer::Result)
}

fn rounds(brain: &Brain, call: &Call<'_>, name: &str) -> Result<Answer, RpcError> {
    let kind = name.trim_start_matches("test_input_required_result_");
    let state = unseal(brain, call)?;
    if kind == "multi_round" {
        return multi_round(brain, call, state.as_ref());
    }
    let sampling = |key: &str, message: &str| (key.to_owned(), question("sampling", message, ""));
    let roots = || ("client_roots".to_owned(), question("roots", "", ""));
    let (questions, sealed) = match kind {
        "elicitation" => (elicit("user_name", "What is your name?", "name"), false),
        "sampling" => (Map::from_iter([sampling("capital_question", "What is the capital of France?")]), false),
        "list_roots" => (Map::from_iter([roots()]), false),
        "request_state" | "tampered_state" => (elicit("confirm", "Please confirm", "ok"), true),
        "multiple_inputs" => {
            let mut all = elicit("user_name", "What is your name?", "name");
            all.extend([sampling("greeting", "Generate a greeting"), roots()]);
            (all, true)
        }
        "capabilities" => {
            let mut all = elicit("user_name", "What is your name?", "name");
            all.extend([sampling("greeting", "Generate a greeting"), roots()]);
            all.retain(|key, _| {
                call.has_capability(match key.as_str() {
                    "user_name" => "elicitation",
                    "greeting" => "sampling",
                    _ => "roots",
                })
            });
            (all, true)
        }
        _ => return Err(RpcError::invalid(format!("Unknown tool: {name}"))),
    };
    let complete = answers(call, &questions).filter(|_| !sealed || state.is_some());
    match complete {
        Some(found) if kind == "elicitation" => {
            Ok(Answer::Result(text(&format!("Hello, {}!", named(&found["user_name"])))))
        }
        Some(found) => Ok(Answer::Result(text(&format!("state-ok {}", Value::Object(found))))),
        None => ask(brain, call, questions, sealed),
    }
}

fn multi_round(brain: &Brain, call: &Call<'_>, state: Option<&Value>) -> Result<Answer, RpcError> {
    let first = elicit("step1", "Step 1: What is your name?", "name");
    let second = elicit("step2", "Step 2: What is your favorite color?", "color");
    let round = state.and_then(|state| state["round"].as_u64()).unwrap_or(0);
    match round {
        1 => match answers(call, &first) {
            Some(found) => {
                let state = json!({"round": 2, "name": named(&found["step1"])});
                input_required(brain, call, second, Some(&state)).map(Answer::Result)
            }
            None => ask(brain, call, first, true),
        },
        2 => match answers(call, &second) {
            Some(found) => {
                let name = state.and_then(|state| state["name"].as_str()).unwrap_or_default();
                Ok(Answer::Result(text(&format!("{name}: {}", Value::Object(found)))))
            }
            None => input_required(brain, call, second, state).map(Answer::Result),
        },
        _ => ask(brain, call, first, true),
    }
}
