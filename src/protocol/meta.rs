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

    /// The `_meta` object of one request, and the progress token in it as JSON text. The host's members come after ours
    /// and cannot replace them, but for the log level: a call may want another one than the rest.
    ///
    /// # Errors
    /// [`Kind::Argument`] where the host's `_meta` names a field that the library writes.
    pub fn write(&self, host: Option<&str>, progress_token: Option<i64>) -> Result<(String, Option<String>)> {
        let host = host.map(checked).transpose()?.unwrap_or_default();
        // Room for a token, and for a few members of the host's.
        let room = host.iter().map(|(name, raw)| name.len() + raw.len() + 4).sum::<usize>();
        let mut out = String::with_capacity(self.fixed.len() + self.level.len() + 64 + room);
        out.push_str(&self.fixed);
        if host.raw(LOG_LEVEL).is_none() {
            out.push_str(&self.level);
        }
        let mut member = |name: &str, raw: &str| {
            for piece in [",", &quote(name), ":", raw] {
                out.push_str(piece);
            }
        };
        for (name, raw) in host.iter() {
            member(name, raw);
        }
        let mut token = host.some(PROGRESS_TOKEN).map(str::to_owned);
        if let Some(ours) = progress_token.filter(|_| host.raw(PROGRESS_TOKEN).is_none()) {
            let ours = ours.to_string();
            member(PROGRESS_TOKEN, &ours);
            token = Some(ours);
        }
        out.push('}');
        Ok((out, token))
    }
}

/// The `_meta` object of a legacy request, from the host's members and the progress token, and the token in it as JSON
/// text; each [`None`] where there is nothing to say.
///
/// # Errors
/// [`Kind::Malformed`] where the host's `_meta` is no object.
pub fn write_legacy(host: Option<&str>, progress_token: Option<i64>) -> Result<(Option<String>, Option<String>)> {
    let host = host.map(Members::parse).transpose()?.unwrap_or_default();
    let mut parts: Vec<String> = host.iter().map(|(name, raw)| format!("{}:{raw}", quote(name))).collect();
    let mut token = host.some(PROGRESS_TOKEN).map(str::to_owned);
    if let Some(ours) = progress_token.filter(|_| host.raw(PROGRESS_TOKEN).is_none()) {
        parts.push(format!("\"{PROGRESS_TOKEN}\":{ours}"));
        token = Some(ours.to_string());
    }
    Ok(((!parts.is_empty()).then(|| format!("{{{}}}", parts.join(","))), token))
}

/// Checks the host's members, before anything is sent.
///
/// # Errors
/// [`Kind::Argument`] where one is a field that the library writes.
pub fn check_host(meta: &str) -> Result<()> {
    checked(meta).map(drop)
}

fn checked(meta: &str) -> Result<Members<'_>> {
    let members = Members::parse(meta)?;
    let ours = [VERSION, CLIENT_INFO, CAPABILITIES].into_iter().find(|name| members.raw(name).is_some());
    ours.map_or(Ok(members), |name| {
        Err(Error::new(Kind::Argument, format!("_meta member {} is written by the library", quote(name))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_meta_has_the_hosts_members_and_a_token() {
        let write = |host, token| write_legacy(host, token).unwrap();
        let pair = |meta: &str, token: &str| (Some(meta.to_owned()), Some(token.to_owned()));
        assert_eq!(write(None, None), (None, None));
        assert_eq!(write(Some("{}"), None), (None, None));
        assert_eq!(write(None, Some(7)), pair(r#"{"progressToken":7}"#, "7"));
        let own = write(Some(r#"{"a": 1,"progressToken":"p"}"#), Some(7));
        assert_eq!(own, pair(r#"{"a":1,"progressToken":"p"}"#, "\"p\""));
    }

    #[test]
    fn the_hosts_members_are_added_and_ours_are_kept() {
        let meta = RequestMeta::new("2026-07-28", r#"{"name":"n","version":"1"}"#, "{}", Some("info"));
        let written = |host| meta.write(host, Some(7)).unwrap().0;
        assert_eq!(
            written(Some(r#"{"traceparent":"00-a"}"#)),
            r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"n","version":"1"},"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"info","traceparent":"00-a","progressToken":7}"#
        );
        for (host, token, end) in [
            (r#"{"progressToken":"p"}"#, Some("\"p\""), r#","progressToken":"p"}"#),
            (r#"{"progressToken":null}"#, None, r#","progressToken":null}"#),
            ("{}", Some("7"), r#","progressToken":7}"#),
        ] {
            let (own, found) = meta.write(Some(host), Some(7)).unwrap();
            assert!(own.ends_with(end), "{own}");
            assert_eq!(found.as_deref(), token, "{host}");
        }
        assert_eq!(meta.write(None, None).unwrap().1, None);
        let (level, _) = meta.write(Some(&format!("{{\"{LOG_LEVEL}\":\"debug\"}}")), None).unwrap();
        assert_eq!((level.matches(LOG_LEVEL).count(), level.contains(r#":"debug"}"#)), (1, true), "{level}");
        let refused = meta.write(Some(&format!("{{\"{VERSION}\":\"x\"}}")), None).unwrap_err();
        assert_eq!(refused.kind(), Kind::Argument);
    }
}
