//! Which era a server speaks, decided from its first answers alone. Pure: evidence in, verdict out.
//!
//! The rules (`basic/versioning`, "Backward Compatibility"; the transports' pages, same heading):
//! 1. Only an answer is evidence. 401, 403, 429, 5xx, redirects and network faults say nothing about an era.
//! 2. A recognized modern error means modern, whatever carries it; -32022 is read by the list that it carries.
//! 3. Any other answer to `server/discover` means legacy; no error code is special.
//! 4. Silence means legacy on a stream, where a legacy server may pass over what it does not know; over HTTP, where
//!    each request has its answer, it is an outage.
//! 5. `initialize` refused with 400, 404 or 405 may be a server of HTTP+SSE (2025-11-25 `basic/transports`,
//!    "Backwards Compatibility").

use crate::error::{Error, Kind};
use crate::protocol::version::{common_legacy, common_modern};
use crate::session::fault::MISSING_CAPABILITY;
use crate::transport::LinkKind;

/// `UnsupportedProtocolVersion` (`basic/index`, "Error Codes").
pub(super) const UNSUPPORTED_VERSION: i64 = -32022;
/// `HeaderMismatch`.
pub(super) const HEADER_MISMATCH: i64 = -32020;

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ProbeStep {
    /// `server/discover`.
    Discover,
    /// `initialize`.
    Initialize,
    /// The event stream of HTTP+SSE.
    OldStream,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// A result of `server/discover`, with its versions.
    Discovered(Vec<String>),
    /// A result of `initialize`, with its version.
    Initialized(String),
    /// The `endpoint` event of HTTP+SSE.
    Endpoint,
    /// A JSON-RPC error, the versions that its data lists, and the HTTP status that carried it where one did.
    Rpc { code: i64, versions: Vec<String>, status: Option<u16> },
    /// An HTTP status outside 2xx, without a JSON-RPC error.
    Http { status: u16 },
    /// A JSON-RPC answer that answers something else.
    Strange,
    /// No answer in time.
    Silence,
    /// The child has ended.
    ChildGone,
    /// No connection, a broken one, or bytes that are not MCP.
    NetFault,
}

/// What to do next on the legacy side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LegacyStep {
    /// Send `initialize`.
    Initialize,
    /// Open the event stream of HTTP+SSE.
    OldStream,
    /// Nothing: the session stands, in this version.
    Settled(&'static str),
}

/// Why there is no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The server asks for authorization, or refuses access.
    Access,
    /// It is there and cannot answer now.
    Busy,
    /// It could not be reached.
    Outage,
    /// It answered, and no version is spoken by both sides.
    Version,
    /// It answered `initialize`, and said no.
    Answered,
}

/// The verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Modern, in this version. Where the evidence was an error, the error stays the outcome of the request.
    Modern(&'static str),
    /// Legacy, and what to do next.
    Legacy(LegacyStep),
    /// Ask this first.
    Ask(ProbeStep),
    /// Nothing can be told: the failure is reported as it is, and the next opening asks anew.
    NoEvidence(Why),
    /// An answer that ends the opening.
    Refused(Why),
}

/// Judges one answer.
pub(super) fn classify(link: LinkKind, step: ProbeStep, seen: &Evidence) -> Verdict {
    match seen {
        Evidence::Discovered(versions) => by_list(versions, Verdict::Refused(Why::Version)),
        Evidence::Initialized(version) => match common_legacy(version) {
            Some(version) => Verdict::Legacy(LegacyStep::Settled(version)),
            None => Verdict::Refused(Why::Version),
        },
        Evidence::Endpoint => Verdict::Legacy(LegacyStep::Initialize),
        Evidence::Rpc { status: Some(status), .. } if why_of(*status).is_some() => no_evidence(*status),
        Evidence::Rpc { code, versions, status } => by_code(step, *code, versions, *status),
        Evidence::Http { status } => match why_of(*status) {
            Some(_) => no_evidence(*status),
            None => refused_plainly(step, *status),
        },
        Evidence::Strange => match step {
            ProbeStep::Discover => Verdict::Legacy(LegacyStep::Initialize),
            ProbeStep::Initialize | ProbeStep::OldStream => Verdict::Refused(Why::Answered),
        },
        Evidence::Silence | Evidence::ChildGone => match (link, step) {
            (LinkKind::Stream, ProbeStep::Discover) => Verdict::Legacy(LegacyStep::Initialize),
            (LinkKind::Stream, ProbeStep::Initialize | ProbeStep::OldStream) | (LinkKind::Http, _) => {
                Verdict::NoEvidence(Why::Outage)
            }
        },
        Evidence::NetFault => Verdict::NoEvidence(Why::Outage),
    }
}

/// A list of versions: ours, then the legacy ones, then nobody's.
fn by_list(versions: &[String], none: Verdict) -> Verdict {
    let mut names = versions.iter().map(String::as_str);
    if let Some(version) = common_modern(names.clone()) {
        return Verdict::Modern(version);
    }
    if names.any(|name| common_legacy(name).is_some()) {
        return Verdict::Legacy(LegacyStep::Initialize);
    }
    none
}

fn by_code(step: ProbeStep, code: i64, versions: &[String], status: Option<u16>) -> Verdict {
    match (step, code) {
        // Without a list nothing speaks for a modern server; a list of strangers ends it.
        (ProbeStep::Discover, UNSUPPORTED_VERSION) if versions.is_empty() => Verdict::Legacy(LegacyStep::Initialize),
        (ProbeStep::Discover, UNSUPPORTED_VERSION) => by_list(versions, Verdict::Refused(Why::Version)),
        (ProbeStep::Discover, HEADER_MISMATCH | MISSING_CAPABILITY) => {
            Verdict::Modern(crate::protocol::version::MODERN)
        }
        (ProbeStep::Discover, _) => Verdict::Legacy(LegacyStep::Initialize),
        // A modern server that was taken for a legacy one: the verdict was an old one, or a proxy's.
        (ProbeStep::Initialize, UNSUPPORTED_VERSION | HEADER_MISMATCH | MISSING_CAPABILITY) => {
            Verdict::Ask(ProbeStep::Discover)
        }
        (ProbeStep::Initialize, _) => match status {
            Some(status) if !(200..300).contains(&status) => refused_plainly(step, status),
            Some(_) | None => Verdict::Refused(Why::Answered),
        },
        (ProbeStep::OldStream, _) => Verdict::Refused(Why::Answered),
    }
}

/// A 4xx that is about the request itself.
fn refused_plainly(step: ProbeStep, status: u16) -> Verdict {
    match (step, status) {
        (ProbeStep::Discover, _) => Verdict::Legacy(LegacyStep::Initialize),
        (ProbeStep::Initialize, 400 | 404 | 405) => Verdict::Legacy(LegacyStep::OldStream),
        (ProbeStep::Initialize | ProbeStep::OldStream, _) => Verdict::Refused(Why::Answered),
    }
}

fn no_evidence(status: u16) -> Verdict {
    Verdict::NoEvidence(why_of(status).unwrap_or(Why::Busy))
}

/// Why a status is no evidence; [`None`] where it is.
fn why_of(status: u16) -> Option<Why> {
    match status {
        200..300 => None,
        401 | 402 | 403 | 407 => Some(Why::Access),
        408 | 421 | 425 | 429 => Some(Why::Busy),
        400..500 => None,
        // 1xx, 3xx, 5xx, and what no server should send.
        _ => Some(Why::Busy),
    }
}

/// What an error of the session's says about the era. `versions` reads the list of a -32022.
pub(super) fn evidence_of(error: &Error) -> Evidence {
    if let Some(fault) = error.rpc() {
        return Evidence::Rpc { code: fault.code, versions: listed(error), status: error.http_status() };
    }
    if let Some(status) = error.http_status() {
        return Evidence::Http { status };
    }
    #[allow(clippy::wildcard_enum_match_arm, reason = "an error of any other kind is a fault on the way")]
    match error.kind() {
        Kind::Timeout => Evidence::Silence,
        Kind::ChildExit => Evidence::ChildGone,
        _ => Evidence::NetFault,
    }
}

/// The versions that the data of an error lists (`basic/versioning`, "Protocol Version Negotiation").
pub(super) fn listed(error: &Error) -> Vec<String> {
    let data = error.rpc().and_then(|fault| fault.data.as_deref()).unwrap_or("{}");
    let members = crate::protocol::json::Members::parse(data).ok();
    let raw = members.as_ref().and_then(|members| members.some("supported"));
    raw.and_then(|raw| crate::protocol::capability::read_versions(raw).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
