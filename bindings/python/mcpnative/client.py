"""The client: one server, its tools and its tasks."""

from __future__ import annotations

import copy
import ctypes
import os
import weakref
from types import TracebackType
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Type, TypeVar, Union

from . import _constants as c
from . import _dispatch, _text
from ._handle import out_present
from ._load import library as load_library
from ._report import CallbackErrorHook
from ._router import BEFORE_OPENING, NAMES, Router
from ._time import Deadline, milliseconds, run_interruptibly, wait_in_slices
from .call import Call
from .errors import (
    ArgumentError,
    InputRequiredError,
    McpError,
    RequestTimeout,
    StateError,
    Status,
    check,
)
from .events import LogMessage, Notification, Progress, State, SubscriptionChange
from .input import Input
from .result import Result
from .server import Server, take_server
from .task import Snapshot, Task

CLOSE_TIMEOUT = 10.0

TaskHandler = Callable[[Task, Snapshot], Any]
TaskErrorHandler = Callable[[Task, McpError], Any]
QuestionHandler = Callable[[Input], Optional[Mapping[str, Any]]]
InputHandler = Callable[[Input], Any]
ProgressHandler = Callable[[Progress], Any]
LogHandler = Callable[[LogMessage], Any]
NotificationHandler = Callable[[Notification], Any]
StateHandler = Callable[[State, Optional[McpError]], Any]
ErrorHandler = Callable[[McpError], Any]
CallHandler = Callable[[Call], Any]
SubscriptionHandler = Callable[[SubscriptionChange], Any]
HeardHandler = Callable[[Union[SubscriptionChange, Notification]], Any]

H = TypeVar("H", bound=Callable[..., Any])


def _release(library: Any, key: int) -> None:
    _dispatch.dispatcher.release(library, key)


class Client:
    """A client of one MCP server.

    As a context manager it opens, waits until the server has answered, and closes at the end::

        with Client(url="http://127.0.0.1:8080/mcp") as client:
            print(client.call_tool("echo", {"text": "hello"}).text)

    ``settings`` is the library's settings document; ``url``, ``headers``, ``server`` and ``identity`` are short cuts
    into it. ``ledger`` is the file in which tasks are stored, or the whole ``tasks.ledger`` part: the next process
    follows what this one leaves (``on_task_resumed``).
    Handlers are given here or by the methods of the same names, which also work as decorators. They run one
    after another on one thread of this package, for all clients of the process; a handler must not wait for the
    library (:class:`ReentrantError`) and should hand long work to a thread of its own.
    """

    def __init__(
        self,
        settings: Optional[Mapping[str, Any]] = None,
        *,
        url: Optional[str] = None,
        headers: Optional[Mapping[str, str]] = None,
        server: Optional[Mapping[str, Any]] = None,
        identity: Optional[str] = None,
        ledger: Optional[Any] = None,
        on_task_created: Optional[TaskHandler] = None,
        on_task_resumed: Optional[TaskHandler] = None,
        on_task_status: Optional[TaskHandler] = None,
        on_task_completed: Optional[TaskHandler] = None,
        on_task_overdue: Optional[TaskHandler] = None,
        on_task_degraded: Optional[TaskErrorHandler] = None,
        on_task_recovered: Optional[TaskHandler] = None,
        on_elicitation: Optional[QuestionHandler] = None,
        on_sampling: Optional[QuestionHandler] = None,
        on_roots: Optional[QuestionHandler] = None,
        on_input_withdrawn: Optional[InputHandler] = None,
        on_progress: Optional[ProgressHandler] = None,
        on_log: Optional[LogHandler] = None,
        on_notification: Optional[NotificationHandler] = None,
        on_state: Optional[StateHandler] = None,
        on_call_done: Optional[CallHandler] = None,
        on_error: Optional[ErrorHandler] = None,
        on_subscription: Optional[SubscriptionHandler] = None,
        on_callback_error: Optional[CallbackErrorHook] = None,
    ) -> None:
        if settings is not None and not isinstance(settings, Mapping):
            raise ArgumentError(Status.E_ARGUMENT, "settings must be a mapping (a JSON object)")
        document: Dict[str, Any] = copy.deepcopy(dict(settings or {}))
        if ledger is not None:
            tasks = document.setdefault("tasks", {})
            if not isinstance(tasks, dict):
                raise ArgumentError(Status.E_ARGUMENT, "settings.tasks must be a mapping (a JSON object)")
            if "ledger" in tasks:
                raise ArgumentError(Status.E_ARGUMENT, "ledger is given twice: in settings and by keyword")
            tasks["ledger"] = dict(ledger) if isinstance(ledger, Mapping) else {"file": os.fspath(ledger)}
        for key, value in (("url", url), ("headers", headers), ("server", server), ("identity", identity)):
            if value is not None:
                if key in document:
                    raise ArgumentError(Status.E_ARGUMENT, f"{key} is given twice: in settings and by keyword")
                document[key] = dict(value) if isinstance(value, Mapping) else value
        library = load_library()
        data = _text.encode(document, "settings")
        self._library = library
        self._key = out_present(library, library.mcp_client_new, data, len(data))
        self._finalizer = weakref.finalize(self, _release, library, self._key)
        self._finalizer.atexit = False
        self._router = Router(library)
        self._opened = False
        self._router.error_hook = on_callback_error
        given: Dict[int, Optional[Callable[..., Any]]] = {
            c.EVENT_TASK_CREATED: on_task_created,
            c.EVENT_TASK_RESUMED: on_task_resumed,
            c.EVENT_TASK_STATUS: on_task_status,
            c.EVENT_TASK_DONE: on_task_completed,
            c.EVENT_TASK_OVERDUE: on_task_overdue,
            c.EVENT_TASK_DEGRADED: on_task_degraded,
            c.EVENT_TASK_RECOVERED: on_task_recovered,
            c.EVENT_ELICITATION: on_elicitation,
            c.EVENT_SAMPLING: on_sampling,
            c.EVENT_ROOTS: on_roots,
            c.EVENT_INPUT_WITHDRAWN: on_input_withdrawn,
            c.EVENT_PROGRESS: on_progress,
            c.EVENT_LOG_MESSAGE: on_log,
            c.EVENT_NOTIFICATION: on_notification,
            c.EVENT_STATE: on_state,
            c.EVENT_CALL_DONE: on_call_done,
            c.EVENT_ERROR: on_error,
            c.EVENT_SUBSCRIPTION: on_subscription,
        }
        for kind, handler in given.items():
            if handler is not None:
                self._on(kind, handler)

    # ---- life -------------------------------------------------------------------------------------------

    def open(self, timeout: Optional[float] = None) -> "Client":
        """Open and wait until the server has answered. Raises what opening ended with, or :class:`RequestTimeout`.

        Without a timeout the settings' own limits for connecting and probing end the wait.
        """
        self.start()
        if not self.wait_open(timeout):
            raise RequestTimeout(Status.E_TIMEOUT, "the client was not ready in time")
        return self

    def start(self) -> None:
        """Begin to open, without waiting; ``on_state`` tells of the rest. After a failure it may be tried again."""
        library = self._library
        if not self._opened:
            dispatcher = _dispatch.dispatcher
            check(library, library.mcp_client_set_queue(self._key, dispatcher.queue()))
            self._opened = True
            dispatcher.add(self._key)
            self._router.register(self._key)
        check(library, library.mcp_client_open(self._key))

    def wait_open(self, timeout: Optional[float] = None) -> bool:
        """Wait until the client is ready: False when the wait ran out; raises what opening ended with."""
        _dispatch.refuse_in_callback("Client.wait_open")
        library = self._library
        status = wait_in_slices(
            lambda ms: int(library.mcp_client_wait_open(self._key, ms)), Deadline(timeout)
        )
        return check(library, status) != Status.S_TIMEOUT

    def close(self, timeout: Optional[float] = CLOSE_TIMEOUT) -> bool:
        """Close, and wait until the last handler has run. False when the wait ran out. A second time is nothing.

        Inside a handler it begins the end and returns at once.
        """
        library = self._library
        check(library, library.mcp_client_close(self._key))
        if not self._opened:
            return True
        if _dispatch.dispatcher.is_current():
            return False
        status = wait_in_slices(
            lambda ms: int(library.mcp_client_wait_closed(self._key, ms)), Deadline(timeout)
        )
        if check(library, status) == Status.S_TIMEOUT:
            return False
        _dispatch.dispatcher.remove(self._key)
        return True

    def __enter__(self) -> "Client":
        if not self._opened:
            try:
                self.open()
            except BaseException:
                self.close()
                raise
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    @property
    def state(self) -> State:
        """The state of the connection."""
        return State(check(self._library, self._library.mcp_client_state(self._key)))

    @property
    def server(self) -> Server:
        """What the server said of itself. :class:`StateError` before the client is ready."""
        library = self._library
        return take_server(library, out_present(library, library.mcp_client_server, self._key))

    def stats(self) -> Mapping[str, Any]:
        """The client's counters."""
        library = self._library
        counters: Mapping[str, Any] = self._take_json(out_present(library, library.mcp_client_stats, self._key))
        return counters

    def poke(self) -> None:
        """A hint: the network is back or the machine woke up. What is due or degraded is tried again now."""
        check(self._library, self._library.mcp_client_poke(self._key))

    # ---- calls ------------------------------------------------------------------------------------------

    def call_tool(
        self,
        name: str,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        idle_timeout: Optional[float] = None,
        tool_call_id: Optional[str] = None,
        context: Any = None,
        meta: Optional[Mapping[str, Any]] = None,
        options: Optional[Mapping[str, Any]] = None,
        raise_on_error: bool = False,
    ) -> Result:
        """Call a tool and wait for its result, through a task to its end where the server makes one.

        When ``timeout`` (seconds, for everything) runs out, or Ctrl-C comes, the call and the task that it
        created are cancelled; the former raises :class:`RequestTimeout`. Without a timeout the settings' limits
        hold for the request, and a task is followed as long as it lives. A failure that the tool itself reports
        is a result (``result.is_error``), unless ``raise_on_error`` makes it a :class:`ToolError`.
        """
        _dispatch.refuse_in_callback("Client.call_tool")
        deadline = Deadline(timeout)
        call = self.start_tool(
            name,
            arguments,
            timeout=timeout,
            idle_timeout=idle_timeout,
            tool_call_id=tool_call_id,
            context=context,
            meta=meta,
            options=options,
        )
        result = self._await(call, deadline)
        return result.raise_for_error() if raise_on_error else result

    def start_tool(
        self,
        name: str,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        idle_timeout: Optional[float] = None,
        tool_call_id: Optional[str] = None,
        context: Any = None,
        meta: Optional[Mapping[str, Any]] = None,
        options: Optional[Mapping[str, Any]] = None,
    ) -> Call:
        """Start a tool call and return at once. ``timeout`` is the limit of the request, not of a task."""
        library = self._library
        more: Dict[str, Any] = {}
        if tool_call_id is not None:
            more["tool_call_id"] = tool_call_id
        if context is not None:
            more["context"] = context
        document = _options(options, timeout, idle_timeout, meta, more)
        data = _text.encode_object(arguments, "arguments")
        key = out_present(
            library,
            library.mcp_tool_call,
            self._key,
            _text.name(name, "name"),
            data,
            _text.length(data),
            document,
            _text.length(document),
        )
        return Call(library, key)

    def request(
        self,
        method: str,
        params: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        idle_timeout: Optional[float] = None,
        meta: Optional[Mapping[str, Any]] = None,
        options: Optional[Mapping[str, Any]] = None,
    ) -> Any:
        """Send any request and wait for its result, given as Python values."""
        _dispatch.refuse_in_callback("Client.request")
        deadline = Deadline(timeout)
        call = self.start_request(
            method, params, timeout=timeout, idle_timeout=idle_timeout, meta=meta, options=options
        )
        return self._await(call, deadline).json

    def start_request(
        self,
        method: str,
        params: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        idle_timeout: Optional[float] = None,
        meta: Optional[Mapping[str, Any]] = None,
        options: Optional[Mapping[str, Any]] = None,
    ) -> Call:
        """Start any request and return at once."""
        library = self._library
        document = _options(options, timeout, idle_timeout, meta, {})
        data = _text.encode_object(params, "params")
        key = out_present(
            library,
            library.mcp_call_start,
            self._key,
            _text.name(method, "method"),
            data,
            _text.length(data),
            document,
            _text.length(document),
        )
        return Call(library, key)

    def subscribe(
        self,
        handler: Optional[HeardHandler] = None,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Sequence[str] = (),
        options: Optional[Mapping[str, Any]] = None,
    ) -> Call:
        """Hear of changes: of the lists of tools, prompts, resources, and of the resources in ``uris``.

        ``handler(news)`` gets a :class:`SubscriptionChange` when the subscription is active, lost, active again or
        over, and a :class:`Notification` for what it hears; without one, ``on_subscription`` and ``on_notification``
        do. It lasts, and is opened again after a cut, until :meth:`Call.cancel`, a refusal, the server's end of it, or the
        close of the client.
        """
        if isinstance(uris, str):
            raise ArgumentError(Status.E_ARGUMENT, "uris must be a sequence of strings, not a string")
        wanted: Dict[str, Any] = {}
        for key, value in (
            ("toolsListChanged", tools),
            ("promptsListChanged", prompts),
            ("resourcesListChanged", resources),
            ("resourceSubscriptions", list(uris)),
        ):
            if value:
                wanted[key] = value
        with self._router.subscribing:
            call = self.start_request("subscriptions/listen", {"notifications": wanted}, options=options)
            if handler is not None:
                self._router.subscribers[call.id] = handler
        return call

    def notify(self, method: str, params: Optional[Mapping[str, Any]] = None) -> None:
        """Send a notification, and wait until the server has accepted it."""
        _dispatch.refuse_in_callback("Client.notify")
        library = self._library
        encoded, data = _text.name(method, "method"), _text.encode_object(params, "params")
        run_interruptibly(
            lambda: check(library, library.mcp_client_notify(self._key, encoded, data, _text.length(data)))
        )

    # ---- lists and resources ------------------------------------------------------------------------------

    def list_tools(
        self, *, timeout: Optional[float] = None, cache: Optional[str] = None
    ) -> List[Dict[str, Any]]:
        """The server's tools, all pages, as the server describes them.

        ``cache``, here and below, is the call option of that name: "server", "until_changed", "refresh" or "off".
        """
        return self._list("tools/list", "tools", timeout, cache)

    def list_prompts(
        self, *, timeout: Optional[float] = None, cache: Optional[str] = None
    ) -> List[Dict[str, Any]]:
        """The server's prompts, all pages."""
        return self._list("prompts/list", "prompts", timeout, cache)

    def list_resources(
        self, *, timeout: Optional[float] = None, cache: Optional[str] = None
    ) -> List[Dict[str, Any]]:
        """The server's resources, all pages."""
        return self._list("resources/list", "resources", timeout, cache)

    def list_resource_templates(
        self, *, timeout: Optional[float] = None, cache: Optional[str] = None
    ) -> List[Dict[str, Any]]:
        """The templates of the server's resources, all pages; :func:`expand_uri_template` makes URIs of them."""
        return self._list("resources/templates/list", "resourceTemplates", timeout, cache)

    def read_resource(
        self, uri: str, *, timeout: Optional[float] = None, cache: Optional[str] = None
    ) -> List[Dict[str, Any]]:
        """The contents of a resource."""
        read = self.request("resources/read", {"uri": uri}, timeout=timeout, options=_cache(cache))
        return list(read.get("contents", []))

    def get_prompt(
        self, name: str, arguments: Optional[Mapping[str, str]] = None, *, timeout: Optional[float] = None
    ) -> Dict[str, Any]:
        """A prompt with its arguments filled in: ``{"messages": [...], ...}``."""
        params: Dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = dict(arguments)
        return dict(self.request("prompts/get", params, timeout=timeout))

    def complete(
        self,
        argument: str,
        value: str,
        *,
        prompt: Optional[str] = None,
        template: Optional[str] = None,
        context: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
    ) -> Dict[str, Any]:
        """Completions of an argument of a prompt, or of a variable of a URI template: ``{"values": [...], ...}``.

        ``context`` has the arguments that are settled already.
        """
        if (prompt is None) == (template is None):
            raise ArgumentError(Status.E_ARGUMENT, "complete needs either prompt or template")
        ref = {"type": "ref/prompt", "name": prompt} if template is None else {"type": "ref/resource", "uri": template}
        params: Dict[str, Any] = {"ref": ref, "argument": {"name": argument, "value": value}}
        if context is not None:
            params["context"] = {"arguments": dict(context)}
        return dict(self.request("completion/complete", params, timeout=timeout).get("completion", {}))

    @property
    def tools_generation(self) -> int:
        """Grows whenever the server's tools are known to have changed. Asks nobody.

        Read it before :meth:`list_tools`; where it is another one later, what was made of the tools is outdated.
        """
        return self._number(c.CLIENT_TOOLS_GENERATION)

    @property
    def prompts_generation(self) -> int:
        """The same for the prompts."""
        return self._number(c.CLIENT_PROMPTS_GENERATION)

    @property
    def resources_generation(self) -> int:
        """The same for the resources and their templates."""
        return self._number(c.CLIENT_RESOURCES_GENERATION)

    # ---- tasks ------------------------------------------------------------------------------------------

    def task(self, task_id: str) -> Task:
        """A task of this client by its id; one that is not known yet is taken up and followed."""
        library = self._library
        return Task(
            library, out_present(library, library.mcp_task_open, self._key, _text.name(task_id, "task_id"))
        )

    def import_task(self, record: str) -> Task:
        """Take up a task from what :meth:`Task.export` gave, in this process or an earlier one."""
        library = self._library
        data = record.encode("utf-8")
        return Task(library, out_present(library, library.mcp_task_import, self._key, data, len(data)))

    def purge(self, age: float = 0.0) -> int:
        """Take the records of tasks that ended at least ``age`` seconds ago out of the ledger. Gives how many."""
        library = self._library
        count = ctypes.c_int64()
        check(library, library.mcp_client_purge(self._key, int(age * 1000), ctypes.byref(count)))
        return count.value

    def tasks(
        self, *, tool_call_id: Optional[str] = None, context: Optional[Mapping[str, Any]] = None
    ) -> List[Dict[str, Any]]:
        """The pending tasks, with what is known of them. Asks nobody.

        ``tool_call_id`` narrows them to those of one call, ``context`` to those whose context has these members with
        these values, e.g. a conversation's id.
        """
        library = self._library
        data = _filter(tool_call_id, context)
        key = out_present(library, library.mcp_client_tasks, self._key, data, _text.length(data))
        return list(self._take_json(key))

    def check(
        self,
        *,
        tool_call_id: Optional[str] = None,
        context: Optional[Mapping[str, Any]] = None,
        timeout: Optional[float] = None,
    ) -> List[Dict[str, Any]]:
        """Ask once about each task that is due and give what has ended since: every outcome as a tool result.

        Made for a chat loop that does its own polling (``tasks.auto_poll`` false). Each end is given once: here, by
        ``call_tool`` or by ``result``. One that only a wait or a handler has seen comes here, too, unless
        :meth:`Task.acknowledge` said that it is taken care of. ``tool_call_id`` and ``context`` as in :meth:`tasks`.
        """
        _dispatch.refuse_in_callback("Client.check")
        library = self._library
        data = _filter(tool_call_id, context)
        wait = milliseconds(timeout)
        key = run_interruptibly(
            lambda: out_present(
                library, library.mcp_client_check, self._key, data, _text.length(data), wait
            )
        )
        return list(self._take_json(key))

    # ---- handlers ---------------------------------------------------------------------------------------

    def on_task_created(self, handler: TaskHandler) -> TaskHandler:
        """``handler(task, snapshot)``: the server has made a task of a call."""
        return self._on(c.EVENT_TASK_CREATED, handler)

    def on_task_resumed(self, handler: TaskHandler) -> TaskHandler:
        """``handler(task, snapshot)``: a task of an earlier process, or one that was taken up (:meth:`task`),
        is followed from now on."""
        return self._on(c.EVENT_TASK_RESUMED, handler)

    def on_task_status(self, handler: TaskHandler) -> TaskHandler:
        """``handler(task, snapshot)``: status, message or open questions of a task changed."""
        return self._on(c.EVENT_TASK_STATUS, handler)

    def on_task_completed(self, handler: TaskHandler) -> TaskHandler:
        """``handler(task, snapshot)``: a task has ended, once for each; ``snapshot.reason`` tells how."""
        return self._on(c.EVENT_TASK_DONE, handler)

    def on_task_overdue(self, handler: TaskHandler) -> TaskHandler:
        """``handler(task, snapshot)``: a task's time to live has passed, and the server still answers for it."""
        return self._on(c.EVENT_TASK_OVERDUE, handler)

    def on_task_degraded(self, handler: TaskErrorHandler) -> TaskErrorHandler:
        """``handler(task, error)``: a poll failed; it is tried again."""
        return self._on(c.EVENT_TASK_DEGRADED, handler)

    def on_task_recovered(self, handler: TaskHandler) -> TaskHandler:
        """``handler(task, snapshot)``: polling works again."""
        return self._on(c.EVENT_TASK_RECOVERED, handler)

    def on_elicitation(self, handler: QuestionHandler) -> QuestionHandler:
        """``handler(input)``: the server asks the user something. To be set before opening.

        Return a mapping to answer with it, or None to answer later (or not to go on: :meth:`Input.decline`,
        :meth:`Input.cancel`). A handler that raises, or returns anything else, declines.
        """
        return self._on(c.EVENT_ELICITATION, handler)

    def on_sampling(self, handler: QuestionHandler) -> QuestionHandler:
        """``handler(input)``: the server asks for a model's answer. As above; a handler that raises refuses."""
        return self._on(c.EVENT_SAMPLING, handler)

    def on_roots(self, handler: QuestionHandler) -> QuestionHandler:
        """``handler(input)``: the server asks for the roots. As above; a handler that raises refuses."""
        return self._on(c.EVENT_ROOTS, handler)

    def on_input_withdrawn(self, handler: InputHandler) -> InputHandler:
        """``handler(input)``: a question no longer wants an answer."""
        return self._on(c.EVENT_INPUT_WITHDRAWN, handler)

    def on_progress(self, handler: ProgressHandler) -> ProgressHandler:
        """``handler(progress)``: a call tells how far it is."""
        return self._on(c.EVENT_PROGRESS, handler)

    def on_log(self, handler: LogHandler) -> LogHandler:
        """``handler(log_message)``: a log message of the server's."""
        return self._on(c.EVENT_LOG_MESSAGE, handler)

    def on_notification(self, handler: NotificationHandler) -> NotificationHandler:
        """``handler(notification)``: any other notification."""
        return self._on(c.EVENT_NOTIFICATION, handler)

    def on_state(self, handler: StateHandler) -> StateHandler:
        """``handler(state, error)``: the connection's state changed; ``error`` where it failed, else None."""
        return self._on(c.EVENT_STATE, handler)

    def on_call_done(self, handler: CallHandler) -> CallHandler:
        """``handler(call)``: a call has ended, or has become a task. To be set before opening."""
        return self._on(c.EVENT_CALL_DONE, handler)

    def on_error(self, handler: ErrorHandler) -> ErrorHandler:
        """``handler(error)``: something failed in the background that no call or task can report.

        Without a handler it goes to the logger ``mcpnative`` as a warning.
        """
        return self._on(c.EVENT_ERROR, handler)

    def on_subscription(self, handler: SubscriptionHandler) -> SubscriptionHandler:
        """``handler(change)``: a subscription without a handler of its own is active, lost, active again or over."""
        return self._on(c.EVENT_SUBSCRIPTION, handler)

    def on_callback_error(self, handler: CallbackErrorHook) -> CallbackErrorHook:
        """``handler(exception, where)``: a handler of this client raised. Without it: ``sys.unraisablehook``."""
        self._router.error_hook = handler
        return handler

    # ---- inside -----------------------------------------------------------------------------------------

    def _on(self, kind: int, handler: H) -> H:
        if not callable(handler):
            raise ArgumentError(Status.E_ARGUMENT, f"{NAMES[kind]} needs something that can be called")
        if self._opened and kind in BEFORE_OPENING and kind not in self._router.handlers:
            raise StateError(Status.E_STATE, f"the first {NAMES[kind]} handler must be set before opening")
        self._router.handlers[kind] = handler
        return handler

    def _list(
        self, method: str, member: str, timeout: Optional[float], cache: Optional[str]
    ) -> List[Dict[str, Any]]:
        options = {"all_pages": True, **_cache(cache)}
        return list(self.request(method, timeout=timeout, options=options).get(member, []))

    def _number(self, field: int) -> int:
        library = self._library
        number = ctypes.c_int64()
        check(library, library.mcp_client_number(self._key, field, ctypes.byref(number)))
        return number.value

    def _await(self, call: Call, deadline: Deadline) -> Result:
        try:
            if not call._wait(deadline):
                raise RequestTimeout(Status.E_TIMEOUT, "the call was not done in time and was cancelled")
            return call._result(deadline)
        except InputRequiredError:
            raise  # it carries the call, which goes on
        except BaseException:
            call._give_up()
            raise

    def _take_json(self, key: int) -> Any:
        try:
            return _text.read_json(self._library.mcp_text_get, key)
        finally:
            self._library.mcp_text_free(key)

    def __repr__(self) -> str:
        try:
            return f"<Client {self.state.name.lower()}>"
        except McpError as error:
            return f"<Client {error.name}>"


def _cache(cache: Optional[str]) -> Dict[str, Any]:
    return {} if cache is None else {"cache": cache}


def _filter(tool_call_id: Optional[str], context: Optional[Mapping[str, Any]]) -> Optional[bytes]:
    given = {"tool_call_id": tool_call_id, "context": context}
    wanted = {key: value for key, value in given.items() if value is not None}
    return _text.encode(wanted, "the filter") if wanted else None


def _options(
    options: Optional[Mapping[str, Any]],
    timeout: Optional[float],
    idle_timeout: Optional[float],
    meta: Optional[Mapping[str, Any]],
    more: Mapping[str, Any],
) -> Optional[bytes]:
    if options is not None and not isinstance(options, Mapping):
        raise ArgumentError(Status.E_ARGUMENT, "options must be a mapping (a JSON object)")
    document: Dict[str, Any] = dict(options or {})
    if timeout is not None:
        # 0 is no limit that a request can have; the wait beside it ends at once.
        document["total_ms"] = max(1, milliseconds(timeout)) if milliseconds(timeout) >= 0 else -1
    if idle_timeout is not None:
        idle = milliseconds(idle_timeout, "idle_timeout")
        document["idle_ms"] = max(1, idle) if idle >= 0 else -1
    if meta is not None:
        document["meta"] = meta if not isinstance(meta, Mapping) else dict(meta)
    document.update(more)
    return _text.encode(document, "options") if document else None
