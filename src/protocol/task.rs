//! A task as the server tells of it (extension `io.modelcontextprotocol/tasks`, "Tasks"), read tolerantly.

use std::time::Duration;

use jiff::Timestamp;

use crate::error::{Error, Kind, Result, RpcFault};
use crate::protocol::input::{InputRequest, read_requests};
use crate::protocol::json::{Json, Members};
use crate::protocol::meta::IMMEDIATE_RESPONSE;

/// `notifications/tasks`: the server tells of a task by itself.
pub const NOTIFICATION: &str = "notifications/tasks";
/// The name of the extension.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The five states of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskStatus {
    /// The server is at work.
    Working,
    /// The server waits for answers.
    InputRequired,
    /// There is a result.
    Completed,
    /// The request failed with a JSON-RPC error.
    Failed,
    /// The request was cancelled.
    Cancelled,
}

impl TaskStatus {
    /// The status of a wire word; `None` for a word that the extension does not know.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            "working" => Some(Self::Working),
            "input_required" => Some(Self::InputRequired),
            "completed" => Some(Self::Completed),
            "failed" => Some(Self::Failed),
            "cancelled" => Some(Self::Cancelled),
            _ => None,
        }
    }

    /// The wire word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// True where nothing follows.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Working | Self::InputRequired => false,
            Self::Completed | Self::Failed | Self::Cancelled => true,
        }
    }
}

/// How long the server keeps a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// Not told, or a value that makes no sense.
    Absent,
    /// `null`: without limit.
    Unlimited,
    /// So long.
    Limited(Duration),
}

/// One answer of the server about a task: the seed (`CreateTaskResult`), a `tasks/get` result, or the `params` of
/// `notifications/tasks`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The server's id.
    pub id: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// The server's words about it.
    pub message: Option<String>,
    /// `createdAt` as sent.
    pub created_at: Option<String>,
    /// `lastUpdatedAt` as sent.
    pub updated_at: Option<String>,
    /// How long the server keeps it.
    pub ttl: Ttl,
    /// The server's wish for the time between two polls; absent where it makes no sense (0, negative, no number).
    pub poll_interval: Option<Duration>,
    /// The open questions, while the status is `input_required`.
    pub inputs: Vec<InputRequest>,
    /// Open questions of a method that no revision knows: (key, method).
    pub unknown_inputs: Vec<(String, String)>,
    /// The result, when completed.
    pub result: Option<Json>,
    /// The JSON-RPC error, when failed.
    pub fault: Option<RpcFault>,
    /// What the model may be told until the task has ended.
    pub immediate: Option<String>,
    /// The whole object as sent.
    pub raw: Json,
}

impl Task {
    /// Reads a task.
    ///
    /// # Errors
    /// [`Kind::Malformed`] without `taskId`, without or with an unknown `status`, `completed` without a result object,
    /// `input_required` with questions that are no object. `failed` without `error` is forgiven: the fault is then
    /// absent.
    pub fn read(raw: &Json) -> Result<Self> {
        let members = raw.members()?;
        let id = members.string("taskId").filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| Error::new(Kind::Malformed, "the task has no taskId"))?;
        let word = members.string("status").ok_or_else(|| Error::new(Kind::Malformed, "the task has no status"))?;
        let status = TaskStatus::of_word(&word).ok_or_else(|| {
            Error::new(Kind::Malformed, format!("the task has the unknown status {}", crate::error::one_line(&word)))
        })?;
        let (inputs, unknown_inputs) = match members.some("inputRequests") {
            Some(map) if status == TaskStatus::InputRequired => read_requests(raw, map)?,
            _ => (Vec::new(), Vec::new()),
        };
        Ok(Self {
            id,
            status,
            message: members.string("statusMessage"),
            created_at: members.string("createdAt"),
            updated_at: members.string("lastUpdatedAt"),
            ttl: read_ttl(&members),
            poll_interval: members.whole("pollIntervalMs").and_then(positive_ms),
            inputs,
            unknown_inputs,
            result: members.some("result").map(|text| raw.slice(text)).filter(Json::is_object),
            fault: members.some("error").and_then(read_fault),
            immediate: members.some("_meta").and_then(|meta| Members::parse(meta).ok()?.string(IMMEDIATE_RESPONSE)),
            raw: raw.clone(),
        })
    }

    /// What is wrong with a terminal task that lacks its payload; a seed may lack it (the next poll brings it).
    ///
    /// # Errors
    /// [`Kind::Malformed`] where the status is `completed` and there is no result object.
    pub fn check_payload(&self) -> Result<()> {
        if self.status == TaskStatus::Completed && self.result.is_none() {
            return Err(Error::new(Kind::Malformed, "the task is completed but has no result object"));
        }
        Ok(())
    }

    /// `lastUpdatedAt` as a moment, where it is one.
    #[must_use]
    pub fn updated(&self) -> Option<Timestamp> {
        self.updated_at.as_deref().and_then(|text| text.parse().ok())
    }
}

fn positive_ms(ms: i64) -> Option<Duration> {
    u64::try_from(ms).ok().filter(|ms| *ms > 0).map(Duration::from_millis)
}

fn read_ttl(members: &Members<'_>) -> Ttl {
    match members.raw("ttlMs") {
        Some("null") => Ttl::Unlimited,
        _ => members.whole("ttlMs").and_then(positive_ms).map_or(Ttl::Absent, Ttl::Limited),
    }
}

/// Reads a JSON-RPC error object; `None` where it has no whole number as its code.
#[must_use]
pub fn read_fault(raw: &str) -> Option<RpcFault> {
    let members = Members::parse(raw).ok()?;
    Some(RpcFault {
        code: members.whole("code")?,
        message: members.string("message").unwrap_or_default(),
        data: members.raw("data").map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Task> {
        Task::read(&Json::parse(text).unwrap())
    }

    #[test]
    fn numbers_that_make_no_sense_count_as_absent() {
        for (ttl, poll, want_ttl, want_poll) in [
            ("null", "1000", Ttl::Unlimited, Some(1000)),
            ("0", "0", Ttl::Absent, None),
            ("-5", "-5", Ttl::Absent, None),
            ("1500.7", "500.0", Ttl::Limited(Duration::from_millis(1500)), Some(500)),
            ("9e15", "9e15", Ttl::Limited(Duration::from_millis(9_000_000_000_000_000)), Some(9_000_000_000_000_000)),
            ("9e99", "\"soon\"", Ttl::Absent, None),
        ] {
            let task = read(&format!(r#"{{"taskId":"t","status":"working","ttlMs":{ttl},"pollIntervalMs":{poll}}}"#));
            let task = task.unwrap();
            assert_eq!(task.ttl, want_ttl, "{ttl}");
            assert_eq!(task.poll_interval.map(|d| d.as_millis()), want_poll, "{poll}");
        }
        assert_eq!(read(r#"{"taskId":"t","status":"working"}"#).unwrap().ttl, Ttl::Absent);
    }

    #[test]
    fn faults_are_named() {
        let message = |text| read(text).unwrap_err().message().to_owned();
        assert_eq!(message(r#"{"status":"working"}"#), "the task has no taskId");
        assert_eq!(message(r#"{"taskId":"t"}"#), "the task has no status");
        assert_eq!(message(r#"{"taskId":"t","status":"paused"}"#), "the task has the unknown status paused");
        let completed = read(r#"{"taskId":"t","status":"completed"}"#).unwrap();
        assert_eq!(completed.check_payload().unwrap_err().message(), "the task is completed but has no result object");
    }

    #[test]
    fn a_failed_task_keeps_code_message_and_data() {
        let task = read(r#"{"taskId":"t","status":"failed","error":{"code":-32050,"message":"m","data":{"a":1}}}"#);
        let fault = task.unwrap().fault.unwrap();
        assert_eq!((fault.code, fault.message.as_str(), fault.data.as_deref()), (-32050, "m", Some("{\"a\":1}")));
    }

    #[test]
    fn timestamps_of_real_servers_are_read() {
        for text in ["2026-11-30T10:00:00Z", "2026-11-30T10:00:00.123456+00:00", "2026-11-30T10:00:00.123456789+00:00"]
        {
            let task = read(&format!(r#"{{"taskId":"t","status":"working","lastUpdatedAt":"{text}"}}"#)).unwrap();
            assert!(task.updated().is_some(), "{text}");
        }
    }
}
