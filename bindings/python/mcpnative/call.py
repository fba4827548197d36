"""A request on its way, like a future."""

from __future__ import annotations

import ctypes
from typing import Any, List, Mapping, Optional

from . import _dispatch, _text
from ._handle import Handle, out, out_present
from ._time import Deadline, wait_in_slices
from .errors import InputRequiredError, McpError, SchemaError, Status, WaitTimeout, check, last_error, take_error
from .result import Result
from .task import Task


class Call:
    """A started call. It goes on whether or not this object is kept; only :meth:`cancel` ends it early.

    Where the server answers a tool call with a task, the call's outcome is the task's: :meth:`wait` and
    :meth:`result` follow it to its end.
    """

    def __init__(self, library: Any, key: int) -> None:
        self._library = library
        self._handle = Handle(key, library.mcp_call_free)
        self._task: Optional[Task] = None

    @property
    def id(self) -> int:
        """The number under which events name this call."""
        return check(self._library, self._library.mcp_call_id(self._handle.key))

    @property
    def status(self) -> Status:
        """``S_PENDING``, ``OK``, ``S_TASK`` or the code of the error it ended with. Never blocks."""
        return Status(self._library.mcp_call_status(self._handle.key))

    @property
    def task(self) -> Optional[Task]:
        """The task that the server made of the call; None while there is no answer, or when there is none."""
        if self._task is None:
            key = out(self._library, self._library.mcp_call_task, self._handle.key)
            if key is not None:
                self._task = Task(self._library, key)
        return self._task

    @property
    def error(self) -> Optional[McpError]:
        """The error that the call itself ended with, or None."""
        key = out(self._library, self._library.mcp_call_error, self._handle.key)
        return None if key is None else take_error(self._library, key)

    def done(self) -> bool:
        """Whether everything is over, the task included."""
        status = self.status
        if status == Status.S_TASK:
            task = self.task
            return task is None or task.snapshot().ended
        return status != Status.S_PENDING

    def wait_answer(self, timeout: Optional[float] = None) -> bool:
        """Wait for the server's answer only: afterwards ``task`` or the result is there. False: the wait ran out."""
        _dispatch.refuse_in_callback("Call.wait_answer")
        return self._wait_answer(Deadline(timeout))

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Wait until everything is over: True, whatever the outcome, or False when the wait ran out.

        Giving up, by time or by Ctrl-C, cancels nothing. An open question in input mode ``manual`` raises
        :class:`InputRequiredError`.
        """
        _dispatch.refuse_in_callback("Call.wait")
        return self._wait(Deadline(timeout))

    def result(self, timeout: Optional[float] = None) -> Result:
        """Wait and give the result. Raises what the call or its task ended with; :class:`WaitTimeout` when the wait ran out."""
        _dispatch.refuse_in_callback("Call.result")
        return self._result(Deadline(timeout))

    def cancel(self) -> bool:
        """Give up the call and ask for an end of the task it created. False when all was over already."""
        status = check(self._library, self._library.mcp_call_cancel(self._handle.key))
        task = self.task
        if task is not None:
            return task.cancel()
        return status != Status.S_ALREADY_DONE

    def inputs(self) -> List[Mapping[str, Any]]:
        """The questions that wait for :meth:`answer`: ``{"key", "method", "params"}`` (input mode ``manual``)."""
        library = self._library
        key = out_present(library, library.mcp_call_inputs, self._handle.key)
        try:
            return list(_text.read_json(library.mcp_text_get, key) or [])
        finally:
            library.mcp_text_free(key)

    def answer(self, responses: Mapping[str, Any]) -> bool:
        """Answer open questions: ``{key: {response object}}``. False when nothing was open."""
        data = _text.encode_object(responses, "responses") or b"{}"
        status = check(self._library, self._library.mcp_call_answer(self._handle.key, data, len(data)))
        return status != Status.S_ALREADY_DONE

    def close(self) -> None:
        """Give up this object's handle; the call itself goes on."""
        self._handle.close()

    def _wait_answer(self, deadline: Deadline) -> bool:
        library = self._library
        status = wait_in_slices(lambda ms: int(library.mcp_call_wait(self._handle.key, ms)), deadline)
        if status == Status.S_TIMEOUT:
            return False
        if status < 0:
            # Read before anything else asks the library: the next function clears it.
            error = last_error(library, status)
            if self.status == Status.S_PENDING:
                # It is the wait that failed (or a question that waits), not the call.
                if isinstance(error, InputRequiredError):
                    error.call = self
                raise error
        return True

    def _wait(self, deadline: Deadline) -> bool:
        if not self._wait_answer(deadline):
            return False
        task = self.task
        if task is None:
            return True
        try:
            return task.wait(deadline.remaining())
        except InputRequiredError as error:
            error.call = self
            raise

    def _result(self, deadline: Deadline) -> Result:
        if not self._wait(deadline):
            raise WaitTimeout()
        task = self.task
        if task is not None:
            task.acknowledge()
            return task.snapshot().outcome()
        library = self._library
        status = library.mcp_call_status(self._handle.key)
        if status < 0:
            error = self.error or last_error(library, status)
            if isinstance(error, SchemaError):
                error.result = self._unfit()
            raise error
        return Result(library, out_present(library, library.mcp_call_result, self._handle.key))

    def _unfit(self) -> Optional[Result]:
        # The one failure that has a result all the same.
        key = ctypes.c_void_p()
        self._library.mcp_call_result(self._handle.key, ctypes.byref(key))
        return Result(self._library, key.value) if key.value else None

    def _give_up(self) -> None:
        # Called while another exception is on its way: nothing in here may take its place.
        try:
            self.cancel()
        except McpError:
            pass

    def __repr__(self) -> str:
        try:
            return f"<Call {self.id} {self.status.name}>"
        except McpError as error:
            return f"<Call {error.name}>"
