//! How a room asks for a thread: it is handed a [`Spawn`], and only `client/runtime.rs` implements it.

use crate::error::Result;

/// A piece of work for a thread of the library's.
pub type Job = Box<dyn FnOnce() + Send + 'static>;

/// Runs work on the library's threads: named, with all signals blocked, the default floating-point control word, and
/// panics caught.
pub trait Spawn: Send + Sync {
    /// Runs `job` on a thread named `name`.
    ///
    /// # Errors
    /// Where the system refuses a thread, or the library is shut down.
    fn spawn(&self, name: &'static str, job: Job) -> Result<()>;
}
