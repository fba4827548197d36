//! What is asked of a server, and what it says in between.

use std::time::Duration;

use crate::error::Result;
use crate::protocol::json::Json;
use crate::protocol::jsonrpc::{Params, take_params};
use crate::protocol::method;
use crate::protocol::task::Task;
use crate::session::desk::Question;
use crate::session::subscription::SubscriptionNews;

/// A request as the host means it, before ids, `_meta` and headers.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The method.
    pub method: String,
    /// The parameters.
    pub params: Params,
    /// The arguments of a tool call, for the headers that mirror them.
    pub arguments: Option<Json>,
    /// Whether progress is wanted.
    pub progress: bool,
    /// The client's number of the call that it belongs to.
    pub call: Option<i64>,
    /// Whether a kept answer will do, and whether this one is kept.
    pub cache: CacheUse,
    /// Whether the answer may be a task.
    pub task: TaskWish,
}

/// The host's wish about kept answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CacheUse {
    /// As the server says.
    #[default]
    Server,
    /// Lists and resources are good until a change is told, whatever the server says of their age.
    UntilChanged,
    /// The server is asked; the answer is kept.
    Refresh,
    /// The server is asked; nothing is kept.
    Off,
}

/// What the host wishes of a call that may become a task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TaskWish {
    /// It must not become one.
    pub never: bool,
    /// How long the server shall keep it, where that can be told (2025-11-25).
    pub keep: Option<Duration>,
}

impl Request {
    /// Any method; `params` is the text of a JSON object, which may hold a `_meta` of the host's.
    ///
    /// # Errors
    /// [`crate::error::Kind::Argument`] where `params` is no object.
    pub(crate) fn new(method: &str, params: &str) -> Result<Self> {
        let arguments = (method == method::TOOLS_CALL).then(|| tool_arguments(params)).flatten();
        let params = take_params(params, method::name_member(method))?;
        let (cache, task, call) = Default::default();
        Ok(Self { method: method.to_owned(), params, arguments, progress: false, cache, task, call })
    }

    /// A tool call; `arguments` is the text of a JSON object.
    pub(crate) fn tool(name: &str, arguments: &Json) -> Self {
        let quoted = crate::protocol::json::quote(name);
        let body = ["\"name\":", &quoted, ",\"arguments\":", arguments.text(), ","].concat();
        let params = Params { body, meta: None, name: Some(name.to_owned()) };
        let (cache, task, call) = Default::default();
        let (method, arguments) = (method::TOOLS_CALL.to_owned(), Some(arguments.clone()));
        Self { method, params, arguments, progress: false, cache, task, call }
    }
}

fn tool_arguments(params: &str) -> Option<Json> {
    let whole = Json::parse(params).ok()?;
    whole.members().ok()?.some("arguments").map(|raw| whole.slice(raw))
}

/// What a server says while a request is open.
#[derive(Debug)]
pub(crate) enum Note {
    /// `notifications/progress` of this request: its params.
    Progress(Json),
    /// The same of another request, which came beside its stream: its call's number and the params.
    ProgressOf {
        /// [`Request::call`].
        call: i64,
        /// The params.
        params: Json,
    },
    /// A subscription stands elsewhere now.
    Subscription(SubscriptionNews),
    /// `notifications/message`: its params.
    Log(Json),
    /// Any other notification.
    Other {
        /// The method.
        method: String,
        /// Its params.
        params: Json,
    },
    /// A question of a legacy server's.
    Asked(Question),
    /// The server takes the question with this key back.
    Withdrawn(String),
    /// The server tells of a task by itself.
    Task(Box<Task>),
    /// A line of the server's standard error.
    Stderr(String),
    /// Something that the server did wrong and the library passed over; one line for the log.
    Oddity(String),
}

/// Where notes go. Called on the thread that reads the answer; must not block.
pub(crate) trait Notes {
    /// Takes a note.
    fn note(&mut self, note: Note);
}

impl<F: FnMut(Note)> Notes for F {
    fn note(&mut self, note: Note) {
        self(note);
    }
}
