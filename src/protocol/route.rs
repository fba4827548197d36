//! Where a message of a two-way channel belongs: one light look at its envelope. The whole of it is read by the request
//! that it belongs to, on that request's own thread.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::protocol::jsonrpc::{Envelope, WireId, read_id};
use crate::protocol::subscription::Meta;

/// What a message is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// An answer to a request.
    Answer {
        /// Whose.
        id: WireId,
        /// It is an error, or looks like one.
        is_error: bool,
    },
    /// `notifications/progress`; its token as JSON text.
    Progress(Option<String>),
    /// A notification of a subscription (`basic/patterns/subscriptions`).
    Subscribed(WireId),
    /// `notifications/cancelled`: the server ends a subscription.
    Ended(WireId),
    /// `notifications/message`.
    Log,
    /// `notifications/tasks/status`, of 2025-11-25.
    TaskStatus,
    /// Another notification.
    Notification,
    /// A request of the server's.
    Request,
    /// No message; one clause that says why.
    Nothing(&'static str),
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Params<'a> {
    #[serde(borrow)]
    progress_token: Option<&'a RawValue>,
    #[serde(borrow)]
    request_id: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

/// Looks at one message.
#[must_use]
pub fn route(text: &str) -> Route {
    // serde would read an array as the members in their order.
    if !text.trim_start().starts_with('{') && serde_json::from_str::<&RawValue>(text).is_ok() {
        return Route::Nothing("it is JSON, but no object");
    }
    let envelope: Envelope<'_> = match serde_json::from_str(text) {
        Ok(envelope) => envelope,
        Err(fault) if !fault.is_data() => return Route::Nothing("it is not JSON"),
        Err(_) => return Route::Nothing("it is no JSON-RPC message"),
    };
    let Some(method) = envelope.method.as_deref() else {
        return match (envelope.id, envelope.result, envelope.error) {
            (None, None, None) => Route::Nothing("it has neither result nor error nor method"),
            (id, result, error) => Route::Answer { id: read_id(id), is_error: error.is_some() && result.is_none() },
        };
    };
    if envelope.id.is_some() {
        return Route::Request;
    }
    // Odd params are the reader's business; here they only have no token.
    let params: Params<'_> = envelope.params.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let subscription = params.meta.and_then(|meta| meta.subscription);
    match (method, subscription) {
        ("notifications/progress", _) => Route::Progress(params.progress_token.map(|raw| raw.get().to_owned())),
        ("notifications/cancelled", _) => Route::Ended(read_id(params.request_id)),
        (_, Some(id)) => Route::Subscribed(read_id(Some(id))),
        ("notifications/message", None) => Route::Log,
        ("notifications/tasks/status", None) => Route::TaskStatus,
        (_, None) => Route::Notification,
    }
}

/// The id of an answer of which only the beginning is known.
#[must_use]
pub fn id_in_head(head: &[u8]) -> Option<i64> {
    let head = String::from_utf8_lossy(head);
    // Only where nothing nested comes before it: an "id" inside a result is not the answer's.
    let mut members = head.trim_start().strip_prefix('{')?.split(',');
    let id = members
        .by_ref()
        .take(4)
        .map(str::trim)
        .take_while(|member| !member.contains(['{', '[']))
        .find_map(|member| member.strip_prefix("\"id\"")?.trim_start().strip_prefix(':'))?;
    id.trim().trim_matches('"').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_message_has_its_place() {
        let number = WireId::Number;
        for (text, want) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, Route::Answer { id: number(7), is_error: false }),
            (r#"{"id":"7","error":{}}"#, Route::Answer { id: WireId::Text("7".into()), is_error: true }),
            (r#"{"id":7.0,"result":{},"error":{}}"#, Route::Answer { id: number(7), is_error: false }),
            (r#"{"id":null,"error":{}}"#, Route::Answer { id: WireId::Missing, is_error: true }),
            (r#"{"id":9}"#, Route::Answer { id: number(9), is_error: false }),
            (
                r#"{"method":"notifications/progress","params":{"progressToken":"a"}}"#,
                Route::Progress(Some("\"a\"".into())),
            ),
            (r#"{"method":"notifications/progress"}"#, Route::Progress(None)),
            (r#"{"method":"notifications/cancelled","params":{"requestId":5}}"#, Route::Ended(number(5))),
            (
                r#"{"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"6"}}}"#,
                Route::Subscribed(WireId::Text("6".into())),
            ),
            (r#"{"method":"notifications/message","params":{"data":[]}}"#, Route::Log),
            (r#"{"method":"x","params":[]}"#, Route::Notification),
            (r#"{"method":"notifications/tasks/status","params":{"taskId":"t"}}"#, Route::TaskStatus),
            (r#"{"id":1,"method":"ping"}"#, Route::Request),
            (r#"[7,null,null,{"a":1}]"#, Route::Nothing("it is JSON, but no object")),
            ("7", Route::Nothing("it is JSON, but no object")),
            ("hello", Route::Nothing("it is not JSON")),
            ("{}", Route::Nothing("it has neither result nor error nor method")),
            (r#"{"jsonrpc":"#, Route::Nothing("it is not JSON")),
        ] {
            assert_eq!(route(text), want, "{text}");
        }
        let deep = format!(r#"{{"id":3,"result":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(route(&deep), Route::Answer { id: number(3), is_error: false });
    }

    #[test]
    fn br_03_the_id_of_a_line_that_was_too_long_is_found_where_it_stands_first() {
        for (head, want) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"#, Some(7)),
            (r#"{ "id" : "12" , "jsonrpc":"2.0","result""#, Some(12)),
            (r#"{"jsonrpc":"2.0","result":{"id":7,"#, None),
            (r#"{"jsonrpc":aaaaaa"#, None),
            ("garbage", None),
        ] {
            assert_eq!(id_in_head(head.as_bytes()), want, "{head}");
        }
    }
}
