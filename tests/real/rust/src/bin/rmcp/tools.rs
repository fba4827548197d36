//! The tools that answer at once.

use std::sync::Arc;

use rmcp::{ErrorData, model::*};
use serde_json::{Value, json};

use crate::{Answer, Context};

pub fn all() -> Vec<Tool> {
    let none = json!({"type": "object"});
    let number = |names: &[&str]| {
        let members: JsonObject = names.iter().map(|name| (String::from(*name), json!({"type": "integer"}))).collect();
        json!({"type": "object", "properties": members})
    };
    let tools = [
        ("add", "The sum of two numbers.", number(&["a", "b"])),
        ("fail", "Reports an error of its own.", none.clone()),
        ("picture", "An image.", none.clone()),
        ("count", "Counts, with progress and log messages.", number(&["steps"])),
        ("ask_name", "Asks the user.", none.clone()),
        ("ask_model", "Asks the client's model.", none.clone()),
        ("ask_roots", "Asks for the client's roots.", none.clone()),
        ("long_job", "Works for a while and tells how far it is.", number(&["steps", "step_ms"])),
        ("asking_job", "Asks for a name half-way, and goes on with it.", none.clone()),
        ("failing_job", "Ends with an error.", none),
    ];
    let object = |schema: Value| schema.as_object().cloned().unwrap_or_default();
    tools.map(|(name, about, schema)| Tool::new(name, about, Arc::new(object(schema)))).into()
}

/// An argument that is a number.
pub fn number(request: &CallToolRequestParams, name: &str) -> Answer<i64> {
    let found = request.arguments.as_ref().and_then(|all| all.get(name)).and_then(Value::as_i64);
    found.ok_or_else(|| ErrorData::invalid_params(format!("{name} must be an integer"), None))
}

pub fn text(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

pub async fn call(request: &CallToolRequestParams, context: &Context) -> Answer<CallToolResult> {
    match request.name.as_ref() {
        "add" => {
            let sum = number(request, "a")? + number(request, "b")?;
            let mut result = text(sum.to_string());
            result.structured_content = Some(json!({ "result": sum }));
            Ok(result)
        }
        "fail" => Ok(CallToolResult::error(vec![ContentBlock::text("it broke")])),
        "picture" => {
            let dot = "iVBORw0KGgosIGFzIGZhciBhcyBpdCBnb2Vz";
            Ok(CallToolResult::success(vec![ContentBlock::image(dot, "image/png")]))
        }
        "count" => count(number(request, "steps")?, context).await,
        other => Err(ErrorData::invalid_params(format!("no such tool: {other}"), None)),
    }
}

async fn count(steps: i64, context: &Context) -> Answer<CallToolResult> {
    let lost = |why: rmcp::ServiceError| ErrorData::internal_error(why.to_string(), None);
    for step in 1..=steps {
        let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(format!("at {step}")));
        context.peer.notify_logging_message(message).await.map_err(lost)?;
        if let Some(token) = context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, step as f64)
                .with_total(steps as f64)
                .with_message(format!("step {step}"));
            context.peer.notify_progress(progress).await.map_err(lost)?;
        }
    }
    Ok(text(format!("counted {steps}")))
}
