//! The kinds of answer to a request, told apart by `resultType` alone (`basic/index`, "ResultType").

use crate::error::{Error, Kind, Result, one_line};
use crate::protocol::input::{InputRequest, read_requests};
use crate::protocol::json::{Json, string};
use crate::protocol::method;
use crate::protocol::task::Task;

/// An answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The final result.
    Complete(Json),
    /// The server needs answers first (`basic/patterns/mrtr`).
    InputRequired(InputRound),
    /// The server made a task of it.
    Task(Box<Task>),
}

impl Answer {
    /// The final result, where nothing else is an answer to this method.
    ///
    /// # Errors
    /// [`Kind::Malformed`] for an input round or a task.
    pub fn complete(self, of_method: &str) -> Result<Json> {
        match self {
            Self::Complete(result) => Ok(result),
            Self::InputRequired(_) | Self::Task(_) => {
                Err(Error::new(Kind::Malformed, format!("the server did not answer {of_method}")))
            }
        }
    }
}

/// One round of input requests.
#[derive(Clone, Debug)]
pub struct InputRound {
    /// The questions.
    pub requests: Vec<InputRequest>,
    /// Questions of a method that no revision knows: (key, method).
    pub unknown: Vec<(String, String)>,
    /// `requestState` as JSON text, to be echoed byte for byte.
    pub state: Option<String>,
}

/// What the client declared, as far as it decides about answers.
#[derive(Clone, Copy, Debug)]
pub struct Allowed {
    /// A task may come (the extension was declared on this request).
    pub task: bool,
}

/// Tells what kind of answer a result is.
///
/// # Errors
/// [`Kind::Malformed`] for a `resultType` that the client does not know, for a task or an input round where none is
/// allowed, and for those that cannot be read.
pub fn read(of_method: &str, result: Json, allowed: Allowed) -> Result<Answer> {
    let kind = match result.member("resultType")? {
        // Servers of earlier revisions, and some of this one, leave it out: MUST be read as complete.
        None => return Ok(Answer::Complete(result)),
        Some(raw) => {
            string(raw).ok_or_else(|| Error::new(Kind::Malformed, "the resultType of the answer is no string"))?
        }
    };
    match &*kind {
        "complete" => Ok(Answer::Complete(result)),
        // The extension's own examples show "task" on tasks/get, against its text: accepted there. The caller checks
        // that the id is the one asked for.
        "task" if of_method == method::TASKS_GET => Ok(Answer::Complete(result)),
        "task" if of_method == method::TOOLS_CALL && allowed.task => Ok(Answer::Task(Box::new(Task::read(&result)?))),
        "task" => Err(Error::new(
            Kind::Malformed,
            format!("the server answered {of_method} with a task, which is not allowed here"),
        )),
        "input_required" if method::may_ask(of_method) => read_round(&result).map(Answer::InputRequired),
        "input_required" => Err(Error::new(
            Kind::Malformed,
            format!("the server answered {of_method} with input_required, which is not allowed here"),
        )),
        other => Err(Error::new(Kind::Malformed, format!("the answer has the unknown resultType {}", one_line(other)))),
    }
}

/// Refuses a legacy result that says of itself that it is none. These revisions have no `resultType`; servers of both
/// eras send it all the same, and a task or a round that nobody asked for must not be taken as success.
///
/// # Errors
/// [`Kind::Malformed`] for a `resultType` that is `task` or `input_required`.
pub fn read_legacy(of_method: &str, result: Json) -> Result<Answer> {
    let kind = result.member("resultType")?.and_then(string).unwrap_or_default();
    if matches!(&*kind, "task" | "input_required") {
        let message = format!("the server answered {of_method} with {kind}, which this era does not have");
        return Err(Error::new(Kind::Malformed, message));
    }
    Ok(Answer::Complete(result))
}

fn read_round(result: &Json) -> Result<InputRound> {
    let members = result.members()?;
    let (requests, unknown) = match members.some("inputRequests") {
        Some(raw) => read_requests(result, raw)?,
        None => (Vec::new(), Vec::new()),
    };
    let state = members.some("requestState").map(str::to_owned);
    if requests.is_empty() && unknown.is_empty() && state.is_none() {
        return Err(Error::new(
            Kind::Malformed,
            "the input_required answer has neither inputRequests nor requestState",
        ));
    }
    Ok(InputRound { requests, unknown, state })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(of_method: &str, text: &str, task: bool) -> String {
        match read(of_method, Json::parse(text).unwrap(), Allowed { task }) {
            Ok(Answer::Complete(_)) => "complete".into(),
            Ok(Answer::InputRequired(round)) => format!("asks {}", round.requests.len()),
            Ok(Answer::Task(task)) => format!("task {}", task.id),
            Err(error) => error.message().to_owned(),
        }
    }

    #[test]
    fn answers_are_told_apart_by_result_type_alone() {
        let task = r#"{"resultType":"task","content":[],"taskId":"t","status":"working"}"#;
        let ask = r#"{"resultType":"input_required","requestState":"s"}"#;
        for (method, text, declared, want) in [
            ("tools/call", r#"{"content":[]}"#, true, "complete"),
            ("tools/call", r#"{"resultType":"complete"}"#, true, "complete"),
            ("tools/call", task, true, "task t"),
            ("tools/call", task, false, "the server answered tools/call with a task, which is not allowed here"),
            ("prompts/get", task, true, "the server answered prompts/get with a task, which is not allowed here"),
            ("resources/read", task, true, "the server answered resources/read with a task, which is not allowed here"),
            ("tools/list", task, true, "the server answered tools/list with a task, which is not allowed here"),
            ("tasks/get", task, true, "complete"),
            ("tools/call", ask, true, "asks 0"),
            ("tools/list", ask, true, "the server answered tools/list with input_required, which is not allowed here"),
            (
                "tools/call",
                r#"{"resultType":"input_required"}"#,
                true,
                "the input_required answer has neither inputRequests nor requestState",
            ),
            ("tools/call", r#"{"resultType":"later"}"#, true, "the answer has the unknown resultType later"),
            ("tools/call", r#"{"resultType":7}"#, true, "the resultType of the answer is no string"),
        ] {
            assert_eq!(kind(method, text, declared), want, "{method} {text}");
        }
    }

    #[test]
    fn a_legacy_result_that_says_it_is_none_is_refused() {
        for (text, fine) in [
            (r#"{"content":[]}"#, true),
            (r#"{"resultType":"complete"}"#, true),
            (r#"{"resultType":"of its own"}"#, true),
            (r#"{"resultType":7}"#, true),
            (r#"{"resultType":"task","taskId":"t"}"#, false),
            (r#"{"resultType":"input_required"}"#, false),
        ] {
            assert_eq!(read_legacy("tools/call", Json::parse(text).unwrap()).is_ok(), fine, "{text}");
        }
    }
}
