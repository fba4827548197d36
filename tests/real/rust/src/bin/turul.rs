//! A small server on the crate turul-mcp-server with its tasks extension, 2026-07-28 over HTTP: `turul http`.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use turul_mcp_ext_tasks::InMemoryTaskStore;
use turul_mcp_protocol::{
    ToolSchema,
    elicitation::{ElicitRequest, ElicitationSchema, PrimitiveSchemaDefinition},
    input_required::{InputRequest, InputRequests, InputResponse},
    tools::{CallToolResult, ToolResult},
};
use turul_mcp_server::{McpServer, McpTool, SessionContext, prelude::*};

#[derive(Clone, Copy)]
enum Work {
    Add,
    Long,
    Asking,
    Failing,
}

struct Tool {
    name: &'static str,
    work: Work,
    schema: ToolSchema,
}

impl Tool {
    fn new(name: &'static str, work: Work, numbers: &[&str]) -> Self {
        let properties = numbers.iter().map(|name| (String::from(*name), json!({"type": "number"}))).collect();
        Self { name, work, schema: ToolSchema::object().with_properties(properties) }
    }
}

impl HasBaseMetadata for Tool {
    fn name(&self) -> &str {
        self.name
    }
}
impl HasInputSchema for Tool {
    fn input_schema(&self) -> &ToolSchema {
        &self.schema
    }
}
impl HasDescription for Tool {}
impl HasOutputSchema for Tool {}
impl HasAnnotations for Tool {}
impl HasToolMeta for Tool {}
impl HasIcons for Tool {}

fn text(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ToolResult::text(text.into())])
}

#[async_trait]
impl McpTool for Tool {
    async fn call(&self, args: Value, session: Option<SessionContext>) -> McpResult<CallToolResult> {
        let number = |name: &str| args[name].as_f64().ok_or_else(|| McpError::tool_execution("a number is missing"));
        match self.work {
            Work::Add => Ok(text((number("a")? + number("b")?).to_string())),
            Work::Long => {
                let steps = number("steps")?;
                tokio::time::sleep(Duration::from_secs_f64(steps * number("step_ms")? / 1000.0)).await;
                Ok(text(format!("done after {steps} steps")))
            }
            Work::Asking => asking(session),
            Work::Failing => Err(McpError::tool_execution("the job broke")),
        }
    }
}

/// Asks in the first round, reads the answer in the second.
fn asking(session: Option<SessionContext>) -> McpResult<CallToolResult> {
    let session = session.ok_or_else(|| McpError::tool_execution("there is no session"))?;
    let Some(responses) = session.input_responses() else {
        let schema = ElicitationSchema::new().with_property(String::from("name"), PrimitiveSchemaDefinition::string());
        let mut requests = InputRequests::new();
        requests.insert(String::from("who"), InputRequest::Elicit(ElicitRequest::new_form("Who are you?", schema)));
        return Err(McpError::InputRequired { input_requests: Some(requests), request_state: None });
    };
    let answered = match responses.get("who") {
        Some(InputResponse::Elicit(answer)) => answer.content.as_ref(),
        _ => None,
    };
    let name = answered.and_then(|content| content.get("name")).and_then(|name| name.as_str());
    Ok(text(format!("hello {}", name.unwrap_or("nobody"))))
}

/// Serves on a free port: it is chosen here and may be taken by another meanwhile, which is an error of `run`.
async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let address: SocketAddr = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let server = McpServer::builder()
        .name("small-turul")
        .version("1")
        .with_ext_tasks(Arc::new(InMemoryTaskStore::new()))
        .tool(Tool::new("add", Work::Add, &["a", "b"]))
        .ext_task_tool(Tool::new("long_job", Work::Long, &["steps", "step_ms"]))
        .ext_task_tool(Tool::new("asking_job", Work::Asking, &[]))
        .ext_task_tool(Tool::new("failing_job", Work::Failing, &[]))
        .bind_address(address)
        .build()?;
    let run = server.run();
    tokio::pin!(run);
    let up = async {
        while TcpStream::connect(address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        ended = &mut run => return Ok(ended?),
        () = up => println!("listening http://{address}/mcp"),
    }
    Ok(run.await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::var("MAX_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    tokio::time::timeout(Duration::from_secs(seconds), serve()).await.unwrap_or(Ok(()))
}
