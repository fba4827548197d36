//! `mcp_task`: a long job at the server, followed.

use std::ffi::c_char;

use crate::client::input::read_answers;
use crate::client::{Client, TaskHandle, Until, Waited, WaitedMany, wait_from_ms, wait_many};
use crate::error::{Error, Kind, Result};
use crate::ffi::client::{mcp_client, text_out};
use crate::ffi::guard::{Function, fine, status};
use crate::ffi::handle::{free, get, put};
use crate::ffi::snapshot::mcp_snapshot;
use crate::ffi::status::{MCP_OK, MCP_S_ALREADY_DONE, MCP_S_TIMEOUT, mcp_status};
use crate::ffi::text::{name_in, out, text_in};
use crate::ffi::text_object::mcp_text;

/// A task (extension io.modelcontextprotocol/tasks).
pub struct mcp_task {
    _private: [u8; 0],
}

/// Take up a task by its id: the one that this client follows, or one that it does not know yet, which is then followed.
///
/// @param client   a client that is open
/// @param task_id  the server's id, NUL-terminated
/// @param out      receives a task handle of your own; not NULL
/// @return MCP_OK, MCP_E_ARGUMENT, MCP_E_CLOSED; MCP_E_STATE where the client is not open (with a ledger in a file: not
///         ready) or another process follows the task; MCP_E_LEDGER. Whether the server knows the task shows at its first poll
/// Ownership: free *out with mcp_task_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_task_open(
    client: *mut mcp_client,
    task_id: *const c_char,
    out: *mut *mut mcp_task,
) -> mcp_status {
    fine(Function::mcp_task_open, || {
        // SAFETY: NULL or writable, NULL or terminated, by the contract of this function.
        let (out, task_id) = unsafe { (self::out(out, std::ptr::null_mut())?, name_in(task_id, "task_id")?) };
        *out = put(get::<Client>(client)?.object.task(task_id)?)?;
        Ok(())
    })
}

/// Ask the server for a task once, now, on this thread (tasks/get).
///
/// What it says goes the way of every poll: events, snapshot, next poll. A failure does not end the task.
///
/// @param task     a task handle
/// @param wait_ms  the limit, in ms; -1 for that of the settings
/// @param out      receives a snapshot of your own; not NULL
/// @return MCP_OK; MCP_E_TASK_UNKNOWN where the server does not know it; else the error
/// Ownership: free *out with mcp_snapshot_free().   Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_task_get(task: *mut mcp_task, wait_ms: i64, out: *mut *mut mcp_snapshot) -> mcp_status {
    fine(Function::mcp_task_get, || {
        // SAFETY: NULL or writable, by the contract of this function.
        let out = unsafe { self::out(out, std::ptr::null_mut()) }?;
        let task = get::<TaskHandle>(task)?.object.clone();
        *out = put(task.get(wait_from_ms(task.clock().as_ref(), wait_ms))?)?;
        Ok(())
    })
}

/// Answer questions of a task by their keys, now, on this thread (tasks/update). Each key is answered once over the
/// task's life.
///
/// @param task       a task handle
/// @param responses  {"key": {response}, ...}; a response is e.g. {"action":"accept","content":{...}} for elicitation,
///                   the whole result for sampling and roots
/// @param length     its length in bytes
/// @param wait_ms    the limit, in ms; -1 for that of the settings
/// @return MCP_OK once the server has acknowledged; MCP_S_ALREADY_DONE where every key was answered before or the task
///         has ended: nothing was sent; MCP_E_ARGUMENT for a key that was not asked; else the error, and the keys are open
/// Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_task_update(
    task: *mut mcp_task,
    responses: *const c_char,
    length: usize,
    wait_ms: i64,
) -> mcp_status {
    status(Function::mcp_task_update, || {
        // SAFETY: NULL or readable for its length, by the contract of this function.
        let answers = read_answers(unsafe { text_in(responses, length, "responses") }?)?;
        let task = get::<TaskHandle>(task)?.object.clone();
        let accepted = task.update(&answers, wait_from_ms(task.clock().as_ref(), wait_ms))?;
        Ok(if accepted { MCP_OK } else { MCP_S_ALREADY_DONE })
    })
}

/// Ask the server to stop working on a task (tasks/cancel).
///
/// The server decides; the task may still end as completed. It is followed to its real end, or let go where the settings
/// say so (tasks.cancel).
///
/// @param task  a task handle
/// @return MCP_OK once the request is on its way; MCP_S_ALREADY_DONE where that was asked before or the task has ended
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_task_cancel(task: *mut mcp_task) -> mcp_status {
    status(Function::mcp_task_cancel, || {
        let asked = get::<TaskHandle>(task)?.object.cancel()?;
        Ok(if asked { MCP_OK } else { MCP_S_ALREADY_DONE })
    })
}

/// Wait for the end of a task, whatever it is. A wait that runs out cancels nothing.
///
/// @param task     a task handle
/// @param wait_ms  how long, in ms; -1 without limit
/// @param out      receives a snapshot of your own in each of the outcomes below, or NULL
/// @return MCP_OK when it has ended: read STATUS and REASON in the snapshot; MCP_E_SCHEMA when it has completed with a
///         result that does not match its tool's outputSchema, which the snapshot has; MCP_S_TIMEOUT; MCP_E_INPUT_REQUIRED
///         where it asks something that the host answers by hand
/// Ownership: free *out with mcp_snapshot_free().   Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_task_wait(task: *mut mcp_task, wait_ms: i64, out: *mut *mut mcp_snapshot) -> mcp_status {
    status(Function::mcp_task_wait, || {
        let task = get::<TaskHandle>(task)?.object.clone();
        let mut unwanted = std::ptr::null_mut();
        let wanted = !out.is_null();
        // SAFETY: not NULL by the choice; writable by the contract of this function.
        let out = unsafe { self::out(if wanted { out } else { &raw mut unwanted }, std::ptr::null_mut()) }?;
        let waited = task.wait(wait_from_ms(task.clock().as_ref(), wait_ms));
        let (Waited::Ended(snapshot) | Waited::InputRequired(snapshot) | Waited::TimedOut(snapshot)) = &waited;
        if wanted {
            *out = put(snapshot.clone())?;
        }
        match waited {
            Waited::Ended(snapshot) => snapshot.flaw().map_or(Ok(MCP_OK), |flaw| Err(flaw.clone())),
            Waited::TimedOut(_) => Ok(MCP_S_TIMEOUT),
            Waited::InputRequired(_) => {
                Err(Error::new(Kind::InputRequired, "the task asks something that the host answers by hand"))
            }
        }
    })
}

/// mcp_task_wait_many(): until one of the tasks has ended.
pub const MCP_WAIT_ANY: i32 = 1;
/// mcp_task_wait_many(): until all have.
pub const MCP_WAIT_ALL: i32 = 2;

/// Wait for one of several tasks, or for all of them. A wait that runs out cancels nothing.
///
/// The tasks may belong to different clients. One that asks something which the host answers by hand ends the wait, too:
/// answer it, and wait again.
///
/// @param tasks      an array of task handles; not NULL
/// @param count      how many, 1 to 1000000
/// @param until      MCP_WAIT_ANY or MCP_WAIT_ALL
/// @param wait_ms    how long, in ms; -1 without limit
/// @param out_index  receives the place in the array of the first that has ended, or of the one that asks; or NULL
/// @return MCP_OK when it is as wanted; MCP_S_TIMEOUT; MCP_E_INPUT_REQUIRED; MCP_E_ARGUMENT
/// Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_task_wait_many(
    tasks: *const *mut mcp_task,
    count: usize,
    until: i32,
    wait_ms: i64,
    out_index: *mut usize,
) -> mcp_status {
    status(Function::mcp_task_wait_many, || {
        let mut unwanted = 0;
        let wanted = if out_index.is_null() { &raw mut unwanted } else { out_index };
        // SAFETY: not NULL by the choice above; writable by the contract of this function.
        let out_index = unsafe { self::out(wanted, 0) }?;
        let until = match until {
            MCP_WAIT_ANY => Until::Any,
            MCP_WAIT_ALL => Until::All,
            other => {
                return Err(Error::new(Kind::Argument, format!("{other} is neither MCP_WAIT_ANY nor MCP_WAIT_ALL")));
            }
        };
        if tasks.is_null() || count == 0 || count > MOST_TASKS {
            return Err(Error::new(Kind::Argument, format!("expected 1 to {MOST_TASKS} tasks but found {count}")));
        }
        // SAFETY: not NULL, and an array of `count` by the contract of this function; the bound keeps its size in range.
        let handles = unsafe { std::slice::from_raw_parts(tasks, count) };
        let tasks = handles.iter().map(|task| Ok(get::<TaskHandle>(*task)?.object.clone()));
        let tasks = tasks.collect::<Result<Vec<_>>>()?;
        match wait_many(&tasks, until, wait_from_ms(tasks[0].clock().as_ref(), wait_ms)) {
            WaitedMany::Ended(place) => {
                *out_index = place;
                Ok(MCP_OK)
            }
            WaitedMany::TimedOut => Ok(MCP_S_TIMEOUT),
            WaitedMany::InputRequired(place) => {
                *out_index = place;
                Err(Error::new(Kind::InputRequired, "a task asks something that the host answers by hand"))
            }
        }
    })
}

/// The bound of mcp_task_wait_many(): far beyond what a process follows, and safe to multiply.
const MOST_TASKS: usize = 1_000_000;

/// Hand out what is known of a task now.
///
/// @param task  a task handle
/// @param out   receives an immutable snapshot of your own; not NULL
/// @return MCP_OK, MCP_E_HANDLE
/// Ownership: free *out with mcp_snapshot_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_task_snapshot(task: *const mcp_task, out: *mut *mut mcp_snapshot) -> mcp_status {
    fine(Function::mcp_task_snapshot, || {
        // SAFETY: NULL or writable, by the contract of this function.
        let out = unsafe { self::out(out, std::ptr::null_mut()) }?;
        *out = put(get::<TaskHandle>(task)?.object.snapshot())?;
        Ok(())
    })
}

/// Stop following a task. It ends here with the reason CLOSED; the server goes on with it.
///
/// @param task  a task handle
/// @return MCP_OK, MCP_S_ALREADY_DONE where it has ended
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_task_let_go(task: *mut mcp_task) -> mcp_status {
    status(Function::mcp_task_let_go, || {
        let went = get::<TaskHandle>(task)?.object.clone().let_go();
        Ok(if went { MCP_OK } else { MCP_S_ALREADY_DONE })
    })
}

/// Say that the host has a task's end: mcp_client_check() hands it out no more, and its result is dropped from the ledger.
///
/// mcp_tool_run() and mcp_client_check() do it by themselves for what they hand out.
///
/// @param task  a task handle
/// @return MCP_OK, MCP_S_ALREADY_DONE where that was said before, MCP_E_STATE where the task has not ended
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_task_acknowledge(task: *mut mcp_task) -> mcp_status {
    status(Function::mcp_task_acknowledge, || {
        let task = get::<TaskHandle>(task)?.object.clone();
        if !task.snapshot().has_ended() {
            return Err(Error::new(Kind::State, "the task has not ended"));
        }
        Ok(if task.acknowledge()? { MCP_OK } else { MCP_S_ALREADY_DONE })
    })
}

/// Hand out all that the ledger would keep of a task, as a JSON object, for a host that keeps its tasks in a store of its
/// own. mcp_task_import() takes it back, in this process or a later one.
///
/// A result that is not to be kept (keep_results, keep_result) is not in it; an answer that the server has not
/// acknowledged yet is. Members may be added.
///
/// @param task  a task handle
/// @param out   receives a text of your own; not NULL
/// @return MCP_OK, MCP_E_HANDLE
/// Ownership: free *out with mcp_text_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_task_export(task: *const mcp_task, out: *mut *mut mcp_text) -> mcp_status {
    // SAFETY: as this function's own contract.
    unsafe { text_out(Function::mcp_task_export, out, || Ok(get::<TaskHandle>(task)?.object.export())) }
}

/// Take up a task from what mcp_task_export() wrote. What the client's ledger knows of the task counts more.
///
/// It is followed from now on (MCP_EVENT_TASK_RESUMED); where it had ended, its end comes again, marked as repeated.
///
/// @param client  a client that is ready, of the same server (settings.identity)
/// @param record  a JSON object
/// @param length  its length in bytes
/// @param out     receives a task handle of your own; not NULL
/// @return MCP_OK; MCP_E_ARGUMENT for what is no record or one of another server; MCP_E_STATE where the client is not ready
///         or another process follows the task; MCP_E_UNSUPPORTED for a record of a newer version; MCP_E_LEDGER; MCP_E_CLOSED
/// Ownership: free *out with mcp_task_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_task_import(
    client: *mut mcp_client,
    record: *const c_char,
    length: usize,
    out: *mut *mut mcp_task,
) -> mcp_status {
    fine(Function::mcp_task_import, || {
        // SAFETY: NULL or writable, by the contract of this function.
        let out = unsafe { self::out(out, std::ptr::null_mut()) }?;
        // SAFETY: NULL or readable for its length, by the contract of this function.
        let record = unsafe { text_in(record, length, "record") }?;
        *out = put(get::<Client>(client)?.object.import(record)?)?;
        Ok(())
    })
}

/// Give up a task's name. The task is followed on; its end comes as an event.
///
/// @param task  a task handle, or NULL
/// @return MCP_OK, MCP_E_HANDLE where it was freed before
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_task_free(task: *mut mcp_task) -> mcp_status {
    fine(Function::mcp_task_free, || free::<TaskHandle>(task).map(drop))
}
