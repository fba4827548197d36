//! Sessions of both eras against small servers on real sockets: what goes out, in which order, and what comes of it.
//!
//! Waits are bounded; nothing sleeps, and no test asserts that something was fast.
#![allow(clippy::disallowed_methods, reason = "servers and neighbours need threads, bounds need the time")]

mod fixture;
mod opening;
mod questions;
mod resume;
mod sessions;
mod sse;
mod task_polls;
