//! The well-behaved 2026-07-28 server: one request in, one answer out, whatever carries them.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use serde_json::{Map, Value, json};

use crate::action::Frame;
use crate::calls::{self, Answer};
use crate::clock::Clock;
use crate::content;
use crate::listen::Listener;
use crate::rpc::{
    Body, CAPABILITIES, Call, INVALID_REQUEST, METHOD_NOT_FOUND, Reply, RpcError, TASKS, UNSUPPORTED_VERSION, VERSION,
};
use crate::script::{Life, Options};
use crate::tasks::{Said, Store};
use crate::tools;
use crate::world::World;

/// Options, state and the means to wait for its changes.
pub(crate) struct Brain {
    pub(crate) options: Options,
    pub(crate) lives: Vec<Arc<Life>>,
    pub(crate) clock: Clock,
    pub(crate) world: Mutex<World>,
    /// Notified when anything in the world moved.
    pub(crate) moved: Condvar,
    secret: RandomState,
}

impl Brain {
    pub(crate) fn new(options: Options, lives: Vec<Life>) -> Self {
        Self {
            options,
            lives: lives.into_iter().map(Arc::new).collect(),
            clock: Clock::start(),
            world: Mutex::new(World::default()),
            moved: Condvar::new(),
            secret: RandomState::new(),
        }
    }

    /// Changes the world and wakes whoever waits for it.
    pub(crate) fn change<T>(&self, act: impl FnOnce(&mut World) -> T) -> T {
        let out = act(&mut self.world.lock());
        self.moved.notify_all();
        out
    }

    /// Acts on the tasks, waking listeners only if one changed.
    pub(crate) fn tasks<T>(&self, act: impl FnOnce(&mut Store, &Clock) -> T) -> T {
        let (out, moved) = {
            let mut world = self.world.lock();
            let before = world.tasks.journal().len();
            let out = act(&mut world.tasks, &self.clock);
            (out, world.tasks.journal().len() != before)
        };
        if moved {
            self.moved.notify_all();
        }
        out
    }

    /// A tag that proves this server wrote `text`.
    pub(crate) fn tag(&self, text: &str) -> String {
        format!("{:016x}", self.secret.hash_one(text))
    }

    /// Answers a JSON-RPC message; the carrier has checked its headers.
    pub(crate) fn answer(&self, message: &Value) -> Reply {
        let id = message.get("id");
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            return Reply::error(id, &RpcError::new(INVALID_REQUEST, "Not a request"));
        };
        let Some(id) = id else {
            return Reply::new(202, Body::Empty);
        };
        let empty = Map::new();
        let params = message.get("params").and_then(Value::as_object).unwrap_or(&empty);
        let call = Call { id, method, params };
        let mut reply = match self.checked(&call).and_then(|()| self.dispatch(&call)) {
            Ok(reply) => reply,
            Err(error) => self.refuse(id, &error),
        };
        if self.options.server_info {
            sign(&mut reply.body);
        }
        reply
    }

    fn refuse(&self, id: &Value, error: &RpcError) -> Reply {
        let mut reply = Reply::error(Some(id), error);
        if let Some((_, status)) = self.options.error_status.iter().find(|(code, _)| *code == error.code) {
            reply.status = *status;
        }
        reply
    }

    /// `_meta` of the request (2026-07-28, basic, "_meta").
    fn checked(&self, call: &Call<'_>) -> Result<(), RpcError> {
        let version = call.meta(VERSION).and_then(Value::as_str);
        let version = version.ok_or_else(|| RpcError::invalid(format!("_meta.{VERSION} is required")))?;
        if !self.options.versions.iter().any(|known| known == version) {
            return Err(RpcError::new(UNSUPPORTED_VERSION, "Unsupported protocol version")
                .with(json!({"supported": self.options.versions, "requested": version})));
        }
        if !call.meta(CAPABILITIES).is_some_and(Value::is_object) {
            return Err(RpcError::invalid(format!("_meta.{CAPABILITIES} is required")));
        }
        Ok(())
    }

    /// Does the work of a request.
    pub(crate) fn dispatch(&self, call: &Call<'_>) -> Result<Reply, RpcError> {
        let plain = |result: Value| Ok(Reply::result(call.id, &result));
        match call.method {
            "server/discover" => plain(self.discover()),
            "tools/list" => plain(self.page(call, "tools", &self.tool_list())?),
            "resources/list" => plain(self.page(call, "resources", &content::resources())?),
            "resources/templates/list" => plain(self.page(call, "resourceTemplates", &content::templates())?),
            "prompts/list" => plain(self.page(call, "prompts", &content::prompts())?),
            "resources/read" => plain(content::read(call)?),
            "prompts/get" => plain(content::prompt(self, call)?),
            "completion/complete" => plain(content::complete(call)),
            "tools/call" => calls::call(self, call).map(|answer| deliver(call, answer)),
            "tasks/get" | "tasks/update" | "tasks/cancel" if self.options.tasks => self.task(call),
            "subscriptions/listen" if self.options.listen => self.listen(call),
            other => Err(RpcError::new(METHOD_NOT_FOUND, format!("Method not found: {other}"))),
        }
    }

    fn discover(&self) -> Value {
        let mut extensions = Map::new();
        if self.options.tasks {
            extensions.insert(TASKS.to_owned(), json!({}));
        }
        let changes = self.options.listen;
        json!({
            "resultType": "complete",
            "supportedVersions": self.options.versions,
            "capabilities": {
                "tools": {"listChanged": changes},
                "resources": {"listChanged": changes, "subscribe": changes},
                "prompts": {"listChanged": changes},
                "completions": {},
                "logging": {},
                "extensions": extensions,
            },
            "instructions": "The scripted test server of mcpnative.",
            "ttlMs": 0,
            "cacheScope": "private",
        })
    }

    fn tool_list(&self) -> Vec<Value> {
        let mut list = if self.options.builtin_tools { tools::CATALOGUE.clone() } else { Vec::new() };
        list.extend(self.options.tools.iter().cloned());
        list.extend(self.lives.iter().map(|life| tools::scripted(&life.tool)));
        list.extend((0..self.options.extra_tools).map(tools::extra));
        list
    }

    /// One page of a list; the cursor is the index of its first item.
    fn page(&self, call: &Call<'_>, key: &str, items: &[Value]) -> Result<Value, RpcError> {
        let start = match call.params.get("cursor") {
            None => 0,
            Some(cursor) => cursor
                .as_str()
                .and_then(|text| text.strip_prefix("at-")?.parse().ok())
                .filter(|at| *at < items.len())
                .ok_or_else(|| RpcError::invalid("Invalid cursor"))?,
        };
        let end = start.saturating_add(self.options.page_size).min(items.len());
        let mut result = json!({"resultType": "complete", key: items[start..end], "ttlMs": 0, "cacheScope": "private"});
        if end < items.len() {
            result["nextCursor"] = format!("at-{end}").into();
        }
        Ok(result)
    }

    fn task(&self, call: &Call<'_>) -> Result<Reply, RpcError> {
        if self.options.check_capabilities && !call.has_tasks() {
            return Err(RpcError::missing(json!({"extensions": {TASKS: {}}})));
        }
        let id = call.text("taskId")?;
        let said = match call.method {
            "tasks/get" => self.tasks(|tasks, clock| tasks.get(id, clock)),
            "tasks/update" => {
                let responses = call.params.get("inputResponses").and_then(Value::as_object);
                let responses = responses.ok_or_else(|| RpcError::invalid("\"inputResponses\" must be an object"))?;
                self.tasks(|tasks, clock| tasks.update(id, responses, clock))
            }
            _ => self.tasks(|tasks, clock| tasks.cancel(id, clock)),
        }?;
        Ok(match said {
            Said::Result(result) => Reply::result(call.id, &result),
            Said::Act(action) => {
                let mut reply = Reply::new(200, Body::Empty);
                reply.act = Some(action);
                reply
            }
        })
    }

    fn listen(&self, call: &Call<'_>) -> Result<Reply, RpcError> {
        let filter = call.params.get("notifications").and_then(Value::as_object);
        let filter = filter.ok_or_else(|| RpcError::invalid("\"notifications\" must be an object"))?;
        let tasks = filter.contains_key("taskIds");
        if tasks && self.options.tasks && self.options.check_capabilities && !call.has_tasks() {
            return Err(RpcError::missing(json!({"extensions": {TASKS: {}}})));
        }
        let listener = Listener::open(self, call.id, filter);
        Ok(Reply::new(200, Body::Listen(Box::new(listener))))
    }

    /// An id that nobody can guess.
    pub(crate) fn new_id(&self, count: usize) -> String {
        format!("{:016x}{:016x}", self.secret.hash_one(("a", count)), RandomState::new().hash_one(("b", count)))
    }
}

fn deliver(call: &Call<'_>, answer: Answer) -> Reply {
    match answer {
        Answer::Result(result) => Reply::result(call.id, &result),
        Answer::Later(delay, result) => {
            let mut reply = Reply::result(call.id, &result);
            reply.delay = delay;
            reply
        }
        Answer::Frames(frames) => Reply::new(200, Body::Frames(frames)),
    }
}

/// Puts the server's name into the `_meta` of each result.
fn sign(body: &mut Body) {
    match body {
        Body::Message(message) => message.get_mut("result").into_iter().for_each(sign_result),
        Body::Frames(frames) => frames.iter_mut().filter_map(Frame::result_mut).for_each(sign_result),
        Body::Empty | Body::Raw(_) | Body::Listen(_) | Body::Talk(_) | Body::Feed(_) => {}
    }
}

fn sign_result(result: &mut Value) {
    let Some(result) = result.as_object_mut() else {
        return;
    };
    let meta = result.entry("_meta").or_insert_with(|| json!({}));
    let info = json!({"name": "mcp-test-server", "version": env!("CARGO_PKG_VERSION")});
    meta["io.modelcontextprotocol/serverInfo"] = info;
}

/// Named counters of tools.
pub(crate) type Counters = BTreeMap<String, u64>;
