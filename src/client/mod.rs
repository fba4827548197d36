//! The facade: settings, opening, calls, questions, events and their queues, the library's threads and their end. Rust
//! tests use it as the C ABI does; `ffi` only translates.
//!
//! Parts, in reading order: `settings.rs` the document of a connection; `target.rs` which
//! server it names and how that is reached; `options.rs` the document of a call;
//! `handle.rs` the client and its life; `call.rs` a request from start to answer; `input.rs` a question of the
//! server's; `asked.rs` the questions of legacy servers, asked while a call runs or outside any; `follow.rs` how tasks meet the client (wire and host of `tasks`); `chat.rs` pending tasks and their
//! outcomes as tool results; `event.rs` what the host is told; `mailbox.rs` a client's events in order; `queue.rs` who
//! delivers them; `wait.rs` how a blocking function waits; `runtime.rs` the threads (it alone starts any); `pool.rs`
//! workers; `logging.rs` the host's log hook.

mod asked;
mod call;
pub(crate) mod chat;
mod event;
mod follow;
mod handle;
pub(crate) mod input;
mod logging;
mod mailbox;
mod options;
mod pool;
mod queue;
mod runtime;
mod settings;
mod target;
mod wait;

pub(crate) use call::{Call, CallEnd, CallWait};
pub(crate) use event::{Event, EventKind, Handler};
pub(crate) use follow::{TaskHandle, Waited};
pub(crate) use handle::Client;
pub(crate) use input::{Input, Reply};
pub(crate) use logging::{LogLevel, LogSink, error as log_error, set_log};
pub(crate) use options::CallOptions;
pub(crate) use queue::{Queue, as_callback, in_callback};
pub(crate) use runtime::shutdown;
pub(crate) use settings::Settings;
pub(crate) use wait::{now, wait_from_ms};

pub(crate) use crate::tasks::snapshot::Snapshot;
pub(crate) use crate::transport::stream::{HostEnd, HostStream};
