"""Status codes of the library and the exceptions made of them: one class for each band and each common case.

A status below zero is a failure and raises. The bands say who is at fault: the caller (:class:`UsageError`),
the way to the server (:class:`TransportError`), the protocol (:class:`ProtocolError`), the call
(:class:`CallError`), authorization (:class:`AuthorizationError`), the task (:class:`TaskError`) or the library
itself (:class:`InternalError`).
"""

from __future__ import annotations

import builtins
import ctypes
import enum
import json
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple, Type

from . import _constants as c

if TYPE_CHECKING:
    from .call import Call
    from .result import Result
    from .task import Snapshot, Task


class Status(enum.IntEnum):
    """``mcp_status``: 0 fine, above 0 fine but notable, below 0 a failure."""

    OK = 0
    S_TIMEOUT = 1
    S_ALREADY_DONE = 2
    S_PENDING = 3
    S_TASK = 4
    S_NONE = 5
    E_ARGUMENT = -1
    E_HANDLE = -2
    E_UTF8 = -3
    E_STATE = -4
    E_REENTRANT = -5
    E_FORKED = -6
    E_UNSUPPORTED = -7
    E_CONNECT = -20
    E_TLS = -21
    E_IO = -22
    E_TIMEOUT = -23
    E_CLOSED = -24
    E_CHILD_EXIT = -25
    E_HTTP = -26
    E_OUTCOME_UNKNOWN = -27
    E_PARSE = -40
    E_MALFORMED = -41
    E_VERSION = -42
    E_RPC = -43
    E_TOO_LARGE = -44
    E_SCHEMA = -45
    E_CANCELLED = -60
    E_INPUT_REQUIRED = -61
    E_INPUT_REFUSED = -62
    E_AUTH_REQUIRED = -80
    E_AUTH_DENIED = -81
    E_AUTH_DISCOVERY = -82
    E_TASK_FAILED = -100
    E_TASK_CANCELLED = -101
    E_TASK_EXPIRED = -102
    E_TASK_UNKNOWN = -103
    E_PANIC = -120
    E_MEMORY = -121
    E_INTERNAL = -122
    E_LEDGER = -123

    @classmethod
    def _missing_(cls, value: object) -> Optional["Status"]:
        # A later library may know more codes than this package.
        if not isinstance(value, int):
            return None
        member = int.__new__(cls, value)
        member._name_ = f"STATUS_{value}"
        member._value_ = value
        return member


#: Every status code with the name that the C header gives it.
STATUS_NAMES: Dict[int, str] = {int(status): "MCP_" + status.name for status in Status}


def status_name(status: int) -> str:
    """The name of a status code as the C header writes it."""
    return STATUS_NAMES.get(int(status), f"MCP_STATUS_{int(status)}")


class McpError(Exception):
    """A failure that the library reported.

    ``status`` is the code, ``name`` its name and ``message`` one line of text. Where they apply:
    ``rpc_code``, ``rpc_message`` and ``rpc_data`` of the peer's JSON-RPC error, ``http_status``, whether it is
    safe to send the same again (``retry_safe``), and how many seconds the server wants one to wait
    (``retry_after``).
    """

    def __init__(
        self,
        status: int,
        message: str = "",
        *,
        rpc_code: Optional[int] = None,
        rpc_message: Optional[str] = None,
        rpc_data: Any = None,
        http_status: Optional[int] = None,
        retry_safe: Optional[bool] = None,
        retry_after: Optional[float] = None,
    ) -> None:
        self.status = int(status)
        self.name = status_name(status)
        self.message = message or self.name
        self.rpc_code = rpc_code
        self.rpc_message = rpc_message
        self.rpc_data = rpc_data
        self.http_status = http_status
        self.retry_safe = retry_safe
        self.retry_after = retry_after
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message if self.message == self.name else f"{self.message} ({self.name})"

    def __reduce__(self) -> Tuple[Any, ...]:
        return (_rebuild, (type(self), self.status, self.message, _details(self)))


def _details(error: McpError) -> Dict[str, Any]:
    fields = ("rpc_code", "rpc_message", "rpc_data", "http_status", "retry_safe", "retry_after")
    return {field: getattr(error, field) for field in fields}


def _rebuild(kind: Type[McpError], status: int, message: str, details: Dict[str, Any]) -> McpError:
    return kind(status, message, **details)


class UsageError(McpError):
    """The caller is at fault: an argument, a handle, the moment or the place of the call."""


class ArgumentError(UsageError, ValueError):
    """An argument is wrong; the message names it. Nothing was sent."""


class StateError(UsageError):
    """Not possible in the state that the object is in now."""


class ReentrantError(UsageError):
    """A blocking call inside a callback: it would wait for itself."""


class ForkedError(UsageError):
    """The library was loaded before a fork; start processes with *spawn* instead."""


class UnsupportedError(UsageError):
    """Not supported by this object, this server or this build."""


class TransportError(McpError):
    """The way to the server failed."""


class ConnectError(TransportError, builtins.ConnectionError):
    """No connection could be made."""


class RequestTimeout(TransportError, builtins.TimeoutError):
    """The request itself ran out of time and has ended."""


class ClosedError(TransportError):
    """The client or its connection is closed."""


class HttpError(TransportError):
    """The server answered with an HTTP status that is no answer to the request; see ``http_status``."""


class OutcomeUnknownError(TransportError):
    """The request was sent and no answer came: it may or may not have been carried out."""


class ProtocolError(McpError):
    """What the server sent is not what the protocol allows, or is an error of the server's."""


class RpcError(ProtocolError):
    """The server answered with a JSON-RPC error: ``rpc_code``, ``rpc_message``, ``rpc_data``."""


class SchemaError(ProtocolError):
    """A tool's result does not match its output schema. ``result`` is what came; the setting ``validate`` decides."""

    result: Optional["Result"] = None


class CallError(McpError):
    """The call ended without a result."""


class CallCancelled(CallError):
    """The call was cancelled."""


class InputRequiredError(CallError):
    """The server asks something that the host has to answer by hand (input mode ``manual``).

    The work goes on: answer through ``call`` or ``task`` and wait again.
    """

    call: Optional["Call"] = None
    task: Optional["Task"] = None


class InputRefusedError(CallError):
    """A question of the server's was refused, and with it the call ended."""


class AuthorizationError(McpError):
    """The server wants an authorization that is not there or not enough."""


class TaskError(McpError):
    """A task ended without a result. ``snapshot`` is its last state."""

    snapshot: Optional["Snapshot"] = None


class TaskFailed(TaskError):
    """The task failed on the server."""


class TaskCancelled(TaskError):
    """The task was cancelled."""


class TaskExpired(TaskError):
    """The task's time to live passed and the server no longer answers for it."""


class TaskUnknown(TaskError):
    """The server does not know the task, or no longer."""


class InternalError(McpError):
    """The library is at fault. Please report it."""


class LedgerError(InternalError):
    """The ledger's file cannot be used: locked, not writable, full, damaged, foreign or of a newer version."""


class WaitTimeout(McpError, builtins.TimeoutError):
    """This wait ran out; the work goes on."""

    def __init__(self, status: int = Status.S_TIMEOUT, message: str = "", **details: Any) -> None:
        super().__init__(status, message or "the wait ran out; the work goes on", **details)


class ToolError(McpError):
    """A tool's own ``isError`` result, raised only where it was asked for. ``result`` has it in full."""

    result: Optional["Result"] = None


_CASES: Dict[int, Type[McpError]] = {
    Status.E_ARGUMENT: ArgumentError,
    Status.E_UTF8: ArgumentError,
    Status.E_STATE: StateError,
    Status.E_REENTRANT: ReentrantError,
    Status.E_FORKED: ForkedError,
    Status.E_UNSUPPORTED: UnsupportedError,
    Status.E_CONNECT: ConnectError,
    Status.E_TIMEOUT: RequestTimeout,
    Status.E_CLOSED: ClosedError,
    Status.E_HTTP: HttpError,
    Status.E_OUTCOME_UNKNOWN: OutcomeUnknownError,
    Status.E_RPC: RpcError,
    Status.E_SCHEMA: SchemaError,
    Status.E_CANCELLED: CallCancelled,
    Status.E_INPUT_REQUIRED: InputRequiredError,
    Status.E_INPUT_REFUSED: InputRefusedError,
    Status.E_TASK_FAILED: TaskFailed,
    Status.E_TASK_CANCELLED: TaskCancelled,
    Status.E_TASK_EXPIRED: TaskExpired,
    Status.E_TASK_UNKNOWN: TaskUnknown,
    Status.E_LEDGER: LedgerError,
    Status.S_TIMEOUT: WaitTimeout,
}

_BANDS: Tuple[Tuple[int, Type[McpError]], ...] = (
    (-20, UsageError),
    (-40, TransportError),
    (-60, ProtocolError),
    (-80, CallError),
    (-100, AuthorizationError),
    (-120, TaskError),
    (-140, InternalError),
)


def exception_class(status: int) -> Type[McpError]:
    """The exception class for a status code: its own, else that of its band."""
    case = _CASES.get(int(status))
    if case is not None:
        return case
    if status < 0:
        for end, band in _BANDS:
            if status > end:
                return band
    return McpError


def _text(library: Any, handle: int, field: int) -> Optional[str]:
    size = ctypes.c_size_t()
    address = library.mcp_error_text(handle, field, ctypes.byref(size))
    return None if address is None else ctypes.string_at(address, size.value).decode("utf-8", "replace")


def _number(library: Any, handle: int, field: int) -> Optional[int]:
    value = ctypes.c_int64()
    return value.value if library.mcp_error_number(handle, field, ctypes.byref(value)) == Status.OK else None


def take_error(library: Any, handle: int, status: Optional[int] = None) -> McpError:
    """Make the exception of an error handle and free the handle. ``status`` overrides the error's own."""
    try:
        own = _number(library, handle, c.ERROR_STATUS)
        code = status if status is not None else (own if own is not None else Status.E_INTERNAL)
        data = _text(library, handle, c.ERROR_RPC_DATA)
        try:
            rpc_data = None if not data else json.loads(data)
        except ValueError:
            rpc_data = data
        safe = _number(library, handle, c.ERROR_RETRY_SAFE)
        after = _number(library, handle, c.ERROR_RETRY_AFTER_MS)
        return exception_class(code)(
            code,
            _text(library, handle, c.ERROR_MESSAGE) or "",
            rpc_code=_number(library, handle, c.ERROR_RPC_CODE),
            rpc_message=_text(library, handle, c.ERROR_RPC_MESSAGE),
            rpc_data=rpc_data,
            http_status=_number(library, handle, c.ERROR_HTTP_STATUS),
            retry_safe=None if safe is None else bool(safe),
            retry_after=None if after is None else after / 1000.0,
        )
    finally:
        library.mcp_error_free(handle)


def last_error(library: Any, status: int) -> McpError:
    """The exception for a direct failure on this thread that has just returned ``status``."""
    handle = ctypes.c_void_p()
    if library.mcp_last_error(ctypes.byref(handle)) == Status.OK and handle.value:
        error = take_error(library, handle.value)
        # Something that ran in between (a finalizer) may have left an error of its own.
        if error.status == status:
            return error
    return exception_class(status)(status)


def check(library: Any, status: int) -> int:
    """Raise for a failure, else give the status back."""
    if status < 0:
        raise last_error(library, status)
    return status
