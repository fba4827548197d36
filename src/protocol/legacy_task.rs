//! Tasks of revision 2025-11-25 (`basic/utilities/tasks`), told in the words of the extension: behind this page there
//! is one shape of a task. Their result, their error and their questions come apart from their status, and are put in
//! here.

use crate::error::{Error, Kind, Result, RpcFault};
use crate::protocol::input::InputRequest;
use crate::protocol::json::{Json, Members, quote};
use crate::protocol::meta::IMMEDIATE_RESPONSE;
use crate::protocol::task::{Task, TaskStatus};

/// Names the task that a message belongs to.
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// A task's status as the server tells it: in the answer to the call, to `tasks/get` and `tasks/cancel`, and in
/// `notifications/tasks/status`.
#[derive(Clone, Debug)]
pub struct LegacyTask {
    /// Without result, error and questions.
    bare: Task,
    /// The members but for the status, in the words of the extension, each with a comma behind.
    members: String,
}

impl LegacyTask {
    /// Reads a status.
    ///
    /// # Errors
    /// [`Kind::Malformed`] as [`Task::read`].
    pub fn read(raw: &Json) -> Result<Self> {
        Self::of(&raw.members()?, None)
    }

    /// Reads the answer to a call that was sent as a task; [`None`] where it is none (`CreateTaskResult`).
    ///
    /// # Errors
    /// [`Kind::Malformed`] for a task that cannot be read.
    pub fn created(result: &Json) -> Result<Option<Self>> {
        let outer = result.members()?;
        let Some(raw) = outer.some("task").filter(|raw| raw.starts_with('{')) else {
            return Ok(None);
        };
        Self::of(&Members::parse(raw)?, outer.some("_meta")).map(Some)
    }

    fn of(told: &Members<'_>, meta: Option<&str>) -> Result<Self> {
        let mut members = String::new();
        for (name, raw) in told.iter() {
            let name = match name {
                "ttl" => "ttlMs",
                "pollInterval" => "pollIntervalMs",
                // Written anew, or no part of this generation.
                "status" | "resultType" | "inputRequests" | "result" | "error" => continue,
                name => name,
            };
            members.push_str(&format!("{}:{raw},", quote(name)));
        }
        if let Some(meta) = meta.filter(|_| told.raw("_meta").is_none()) {
            members.push_str(&format!("\"_meta\":{meta},"));
        }
        let word = told.raw("status").unwrap_or("null");
        let bare = Task::read(&Json::trusted(format!("{{{members}\"status\":{word}}}")))?;
        Ok(Self { bare, members })
    }

    /// The server's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.bare.id
    }

    /// Where the server says that it stands.
    #[must_use]
    pub fn status(&self) -> TaskStatus {
        self.bare.status
    }

    /// What the model may be told until the task has ended.
    #[must_use]
    pub fn immediate(&self) -> Option<&str> {
        self.bare.immediate.as_deref()
    }

    /// Keeps in mind what only the answer to the call tells.
    #[must_use]
    pub fn with_immediate(mut self, text: Option<&str>) -> Self {
        if let Some(text) = text.filter(|_| self.bare.immediate.is_none()) {
            let own = self.bare.raw.members().ok().and_then(|members| members.some("_meta").map(str::to_owned));
            let meta = with_member(own.as_deref(), IMMEDIATE_RESPONSE, &quote(text));
            // A name that comes twice counts once, the last one.
            self.members.push_str(&format!("\"_meta\":{meta},"));
            self.bare.immediate = Some(text.to_owned());
        }
        self
    }

    /// True where this tells of a later state than `other`: an end is final, else the server's own time decides.
    #[must_use]
    pub fn follows(&self, other: &Self) -> bool {
        if other.status().is_terminal() || self.status().is_terminal() {
            return !other.status().is_terminal();
        }
        match (self.bare.updated(), other.bare.updated()) {
            (Some(this), Some(other)) => this > other,
            _ => false,
        }
    }

    /// The task with the questions that the server has open. It waits for their answers, whatever its status says: a
    /// server "SHOULD" move it to `input_required`.
    ///
    /// # Errors
    /// [`Kind::Internal`] where what was read cannot be read again.
    pub fn asking(&self, questions: &[InputRequest]) -> Result<Task> {
        if questions.is_empty() || self.status().is_terminal() {
            return self.with(self.status(), "");
        }
        let texts: Vec<String> = questions.iter().map(write_question).collect();
        self.with(TaskStatus::InputRequired, &format!(",\"inputRequests\":{{{}}}", texts.join(",")))
    }

    /// The task with its result. A tool's own `isError`, which this generation tells as `failed`, is a result like any
    /// other.
    ///
    /// # Errors
    /// As [`Self::asking`].
    pub fn completed(&self, result: &Json) -> Result<Task> {
        self.with(TaskStatus::Completed, &format!(",\"result\":{}", result.text()))
    }

    /// The task with the JSON-RPC error that its request ended with.
    ///
    /// # Errors
    /// As [`Self::asking`].
    pub fn failed(&self, fault: &RpcFault) -> Result<Task> {
        let data = fault.data.as_ref().map(|data| format!(",\"data\":{data}")).unwrap_or_default();
        let error = format!("{{\"code\":{},\"message\":{}{data}}}", fault.code, quote(&fault.message));
        self.with(TaskStatus::Failed, &format!(",\"error\":{error}"))
    }

    fn with(&self, status: TaskStatus, more: &str) -> Result<Task> {
        let text = format!("{{{}\"status\":\"{}\"{more}}}", self.members, status.word());
        Task::read(&Json::trusted(text)).map_err(|error| Error::new(Kind::Internal, error.message().to_owned()))
    }
}

fn write_question(request: &InputRequest) -> String {
    let method = request.kind.method();
    format!("{}:{{\"method\":\"{method}\",\"params\":{}}}", quote(&request.key), request.params.text())
}

/// The task that a request or a notification of the server's belongs to, by the `_meta` of its `params`.
#[must_use]
pub fn related_task(params: &Json) -> Option<String> {
    // The cheap look first: most have none.
    if !params.text().contains(RELATED_TASK) {
        return None;
    }
    let meta = Members::parse(params.members().ok()?.some("_meta")?).ok()?;
    Members::parse(meta.some(RELATED_TASK)?).ok()?.string("taskId")
}

/// An answer to a question of a task's: it names the task, too ("Associating Task-Related Messages").
#[must_use]
pub fn with_related_task(response: &Json, task_id: &str) -> Json {
    let Ok(members) = response.members() else {
        return response.clone();
    };
    let related = format!("{{\"taskId\":{}}}", quote(task_id));
    let meta = with_member(members.some("_meta"), RELATED_TASK, &related);
    Json::trusted(with_member(Some(response.text()), "_meta", &meta))
}

/// An object with this member, in place of one of that name.
fn with_member(object: Option<&str>, name: &str, raw: &str) -> String {
    let members = object.and_then(|object| Members::parse(object).ok()).unwrap_or_default();
    let others = members.iter().filter(|(have, _)| *have != name);
    let mut parts: Vec<String> = others.map(|(name, raw)| format!("{}:{raw}", quote(name))).collect();
    parts.push(format!("{}:{raw}", quote(name)));
    format!("{{{}}}", parts.join(","))
}

/// The `task` member of a `tools/call` (`TaskMetadata`), with a comma behind; `ttl` in milliseconds, where one is
/// wished.
#[must_use]
pub fn write_wish(ttl: Option<u128>) -> String {
    match ttl {
        Some(ms) => format!("\"task\":{{\"ttl\":{ms}}},"),
        None => "\"task\":{},".to_owned(),
    }
}

/// Whether a server's capabilities allow `tools/call` to be sent as a task, and `tasks/cancel`.
#[must_use]
pub fn offers(capabilities: &Json) -> Offer {
    let within =
        |raw: Option<&str>, name: &str| raw.and_then(|raw| Members::parse(raw).ok()?.some(name).map(str::to_owned));
    let tasks = capabilities.members().ok().and_then(|members| members.some("tasks").map(str::to_owned));
    let requests = within(tasks.as_deref(), "requests");
    let tools = within(requests.as_deref(), "tools");
    Offer { call: within(tools.as_deref(), "call").is_some(), cancel: within(tasks.as_deref(), "cancel").is_some() }
}

/// What a server of 2025-11-25 offers of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// `tasks.requests.tools.call`.
    pub call: bool,
    /// `tasks.cancel`.
    pub cancel: bool,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::protocol::input::InputKind;
    use crate::protocol::task::Ttl;

    fn status(text: &str) -> LegacyTask {
        LegacyTask::read(&Json::trusted(text)).unwrap()
    }

    #[test]
    fn a_status_is_told_in_the_words_of_the_extension() {
        let told = status(
            r#"{"taskId":"t","status":"working","statusMessage":"m","createdAt":"2025-11-25T10:30:00Z",
                "lastUpdatedAt":"2025-11-25T10:40:00Z","ttl":60000,"pollInterval":5000.0,"own":[1]}"#,
        );
        let task = told.asking(&[]).unwrap();
        assert_eq!((task.id.as_str(), task.status, task.message.as_deref()), ("t", TaskStatus::Working, Some("m")));
        assert_eq!(task.ttl, Ttl::Limited(Duration::from_secs(60)));
        assert_eq!(task.poll_interval, Some(Duration::from_secs(5)));
        assert!(task.updated().is_some());
        assert_eq!(task.raw.members().unwrap().raw("own"), Some("[1]"));
        assert_eq!(status(r#"{"taskId":"t","status":"working","ttl":null}"#).asking(&[]).unwrap().ttl, Ttl::Unlimited);
    }

    #[test]
    fn what_is_no_task_is_named() {
        let read = |text| LegacyTask::read(&Json::trusted(text)).map(|_| ()).unwrap_err().message().to_owned();
        assert_eq!(read(r#"{"status":"working"}"#), "the task has no taskId");
        assert_eq!(read(r#"{"taskId":"t"}"#), "the task has no status");
        assert_eq!(read(r#"{"taskId":"t","status":"submitted"}"#), "the task has the unknown status submitted");
        let created = |text| LegacyTask::created(&Json::trusted(text));
        assert!(created(r#"{"content":[]}"#).unwrap().is_none());
        assert!(created(r#"{"content":[],"task":"mine"}"#).unwrap().is_none());
        assert!(created(r#"{"task":{}}"#).is_err());
    }

    #[test]
    fn the_immediate_response_stays_with_the_task() {
        let created = r#"{"task":{"taskId":"t","status":"working"},
            "_meta":{"a":1,"io.modelcontextprotocol/model-immediate-response":"at work"}}"#;
        let seed = LegacyTask::created(&Json::trusted(created)).unwrap().unwrap();
        assert_eq!(seed.immediate(), Some("at work"));
        let later = status(r#"{"taskId":"t","status":"working","_meta":{"b":2}}"#).with_immediate(seed.immediate());
        let task = later.completed(&Json::trusted(r#"{"content":[]}"#)).unwrap();
        assert_eq!(task.immediate.as_deref(), Some("at work"));
        let meta = task.raw.slice(task.raw.members().unwrap().raw("_meta").unwrap());
        assert_eq!(meta.members().unwrap().raw("b"), Some("2"));
    }

    #[test]
    fn results_errors_and_questions_are_put_in() {
        let told = status(r#"{"taskId":"t","status":"failed","ttl":1,"result":"foreign","error":7}"#);
        let done = told.completed(&Json::trusted(r#"{"content":[],"isError":true}"#)).unwrap();
        assert_eq!(
            (done.status, done.result.unwrap().text()),
            (TaskStatus::Completed, r#"{"content":[],"isError":true}"#)
        );
        let fault = RpcFault { code: -32050, message: "no \"way\"".into(), data: Some("[1]".into()) };
        let failed = told.failed(&fault).unwrap();
        assert_eq!((failed.status, failed.fault, failed.result), (TaskStatus::Failed, Some(fault), None));
        let question =
            InputRequest { key: "k".into(), kind: InputKind::Elicitation, params: Json::trusted(r#"{"message":"?"}"#) };
        let asking = status(r#"{"taskId":"t","status":"working"}"#).asking(std::slice::from_ref(&question)).unwrap();
        assert_eq!(
            (asking.status, asking.inputs.as_slice()),
            (TaskStatus::InputRequired, std::slice::from_ref(&question))
        );
        assert!(told.asking(&[question]).unwrap().inputs.is_empty(), "an end asks nothing");
    }

    #[test]
    fn an_end_is_final_and_else_the_servers_time_decides() {
        let at = |word: &str, second: &str| {
            status(&format!(r#"{{"taskId":"t","status":"{word}","lastUpdatedAt":"2025-11-25T10:00:0{second}Z"}}"#))
        };
        for (new, old, want) in [
            (at("working", "2"), at("working", "1"), true),
            (at("working", "1"), at("working", "2"), false),
            (at("working", "1"), at("working", "1"), false),
            (at("completed", "1"), at("working", "2"), true),
            (at("working", "2"), at("completed", "1"), false),
            (at("failed", "2"), at("completed", "1"), false),
            (status(r#"{"taskId":"t","status":"working"}"#), at("working", "1"), false),
        ] {
            assert_eq!(new.follows(&old), want, "{new:?} {old:?}");
        }
    }

    #[test]
    fn messages_name_their_task() {
        let params = |text| related_task(&Json::trusted(text));
        let named = r#"{"message":"?","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#;
        assert_eq!(params(named).as_deref(), Some("t"));
        for other in ["{}", r#"{"_meta":{}}"#, r#"{"io.modelcontextprotocol/related-task":{"taskId":"t"}}"#] {
            assert_eq!(params(other), None, "{other}");
        }
        let answer = |text| with_related_task(&Json::trusted(text), "t").text().to_owned();
        assert_eq!(
            answer(r#"{"action":"accept"}"#),
            r#"{"action":"accept","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#
        );
        assert_eq!(
            answer(r#"{"_meta":{"a":1},"roots":[]}"#),
            r#"{"roots":[],"_meta":{"a":1,"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#
        );
    }

    #[test]
    fn only_what_is_declared_is_offered() {
        let of = |text| offers(&Json::trusted(text));
        for (text, call, cancel) in [
            (r#"{"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}"#, true, true),
            (r#"{"tasks":{"requests":{"tools":{"call":{}}}}}"#, true, false),
            (r#"{"tasks":{"cancel":{},"requests":{"tools":{}}}}"#, false, true),
            (r#"{"tasks":{}}"#, false, false),
            (r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#, false, false),
        ] {
            assert_eq!(of(text), Offer { call, cancel }, "{text}");
        }
    }

    #[test]
    fn the_wish_for_a_task_may_name_a_lifetime() {
        assert_eq!(write_wish(None), "\"task\":{},");
        assert_eq!(write_wish(Some(60_000)), "\"task\":{\"ttl\":60000},");
    }
}
