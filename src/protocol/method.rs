//! What the library has to know of a method by its name: its routing header, whether it may be repeated, and what it
//! may be answered with.

/// `tools/call`.
pub const TOOLS_CALL: &str = "tools/call";
/// `tools/list`.
pub const TOOLS_LIST: &str = "tools/list";
/// `server/discover`.
pub const DISCOVER: &str = "server/discover";
/// `initialize`, of the legacy revisions.
pub const INITIALIZE: &str = "initialize";
/// `notifications/initialized`, of the legacy revisions.
pub const INITIALIZED: &str = "notifications/initialized";
/// `notifications/cancelled`.
pub const CANCELLED: &str = "notifications/cancelled";
/// `logging/setLevel`, of the legacy revisions.
pub const SET_LEVEL: &str = "logging/setLevel";
/// `ping`, of the legacy revisions.
pub const PING: &str = "ping";
/// `subscriptions/listen`.
pub const LISTEN: &str = "subscriptions/listen";
/// `resources/subscribe`, of the legacy revisions.
pub const SUBSCRIBE: &str = "resources/subscribe";
/// `resources/unsubscribe`, of the legacy revisions.
pub const UNSUBSCRIBE: &str = "resources/unsubscribe";
/// `resources/read`.
pub const RESOURCES_READ: &str = "resources/read";
/// `notifications/resources/updated`.
pub const RESOURCE_UPDATED: &str = "notifications/resources/updated";
/// `notifications/roots/list_changed`, of the legacy revisions.
pub const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
/// `tasks/get`.
pub const TASKS_GET: &str = "tasks/get";
/// `tasks/update`.
pub const TASKS_UPDATE: &str = "tasks/update";
/// `tasks/cancel`.
pub const TASKS_CANCEL: &str = "tasks/cancel";
/// `tasks/result`, of 2025-11-25.
pub const TASKS_RESULT: &str = "tasks/result";
/// `tasks/list`, of 2025-11-25.
pub const TASKS_LIST: &str = "tasks/list";
/// `notifications/tasks/status`, of 2025-11-25.
pub const TASK_STATUS: &str = "notifications/tasks/status";

/// The member of `params` whose value goes into the `Mcp-Name` header (`basic/transports/streamable-http`, "Standard
/// Request Headers"; the tasks extension, "Routing Headers").
#[must_use]
pub fn name_member(method: &str) -> Option<&'static str> {
    match method {
        TOOLS_CALL | "prompts/get" => Some("name"),
        RESOURCES_READ => Some("uri"),
        TASKS_GET | TASKS_UPDATE | TASKS_CANCEL => Some("taskId"),
        _ => None,
    }
}

/// True for requests that only read: one whose answer was lost may be sent once more.
#[must_use]
pub fn only_reads(method: &str) -> bool {
    matches!(
        method,
        DISCOVER | TASKS_GET | TASKS_RESULT | RESOURCES_READ | "prompts/get" | "completion/complete" | "ping"
    ) || list_member(method).is_some()
}

/// True where sending the same request twice has the effect of sending it once: a failure leaves nothing unknown.
#[must_use]
pub fn is_idempotent(method: &str) -> bool {
    only_reads(method) || matches!(method, INITIALIZE | TASKS_UPDATE | TASKS_CANCEL | LISTEN | SUBSCRIBE | UNSUBSCRIBE)
}

/// The array member of a paginated list result.
#[must_use]
pub fn list_member(method: &str) -> Option<&'static str> {
    match method {
        TOOLS_LIST => Some("tools"),
        "resources/list" => Some("resources"),
        "resources/templates/list" => Some("resourceTemplates"),
        "prompts/list" => Some("prompts"),
        TASKS_LIST => Some("tasks"),
        _ => None,
    }
}

/// A list of the server's that it tells changes of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListKind {
    /// Tools.
    Tools,
    /// Prompts.
    Prompts,
    /// Resources and their templates: one notification tells of both.
    Resources,
}

/// The list that a list method asks for.
#[must_use]
pub fn list_kind(method: &str) -> Option<ListKind> {
    match list_member(method)? {
        "tools" => Some(ListKind::Tools),
        "prompts" => Some(ListKind::Prompts),
        _ => Some(ListKind::Resources),
    }
}

/// The list that a notification says has changed.
#[must_use]
pub fn changed_list(notification: &str) -> Option<ListKind> {
    match notification {
        "notifications/tools/list_changed" => Some(ListKind::Tools),
        "notifications/prompts/list_changed" => Some(ListKind::Prompts),
        "notifications/resources/list_changed" => Some(ListKind::Resources),
        _ => None,
    }
}

/// True where an `input_required` result is allowed (`basic/patterns/mrtr`, "Supported Requests").
#[must_use]
pub fn may_ask(method: &str) -> bool {
    matches!(method, TOOLS_CALL | "prompts/get" | RESOURCES_READ)
}
