//! The tools that ask: by a request of the server's in a legacy session, by an `input_required` result otherwise.

use rmcp::{ErrorData, ServiceError, model::*};
use serde_json::{Value, json};

use crate::{Answer, Context, tools};

pub async fn ask(request: &CallToolRequestParams, context: &Context) -> Answer<CallToolResponse> {
    let question = match request.name.as_ref() {
        "ask_name" => name(),
        "ask_model" => InputRequest::CreateMessage(CreateMessageRequest::new(CreateMessageRequestParams::new(
            vec![SamplingMessage::user_text("What is the answer?")],
            50,
        ))),
        _ => InputRequest::ListRoots(ListRootsRequest::default()),
    };
    let answer = if context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28) {
        match request.input_responses.as_ref().and_then(|all| all.get("question")) {
            Some(answer) if request.request_state.as_deref() == Some("asked") => answer.clone(),
            Some(_) => return Err(ErrorData::invalid_params("the state did not come back", None)),
            None => {
                let asked = InputRequests::from([(String::from("question"), question)]);
                return Ok(InputRequiredResult::new(Some(asked), Some(String::from("asked"))).into());
            }
        }
    } else {
        by_request(question, context).await.map_err(|why| ErrorData::internal_error(why.to_string(), None))?
    };
    Ok(tools::text(told(&request.name, &answer)).into())
}

/// The elicitation, also for jobs.
pub fn name() -> InputRequest {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    InputRequest::Elicitation(ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: String::from("Who are you?"),
        requested_schema: serde_json::from_value(schema).expect("a schema"),
    }))
}

/// What a tool makes of its answer.
pub fn told(tool: &str, answer: &Value) -> String {
    let string = |value: &Value| value.as_str().map_or_else(|| value.to_string(), String::from);
    match tool {
        "ask_model" => {
            // One block, or an array of them.
            let content = if answer["content"].is_array() { &answer["content"][0] } else { &answer["content"] };
            format!("the model says {}", string(&content["text"]))
        }
        "ask_roots" => format!("roots: {}", string(&answer["roots"][0]["uri"])),
        _ if answer["action"] == "accept" => format!("hello {}", string(&answer["content"]["name"])),
        _ => format!("hello nobody ({})", string(&answer["action"])),
    }
}

async fn by_request(question: InputRequest, context: &Context) -> Result<Value, ServiceError> {
    let answer = match question {
        InputRequest::Elicitation(request) => json!(context.peer.create_elicitation(request.params).await?),
        InputRequest::CreateMessage(request) => json!(context.peer.create_message(request.params).await?),
        _ => json!(context.peer.list_roots().await?),
    };
    Ok(answer)
}
