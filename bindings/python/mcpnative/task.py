"""A task of the server's: a tool call that goes on after its answer."""

from __future__ import annotations

import ctypes
import enum
from dataclasses import dataclass, field
from typing import Any, List, Mapping, Optional, Sequence

from . import _constants as c
from . import _abi, _dispatch, _text
from ._handle import Handle, out, out_present
from ._time import Deadline, milliseconds, run_interruptibly, wait_in_slices
from .errors import (
    InputRequiredError,
    McpError,
    SchemaError,
    Status,
    TaskError,
    WaitTimeout,
    check,
    exception_class,
    last_error,
    take_error,
)
from .result import Result


class _Word(str, enum.Enum):
    def __str__(self) -> str:
        return str(self.value)

    def __format__(self, spec: str) -> str:
        return format(str(self.value), spec)


class TaskStatus(_Word):
    """A task's status in the protocol's own words."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Reason(_Word):
    """Why a task ended. ``UNKNOWN``: the server does not know it; ``CLOSED``: the client no longer follows it."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    UNKNOWN = "unknown"
    CLOSED = "closed"


_STATUSES = {
    c.TASK_WORKING: TaskStatus.WORKING,
    c.TASK_INPUT_REQUIRED: TaskStatus.INPUT_REQUIRED,
    c.TASK_COMPLETED: TaskStatus.COMPLETED,
    c.TASK_FAILED: TaskStatus.FAILED,
    c.TASK_CANCELLED: TaskStatus.CANCELLED,
}

_REASONS = {
    c.REASON_COMPLETED: Reason.COMPLETED,
    c.REASON_FAILED: Reason.FAILED,
    c.REASON_CANCELLED: Reason.CANCELLED,
    c.REASON_EXPIRED: Reason.EXPIRED,
    c.REASON_UNKNOWN: Reason.UNKNOWN,
    c.REASON_CLOSED: Reason.CLOSED,
}

_REASON_ERRORS = {
    Reason.FAILED: (Status.E_TASK_FAILED, "the task failed"),
    Reason.CANCELLED: (Status.E_TASK_CANCELLED, "the task was cancelled"),
    Reason.EXPIRED: (Status.E_TASK_EXPIRED, "the task expired"),
    Reason.UNKNOWN: (Status.E_TASK_UNKNOWN, "the server does not know the task"),
    Reason.CLOSED: (Status.E_CLOSED, "the client closed and no longer follows the task"),
}


@dataclass(frozen=True)
class Snapshot:
    """What was known of a task at one moment."""

    task_id: str
    status: TaskStatus
    #: None until the task has ended.
    reason: Optional[Reason]
    tool: Optional[str]
    message: Optional[str]
    #: As the server wrote them (ISO 8601).
    created_at: Optional[str]
    updated_at: Optional[str]
    tool_call_id: Optional[str]
    #: What the caller gave to the call.
    context: Any
    #: -1 means unlimited, None that the server said nothing.
    ttl_ms: Optional[int]
    poll_interval_ms: Optional[int]
    #: From the moment of the snapshot; 0 is due.
    next_poll_ms: Optional[int]
    #: The time to live has passed, and the server still answers for the task.
    overdue: bool
    #: The end comes from the ledger: an earlier process may have told it already.
    repeated: bool
    #: The open questions: ``{"key", "method", "params"}``.
    inputs: List[Mapping[str, Any]]
    #: Progress in words: ``{"status", "message", "last_updated_at"}`` for each change, oldest first, the latest 32.
    history: List[Mapping[str, Any]] = field(repr=False)
    #: The end as a tool result for a chat's model, whatever the end was; None before it.
    tool_result: Any = field(repr=False)
    #: The last answer of the server as it was sent.
    json: Any = field(repr=False)
    #: What the server offers as a tool result for the model until the task has ended.
    immediate_response: Optional[str]
    result: Optional[Result]
    error: Optional[McpError]

    @property
    def ended(self) -> bool:
        """Whether this is the end, for whatever reason."""
        return self.reason is not None

    def outcome(self) -> Result:
        """The result of a completed task; for any other end the exception that tells it."""
        if self.reason is None:
            raise WaitTimeout(Status.S_PENDING, "the task has not ended yet")
        if isinstance(self.error, SchemaError):
            self.error.result = self.result
            raise self.error
        if self.result is not None:
            return self.result
        if self.reason is Reason.COMPLETED:
            raise McpError(Status.E_MALFORMED, "the task completed without a result")
        status, text = _REASON_ERRORS[self.reason]
        known = self.error
        error = exception_class(status)(
            status,
            known.message if known is not None else (self.message or text),
            rpc_code=known.rpc_code if known else None,
            rpc_message=known.rpc_message if known else None,
            rpc_data=known.rpc_data if known else None,
            http_status=known.http_status if known else None,
            retry_safe=known.retry_safe if known else None,
            retry_after=known.retry_after if known else None,
        )
        if isinstance(error, TaskError):
            error.snapshot = self
        raise error


def take_snapshot(library: Any, key: int) -> Snapshot:
    """Read a snapshot handle and free it."""

    def text(number: int) -> Optional[str]:
        return _text.read(library.mcp_snapshot_text, key, number)

    def whole(number: int) -> Any:
        return _text.read_json(library.mcp_snapshot_text, key, number)

    def figure(number: int) -> Optional[int]:
        value = ctypes.c_int64()
        status = check(library, library.mcp_snapshot_number(key, number, ctypes.byref(value)))
        return None if status == Status.S_NONE else value.value

    try:
        result = out(library, library.mcp_snapshot_result, key)
        error = out(library, library.mcp_snapshot_error, key)
        return Snapshot(
            task_id=text(c.SNAPSHOT_TASK_ID) or "",
            status=_STATUSES.get(figure(c.SNAPSHOT_STATUS) or 0, TaskStatus.WORKING),
            reason=_REASONS.get(figure(c.SNAPSHOT_REASON) or 0),
            tool=text(c.SNAPSHOT_TOOL),
            message=text(c.SNAPSHOT_MESSAGE),
            created_at=text(c.SNAPSHOT_CREATED_AT),
            updated_at=text(c.SNAPSHOT_UPDATED_AT),
            tool_call_id=text(c.SNAPSHOT_TOOL_CALL_ID),
            context=whole(c.SNAPSHOT_CONTEXT),
            ttl_ms=figure(c.SNAPSHOT_TTL_MS),
            poll_interval_ms=figure(c.SNAPSHOT_POLL_INTERVAL_MS),
            next_poll_ms=figure(c.SNAPSHOT_NEXT_POLL_MS),
            overdue=bool(figure(c.SNAPSHOT_OVERDUE)),
            repeated=bool(figure(c.SNAPSHOT_REPEATED)),
            inputs=whole(c.SNAPSHOT_INPUTS) or [],
            history=whole(c.SNAPSHOT_HISTORY) or [],
            tool_result=whole(c.SNAPSHOT_TOOL_RESULT),
            json=whole(c.SNAPSHOT_JSON),
            immediate_response=text(c.SNAPSHOT_IMMEDIATE_RESPONSE),
            result=None if result is None else Result(library, result),
            error=None if error is None else take_error(library, error),
        )
    finally:
        library.mcp_snapshot_free(key)


class Task:
    """A task, followed by the library until its end whether or not this object is kept.

    ``status``, ``message`` and ``reason`` say what is known at the moment they are read; they ask nobody.
    """

    def __init__(self, library: Any, key: int) -> None:
        self._library = library
        self._handle = Handle(key, library.mcp_task_free)
        self._id: Optional[str] = None

    @property
    def id(self) -> str:
        """The server's id of the task."""
        if self._id is None:
            self._id = self.snapshot().task_id
        return self._id

    @property
    def status(self) -> TaskStatus:
        """The status as far as it is known now."""
        return self.snapshot().status

    @property
    def message(self) -> Optional[str]:
        """The server's status message as far as it is known now."""
        return self.snapshot().message

    @property
    def reason(self) -> Optional[Reason]:
        """Why the task ended, None while it has not."""
        return self.snapshot().reason

    def snapshot(self) -> Snapshot:
        """What is known now. Asks nobody and never blocks."""
        library = self._library
        return take_snapshot(library, out_present(library, library.mcp_task_snapshot, self._handle.key))

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Wait for the end, whatever the reason: True when it came, False when the wait ran out.

        Giving up, by time or by Ctrl-C, cancels nothing. In input mode ``manual`` an open question raises
        :class:`InputRequiredError`; answer it with :meth:`update` and wait again.
        """
        _dispatch.refuse_in_callback("Task.wait")
        library = self._library
        status = wait_in_slices(
            lambda ms: int(library.mcp_task_wait(self._handle.key, ms, None)), Deadline(timeout)
        )
        if status == Status.S_TIMEOUT:
            return False
        if status == Status.E_SCHEMA:
            # It has ended: the snapshot has the result and what is wrong with it.
            return True
        if status < 0:
            error = last_error(library, status)
            if isinstance(error, InputRequiredError):
                error.task = self
            raise error
        return True

    def result(self, timeout: Optional[float] = None) -> Result:
        """Wait for the end and give the result; raises for any other end, :class:`WaitTimeout` when the wait ran out."""
        if not self.wait(timeout):
            raise WaitTimeout()
        self.acknowledge()
        return self.snapshot().outcome()

    def get(self, timeout: Optional[float] = None) -> Snapshot:
        """Ask the server for the state now: one round trip."""
        _dispatch.refuse_in_callback("Task.get")
        library = self._library
        wait = milliseconds(timeout)
        key = run_interruptibly(lambda: out_present(library, library.mcp_task_get, self._handle.key, wait))
        return take_snapshot(library, key)

    def update(self, responses: Mapping[str, Any], timeout: Optional[float] = None) -> bool:
        """Answer open questions: ``{key: {response object}}``. False when each had been answered already."""
        _dispatch.refuse_in_callback("Task.update")
        library = self._library
        data = _text.encode_object(responses, "responses") or b"{}"
        wait = milliseconds(timeout)
        status = run_interruptibly(
            lambda: check(library, library.mcp_task_update(self._handle.key, data, len(data), wait))
        )
        return status != Status.S_ALREADY_DONE

    def cancel(self) -> bool:
        """Ask the server to stop; does not wait. The task is followed to its real end, which may be another.

        False when it had ended already.
        """
        status = check(self._library, self._library.mcp_task_cancel(self._handle.key))
        return status != Status.S_ALREADY_DONE

    def let_go(self) -> bool:
        """Stop following the task. It ends here with the reason *closed*; the server goes on with it."""
        status = check(self._library, self._library.mcp_task_let_go(self._handle.key))
        return status != Status.S_ALREADY_DONE

    def acknowledge(self) -> bool:
        """Say that the end is taken care of: :meth:`Client.check` gives it no more. False when that was said before.

        ``call_tool``, ``result`` and ``check`` do it by themselves for what they give.
        """
        status = check(self._library, self._library.mcp_task_acknowledge(self._handle.key))
        return status != Status.S_ALREADY_DONE

    def export(self) -> str:
        """All that the ledger would keep of the task, as JSON, for a store of your own; see :meth:`Client.import_task`."""
        library = self._library
        key = out_present(library, library.mcp_task_export, self._handle.key)
        try:
            return _text.read(library.mcp_text_get, key) or ""
        finally:
            library.mcp_text_free(key)

    def close(self) -> None:
        """Give up this object's handle; the task itself goes on being followed."""
        self._handle.close()

    def __repr__(self) -> str:
        try:
            seen = self.snapshot()
        except McpError as error:
            return f"<Task {self._id or ''} {error.name}>"
        return f"<Task {seen.task_id} {seen.reason or seen.status}>"


def wait_any(tasks: Sequence[Task], timeout: Optional[float] = None) -> Optional[Task]:
    """Wait until one of the tasks has ended: the first of the list that has, None when the wait ran out.

    The tasks may belong to different clients. An open question in input mode ``manual`` raises
    :class:`InputRequiredError` with that task.
    """
    place = _wait_many("wait_any", tasks, c.WAIT_ANY, timeout)
    return None if place is None else tasks[place]


def wait_all(tasks: Sequence[Task], timeout: Optional[float] = None) -> bool:
    """Wait until all of the tasks have ended: False when the wait ran out. Otherwise as :func:`wait_any`."""
    return not tasks or _wait_many("wait_all", tasks, c.WAIT_ALL, timeout) is not None


def _wait_many(name: str, tasks: Sequence[Task], until: int, timeout: Optional[float]) -> Optional[int]:
    _dispatch.refuse_in_callback(name)
    if not tasks:
        raise ValueError(f"{name} needs at least one task")
    library = tasks[0]._library
    keys = [task._handle.key for task in tasks]
    handles = (_abi.handle * len(keys))(*keys)
    place = ctypes.c_size_t()

    def wait(ms: int) -> int:
        return int(library.mcp_task_wait_many(handles, len(keys), until, ms, ctypes.byref(place)))

    status = wait_in_slices(wait, Deadline(timeout))
    if status == Status.S_TIMEOUT:
        return None
    if status < 0:
        error = last_error(library, status)
        if isinstance(error, InputRequiredError):
            error.task = tasks[place.value]
        raise error
    return place.value
