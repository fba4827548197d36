"""What is asked of which server. A function for each; `modern` tells it which era is spoken."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from steps import LIMIT, Visit

LEGACY = ("legacy", "2025-11-25")
MODERN = ("modern", "2026-07-28")
#: For an era that the server does not speak.
REFUSED = ("", "refused")
#: A variable of our environment that no server is to see.
SECRET = "MCP_TOUR_SECRET"
#: What servers send for a resource that is not there.
NOT_FOUND = {-32002, -32602}


@dataclass(frozen=True)
class Real:
    """A server of others: how it is started on each transport, what it speaks for each era asked, and the tour."""

    name: str
    #: What has to be installed for it, by the word in the list of what is missing.
    part: str
    #: The name that it gives itself.
    called: str
    #: The era asked for, and what is spoken then.
    eras: Mapping[str, Tuple[str, str]]
    #: The transport and the command.
    commands: Mapping[str, Sequence[str]]
    tour: Callable[[Visit, bool], None]
    #: `{folder}` is the visit's own folder.
    env: Mapping[str, str] = field(default_factory=dict)
    #: What a visitor answers, by the question.
    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: What it logs when a session ends, by transport.
    farewells: Mapping[str, str] = field(default_factory=dict)


# ---- @modelcontextprotocol/server-everything ------------------------------------------------------------


def everything(visit: Visit, modern: bool) -> None:
    asking = ["get-roots-list", "trigger-elicitation-request", "trigger-sampling-request", "trigger-url-elicitation"]
    visit.lists("tools", ["echo", "get-sum", "simulate-research-query", "toggle-subscriber-updates", *asking], 17)
    visit.lists("resources", ["demo://resource/static/document/architecture.md"], 7)
    templates = ["demo://resource/dynamic/text/{resourceId}", "demo://resource/dynamic/blob/{resourceId}"]
    visit.lists("resourceTemplates", templates)
    visit.lists("prompts", ["simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"])
    visit.calls("echo", {"message": "hello, 世界"}, text="Echo: hello, 世界")
    visit.calls("echo", {}, is_error=True, contains=["Invalid arguments", "message"])
    visit.calls("no-such-tool", is_error=True, contains=["no-such-tool"])
    visit.calls("get-sum", {"a": 2, "b": 40}, text="The sum of 2 and 40 is 42.")
    weather = {"temperature": 33, "conditions": "Cloudy", "humidity": 82}
    visit.calls("get-structured-content", {"location": "New York"}, structured=weather)
    _blocks(visit)
    visit.reads("demo://resource/dynamic/text/7", contains="Resource 7")
    visit.reads("demo://resource/static/document/architecture.md", contains="#")
    visit.refuses("resources/read", {"uri": "demo://nowhere"}, NOT_FOUND)
    visit.prompt("simple-prompt", None, "This is a simple prompt without arguments.")
    visit.prompt("args-prompt", {"city": "Paris", "state": "Texas"}, "What's weather in Paris, Texas?")
    ref = {"type": "ref/prompt", "name": "completable-prompt"}
    visit.completes(ref, "department", "S", ["Sales", "Support"])
    visit.completes(ref, "name", "", ["Alice", "Bob", "Charlie"], {"department": "Engineering"})
    visit.completes({"type": "ref/resource", "uri": templates[0]}, "resourceId", "12", ["12"])
    visit.progresses("trigger-long-running-operation", {"duration": 0.3, "steps": 3}, 3, "Steps: 3.")
    visit.gives_up("trigger-long-running-operation", {"duration": 20, "steps": 200})
    words = [f"call {number}" for number in range(20)]
    visit.at_once("echo", [{"message": word} for word in words], [f"Echo: {word}" for word in words])
    visit.check("ping", visit.client.request("ping", timeout=LIMIT) == {})
    if visit.local:
        _environment(visit)
    _questions(visit)
    _news(visit)


def _blocks(visit: Visit) -> None:
    result = visit.calls("get-tiny-image")
    images = [block.data for block in result.blocks if block.data]
    visit.check("an image as bytes", len(images) == 1 and images[0].startswith(b"\x89PNG"), result.json_text)
    result = visit.calls("get-resource-links", {"count": 4})
    kinds = [block.kind.name for block in result.blocks]
    visit.check("links to resources", kinds == ["TEXT"] + ["RESOURCE_LINK"] * 4, kinds)
    result = visit.calls("get-resource-reference", {"resourceType": "Blob", "resourceId": 3})
    data = result.blocks[1].data
    visit.check("a resource as bytes", result.blocks[1].kind.name == "RESOURCE" and data, result.json_text)
    result = visit.calls("get-annotated-message", {"messageType": "success"}, text="Operation completed successfully")
    visit.check("annotations", result.blocks[0].json["annotations"]["priority"] == 0.7, result.json_text)


def _environment(visit: Visit) -> None:
    """A local server gets what the settings give it, and not all of ours."""
    found = json.loads(visit.calls("get-env", contains=["PATH"]).text)
    visit.check("a variable of the settings", found.get("PORT") == "0", found)
    visit.check("no secret of ours", SECRET in os.environ and SECRET not in found, list(found))


def _questions(visit: Visit) -> None:
    visit.calls("trigger-elicitation-request", contains=["User provided", "- Name: Ada"])
    visit.asked("elicitation")
    visit.calls("trigger-sampling-request", {"prompt": "the answer"}, contains=["forty-two"])
    visit.asked("sampling")
    where = {"url": "https://example.com/", "message": "Please look"}
    visit.calls("trigger-url-elicitation", where, contains=["User completed", where["url"]])
    visit.is_told("elicitation", "a URL", lambda params: params.get("url") == where["url"])
    # -32042 first, then the call once more, and its own question.
    visit.calls("trigger-url-elicitation", {**where, "errorPath": True}, contains=["User completed", where["url"]])
    visit.is_told("elicitation", "a URL first", lambda params: params.get("message") == FIRST)
    visit.asked("elicitation", 4)
    visit.calls("get-roots-list", contains=[visit.roots, "work"])
    visit.is_told("roots", "asked", lambda params: True)


def _news(visit: Visit) -> None:
    """What the server sends outside any request."""
    uri = "demo://resource/static/document/features.md"
    visit.client.request("resources/subscribe", {"uri": uri}, timeout=LIMIT)
    visit.is_told("log", "of the subscription", lambda log: f"Subscribe Resource request for URI: {uri}" in str(log.data))
    visit.calls("toggle-subscriber-updates", contains=["Started"])
    visit.is_told("notification", f"updated {uri}", lambda note: note.method == UPDATED and note.params["uri"] == uri)
    visit.calls("toggle-subscriber-updates", contains=["Stopped"])
    visit.client.request("resources/unsubscribe", {"uri": uri}, timeout=LIMIT)
    visit.calls("gzip-file-as-resource", {"name": "note.gz", "data": "data:text/plain,many%20words"})
    visit.is_told("notification", "resources changed", lambda note: note.method == "notifications/resources/list_changed")
    visit.lists("resources", ["demo://resource/session/note.gz"], 8)
    visit.calls("toggle-simulated-logging", contains=["Started"])
    visit.is_told("log", "of the simulation", lambda log: "level" in str(log.data) and "message" in str(log.data))
    visit.calls("toggle-simulated-logging", contains=["Stopped"])


FIRST = "Open this link to satisfy the prerequisite, then retry the request."
UPDATED = "notifications/resources/updated"

# ---- @modelcontextprotocol/server-filesystem and -memory ------------------------------------------------


def filesystem(visit: Visit, modern: bool) -> None:
    """It is started without a folder: the one it may use is the root that it asks for."""
    folder = Path(visit.roots[len("file://") :])
    visit.is_told("roots", "asked", lambda params: True)
    tools = ["read_text_file", "write_file", "edit_file", "list_directory", "move_file", "get_file_info"]
    visit.lists("tools", [*tools, "read_media_file", "search_files", "list_allowed_directories"], 13)

    def allowed() -> bool:
        return str(folder) in visit.client.call_tool("list_allowed_directories", timeout=LIMIT).text

    visit.eventually("the root is allowed", allowed)
    text, path = "one\ntwo, 世界\n", str(folder / "note.txt")
    visit.calls("write_file", {"path": path, "content": text}, contains=["Successfully wrote"])
    visit.check("the file is there", Path(path).read_text() == text)
    visit.calls("read_text_file", {"path": path}, text=text, structured={"content": text})
    edits = [{"oldText": "two", "newText": "three"}]
    visit.calls("edit_file", {"path": path, "edits": edits}, contains=["-two", "+three"])
    (folder / "dot.png").write_bytes(DOT)
    result = visit.calls("read_media_file", {"path": str(folder / "dot.png")})
    visit.check("an image as bytes", result.blocks[0].data == DOT, result.json_text)
    visit.calls("list_directory", {"path": str(folder)}, contains=["[FILE] dot.png", "[FILE] note.txt"])
    visit.calls("move_file", {"source": path, "destination": str(folder / "moved.txt")})
    visit.check("the file has moved", (folder / "moved.txt").exists() and not Path(path).exists())
    visit.calls("read_text_file", {"path": "/etc/hostname"}, is_error=True, contains=["outside allowed"])
    visit.calls("write_file", {"path": 5}, is_error=True, contains=["Invalid arguments"])


def memory(visit: Visit, modern: bool) -> None:
    visit.lists("tools", ["create_entities", "create_relations", "read_graph", "search_nodes", "open_nodes"], 9)
    ada = {"name": "Ada", "entityType": "person", "observations": ["counts, 世界"]}
    engine = {"name": "Engine", "entityType": "machine", "observations": []}
    relation = {"from": "Ada", "to": "Engine", "relationType": "writes for"}
    visit.calls("create_entities", {"entities": [ada, engine]}, structured={"entities": [ada, engine]})
    visit.calls("create_relations", {"relations": [relation]}, structured={"relations": [relation]})
    graph = {"entities": [ada, engine], "relations": [relation]}
    visit.calls("read_graph", structured=graph)
    visit.calls("search_nodes", {"query": "counts"}, contains=["Ada"])
    visit.calls("delete_entities", {"entityNames": ["Ada"]}, contains=["deleted"])
    visit.calls("read_graph", structured={"entities": [engine], "relations": []})
    visit.calls("create_entities", {"entities": [{"name": 5}]}, is_error=True, contains=["Invalid arguments"])


# ---- the small servers of ours on the SDKs of others ----------------------------------------------------

#: The image of the small servers.
DOT = b"\x89PNG\r\n\x1a\n, as far as it goes"


def small(visit: Visit, modern: bool) -> None:
    asking = ["ask_name", "ask_model", "ask_roots"]
    visit.lists("tools", ["add", "fail", "picture", "count", *asking])
    visit.lists("resources", ["memo://welcome", "memo://bytes"])
    visit.lists("resourceTemplates", ["memo://item/{number}"])
    visit.lists("prompts", ["greeting"])
    visit.calls("add", {"a": 2, "b": 40}, text="42", structured={"result": 42})
    visit.calls("fail", is_error=True, contains=["it broke"])
    result = visit.calls("picture")
    visit.check("an image as bytes", [block.data for block in result.blocks] == [DOT], result.json_text)
    visit.reads("memo://welcome", text="be welcome, 世界")
    result = visit.client.request("resources/read", {"uri": "memo://bytes"}, timeout=LIMIT)
    visit.check("a resource as bytes", len(result["contents"][0]["blob"]) == 344, result)
    visit.reads("memo://item/7", text="item 7")
    visit.refuses("resources/read", {"uri": "memo://nowhere"}, NOT_FOUND | {0})
    visit.prompt("greeting", {"name": "Ada"}, "Please greet Ada.")
    visit.completes({"type": "ref/prompt", "name": "greeting"}, "name", "A", ["Ada", "Alan"])
    visit.progresses("count", {"steps": 3}, 3, "counted 3")
    for step in (1, 2, 3):
        visit.is_told("log", f"at {step}", lambda log, step=step: (log.level, log.data) == ("info", f"at {step}"))
    visit.calls("ask_name", text="hello Ada")
    visit.asked("elicitation")
    visit.calls("ask_model", text="the model says forty-two")
    visit.asked("sampling")
    visit.calls("ask_roots", text=f"roots: {visit.roots}")
    visit.asked("roots")
    visit.gives_up("count", {"steps": 1000000})
    numbers = range(20)
    visit.at_once("add", [{"a": number, "b": 1} for number in numbers], [str(number + 1) for number in numbers])
    if not modern:
        visit.check("ping", visit.client.request("ping", timeout=LIMIT) == {})


WHO = {"Who are you?": {"name": "Ada"}}
# ---- jobs -----------------------------------------------------------------------------------------------


def jobs(visit: Visit, tells_steps: bool, fails_as_result: bool) -> None:
    """What differs between the servers: whether a task tells its steps, and how its failure comes."""
    visit.seen.forget()
    visit.calls("long_job", {"steps": 5, "step_ms": 150}, text="done after 5 steps")
    visit.check("one task was made", len(visit.seen.of("created")) == 1, visit.seen.of("created"))
    visit.is_told("ended", "completed", lambda seen: seen.reason == "completed")
    if tells_steps:
        visit.is_told("status", "a step on the way", lambda seen: bool(re.fullmatch("step [1-5] of 5", seen.message or "")))
    visit.calls("asking_job", text="hello Ada")
    visit.asked("elicitation")
    if fails_as_result:
        visit.calls("failing_job", is_error=True, contains=["the job broke"])
    else:
        visit.fails("failing_job", "the job broke")
    visit.cancels("long_job", {"steps": 100, "step_ms": 100})
    visit.knows_no_task("no-such-task")
    visit.check("no poll failed", not visit.seen.of("degraded"), visit.seen.of("degraded"))


def fastmcp(visit: Visit, modern: bool) -> None:
    visit.lists("tools", ["greet", "long_job", "failing_job", "asking_job"])
    visit.calls("greet", {"name": "世界"}, text="hello 世界")
    visit.calls("greet", {}, is_error=True, contains=["name"])
    if modern:
        jobs(visit, tells_steps=True, fails_as_result=True)
    else:
        visit.calls("long_job", {"steps": 2, "step_ms": 10}, text="done after 2 steps")


def rmcp(visit: Visit, modern: bool) -> None:
    first = visit.client.request("tools/list", timeout=LIMIT)
    visit.check("tools come in pages", len(first["tools"]) == 4 and "nextCursor" in first, first)
    visit.lists("tools", ["add", "failing_job"], 10)
    small(visit, modern)
    visit.calls("no-such-tool", raises=-32602)
    if modern:
        jobs(visit, tells_steps=True, fails_as_result=False)
    else:
        visit.calls("long_job", {"steps": 2, "step_ms": 10}, raises=-32602)


def turul(visit: Visit, modern: bool) -> None:
    visit.lists("tools", ["add", "long_job", "asking_job", "failing_job"])
    visit.calls("add", {"a": 2, "b": 40.5}, text="42.5")
    visit.calls("no-such-tool", raises=-32602)
    jobs(visit, tells_steps=False, fails_as_result=False)
    call = visit.client.start_tool("long_job", {"steps": 10, "step_ms": 100}, timeout=LIMIT)
    visit.check("a task to listen to", call.wait_answer(LIMIT) and call.task is not None, call)
    number = call.task.id

    def end_of_task() -> None:
        wanted = (number, "completed")
        visit.is_told("notification", "of its end", lambda note: _task(note) == wanted)

    visit.listens({"taskIds": [number]}, end_of_task)
    visit.check("its result", call.result(LIMIT).text == "done after 10 steps", call)


def _task(note: Any) -> Tuple[Any, Any]:
    params = note.params if note.method == "notifications/tasks" else {}
    return params.get("taskId"), params.get("status")


def table(tools: Path, real_tools: Path, rust: Path) -> List[Real]:
    """All of them, with the commands for where they were installed."""
    here = Path(__file__).resolve().parent
    node = str(tools / "node22/node_modules/node/bin/node")
    packages = real_tools / "node/node_modules/@modelcontextprotocol"
    everything_js = str(packages / "server-everything/dist/index.js")
    over_http = [node, "--require", str(here / "node/loopback.cjs"), everything_js]
    filesystem_js = str(packages / "server-filesystem/dist/index.js")
    memory_js = str(packages / "server-memory/dist/index.js")
    python2 = str(real_tools / "fastmcp/bin/python")
    old = {"auto": LEGACY, "legacy": LEGACY, "modern": REFUSED}
    both = {"auto": MODERN, "modern": MODERN, "legacy": LEGACY}
    new = {**both, "legacy": REFUSED}

    def two(*command: str) -> Dict[str, List[str]]:
        return {"stdio": [*command, "stdio"], "http": [*command, "http"]}

    return [
        Real(
            "server-everything",
            "node",
            "mcp-servers/everything",
            old,
            {"stdio": [node, everything_js], "http": [*over_http, "streamableHttp"], "sse": [*over_http, "sse"]},
            everything,
            env={"PORT": "0"},
            answers={"Please provide inputs for the following fields:": {"name": "Ada"}, "Please look": {}, FIRST: {}},
            farewells={"http": "Received session termination request", "sse": "Client Disconnected"},
        ),
        Real("server-filesystem", "node", "secure-filesystem-server", old, {"stdio": [node, filesystem_js]}, filesystem),
        Real(
            "server-memory",
            "node",
            "memory-server",
            old,
            {"stdio": [node, memory_js]},
            memory,
            env={"MEMORY_FILE_PATH": "{folder}/memory.jsonl"},
        ),
        Real(
            "python-mcp-1",
            "mcp1",
            "small-mcp1",
            old,
            two(str(real_tools / "mcp1/bin/python"), str(here / "small/mcp1.py")),
            small,
            answers=WHO,
        ),
        Real(
            "python-mcp-2",
            "fastmcp",
            "small-mcp2",
            both,
            two(python2, str(here / "small/mcp2.py")),
            small,
            answers=WHO,
        ),
        Real(
            "fastmcp",
            "fastmcp",
            "real",
            both,
            {"http": [python2, str(here / "fastmcp/server.py")]},
            fastmcp,
            answers=WHO,
        ),
        Real("rmcp", "rust", "small-rmcp", both, two(str(rust / "rmcp")), rmcp, answers=WHO),
        Real("turul", "rust", "small-turul", new, {"http": [str(rust / "turul")]}, turul, answers=WHO),
    ]
