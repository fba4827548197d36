//! A small server on the crate rmcp (both eras, tasks): `rmcp stdio|http`.
// Logging, sampling and roots are on their way out of the protocol, and still a part of it.
#![allow(deprecated)]

mod jobs;
mod questions;
mod tools;

use std::time::Duration;

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::*,
    service::RequestContext,
    task_manager::TaskManager,
    transport::{
        stdio,
        streamable_http_server::{StreamableHttpService, session::local::LocalSessionManager},
    },
};

/// What a request ends with.
type Answer<T> = Result<T, ErrorData>;
type Context = RequestContext<RoleServer>;

#[derive(Clone)]
struct Small {
    tasks: TaskManager,
}

impl ServerHandler for Small {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities =
            ServerCapabilities::builder().enable_tools().enable_resources().enable_prompts().enable_tasks().build();
        capabilities.completions = Some(JsonObject::default());
        capabilities.logging = Some(JsonObject::default());
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("small-rmcp", "1"))
            .with_instructions("A small server.")
    }

    /// In pages of four.
    async fn list_tools(&self, request: Option<PaginatedRequestParams>, _: Context) -> Answer<ListToolsResult> {
        let cursor = request.and_then(|request| request.cursor);
        let from = match cursor.map(|cursor| cursor.parse::<usize>()) {
            None => 0,
            Some(Ok(from)) => from,
            Some(Err(_)) => return Err(ErrorData::invalid_params("no such cursor", None)),
        };
        let all = tools::all();
        let mut page = ListToolsResult::with_all_items(all.iter().skip(from).take(4).cloned().collect());
        page.next_cursor = (from + 4 < all.len()).then(|| (from + 4).to_string());
        Ok(page)
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: Context) -> Answer<CallToolResponse> {
        match request.name.as_ref() {
            "ask_name" | "ask_model" | "ask_roots" => questions::ask(&request, &context).await,
            "long_job" | "asking_job" | "failing_job" => jobs::start(&self.tasks, &request, &context),
            _ => tools::call(&request, &context).await.map(Into::into),
        }
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: Context) -> Answer<()> {
        Ok(())
    }

    async fn list_resources(&self, _: Option<PaginatedRequestParams>, _: Context) -> Answer<ListResourcesResult> {
        let all = ["memo://welcome", "memo://bytes"].map(|uri| Resource::new(uri, uri));
        Ok(ListResourcesResult::with_all_items(all.into()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Answer<ListResourceTemplatesResult> {
        let all = vec![ResourceTemplate::new("memo://item/{number}", "item")];
        Ok(ListResourceTemplatesResult::with_all_items(all))
    }

    async fn read_resource(&self, request: ReadResourceRequestParams, _: Context) -> Answer<ReadResourceResponse> {
        let uri = request.uri.as_str();
        let contents = match (uri, uri.strip_prefix("memo://item/")) {
            ("memo://welcome", _) => ResourceContents::text("be welcome, 世界", uri),
            ("memo://bytes", _) => ResourceContents::blob("AAEC".repeat(86), uri),
            (_, Some(number)) => ResourceContents::text(format!("item {number}"), uri),
            _ => return Err(ErrorData::resource_not_found("no such memo", None)),
        };
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn list_prompts(&self, _: Option<PaginatedRequestParams>, _: Context) -> Answer<ListPromptsResult> {
        let name = PromptArgument::new("name").with_required(true);
        let greeting = Prompt::new("greeting", Some("A greeting for somebody."), Some(vec![name]));
        Ok(ListPromptsResult::with_all_items(vec![greeting]))
    }

    async fn get_prompt(&self, request: GetPromptRequestParams, _: Context) -> Answer<GetPromptResponse> {
        let arguments = request.arguments.unwrap_or_default();
        let name = arguments.get("name").and_then(|name| name.as_str()).unwrap_or("nobody");
        let message = PromptMessage::new_text(Role::User, format!("Please greet {name}."));
        Ok(GetPromptResult::new(vec![message]).into())
    }

    async fn complete(&self, request: CompleteRequestParams, _: Context) -> Answer<CompleteResult> {
        let names = ["Ada", "Alan", "Grace"].into_iter();
        let found = names.filter(|name| name.starts_with(&request.argument.value)).map(String::from);
        let info = CompletionInfo::with_all_values(found.collect());
        Ok(CompleteResult::new(info.map_err(|why| ErrorData::internal_error(why, None))?))
    }

    async fn get_task(&self, request: GetTaskParams, _: Context) -> Answer<GetTaskResult> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
    }

    async fn update_task(&self, request: UpdateTaskParams, _: Context) -> Answer<()> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: Context) -> Answer<()> {
        self.tasks.cancel_task(&request.task_id)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let small = Small { tasks: TaskManager::new() };
    if std::env::args().nth(1).as_deref() != Some("http") {
        small.serve(stdio()).await?.waiting().await?;
        return Ok(());
    }
    let service = StreamableHttpService::new(
        move || Ok(small.clone()),
        LocalSessionManager::default().into(),
        Default::default(),
    );
    let service = TowerToHyperService::new(service);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("listening http://{}/mcp", listener.local_addr()?);
    let seconds = std::env::var("MAX_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    let end = tokio::time::sleep(Duration::from_secs(seconds));
    tokio::pin!(end);
    loop {
        let stream = tokio::select! {
            () = &mut end => return Ok(()),
            accepted = listener.accept() => accepted?.0,
        };
        let connection = TokioIo::new(stream);
        let service = service.clone();
        tokio::spawn(async move {
            let server = Builder::new(TokioExecutor::new());
            if let Err(why) = server.serve_connection(connection, service).await {
                eprintln!("a connection ended: {why}");
            }
        });
    }
}
