"""A question of the server's: an elicitation, a sampling request or a request for roots."""

from __future__ import annotations

import ctypes
import enum
from typing import Any, Mapping, Optional

from . import _constants as c
from . import _text
from ._handle import Handle
from .errors import Status, check


class InputKind(enum.IntEnum):
    """What a question asks for."""

    ELICITATION = c.INPUT_ELICITATION
    SAMPLING = c.INPUT_SAMPLING
    ROOTS = c.INPUT_ROOTS


class Input:
    """An open question. Answer it once, from any thread, now or hours later.

    An object that is dropped without an answer leaves the question open; for a task's question it is in the
    task's snapshot and :meth:`Task.update` answers it.

    Each of the four verbs gives True, or False when the question was answered or withdrawn before.
    """

    def __init__(self, library: Any, key: int) -> None:
        self._library = library
        self._handle = Handle(key, library.mcp_input_free)
        self.kind = InputKind(check(library, library.mcp_input_kind(key)))
        self.key: str = self._text(c.INPUT_KEY) or ""
        self.method: str = self._text(c.INPUT_METHOD) or ""
        #: What to show to a human, where the server sent such a text.
        self.message: Optional[str] = self._text(c.INPUT_MESSAGE)
        #: The task that asks, None for a plain call.
        self.task_id: Optional[str] = self._text(c.INPUT_TASK_ID)
        #: The :attr:`Call.id` of the call that asks, None for a task.
        self.call_id: Optional[int] = self._number(c.INPUT_CALL_ID)
        #: An earlier process may have asked it already (a task that was taken up again).
        self.repeated: bool = bool(self._number(c.INPUT_REPEATED))

    def _text(self, field: int) -> Optional[str]:
        return _text.read(self._library.mcp_input_text, self._handle.key, field)

    def _number(self, field: int) -> Optional[int]:
        value = ctypes.c_int64()
        status = check(self._library, self._library.mcp_input_number(self._handle.key, field, ctypes.byref(value)))
        return None if status == Status.S_NONE else value.value

    @property
    def params(self) -> Any:
        """The parameters as the server sent them."""
        return _text.read_json(self._library.mcp_input_text, self._handle.key, c.INPUT_PARAMS)

    def answer(self, content: Optional[Mapping[str, Any]] = None) -> bool:
        """Answer. Elicitation: the form's fields (nothing for a URL). Sampling and roots: the result object."""
        data = _text.encode_object(content, "content")
        return self._done(self._library.mcp_input_answer(self._handle.key, data, _text.length(data)))

    def decline(self) -> bool:
        """Say no. Elicitation only."""
        return self._done(self._library.mcp_input_decline(self._handle.key))

    def cancel(self) -> bool:
        """Say neither yes nor no. Elicitation only."""
        return self._done(self._library.mcp_input_cancel(self._handle.key))

    def fail(self, message: str = "the client cannot answer") -> bool:
        """Say that it cannot be answered. Sampling and roots: the call ends with :class:`InputRefusedError`, a task
        is cancelled or left waiting, by the settings. Elicitation: the same as :meth:`cancel`."""
        return self._done(self._library.mcp_input_fail(self._handle.key, _text.name(message, "message")))

    def close(self) -> None:
        """Give up this object's handle; an unanswered question stays open."""
        self._handle.close()

    def _done(self, status: int) -> bool:
        return check(self._library, status) != Status.S_ALREADY_DONE

    def __repr__(self) -> str:
        return f"<Input {self.method} {self.key!r}>"
