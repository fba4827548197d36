//! Records as JSON: what the file keeps in its columns, and what a host with a store of its own exports and imports.
//! The peer's texts and the host's go in and out byte for byte.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::{Error, Kind, Result};
use crate::protocol::json::{Json, quote};
use crate::protocol::task::{Task, Ttl};
use crate::tasks::EndReason;
use crate::tasks::keys::StoredAnswer;
use crate::tasks::ledger::{Record, TaskAbout, TaskKey};

/// The version of the exported form.
const FORM: i64 = 1;

/// The ends that are stored, by their numbers in the file. Numbers are only added.
const REASONS: [(EndReason, i64, &str); 5] = [
    (EndReason::Completed, 1, "completed"),
    (EndReason::Failed, 2, "failed"),
    (EndReason::Cancelled, 3, "cancelled"),
    (EndReason::Expired, 4, "expired"),
    (EndReason::Unknown, 5, "unknown"),
];

/// The number of an end; none for `Closed`, which ends no task.
pub(super) fn reason_number(reason: EndReason) -> Option<i64> {
    REASONS.iter().find(|(have, ..)| *have == reason).map(|(_, number, _)| *number)
}

/// The end of a number.
pub(super) fn reason_of(number: i64) -> Option<EndReason> {
    REASONS.iter().find(|(_, have, _)| *have == number).map(|(reason, ..)| *reason)
}

/// A task as two texts: one that [`read_task`] reads, and the text as the server sent it where that is another one.
pub(super) fn write_task(task: &Task) -> (String, Option<String>) {
    if Task::read(&task.raw).is_ok_and(|again| again == *task) {
        return (task.raw.text().to_owned(), None);
    }
    let mut members = vec![format!("\"taskId\":{}", quote(&task.id)), format!("\"status\":\"{}\"", task.status.word())];
    let texts =
        [("statusMessage", &task.message), ("createdAt", &task.created_at), ("lastUpdatedAt", &task.updated_at)];
    members
        .extend(texts.into_iter().filter_map(|(name, text)| Some(format!("\"{name}\":{}", quote(text.as_deref()?)))));
    match task.ttl {
        Ttl::Absent => {}
        Ttl::Unlimited => members.push("\"ttlMs\":null".into()),
        Ttl::Limited(ttl) => members.push(format!("\"ttlMs\":{}", ttl.as_millis())),
    }
    members.extend(task.poll_interval.map(|wait| format!("\"pollIntervalMs\":{}", wait.as_millis())));
    let known = task.inputs.iter().map(|input| {
        let (key, method) = (quote(&input.key), input.kind.method());
        format!("{key}:{{\"method\":\"{method}\",\"params\":{}}}", input.params.text())
    });
    let unknown =
        task.unknown_inputs.iter().map(|(key, method)| format!("{}:{{\"method\":{}}}", quote(key), quote(method)));
    let inputs: Vec<String> = known.chain(unknown).collect();
    if !inputs.is_empty() {
        members.push(format!("\"inputRequests\":{{{}}}", inputs.join(",")));
    }
    members.extend(task.result.as_ref().map(|result| format!("\"result\":{}", result.text())));
    members.extend(task.fault.as_ref().map(|fault| {
        let data = fault.data.as_ref().map_or_else(String::new, |data| format!(",\"data\":{data}"));
        format!("\"error\":{{\"code\":{},\"message\":{}{data}}}", fault.code, quote(&fault.message))
    }));
    (format!("{{{}}}", members.join(",")), Some(task.raw.text().to_owned()))
}

/// A task from its texts.
pub(super) fn read_task(text: &str, raw: Option<&str>) -> Result<Task> {
    let mut task = Task::read(&Json::parse(text)?)?;
    if let Some(raw) = raw {
        task.raw = Json::parse(raw)?;
    }
    Ok(task)
}

/// Answered keys, as a JSON array.
pub(super) fn write_answers(answers: &[StoredAnswer]) -> String {
    let texts: Vec<String> = answers
        .iter()
        .map(|answer| {
            let response = answer.response.as_ref().map_or("null", Json::text);
            format!("{{\"key\":{},\"response\":{response}}}", quote(&answer.key))
        })
        .collect();
    format!("[{}]", texts.join(","))
}

/// The same, read.
pub(super) fn read_answers(text: &str) -> Result<Vec<StoredAnswer>> {
    let read = |whole: &Json| {
        let members = whole.members()?;
        let key = members.string("key").ok_or_else(|| Error::new(Kind::Malformed, "an answer has no key"))?;
        Ok(StoredAnswer { key, response: members.some("response").map(|text| Json::trusted(text.to_owned())) })
    };
    Json::parse(text)?.elements()?.iter().map(read).collect()
}

/// Nanoseconds since 1970; what lies outside of the range is the nearest end of it.
pub(super) fn nanos(wall: SystemTime) -> i64 {
    match wall.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    }
}

/// The same, read.
pub(super) fn wall_of(nanos: i64) -> SystemTime {
    let distance = Duration::from_nanos(nanos.unsigned_abs());
    let moved = if nanos < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    moved.unwrap_or(UNIX_EPOCH)
}

/// A record as a JSON object, for a host that keeps it itself.
pub(crate) fn export(record: &Record) -> String {
    let optional = |text: Option<&str>| text.map_or_else(|| "null".to_owned(), quote);
    let about = &record.about;
    let (last, raw) = match &record.last {
        None => ("null".to_owned(), None),
        Some(task) => write_task(task),
    };
    let word = record.end.and_then(|end| REASONS.iter().find(|(have, ..)| *have == end)).map(|(.., word)| *word);
    format!(
        "{{\"form\":{FORM},\"server\":{},\"task_id\":{},\"tool\":{},\"tool_call_id\":{},\"context\":{},\
         \"arguments_digest\":{},\"keep_result\":{},\"received_ns\":{},\"stored_ns\":{},\"last\":{last},\"raw\":{},\
         \"answers\":{},\"cancel_pending\":{},\"reason\":{},\"acknowledged\":{}}}",
        quote(&record.key.server),
        quote(&record.key.id),
        quote(&about.tool),
        optional(about.tool_call_id.as_deref()),
        about.host.as_ref().map_or("null", Json::text),
        optional(about.arguments_digest.as_deref()),
        about.keep_result,
        nanos(record.received),
        nanos(record.stored),
        raw.as_deref().unwrap_or("null"),
        write_answers(&record.answers),
        record.cancel_pending,
        optional(word),
        record.acknowledged,
    )
}

/// Reads what [`export`] wrote.
///
/// # Errors
/// [`Kind::Argument`] naming what is wrong; [`Kind::Unsupported`] for a form of a newer version.
pub(crate) fn import(text: &str) -> Result<Record> {
    let wrong = |what: &str| Error::new(Kind::Argument, format!("record: {what}"));
    let read = |fault: Error| wrong(fault.message());
    let whole = Json::parse(text).map_err(read)?;
    let members = whole.members().map_err(|_| wrong("expected a JSON object"))?;
    match members.whole("form") {
        Some(FORM) => {}
        Some(form) if form > FORM => {
            return Err(Error::new(Kind::Unsupported, format!("record: form {form} is newer than this library")));
        }
        _ => return Err(wrong("form is missing; expected what mcp_task_export() wrote")),
    }
    let text = |name: &str| members.string(name).filter(|text| !text.is_empty());
    let need = |name: &str| text(name).ok_or_else(|| wrong(&format!("{name} is missing")));
    let time = |name: &str| members.whole(name).map(wall_of).ok_or_else(|| wrong(&format!("{name} is missing")));
    let server: Arc<str> = need("server")?.into();
    let end = match text("reason") {
        None => None,
        Some(word) => {
            let known = REASONS.iter().find(|(.., have)| *have == word);
            Some(known.map(|(reason, ..)| *reason).ok_or_else(|| wrong("reason is not known"))?)
        }
    };
    let last = members.some("last").map(|text| read_task(text, members.some("raw")).map_err(read)).transpose()?;
    let key = TaskKey { server: server.clone(), id: need("task_id")?.into() };
    if last.as_ref().is_some_and(|task| *task.id != *key.id) {
        return Err(wrong("last is about another task"));
    }
    let about = TaskAbout {
        server,
        tool: members.string("tool").unwrap_or_default(),
        tool_call_id: members.string("tool_call_id"),
        host: members.some("context").map(|text| Json::trusted(text.to_owned())),
        arguments_digest: members.string("arguments_digest"),
        keep_result: members.boolean("keep_result").unwrap_or(true),
    };
    Ok(Record {
        key,
        about: Arc::new(about),
        received: time("received_ns")?,
        stored: time("stored_ns")?,
        last: last.map(Arc::new),
        answers: members.some("answers").map_or(Ok(Vec::new()), read_answers).map_err(read)?,
        cancel_pending: members.boolean("cancel_pending").unwrap_or(false),
        end,
        acknowledged: members.boolean("acknowledged").unwrap_or(false),
    })
}

/// A digest of a text (FNV-1a, 64 bits), the same on every machine and in every version.
pub(crate) fn digest(text: &str) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    text.bytes().fold(BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}
