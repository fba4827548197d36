/*
 * mcpnative: an MCP (Model Context Protocol) client for native software.
 *
 * This file is made from the sources of the library; tests hold the two together. Licence: MIT OR Apache-2.0.
 *
 * ---- The short of it ------------------------------------------------------------------------------------------------
 *
 *   mcp_client *client = NULL;  mcp_call *call = NULL;  mcp_result *result = NULL;
 *   const char *settings = "{\"url\": \"http://127.0.0.1:8080/mcp\"}";
 *   if (mcp_client_new(settings, strlen(settings), &client) == MCP_OK && mcp_client_open(client) == MCP_OK
 *       && mcp_tool_run(client, "add", "{\"a\":1,\"b\":2}", 13, NULL, 0, 60000, &call) == MCP_OK
 *       && mcp_call_result(call, &result) == MCP_OK)
 *       printf("%s\n", mcp_result_text(result, MCP_RESULT_TEXT, NULL));   (NULL where the tool sent no text)
 *   mcp_result_free(result);  mcp_call_free(call);  mcp_client_free(client);  mcp_shutdown(-1);
 *
 * ---- Rules that hold everywhere -------------------------------------------------------------------------------------
 *
 * Status.    Every function that can fail returns an mcp_status: 0 fine, > 0 fine but notable, < 0 a failure whose
 *            details mcp_last_error() hands out on the same thread. Failures of asynchronous work are on the call, the
 *            task or the event. Every function may return MCP_E_HANDLE, MCP_E_FORKED, MCP_E_PANIC and MCP_E_MEMORY;
 *            those that take text MCP_E_ARGUMENT and MCP_E_UTF8; those that may wait MCP_E_REENTRANT.
 * Handles.   A handle is a key, never an address. NULL, a freed handle or one of another kind is MCP_E_HANDLE. Each
 *            handle has one _free; free(NULL) is fine, freeing twice is an error code. A child keeps what it needs of
 *            its client: freeing the client first is legal.
 * Text in.   UTF-8. With a length: NULL is allowed where it is 0. Without: NUL-terminated. Copied before the call returns.
 * Text out.  UTF-8, NUL-terminated, its length without the NUL where you ask for it (a text may have a NUL inside).
 *            It lives as long as the object that it came from: never free a string.
 * Outputs.   Cleared first, written on success; with MCP_E_SCHEMA the result is there as well.
 * Threads.   Any function from any thread, unless its comment says otherwise.
 * Times.     In ms: 0 does not wait, -1 has no limit.
 * Sizes.     In bytes.
 *
 * ---- Callbacks ------------------------------------------------------------------------------------------------------
 *
 *  1. Never inline: no function of this library calls back before it returns, but mcp_queue_dispatch() and a blocking
 *     wait on the thread that serves a manual queue.
 *  2. By default a thread of the library delivers: the events of a client one at a time, in order, no lock held.
 *  3. With a manual queue, only inside mcp_queue_dispatch(), or inside a blocking wait on the thread that serves it.
 *  4. Functions whose comment says "Callbacks: safe" may be called inside; those that may wait answer MCP_E_REENTRANT.
 *  5. _close and _free never block; inside a callback they are fine.
 *  6. The destroy function comes once, after the last delivery. It is the only proof that user data is idle.
 *  7. Each started call ends once, each task has one terminal event.
 *  8. A callback returns normally: no exception, no longjmp, no end of the thread.
 *  9. mcp_client_wait_closed() returns MCP_OK only after the last destroy function has returned.
 * 10. The queue of a client is bounded (settings.queue_limit): beyond it progress, log, notification and task status
 *     events give way to later ones of the same source; created, question and terminal events are never dropped.
 *     A wait may return before the event that says the same.
 *
 * ---- Settings (mcp_client_new) --------------------------------------------------------------------------------------
 *
 * One JSON object, read strictly: an unknown key or a wrong type is MCP_E_ARGUMENT with the key's name.
 *
 *   url             the MCP endpoint, http or https; unix:///path, a Unix socket; on Windows pipe:name,
 *                   the named pipe \\.\pipe\name (or pipe://./name; of this machine alone); stream:name, a
 *                   channel of your own (mcp_client_set_stream)                      (or command, or server)
 *   headers         {"Name": "value"}: sent with each request (http)                          {}
 *   proxy           "env": HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, and NO_PROXY, as they stand in mcp_client_new();
 *                   "none"; or a URL, http://user:password@host:port (https:// speaks TLS to the
 *                   proxy; no socks). https goes through a tunnel (CONNECT), http as a request
 *                   to the proxy, which looks the server's name up                             "env"
 *   no_proxy        an array of hosts that are reached without it, instead of NO_PROXY: names
 *                   (with all below them), addresses, networks (10.0.0.0/8), with a port or
 *                   without, or "*". Nothing else is, not even localhost                       (NO_PROXY)
 *   tls             https; files are read and checked by mcp_client_new():
 *     ca_file       certificates (PEM) of authorities of your own; or ca_pem, the text        (none)
 *     roots         beside those: "platform", the system's; or "only" yours                   "platform"
 *     client_cert_file, client_key_file  your certificate with its chain, and its key (PEM: PKCS#8, SEC1,
 *                   PKCS#1, not encrypted); or client_cert_pem, client_key_pem, the texts     (none)
 *     server_name   the name that the certificate must have, instead of the URL's host        (the host)
 *   redirects       "same_origin": 307 and 308 are followed there with method, body and headers, 5 in
 *                   a row at most; any other is MCP_E_HTTP and named; or "none"               "same_origin"
 *   command         instead of url: a local server, started as a child process: a program on the
 *                   PATH, or with a path. No shell sees it                                    (none)
 *   args            its arguments, an array of strings                                        []
 *   env             {"NAME": "value"}: added to its environment, which otherwise has the usual names
 *                   alone (PATH, HOME, LANG, TMPDIR, ...; on Windows SystemRoot, APPDATA, ...)  {}
 *   inherit_env     give it all of your environment, secrets included                         false
 *   cwd             its working directory                                                     (yours)
 *   restart         a server that ended is started (a socket, a pipe connected) again by the next request:
 *     max             so often at most within the window; 0 for never                         5
 *     window_ms                                                                               60000
 *     backoff_ms      the wait before the second restart of a window; it doubles              500
 *     max_backoff_ms  the longest wait                                                        10000
 *   server          instead of these: an mcpServers entry as other MCP hosts write it ("type", "url", "headers",
 *                   "command", "args", "env", "cwd"); keys that are not known there only warn
 *   identity        the name of the server in the ledger: the same task id of two servers never mixes. Give one where
 *                   the URL or the command line may change                        (the URL without user and query)
 *   client          {"name", "version", "title"}: what the server is told of your program
 *   era             "auto" (the server's first answers tell), "modern" or "legacy": what MCP_SERVER_ERA
 *                   told in an earlier run may be given back here; a legacy server is then not probed.
 *                   Where it is wrong, opening ends with MCP_E_VERSION: open with "auto" then      "auto"
 *   timeouts        ms, -1 for no limit:
 *     connect_ms    making a connection                                                       15000
 *     probe_ms      opening: asking the server who it is                                      10000
 *     idle_ms       silence while an answer is awaited; every byte of it starts anew, but no progress of
 *                   another request (progress is asked for wherever there is this limit)      60000
 *     total_ms      a whole call; time in which a question is open does not count             300000
 *     close_ms      closing: a mcp_task_cancel() that has not reached the server yet; then each step of a
 *                   child's end (its input ends, a soft signal; then all that it started is killed)  2000
 *   limits          sizes; over one, the call ends with MCP_E_TOO_LARGE:
 *     message_bytes       one message                                                         67108864
 *     sse_event_bytes     one event of a stream                                               67108864
 *     stdio_line_bytes    one line of a child process, a socket or a stream of yours          67108864
 *     header_bytes        the head of an HTTP answer                                          65536
 *     pages               pages of one list                                                   1000
 *     nesting             depth of arrays and objects                                         128
 *     input_rounds        rounds of questions in one call                                     10
 *     input_requests      questions that are open at once, of a call or of a task             256
 *     cache_entries       answers that are kept (call option cache); 0 keeps none. Over this limit or the next
 *                         no call ends: what was used least goes                                  1000
 *     cache_bytes         their texts together                                                    16777216
 *   tasks           how long jobs are followed:
 *     enabled       whether the server may answer a tool call with a task                     true
 *     auto_poll     whether tasks are polled by themselves                                    true
 *     push          where the server offers it, it tells of tasks by itself (subscriptions/listen), and polls are
 *                   at least 30 s apart; without, or with auto_poll false, they are only polled  true
 *     min_poll_ms   your own least time between polls; the server's wish counts where it is
 *                   longer, and it is never below 100 ms                                      0
 *     ttl           when the time to live has passed: "follow" on, or "stop"                  "follow"
 *     cancel        after mcp_task_cancel(): "follow" to the real end, or "let_go"            "follow"
 *     keep_ms       how long a server of 2025-11-25 is asked to keep a task and its result; it may
 *                   decide otherwise                                              (the server's own time)
 *     refused       a question that you refuse and that has no form of refusal:
 *                   "cancel" the task, or let it "wait"                                       "cancel"
 *     ledger        where tasks are stored, so that none is lost:
 *       file          an SQLite file, made where there is none, for your user alone. Opened with the client, which
 *                     FAILS with MCP_E_LEDGER where that is not possible. Several clients and processes may share it:
 *                     each task is followed by one of them. After a crash the next one goes on. The files beside it
 *                     that end in -wal and -shm are a part of it                              (the process's memory)
 *       keep_results  whether a result is stored until mcp_task_acknowledge(); without, the next process asks the server
 *                     for it once more                                                          true
 *       keep_ended    ended tasks that are kept; acknowledged ones go first             10000 (in memory: 1000)
 *       keep_ms       how long they are kept (in a file)                                        2592000000
 *       lease_ms      a process that gave no sign of life for so long counts as dead (one that has ended is
 *                     noticed at once where the system can tell)                                15000
 *   input           who answers the server's questions: {"elicitation", "sampling", "roots"}, each
 *                   "handler" (the one registered), "manual" (by mcp_call_answer() and mcp_task_update();
 *                   a wait returns MCP_E_INPUT_REQUIRED) or "refuse": the server is told that nobody can be asked, and
 *                   some tools then fail (error -32021)                        handler where there is one, else refuse
 *   extensions      {"com.example/name": {settings}}: declared to the server                  {}
 *   max_in_flight   calls started by _call and _start that run at once; more wait their turn  256
 *   queue_limit     events that may wait (and 64 MiB of their texts)                          10000
 *   log_level       the least level of the server's log messages: "debug" to "emergency"      (none asked for)
 *   validate        a tool's result that does not match the outputSchema that a tools/list of this client
 *                   told of: "error" (the call ends with MCP_E_SCHEMA, the result is at hand all the same),
 *                   "warn" (a line in the log) or "off". Nothing is listed just to know a schema; results
 *                   with isError are not checked                                              "error"
 *   record          writes down what is sent and received, a JSON line each, for you and for replay:
 *     file          made for its owner alone (0600); where it is there, this record comes behind what is in it.
 *                   Its path is yours to guard: it holds all that passes but the headers of these settings, whose
 *                   values are masked wherever they stand, and the names of sessions                 (none)
 *     max_bytes     where it would grow over this, or cannot be written, the record ends with one
 *                   MCP_EVENT_ERROR; the connection goes on                                   67108864
 *   replay          instead of url, command and server: {"file": path}, whose newest record is played
 *                   as the server, without a network and without its delays. A request gets what the next
 *                   recorded one of its method and name got; one that is not in it is MCP_E_MALFORMED. What a
 *                   server over a channel said outside of any request is not in a record           (none)
 *
 * ---- Call options (mcp_tool_call, mcp_tool_run, mcp_call_start, mcp_call_run) -----------------------------------------
 *
 *   tool_call_id    the model's id of the call; kept with the task
 *   context         any JSON of yours; kept with the task
 *   total_ms, idle_ms                    instead of those of the settings
 *   meta            members for the request's _meta (traceparent, progressToken, ...)
 *   task            false: the server must not make a task of the call                        true
 *   auto_poll, min_poll_ms, keep_ms      for the task, instead of those of the settings
 *   keep_result     false for a private result: the ledger does not store it    tasks.ledger.keep_results
 *   all_pages       for list methods: all pages as one result                                 false
 *   cache           whether a kept answer to the same request will do (list methods, resources/read and
 *                   server/discover; others are asked each time). What the server says has changed is
 *                   never kept, nor are errors, questions and their answers. The cache is this
 *                   client's alone, whatever the answer's cacheScope:                         "server"
 *                     "server"         for as long as the answer's own ttlMs says
 *                     "until_changed"  lists and resources are good, whatever their ttlMs, until the server
 *                                      tells a change or the session is lost
 *                     "refresh"        ask the server, and keep the new answer for both
 *                     "off"            ask the server, and keep nothing
 *   validate        instead of that of the settings
 *
 * ---- Subscriptions (mcp_call_start of subscriptions/listen) -----------------------------------------------------------
 *
 * A call that lasts, with a thread of its own (64 of a client at most; not counted by max_in_flight). Its params:
 * {"notifications": {"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
 * "resourceSubscriptions": ["uri", ...], "taskIds": [...]}}, as far as you want them. A legacy server serves the same
 * call as far as it can. What it hears comes as MCP_EVENT_NOTIFICATION with its call, where it stands as
 * MCP_EVENT_SUBSCRIPTION. It has no limits of time unless its options give some: total_ms ends it, idle_ms counts a
 * silent stream as lost. A stream that is cut is opened again after 500 ms, doubling up to a minute (mcp_client_poke
 * ends the pause); a refusal, the server's own end, mcp_call_cancel() and the client's close end it.
 */

#ifndef MCPNATIVE_H
#define MCPNATIVE_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32) && !defined(MCP_STATIC)
#define MCP_API __declspec(dllimport)
#elif defined(__GNUC__)
#define MCP_API __attribute__((visibility("default")))
#else
#define MCP_API
#endif


/**
 * The version of this ABI: the number in the library's soname. Wrappers refuse to load another.
 */
#define MCP_ABI_VERSION 1

/**
 * Log level: a fault of the library, or of its use.
 */
#define MCP_LOG_ERROR 1

/**
 * Log level: something that a server did wrong and the library passed over.
 */
#define MCP_LOG_WARN 2

/**
 * Log level: the large steps.
 */
#define MCP_LOG_INFO 3

/**
 * Log level: the small steps.
 */
#define MCP_LOG_DEBUG 4

/**
 * Text field: one line for a person, lower case, without secrets.
 */
#define MCP_ERROR_MESSAGE 1

/**
 * Text field: the message of the server's JSON-RPC error.
 */
#define MCP_ERROR_RPC_MESSAGE 2

/**
 * Text field: the data of the server's JSON-RPC error, as JSON.
 */
#define MCP_ERROR_RPC_DATA 3

/**
 * Text field: the end of what the server's process said on its standard error (16 KiB at most), where its end is the
 * reason.
 */
#define MCP_ERROR_STDERR 4

/**
 * Text field: the failure as a tool result, JSON with isError and the message as its text: what a chat loop hands to its
 * model for a call that failed in whatever way, so that the conversation goes on.
 */
#define MCP_ERROR_TOOL_RESULT 8

/**
 * Number field: the mcp_status.
 */
#define MCP_ERROR_STATUS 1

/**
 * Number field: the code of the server's JSON-RPC error.
 */
#define MCP_ERROR_RPC_CODE 2

/**
 * Number field: the HTTP status.
 */
#define MCP_ERROR_HTTP_STATUS 3

/**
 * Number field: 1 where the same request may be sent again without the risk of acting twice, else 0.
 */
#define MCP_ERROR_RETRY_SAFE 4

/**
 * Number field: how long the server asks to wait, in ms.
 */
#define MCP_ERROR_RETRY_AFTER_MS 5

/**
 * Number field: the exit code of the server's process.
 */
#define MCP_ERROR_EXIT_CODE 6

/**
 * Number field: the signal that ended the server's process.
 */
#define MCP_ERROR_EXIT_SIGNAL 7

/**
 * State of a client: made, not opened.
 */
#define MCP_STATE_NEW 0

/**
 * State of a client: the server is being asked who it is.
 */
#define MCP_STATE_OPENING 1

/**
 * State of a client: calls are answered.
 */
#define MCP_STATE_READY 2

/**
 * State of a client: the end has begun.
 */
#define MCP_STATE_CLOSING 3

/**
 * State of a client: over.
 */
#define MCP_STATE_CLOSED 4

/**
 * State of a client: opening failed; it may be tried again.
 */
#define MCP_STATE_FAILED 5

/**
 * For mcp_client_on() alone: every kind that has no handler of its own.
 */
#define MCP_EVENT_ANY 0

/**
 * The client's state changed: number STATE; error where it FAILED.
 */
#define MCP_EVENT_STATE 1

/**
 * A call is over: call, number CALL_ID and STATUS; error where it failed; task where it was answered with one. Not for
 * calls made by mcp_tool_run() and mcp_call_run(), whose caller has the end in hand; their other events come all the same.
 */
#define MCP_EVENT_CALL_DONE 2

/**
 * A call makes progress: call, number CALL_ID, text JSON (params of notifications/progress).
 */
#define MCP_EVENT_PROGRESS 3

/**
 * The server logs: text JSON (params of notifications/message), number CALL_ID.
 */
#define MCP_EVENT_LOG_MESSAGE 4

/**
 * Another notification of the server's: text METHOD and JSON (params).
 */
#define MCP_EVENT_NOTIFICATION 5

/**
 * A task exists and is in the ledger: task, snapshot, number CALL_ID. Comes before the MCP_EVENT_CALL_DONE of its call.
 */
#define MCP_EVENT_TASK_CREATED 6

/**
 * A task's status, message or open questions changed: task, snapshot.
 */
#define MCP_EVENT_TASK_STATUS 7

/**
 * A task ended; the one terminal event of it: task, snapshot with its REASON.
 */
#define MCP_EVENT_TASK_DONE 8

/**
 * A task's time to live has passed; it is followed on: task, snapshot.
 */
#define MCP_EVENT_TASK_OVERDUE 9

/**
 * A task's polls fail; it is followed on: task, snapshot, error.
 */
#define MCP_EVENT_TASK_DEGRADED 10

/**
 * A task's polls answer again: task, snapshot.
 */
#define MCP_EVENT_TASK_RECOVERED 11

/**
 * The server asks the user (elicitation): input; task or call, or neither (a legacy server).
 */
#define MCP_EVENT_ELICITATION 12

/**
 * The server asks the host's model (sampling): input; task or call, or neither (a legacy server).
 */
#define MCP_EVENT_SAMPLING 13

/**
 * The server asks for the host's roots: input; task or call, or neither (a legacy server).
 */
#define MCP_EVENT_ROOTS 14

/**
 * A question needs no answer any more: input; task or call.
 */
#define MCP_EVENT_INPUT_WITHDRAWN 15

/**
 * Something failed that no call can report: error; task and snapshot where it is about one.
 */
#define MCP_EVENT_ERROR 16

/**
 * A task of an earlier process, or one named by its id, is followed from now on: task, snapshot. Where the ledger holds
 * its end already, MCP_EVENT_TASK_DONE follows at once, with a snapshot that is REPEATED.
 */
#define MCP_EVENT_TASK_RESUMED 17

/**
 * A subscription (mcp_call_start() of subscriptions/listen) stands elsewhere now: call, number CALL_ID and SUBSCRIPTION.
 */
#define MCP_EVENT_SUBSCRIPTION 18

/**
 * State of a subscription: the server acknowledged it; text JSON is the filter that it granted, maybe less than you asked.
 */
#define MCP_SUBSCRIPTION_ACTIVE 1

/**
 * State of a subscription: its stream is gone: error; it is opened again in text JSON's retry_ms.
 */
#define MCP_SUBSCRIPTION_LOST 2

/**
 * State of a subscription: active again (text JSON as with ACTIVE), after a gap: look again at what you follow.
 */
#define MCP_SUBSCRIPTION_CATCH_UP 3

/**
 * State of a subscription: over, by its server, by its error, or by you; MCP_EVENT_CALL_DONE follows.
 */
#define MCP_SUBSCRIPTION_ENDED 4

/**
 * Number of a client: the generation of the server's list of tools, from 1.
 */
#define MCP_CLIENT_TOOLS_GENERATION 1

/**
 * Number of a client: the generation of its list of prompts.
 */
#define MCP_CLIENT_PROMPTS_GENERATION 2

/**
 * Number of a client: the generation of its lists of resources and resource templates.
 */
#define MCP_CLIENT_RESOURCES_GENERATION 3

/**
 * Text field: "modern" (per-request metadata) or "legacy" (initialize).
 */
#define MCP_SERVER_ERA 1

/**
 * Text field: the protocol version in use.
 */
#define MCP_SERVER_VERSION 2

/**
 * Text field: name and version of the server's software, as JSON; NULL where it does not say.
 */
#define MCP_SERVER_INFO 3

/**
 * Text field: the server's advice for a model; NULL where there is none.
 */
#define MCP_SERVER_INSTRUCTIONS 4

/**
 * Text field: the server's capabilities, as JSON.
 */
#define MCP_SERVER_CAPABILITIES 5

/**
 * Text field: the whole result, as JSON, byte for byte as the server sent it.
 */
#define MCP_RESULT_JSON 1

/**
 * Text field: the texts of the text blocks, joined by line feeds; NULL where there is no text block.
 */
#define MCP_RESULT_TEXT 2

/**
 * Text field: structuredContent, as JSON; NULL where there is none.
 */
#define MCP_RESULT_STRUCTURED 3

/**
 * Kind of block: none that this version knows; its JSON is there.
 */
#define MCP_BLOCK_OTHER 0

/**
 * Kind of block: text.
 */
#define MCP_BLOCK_TEXT 1

/**
 * Kind of block: an image.
 */
#define MCP_BLOCK_IMAGE 2

/**
 * Kind of block: a sound.
 */
#define MCP_BLOCK_AUDIO 3

/**
 * Kind of block: a link to a resource.
 */
#define MCP_BLOCK_RESOURCE_LINK 4

/**
 * Kind of block: a resource embedded, text or binary.
 */
#define MCP_BLOCK_RESOURCE 5

/**
 * mcp_task_wait_many(): until one of the tasks has ended.
 */
#define MCP_WAIT_ANY 1

/**
 * mcp_task_wait_many(): until all have.
 */
#define MCP_WAIT_ALL 2

/**
 * Text field: the server's id of the task.
 */
#define MCP_SNAPSHOT_TASK_ID 1

/**
 * Text field: the tool that was called; empty for a task taken up by its id.
 */
#define MCP_SNAPSHOT_TOOL 2

/**
 * Text field: the server's words about the status; NULL where there are none.
 */
#define MCP_SNAPSHOT_MESSAGE 3

/**
 * Text field: createdAt as sent (ISO 8601); NULL where it was not.
 */
#define MCP_SNAPSHOT_CREATED_AT 4

/**
 * Text field: lastUpdatedAt as sent (ISO 8601); NULL where it was not.
 */
#define MCP_SNAPSHOT_UPDATED_AT 5

/**
 * Text field: the tool_call_id of the call's options; NULL where there was none.
 */
#define MCP_SNAPSHOT_TOOL_CALL_ID 6

/**
 * Text field: the context of the call's options, as JSON; NULL where there was none.
 */
#define MCP_SNAPSHOT_CONTEXT 7

/**
 * Text field: the open questions, as a JSON array of {key, method, params}.
 */
#define MCP_SNAPSHOT_INPUTS 8

/**
 * Text field: the last answer of the server, as JSON, byte for byte as sent (of a task of 2025-11-25: in the words of the
 * extension, with its result, error and questions in it); NULL before the first.
 */
#define MCP_SNAPSHOT_JSON 9

/**
 * Text field: what the server offers as a tool result for the model until the task has ended (2025-11-25,
 * io.modelcontextprotocol/model-immediate-response); NULL where it offers nothing.
 */
#define MCP_SNAPSHOT_IMMEDIATE_RESPONSE 10

/**
 * Text field: progress in words: a JSON array of {status, message, last_updated_at}, one entry for each change that was
 * seen, oldest first; the latest 32, messages cut at 1 KiB.
 */
#define MCP_SNAPSHOT_HISTORY 12

/**
 * Text field: the end of the task as a tool result, JSON: the tool's own, or one with isError and a text that says how the
 * task ended; NULL where it has not ended.
 */
#define MCP_SNAPSHOT_TOOL_RESULT 13

/**
 * Number field: MCP_TASK_...; a task that ended as expired or unknown reads as MCP_TASK_FAILED, one that ended as closed
 * as it last stood: whether it has ended says REASON.
 */
#define MCP_SNAPSHOT_STATUS 1

/**
 * Number field: MCP_REASON_..., why it ended.
 */
#define MCP_SNAPSHOT_REASON 2

/**
 * Number field: how long the server keeps it, in ms from its creation; -1 without limit; absent where not told.
 */
#define MCP_SNAPSHOT_TTL_MS 3

/**
 * Number field: the server's wish for the time between polls, in ms; absent where not told.
 */
#define MCP_SNAPSHOT_POLL_INTERVAL_MS 4

/**
 * Number field: when the next poll is due, in ms from now, 0 when it is; absent where none will be.
 */
#define MCP_SNAPSHOT_NEXT_POLL_MS 5

/**
 * Number field: 1 where its time to live has passed, else 0.
 */
#define MCP_SNAPSHOT_OVERDUE 6

/**
 * Number field: 1 where the task has ended and its end comes from the ledger: an earlier process, or an earlier look, may
 * have told it already; else 0.
 */
#define MCP_SNAPSHOT_REPEATED 7

/**
 * Status of a task: the server is at work.
 */
#define MCP_TASK_WORKING 1

/**
 * Status of a task: the server waits for answers.
 */
#define MCP_TASK_INPUT_REQUIRED 2

/**
 * Status of a task: there is a result.
 */
#define MCP_TASK_COMPLETED 3

/**
 * Status of a task: it failed, or is lost.
 */
#define MCP_TASK_FAILED 4

/**
 * Status of a task: it was cancelled.
 */
#define MCP_TASK_CANCELLED 5

/**
 * Reason: the task has not ended.
 */
#define MCP_REASON_NONE 0

/**
 * Reason: the server has a result.
 */
#define MCP_REASON_COMPLETED 1

/**
 * Reason: the server tells of an error.
 */
#define MCP_REASON_FAILED 2

/**
 * Reason: the server cancelled the work.
 */
#define MCP_REASON_CANCELLED 3

/**
 * Reason: its time to live has passed and the server no longer knows it.
 */
#define MCP_REASON_EXPIRED 4

/**
 * Reason: the server does not know it.
 */
#define MCP_REASON_UNKNOWN 5

/**
 * Reason: the client went away, or the host let it go; the server goes on.
 */
#define MCP_REASON_CLOSED 6

/**
 * Text field: the params of a notification, as JSON; of a MCP_EVENT_SUBSCRIPTION what its state says.
 */
#define MCP_EVENT_TEXT_JSON 1

/**
 * Text field: the method of a notification.
 */
#define MCP_EVENT_TEXT_METHOD 2

/**
 * Number field: the id of the call that it is about.
 */
#define MCP_EVENT_NUMBER_CALL_ID 1

/**
 * Number field: the client's new state, MCP_STATE_...
 */
#define MCP_EVENT_NUMBER_STATE 2

/**
 * Number field: the mcp_status that a call ended with.
 */
#define MCP_EVENT_NUMBER_STATUS 3

/**
 * Number field: where a subscription stands now, MCP_SUBSCRIPTION_...
 */
#define MCP_EVENT_NUMBER_SUBSCRIPTION 4

/**
 * Kind of question: a form or a URL for the user (elicitation/create; spec: client/elicitation).
 */
#define MCP_INPUT_ELICITATION 1

/**
 * Kind of question: a completion by the host's model (sampling/createMessage; spec: client/sampling).
 */
#define MCP_INPUT_SAMPLING 2

/**
 * Kind of question: the folders that the host opens to the server (roots/list; spec: client/roots).
 */
#define MCP_INPUT_ROOTS 3

/**
 * Text field: the server's key of the question.
 */
#define MCP_INPUT_KEY 1

/**
 * Text field: the method, as in "elicitation/create".
 */
#define MCP_INPUT_METHOD 2

/**
 * Text field: the params of the question, as JSON.
 */
#define MCP_INPUT_PARAMS 3

/**
 * Text field: the message for the user; NULL where there is none.
 */
#define MCP_INPUT_MESSAGE 4

/**
 * Text field: the id of the task that asks; NULL where a call asks, or a legacy server outside any call.
 */
#define MCP_INPUT_TASK_ID 5

/**
 * Number field: the id of the call that asks.
 */
#define MCP_INPUT_CALL_ID 1

/**
 * Number field: 1 where an earlier process may have asked the same question already (a task that was taken up again).
 */
#define MCP_INPUT_REPEATED 2

/**
 * A call.
 */
typedef struct mcp_call mcp_call;

/**
 * A client of one server.
 */
typedef struct mcp_client mcp_client;

/**
 * An error, immutable.
 */
typedef struct mcp_error mcp_error;

/**
 * An event, immutable. The one that a callback gets is borrowed for the callback.
 */
typedef struct mcp_event mcp_event;

/**
 * A question of the server's: elicitation, sampling or roots.
 */
typedef struct mcp_input mcp_input;

/**
 * A manual queue.
 */
typedef struct mcp_queue mcp_queue;

/**
 * A result, immutable.
 */
typedef struct mcp_result mcp_result;

/**
 * What a server said of itself, immutable. Nothing of it is verified: show it, do not trust it.
 */
typedef struct mcp_server mcp_server;

/**
 * A task at one moment, immutable.
 */
typedef struct mcp_snapshot mcp_snapshot;

/**
 * A channel of the host's own, to a server that the host reaches in its own way: a pipe, a socket, a tunnel.
 *
 * What is written is one JSON-RPC message a line, UTF-8, each ended by a line feed, and the same is read
 * (spec: basic/transports/stdio, "Custom transports").
 */
typedef struct mcp_stream mcp_stream;

/**
 * A task (extension io.modelcontextprotocol/tasks).
 */
typedef struct mcp_task mcp_task;

/**
 * An immutable text (JSON) of one's own.
 */
typedef struct mcp_text mcp_text;

/**
 * What a function returns: 0 is fine, above 0 fine but notable, below 0 a failure. The bands say who is at fault:
 * the caller (-1 to -19), transport (-20 to -39), protocol (-40 to -59), the call (-60 to -79), authorization (-80 to
 * -99), the task (-100 to -119), this library (-120 to -139). Numbers are never changed and never reused; new ones
 * may be added, so treat an unknown negative number as a failure of its band.
 */
typedef int32_t mcp_status;

/**
 * Takes a line of the library's log: UTF-8, NUL-terminated, without line feed and without secrets; valid for the call.
 */
typedef void (*mcp_log_fn)(int32_t level, const char *message, size_t length, void *user);

/**
 * Ends user data: called once, after the last call of the function that it belongs to, also where registering that
 * function failed. It must not call the library.
 */
typedef void (*mcp_destroy_fn)(void *user);

/**
 * Takes an event. The event is borrowed for the call: mcp_event_keep() gives a handle of one's own. Runs on the thread
 * that serves the client's queue; must return normally: no exception, no longjmp, no end of the thread.
 */
typedef void (*mcp_event_fn)(mcp_event *event, void *user);

/**
 * Takes bytes for the server: one whole line, valid for the call. Runs on a thread of the library's, one call at a
 * time; it may block while the channel is full. A fault of the channel is told by mcp_stream_end(). Must return
 * normally.
 */
typedef void (*mcp_stream_write_fn)(const char *bytes, size_t length, void *user);

/**
 * The library writes nothing more: close the channel. Comes once, unless mcp_stream_end() came first. Runs where the
 * write function does.
 */
typedef void (*mcp_stream_close_fn)(void *user);

/**
 * Fine.
 */
#define MCP_OK 0

/**
 * This wait ran out; the work goes on.
 */
#define MCP_S_TIMEOUT 1

/**
 * Nothing was left to do: closed, cancelled or answered already.
 */
#define MCP_S_ALREADY_DONE 2

/**
 * Not finished yet.
 */
#define MCP_S_PENDING 3

/**
 * The call was answered with a task, see mcp_call_task().
 */
#define MCP_S_TASK 4

/**
 * There is none: a number is 0, a handle NULL.
 */
#define MCP_S_NONE 5

/**
 * An argument is missing, malformed or out of range.
 */
#define MCP_E_ARGUMENT -1

/**
 * A handle is NULL, freed, or of another kind.
 */
#define MCP_E_HANDLE -2

/**
 * A text is not valid UTF-8.
 */
#define MCP_E_UTF8 -3

/**
 * The object is not in a state that allows this.
 */
#define MCP_E_STATE -4

/**
 * A blocking function was called inside a callback.
 */
#define MCP_E_REENTRANT -5

/**
 * The library was in use before fork(): the child cannot use it.
 */
#define MCP_E_FORKED -6

/**
 * This library or this server does not support what was asked.
 */
#define MCP_E_UNSUPPORTED -7

/**
 * No connection could be made; nothing was sent.
 */
#define MCP_E_CONNECT -20

/**
 * The TLS handshake failed; nothing was sent.
 */
#define MCP_E_TLS -21

/**
 * The connection broke; the same request may be sent again without harm.
 */
#define MCP_E_IO -22

/**
 * The request itself ran out of time.
 */
#define MCP_E_TIMEOUT -23

/**
 * The client is closed.
 */
#define MCP_E_CLOSED -24

/**
 * The server's process ended.
 */
#define MCP_E_CHILD_EXIT -25

/**
 * An HTTP status that is no answer to the request.
 */
#define MCP_E_HTTP -26

/**
 * The request was sent and no answer came: the server may or may not have acted. Never sent again by the library.
 */
#define MCP_E_OUTCOME_UNKNOWN -27

/**
 * The server's bytes are not JSON.
 */
#define MCP_E_PARSE -40

/**
 * The server's JSON is not a valid answer.
 */
#define MCP_E_MALFORMED -41

/**
 * No protocol version is spoken by both sides.
 */
#define MCP_E_VERSION -42

/**
 * The server answered with a JSON-RPC error.
 */
#define MCP_E_RPC -43

/**
 * Something is over a size limit of the settings.
 */
#define MCP_E_TOO_LARGE -44

/**
 * A value does not match its JSON Schema.
 */
#define MCP_E_SCHEMA -45

/**
 * The call was cancelled by the host.
 */
#define MCP_E_CANCELLED -60

/**
 * The server asks something that the host answers by hand; the work goes on once it is answered.
 */
#define MCP_E_INPUT_REQUIRED -61

/**
 * The server asked for input that the host refuses.
 */
#define MCP_E_INPUT_REFUSED -62

/**
 * The server asks for authorization.
 */
#define MCP_E_AUTH_REQUIRED -80

/**
 * Authorization was refused.
 */
#define MCP_E_AUTH_DENIED -81

/**
 * The authorization server could not be found or trusted.
 */
#define MCP_E_AUTH_DISCOVERY -82

/**
 * The task failed.
 */
#define MCP_E_TASK_FAILED -100

/**
 * The task was cancelled.
 */
#define MCP_E_TASK_CANCELLED -101

/**
 * The task outlived its time to live.
 */
#define MCP_E_TASK_EXPIRED -102

/**
 * The server does not know the task.
 */
#define MCP_E_TASK_UNKNOWN -103

/**
 * A panic was caught at the border: a fault of this library, please report it.
 */
#define MCP_E_PANIC -120

/**
 * Memory or another resource of the system ran out.
 */
#define MCP_E_MEMORY -121

/**
 * A fault of this library, please report it.
 */
#define MCP_E_INTERNAL -122

/**
 * The ledger's file cannot be used: locked, not writable, full, damaged, foreign or of a newer version.
 */
#define MCP_E_LEDGER -123

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The ABI version of the loaded library, to be compared with MCP_ABI_VERSION of the header.
 *
 * @return the number; never fails
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API int32_t mcp_abi_version(void);

/**
 * The version of the loaded library, as in "0.1.0".
 *
 * @return a static text, never NULL
 * Ownership: the library's, for ever.   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API const char *mcp_version(void);

/**
 * The name of a status code, as in "MCP_E_ARGUMENT".
 *
 * @param code  any number
 * @return a static text, never NULL; "MCP_UNKNOWN" for a number that this version does not know
 * Ownership: the library's, for ever.   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API const char *mcp_status_name(mcp_status code);

/**
 * Hand out the error of the last failed call of this thread.
 *
 * Each call of a function of this library on a thread first clears that thread's last error, and sets it when it
 * returns a failure. This function does neither. Failures of asynchronous work are not here but on the call, the task
 * or the event.
 *
 * @param out  receives an error of your own, or NULL; not NULL itself
 * @return MCP_OK, or MCP_S_NONE where the last call did not fail
 * Ownership: free *out with mcp_error_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_last_error(mcp_error **out);

/**
 * Close every client and end every thread of the library.
 *
 * The orderly end of a program: call it before exit() and before static destructors run. A later use of the library
 * starts anew. Unloading the library has no effect: it stays in memory until the process ends.
 *
 * @param wait_ms  how long to wait, in ms; -1 without limit
 * @return MCP_OK when every thread has ended, MCP_S_TIMEOUT when some still end by themselves
 * Threads: any, while no other thread is inside the library.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
 */
MCP_API
mcp_status mcp_shutdown(int64_t wait_ms);

/**
 * Set the hook that takes the library's own log lines; one for the process, the newest counts.
 *
 * Lines are delivered in order, one at a time, by a thread of the library, or inside mcp_queue_dispatch() where a queue
 * is given. At most 1024 lines wait; beyond that the oldest are dropped and a line says how many.
 *
 * @param queue    a manual queue, or NULL
 * @param level    MCP_LOG_ERROR to MCP_LOG_DEBUG: lines above it are not made
 * @param fn       the hook, or NULL to remove it
 * @param user     handed to the hook, or NULL
 * @param destroy  ends `user`, or NULL
 * @return MCP_OK, MCP_E_ARGUMENT for an unknown level, MCP_E_HANDLE
 * Ownership: `user` is the library's until `destroy` runs.   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API
mcp_status mcp_log_on(mcp_queue *queue,
                      int32_t level,
                      mcp_log_fn fn,
                      void *user,
                      mcp_destroy_fn destroy);

/**
 * Take the clock of tasks into your hands, for tests: it stands still until mcp_clock_advance() moves it.
 *
 * One clock for the process. What goes by it: when a task is polled, its time to live and MCP_SNAPSHOT_OVERDUE, the
 * pauses after failed polls, how long a server may be out of reach or not know a task, what is told and stored of these,
 * and how long an answer is kept by its ttlMs. What stays with the system's clock: every wait_ms and with it
 * mcp_task_wait(), all of settings.timeouts and settings.restart, total_ms and idle_ms of a call, retries of a request,
 * sockets. A program that never calls this has the system's clock.
 *
 * @return MCP_OK, MCP_S_ALREADY_DONE where it is held already, MCP_E_STATE while there is a client that has not closed
 *         (mcp_client_wait_closed())
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API
mcp_status mcp_clock_hold(void);

/**
 * Move the held clock forward: monotonic time, time since boot and wall time alike.
 *
 * It goes from one due time to the next: whatever fell due is asked, and answered, before time goes on, so that a
 * job that wants a poll each hour gets one for each. When this returns MCP_OK, nothing is under way; events are delivered as
 * ever, by their thread or queue. Where an answer does not come within wait_ms the clock goes to its end without it,
 * what has fallen due meanwhile is handed out once, and MCP_S_TIMEOUT is returned: with a wait_ms of 0 that is all.
 *
 * @param ms       how far, in ms; 0 only waits until nothing is under way
 * @param wait_ms  how long answers are waited for in all, in ms of the system's clock; -1 without limit
 * @return MCP_OK, MCP_S_TIMEOUT, MCP_E_STATE where the clock is not held or another thread moves it, MCP_E_ARGUMENT for an ms below 0 or of more
 *         than 100 years
 * Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
 */
MCP_API
mcp_status mcp_clock_advance(int64_t ms,
                             int64_t wait_ms);

/**
 * Give the clock back to the system.
 *
 * A held clock is held until then, also over mcp_shutdown().
 *
 * @return MCP_OK, MCP_S_ALREADY_DONE where it is not held, MCP_E_STATE while there is a client that has not closed
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_clock_release(void);

/**
 * The text itself.
 *
 * @param text    a text handle
 * @param length  receives its length in bytes without the NUL, or NULL
 * @return UTF-8, NUL-terminated; NULL on a bad handle
 * Ownership: the text's, until mcp_text_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API const char *mcp_text_get(const mcp_text *text, size_t *length);

/**
 * Free a text.
 *
 * @param text  a text handle, or NULL
 * @return MCP_OK, MCP_E_HANDLE where it was freed before
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_text_free(mcp_text *text);

/**
 * Expand a URI template, as resources/templates/list has them (RFC 6570, all four levels; spec: server/resources).
 *
 * @param uri_template  the template, NUL-terminated
 * @param variables     a JSON object: texts, numbers, booleans, arrays and objects of them. What the template does not
 *                      name is passed over; what is absent or null is undefined. NULL with length 0 is {}
 * @param length        its length in bytes
 * @param out           receives a text of your own, the URI; not NULL
 * @return MCP_OK; MCP_E_ARGUMENT naming what is wrong; MCP_E_TOO_LARGE beyond 1 MiB
 * Ownership: free *out with mcp_text_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API
mcp_status mcp_uri_template_expand(const char *uri_template,
                                   const char *variables,
                                   size_t length,
                                   mcp_text **out);

/**
 * Read a text of an error.
 *
 * @param error   an error handle
 * @param field   MCP_ERROR_MESSAGE to MCP_ERROR_TOOL_RESULT
 * @param length  receives the length in bytes without the NUL, or NULL
 * @return UTF-8, NUL-terminated; NULL where there is none, and on a bad handle or field
 * Ownership: the error's, until mcp_error_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API const char *mcp_error_text(const mcp_error *error, int32_t field, size_t *length);

/**
 * Read a number of an error.
 *
 * @param error  an error handle
 * @param field  MCP_ERROR_STATUS to MCP_ERROR_EXIT_SIGNAL
 * @param out    receives the number; not NULL
 * @return MCP_OK, MCP_S_NONE where there is none (the number is 0), MCP_E_ARGUMENT, MCP_E_HANDLE
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_error_number(const mcp_error *error, int32_t field, int64_t *out);

/**
 * Free an error.
 *
 * @param error  an error handle, or NULL
 * @return MCP_OK, MCP_E_HANDLE where it was freed before
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_error_free(mcp_error *error);

/**
 * Make a manual queue: events of its clients are delivered only inside mcp_queue_dispatch(), on the calling thread.
 *
 * One queue may serve many clients. The thread that serves it is the one that dispatched last, at first the one that
 * made it: a blocking function of this library that waits on that thread, outside a callback, serves the queue
 * meanwhile, so that a program with one thread does not stand still.
 *
 * @param out  receives the queue; not NULL
 * @return MCP_OK, MCP_E_MEMORY
 * Ownership: free *out with mcp_queue_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_queue_new(mcp_queue **out);

/**
 * Deliver what waits, on this thread; wait for the first event if there is none.
 *
 * @param queue      a queue handle
 * @param wait_ms    how long to wait for the first event, in ms; 0 does not wait, -1 has no limit
 * @param out_count  receives the number of events delivered, or NULL
 * @return MCP_OK, MCP_S_TIMEOUT where none came: the time ran out, mcp_queue_wake() ended the wait, or a client's end was
 *         all there was to deliver (its destructors have run)
 * Threads: any, one at a time is the sensible number.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
 */
MCP_API
mcp_status mcp_queue_dispatch(mcp_queue *queue,
                              int64_t wait_ms,
                              int32_t *out_count);

/**
 * Hand out the wake-up descriptor of a queue, for the host's own event loop.
 *
 * POSIX: a file descriptor that is readable while events wait (for poll, select, epoll; do not read it). Windows: an
 * event HANDLE that is signalled while events wait. Then call mcp_queue_dispatch(queue, 0, ...).
 *
 * @param queue  a queue handle
 * @param out    receives the descriptor; not NULL
 * @return MCP_OK, MCP_E_HANDLE
 * Ownership: the queue's; never close it.   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_queue_descriptor(mcp_queue *queue, int64_t *out);

/**
 * Make a waiting dispatch return, or the next one that would wait.
 *
 * @param queue  a queue handle
 * @return MCP_OK, MCP_E_HANDLE
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_queue_wake(mcp_queue *queue);

/**
 * Free a queue. Close its clients first: events that still wait are dropped, and the destructors of their clients'
 * callbacks run inside this call.
 *
 * @param queue  a queue handle, or NULL
 * @return MCP_OK, MCP_E_HANDLE where it was freed before
 * Threads: any, but not while another one dispatches it.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_queue_free(mcp_queue *queue);

/**
 * Make a client from its settings. Checks everything and touches nothing: no network, no thread.
 *
 * The settings are a JSON object; see "Settings" at the top of this header. It is read strictly.
 *
 * @param settings  UTF-8 JSON; copied
 * @param length    its length in bytes
 * @param out       receives the client; not NULL
 * @return MCP_OK; MCP_E_ARGUMENT naming what is wrong; MCP_E_UNSUPPORTED for what this version cannot do
 * Ownership: free *out with mcp_client_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_client_new(const char *settings, size_t length, mcp_client **out);

/**
 * Give a client's events to a manual queue. Without it, a thread of the library delivers them.
 *
 * @param client  a client that was never opened
 * @param queue   a queue handle; the client keeps what it needs of it
 * @return MCP_OK, MCP_E_STATE after opening
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_client_set_queue(mcp_client *client, mcp_queue *queue);

/**
 * Register the handler of a kind of events; a second one takes the place of the first.
 *
 * @param client   a client that was never opened
 * @param kind     MCP_EVENT_...; MCP_EVENT_ANY for every kind without a handler of its own
 * @param fn       the handler, or NULL to remove it
 * @param user     handed to the handler, or NULL
 * @param destroy  ends `user` once, after the last delivery, also where registering failed; or NULL
 * @return MCP_OK, MCP_E_ARGUMENT for an unknown kind, MCP_E_STATE after opening
 * Ownership: `user` is the library's until `destroy` runs.   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API
mcp_status mcp_client_on(mcp_client *client,
                         int32_t kind,
                         mcp_event_fn fn,
                         void *user,
                         mcp_destroy_fn destroy);

/**
 * Start opening a client: ask the server who it is and what it can do (server/discover; spec: server/discover).
 *
 * The state goes to OPENING, then to READY or FAILED, each with an event. Calls may be started at once: they wait for
 * the opening within their own time limit. A client that FAILED may be opened again.
 *
 * @param client  a client handle
 * @return MCP_OK, MCP_E_STATE where it is open, MCP_E_CLOSED
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_client_open(mcp_client *client);

/**
 * Wait until a client is ready.
 *
 * @param client   a client handle
 * @param wait_ms  how long, in ms; -1 without limit
 * @return MCP_OK when it is READY, MCP_S_TIMEOUT, else the error that opening ended with
 * Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
 */
MCP_API mcp_status mcp_client_wait_open(mcp_client *client, int64_t wait_ms);

/**
 * Begin the end of a client.
 *
 * Calls under way end with MCP_E_CLOSED; its tasks end here with the reason CLOSED and go on at the server. The last
 * event says MCP_STATE_CLOSED; after it the destructors of the handlers run.
 *
 * @param client  a client handle
 * @return MCP_OK, MCP_S_ALREADY_DONE
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_client_close(mcp_client *client);

/**
 * Wait for the end of a client that was told to close.
 *
 * It does not close by itself: call mcp_client_close() first, or another thread must.
 *
 * @param client   a client handle
 * @param wait_ms  how long, in ms; -1 without limit
 * @return MCP_OK only after the last callback has returned and the last destructor has run; MCP_S_TIMEOUT
 * Threads: any; not while holding a lock that a callback needs.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
 */
MCP_API
mcp_status mcp_client_wait_closed(mcp_client *client,
                                  int64_t wait_ms);

/**
 * Give up a client's name. It is closed if it was not. Inside a callback of its own, that callback becomes the last but
 * for the closing ones.
 *
 * @param client  a client handle, or NULL
 * @return MCP_OK, MCP_E_HANDLE where it was freed before
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_client_free(mcp_client *client);

/**
 * The state of a client.
 *
 * @param client  a client handle
 * @return MCP_STATE_..., or a negative status
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API int32_t mcp_client_state(mcp_client *client);

/**
 * Hand out what the server said of itself.
 *
 * @param client  a client handle
 * @param out     receives an immutable object of your own; not NULL
 * @return MCP_OK, MCP_E_STATE before the client was READY for the first time
 * Ownership: free *out with mcp_server_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_client_server(mcp_client *client, mcp_server **out);

/**
 * Send a notification, on this thread.
 *
 * The 2026-07-28 revision defines none over HTTP; there, this is for extensions. notifications/roots/list_changed goes to
 * a legacy server that was told of roots, and is MCP_E_UNSUPPORTED otherwise: a modern server asks anew.
 *
 * @param client         a client that is open
 * @param method         its method, NUL-terminated
 * @param params         a JSON object, may have a _meta; NULL with length 0 is {}
 * @param params_length  its length in bytes
 * @return MCP_OK once the server has accepted it; else the error
 * Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to the time limits of the settings.   Since: ABI 1
 */
MCP_API
mcp_status mcp_client_notify(mcp_client *client,
                             const char *method,
                             const char *params,
                             size_t params_length);

/**
 * Hint that the network came back or the machine woke: polls that are due or failing are made now, spread over a few
 * seconds.
 *
 * @param client  a client handle
 * @return MCP_OK, MCP_E_HANDLE
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_client_poke(mcp_client *client);

/**
 * Hand out a client's counters, as a JSON object: calls_in_flight, tasks, events_queued, events_delivered,
 * events_coalesced, events_dropped, cache_entries, cache_bytes, cache_hits. Members may be added.
 *
 * @param client  a client handle
 * @param out     receives a text of your own; not NULL
 * @return MCP_OK, MCP_E_HANDLE
 * Ownership: free *out with mcp_text_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_client_stats(mcp_client *client, mcp_text **out);

/**
 * Read a number of a client. Asks nobody.
 *
 * The three generations grow whenever the server's list is known to have changed: it said so, a listed tool was refused
 * as none, a new session began, or a page differs from what it was. A host that turned the tools into definitions for
 * its model reads the number before it lists them; where it is another one later, the work is to be done again.
 *
 * @param client  a client handle
 * @param field   MCP_CLIENT_...
 * @param out     receives the number; not NULL
 * @return MCP_OK, MCP_E_ARGUMENT for an unknown field
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_client_number(mcp_client *client, int32_t field, int64_t *out);

/**
 * Hand out the tasks of a client that have not ended, as a JSON array of objects: task_id, tool, tool_call_id, context,
 * status, status_message, created_at, last_updated_at, ttl_ms (-1: no limit), poll_interval_ms, next_poll_ms (from now),
 * overdue, input_keys, result (what the server offers for the model until then). What is not known is null. Members may
 * be added.
 *
 * @param client         a client handle
 * @param filter         NULL with length 0 for all, or {"tool_call_id": "...", "context": {...}}: the tasks of that call, and
 *                       those whose context has these members with these values, e.g. a conversation's id
 * @param filter_length  its length in bytes
 * @param out            receives a text of your own; not NULL
 * @return MCP_OK, MCP_E_ARGUMENT naming what is wrong
 * Ownership: free *out with mcp_text_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API
mcp_status mcp_client_tasks(mcp_client *client,
                            const char *filter,
                            size_t filter_length,
                            mcp_text **out);

/**
 * For a chat loop: poll each task that is due once, on this thread, and hand out what has ended since the last check.
 *
 * A JSON array of objects: task_id, tool, tool_call_id, context, status, reason, result. `reason` is
 * completed, failed, cancelled, expired or unknown, `status` completed, failed or cancelled. `result` is always a tool
 * result: the tool's own, or one with isError and a text that says how the task ended, so that no conversation sticks.
 *
 * @param client         a client that is open
 * @param filter         NULL with length 0 for all, or {"tool_call_id": "...", "context": {...}}: the tasks of that call, and
 *                       those whose context has these members with these values, e.g. a conversation's id
 * @param filter_length  its length in bytes
 * @param wait_ms        the limit for the polls, in ms; -1 for those of the settings
 * @param out            receives a text of your own; not NULL
 * @return MCP_OK, MCP_E_ARGUMENT naming what is wrong, MCP_E_CLOSED
 * Ownership: free *out with mcp_text_free().   Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
 */
MCP_API
mcp_status mcp_client_check(mcp_client *client,
                            const char *filter,
                            size_t filter_length,
                            int64_t wait_ms,
                            mcp_text **out);

/**
 * Take the records of ended tasks of this client's server out of the ledger, acknowledged or not. Older ones go by
 * themselves (tasks.ledger: keep_ended, keep_ms). A task that has not ended stays: see mcp_task_let_go().
 *
 * @param client  a client that is open
 * @param age_ms  those that ended at least so long ago, in ms; 0 for all
 * @param count   receives how many, or NULL
 * @return MCP_OK, MCP_E_ARGUMENT, MCP_E_STATE, MCP_E_LEDGER
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_client_purge(mcp_client *client, int64_t age_ms, int64_t *count);

/**
 * Read a text of a server.
 *
 * @param server  a server handle
 * @param field   MCP_SERVER_...
 * @param length  receives the length in bytes without the NUL, or NULL
 * @return UTF-8, NUL-terminated; NULL where there is none, and on a bad handle or field
 * Ownership: the server's, until mcp_server_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API const char *mcp_server_text(const mcp_server *server, int32_t field, size_t *length);

/**
 * Free a server object.
 *
 * @param server  a server handle, or NULL
 * @return MCP_OK, MCP_E_HANDLE where it was freed before
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_server_free(mcp_server *server);

/**
 * Make a stream from the host's functions. Give it to a client with mcp_client_set_stream(), then feed in what the
 * server says with mcp_stream_feed().
 *
 * @param write    takes what the client says; not NULL
 * @param close    is told when the client is done, or NULL
 * @param user     handed to both, or NULL
 * @param destroy  ends `user` once, after the last call of both, also where this function failed; or NULL
 * @param out      receives the stream; not NULL
 * @return MCP_OK, MCP_E_ARGUMENT
 * Ownership: free *out with mcp_stream_free(); `user` is the library's until `destroy` runs.   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API
mcp_status mcp_stream_new(mcp_stream_write_fn write,
                          mcp_stream_close_fn close,
                          void *user,
                          mcp_destroy_fn destroy,
                          mcp_stream **out);

/**
 * Give a stream to a client whose settings say "url": "stream:name". The name stands for the server, in the task
 * ledger for one. One stream serves one client, once: it cannot be opened again after its end.
 *
 * @param client  a client that was never opened
 * @param stream  a stream handle; the client keeps what it needs of it
 * @return MCP_OK, MCP_E_STATE where the client was opened or either of the two was given before
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_client_set_stream(mcp_client *client, mcp_stream *stream);

/**
 * Feed in what the server says: any piece of it, lines need not be whole. Before the client is opened up to 1 MiB is
 * kept for it.
 *
 * @param stream  a stream handle
 * @param bytes   the bytes; copied
 * @param length  their number
 * @return MCP_OK, MCP_E_CLOSED after the end, MCP_E_STATE where too much comes before the client is opened
 * Threads: any, one at a time is the sensible number: the order is yours.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API
mcp_status mcp_stream_feed(mcp_stream *stream,
                           const char *bytes,
                           size_t length);

/**
 * Say that the channel has ended. Calls under way end as on any connection that broke.
 *
 * @param stream          a stream handle
 * @param message         why, for the error of those calls; NULL with length 0 where there is nothing to say
 * @param message_length  its length in bytes
 * @return MCP_OK, MCP_S_ALREADY_DONE
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_stream_end(mcp_stream *stream, const char *message, size_t message_length);

/**
 * Free a stream. One that a client has goes on until the client closes, but nothing can be fed in any more: call
 * mcp_stream_end() or close the client first. One that no client has ends here, and its destroy function runs inside
 * this call.
 *
 * @param stream  a stream handle, or NULL
 * @return MCP_OK, MCP_E_HANDLE where it was freed before
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_stream_free(mcp_stream *stream);

/**
 * Start a tool call (tools/call; spec: server/tools).
 *
 * Its end comes as MCP_EVENT_CALL_DONE; mcp_call_wait() waits for it. The server may answer with a task: then
 * MCP_EVENT_TASK_CREATED comes first, the call ends with MCP_S_TASK, and the task is followed by itself. A tool call is
 * never silently sent twice: where its answer is lost it ends with MCP_E_OUTCOME_UNKNOWN.
 *
 * @param client            a client that is open
 * @param name              the tool's name, NUL-terminated
 * @param arguments         a JSON object; NULL with length 0 is {}; copied
 * @param arguments_length  its length in bytes
 * @param options           see "Call options" at the top of this header; NULL with length 0 for none; copied
 * @param options_length    its length in bytes
 * @param out               receives the call; not NULL
 * @return MCP_OK; MCP_E_ARGUMENT naming what is wrong, MCP_E_STATE, MCP_E_CLOSED: then nothing was sent
 * Ownership: free *out with mcp_call_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API
mcp_status mcp_tool_call(mcp_client *client,
                         const char *name,
                         const char *arguments,
                         size_t arguments_length,
                         const char *options,
                         size_t options_length,
                         mcp_call **out);

/**
 * Call a tool on this thread and wait for its result; follow it to the end of its task where the server makes one.
 *
 * When wait_ms runs out, the call is cancelled, and so is the task that it created. Where the settings say that the host
 * answers questions by hand, it returns MCP_E_INPUT_REQUIRED. Where mcp_call_task() gives a task, the task asks: read
 * MCP_SNAPSHOT_INPUTS, answer with mcp_task_update(), go on with mcp_task_wait(), and take the result from its snapshot.
 * Else the call asks: mcp_call_inputs(), mcp_call_answer(), mcp_call_wait(). The end of a task that this function
 * cancelled is still handed out by mcp_client_check(); mcp_task_acknowledge() it where the model knows already.
 *
 * @param client            a client that is open
 * @param name              the tool's name, NUL-terminated
 * @param arguments         a JSON object; NULL with length 0 is {}
 * @param arguments_length  its length in bytes
 * @param options           see "Call options"; NULL with length 0 for none
 * @param options_length    its length in bytes
 * @param wait_ms           the limit for all of it, in ms; -1: none but those of the settings, which a task does not have
 * @param out               receives the call, also where it failed; not NULL
 * @return MCP_OK: mcp_call_result() has the result; MCP_E_SCHEMA: it has one that does not match; MCP_E_TIMEOUT;
 *         MCP_E_INPUT_REQUIRED; else the call's error. *out is NULL where nothing was sent for a fault of the caller's
 * Ownership: free *out with mcp_call_free().   Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
 */
MCP_API
mcp_status mcp_tool_run(mcp_client *client,
                        const char *name,
                        const char *arguments,
                        size_t arguments_length,
                        const char *options,
                        size_t options_length,
                        int64_t wait_ms,
                        mcp_call **out);

/**
 * List the server's tools, all pages of them (tools/list; spec: server/tools), on this thread.
 *
 * Tools whose x-mcp-header annotations are invalid are left out, with a line in the log (spec:
 * basic/transports/streamable-http, "Schema Extension").
 *
 * @param client   a client that is open
 * @param wait_ms  the limit for all of it, in ms; -1: none but those of the settings
 * @param out      receives a text of your own, {"tools":[...]}; not NULL
 * @return MCP_OK; else the error
 * Ownership: free *out with mcp_text_free().   Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
 */
MCP_API
mcp_status mcp_tool_list(mcp_client *client,
                         int64_t wait_ms,
                         mcp_text **out);

/**
 * Start any request; the result is handed over as it came.
 *
 * @param client          a client that is open
 * @param method          its method, NUL-terminated
 * @param params          a JSON object, may have a _meta; NULL with length 0 is {}; copied
 * @param params_length   its length in bytes
 * @param options         see "Call options"; NULL with length 0 for none; copied
 * @param options_length  its length in bytes
 * @param out             receives the call; not NULL
 * @return MCP_OK; MCP_E_ARGUMENT naming what is wrong, MCP_E_STATE, MCP_E_CLOSED: then nothing was sent
 * Ownership: free *out with mcp_call_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API
mcp_status mcp_call_start(mcp_client *client,
                          const char *method,
                          const char *params,
                          size_t params_length,
                          const char *options,
                          size_t options_length,
                          mcp_call **out);

/**
 * Make any request on this thread and wait for its answer. See mcp_tool_run() for wait_ms, questions and tasks.
 *
 * @param client          a client that is open
 * @param method          its method, NUL-terminated
 * @param params          a JSON object, may have a _meta; NULL with length 0 is {}
 * @param params_length   its length in bytes
 * @param options         see "Call options"; NULL with length 0 for none
 * @param options_length  its length in bytes
 * @param wait_ms         the limit for all of it, in ms; -1: none but those of the settings
 * @param out             receives the call, also where it failed; not NULL
 * @return as mcp_tool_run()
 * Ownership: free *out with mcp_call_free().   Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
 */
MCP_API
mcp_status mcp_call_run(mcp_client *client,
                        const char *method,
                        const char *params,
                        size_t params_length,
                        const char *options,
                        size_t options_length,
                        int64_t wait_ms,
                        mcp_call **out);

/**
 * Wait for the end of a call. A wait that runs out cancels nothing.
 *
 * @param call     a call handle
 * @param wait_ms  how long, in ms; -1 without limit
 * @return MCP_OK: mcp_call_result() has the result; MCP_S_TASK: mcp_call_task() has the task; MCP_S_TIMEOUT;
 *         MCP_E_INPUT_REQUIRED: answer with mcp_call_answer(); else the call's error
 * Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
 */
MCP_API mcp_status mcp_call_wait(mcp_call *call, int64_t wait_ms);

/**
 * Cancel a call. A blocked read ends at once, and no other call is touched.
 *
 * Over HTTP closing the stream is the cancellation (spec: basic/patterns/cancellation). A call that waits for its task
 * (mcp_tool_run) asks the server to cancel the task and goes on to its real end. To cancel the task of a call that has
 * ended, use mcp_task_cancel().
 *
 * @param call  a call handle
 * @return MCP_OK, MCP_S_ALREADY_DONE where it is over or cancelled
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_call_cancel(mcp_call *call);

/**
 * The number of a call: the CALL_ID of its events; unique for its client.
 *
 * @param call  a call handle
 * @return above 0, or a negative status
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API int64_t mcp_call_id(const mcp_call *call);

/**
 * Where a call stands.
 *
 * @param call  a call handle
 * @return MCP_S_PENDING, MCP_OK, MCP_S_TASK, or its error's status; MCP_E_HANDLE
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_call_status(const mcp_call *call);

/**
 * Hand out the result of a call.
 *
 * @param call  a call handle
 * @param out   receives an immutable result of your own, or NULL; not NULL itself
 * @return MCP_OK, MCP_S_PENDING while there is none yet, MCP_S_NONE where there will be none; MCP_E_SCHEMA where the
 *         result does not match its tool's outputSchema: *out is written all the same
 * Ownership: free *out with mcp_result_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_call_result(const mcp_call *call, mcp_result **out);

/**
 * Hand out the error that a call ended with.
 *
 * @param call  a call handle
 * @param out   receives an error of your own, or NULL; not NULL itself
 * @return MCP_OK, MCP_S_PENDING while it runs, MCP_S_NONE where it did not fail. MCP_E_SCHEMA in the error tells of a
 *         result that does not match: mcp_call_result() has it
 * Ownership: free *out with mcp_error_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_call_error(const mcp_call *call, mcp_error **out);

/**
 * Hand out the task that a call was answered with.
 *
 * @param call  a call handle
 * @param out   receives a task handle of your own, or NULL; not NULL itself
 * @return MCP_OK, MCP_S_NONE where there is none (yet)
 * Ownership: free *out with mcp_task_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_call_task(const mcp_call *call, mcp_task **out);

/**
 * Hand out the open questions of a call, as a JSON array of {key, method, params}.
 *
 * @param call  a call handle
 * @param out   receives a text of your own; not NULL
 * @return MCP_OK, MCP_E_HANDLE
 * Ownership: free *out with mcp_text_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_call_inputs(const mcp_call *call, mcp_text **out);

/**
 * Answer questions of a call by their keys; the call goes on once all are answered (spec: basic/patterns/mrtr).
 *
 * @param call       a call handle
 * @param responses  {"key": {response}, ...}; a response is e.g. {"action":"accept","content":{...}} for elicitation,
 *                   the whole result for sampling and roots
 * @param length     its length in bytes
 * @return MCP_OK, MCP_S_ALREADY_DONE where all of them were answered or nothing is asked, MCP_E_ARGUMENT for an unknown key
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API
mcp_status mcp_call_answer(mcp_call *call,
                           const char *responses,
                           size_t length);

/**
 * Give up a call's name. The call goes on; its end comes as an event.
 *
 * @param call  a call handle, or NULL
 * @return MCP_OK, MCP_E_HANDLE where it was freed before
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_call_free(mcp_call *call);

/**
 * Read a text of a result.
 *
 * @param result  a result handle
 * @param field   MCP_RESULT_JSON, MCP_RESULT_TEXT or MCP_RESULT_STRUCTURED
 * @param length  receives the length in bytes without the NUL, or NULL
 * @return UTF-8, NUL-terminated; NULL where there is none, and on a bad handle or field
 * Ownership: the result's, until mcp_result_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API const char *mcp_result_text(const mcp_result *result, int32_t field, size_t *length);

/**
 * Whether the tool says that it failed (isError; spec: server/tools, "Error Handling"). That is a result, not an error:
 * show it to the model.
 *
 * @param result  a result handle
 * @return 1, 0, or a negative status
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API int32_t mcp_result_is_error(const mcp_result *result);

/**
 * The number of content blocks.
 *
 * @param result  a result handle
 * @return 0 or more, or a negative status
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API int32_t mcp_result_block_count(const mcp_result *result);

/**
 * The kind of a content block.
 *
 * @param result  a result handle
 * @param index   from 0
 * @return MCP_BLOCK_..., or a negative status; MCP_E_ARGUMENT for an index that is out of range
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API int32_t mcp_result_block_kind(const mcp_result *result, int32_t index);

/**
 * A content block as JSON, byte for byte as the server sent it.
 *
 * @param result  a result handle
 * @param index   from 0
 * @param length  receives the length in bytes without the NUL, or NULL
 * @return UTF-8, NUL-terminated; NULL on a bad handle or index
 * Ownership: the result's, until mcp_result_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API const char *mcp_result_block_json(const mcp_result *result, int32_t index, size_t *length);

/**
 * The text of a text block, or of an embedded text resource.
 *
 * @param result  a result handle
 * @param index   from 0
 * @param length  receives the length in bytes without the NUL, or NULL
 * @return UTF-8, NUL-terminated; NULL for a block of another kind, and on a bad handle or index
 * Ownership: the result's, until mcp_result_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API const char *mcp_result_block_text(const mcp_result *result, int32_t index, size_t *length);

/**
 * The bytes of an image, a sound or an embedded binary resource, decoded.
 *
 * @param result  a result handle
 * @param index   from 0
 * @param length  receives the number of bytes; may be NULL
 * @return the bytes; NULL for a block of another kind, for what is no Base64, and on a bad handle or index
 * Ownership: the result's, until mcp_result_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API const uint8_t *mcp_result_block_bytes(const mcp_result *result, int32_t index, size_t *length);

/**
 * Free a result.
 *
 * @param result  a result handle, or NULL
 * @return MCP_OK, MCP_E_HANDLE where it was freed before
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_result_free(mcp_result *result);

/**
 * Take up a task by its id: the one that this client follows, or one that it does not know yet, which is then followed.
 *
 * @param client   a client that is open
 * @param task_id  the server's id, NUL-terminated
 * @param out      receives a task handle of your own; not NULL
 * @return MCP_OK, MCP_E_ARGUMENT, MCP_E_CLOSED; MCP_E_STATE where the client is not open (with a ledger in a file: not
 *         ready) or another process follows the task; MCP_E_LEDGER. Whether the server knows the task shows at its first poll
 * Ownership: free *out with mcp_task_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API
mcp_status mcp_task_open(mcp_client *client,
                         const char *task_id,
                         mcp_task **out);

/**
 * Ask the server for a task once, now, on this thread (tasks/get).
 *
 * What it says goes the way of every poll: events, snapshot, next poll. A failure does not end the task.
 *
 * @param task     a task handle
 * @param wait_ms  the limit, in ms; -1 for that of the settings
 * @param out      receives a snapshot of your own; not NULL
 * @return MCP_OK; MCP_E_TASK_UNKNOWN where the server does not know it; else the error
 * Ownership: free *out with mcp_snapshot_free().   Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
 */
MCP_API
mcp_status mcp_task_get(mcp_task *task,
                        int64_t wait_ms,
                        mcp_snapshot **out);

/**
 * Answer questions of a task by their keys, now, on this thread (tasks/update). Each key is answered once over the
 * task's life.
 *
 * @param task       a task handle
 * @param responses  {"key": {response}, ...}; a response is e.g. {"action":"accept","content":{...}} for elicitation,
 *                   the whole result for sampling and roots
 * @param length     its length in bytes
 * @param wait_ms    the limit, in ms; -1 for that of the settings
 * @return MCP_OK once the server has acknowledged; MCP_S_ALREADY_DONE where every key was answered before or the task
 *         has ended: nothing was sent; MCP_E_ARGUMENT for a key that was not asked; else the error, and the keys are open
 * Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
 */
MCP_API
mcp_status mcp_task_update(mcp_task *task,
                           const char *responses,
                           size_t length,
                           int64_t wait_ms);

/**
 * Ask the server to stop working on a task (tasks/cancel).
 *
 * The server decides; the task may still end as completed. It is followed to its real end, or let go where the settings
 * say so (tasks.cancel).
 *
 * @param task  a task handle
 * @return MCP_OK once the request is on its way; MCP_S_ALREADY_DONE where that was asked before or the task has ended
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_task_cancel(mcp_task *task);

/**
 * Wait for the end of a task, whatever it is. A wait that runs out cancels nothing.
 *
 * @param task     a task handle
 * @param wait_ms  how long, in ms; -1 without limit
 * @param out      receives a snapshot of your own in each of the outcomes below, or NULL
 * @return MCP_OK when it has ended: read STATUS and REASON in the snapshot; MCP_E_SCHEMA when it has completed with a
 *         result that does not match its tool's outputSchema, which the snapshot has; MCP_S_TIMEOUT; MCP_E_INPUT_REQUIRED
 *         where it asks something that the host answers by hand
 * Ownership: free *out with mcp_snapshot_free().   Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
 */
MCP_API
mcp_status mcp_task_wait(mcp_task *task,
                         int64_t wait_ms,
                         mcp_snapshot **out);

/**
 * Wait for one of several tasks, or for all of them. A wait that runs out cancels nothing.
 *
 * The tasks may belong to different clients. One that asks something which the host answers by hand ends the wait, too:
 * answer it, and wait again.
 *
 * @param tasks      an array of task handles; not NULL
 * @param count      how many, 1 to 1000000
 * @param until      MCP_WAIT_ANY or MCP_WAIT_ALL
 * @param wait_ms    how long, in ms; -1 without limit
 * @param out_index  receives the place in the array of the first that has ended, or of the one that asks; or NULL
 * @return MCP_OK when it is as wanted; MCP_S_TIMEOUT; MCP_E_INPUT_REQUIRED; MCP_E_ARGUMENT
 * Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
 */
MCP_API
mcp_status mcp_task_wait_many(mcp_task *const *tasks,
                              size_t count,
                              int32_t until,
                              int64_t wait_ms,
                              size_t *out_index);

/**
 * Hand out what is known of a task now.
 *
 * @param task  a task handle
 * @param out   receives an immutable snapshot of your own; not NULL
 * @return MCP_OK, MCP_E_HANDLE
 * Ownership: free *out with mcp_snapshot_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_task_snapshot(const mcp_task *task, mcp_snapshot **out);

/**
 * Stop following a task. It ends here with the reason CLOSED; the server goes on with it.
 *
 * @param task  a task handle
 * @return MCP_OK, MCP_S_ALREADY_DONE where it has ended
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_task_let_go(mcp_task *task);

/**
 * Say that the host has a task's end: mcp_client_check() hands it out no more, and its result is dropped from the ledger.
 *
 * mcp_tool_run() and mcp_client_check() do it by themselves for what they hand out.
 *
 * @param task  a task handle
 * @return MCP_OK, MCP_S_ALREADY_DONE where that was said before, MCP_E_STATE where the task has not ended
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API
mcp_status mcp_task_acknowledge(mcp_task *task);

/**
 * Hand out all that the ledger would keep of a task, as a JSON object, for a host that keeps its tasks in a store of its
 * own. mcp_task_import() takes it back, in this process or a later one.
 *
 * A result that is not to be kept (keep_results, keep_result) is not in it; an answer that the server has not
 * acknowledged yet is. Members may be added.
 *
 * @param task  a task handle
 * @param out   receives a text of your own; not NULL
 * @return MCP_OK, MCP_E_HANDLE
 * Ownership: free *out with mcp_text_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API
mcp_status mcp_task_export(const mcp_task *task,
                           mcp_text **out);

/**
 * Take up a task from what mcp_task_export() wrote. What the client's ledger knows of the task counts more.
 *
 * It is followed from now on (MCP_EVENT_TASK_RESUMED); where it had ended, its end comes again, marked as repeated.
 *
 * @param client  a client that is ready, of the same server (settings.identity)
 * @param record  a JSON object
 * @param length  its length in bytes
 * @param out     receives a task handle of your own; not NULL
 * @return MCP_OK; MCP_E_ARGUMENT for what is no record or one of another server; MCP_E_STATE where the client is not ready
 *         or another process follows the task; MCP_E_UNSUPPORTED for a record of a newer version; MCP_E_LEDGER; MCP_E_CLOSED
 * Ownership: free *out with mcp_task_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API
mcp_status mcp_task_import(mcp_client *client,
                           const char *record,
                           size_t length,
                           mcp_task **out);

/**
 * Give up a task's name. The task is followed on; its end comes as an event.
 *
 * @param task  a task handle, or NULL
 * @return MCP_OK, MCP_E_HANDLE where it was freed before
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_task_free(mcp_task *task);

/**
 * Read a text of a snapshot.
 *
 * @param snapshot  a snapshot handle
 * @param field     MCP_SNAPSHOT_TASK_ID to MCP_SNAPSHOT_TOOL_RESULT
 * @param length    receives the length in bytes without the NUL, or NULL
 * @return UTF-8, NUL-terminated; NULL where there is none, and on a bad handle or field
 * Ownership: the snapshot's, until mcp_snapshot_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API
const char *mcp_snapshot_text(const mcp_snapshot *snapshot,
                              int32_t field,
                              size_t *length);

/**
 * Read a number of a snapshot.
 *
 * @param snapshot  a snapshot handle
 * @param field     MCP_SNAPSHOT_STATUS to MCP_SNAPSHOT_REPEATED
 * @param out       receives the number; not NULL
 * @return MCP_OK, MCP_S_NONE where there is none (the number is 0), MCP_E_ARGUMENT, MCP_E_HANDLE
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_snapshot_number(const mcp_snapshot *snapshot, int32_t field, int64_t *out);

/**
 * Hand out the result of a completed task.
 *
 * @param snapshot  a snapshot handle
 * @param out       receives an immutable result of your own, or NULL; not NULL itself
 * @return MCP_OK, MCP_S_NONE where there is none
 * Ownership: free *out with mcp_result_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_snapshot_result(const mcp_snapshot *snapshot, mcp_result **out);

/**
 * Hand out why a task ended without a result, what is wrong with the result of a completed one (MCP_E_SCHEMA), or,
 * before its end, why its polls fail.
 *
 * A failed task's error carries the code, message and data of the server's JSON-RPC error.
 *
 * @param snapshot  a snapshot handle
 * @param out       receives an error of your own, or NULL; not NULL itself
 * @return MCP_OK, MCP_S_NONE where there is none
 * Ownership: free *out with mcp_error_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_snapshot_error(const mcp_snapshot *snapshot, mcp_error **out);

/**
 * Free a snapshot.
 *
 * @param snapshot  a snapshot handle, or NULL
 * @return MCP_OK, MCP_E_HANDLE where it was freed before
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_snapshot_free(mcp_snapshot *snapshot);

/**
 * The kind of an event.
 *
 * @param event  an event handle
 * @return MCP_EVENT_..., or a negative status
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API int32_t mcp_event_kind(const mcp_event *event);

/**
 * Read a text of an event.
 *
 * @param event   an event handle
 * @param field   MCP_EVENT_TEXT_JSON or MCP_EVENT_TEXT_METHOD
 * @param length  receives the length in bytes without the NUL, or NULL
 * @return UTF-8, NUL-terminated; NULL where there is none, and on a bad handle or field
 * Ownership: the event's: until the callback returns, or mcp_event_free() of a kept one.   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API
const char *mcp_event_text(const mcp_event *event,
                           int32_t field,
                           size_t *length);

/**
 * Read a number of an event.
 *
 * @param event  an event handle
 * @param field  MCP_EVENT_NUMBER_...
 * @param out    receives the number; not NULL
 * @return MCP_OK, MCP_S_NONE where there is none (the number is 0), MCP_E_ARGUMENT, MCP_E_HANDLE
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_event_number(const mcp_event *event, int32_t field, int64_t *out);

/**
 * Hand out the call that an event is about.
 *
 * @param event  an event handle
 * @param out    receives a handle of your own, or NULL; not NULL itself
 * @return MCP_OK, MCP_S_NONE where there is none
 * Ownership: free *out with mcp_call_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_event_call(const mcp_event *event, mcp_call **out);

/**
 * Hand out the task that an event is about.
 *
 * @param event  an event handle
 * @param out    receives a handle of your own, or NULL; not NULL itself
 * @return MCP_OK, MCP_S_NONE where there is none
 * Ownership: free *out with mcp_task_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_event_task(const mcp_event *event, mcp_task **out);

/**
 * Hand out the task's snapshot of the moment of the event.
 *
 * @param event  an event handle
 * @param out    receives a handle of your own, or NULL; not NULL itself
 * @return MCP_OK, MCP_S_NONE where there is none
 * Ownership: free *out with mcp_snapshot_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_event_snapshot(const mcp_event *event, mcp_snapshot **out);

/**
 * Hand out the question that an event asks or withdraws.
 *
 * @param event  an event handle
 * @param out    receives a handle of your own, or NULL; not NULL itself
 * @return MCP_OK, MCP_S_NONE where there is none
 * Ownership: free *out with mcp_input_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_event_input(const mcp_event *event, mcp_input **out);

/**
 * Hand out the error that an event tells of.
 *
 * @param event  an event handle
 * @param out    receives a handle of your own, or NULL; not NULL itself
 * @return MCP_OK, MCP_S_NONE where there is none
 * Ownership: free *out with mcp_error_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_event_error(const mcp_event *event, mcp_error **out);

/**
 * Keep an event beyond its callback.
 *
 * @param event  an event handle
 * @param out    receives a handle of your own; not NULL
 * @return MCP_OK, MCP_E_HANDLE
 * Ownership: free *out with mcp_event_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_event_keep(const mcp_event *event, mcp_event **out);

/**
 * Free a kept event.
 *
 * @param event  a handle from mcp_event_keep(), or NULL
 * @return MCP_OK, MCP_E_STATE for the borrowed event of a callback, MCP_E_HANDLE where it was freed before
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_event_free(mcp_event *event);

/**
 * The kind of a question.
 *
 * @param input  an input handle
 * @return MCP_INPUT_ELICITATION, MCP_INPUT_SAMPLING or MCP_INPUT_ROOTS, or a negative status
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API int32_t mcp_input_kind(const mcp_input *input);

/**
 * Read a number of a question.
 *
 * @param input  an input handle
 * @param field  MCP_INPUT_CALL_ID or MCP_INPUT_REPEATED
 * @param out    receives the number; not NULL
 * @return MCP_OK, MCP_S_NONE where no call asks (the number is 0), MCP_E_ARGUMENT, MCP_E_HANDLE
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_input_number(const mcp_input *input, int32_t field, int64_t *out);

/**
 * Read a text of a question.
 *
 * @param input   an input handle
 * @param field   MCP_INPUT_KEY to MCP_INPUT_TASK_ID
 * @param length  receives the length in bytes without the NUL, or NULL
 * @return UTF-8, NUL-terminated; NULL where there is none, and on a bad handle or field
 * Ownership: the input's, until mcp_input_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API const char *mcp_input_text(const mcp_input *input, int32_t field, size_t *length);

/**
 * Answer a question, now or later.
 *
 * @param input    an input handle
 * @param content  elicitation: the form's values alone, a JSON object (not {"action":...}, which is the shape of
 *                 mcp_call_answer() and mcp_task_update()), or NULL with length 0 for a URL that was accepted;
 *                 sampling and roots: the whole result, a JSON object
 * @param length   its length in bytes
 * @return MCP_OK, MCP_S_ALREADY_DONE where it was answered or withdrawn, MCP_E_ARGUMENT for what is no object
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_input_answer(mcp_input *input, const char *content, size_t length);

/**
 * Decline a question: the user says no. Elicitation only.
 *
 * @param input  an input handle
 * @return MCP_OK, MCP_S_ALREADY_DONE, MCP_E_UNSUPPORTED for sampling and roots (use mcp_input_fail())
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_input_decline(mcp_input *input);

/**
 * Cancel a question: the user closed it without a choice. Elicitation only.
 *
 * @param input  an input handle
 * @return MCP_OK, MCP_S_ALREADY_DONE, MCP_E_UNSUPPORTED for sampling and roots (use mcp_input_fail())
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_input_cancel(mcp_input *input);

/**
 * Say that a question cannot be answered. Sampling and roots have no form of refusal: the call ends with
 * MCP_E_INPUT_REFUSED, the task is cancelled (or left waiting, by the settings). Elicitation: the same as cancel.
 *
 * @param input    an input handle
 * @param message  why, for the error, NUL-terminated; or NULL
 * @return MCP_OK, MCP_S_ALREADY_DONE
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API mcp_status mcp_input_fail(mcp_input *input, const char *message);

/**
 * Give up a question's name. An unanswered question stays open: it can be answered by its key, with mcp_call_answer() or
 * mcp_task_update().
 *
 * @param input  an input handle, or NULL
 * @return MCP_OK, MCP_E_HANDLE where it was freed before
 * Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
 */
MCP_API
mcp_status mcp_input_free(mcp_input *input);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MCPNATIVE_H */
