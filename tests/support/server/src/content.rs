//! Resources, prompts, completion, and the sample media of tool results.

use serde_json::{Value, json};

use crate::brain::Brain;
use crate::rounds;
use crate::rpc::{Call, RpcError};

/// A red pixel.
pub(crate) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
/// A WAV file without samples.
pub(crate) const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

pub(crate) fn resources() -> Vec<Value> {
    vec![
        json!({"uri": "test://static-text", "name": "static-text", "description": "A text", "mimeType": "text/plain"}),
        json!({"uri": "test://static-binary", "name": "static-binary", "description": "A picture", "mimeType": "image/png"}),
    ]
}

pub(crate) fn templates() -> Vec<Value> {
    vec![json!({
        "uriTemplate": "test://template/{id}/data", "name": "template",
        "description": "Data by id", "mimeType": "application/json",
    })]
}

/// `resources/read`.
pub(crate) fn read(call: &Call<'_>) -> Result<Value, RpcError> {
    let uri = call.text("uri")?;
    let content = match uri {
        "test://static-text" => {
            json!({"mimeType": "text/plain", "text": "This is the content of the static text resource."})
        }
        "test://static-binary" => json!({"mimeType": "image/png", "blob": PNG}),
        _ => {
            let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
            let id = id.ok_or_else(|| RpcError::invalid("Resource not found").with(json!({"uri": uri})))?;
            let text = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            json!({"mimeType": "application/json", "text": text.to_string()})
        }
    };
    let mut content = content;
    content["uri"] = uri.into();
    Ok(json!({"resultType": "complete", "contents": [content], "ttlMs": 0, "cacheScope": "private"}))
}

pub(crate) fn prompts() -> Vec<Value> {
    let prompt = |name: &str, arguments: &[&str]| {
        let arguments: Vec<Value> = arguments
            .iter()
            .map(|name| json!({"name": name, "description": "An argument", "required": true}))
            .collect();
        json!({"name": name, "description": "A prompt for tests", "arguments": arguments})
    };
    vec![
        prompt("test_simple_prompt", &[]),
        prompt("test_prompt_with_arguments", &["arg1", "arg2"]),
        prompt("test_prompt_with_embedded_resource", &["resourceUri"]),
        prompt("test_prompt_with_image", &[]),
        prompt("test_input_required_result_prompt", &[]),
    ]
}

/// `prompts/get`.
pub(crate) fn prompt(brain: &Brain, call: &Call<'_>) -> Result<Value, RpcError> {
    let argument = |key: &str| {
        let found = call.arguments().get(key).and_then(Value::as_str);
        found.ok_or_else(|| RpcError::invalid(format!("argument \"{key}\" is required")))
    };
    let text = |text: &str| json!({"role": "user", "content": {"type": "text", "text": text}});
    let messages = match call.text("name")? {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (one, two) = (argument("arg1")?, argument("arg2")?);
            vec![text(&format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))]
        }
        "test_prompt_with_embedded_resource" => {
            let resource = json!({"uri": argument("resourceUri")?, "mimeType": "text/plain",
                "text": "Embedded resource content for testing."});
            let block = json!({"role": "user", "content": {"type": "resource", "resource": resource}});
            vec![block, text("Please process the embedded resource above.")]
        }
        "test_prompt_with_image" => {
            let block = json!({"role": "user", "content": {"type": "image", "data": PNG, "mimeType": "image/png"}});
            vec![block, text("Please analyze the image above.")]
        }
        "test_input_required_result_prompt" => match rounds::prompt(brain, call)? {
            Ok(context) => vec![text(&format!("Context: {context}"))],
            Err(question) => return Ok(question),
        },
        other => return Err(RpcError::invalid(format!("Unknown prompt: {other}"))),
    };
    Ok(json!({"resultType": "complete", "description": "A prompt for tests", "messages": messages}))
}

/// `completion/complete`: those of a few words that begin as told.
pub(crate) fn complete(call: &Call<'_>) -> Value {
    let start = call.params.get("argument").and_then(|argument| argument["value"].as_str()).unwrap_or_default();
    let values: Vec<&str> =
        ["paris", "park", "party", "test"].into_iter().filter(|word| word.starts_with(start)).collect();
    json!({"resultType": "complete", "completion": {"values": values, "total": values.len(), "hasMore": false}})
}
