//! mcpnative: an MCP client for native software. C ABI outside, Rust inside.
//!
//! This file is the map of the house and nothing else. The doors, each room imports only what is to its right:
//!
//! ```text
//! ffi -> client -> { session, tasks, auth } -> { transport, protocol } -> os
//! ```
//!
//! The rooms in braces never import each other. The files at the root (`error`, `clock`, `cancel`, `hold`, `spawn`) are
//! open to every room. Nobody imports `ffi`. `unsafe` is denied here and allowed, with its reason, in `ffi/` and `os/`.
//! A test (`tests/house.rs`) reads every `use crate::…` and holds these doors.

pub mod cancel;
pub mod clock;
pub mod error;
pub mod ffi;
pub mod hold;
pub mod protocol;
pub mod spawn;

mod auth;
mod client;
mod os;
mod session;
mod tasks;
mod transport;
