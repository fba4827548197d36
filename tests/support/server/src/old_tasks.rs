//! Tasks of 2025-11-25: calls that are sent as tasks, `tasks/get`, `tasks/list`, `tasks/cancel` and the blocking
//! `tasks/result`, questions as requests of the server, and `notifications/tasks/status`.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::action::{Content, Frame, Payload, choice};
use crate::brain::Brain;
use crate::calls::message_frame;
use crate::clock::Clock;
use crate::fields::{Fields, ScriptError};
use crate::rpc::{INVALID_PARAMS, METHOD_NOT_FOUND, RpcError};
use crate::session::Session;
use crate::tasks::{Said, Store};

const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Where something of a task's is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Nowhere,
    /// On the stream of GET, or the channel.
    Get,
    /// There, and a first time before the answer that makes the task.
    Early,
    /// On the stream of `tasks/result`.
    Result,
}

/// Settings of the tasks of 2025-11-25.
#[derive(Clone, Debug)]
pub(crate) struct OldTasks {
    pub(crate) on: bool,
    /// `execution.taskSupport` by tool; null: the tool has none.
    support: Map<String, Value>,
    pub(crate) status: Where,
    pub(crate) input: Where,
    cancel: bool,
    /// In the `_meta` of the answer that makes a task.
    immediate: Option<String>,
}

impl Default for OldTasks {
    fn default() -> Self {
        let words = [
            ("slow_job", "optional"),
            ("fail_job", "required"),
            ("cancelled_job", "required"),
            ("tool_error_job", "required"),
        ];
        let support = words.into_iter().map(|(tool, word)| (tool.to_owned(), word.into())).collect();
        Self { on: false, support, status: Where::Get, input: Where::Result, cancel: true, immediate: None }
    }
}

impl OldTasks {
    pub(crate) fn parse(value: Value) -> Result<Self, ScriptError> {
        let mut base = Self { on: true, ..Self::default() };
        let mut fields = Fields::new("legacy.tasks", value)?;
        base.support.extend(fields.object("support")?.unwrap_or_default());
        let status = [("none", Where::Nowhere), ("get", Where::Get), ("early", Where::Early)];
        let input = [("result", Where::Result), ("get", Where::Get)];
        let tasks = Self {
            status: choice(&mut fields, "status", &status)?.unwrap_or(base.status),
            input: choice(&mut fields, "input", &input)?.unwrap_or(base.input),
            cancel: fields.flag("cancel")?.unwrap_or(base.cancel),
            immediate: fields.text("immediate")?,
            ..base
        };
        fields.end()?;
        Ok(tasks)
    }

    /// The capability, in the answer to `initialize`.
    pub(crate) fn declare(&self, capabilities: &mut Value) {
        if self.on {
            capabilities["tasks"] = json!({"list": {}, "requests": {"tools": {"call": {}}}});
            if self.cancel {
                capabilities["tasks"]["cancel"] = json!({});
            }
        }
    }

    /// Says in a list which tools may be tasks.
    pub(crate) fn mark(&self, tools: &mut Value) {
        for tool in tools.as_array_mut().into_iter().flatten().filter(|_| self.on) {
            let name = tool["name"].as_str().unwrap_or_default();
            if let Some(word) = self.support.get(name).filter(|word| !word.is_null()) {
                tool["execution"] = json!({"taskSupport": word});
            }
        }
    }

    /// Whether this call becomes a task.
    pub(crate) fn judge(&self, params: &Map<String, Value>) -> Result<bool, RpcError> {
        let tool = params.get("name").and_then(Value::as_str).unwrap_or_default();
        let support = self.support.get(tool).and_then(Value::as_str).unwrap_or("forbidden");
        match (self.on, params.contains_key("task"), support) {
            (false, _, _) | (true, false, "optional" | "forbidden") => Ok(false),
            (true, true, "optional" | "required") => Ok(true),
            (true, true, _) => Err(RpcError::new(METHOD_NOT_FOUND, format!("{tool} does not support tasks"))),
            (true, false, _) => Err(RpcError::new(METHOD_NOT_FOUND, format!("{tool} requires task augmentation"))),
        }
    }

    /// The answer that makes a task, from the seed of the extension.
    pub(crate) fn created(&self, seed: Value) -> Value {
        let mut result = json!({"task": status(seed)});
        if let Some(text) = &self.immediate {
            result["_meta"] = json!({"io.modelcontextprotocol/model-immediate-response": text});
        }
        result
    }
}

/// A snapshot of the extension as this generation tells it.
fn status(mut task: Value) -> Value {
    let Some(map) = task.as_object_mut() else {
        return task;
    };
    if map.get("result").is_some_and(|result| result["isError"] == true) {
        map.insert("status".to_owned(), "failed".into());
    }
    for key in ["resultType", "result", "error", "inputRequests"] {
        map.shift_remove(key);
    }
    for (new, old) in [("ttlMs", "ttl"), ("pollIntervalMs", "pollInterval")] {
        if let Some(value) = map.shift_remove(new) {
            map.insert(old.to_owned(), value);
        }
    }
    task
}

/// `notifications/tasks/status`.
pub(crate) fn notification(task: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": status(task)})
}

/// `tasks/get`, `tasks/list`, `tasks/cancel`.
pub(crate) fn answer(brain: &Brain, method: &str, params: &Map<String, Value>) -> Result<Frame, RpcError> {
    let id = || {
        let id = params.get("taskId").and_then(Value::as_str);
        id.ok_or_else(|| RpcError::invalid("\"taskId\" must be a string"))
    };
    match method {
        "tasks/get" => {
            let id = id()?;
            brain.tasks(|tasks, clock| tasks.get(id, clock)).map(told)
        }
        "tasks/list" => Ok(list(brain, params)),
        "tasks/cancel" if brain.options.legacy.tasks.cancel => {
            let id = id()?;
            brain.tasks(|tasks, clock| {
                let now = tasks.pushed(id, clock).map(|(_, task)| task["status"].clone()).unwrap_or_default();
                if matches!(now.as_str(), Some("completed" | "failed" | "cancelled")) {
                    let text = format!("Cannot cancel task: already in terminal status {now}");
                    return Err(RpcError::new(INVALID_PARAMS, text));
                }
                match tasks.cancel(id, clock)? {
                    said @ Said::Act(_) => Ok(told(said)),
                    Said::Result(_) => tasks.get(id, clock).map(told),
                }
            })
        }
        other => Err(RpcError::new(METHOD_NOT_FOUND, format!("Method not found: {other}"))),
    }
}

fn list(brain: &Brain, params: &Map<String, Value>) -> Frame {
    let all = brain.tasks(Store::all);
    let cursor = params.get("cursor").and_then(Value::as_str);
    let start: usize = cursor.and_then(|at| at.strip_prefix("at-")?.parse().ok()).unwrap_or(0).min(all.len());
    let end = start.saturating_add(brain.options.page_size).min(all.len());
    let mut result = json!({"tasks": all[start..end].iter().cloned().map(status).collect::<Vec<Value>>()});
    if end < all.len() {
        result["nextCursor"] = format!("at-{end}").into();
    }
    message_frame(Duration::ZERO, Content::Result(result))
}

/// Of a step of a scripted life, its pause and its words are known here.
fn told(said: Said) -> Frame {
    let (delay, content) = match said {
        Said::Result(task) => (Duration::ZERO, Content::Result(status(task))),
        Said::Act(action) => match action.payload {
            Payload::Result(task) => (action.delay, Content::Result(status(task))),
            Payload::Error(error) => (action.delay, Content::Error(error)),
            Payload::Normal
            | Payload::Nothing
            | Payload::Message(_)
            | Payload::Raw(_)
            | Payload::Sse(_)
            | Payload::Task(_) => (action.delay, Content::None),
        },
    };
    message_frame(delay, content)
}

/// What `tasks/result` has to say now; `None`: nothing yet.
pub(crate) fn outcome(tasks: &Store, id: &str, clock: &Clock) -> Result<Option<Content>, RpcError> {
    let Some((_, mut task)) = tasks.pushed(id, clock) else {
        return Err(RpcError::invalid("Failed to retrieve task: Task not found"));
    };
    let end = task["status"].take();
    Ok(match end.as_str() {
        Some("completed") => {
            let mut result = task["result"].take();
            result["_meta"][RELATED] = json!({"taskId": id});
            Some(Content::Result(result))
        }
        Some("failed") => Some(Content::Error(task["error"].take())),
        Some("cancelled") => Some(Content::Error(json!({"code": -32603, "message": "the task was cancelled"}))),
        _ => None,
    })
}

/// The questions of a task that were not asked yet, as requests of the server.
pub(crate) fn questions(session: &mut Session, tasks: &Store, id: &str, clock: &Clock) -> Vec<Value> {
    let Some((_, task)) = tasks.pushed(id, clock) else {
        return Vec::new();
    };
    let open = task["inputRequests"].as_object().cloned().unwrap_or_default();
    open.into_iter()
        .filter_map(|(key, question)| {
            let number = session.ask_for(id, &key)?;
            let mut params = question["params"].clone();
            params["_meta"] = json!({RELATED: {"taskId": id}});
            Some(json!({"jsonrpc": "2.0", "id": number, "method": question["method"], "params": params}))
        })
        .collect()
}

/// An answer of the client's to such a question.
pub(crate) fn answered(brain: &Brain, (task, key): &(String, String), message: &Value) {
    let response = if message["result"].is_object() { message["result"].clone() } else { message["error"].clone() };
    let responses = Map::from_iter([(key.clone(), response)]);
    // A task that is gone needs no answer.
    let _ = brain.tasks(|tasks, clock| tasks.update(task, &responses, clock));
}
