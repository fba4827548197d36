//! The protocol revisions.

/// The modern revision that this library speaks.
pub const MODERN: &str = "2026-07-28";

/// The legacy revisions, newest first.
pub const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Which generation of the protocol a server speaks (`basic/versioning`, "Terminology").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// Per-request metadata, `server/discover`: revision 2026-07-28 and later.
    Modern,
    /// `initialize` and sessions: revision 2025-11-25 and earlier.
    Legacy,
}

impl Era {
    /// The word for hosts.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Modern => "modern",
            Self::Legacy => "legacy",
        }
    }
}

/// The modern version that both sides speak, if any.
#[must_use]
pub fn common_modern<'a>(offered: impl IntoIterator<Item = &'a str>) -> Option<&'static str> {
    offered.into_iter().any(|version| version == MODERN).then_some(MODERN)
}

/// The legacy revision of this name, if the library speaks it.
#[must_use]
pub fn common_legacy(offered: &str) -> Option<&'static str> {
    LEGACY.into_iter().find(|version| *version == offered)
}

/// Whether requests of this legacy revision carry the `MCP-Protocol-Version` header (2025-06-18 `basic/transports`,
/// "Protocol Version Header"; the revisions are dates, so text order is time order).
#[must_use]
pub fn has_version_header(version: &str) -> bool {
    version >= "2025-06-18"
}

/// Whether messages may come in batches: one revision brought them, the next took them away.
#[must_use]
pub fn has_batches(version: &str) -> bool {
    version == "2025-03-26"
}

/// Whether calls may be sent as tasks (2025-11-25 `basic/utilities/tasks`).
#[must_use]
pub fn has_task_calls(version: &str) -> bool {
    version == "2025-11-25"
}

/// Whether -32042 asks for a visit to a URL (2025-11-25 `client/elicitation`, "URL Elicitation Required Error").
#[must_use]
pub fn has_url_errors(version: &str) -> bool {
    version == "2025-11-25"
}
