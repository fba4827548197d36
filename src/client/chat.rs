//! For a chat loop: the tasks that are pending, and every outcome as a tool result, so that a conversation never
//! sticks.

use std::sync::Arc;

use serde_json::Value;

use crate::client::doc::Doc;
use crate::client::end::CallEnd;
use crate::client::follow::TaskHandle;
use crate::client::handle::Client;
use crate::clock::Deadline;
use crate::error::{Error, Kind, Result};
use crate::protocol::json::{Json, quote};
use crate::protocol::task::Ttl;
use crate::tasks::EndReason;
use crate::tasks::snapshot::Snapshot;

/// Which tasks are meant.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    tool_call_id: Option<String>,
    /// Members that the context of the call must have, with these values: a conversation's id, say.
    context: Option<Value>,
}

impl Filter {
    /// Reads the document; an empty text means all.
    ///
    /// # Errors
    /// [`Kind::Argument`] naming what is wrong.
    pub(crate) fn read(text: &str) -> Result<Self> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let value: Value = serde_json::from_str(text)
            .map_err(|fault| Error::new(Kind::Argument, format!("the filter is not valid JSON: {fault}")))?;
        let mut doc = Doc::of(value, "filter")?;
        let filter = Self { tool_call_id: doc.text("tool_call_id")?, context: doc.object("context")?.map(Doc::rest) };
        doc.finish()?;
        Ok(filter)
    }

    fn takes(&self, snapshot: &Snapshot) -> bool {
        let about = snapshot.about();
        let by_call = self.tool_call_id.is_none() || self.tool_call_id == about.tool_call_id;
        by_call && self.context.as_ref().is_none_or(|wanted| has_members(about.host.as_ref(), wanted))
    }
}

fn has_members(context: Option<&Json>, wanted: &Value) -> bool {
    let (Some(context), Value::Object(wanted)) = (context.map(Json::value), wanted) else {
        return false;
    };
    wanted.iter().all(|(name, value)| context.get(name) == Some(value))
}

/// The tasks that have not ended, as a JSON array.
pub(crate) fn pending(client: &Arc<Client>, filter: &Filter) -> String {
    let now = client.clock().now();
    let entries = client.entries();
    let snapshots = entries.iter().map(|entry| entry.snapshot());
    let texts: Vec<String> = snapshots
        .filter(|snapshot| !snapshot.has_ended() && filter.takes(snapshot))
        .map(|snapshot| {
            let keys: Vec<String> = snapshot.inputs().iter().map(|input| quote(&input.request.key)).collect();
            let next = snapshot.next_poll_due().map(|at| at.saturating_duration_since(now).as_millis());
            format!(
                "{{{},\"status_message\":{},\"created_at\":{},\"last_updated_at\":{},\"ttl_ms\":{},\"poll_interval_ms\":{},\
                 \"next_poll_ms\":{},\"overdue\":{},\"input_keys\":[{}],\"result\":{}}}",
                identity(&snapshot),
                optional(snapshot.message()),
                optional(snapshot.created_at()),
                optional(snapshot.updated_at()),
                ttl_number(snapshot.ttl()).map_or_else(null, |ms| ms.to_string()),
                snapshot.poll_interval().map_or_else(null, |wait| wait.as_millis().to_string()),
                next.map_or_else(null, |ms| ms.to_string()),
                snapshot.overdue(),
                keys.join(","),
                snapshot.immediate().map_or_else(null, text_result)
            )
        })
        .collect();
    format!("[{}]", texts.join(","))
}

/// Polls each task that is due, once, on this thread, and returns what has ended and was not handed out before, as a
/// JSON array. What is handed out counts as acknowledged.
pub(crate) fn check(client: &Arc<Client>, filter: &Filter, deadline: Deadline) -> Result<String> {
    for entry in client.entries() {
        let task = TaskHandle::new(entry, client);
        let snapshot = task.snapshot();
        let due = snapshot.next_poll_due().is_none_or(|at| at <= client.clock().now());
        if !filter.takes(&snapshot) || !due {
            continue;
        }
        match task.get(deadline) {
            Err(error) if error.kind() == Kind::Closed => return Err(error),
            // A failed poll does not end a task: the engine has noted it, the next check asks again.
            Ok(_) | Err(_) => {}
        }
    }
    let mut finished = Vec::new();
    for record in client.unclaimed()? {
        let task = client.task(&record.key.id)?;
        if record.wants_result() && !task.snapshot().has_ended() {
            // The ledger does not keep the results of private tasks: the server is asked once more.
            match task.get(deadline) {
                Err(error) if error.kind() == Kind::Closed => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        let snapshot = task.snapshot();
        if snapshot.has_ended() && filter.takes(&snapshot) {
            task.acknowledge()?;
            finished.push(outcome(&snapshot));
        }
    }
    Ok(format!("[{}]", finished.join(",")))
}

fn outcome(snapshot: &Snapshot) -> String {
    let reason = snapshot.end_reason().map_or("", reason_word);
    let result = tool_result(snapshot);
    format!("{{{},\"reason\":\"{reason}\",\"result\":{}}}", identity(snapshot), result.text())
}

fn identity(snapshot: &Snapshot) -> String {
    let about = snapshot.about();
    format!(
        "\"task_id\":{},\"tool\":{},\"tool_call_id\":{},\"context\":{},\"status\":\"{}\"",
        quote(snapshot.task_id()),
        quote(&about.tool),
        optional(about.tool_call_id.as_deref()),
        about.host.as_ref().map_or("null", Json::text),
        snapshot.status().word()
    )
}

/// The word of a reason.
pub(crate) fn reason_word(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Completed => "completed",
        EndReason::Failed => "failed",
        EndReason::Cancelled => "cancelled",
        EndReason::Expired => "expired",
        EndReason::Unknown => "unknown",
        EndReason::Closed => "closed",
    }
}

/// The end of a task as a tool result: its own, or one with `isError` that says in words what happened.
pub(crate) fn tool_result(snapshot: &Snapshot) -> Json {
    if let Some(result) = snapshot.result().filter(|_| snapshot.flaw().is_none()) {
        return result.clone();
    }
    match (end_error(snapshot), snapshot.immediate()) {
        (Some(error), _) => error_result(&error),
        (None, Some(text)) => Json::trusted(text_result(text)),
        (None, None) => words("the task has not ended"),
    }
}

/// A failure as a tool result with `isError`, for a conversation that must not stick.
pub(crate) fn error_result(error: &Error) -> Json {
    words(error.message())
}

fn words(text: &str) -> Json {
    Json::trusted(format!("{{\"content\":[{{\"type\":\"text\",\"text\":{}}}],\"isError\":true}}", quote(text)))
}

/// What the server offers for the model until the task has ended, as a tool result.
fn text_result(text: &str) -> String {
    format!("{{\"content\":[{{\"type\":\"text\",\"text\":{}}}]}}", quote(text))
}

/// The end of a task as the end of the call that waits for it.
pub(crate) fn call_end(snapshot: &Snapshot) -> CallEnd {
    match (snapshot.result(), end_error(snapshot)) {
        (Some(result), flaw) => CallEnd::of_result(result.clone(), flaw),
        (None, Some(error)) => CallEnd::Failed(error),
        (None, None) => CallEnd::Failed(Error::new(Kind::Internal, "the task has not ended")),
    }
}

/// Why a task that ended has no result, or what is wrong with the one it has.
pub(crate) fn end_error(snapshot: &Snapshot) -> Option<Error> {
    let reason = snapshot.end_reason()?;
    let message = |text: &str| match snapshot.message() {
        Some(words) => format!("{text}: {}", crate::error::one_line(words)),
        None => text.to_owned(),
    };
    let own = |kind, text: &str| Some(snapshot.error().cloned().unwrap_or_else(|| Error::new(kind, message(text))));
    match reason {
        EndReason::Completed => snapshot.flaw().cloned(),
        EndReason::Failed => match snapshot.fault() {
            Some(fault) => Some(Error::from_rpc(fault.clone()).with_kind(Kind::TaskFailed)),
            None => own(Kind::TaskFailed, "the task failed"),
        },
        EndReason::Cancelled => Some(Error::new(Kind::TaskCancelled, message("the task was cancelled"))),
        EndReason::Expired => own(Kind::TaskExpired, "the task expired"),
        EndReason::Unknown => own(Kind::TaskUnknown, "the server does not know the task"),
        EndReason::Closed => own(Kind::Closed, "the task is no longer followed"),
    }
}

/// -1 for no limit; `None` where the server did not say.
pub(crate) fn ttl_number(ttl: Ttl) -> Option<i64> {
    match ttl {
        Ttl::Absent => None,
        Ttl::Unlimited => Some(-1),
        Ttl::Limited(limit) => Some(i64::try_from(limit.as_millis()).unwrap_or(i64::MAX)),
    }
}

fn optional(text: Option<&str>) -> String {
    text.map_or_else(null, quote)
}

fn null() -> String {
    "null".to_owned()
}
