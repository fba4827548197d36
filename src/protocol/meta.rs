//! The `_meta` of a request (`basic/index`, "Per-request protocol fields").

use crate::error::{Error, Kind, Result};
use crate::protocol::json::{Members, quote};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const PROGRESS_TOKEN: &str = "progressToken";
/// What the model may be told until a task has ended (2025-11-25 `basic/utilities/tasks`, "Creating Tasks").
pub const IMMEDIATE_RESPONSE: &str = "io.modelcontextprotocol/model-immediate-response";
/// Where a result names the server.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// What every request of one client carries, written once.
#[derive(Clone, Debug)]
pub struct RequestMeta {
    fixed: String,
    /// The member that names the log level, with a comma before it; empty for none.
    level: String,
    version: String,
}

impl RequestMeta {
    /// `client_info` and `capabilities` are the texts of JSON objects.
    #[must_use]
    pub fn new(version: &str, client_info: &str, capabilities: &str, log_level: Option<&str>) -> Self {
        let fixed = format!(
            "{{{}:{},{}:{client_info},{}:{capabilities}",
            quote(VERSION),
            quote(version),
            quote(CLIENT_INFO),
            quote(CAPABILITIES)
        );
        let level = log_level.map(|level| format!(",{}:{}", quote(LOG_LEVEL), quote(level)));
        Self { fixed, level: level.unwrap_or_default(), version: version.to_owned() }
    }

    /// The version that the requests declare; the header must say the same.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The `_meta` object of one request. The host's members come after ours and cannot replace them, but for the log
    /// level: a call may want another one than the rest.
    ///
    /// # Errors
    /// [`Kind::Argument`] where the host's `_meta` names a field that the library writes.
    pub fn write(&self, host: Option<&str>, progress_token: Option<i64>) -> Result<String> {
        host.map_or(Ok(()), check_host)?;
        // Room for a token, and for a few members of the host's.
        let mut out = String::with_capacity(self.fixed.len() + self.level.len() + 64 + host.map_or(0, str::len));
        out.push_str(&self.fixed);
        let host = host.map(Members::parse).transpose()?;
        if host.as_ref().is_none_or(|members| members.raw(LOG_LEVEL).is_none()) {
            out.push_str(&self.level);
        }
        let mut token = progress_token;
        if let Some(members) = host {
            for (name, raw) in members.iter() {
                if name == PROGRESS_TOKEN {
                    token = None;
                }
                out.push_str(&format!(",{}:{raw}", quote(name)));
            }
        }
        if let Some(token) = token {
            out.push_str(&format!(",\"{PROGRESS_TOKEN}\":{token}"));
        }
        out.push('}');
        Ok(out)
    }
}

/// The `_meta` object of a legacy request: the host's members and the progress token; [`None`] where there is nothing
/// to say.
///
/// # Errors
/// [`Kind::Malformed`] where the host's `_meta` is no object.
pub fn write_legacy(host: Option<&str>, progress_token: Option<i64>) -> Result<Option<String>> {
    let host = host.unwrap_or("{}");
    let members = Members::parse(host)?;
    let mut parts: Vec<String> = members.iter().map(|(name, raw)| format!("{}:{raw}", quote(name))).collect();
    if let Some(token) = progress_token.filter(|_| members.raw(PROGRESS_TOKEN).is_none()) {
        parts.push(format!("\"{PROGRESS_TOKEN}\":{token}"));
    }
    Ok((!parts.is_empty()).then(|| format!("{{{}}}", parts.join(","))))
}

/// The progress token in a `_meta` object, as JSON text.
#[must_use]
pub fn progress_token(meta: &str) -> Option<String> {
    // The cheap look first: most requests have none.
    meta.contains("\"progressToken\"")
        .then(|| Members::parse(meta).ok()?.some(PROGRESS_TOKEN).map(str::to_owned))
        .flatten()
}

/// Checks the host's members, before anything is sent.
///
/// # Errors
/// [`Kind::Argument`] where one is a field that the library writes.
pub fn check_host(meta: &str) -> Result<()> {
    match Members::parse(meta)?.iter().find(|(name, _)| matches!(*name, VERSION | CLIENT_INFO | CAPABILITIES)) {
        None => Ok(()),
        Some((name, _)) => {
            Err(Error::new(Kind::Argument, format!("_meta member {} is written by the library", quote(name))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_meta_has_the_hosts_members_and_a_token() {
        let write = |host, token| write_legacy(host, token).unwrap();
        assert_eq!(write(None, None), None);
        assert_eq!(write(Some("{}"), None), None);
        assert_eq!(write(None, Some(7)).as_deref(), Some(r#"{"progressToken":7}"#));
        assert_eq!(
            write(Some(r#"{"a": 1,"progressToken":"p"}"#), Some(7)).as_deref(),
            Some(r#"{"a":1,"progressToken":"p"}"#)
        );
        assert_eq!(progress_token(r#"{"progressToken":"p"}"#).as_deref(), Some("\"p\""));
    }

    #[test]
    fn the_hosts_members_are_added_and_ours_are_kept() {
        let meta = RequestMeta::new("2026-07-28", r#"{"name":"n","version":"1"}"#, "{}", Some("info"));
        assert_eq!(
            meta.write(Some(r#"{"traceparent":"00-a"}"#), Some(7)).unwrap(),
            r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"n","version":"1"},"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"info","traceparent":"00-a","progressToken":7}"#
        );
        let own = meta.write(Some(r#"{"progressToken":"p"}"#), Some(7)).unwrap();
        assert!(own.ends_with(r#","progressToken":"p"}"#));
        let level = meta.write(Some(&format!("{{\"{LOG_LEVEL}\":\"debug\"}}")), None).unwrap();
        assert_eq!((level.matches(LOG_LEVEL).count(), level.contains(r#":"debug"}"#)), (1, true), "{level}");
        let refused = meta.write(Some(&format!("{{\"{VERSION}\":\"x\"}}")), None).unwrap_err();
        assert_eq!(refused.kind(), Kind::Argument);
    }
}
