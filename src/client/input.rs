//! A question of the server's, and its answer: now or later, from any thread, once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::client::call::Call;
use crate::client::event::EventKind;
use crate::client::follow::TaskHandle;
use crate::error::{Error, Kind, Result};
use crate::protocol::input::{InputAnswer, InputKind, InputRequest};
use crate::protocol::json::{Json, Members};
use crate::session::Question;

/// Whose question it is.
#[derive(Debug)]
pub(crate) enum Asker {
    Call(Arc<Call>),
    Task(Arc<TaskHandle>),
    /// A legacy server, by a request of its own: while a call runs, or outside any.
    Server(Question, Option<Arc<Call>>),
}

/// The host's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The form's content, or the whole result for sampling and roots. Empty: accepted without content (URL mode).
    Answer(Option<Json>),
    /// The user says no.
    Decline,
    /// The user closed the question.
    Cancel,
    /// The host cannot answer.
    Fail(String),
}

const OPEN: u8 = 0;
const CLOSED: u8 = 1;

/// A question.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) request: InputRequest,
    asker: Asker,
    /// An earlier process may have asked it already.
    repeated: bool,
    state: AtomicU8,
}

impl Input {
    pub(crate) fn new(request: InputRequest, asker: Asker) -> Arc<Self> {
        Arc::new(Self { request, asker, repeated: false, state: AtomicU8::new(OPEN) })
    }

    /// A task's question, which an earlier process may have asked already.
    pub(crate) fn of_task(request: InputRequest, task: Arc<TaskHandle>, repeated: bool) -> Arc<Self> {
        Arc::new(Self { request, asker: Asker::Task(task), repeated, state: AtomicU8::new(OPEN) })
    }

    /// True where an earlier process may have asked it already.
    pub(crate) fn repeated(&self) -> bool {
        self.repeated
    }

    /// What is asked.
    #[must_use]
    pub(crate) fn kind(&self) -> InputKind {
        self.request.kind
    }

    /// The server's key.
    #[must_use]
    pub(crate) fn key(&self) -> &str {
        &self.request.key
    }

    /// The `params` of the request.
    #[must_use]
    pub(crate) fn params(&self) -> &Json {
        &self.request.params
    }

    /// The message for the user, where there is one.
    #[must_use]
    pub(crate) fn message(&self) -> Option<String> {
        self.request.params.members().ok()?.string("message")
    }

    /// True for an elicitation that sends the user to a URL; it has no content (`client/elicitation`, "URL Mode").
    fn is_url(&self) -> bool {
        self.request.params.members().is_ok_and(|params| params.string("mode").as_deref() == Some("url"))
    }

    /// The task that asks, where it is a task.
    #[must_use]
    pub(crate) fn task_id(&self) -> Option<&str> {
        match &self.asker {
            Asker::Call(_) | Asker::Server(..) => None,
            Asker::Task(task) => Some(task.task_id()),
        }
    }

    /// The call that asks, where it is a call.
    #[must_use]
    pub(crate) fn call_id(&self) -> Option<i64> {
        match &self.asker {
            Asker::Call(call) | Asker::Server(_, Some(call)) => Some(call.id()),
            Asker::Task(_) | Asker::Server(_, None) => None,
        }
    }

    /// Replies. True for the one reply that counts; false where the question was answered or withdrawn before.
    ///
    /// # Errors
    /// [`Kind::Argument`] for content that is no JSON object; [`Kind::Unsupported`] for a refusal that this kind of
    /// question has no form of; [`Kind::Closed`] where the client is gone.
    pub(crate) fn reply(&self, reply: Reply) -> Result<bool> {
        if reply == Reply::Answer(None) && self.kind() == InputKind::Elicitation && !self.is_url() {
            return Err(Error::new(Kind::Argument, "the answer to a form needs its content, a JSON object"));
        }
        let wanted = response(self.kind(), reply)?;
        if self.state.swap(CLOSED, Ordering::AcqRel) == CLOSED {
            return Ok(false);
        }
        let sent = match (&self.asker, wanted) {
            (Asker::Call(call), Ok(response)) => call.answer_one(self.key(), response),
            (Asker::Call(call), Err(refused)) => {
                call.refuse_input(refused);
                Ok(true)
            }
            (Asker::Task(task), Ok(response)) => task.answer(&[InputAnswer { key: self.key().to_owned(), response }]),
            (Asker::Task(task), Err(_)) => task.refuse_input().map(|()| true),
            // A request has a form of refusal: the call goes on, with what the server makes of it.
            (Asker::Server(question, call), Ok(response)) => {
                over(call.as_ref());
                question.answer(&response);
                Ok(true)
            }
            (Asker::Server(question, call), Err(refused)) => {
                over(call.as_ref());
                question.refuse(refused.message());
                Ok(true)
            }
        };
        if sent.is_err() {
            // Nothing left: the host may try again.
            self.state.store(OPEN, Ordering::Release);
        }
        sent
    }

    /// Answers with a whole response object, by hand. False where the question was answered or withdrawn before.
    pub(crate) fn settle(&self, response: &Json) -> bool {
        let open = self.withdraw();
        if let (true, Asker::Server(question, _)) = (open, &self.asker) {
            question.answer(response);
        }
        open
    }

    /// True until it is answered or withdrawn.
    pub(crate) fn is_open(&self) -> bool {
        self.state.load(Ordering::Acquire) == OPEN
    }

    /// The question needs no answer any more. True where it was open.
    pub(crate) fn withdraw(&self) -> bool {
        let open = self.state.swap(CLOSED, Ordering::AcqRel) == OPEN;
        if let (true, Asker::Server(_, call)) = (open, &self.asker) {
            over(call.as_ref());
        }
        open
    }
}

/// The call that waited for the answer of a server's question goes on.
fn over(call: Option<&Arc<Call>>) {
    if let Some(call) = call {
        call.aside_over();
    }
}

/// The event that asks a question of this kind.
pub(crate) fn event_kind(kind: InputKind) -> EventKind {
    match kind {
        InputKind::Elicitation => EventKind::Elicitation,
        InputKind::Sampling => EventKind::Sampling,
        InputKind::Roots => EventKind::Roots,
    }
}

/// The response object of a reply; the inner error is a refusal that ends the call or the task.
fn response(kind: InputKind, reply: Reply) -> Result<Result<Json>> {
    let refusal = |why: String| {
        Ok(Err(Error::new(Kind::InputRefused, format!("the host refused the server's {}: {why}", kind.method()))))
    };
    match (kind, reply) {
        (InputKind::Elicitation, Reply::Answer(content)) => accept(content).map(Ok),
        (InputKind::Elicitation, Reply::Decline) => Ok(Ok(decline())),
        (InputKind::Elicitation, Reply::Cancel | Reply::Fail(_)) => Ok(Ok(Json::trusted(r#"{"action":"cancel"}"#))),
        (_, Reply::Answer(Some(result))) if result.is_object() => Ok(Ok(result)),
        (_, Reply::Answer(_)) => {
            Err(Error::new(Kind::Argument, format!("the answer to {} must be a JSON object", kind.method())))
        }
        (_, Reply::Decline | Reply::Cancel) => {
            let message = format!("{} has no form of refusal; fail the question to end the call", kind.method());
            Err(Error::new(Kind::Unsupported, message))
        }
        (_, Reply::Fail(why)) => refusal(why),
    }
}

fn accept(content: Option<Json>) -> Result<Json> {
    let Some(content) = content else {
        return Ok(Json::trusted(r#"{"action":"accept"}"#));
    };
    Members::parse(content.text())
        .map_err(|_| Error::new(Kind::Argument, "the content of an answer: expected a JSON object"))?;
    Ok(Json::trusted(format!("{{\"action\":\"accept\",\"content\":{}}}", content.text())))
}

/// The answer to an elicitation that nobody will answer.
pub(crate) fn decline() -> Json {
    Json::trusted(r#"{"action":"decline"}"#)
}

/// Reads the host's answers by key: an object of response objects, as `inputResponses` on the wire.
///
/// # Errors
/// [`Kind::Argument`] where it is none, is empty, or an answer is no object.
pub(crate) fn read_answers(text: &str) -> Result<Vec<InputAnswer>> {
    let whole =
        Json::parse(text).map_err(|fault| Error::new(Kind::Argument, format!("responses: {}", fault.message())))?;
    let members = whole.members().map_err(|_| {
        Error::new(Kind::Argument, "responses: expected a JSON object of one response object for each key")
    })?;
    if members.is_empty() {
        return Err(Error::new(Kind::Argument, "responses: expected at least one key"));
    }
    members
        .iter()
        .map(|(key, raw)| {
            let response = whole.slice(raw);
            if response.is_object() {
                return Ok(InputAnswer { key: key.to_owned(), response });
            }
            let key = crate::error::one_line(key);
            Err(Error::new(Kind::Argument, format!("responses.{key}: expected a JSON object")))
        })
        .collect()
}

/// Open questions as a JSON array; those that an earlier process may have asked already are marked.
pub(crate) fn write_questions<'a>(requests: impl Iterator<Item = (&'a InputRequest, bool)>) -> String {
    let texts: Vec<String> = requests
        .map(|(request, repeated)| {
            let repeated = if repeated { ",\"repeated\":true" } else { "" };
            format!(
                "{{\"key\":{},\"method\":\"{}\",\"params\":{}{repeated}}}",
                crate::protocol::json::quote(&request.key),
                request.kind.method(),
                request.params.text()
            )
        })
        .collect();
    format!("[{}]", texts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reply_has_its_form() {
        let object = || Some(Json::trusted("{\"a\":1}"));
        for (kind, reply, want) in [
            (InputKind::Elicitation, Reply::Answer(object()), r#"Ok(Ok({"action":"accept","content":{"a":1}}))"#),
            (InputKind::Elicitation, Reply::Answer(None), r#"Ok(Ok({"action":"accept"}))"#),
            (InputKind::Elicitation, Reply::Decline, r#"Ok(Ok({"action":"decline"}))"#),
            (InputKind::Elicitation, Reply::Cancel, r#"Ok(Ok({"action":"cancel"}))"#),
            (InputKind::Sampling, Reply::Answer(object()), r#"Ok(Ok({"a":1}))"#),
            (
                InputKind::Sampling,
                Reply::Answer(None),
                "Err(Argument: the answer to sampling/createMessage must be a JSON object)",
            ),
            (
                InputKind::Roots,
                Reply::Decline,
                "Err(Unsupported: roots/list has no form of refusal; fail the question to end the call)",
            ),
            (
                InputKind::Roots,
                Reply::Fail("no disk".into()),
                "Ok(Err(InputRefused: the host refused the server's roots/list: no disk))",
            ),
        ] {
            assert_eq!(format!("{:?}", response(kind, reply.clone())), want, "{kind:?} {reply:?}");
        }
    }

    #[test]
    fn answers_by_key_are_checked() {
        let message = |text| read_answers(text).unwrap_err().message().to_owned();
        assert_eq!(message("[]"), "responses: expected a JSON object of one response object for each key");
        assert_eq!(message("{}"), "responses: expected at least one key");
        assert_eq!(message(r#"{"k":1}"#), "responses.k: expected a JSON object");
        assert_eq!(read_answers(r#"{"k":{"action":"decline"}}"#).unwrap().len(), 1);
    }
}
