//! The C ABI: translation only. Raw becomes safe in the first lines of a function, the client does the work, and the
//! outcome becomes a status. No decision lives here; where JSON, time or sockets are mentioned, a room is leaking.
//!
//! The machinery: `guard.rs` (panics, forks, classes of calls, last error), `handle.rs` (keys instead of addresses),
//! `text.rs` (strings in and out), `callback.rs` (function, user data and destructor as one owner). The rest is one
//! file for each C noun, in the order of the header, which cbindgen generates from here.

#![allow(unsafe_code, reason = "pointers of the host's; each block says which check proves it")]
#![allow(clippy::missing_safety_doc, reason = "the manual in front of each function is its contract")]
#![allow(non_camel_case_types, reason = "the names of the C types")]
#![allow(clippy::too_many_arguments, reason = "a C function has no structs to pass")]

pub mod status;

pub mod callback;

pub mod library;

pub mod clock;

pub mod text_object;

pub mod error;

pub mod queue;

pub mod client;

pub mod server;

pub mod stream;

pub mod call;

pub mod result;

pub mod task;

pub mod snapshot;

pub mod event;

pub mod input;

mod guard;
mod handle;
mod text;

#[cfg(feature = "panic-test")]
pub mod panic_test;
