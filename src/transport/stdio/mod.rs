//! A server as a child process (`basic/transports/stdio`).
//!
//! Promises: the arguments arrive as they were given, and no shell sees them; the child gets no secret of the host's
//! environment; its standard error is read for its whole life and costs a bounded amount of memory; a write to a child
//! that is gone raises no signal in the host; after [`crate::transport::Link::close`] nothing of the process tree is
//! left, and no zombie. It never starts a child by itself: [`crate::transport::Dial::dial`] does.
//!
//! ```text
//! child ── starts ──> process ── three threads: standard output, standard error, the exit
//!   └── launch (pure)     ├── lines, framing        └── the ladder: end of input, soft signal, kill
//!                         └── stderr (pure)
//! ```
//!
//! In reading order: `launch`, `child`, `process`, `stderr`.

mod child;
mod launch;
mod process;
mod stderr;
#[cfg(all(test, unix))]
mod tests;

pub(crate) use child::{ChildDial, ChildSettings};
