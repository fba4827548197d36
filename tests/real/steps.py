"""One visit to one server, by one client: each method is a step that checks what came and prints a line.

The client is the Python wrapper, which calls the shared library itself. Every wait has a limit.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Set

import mcpnative
from processes import below, running

LIMIT = 60.0
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "forty-two"}, "model": "none"}
LISTS = {
    "tools": ("tools/list", "name"),
    "resources": ("resources/list", "uri"),
    "resourceTemplates": ("resources/templates/list", "uriTemplate"),
    "prompts": ("prompts/list", "name"),
}


class Failure(Exception):
    """A step that did not go as it should."""


class Seen:
    """What the handlers were told. They run on a thread of their own."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._events: Dict[str, List[Any]] = {}

    def add(self, kind: str, event: Any) -> None:
        with self._changed:
            self._events.setdefault(kind, []).append(event)
            self._changed.notify_all()

    def of(self, kind: str) -> List[Any]:
        with self._changed:
            return list(self._events.get(kind, []))

    def forget(self) -> None:
        with self._changed:
            self._events.clear()

    def wait(self, kind: str, good: Callable[[List[Any]], bool], limit: float = LIMIT) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: good(self._events.get(kind, [])), limit)


class Visit:
    """A client, what it answers when it is asked, and the steps."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        *,
        answers: Optional[Mapping[str, Mapping[str, Any]]] = None,
        roots: str,
    ) -> None:
        self.steps = 0
        self.seen = Seen()
        self.answers = dict(answers or {})
        self.roots = roots
        self.local = "command" in settings
        self.client = mcpnative.Client(
            {"log_level": "debug", "timeouts": {"probe_ms": 60000, "total_ms": 120000}, **settings},
            on_progress=lambda event: self.seen.add("progress", event),
            on_log=lambda event: self.seen.add("stderr" if event.logger == "stderr" else "log", event),
            on_notification=lambda event: self.seen.add("notification", event),
            on_subscription=lambda event: self.seen.add("subscription", event),
            on_error=lambda error: self.seen.add("error", error),
            on_callback_error=lambda error, where: self.seen.add("error", f"{where}: {error!r}"),
            on_elicitation=self._elicitation,
            on_sampling=self._sampling,
            on_roots=self._roots,
            on_task_created=lambda task, seen: self.seen.add("created", seen),
            on_task_status=lambda task, seen: self.seen.add("status", seen),
            on_task_degraded=lambda task, error: self.seen.add("degraded", error),
            on_task_completed=lambda task, seen: self.seen.add("ended", seen),
        )

    # ---- what the server asks ---------------------------------------------------------------------------

    def _elicitation(self, question: mcpnative.Input) -> Mapping[str, Any]:
        self.seen.add("elicitation", question.params)
        return self.answers[question.message or ""]

    def _sampling(self, question: mcpnative.Input) -> Mapping[str, Any]:
        self.seen.add("sampling", question.params)
        return SAMPLED

    def _roots(self, question: mcpnative.Input) -> Mapping[str, Any]:
        self.seen.add("roots", question.params)
        return {"roots": [{"uri": self.roots, "name": "work"}]}

    # ---- steps ------------------------------------------------------------------------------------------

    def check(self, what: str, good: Any, found: Any = None) -> None:
        if not good:
            raise Failure(f"{what}; found: {str(found)[:2000]}")
        self.steps += 1
        print(f"  \u2713 {what}", flush=True)

    def opens(self, era: str, version: str, name: str) -> None:
        self.client.open(120)
        server = self.client.server
        found = (server.era, server.version, server.name)
        self.check(f"opens: {server.era}, {server.version}, {server.name}", found == (era, version, name), found)

    def is_refused(self) -> None:
        """The era that is asked for is not the server's: the opening says so, and leaves nothing behind."""
        found: Any = None
        try:
            found = self.client.open(120).server
        except mcpnative.ProtocolError as error:
            found = error
        good = isinstance(found, mcpnative.ProtocolError) and found.status == mcpnative.Status.E_VERSION
        self.check(f"is refused: {found}"[:150], good, found)
        self.check("closes", self.client.close(LIMIT))
        self.eventually("no process left", lambda: not below())

    def lists(self, what: str, names: Iterable[str], at_least: int = 0) -> List[Dict[str, Any]]:
        method, key = LISTS[what]
        listed = self.client.request(method, timeout=LIMIT, options={"all_pages": True})[what]
        found = [entry[key] for entry in listed]
        wanted = set(names)
        good = wanted <= set(found) and len(found) >= max(at_least, len(wanted)) and len(set(found)) == len(found)
        self.check(f"{method}: {len(found)}", good, found)
        return listed

    def calls(
        self,
        tool: str,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        text: Optional[str] = None,
        contains: Iterable[str] = (),
        structured: Any = None,
        is_error: bool = False,
        raises: Optional[int] = None,
    ) -> Optional[mcpnative.Result]:
        """A tool call to its end, through a task where the server makes one."""
        try:
            result = self.client.call_tool(tool, arguments, timeout=LIMIT)
        except mcpnative.RpcError as error:
            self.check(f"{tool} is refused: {error.rpc_code}", error.rpc_code == raises, error)
            return None
        good = raises is None and result.is_error == is_error
        good = good and (text is None or result.text == text)
        good = good and (structured is None or result.structured == structured)
        good = good and all(part in result.text for part in contains)
        told = " ".join((text or "; ".join(contains) or "its result").split())
        self.check(f"{tool}: {'error, ' if is_error else ''}{told[:60]}", good, result.json_text)
        return result

    def reads(self, uri: str, *, text: Optional[str] = None, contains: str = "", blob: Optional[str] = None) -> None:
        contents = self.client.request("resources/read", {"uri": uri}, timeout=LIMIT)["contents"]
        first = contents[0] if contents else {}
        good = first.get("uri") == uri and contains in first.get("text", "")
        good = good and (text is None or first.get("text") == text) and (blob is None or first.get("blob") == blob)
        self.check(f"reads {uri}", good, contents)

    def refuses(self, method: str, params: Mapping[str, Any], codes: Set[int]) -> None:
        try:
            found: Any = self.client.request(method, params, timeout=LIMIT)
        except mcpnative.RpcError as error:
            self.check(f"{method} is refused: {error.rpc_code}", error.rpc_code in codes, error)
        else:
            self.check(f"{method} is refused", False, found)

    def prompt(self, name: str, arguments: Optional[Mapping[str, str]], contains: str) -> None:
        params = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
        messages = self.client.request("prompts/get", params, timeout=LIMIT)["messages"]
        said = [message["content"].get("text", "") for message in messages]
        self.check(f"prompt {name}: {contains}", any(contains in text for text in said), messages)

    def completes(
        self, ref: Mapping[str, Any], name: str, value: str, wanted: List[str], context: Optional[Mapping[str, str]] = None
    ) -> None:
        params: Dict[str, Any] = {"ref": ref, "argument": {"name": name, "value": value}}
        if context is not None:
            params["context"] = {"arguments": context}
        found = self.client.request("completion/complete", params, timeout=LIMIT)["completion"]["values"]
        self.check(f"completes {name} {value!r}: {', '.join(wanted)}", found == wanted, found)

    def progresses(self, tool: str, arguments: Mapping[str, Any], steps: int, contains: str) -> None:
        """Of progress the last event is sure to come; earlier ones may give way to it."""
        call = self.client.start_tool(tool, arguments, timeout=LIMIT)
        number = call.id
        result = call.result(LIMIT)
        self.check(f"{tool}: {contains}", contains in result.text, result.json_text)
        good = self.seen.wait(
            "progress",
            lambda events: any((e.call_id, e.progress, e.total) == (number, steps, steps) for e in events),
        )
        found = self.seen.of("progress")
        rising = [event.progress for event in found if event.call_id == number]
        self.check(f"progress to {steps} of {steps}", good and rising == sorted(set(rising)), found)

    def at_once(self, tool: str, arguments: Sequence[Mapping[str, Any]], texts: Sequence[str]) -> None:
        """Each of many calls that are open together gets its own answer."""
        calls = [self.client.start_tool(tool, each, timeout=LIMIT) for each in arguments]
        found = [call.result(LIMIT).text for call in calls]
        self.check(f"{tool}: {len(calls)} at once", found == list(texts), found)

    def gives_up(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """A call that is cancelled half-way, after its first progress."""
        call = self.client.start_tool(tool, arguments, timeout=LIMIT)
        number = call.id
        under_way = self.seen.wait("progress", lambda events: any(event.call_id == number for event in events))
        call.cancel()
        try:
            found: Any = call.result(LIMIT).json_text
        except mcpnative.CallCancelled:
            found = None
        self.check(f"{tool} is given up half-way", under_way and found is None, found)

    def listens(self, wanted: Mapping[str, Any], meanwhile: Callable[[], None] = lambda: None) -> None:
        """A subscription, which the server grants, and which ends with its call."""
        call = self.client.start_request("subscriptions/listen", {"notifications": dict(wanted)}, timeout=LIMIT)
        granted = self.seen.wait("subscription", lambda events: any(_grants(event, wanted) for event in events))
        self.check(f"listens to {', '.join(wanted)}", granted, self.seen.of("subscription") or call.error)
        meanwhile()
        call.cancel()
        self.check("listens no more", call.wait_answer(LIMIT) and call.status == mcpnative.Status.E_CANCELLED, call)

    # ---- tasks ------------------------------------------------------------------------------------------

    def fails(self, tool: str, message: str) -> None:
        try:
            result = self.client.call_tool(tool, {}, timeout=LIMIT)
        except mcpnative.TaskFailed as error:
            good = message in (error.rpc_message or "") and error.rpc_code is not None
            self.check(f"{tool} fails: {error.rpc_code} {error.rpc_message}", good, error)
        else:
            self.check(f"{tool} fails", False, result.json_text)

    def cancels(self, tool: str, arguments: Mapping[str, Any]) -> None:
        call = self.client.start_tool(tool, arguments, timeout=LIMIT)
        self.check(f"{tool} is a task", call.wait_answer(LIMIT) and call.task is not None, call)
        task = call.task
        task.cancel()
        self.check("it ends after the cancel", task.wait(LIMIT), task)
        self.check("as cancelled", task.reason == mcpnative.Reason.CANCELLED, task)

    def knows_no_task(self, task_id: str) -> None:
        task = self.client.task(task_id)
        try:
            found: Any = task.get(LIMIT)
        except mcpnative.TaskUnknown:
            found = None
        task.let_go()
        self.check("an unknown task is told as such", found is None, found)

    # ---- events and the end -----------------------------------------------------------------------------

    def is_told(self, kind: str, what: str, good: Callable[[Any], bool]) -> None:
        """Of an event that has come or comes within the limit."""
        came = self.seen.wait(kind, lambda events: any(good(event) for event in events))
        self.check(f"{kind}: {what}", came, self.seen.of(kind))

    def asked(self, kind: str, times: int = 1) -> None:
        found = self.seen.of(kind)
        self.check(f"was asked ({kind})", len(found) == times, found)

    def eventually(self, what: str, good: Callable[[], bool]) -> None:
        """For what the server does on its own: asked again until it is so."""
        end = time.monotonic() + LIMIT
        while not good():
            if time.monotonic() > end:
                self.check(what, False, "not in time")
            time.sleep(0.05)
        self.check(what, True)

    def closes(self) -> None:
        """Nothing went wrong on the side, the client ends, and so does all that it started."""
        children = below()
        self.check("no error on the side", not self.seen.of("error"), self.seen.of("error"))
        self.check(f"a local server: {self.local}", bool(children) == self.local, children)
        self.check("closes", self.client.close(LIMIT))
        self.eventually(f"no process left of {len(children)}", lambda: not any(running(pid) for pid in children))


def _grants(event: mcpnative.SubscriptionChange, wanted: Mapping[str, Any]) -> bool:
    return event.state == mcpnative.SubscriptionState.ACTIVE and event.filter == wanted
