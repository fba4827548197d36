"""The 2025-11-25 tasks of a server that others wrote: research.py NODE PATH/TO/server-everything/dist/index.js

Calls the tool simulate-research-query of @modelcontextprotocol/server-everything over stdio and Streamable HTTP: a plain
job, one that asks half-way, one whose question is declined, one that is cancelled.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List

import mcpnative
from mcpnative import Reason, TaskCancelled

TOOL = "simulate-research-query"
NODE = sys.argv[1]
# The server would listen on every interface.
LOOPBACK = Path(__file__).parent / "node/loopback.cjs"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def http(script: str) -> Iterator[Dict[str, Any]]:
    port = free_port()
    node = subprocess.Popen(
        [NODE, "--require", str(LOOPBACK), script, "streamableHttp"],
        env={**os.environ, "PORT": str(port), "ENDPOINT": "/mcp", "MAX_SECONDS": "300"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert node.poll() is None and time.monotonic() < deadline, "the server does not listen"
            time.sleep(0.05)
        yield {"url": f"http://127.0.0.1:{port}/mcp"}
    finally:
        # It has timers of its own and does not end by itself.
        node.kill()
        node.wait()


@contextlib.contextmanager
def stdio(script: str) -> Iterator[Dict[str, Any]]:
    yield {"command": NODE, "args": [script, "stdio"]}


def run(settings: Dict[str, Any]) -> None:
    told: List[str] = []
    answers: List[Dict[str, Any]] = []
    client = mcpnative.Client(settings)

    @client.on_task_created
    def created(task: Any, seen: Any) -> None:
        told.append("created")

    @client.on_task_status
    def status(task: Any, seen: Any) -> None:
        told.append(f"{seen.status.value}: {seen.message}")

    @client.on_task_completed
    def ended(task: Any, seen: Any) -> None:
        told.append("done")

    @client.on_elicitation
    def asked(question: Any) -> None:
        answer = answers.pop(0)
        if answer:
            question.answer(answer)
        else:
            question.decline()

    with client:
        assert client.server.era == "legacy" and client.server.version == "2025-11-25", client.server
        text = client.call_tool(TOOL, {"topic": "owls"}, timeout=60).text or ""
        assert text.startswith("# Research Report: owls"), text
        assert told[0] == "created" and told.count("created") == 1, told
        assert any("Analyzing content" in line for line in told), told
        told.clear()

        answers.append({"interpretation": "snake"})
        text = client.call_tool(TOOL, {"topic": "python", "ambiguous": True}, timeout=60).text or ""
        assert text.startswith("# Research Report: python (snake)"), text
        assert any(line.startswith("input_required") for line in told), told

        answers.append({})
        text = client.call_tool(TOOL, {"topic": "python", "ambiguous": True}, timeout=60).text or ""
        assert "User declined" in text, text
        assert not answers

        call = client.start_tool(TOOL, {"topic": "moles"}, tool_call_id="c-1")
        call.wait_answer(30)
        task = call.task
        assert task is not None
        assert [one["task_id"] for one in client.tasks(tool_call_id="c-1")] == [task.id]
        listed = client.request("tasks/list", options={"all_pages": True})
        assert task.id in [one["taskId"] for one in listed["tasks"]], listed
        task.cancel()
        try:
            task.result(30)
            raise AssertionError("a cancelled task has no result")
        except TaskCancelled as end:
            assert end.snapshot.reason is Reason.CANCELLED


def main() -> int:
    script = sys.argv[2]
    for transport in (stdio, http):
        with transport(script) as settings:
            run(settings)
        print(f"ok: {transport.__name__}", flush=True)
    return 0


sys.exit(main())
