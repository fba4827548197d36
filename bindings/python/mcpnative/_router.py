"""From an event of the library's to a handler in Python. One router for each client.

The library holds the router (by way of ``_keep``) and the router holds the handlers; neither holds the client.
Handlers may be set and replaced at any time, also while events arrive.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import threading
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from . import _constants as c
from . import _keep, _text
from ._handle import out
from ._report import CallbackErrorHook, report
from .call import Call
from .errors import InternalError, McpError, Status, check, take_error
from .events import LogMessage, Notification, Progress, State, SubscriptionChange, SubscriptionState
from .input import Input
from .task import Snapshot, Task, take_snapshot

Handler = Callable[..., Any]

NAMES = {
    c.EVENT_STATE: "on_state",
    c.EVENT_CALL_DONE: "on_call_done",
    c.EVENT_PROGRESS: "on_progress",
    c.EVENT_LOG_MESSAGE: "on_log",
    c.EVENT_NOTIFICATION: "on_notification",
    c.EVENT_TASK_CREATED: "on_task_created",
    c.EVENT_TASK_RESUMED: "on_task_resumed",
    c.EVENT_TASK_STATUS: "on_task_status",
    c.EVENT_TASK_DONE: "on_task_completed",
    c.EVENT_TASK_OVERDUE: "on_task_overdue",
    c.EVENT_TASK_DEGRADED: "on_task_degraded",
    c.EVENT_TASK_RECOVERED: "on_task_recovered",
    c.EVENT_ELICITATION: "on_elicitation",
    c.EVENT_SAMPLING: "on_sampling",
    c.EVENT_ROOTS: "on_roots",
    c.EVENT_INPUT_WITHDRAWN: "on_input_withdrawn",
    c.EVENT_ERROR: "on_error",
    c.EVENT_SUBSCRIPTION: "on_subscription",
}

QUESTIONS = frozenset((c.EVENT_ELICITATION, c.EVENT_SAMPLING, c.EVENT_ROOTS))

#: Registered with the library only where a handler is there before opening: a question because registering
#: declares to the server that it can be answered, the end of a call because most programs wait instead.
BEFORE_OPENING = QUESTIONS | {c.EVENT_CALL_DONE}


class Router:
    """The handlers of one client."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.handlers: Dict[int, Handler] = {}
        self.error_hook: Optional[CallbackErrorHook] = None
        self._readers: Dict[int, Callable[[int], Tuple[Any, ...]]] = {
            c.EVENT_STATE: self._state,
            c.EVENT_CALL_DONE: self._call,
            c.EVENT_PROGRESS: self._progress,
            c.EVENT_LOG_MESSAGE: self._log,
            c.EVENT_NOTIFICATION: self._notification,
            c.EVENT_TASK_CREATED: self._task,
            c.EVENT_TASK_RESUMED: self._task,
            c.EVENT_TASK_STATUS: self._task,
            c.EVENT_TASK_DONE: self._task,
            c.EVENT_TASK_OVERDUE: self._task,
            c.EVENT_TASK_DEGRADED: self._degraded,
            c.EVENT_TASK_RECOVERED: self._task,
            c.EVENT_ELICITATION: self._input,
            c.EVENT_SAMPLING: self._input,
            c.EVENT_ROOTS: self._input,
            c.EVENT_INPUT_WITHDRAWN: self._input,
            c.EVENT_ERROR: self._error,
            c.EVENT_SUBSCRIPTION: self._subscription,
        }
        #: Held while a subscription starts: an event that comes before its handler is known waits for it.
        self.subscribing = threading.RLock()
        self.subscribers: Dict[int, Handler] = {}

    def register(self, client: int) -> None:
        """Tell the library which events to deliver here."""
        library = self._library
        for kind in NAMES:
            if kind in BEFORE_OPENING and kind not in self.handlers:
                continue
            user = _keep.keep(functools.partial(self.deliver, kind))
            # Also when this fails, the library calls destroy for the user data.
            check(library, library.mcp_client_on(client, kind, _keep.EVENT, user, _keep.DESTROY))

    def deliver(self, kind: int, event: int) -> None:
        """Run the handler of one event. Whatever it raises is reported and goes no further."""
        try:
            handler = self._subscriber(kind, event) or self.handlers.get(kind)
            if handler is None:
                if kind == c.EVENT_ERROR:
                    logging.getLogger("mcpnative").warning("%s", self._error(event)[0])
                return
            arguments = self._readers[kind](event)
            if kind in QUESTIONS:
                self._ask(kind, handler, arguments[0])
            else:
                handler(*arguments)
        except BaseException as error:
            report(error, f"an {NAMES[kind]} handler", self.error_hook)

    def _subscriber(self, kind: int, event: int) -> Optional[Handler]:
        if kind not in (c.EVENT_SUBSCRIPTION, c.EVENT_NOTIFICATION):
            return None
        call_id = self._number(event, c.EVENT_NUMBER_CALL_ID)
        if call_id is None:
            return None
        with self.subscribing:
            ended = kind == c.EVENT_SUBSCRIPTION and self._number(event, c.EVENT_NUMBER_SUBSCRIPTION) == c.SUBSCRIPTION_ENDED
            return self.subscribers.pop(call_id, None) if ended else self.subscribers.get(call_id)

    def _ask(self, kind: int, handler: Handler, question: Input) -> None:
        try:
            answer = handler(question)
            if answer is None:
                return
            if not isinstance(answer, Mapping):
                raise TypeError(
                    f"the handler must return a mapping (the answer) or None (not yet), not {type(answer).__name__}"
                )
            question.answer(answer)
        except BaseException:
            # A handler that failed never means yes.
            if kind == c.EVENT_ELICITATION:
                question.decline()
            else:
                question.fail("the client could not answer")
            raise

    def _number(self, event: int, field: int) -> Optional[int]:
        value = ctypes.c_int64()
        status = check(self._library, self._library.mcp_event_number(event, field, ctypes.byref(value)))
        return None if status == Status.S_NONE else value.value

    def _json(self, event: int) -> Any:
        return _text.read_json(self._library.mcp_event_text, event, c.EVENT_TEXT_JSON)

    def _event_error(self, event: int) -> Optional[McpError]:
        key = out(self._library, self._library.mcp_event_error, event)
        return None if key is None else take_error(self._library, key)

    def _state(self, event: int) -> Tuple[State, Optional[McpError]]:
        return State(self._number(event, c.EVENT_NUMBER_STATE) or 0), self._event_error(event)

    def _call(self, event: int) -> Tuple[Call]:
        key = out(self._library, self._library.mcp_event_call, event)
        return (Call(self._library, _present(key)),)

    def _progress(self, event: int) -> Tuple[Progress]:
        params = self._json(event) or {}
        return (
            Progress(
                call_id=self._number(event, c.EVENT_NUMBER_CALL_ID),
                progress=params.get("progress", 0),
                total=params.get("total"),
                message=params.get("message"),
                params=params,
            ),
        )

    def _log(self, event: int) -> Tuple[LogMessage]:
        params = self._json(event) or {}
        return (
            LogMessage(
                level=str(params.get("level", "info")),
                logger=params.get("logger"),
                data=params.get("data"),
                call_id=self._number(event, c.EVENT_NUMBER_CALL_ID),
            ),
        )

    def _notification(self, event: int) -> Tuple[Notification]:
        method = _text.read(self._library.mcp_event_text, event, c.EVENT_TEXT_METHOD)
        return (Notification(method or "", self._json(event), self._number(event, c.EVENT_NUMBER_CALL_ID)),)

    def _subscription(self, event: int) -> Tuple[SubscriptionChange]:
        state = SubscriptionState(self._number(event, c.EVENT_NUMBER_SUBSCRIPTION) or 0)
        granted = state in (SubscriptionState.ACTIVE, SubscriptionState.CATCH_UP)
        return (
            SubscriptionChange(
                call_id=self._number(event, c.EVENT_NUMBER_CALL_ID),
                state=state,
                filter=self._json(event) if granted else None,
                error=self._event_error(event),
            ),
        )

    def _task(self, event: int) -> Tuple[Task, Snapshot]:
        task = Task(self._library, _present(out(self._library, self._library.mcp_event_task, event)))
        seen = out(self._library, self._library.mcp_event_snapshot, event)
        return task, take_snapshot(self._library, _present(seen))

    def _degraded(self, event: int) -> Tuple[Task, McpError]:
        task = Task(self._library, _present(out(self._library, self._library.mcp_event_task, event)))
        return task, self._event_error(event) or InternalError(Status.E_INTERNAL, "no error was told")

    def _input(self, event: int) -> Tuple[Input]:
        return (Input(self._library, _present(out(self._library, self._library.mcp_event_input, event))),)

    def _error(self, event: int) -> Tuple[McpError]:
        return (self._event_error(event) or InternalError(Status.E_INTERNAL, "no error was told"),)


def _present(key: Optional[int]) -> int:
    if key is None:
        raise AssertionError("the event lacks what its kind promises")
    return key
