//! Input requests: the server's questions (elicitation, sampling, roots), and the host's answers.
//!
//! The same object whether it comes in an `input_required` result (MRTR: `basic/patterns/mrtr`), in a task, or as a
//! request of a legacy server.

use crate::error::{Error, Kind, Result};
use crate::protocol::json::{Json, Members, elements, quote};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InputKind {
    /// `elicitation/create`: a form or a URL for the user.
    Elicitation,
    /// `sampling/createMessage`: a completion by the host's model.
    Sampling,
    /// `roots/list`: the folders that the host opens to the server.
    Roots,
}

impl InputKind {
    /// The kind of a request by its method; `None` for what no revision knows.
    #[must_use]
    pub fn of_method(method: &str) -> Option<Self> {
        match method {
            "elicitation/create" => Some(Self::Elicitation),
            "sampling/createMessage" => Some(Self::Sampling),
            "roots/list" => Some(Self::Roots),
            _ => None,
        }
    }

    /// The JSON-RPC method.
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation/create",
            Self::Sampling => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }
}

/// One question, with the key that the server gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRequest {
    /// The server's key; unique over the life of a task, or of one MRTR round.
    pub key: String,
    /// What is asked.
    pub kind: InputKind,
    /// The `params` of the request; `{}` where the server sent none.
    pub params: Json,
}

/// The host's answer to one question: the JSON object that goes into `inputResponses`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputAnswer {
    /// The key of the question.
    pub key: String,
    /// The result object, e.g. `{"action":"accept","content":{…}}`.
    pub response: Json,
}

/// Questions of a method that no revision knows: (key, method).
pub type UnknownInputs = Vec<(String, String)>;

/// Reads an `inputRequests` map. What no revision knows is returned apart, by key and method: it cannot be answered.
///
/// # Errors
/// [`Kind::Malformed`] where the map or an entry is no object, or an entry has no method.
pub fn read_requests(owner: &Json, raw: &str) -> Result<(Vec<InputRequest>, UnknownInputs)> {
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for (key, raw) in Members::parse(raw)?.iter() {
        let request = Members::parse(raw)?;
        let method = request
            .string("method")
            .ok_or_else(|| Error::new(Kind::Malformed, format!("input request {} has no method", quote(key))))?;
        match InputKind::of_method(&method) {
            Some(kind) => {
                let params = request.some("params").map_or_else(|| Json::trusted("{}"), |raw| owner.slice(raw));
                known.push(InputRequest { key: key.to_owned(), kind, params });
            }
            None => unknown.push((key.to_owned(), method)),
        }
    }
    Ok((known, unknown))
}

/// Reads the data of an error -32042: the visits to URLs that the request needs first (2025-11-25
/// `client/elicitation`, "URL Elicitation Required Error"). [`None`] where there is none that can be read.
#[must_use]
pub fn read_url_elicitations(data: &str) -> Option<Vec<InputRequest>> {
    let data = Json::parse(data).ok()?;
    let members = data.members().ok()?;
    let raw = members.some("elicitations")?;
    let mut requests = Vec::new();
    for (at, raw) in elements(raw).ok()?.into_iter().enumerate() {
        let id = Members::parse(raw).ok()?.string("elicitationId");
        let key = id.unwrap_or_else(|| format!("elicitation-{at}"));
        requests.push(InputRequest { key, kind: InputKind::Elicitation, params: data.slice(raw) });
    }
    (!requests.is_empty()).then_some(requests)
}

/// Whether a response object lets the request go on: it accepts, or is of a kind that has no refusal.
#[must_use]
pub fn is_accepted(response: &Json) -> bool {
    let action = response.members().ok().and_then(|members| members.string("action"));
    action.is_none_or(|action| action == "accept")
}

/// Writes an `inputResponses` map.
#[must_use]
pub fn write_responses(answers: &[InputAnswer]) -> String {
    let members: Vec<String> =
        answers.iter().map(|answer| format!("{}:{}", quote(&answer.key), answer.response.text())).collect();
    format!("{{{}}}", members.join(","))
}
