"""The C ABI as ctypes sees it: each function's result and argument types, and nothing else.

Handles travel as ``c_void_p``: their value is a key that the library checks, never an address.
Borrowed text comes back as ``c_void_p`` too, because its length is given apart and it may hold NUL bytes.
"""

from __future__ import annotations

from ctypes import (
    CFUNCTYPE,
    POINTER,
    c_char_p,
    c_int32,
    c_int64,
    c_size_t,
    c_void_p,
)
from typing import Any, Dict, Tuple

ABI_VERSION = 1

status = c_int32
handle = c_void_p
text = c_void_p
out_handle = POINTER(c_void_p)
out_length = POINTER(c_size_t)
out_int32 = POINTER(c_int32)
out_int64 = POINTER(c_int64)

event_fn = CFUNCTYPE(None, c_void_p, c_void_p)
destroy_fn = CFUNCTYPE(None, c_void_p)
log_fn = CFUNCTYPE(None, c_int32, c_void_p, c_size_t, c_void_p)
stream_write_fn = CFUNCTYPE(None, c_void_p, c_size_t, c_void_p)
stream_close_fn = CFUNCTYPE(None, c_void_p)

FUNCTIONS: Dict[str, Tuple[Any, Tuple[Any, ...]]] = {
    # facts
    "mcp_abi_version": (c_int32, ()),
    "mcp_version": (c_char_p, ()),
    "mcp_status_name": (c_char_p, (status,)),
    "mcp_last_error": (status, (out_handle,)),
    "mcp_shutdown": (status, (c_int64,)),
    "mcp_log_on": (status, (handle, c_int32, log_fn, c_void_p, destroy_fn)),
    # clock
    "mcp_clock_hold": (status, ()),
    "mcp_clock_advance": (status, (c_int64, c_int64)),
    "mcp_clock_release": (status, ()),
    # text
    "mcp_text_get": (text, (handle, out_length)),
    "mcp_text_free": (status, (handle,)),
    "mcp_uri_template_expand": (status, (c_char_p, c_char_p, c_size_t, out_handle)),
    # error
    "mcp_error_text": (text, (handle, c_int32, out_length)),
    "mcp_error_number": (status, (handle, c_int32, out_int64)),
    "mcp_error_free": (status, (handle,)),
    # queue
    "mcp_queue_new": (status, (out_handle,)),
    "mcp_queue_dispatch": (status, (handle, c_int64, out_int32)),
    "mcp_queue_descriptor": (status, (handle, out_int64)),
    "mcp_queue_wake": (status, (handle,)),
    "mcp_queue_free": (status, (handle,)),
    # client
    "mcp_client_new": (status, (c_char_p, c_size_t, out_handle)),
    "mcp_client_set_queue": (status, (handle, handle)),
    "mcp_client_on": (status, (handle, c_int32, event_fn, c_void_p, destroy_fn)),
    "mcp_client_open": (status, (handle,)),
    "mcp_client_wait_open": (status, (handle, c_int64)),
    "mcp_client_close": (status, (handle,)),
    "mcp_client_wait_closed": (status, (handle, c_int64)),
    "mcp_client_free": (status, (handle,)),
    "mcp_client_state": (c_int32, (handle,)),
    "mcp_client_server": (status, (handle, out_handle)),
    "mcp_client_notify": (status, (handle, c_char_p, c_char_p, c_size_t)),
    "mcp_client_poke": (status, (handle,)),
    "mcp_client_stats": (status, (handle, out_handle)),
    "mcp_client_number": (status, (handle, c_int32, out_int64)),
    "mcp_client_tasks": (status, (handle, c_char_p, c_size_t, out_handle)),
    "mcp_client_check": (status, (handle, c_char_p, c_size_t, c_int64, out_handle)),
    "mcp_client_purge": (status, (handle, c_int64, out_int64)),
    # server
    "mcp_server_text": (text, (handle, c_int32, out_length)),
    "mcp_server_free": (status, (handle,)),
    # stream
    "mcp_stream_new": (status, (stream_write_fn, stream_close_fn, c_void_p, destroy_fn, out_handle)),
    "mcp_client_set_stream": (status, (handle, handle)),
    "mcp_stream_feed": (status, (handle, c_char_p, c_size_t)),
    "mcp_stream_end": (status, (handle, c_char_p, c_size_t)),
    "mcp_stream_free": (status, (handle,)),
    # calls
    "mcp_tool_call": (
        status,
        (handle, c_char_p, c_char_p, c_size_t, c_char_p, c_size_t, out_handle),
    ),
    "mcp_tool_run": (
        status,
        (handle, c_char_p, c_char_p, c_size_t, c_char_p, c_size_t, c_int64, out_handle),
    ),
    "mcp_tool_list": (status, (handle, c_int64, out_handle)),
    "mcp_call_start": (
        status,
        (handle, c_char_p, c_char_p, c_size_t, c_char_p, c_size_t, out_handle),
    ),
    "mcp_call_run": (
        status,
        (handle, c_char_p, c_char_p, c_size_t, c_char_p, c_size_t, c_int64, out_handle),
    ),
    "mcp_call_wait": (status, (handle, c_int64)),
    "mcp_call_cancel": (status, (handle,)),
    "mcp_call_id": (c_int64, (handle,)),
    "mcp_call_status": (status, (handle,)),
    "mcp_call_result": (status, (handle, out_handle)),
    "mcp_call_error": (status, (handle, out_handle)),
    "mcp_call_task": (status, (handle, out_handle)),
    "mcp_call_inputs": (status, (handle, out_handle)),
    "mcp_call_answer": (status, (handle, c_char_p, c_size_t)),
    "mcp_call_free": (status, (handle,)),
    # results
    "mcp_result_text": (text, (handle, c_int32, out_length)),
    "mcp_result_is_error": (c_int32, (handle,)),
    "mcp_result_block_count": (c_int32, (handle,)),
    "mcp_result_block_kind": (c_int32, (handle, c_int32)),
    "mcp_result_block_json": (text, (handle, c_int32, out_length)),
    "mcp_result_block_text": (text, (handle, c_int32, out_length)),
    "mcp_result_block_bytes": (text, (handle, c_int32, out_length)),
    "mcp_result_free": (status, (handle,)),
    # tasks
    "mcp_task_open": (status, (handle, c_char_p, out_handle)),
    "mcp_task_get": (status, (handle, c_int64, out_handle)),
    "mcp_task_update": (status, (handle, c_char_p, c_size_t, c_int64)),
    "mcp_task_cancel": (status, (handle,)),
    "mcp_task_wait": (status, (handle, c_int64, out_handle)),
    "mcp_task_wait_many": (status, (out_handle, c_size_t, c_int32, c_int64, out_length)),
    "mcp_task_snapshot": (status, (handle, out_handle)),
    "mcp_task_let_go": (status, (handle,)),
    "mcp_task_acknowledge": (status, (handle,)),
    "mcp_task_export": (status, (handle, out_handle)),
    "mcp_task_import": (status, (handle, c_char_p, c_size_t, out_handle)),
    "mcp_task_free": (status, (handle,)),
    # snapshots
    "mcp_snapshot_text": (text, (handle, c_int32, out_length)),
    "mcp_snapshot_number": (status, (handle, c_int32, out_int64)),
    "mcp_snapshot_result": (status, (handle, out_handle)),
    "mcp_snapshot_error": (status, (handle, out_handle)),
    "mcp_snapshot_free": (status, (handle,)),
    # events
    "mcp_event_kind": (c_int32, (handle,)),
    "mcp_event_text": (text, (handle, c_int32, out_length)),
    "mcp_event_number": (status, (handle, c_int32, out_int64)),
    "mcp_event_call": (status, (handle, out_handle)),
    "mcp_event_task": (status, (handle, out_handle)),
    "mcp_event_snapshot": (status, (handle, out_handle)),
    "mcp_event_input": (status, (handle, out_handle)),
    "mcp_event_error": (status, (handle, out_handle)),
    "mcp_event_keep": (status, (handle, out_handle)),
    "mcp_event_free": (status, (handle,)),
    # inputs
    "mcp_input_kind": (c_int32, (handle,)),
    "mcp_input_number": (status, (handle, c_int32, out_int64)),
    "mcp_input_text": (text, (handle, c_int32, out_length)),
    "mcp_input_answer": (status, (handle, c_char_p, c_size_t)),
    "mcp_input_decline": (status, (handle,)),
    "mcp_input_cancel": (status, (handle,)),
    "mcp_input_fail": (status, (handle, c_char_p)),
    "mcp_input_free": (status, (handle,)),
}


def declare(library: Any) -> None:
    """Give every function of a loaded library its types; AttributeError names one that is missing."""
    for name, (restype, argtypes) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = restype
        function.argtypes = argtypes
