//! `mcp_call`: a request from its start to its one end.

use std::ffi::c_char;
use std::sync::Arc;

use crate::client::input::{read_answers, write_questions};
use crate::client::{Call, CallEnd, CallOptions, CallWait, Client, wait_from_ms};
use crate::clock::Deadline;
use crate::error::{Error, Kind, Result};
use crate::ffi::client::{mcp_client, text_out};
use crate::ffi::error::mcp_error;
use crate::ffi::guard::{Function, fine, status, value};
use crate::ffi::handle::{Named, free, get, put};
use crate::ffi::result::mcp_result;
use crate::ffi::status::{
    MCP_OK, MCP_S_ALREADY_DONE, MCP_S_NONE, MCP_S_PENDING, MCP_S_TASK, MCP_S_TIMEOUT, mcp_status,
};
use crate::ffi::task::mcp_task;
use crate::ffi::text::{name_in, out, text_in};
use crate::ffi::text_object::mcp_text;
use crate::protocol::json::Json;
use crate::session::Request;

/// A call.
pub struct mcp_call {
    _private: [u8; 0],
}

/// Start a tool call (tools/call; spec: server/tools).
///
/// Its end comes as MCP_EVENT_CALL_DONE; mcp_call_wait() waits for it. The server may answer with a task: then
/// MCP_EVENT_TASK_CREATED comes first, the call ends with MCP_S_TASK, and the task is followed by itself. A tool call is
/// never silently sent twice: where its answer is lost it ends with MCP_E_OUTCOME_UNKNOWN.
///
/// @param client            a client that is open
/// @param name              the tool's name, NUL-terminated
/// @param arguments         a JSON object; NULL with length 0 is {}; copied
/// @param arguments_length  its length in bytes
/// @param options           see "Call options" at the top of this header; NULL with length 0 for none; copied
/// @param options_length    its length in bytes
/// @param out               receives the call; not NULL
/// @return MCP_OK; MCP_E_ARGUMENT naming what is wrong, MCP_E_STATE, MCP_E_CLOSED: then nothing was sent
/// Ownership: free *out with mcp_call_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_tool_call(
    client: *mut mcp_client,
    name: *const c_char,
    arguments: *const c_char,
    arguments_length: usize,
    options: *const c_char,
    options_length: usize,
    out: *mut *mut mcp_call,
) -> mcp_status {
    fine(Function::mcp_tool_call, || {
        // SAFETY: the pointers are as this function's contract says.
        let (out, request, options) = unsafe {
            let out = self::out(out, std::ptr::null_mut())?;
            let request = tool_request(name, arguments, arguments_length)?;
            (out, request, CallOptions::read(text_in(options, options_length, "options")?)?)
        };
        *out = put(Call::start(&get::<Client>(client)?.object, request, options)?)?;
        Ok(())
    })
}

/// Call a tool on this thread and wait for its result; follow it to the end of its task where the server makes one.
///
/// When wait_ms runs out, the call is cancelled, and so is the task that it created. Where the settings say that the host
/// answers questions by hand, it returns MCP_E_INPUT_REQUIRED. Where mcp_call_task() gives a task, the task asks: read
/// MCP_SNAPSHOT_INPUTS, answer with mcp_task_update(), go on with mcp_task_wait(), and take the result from its snapshot.
/// Else the call asks: mcp_call_inputs(), mcp_call_answer(), mcp_call_wait(). The end of a task that this function
/// cancelled is still handed out by mcp_client_check(); mcp_task_acknowledge() it where the model knows already.
///
/// @param client            a client that is open
/// @param name              the tool's name, NUL-terminated
/// @param arguments         a JSON object; NULL with length 0 is {}
/// @param arguments_length  its length in bytes
/// @param options           see "Call options"; NULL with length 0 for none
/// @param options_length    its length in bytes
/// @param wait_ms           the limit for all of it, in ms; -1: none but those of the settings, which a task does not have
/// @param out               receives the call, also where it failed; not NULL
/// @return MCP_OK: mcp_call_result() has the result; MCP_E_SCHEMA: it has one that does not match; MCP_E_TIMEOUT;
///         MCP_E_INPUT_REQUIRED; else the call's error. *out is NULL where nothing was sent for a fault of the caller's
/// Ownership: free *out with mcp_call_free().   Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_tool_run(
    client: *mut mcp_client,
    name: *const c_char,
    arguments: *const c_char,
    arguments_length: usize,
    options: *const c_char,
    options_length: usize,
    wait_ms: i64,
    out: *mut *mut mcp_call,
) -> mcp_status {
    status(Function::mcp_tool_run, || {
        // SAFETY: the pointers are as this function's contract says.
        let (out, request, options) = unsafe {
            let out = self::out(out, std::ptr::null_mut())?;
            let request = tool_request(name, arguments, arguments_length)?;
            (out, request, CallOptions::read(text_in(options, options_length, "options")?)?)
        };
        run(&get::<Client>(client)?.object, request, options, wait_ms, out)
    })
}

/// List the server's tools, all pages of them (tools/list; spec: server/tools), on this thread.
///
/// Tools whose x-mcp-header annotations are invalid are left out, with a line in the log (spec:
/// basic/transports/streamable-http, "Schema Extension").
///
/// @param client   a client that is open
/// @param wait_ms  the limit for all of it, in ms; -1: none but those of the settings
/// @param out      receives a text of your own, {"tools":[...]}; not NULL
/// @return MCP_OK; else the error
/// Ownership: free *out with mcp_text_free().   Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_tool_list(client: *mut mcp_client, wait_ms: i64, out: *mut *mut mcp_text) -> mcp_status {
    // SAFETY: `out` is NULL or writable, by the contract of this function.
    unsafe {
        text_out(Function::mcp_tool_list, out, || {
            let client = get::<Client>(client)?.object.clone();
            let deadline = wait_from_ms(client.clock().as_ref(), wait_ms);
            let options = CallOptions::read("{\"all_pages\":true}")?;
            match Call::run(&client, Request::new("tools/list", "{}")?, options, deadline)?.end() {
                Some(CallEnd::Result(result) | CallEnd::Unfit(result, _)) => Ok(result.json().text().to_owned()),
                Some(CallEnd::Failed(error)) => Err(error),
                Some(CallEnd::Task) | None => Err(Error::new(Kind::Internal, "tools/list did not end")),
            }
        })
    }
}

/// Start any request; the result is handed over as it came.
///
/// @param client          a client that is open
/// @param method          its method, NUL-terminated
/// @param params          a JSON object, may have a _meta; NULL with length 0 is {}; copied
/// @param params_length   its length in bytes
/// @param options         see "Call options"; NULL with length 0 for none; copied
/// @param options_length  its length in bytes
/// @param out             receives the call; not NULL
/// @return MCP_OK; MCP_E_ARGUMENT naming what is wrong, MCP_E_STATE, MCP_E_CLOSED: then nothing was sent
/// Ownership: free *out with mcp_call_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_call_start(
    client: *mut mcp_client,
    method: *const c_char,
    params: *const c_char,
    params_length: usize,
    options: *const c_char,
    options_length: usize,
    out: *mut *mut mcp_call,
) -> mcp_status {
    fine(Function::mcp_call_start, || {
        // SAFETY: the pointers are as this function's contract says.
        let (out, request, options) = unsafe {
            let out = self::out(out, std::ptr::null_mut())?;
            let request = any_request(method, params, params_length)?;
            (out, request, CallOptions::read(text_in(options, options_length, "options")?)?)
        };
        *out = put(Call::start(&get::<Client>(client)?.object, request, options)?)?;
        Ok(())
    })
}

/// Make any request on this thread and wait for its answer. See mcp_tool_run() for wait_ms, questions and tasks.
///
/// @param client          a client that is open
/// @param method          its method, NUL-terminated
/// @param params          a JSON object, may have a _meta; NULL with length 0 is {}
/// @param params_length   its length in bytes
/// @param options         see "Call options"; NULL with length 0 for none
/// @param options_length  its length in bytes
/// @param wait_ms         the limit for all of it, in ms; -1: none but those of the settings
/// @param out             receives the call, also where it failed; not NULL
/// @return as mcp_tool_run()
/// Ownership: free *out with mcp_call_free().   Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_call_run(
    client: *mut mcp_client,
    method: *const c_char,
    params: *const c_char,
    params_length: usize,
    options: *const c_char,
    options_length: usize,
    wait_ms: i64,
    out: *mut *mut mcp_call,
) -> mcp_status {
    status(Function::mcp_call_run, || {
        // SAFETY: the pointers are as this function's contract says.
        let (out, request, options) = unsafe {
            let out = self::out(out, std::ptr::null_mut())?;
            let request = any_request(method, params, params_length)?;
            (out, request, CallOptions::read(text_in(options, options_length, "options")?)?)
        };
        run(&get::<Client>(client)?.object, request, options, wait_ms, out)
    })
}

/// Wait for the end of a call. A wait that runs out cancels nothing.
///
/// @param call     a call handle
/// @param wait_ms  how long, in ms; -1 without limit
/// @return MCP_OK: mcp_call_result() has the result; MCP_S_TASK: mcp_call_task() has the task; MCP_S_TIMEOUT;
///         MCP_E_INPUT_REQUIRED: answer with mcp_call_answer(); else the call's error
/// Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_call_wait(call: *mut mcp_call, wait_ms: i64) -> mcp_status {
    status(Function::mcp_call_wait, || {
        let call = get::<Call>(call)?.object.clone();
        let deadline = wait_from_ms(call.client().clock().as_ref(), wait_ms);
        waited(call.wait(deadline))
    })
}

/// Cancel a call. A blocked read ends at once, and no other call is touched.
///
/// Over HTTP closing the stream is the cancellation (spec: basic/patterns/cancellation). A call that waits for its task
/// (mcp_tool_run) asks the server to cancel the task and goes on to its real end. To cancel the task of a call that has
/// ended, use mcp_task_cancel().
///
/// @param call  a call handle
/// @return MCP_OK, MCP_S_ALREADY_DONE where it is over or cancelled
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_call_cancel(call: *mut mcp_call) -> mcp_status {
    status(Function::mcp_call_cancel, || {
        let cancelled = get::<Call>(call)?.object.cancel(crate::cancel::Why::Host);
        Ok(if cancelled { MCP_OK } else { MCP_S_ALREADY_DONE })
    })
}

/// The number of a call: the CALL_ID of its events; unique for its client.
///
/// @param call  a call handle
/// @return above 0, or a negative status
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_call_id(call: *const mcp_call) -> i64 {
    value(Function::mcp_call_id, || Ok(get::<Call>(call)?.object.id()), i64::from)
}

/// Where a call stands.
///
/// @param call  a call handle
/// @return MCP_S_PENDING, MCP_OK, MCP_S_TASK, or its error's status; MCP_E_HANDLE
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_call_status(call: *const mcp_call) -> mcp_status {
    status(Function::mcp_call_status, || Ok(get::<Call>(call)?.object.end().as_ref().map_or(MCP_S_PENDING, end_status)))
}

/// Hand out the result of a call.
///
/// @param call  a call handle
/// @param out   receives an immutable result of your own, or NULL; not NULL itself
/// @return MCP_OK, MCP_S_PENDING while there is none yet, MCP_S_NONE where there will be none; MCP_E_SCHEMA where the
///         result does not match its tool's outputSchema: *out is written all the same
/// Ownership: free *out with mcp_result_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_call_result(call: *const mcp_call, out: *mut *mut mcp_result) -> mcp_status {
    status(Function::mcp_call_result, || {
        // SAFETY: NULL or writable, by the contract of this function.
        let out = unsafe { self::out(out, std::ptr::null_mut()) }?;
        let end = get::<Call>(call)?.object.end();
        let Some(end) = end else {
            return Ok(MCP_S_PENDING);
        };
        let there = put_some(out, end.result().cloned())?;
        match end {
            CallEnd::Unfit(_, error) => Err(error),
            CallEnd::Result(_) | CallEnd::Task | CallEnd::Failed(_) => Ok(there),
        }
    })
}

/// Hand out the error that a call ended with.
///
/// @param call  a call handle
/// @param out   receives an error of your own, or NULL; not NULL itself
/// @return MCP_OK, MCP_S_PENDING while it runs, MCP_S_NONE where it did not fail. MCP_E_SCHEMA in the error tells of a
///         result that does not match: mcp_call_result() has it
/// Ownership: free *out with mcp_error_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_call_error(call: *const mcp_call, out: *mut *mut mcp_error) -> mcp_status {
    status(Function::mcp_call_error, || {
        // SAFETY: NULL or writable, by the contract of this function.
        let out = unsafe { self::out(out, std::ptr::null_mut()) }?;
        let end = get::<Call>(call)?.object.end();
        let Some(end) = end else {
            return Ok(MCP_S_PENDING);
        };
        put_some(out, end.error().cloned().map(Arc::new))
    })
}

/// Hand out the task that a call was answered with.
///
/// @param call  a call handle
/// @param out   receives a task handle of your own, or NULL; not NULL itself
/// @return MCP_OK, MCP_S_NONE where there is none (yet)
/// Ownership: free *out with mcp_task_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_call_task(call: *const mcp_call, out: *mut *mut mcp_task) -> mcp_status {
    status(Function::mcp_call_task, || {
        // SAFETY: NULL or writable, by the contract of this function.
        let out = unsafe { self::out(out, std::ptr::null_mut()) }?;
        let task = get::<Call>(call)?.object.task();
        put_some(out, task)
    })
}

/// Hand out the open questions of a call, as a JSON array of {key, method, params}.
///
/// @param call  a call handle
/// @param out   receives a text of your own; not NULL
/// @return MCP_OK, MCP_E_HANDLE
/// Ownership: free *out with mcp_text_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_call_inputs(call: *const mcp_call, out: *mut *mut mcp_text) -> mcp_status {
    // SAFETY: `out` is NULL or writable, by the contract of this function.
    unsafe {
        text_out(Function::mcp_call_inputs, out, || {
            Ok(write_questions(get::<Call>(call)?.object.questions().iter().map(|one| (one, false))))
        })
    }
}

/// Answer questions of a call by their keys; the call goes on once all are answered (spec: basic/patterns/mrtr).
///
/// @param call       a call handle
/// @param responses  {"key": {response}, ...}; a response is e.g. {"action":"accept","content":{...}} for elicitation,
///                   the whole result for sampling and roots
/// @param length     its length in bytes
/// @return MCP_OK, MCP_S_ALREADY_DONE where all of them were answered or nothing is asked, MCP_E_ARGUMENT for an unknown key
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_call_answer(call: *mut mcp_call, responses: *const c_char, length: usize) -> mcp_status {
    status(Function::mcp_call_answer, || {
        // SAFETY: NULL or readable for its length, by the contract of this function.
        let answers = read_answers(unsafe { text_in(responses, length, "responses") }?)?;
        let accepted = get::<Call>(call)?.object.answer(answers)?;
        Ok(if accepted { MCP_OK } else { MCP_S_ALREADY_DONE })
    })
}

/// Give up a call's name. The call goes on; its end comes as an event.
///
/// @param call  a call handle, or NULL
/// @return MCP_OK, MCP_E_HANDLE where it was freed before
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_call_free(call: *mut mcp_call) -> mcp_status {
    fine(Function::mcp_call_free, || free::<Call>(call).map(drop))
}

unsafe fn tool_request(name: *const c_char, arguments: *const c_char, length: usize) -> Result<Request> {
    // SAFETY: the pointers are as the caller's contract says.
    let (name, arguments) = unsafe { (name_in(name, "name")?, text_in(arguments, length, "arguments")?) };
    if name.is_empty() {
        return Err(Error::new(Kind::Argument, "name is empty"));
    }
    let arguments = Json::parse(if arguments.is_empty() { "{}" } else { arguments })
        .map_err(|fault| Error::new(Kind::Argument, format!("arguments: {}", fault.message())))?;
    if !arguments.is_object() {
        return Err(Error::new(Kind::Argument, "arguments: expected a JSON object"));
    }
    Ok(Request::tool(name, &arguments))
}

unsafe fn any_request(method: *const c_char, params: *const c_char, length: usize) -> Result<Request> {
    // SAFETY: the pointers are as the caller's contract says.
    let (method, params) = unsafe { (name_in(method, "method")?, text_in(params, length, "params")?) };
    if method.is_empty() {
        return Err(Error::new(Kind::Argument, "method is empty"));
    }
    Request::new(method, if params.is_empty() { "{}" } else { params })
}

fn run(
    client: &Arc<Client>,
    request: Request,
    options: CallOptions,
    wait_ms: i64,
    out: &mut *mut mcp_call,
) -> Result<mcp_status> {
    let call = Call::run(client, request, options, wait_from_ms(client.clock().as_ref(), wait_ms))?;
    *out = put(call.clone())?;
    let now = Deadline::At(client.clock().now(), crate::clock::Budget::Wait);
    match call.wait(now) {
        // A call that is waited for ends with its task for one reason only.
        Some(CallWait::Over(CallEnd::Task)) => waited(Some(CallWait::InputRequired)),
        wait => waited(wait),
    }
}

fn waited(wait: Option<CallWait>) -> Result<mcp_status> {
    match wait {
        None => Ok(MCP_S_TIMEOUT),
        Some(CallWait::InputRequired) => {
            Err(Error::new(Kind::InputRequired, "the server asks something that the host answers by hand"))
        }
        Some(CallWait::Over(CallEnd::Failed(error) | CallEnd::Unfit(_, error))) => Err(error),
        Some(CallWait::Over(end)) => Ok(end_status(&end)),
    }
}

/// The status of an end.
pub(super) fn end_status(end: &CallEnd) -> mcp_status {
    match end {
        CallEnd::Result(_) => MCP_OK,
        CallEnd::Task => MCP_S_TASK,
        CallEnd::Failed(error) | CallEnd::Unfit(_, error) => error.kind().status(),
    }
}

/// Hands out an object that may be absent, and says so.
pub(super) fn put_some<T: Named>(out: &mut *mut T::C, object: Option<Arc<T>>) -> Result<mcp_status> {
    let Some(object) = object else {
        return Ok(MCP_S_NONE);
    };
    *out = put(object)?;
    Ok(MCP_OK)
}
