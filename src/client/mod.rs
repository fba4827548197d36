//! The facade: settings, opening and closing, calls, questions, events and their queues, the library's threads and
//! their end. Rust tests use it as the C ABI does; `ffi` only translates.
//!
//! In reading order. What is wanted: `settings.rs` the document of a connection (`stored.rs` its part about the ledger,
//! `network.rs` the one about proxy, TLS and redirects, `record.rs` the one about a record and its replay), `target.rs` which server it names and how that is reached,
//! `options.rs` the document of a call, `doc.rs` how such documents are read. The client: `handle.rs` what it is made
//! of, `life.rs` its life, `flights.rs` the turns of its calls, `ties.rs` its tasks, `resume.rs` its ledger. The work:
//! `call.rs` a request from start to end, `exchange.rs` each of its exchanges with the server, `end.rs` that end,
//! `asking.rs` its questions, `asked.rs` the questions of legacy servers, within a call or outside any, `input.rs` a
//! question, `follow.rs` how tasks meet the client (wire and host of `tasks`), `chat.rs` pending tasks and their
//! outcomes as tool results. What is told: `event.rs`, `mailbox.rs` a client's events in order, `queue.rs` who delivers
//! them, `logging.rs` the host's log hook. Underneath: `wait.rs` the host's waits, `wait_many.rs` those for several
//! tasks, `time.rs` time in the host's hands, `runtime.rs` the threads (it alone starts any), `pool.rs` workers.

mod asked;
mod asking;
mod call;
pub(crate) mod chat;
mod doc;
mod end;
mod event;
mod exchange;
mod flights;
mod follow;
mod handle;
pub(crate) mod input;
mod life;
mod logging;
mod mailbox;
mod network;
mod options;
mod pool;
mod queue;
mod record;
mod resume;
mod runtime;
mod settings;
mod stored;
mod target;
mod ties;
mod time;
mod wait;
mod wait_many;

pub(crate) use call::{Call, CallWait};
pub(crate) use end::CallEnd;
pub(crate) use event::{Event, EventKind, Handler};
pub(crate) use follow::{TaskHandle, Waited};
pub(crate) use handle::Client;
pub(crate) use input::{Input, Reply};
pub(crate) use logging::{LogLevel, LogSink, error as log_error, set_log};
pub(crate) use options::CallOptions;
pub(crate) use queue::{Queue, as_callback, in_callback};
pub(crate) use runtime::shutdown;
pub(crate) use settings::Settings;
pub(crate) use time::{advance_clock, hold_clock, release_clock};
pub(crate) use wait::{now, wait_from_ms};
pub(crate) use wait_many::{Until, WaitedMany, wait_many};

pub(crate) use crate::tasks::snapshot::Snapshot;
pub(crate) use crate::transport::stream::{HostEnd, HostStream};
