//! Drives the C programs of `tests/c`: compiles each with gcc, starts a server with the script that its source holds,
//! runs it for a bounded time, plain and (the ones about misuse) under valgrind. tests/c/README.md has the list.
//!
//! `cargo test --test c_programs`; one program alone: `MCP_C_PROGRAM=smoke cargo test --test c_programs`.

#![allow(missing_docs, unreachable_pub)]
#![allow(clippy::disallowed_methods, reason = "a driver of processes: their time limits are real time")]

mod bench;
mod consume;
mod header;
mod prototypes;

use bench::{Bench, Mode};

/// Everyday use.
const USE: &[&str] = &["smoke", "wait_order", "manual_queue", "threads", "big_alloc", "linked_unused", "held_clock"];

/// Misuse that must end in a status: these run under valgrind, too.
const HANDLES: &[&str] = &["null_args", "stale_handle", "double_free", "wrong_kind", "reentrancy", "two_threads_free"];

/// The ends of things: these run under valgrind, too.
const ENDS: &[&str] =
    &["free_in_callback", "free_while_callback", "close_in_flight", "destroy_once", "shutdown", "asked_job"];

/// Cancelling.
const CANCELS: &[&str] = &["cancel_blocked", "cancel_race"];

/// Manners in a process that is not ours.
const MANNERS: &[&str] = &["fp_traps", "fork_child", "sigpipe", "signals", "exit_live"];

/// Loading and unloading; these find the library by themselves.
const LOADING: &[&str] = &["dlopen_close", "dlopen_open_client", "dlopen_other_threads"];

/// A library that was built to panic: these run under valgrind, too.
const PANICS: &[&str] = &["panic_entry", "panic_worker"];

#[test]
fn everyday_use() {
    Bench::shared().run_all(USE, Mode::Plain);
}

#[test]
fn wrong_handles_and_arguments() {
    Bench::shared().run_all(HANDLES, Mode::Plain);
}

#[test]
fn wrong_handles_and_arguments_under_valgrind() {
    Bench::shared().run_all(HANDLES, Mode::Valgrind);
}

#[test]
fn ends() {
    Bench::shared().run_all(ENDS, Mode::Plain);
}

#[test]
fn ends_under_valgrind() {
    Bench::shared().run_all(ENDS, Mode::Valgrind);
}

#[test]
fn cancelling() {
    Bench::shared().run_all(CANCELS, Mode::Plain);
}

#[test]
fn process_manners() {
    Bench::shared().run_all(MANNERS, Mode::Plain);
}

#[test]
fn loading_and_unloading() {
    Bench::shared().run_all(LOADING, Mode::Plain);
}

#[test]
fn caught_panics() {
    Bench::shared().run_all(PANICS, Mode::Panicking);
}

#[test]
fn caught_panics_under_valgrind() {
    Bench::shared().run_all(PANICS, Mode::PanickingValgrind);
}

#[test]
fn every_program_is_driven_and_listed() {
    let driven: Vec<&str> = [USE, HANDLES, ENDS, CANCELS, MANNERS, LOADING, PANICS].concat();
    let readme = std::fs::read_to_string(bench::sources().join("README.md")).expect("tests/c/README.md");
    let folder = std::fs::read_dir(bench::sources()).expect("tests/c");
    for file in folder.map(|entry| entry.expect("an entry").path()) {
        if file.extension().is_some_and(|extension| extension == "c") {
            let name = file.file_stem().and_then(|name| name.to_str()).expect("a name in UTF-8");
            assert!(driven.contains(&name), "{name}.c is in no group");
            assert!(readme.contains(&format!("`{name}`")), "{name} is not in tests/c/README.md");
        }
    }
}
