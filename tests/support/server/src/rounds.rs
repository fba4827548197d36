//! Multi round-trip requests: questions before an answer, and the sealed state between the rounds.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use crate::brain::Brain;
use crate::rpc::{Call, RpcError};

/// A question by kind: `elicitation`, `sampling`, `roots`.
pub(crate) fn question(kind: &str, message: &str, field: &str) -> Value {
    match kind {
        "sampling" => json!({"method": "sampling/createMessage", "params": {
            "messages": [{"role": "user", "content": {"type": "text", "text": message}}], "maxTokens": 100}}),
        "roots" => json!({"method": "roots/list", "params": {}}),
        "url" => json!({"method": "elicitation/create", "params": {
            "mode": "url", "message": message, "url": "https://example.com/consent", "elicitationId": field}}),
        _ => {
            let kind = if field == "ok" || field == "confirm" { "boolean" } else { "string" };
            json!({"method": "elicitation/create", "params": {
                "mode": "form", "message": message,
                "requestedSchema": {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}}})
        }
    }
}

/// The capability that a question needs.
fn capability(question: &Value) -> &'static str {
    match question["method"].as_str() {
        Some("sampling/createMessage") => "sampling",
        Some("roots/list") => "roots",
        Some("ping") => "ping",
        _ => "elicitation",
    }
}

/// -32021 unless the client declared what these questions need.
pub(crate) fn declared(brain: &Brain, call: &Call<'_>, questions: &Map<String, Value>) -> Result<(), RpcError> {
    let lacking = questions.values().map(capability).find(|name| *name != "ping" && !call.has_capability(name));
    match lacking.filter(|_| brain.options.check_capabilities) {
        Some(name) => Err(RpcError::missing(json!({name: {}}))),
        None => Ok(()),
    }
}

/// The `input_required` result.
pub(crate) fn input_required(
    brain: &Brain,
    call: &Call<'_>,
    questions: Map<String, Value>,
    state: Option<&Value>,
) -> Result<Value, RpcError> {
    declared(brain, call, &questions)?;
    let mut result = json!({"resultType": "input_required", "inputRequests": questions});
    if let Some(state) = state {
        result["requestState"] = seal(brain, state).into();
    }
    Ok(result)
}

/// State that only this server can have written.
pub(crate) fn seal(brain: &Brain, state: &Value) -> String {
    let text = URL_SAFE_NO_PAD.encode(state.to_string());
    format!("{text}.{}", brain.tag(&text))
}

/// The state of a retry; `None` in a first round, an error where the seal is broken.
pub(crate) fn unseal(brain: &Brain, call: &Call<'_>) -> Result<Option<Value>, RpcError> {
    let Some(sealed) = call.params.get("requestState") else {
        return Ok(None);
    };
    let opened = sealed.as_str().and_then(|sealed| {
        let (text, tag) = sealed.split_once('.')?;
        let bytes = URL_SAFE_NO_PAD.decode(text).ok().filter(|_| brain.tag(text) == tag)?;
        serde_json::from_slice(&bytes).ok()
    });
    opened.map(Some).ok_or_else(|| RpcError::invalid("requestState failed its integrity check"))
}

/// The answers to all of `questions`; `None` where one is missing or makes no sense.
pub(crate) fn answers(call: &Call<'_>, questions: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut found = Map::new();
    for (key, question) in questions {
        let answer = call.answer(key).filter(|answer| sensible(question, answer))?;
        found.insert(key.clone(), answer.clone());
    }
    Some(found)
}

fn sensible(question: &Value, answer: &Value) -> bool {
    match capability(question) {
        "sampling" => answer.get("content").is_some(),
        "ping" => true,
        "roots" => answer.get("roots").is_some_and(Value::is_array),
        _ => match answer.get("action").and_then(Value::as_str) {
            Some("accept") => {
                question["params"]["mode"] == "url" || answer.get("content").is_some_and(Value::is_object)
            }
            Some("decline" | "cancel") => true,
            _ => false,
        },
    }
}

/// The prompt that needs a context: the context, or the question for it.
pub(crate) fn prompt(brain: &Brain, call: &Call<'_>) -> Result<Result<String, Value>, RpcError> {
    let question = question("elicitation", "What context should the prompt use?", "context");
    let questions = Map::from_iter([("user_context".to_owned(), question)]);
    match answers(call, &questions) {
        Some(found) => Ok(Ok(found["user_context"]["content"]["context"].as_str().unwrap_or_default().to_owned())),
        None => input_required(brain, call, questions, None).map(Err),
    }
}
