//! Pure data: what goes over the wire, read tolerantly and written strictly. No I/O, no clock, no state.
//!
//! Belongs here: JSON-RPC envelopes, `_meta`, versions, capabilities, content, pages, tasks of both generations, input
//! requests, subscriptions, how long an answer is fresh, limits, `x-mcp-header`; JSON Schema and URI templates. Wire
//! names are seen nowhere else. A reader returns what it forgave as data, so that `session` can report it. This room
//! imports only the files at the root.

pub mod answer;
pub mod capability;
pub mod content;
pub mod freshness;
pub mod input;
pub mod json;
pub mod jsonrpc;
pub mod legacy_task;
pub mod limits;
pub mod meta;
pub mod method;
pub mod page;
pub mod route;
pub mod schema;
mod split;
pub mod subscription;
pub mod task;
pub mod uri_template;
pub mod version;
pub mod x_mcp_header;
