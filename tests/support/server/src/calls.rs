//! `tools/call` of the well-behaved server.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::action::{Content, Frame, FrameBody};
use crate::asks;
use crate::brain::Brain;
use crate::content::{PNG, WAV};
use crate::jobs;
use crate::process;
use crate::rounds::{answers, input_required, question, unseal};
use crate::rpc::{Call, RpcError};
use crate::suite;
use crate::world::Change;

/// What a tool answers, and how.
pub(crate) enum Answer {
    Result(Value),
    Later(Duration, Value),
    Frames(Vec<Frame>),
}

/// Runs the tool that `call` names.
pub(crate) fn call(brain: &Brain, call: &Call<'_>) -> Result<Answer, RpcError> {
    let name = call.text("name")?;
    if let Some(life) = brain.lives.iter().find(|life| life.tool == name) {
        return jobs::scripted(brain, call, life);
    }
    let answer = match name {
        "echo" | "headers" => echo(call),
        "add" => add(call),
        "tool_error" => error_result(call.arguments()["text"].as_str().unwrap_or("the tool failed")),
        "rpc_error" => return Err(rpc_error(call)),
        "progress" => return Ok(progress(call)),
        "log" => return Ok(log(call)),
        "ask_first" => ask_first(brain, call)?,
        "big" => text(&"x".repeat(usize::try_from(call.number("bytes", 1 << 20)).unwrap_or(usize::MAX))),
        "binary" => binary(),
        "sleep" => return Ok(sleep(call)),
        "count" => count(brain, call),
        "change" => change(brain, call),
        "environment" => process::environment(),
        "arguments" => process::arguments(),
        "slow_job" | "fail_job" | "cancelled_job" | "tool_error_job" | "ask_then_task" => {
            return jobs::call(brain, call, name);
        }
        other if brain.options.tools.iter().any(|tool| tool["name"] == other) => echo(call),
        other if other.starts_with("extra_") => text("extra"),
        other => return asks::call(brain, call, other).unwrap_or_else(|| suite::call(brain, call, other)),
    };
    Ok(Answer::Result(answer))
}

/// A result with one text block.
pub(crate) fn text(text: &str) -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
}

/// A result with `isError`.
pub(crate) fn error_result(message: &str) -> Value {
    let mut result = text(message);
    result["isError"] = true.into();
    result
}

fn echo(call: &Call<'_>) -> Value {
    let arguments = call.params.get("arguments").cloned().unwrap_or_else(|| json!({}));
    let mut result = text(&arguments.to_string());
    result["structuredContent"] = arguments;
    result
}

fn add(call: &Call<'_>) -> Value {
    let arguments = call.arguments();
    let whole = arguments["a"].as_i64().zip(arguments["b"].as_i64()).and_then(|(a, b)| a.checked_add(b));
    let float = || arguments["a"].as_f64().zip(arguments["b"].as_f64()).map(|(a, b)| json!(a + b));
    let Some(sum) = whole.map(|sum| json!(sum)).or_else(float) else {
        return error_result("a and b must be numbers");
    };
    let mut result = text(&sum.to_string());
    result["structuredContent"] = json!({"sum": sum});
    result
}

fn rpc_error(call: &Call<'_>) -> RpcError {
    let code = call.arguments()["code"].as_i64().unwrap_or(-32050);
    RpcError::new(code, "the tool raised a protocol error").with(json!({"detail": "told by the tool"}))
}

/// A message on the way to the result.
pub(crate) fn message_frame(delay: Duration, content: Content) -> Frame {
    let body = FrameBody::Event { prefix: String::new(), content, eol: "\n".to_owned() };
    Frame { delay, hold: None, body }
}

/// Progress notifications as a stream; without a token there is nobody to tell.
pub(crate) fn progress_frames(call: &Call<'_>, steps: &[u64], total: u64, gap: Duration) -> Vec<Frame> {
    let Some(token) = call.params.get("_meta").and_then(|meta| meta.get("progressToken")) else {
        return Vec::new();
    };
    let frame = |step: &u64| {
        let params =
            json!({"progressToken": token, "progress": step, "total": total, "message": format!("{step} of {total}")});
        let message = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        message_frame(gap, Content::Ready(message))
    };
    steps.iter().map(frame).collect()
}

/// The frame that ends a stream.
pub(crate) fn result_frame(delay: Duration, result: Value) -> Frame {
    message_frame(delay, Content::Result(result))
}

fn progress(call: &Call<'_>) -> Answer {
    let (n, gap) = (call.number("n", 3), Duration::from_millis(call.number("gap_ms", 0)));
    let steps: Vec<u64> = (1..=n).collect();
    let mut frames = progress_frames(call, &steps, n, gap);
    frames.push(result_frame(Duration::ZERO, text(&format!("{n} steps"))));
    Answer::Frames(frames)
}

/// Log messages, only for a request that named a level (server/utilities/logging).
fn log(call: &Call<'_>) -> Answer {
    let mut frames = Vec::new();
    if let Some(level) = call.meta("io.modelcontextprotocol/logLevel") {
        for n in 1..=call.number("n", 3) {
            let params = json!({"level": level, "logger": "log", "data": {"n": n}});
            let message = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params});
            frames.push(message_frame(Duration::ZERO, Content::Ready(message)));
        }
    }
    frames.push(result_frame(Duration::ZERO, text("logged")));
    Answer::Frames(frames)
}

/// Asks in each of `rounds` rounds, then tells all answers.
fn ask_first(brain: &Brain, call: &Call<'_>) -> Result<Value, RpcError> {
    let rounds = call.number("rounds", 1);
    let kind = call.arguments()["kind"].as_str().unwrap_or("elicitation");
    let state = unseal(brain, call)?;
    let mut round = state.as_ref().and_then(|state| state["round"].as_u64()).unwrap_or(0);
    let mut known = state.and_then(|state| state["known"].as_object().cloned()).unwrap_or_default();
    let questions =
        |round: u64| Map::from_iter([(format!("ask-{round}"), question(kind, &format!("Question {round}?"), "value"))]);
    if round > 0
        && let Some(found) = answers(call, &questions(round))
    {
        known.extend(found);
        round += 1;
    }
    round = round.max(1);
    if round > rounds {
        let mut result = text(&format!("answers: {}", Value::Object(known.clone())));
        result["structuredContent"] = Value::Object(known);
        return Ok(result);
    }
    let state = json!({"round": round, "known": known});
    input_required(brain, call, questions(round), Some(&state))
}

fn binary() -> Value {
    json!({"resultType": "complete", "content": [
        {"type": "text", "text": "five kinds of blocks"},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {"type": "audio", "data": WAV, "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "test://static-binary", "mimeType": "image/png", "blob": PNG}},
        {"type": "resource_link", "uri": "test://static-text", "name": "static-text", "mimeType": "text/plain"},
    ]})
}

fn sleep(call: &Call<'_>) -> Answer {
    let ms = call.number("ms", 100);
    Answer::Later(Duration::from_millis(ms), text(&format!("slept {ms} ms")))
}

fn count(brain: &Brain, call: &Call<'_>) -> Value {
    let name = call.arguments()["name"].as_str().unwrap_or("count").to_owned();
    let value = brain.change(|world| {
        let counter = world.counters.entry(name).or_insert(0);
        *counter += 1;
        *counter
    });
    let mut result = text(&value.to_string());
    result["structuredContent"] = json!({"count": value});
    result
}

fn change(brain: &Brain, call: &Call<'_>) -> Value {
    let what = match call.arguments()["what"].as_str() {
        Some("prompts") => Change::Prompts,
        Some("resources") => Change::Resources,
        _ => Change::Tools,
    };
    brain.change(|world| world.changes.push(what));
    text("announced")
}
