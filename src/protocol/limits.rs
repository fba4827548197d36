//! The size limits: one struct, handed in. Over one, a clear error and a live process.

use crate::error::{Error, Kind};

/// The documented limits. Every one is an option of the settings under `limits`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `message_bytes`: one JSON-RPC message.
    pub message_bytes: usize,
    /// `sse_event_bytes`: one event of a `text/event-stream`.
    pub sse_event_bytes: usize,
    /// `stdio_line_bytes`: one line of a child process, a socket or a stream of the host's.
    pub stdio_line_bytes: usize,
    /// `header_bytes`: the head of an HTTP answer.
    pub header_bytes: usize,
    /// `pages`: pages of one list.
    pub pages: usize,
    /// `nesting`: depth of arrays and objects in a message.
    pub nesting: usize,
    /// `input_rounds`: rounds of input requests in one call.
    pub input_rounds: usize,
    /// `input_requests`: questions that are open at once, of a call or of a task.
    pub input_requests: usize,
    /// `cache_entries`: answers that are kept.
    pub cache_entries: usize,
    /// `cache_bytes`: their texts together.
    pub cache_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 64 << 20,
            sse_event_bytes: 64 << 20,
            stdio_line_bytes: 64 << 20,
            header_bytes: 64 << 10,
            pages: 1_000,
            nesting: 128,
            input_rounds: 10,
            input_requests: 256,
            cache_entries: 1_000,
            cache_bytes: 16 << 20,
        }
    }
}

/// The error of something over a limit: says what, the limit, and its option.
#[must_use]
pub fn too_large(what: &str, limit: usize, option: &str) -> Error {
    Error::new(Kind::TooLarge, format!("{what} is over the limit of {limit} (option limits.{option})"))
}
