//! The status codes: one table that header, wrappers and documents follow.

/// What a function returns: 0 is fine, above 0 fine but notable, below 0 a failure. The bands say who is at fault:
/// the caller (-1 to -19), transport (-20 to -39), protocol (-40 to -59), the call (-60 to -79), authorization (-80 to
/// -99), the task (-100 to -119), this library (-120 to -139). Numbers are never changed and never reused; new ones
/// may be added, so treat an unknown negative number as a failure of its band.
pub type mcp_status = i32;

/// Fine.
pub const MCP_OK: mcp_status = 0;
/// This wait ran out; the work goes on.
pub const MCP_S_TIMEOUT: mcp_status = 1;
/// Nothing was left to do: closed, cancelled or answered already.
pub const MCP_S_ALREADY_DONE: mcp_status = 2;
/// Not finished yet.
pub const MCP_S_PENDING: mcp_status = 3;
/// The call was answered with a task, see mcp_call_task().
pub const MCP_S_TASK: mcp_status = 4;
/// There is none: a number is 0, a handle NULL.
pub const MCP_S_NONE: mcp_status = 5;

/// An argument is missing, malformed or out of range.
pub const MCP_E_ARGUMENT: mcp_status = -1;
/// A handle is NULL, freed, or of another kind.
pub const MCP_E_HANDLE: mcp_status = -2;
/// A text is not valid UTF-8.
pub const MCP_E_UTF8: mcp_status = -3;
/// The object is not in a state that allows this.
pub const MCP_E_STATE: mcp_status = -4;
/// A blocking function was called inside a callback.
pub const MCP_E_REENTRANT: mcp_status = -5;
/// The library was in use before fork(): the child cannot use it.
pub const MCP_E_FORKED: mcp_status = -6;
/// This library or this server does not support what was asked.
pub const MCP_E_UNSUPPORTED: mcp_status = -7;
/// No connection could be made; nothing was sent.
pub const MCP_E_CONNECT: mcp_status = -20;
/// The TLS handshake failed; nothing was sent.
pub const MCP_E_TLS: mcp_status = -21;
/// The connection broke; the same request may be sent again without harm.
pub const MCP_E_IO: mcp_status = -22;
/// The request itself ran out of time.
pub const MCP_E_TIMEOUT: mcp_status = -23;
/// The client is closed.
pub const MCP_E_CLOSED: mcp_status = -24;
/// The server's process ended.
pub const MCP_E_CHILD_EXIT: mcp_status = -25;
/// An HTTP status that is no answer to the request.
pub const MCP_E_HTTP: mcp_status = -26;
/// The request was sent and no answer came: the server may or may not have acted. Never sent again by the library.
pub const MCP_E_OUTCOME_UNKNOWN: mcp_status = -27;
/// The server's bytes are not JSON.
pub const MCP_E_PARSE: mcp_status = -40;
/// The server's JSON is not a valid answer.
pub const MCP_E_MALFORMED: mcp_status = -41;
/// No protocol version is spoken by both sides.
pub const MCP_E_VERSION: mcp_status = -42;
/// The server answered with a JSON-RPC error.
pub const MCP_E_RPC: mcp_status = -43;
/// Something is over a size limit of the settings.
pub const MCP_E_TOO_LARGE: mcp_status = -44;
/// A value does not match its JSON Schema.
pub const MCP_E_SCHEMA: mcp_status = -45;
/// The call was cancelled by the host.
pub const MCP_E_CANCELLED: mcp_status = -60;
/// The server asks something that the host answers by hand; the work goes on once it is answered.
pub const MCP_E_INPUT_REQUIRED: mcp_status = -61;
/// The server asked for input that the host refuses.
pub const MCP_E_INPUT_REFUSED: mcp_status = -62;
/// The server asks for authorization.
pub const MCP_E_AUTH_REQUIRED: mcp_status = -80;
/// Authorization was refused.
pub const MCP_E_AUTH_DENIED: mcp_status = -81;
/// The authorization server could not be found or trusted.
pub const MCP_E_AUTH_DISCOVERY: mcp_status = -82;
/// The task failed.
pub const MCP_E_TASK_FAILED: mcp_status = -100;
/// The task was cancelled.
pub const MCP_E_TASK_CANCELLED: mcp_status = -101;
/// The task outlived its time to live.
pub const MCP_E_TASK_EXPIRED: mcp_status = -102;
/// The server does not know the task.
pub const MCP_E_TASK_UNKNOWN: mcp_status = -103;
/// A panic was caught at the border: a fault of this library, please report it.
pub const MCP_E_PANIC: mcp_status = -120;
/// Memory or another resource of the system ran out.
pub const MCP_E_MEMORY: mcp_status = -121;
/// A fault of this library, please report it.
pub const MCP_E_INTERNAL: mcp_status = -122;
/// The ledger's file cannot be used: locked, not writable, full, damaged, foreign or of a newer version.
pub const MCP_E_LEDGER: mcp_status = -123;

/// Every code with its name, for mcp_status_name() and the tests that hold wrappers to it.
/// cbindgen:ignore
pub(super) const NAMES: [(mcp_status, &std::ffi::CStr); 41] = [
    (MCP_OK, c"MCP_OK"),
    (MCP_S_TIMEOUT, c"MCP_S_TIMEOUT"),
    (MCP_S_ALREADY_DONE, c"MCP_S_ALREADY_DONE"),
    (MCP_S_PENDING, c"MCP_S_PENDING"),
    (MCP_S_TASK, c"MCP_S_TASK"),
    (MCP_S_NONE, c"MCP_S_NONE"),
    (MCP_E_ARGUMENT, c"MCP_E_ARGUMENT"),
    (MCP_E_HANDLE, c"MCP_E_HANDLE"),
    (MCP_E_UTF8, c"MCP_E_UTF8"),
    (MCP_E_STATE, c"MCP_E_STATE"),
    (MCP_E_REENTRANT, c"MCP_E_REENTRANT"),
    (MCP_E_FORKED, c"MCP_E_FORKED"),
    (MCP_E_UNSUPPORTED, c"MCP_E_UNSUPPORTED"),
    (MCP_E_CONNECT, c"MCP_E_CONNECT"),
    (MCP_E_TLS, c"MCP_E_TLS"),
    (MCP_E_IO, c"MCP_E_IO"),
    (MCP_E_TIMEOUT, c"MCP_E_TIMEOUT"),
    (MCP_E_CLOSED, c"MCP_E_CLOSED"),
    (MCP_E_CHILD_EXIT, c"MCP_E_CHILD_EXIT"),
    (MCP_E_HTTP, c"MCP_E_HTTP"),
    (MCP_E_OUTCOME_UNKNOWN, c"MCP_E_OUTCOME_UNKNOWN"),
    (MCP_E_PARSE, c"MCP_E_PARSE"),
    (MCP_E_MALFORMED, c"MCP_E_MALFORMED"),
    (MCP_E_VERSION, c"MCP_E_VERSION"),
    (MCP_E_RPC, c"MCP_E_RPC"),
    (MCP_E_TOO_LARGE, c"MCP_E_TOO_LARGE"),
    (MCP_E_SCHEMA, c"MCP_E_SCHEMA"),
    (MCP_E_CANCELLED, c"MCP_E_CANCELLED"),
    (MCP_E_INPUT_REQUIRED, c"MCP_E_INPUT_REQUIRED"),
    (MCP_E_INPUT_REFUSED, c"MCP_E_INPUT_REFUSED"),
    (MCP_E_AUTH_REQUIRED, c"MCP_E_AUTH_REQUIRED"),
    (MCP_E_AUTH_DENIED, c"MCP_E_AUTH_DENIED"),
    (MCP_E_AUTH_DISCOVERY, c"MCP_E_AUTH_DISCOVERY"),
    (MCP_E_TASK_FAILED, c"MCP_E_TASK_FAILED"),
    (MCP_E_TASK_CANCELLED, c"MCP_E_TASK_CANCELLED"),
    (MCP_E_TASK_EXPIRED, c"MCP_E_TASK_EXPIRED"),
    (MCP_E_TASK_UNKNOWN, c"MCP_E_TASK_UNKNOWN"),
    (MCP_E_PANIC, c"MCP_E_PANIC"),
    (MCP_E_MEMORY, c"MCP_E_MEMORY"),
    (MCP_E_INTERNAL, c"MCP_E_INTERNAL"),
    (MCP_E_LEDGER, c"MCP_E_LEDGER"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn every_kind_has_its_name_and_number() {
        for (kind, status) in [
            (Kind::Argument, MCP_E_ARGUMENT),
            (Kind::Handle, MCP_E_HANDLE),
            (Kind::Utf8, MCP_E_UTF8),
            (Kind::State, MCP_E_STATE),
            (Kind::Reentrant, MCP_E_REENTRANT),
            (Kind::Forked, MCP_E_FORKED),
            (Kind::Unsupported, MCP_E_UNSUPPORTED),
            (Kind::Connect, MCP_E_CONNECT),
            (Kind::Tls, MCP_E_TLS),
            (Kind::Io, MCP_E_IO),
            (Kind::Timeout, MCP_E_TIMEOUT),
            (Kind::Closed, MCP_E_CLOSED),
            (Kind::ChildExit, MCP_E_CHILD_EXIT),
            (Kind::Http, MCP_E_HTTP),
            (Kind::OutcomeUnknown, MCP_E_OUTCOME_UNKNOWN),
            (Kind::Parse, MCP_E_PARSE),
            (Kind::Malformed, MCP_E_MALFORMED),
            (Kind::Version, MCP_E_VERSION),
            (Kind::Rpc, MCP_E_RPC),
            (Kind::TooLarge, MCP_E_TOO_LARGE),
            (Kind::Schema, MCP_E_SCHEMA),
            (Kind::Cancelled, MCP_E_CANCELLED),
            (Kind::InputRequired, MCP_E_INPUT_REQUIRED),
            (Kind::InputRefused, MCP_E_INPUT_REFUSED),
            (Kind::AuthRequired, MCP_E_AUTH_REQUIRED),
            (Kind::AuthDenied, MCP_E_AUTH_DENIED),
            (Kind::AuthDiscovery, MCP_E_AUTH_DISCOVERY),
            (Kind::TaskFailed, MCP_E_TASK_FAILED),
            (Kind::TaskCancelled, MCP_E_TASK_CANCELLED),
            (Kind::TaskExpired, MCP_E_TASK_EXPIRED),
            (Kind::TaskUnknown, MCP_E_TASK_UNKNOWN),
            (Kind::Panic, MCP_E_PANIC),
            (Kind::Memory, MCP_E_MEMORY),
            (Kind::Internal, MCP_E_INTERNAL),
            (Kind::Ledger, MCP_E_LEDGER),
        ] {
            assert_eq!(kind.status(), status, "{kind:?}");
            assert!(NAMES.iter().any(|(number, _)| *number == status), "{kind:?}");
        }
        let mut numbers: Vec<_> = NAMES.iter().map(|(number, _)| *number).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), NAMES.len(), "a number is used twice");
    }
}
