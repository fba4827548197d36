//! The facade: settings, opening, calls, questions, events and their queues, the library's threads and their end. Rust
//! tests use it as the C ABI does; `ffi` only translates.
//!
//! Parts, in reading order: `settings.rs` the document of a connection; `options.rs` the document of a call;
//! `handle.rs` the client and its life; `call.rs` a request from start to answer; `input.rs` a question of the
//! server's; `follow.rs` how tasks meet the client (wire and host of `tasks`); `chat.rs` pending tasks and their
//! outcomes as tool results; `event.rs` what the host is told; `mailbox.rs` a client's events in order; `queue.rs` who
//! delivers them; `wait.rs` how a blocking function waits; `runtime.rs` the threads (it alone starts any); `pool.rs`
//! workers; `logging.rs` the host's log hook.

mod call;
mod chat;
mod event;
mod follow;
mod handle;
mod input;
mod logging;
mod mailbox;
mod options;
mod pool;
mod queue;
mod runtime;
mod settings;
mod wait;

pub use call::{Call, CallEnd};
pub use event::{Event, EventKind, Handler};
pub use follow::TaskHandle;
pub use handle::{Client, State};
pub use input::{Input, Reply};
pub use logging::{LogLevel, LogSink, set_log};
pub use options::CallOptions;
pub use queue::{Queue, in_callback};
pub use runtime::shutdown;
pub use settings::Settings;
pub use wait::wait_from_ms;

pub use crate::tasks::driver::Snapshot;
