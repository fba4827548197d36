//! A server's JSON-RPC error as an error of ours, with what the host can do about it where that is known.

use crate::error::{Error, RpcFault};
use crate::protocol::json::Json;

/// `MissingRequiredClientCapability` (2026-07-28 `basic`, "Error Handling").
pub(super) const MISSING_CAPABILITY: i64 = -32021;

/// The error that a request was answered with.
pub(super) fn answered(fault: RpcFault) -> Error {
    let advice = advice(&fault);
    let error = Error::from_rpc(fault);
    match advice {
        Some(advice) => error.with_advice(&advice),
        None => error,
    }
}

/// Which handlers or settings are missing, in the words of the manual.
fn advice(fault: &RpcFault) -> Option<String> {
    if fault.code != MISSING_CAPABILITY {
        return None;
    }
    let data = Json::parse(fault.data.as_deref()?).ok()?;
    let wanted = Json::trusted(data.members().ok()?.raw("requiredCapabilities")?);
    let members = wanted.members().ok()?;
    let words: Vec<&str> = members.iter().filter_map(|(name, _)| remedy(name)).collect();
    (!words.is_empty()).then(|| format!("what it needs comes with {}", words.join(" and ")))
}

fn remedy(capability: &str) -> Option<&'static str> {
    match capability {
        "elicitation" => {
            Some("a handler of MCP_EVENT_ELICITATION before the client opens (or settings.input.elicitation)")
        }
        "sampling" => Some("a handler of MCP_EVENT_SAMPLING before the client opens (or settings.input.sampling)"),
        "roots" => Some("a handler of MCP_EVENT_ROOTS before the client opens (or settings.input.roots)"),
        "extensions" => Some("settings.extensions, which names the extensions of the client"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_capability_names_the_handler_that_brings_it() {
        for (code, data, part) in [
            (-32021, r#"{"requiredCapabilities":{"elicitation":{}}}"#, "handler of MCP_EVENT_ELICITATION"),
            (-32021, r#"{"requiredCapabilities":{"sampling":{"tools":{}},"roots":{}}}"#, "MCP_EVENT_ROOTS"),
            (-32021, r#"{"requiredCapabilities":{"extensions":{"a/b":{}}}}"#, "settings.extensions"),
            (-32021, r#"{"requiredCapabilities":{"unheard of":{}}}"#, ": needs it"),
            (-32021, r#"{"requiredCapabilities":7}"#, ": needs it"),
            (-32021, "[]", ": needs it"),
            (-32602, r#"{"requiredCapabilities":{"elicitation":{}}}"#, ": needs it"),
        ] {
            let error = answered(RpcFault { code, message: "needs it".into(), data: Some(data.into()) });
            assert!(error.message().contains(part), "{data}: {}", error.message());
            assert_eq!(error.message().contains("comes with"), part != ": needs it", "{data}");
            let told = error.rpc().unwrap();
            assert_eq!((told.message.as_str(), told.data.as_deref()), ("needs it", Some(data)), "kept as it came");
        }
    }
}
