//! What the client declares that it can do, and what the server says of itself.

use crate::error::{Error, Kind, Result};
use crate::protocol::json::{Json, Members, elements, quote};
use crate::protocol::meta::SERVER_INFO;
use crate::protocol::task::EXTENSION;
use crate::protocol::version::Era;

/// What the client can do. Only what can be answered is declared.
#[derive(Clone, Debug, Default)]
pub struct ClientCapabilities {
    /// Elicitation, form and URL.
    pub elicitation: bool,
    /// Sampling, with tools.
    pub sampling: bool,
    /// Roots.
    pub roots: bool,
    /// The tasks extension.
    pub tasks: bool,
    /// Other extensions: (name, settings as the text of a JSON object).
    pub extensions: Vec<(String, String)>,
}

impl ClientCapabilities {
    /// The capabilities object of a modern request.
    #[must_use]
    pub fn write(&self) -> String {
        let mut members = Vec::new();
        if self.roots {
            members.push("\"roots\":{}".to_owned());
        }
        if self.sampling {
            members.push("\"sampling\":{\"tools\":{}}".to_owned());
        }
        if self.elicitation {
            members.push("\"elicitation\":{\"form\":{},\"url\":{}}".to_owned());
        }
        let mut extensions: Vec<String> =
            self.extensions.iter().map(|(name, settings)| format!("{}:{settings}", quote(name))).collect();
        if self.tasks {
            extensions.push(format!("{}:{{}}", quote(EXTENSION)));
        }
        if !extensions.is_empty() {
            members.push(format!("\"extensions\":{{{}}}", extensions.join(",")));
        }
        format!("{{{}}}", members.join(","))
    }
}

impl ClientCapabilities {
    /// The capabilities object of `initialize` (2025-11-25 `basic/lifecycle`, "Capability Negotiation"). Extensions
    /// are no part of these revisions.
    #[must_use]
    pub fn write_legacy(&self) -> String {
        let mut members = Vec::new();
        if self.roots {
            members.push("\"roots\":{\"listChanged\":true}");
        }
        if self.sampling {
            members.push("\"sampling\":{\"tools\":{}}");
        }
        if self.elicitation {
            members.push("\"elicitation\":{\"form\":{},\"url\":{}}");
        }
        // No request of a server's becomes a task here, so what is asked about them is answered in a word.
        if self.tasks {
            members.push("\"tasks\":{\"list\":{},\"cancel\":{}}");
        }
        format!("{{{}}}", members.join(","))
    }
}

/// What a server said of itself, immutable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFacts {
    /// Its era.
    pub era: Era,
    /// The version in use.
    pub version: String,
    /// Name and version of its software; absent where it does not say.
    pub info: Option<Json>,
    /// Its advice for a model.
    pub instructions: Option<String>,
    /// Its capabilities object.
    pub capabilities: Json,
}

impl ServerFacts {
    /// True where the server offers this extension.
    #[must_use]
    pub fn offers(&self, extension: &str) -> bool {
        let Ok(capabilities) = self.capabilities.members() else {
            return false;
        };
        let Some(Ok(extensions)) = capabilities.some("extensions").map(Members::parse) else {
            return false;
        };
        extensions.some(extension).is_some()
    }
}

/// The answer to `server/discover` (`server/discover`, "DiscoverResult").
#[derive(Debug)]
pub struct Discovered {
    /// The versions on offer, modern and legacy.
    pub versions: Vec<String>,
    /// The capabilities object.
    pub capabilities: Json,
    /// Name and version of the server's software.
    pub info: Option<Json>,
    /// Advice for a model.
    pub instructions: Option<String>,
}

/// Reads the answer to `server/discover`.
///
/// # Errors
/// [`Kind::Malformed`] where it lists no versions.
pub fn read_discovered(result: &Json) -> Result<Discovered> {
    let members = result.members()?;
    let versions = members.some("supportedVersions").map(read_versions).transpose()?;
    let versions = versions
        .ok_or_else(|| Error::new(Kind::Malformed, "the answer to server/discover has no supportedVersions"))?;
    let info = members.some("_meta").and_then(|meta| Members::parse(meta).ok()?.some(SERVER_INFO));
    Ok(Discovered {
        versions,
        capabilities: members.some("capabilities").map_or_else(|| Json::trusted("{}"), |raw| result.slice(raw)),
        info: info.or_else(|| members.some("serverInfo")).map(|raw| result.slice(raw)),
        instructions: members.string("instructions"),
    })
}

/// The answer to `initialize` (2025-11-25 `basic/lifecycle`, "Initialization").
#[derive(Debug)]
pub struct Initialized {
    /// The version that the server chose.
    pub version: String,
    /// The capabilities object.
    pub capabilities: Json,
    /// Name and version of the server's software.
    pub info: Option<Json>,
    /// Advice for a model.
    pub instructions: Option<String>,
}

/// Reads the answer to `initialize`.
///
/// # Errors
/// [`Kind::Malformed`] where it names no version.
pub fn read_initialized(result: &Json) -> Result<Initialized> {
    let members = result.members()?;
    let version = members
        .string("protocolVersion")
        .ok_or_else(|| Error::new(Kind::Malformed, "the answer to initialize has no protocolVersion"))?;
    Ok(Initialized {
        version,
        capabilities: members.some("capabilities").map_or_else(|| Json::trusted("{}"), |raw| result.slice(raw)),
        info: members.some("serverInfo").map(|raw| result.slice(raw)),
        instructions: members.string("instructions"),
    })
}

/// The versions in an array of strings; what is no string is passed over.
///
/// # Errors
/// [`Kind::Malformed`] where `raw` is no array.
pub fn read_versions(raw: &str) -> Result<Vec<String>> {
    Ok(elements(raw)?.into_iter().filter_map(|raw| serde_json::from_str(raw).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_answered_is_declared() {
        assert_eq!(ClientCapabilities::default().write(), "{}");
        let all = ClientCapabilities {
            elicitation: true,
            sampling: true,
            roots: true,
            tasks: true,
            extensions: vec![("com.example/x".into(), "{\"a\":1}".into())],
        };
        assert_eq!(
            all.write(),
            r#"{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"extensions":{"com.example/x":{"a":1},"io.modelcontextprotocol/tasks":{}}}"#
        );
    }

    #[test]
    fn an_initialize_result_is_read() {
        let json = Json::parse(
            r#"{"protocolVersion":"2025-06-18","capabilities":{"logging":{}},"serverInfo":{"name":"s","version":"1"}}"#,
        );
        let read = read_initialized(&json.unwrap()).unwrap();
        assert_eq!((read.version.as_str(), read.capabilities.text()), ("2025-06-18", r#"{"logging":{}}"#));
        assert_eq!(read.info.unwrap().text(), r#"{"name":"s","version":"1"}"#);
        assert!(read_initialized(&Json::trusted("{}")).is_err());
        let can = ClientCapabilities { elicitation: true, roots: true, ..ClientCapabilities::default() };
        assert_eq!(can.write_legacy(), r#"{"roots":{"listChanged":true},"elicitation":{"form":{},"url":{}}}"#);
    }

    #[test]
    fn a_discover_result_is_read() {
        let json = Json::parse(
            r#"{"supportedVersions":["2026-07-28",7],"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},
                "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}},"instructions":"be kind"}"#,
        );
        let found = read_discovered(&json.unwrap()).unwrap();
        assert_eq!(found.versions, ["2026-07-28"]);
        assert_eq!(found.info.unwrap().text(), r#"{"name":"s","version":"1"}"#);
        assert_eq!(found.instructions.as_deref(), Some("be kind"));
        assert!(read_discovered(&Json::trusted("{}")).is_err());
    }
}
