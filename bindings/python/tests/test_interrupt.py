"""Ctrl-C ends a blocking wait, and what the wait had started."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import unittest
from typing import List, Tuple

from .support import PATIENCE, Lines, ServerTest, start_program

import mcpnative

HEAD = """
import sys, threading, time, mcpnative
mcpnative_ended = threading.Event()
def say(*words):
    # One write: two threads print here.
    sys.stdout.write(" ".join(map(str, words)) + "\\n")
    sys.stdout.flush()
def created(task, seen):
    say("task", seen.task_id)
def ended(task, seen):
    say("ended", seen.reason)
    mcpnative_ended.set()
client = mcpnative.Client(url=sys.argv[1], on_task_created=created, on_task_completed=ended).open(20)
"""


@unittest.skipIf(os.name == "nt", "signals are sent in another way there")
class Interrupt(ServerTest):
    def interrupted(self, body: str, go: str) -> Tuple[List[str], float, "subprocess.Popen[str]"]:
        """Run a program, send SIGINT when it has printed a line, and time the answer ``interrupted``."""
        process = start_program(HEAD + body, self.url)
        lines = Lines(process.stdout)
        self.addCleanup(self.end, process, lines)
        lines.until(go)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        seen = lines.until("interrupted")
        took = time.monotonic() - began
        while True:
            line = lines.next()
            if line is None:
                break
            seen.append(line)
        process.wait(PATIENCE)
        return seen, took, process

    def end(self, process: "subprocess.Popen[str]", lines: Lines) -> None:
        process.kill()
        process.wait(PATIENCE)
        lines.close()
        for stream in (process.stdin, process.stderr):
            if stream is not None:
                stream.close()

    def check_prompt(self, took: float, process: "subprocess.Popen[str]") -> None:
        self.assertLess(took, 2.0)
        self.assertEqual(process.returncode, 0)

    def test_a_plain_call(self) -> None:
        _, took, process = self.interrupted(
            """
try:
    call = client.start_tool
    def told(*given, **more):
        started = call(*given, **more)
        say("waiting")
        return started
    client.start_tool = told
    client.call_tool("sleep", {"ms": 600000})
except KeyboardInterrupt:
    say("interrupted")
say(client.call_tool("echo", {"a": 1}).structured)
""",
            "waiting",
        )
        self.check_prompt(took, process)

    def test_a_task_is_cancelled_too(self) -> None:
        seen, took, process = self.interrupted(
            """
try:
    client.call_tool("slow_job", {"steps": 10000, "step_ms": 100})
except KeyboardInterrupt:
    say("interrupted")
mcpnative_ended.wait(20)
""",
            "task",
        )
        self.check_prompt(took, process)
        self.assertIn("ended cancelled", seen)

    def test_a_wait_of_one_s_own_cancels_nothing(self) -> None:
        seen, took, process = self.interrupted(
            """
call = client.start_tool("slow_job", {"steps": 20, "step_ms": 100})
try:
    call.wait()
except KeyboardInterrupt:
    say("interrupted")
say(call.result(20).text)
mcpnative_ended.wait(20)
""",
            "task",
        )
        self.check_prompt(took, process)
        self.assertIn("done", seen)
        self.assertIn("ended completed", seen)

    def test_a_poll(self) -> None:
        _, took, process = self.interrupted(
            """
call = client.start_tool("slow_job", {"steps": 10000, "step_ms": 100})
call.wait_answer(20)
try:
    say("polling")
    while True:
        call.task.get(20)
except KeyboardInterrupt:
    say("interrupted")
""",
            "polling",
        )
        self.check_prompt(took, process)

    def test_nothing_caught(self) -> None:
        process = start_program(
            HEAD + 'client.call_tool("slow_job", {"steps": 10000, "step_ms": 100})\n', self.url
        )
        lines = Lines(process.stdout)
        self.addCleanup(self.end, process, lines)
        task_id = lines.until("task")[-1].split(" ", 1)[1]
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
        self.assertLess(time.monotonic() - began, 8.0)
        self.assertEqual(process.returncode, -signal.SIGINT)
        with mcpnative.Client(url=self.url) as client:
            with self.assertRaises(mcpnative.TaskCancelled):
                client.task(task_id).result(PATIENCE)

    def test_opening(self) -> None:
        source = """
import socket, sys, mcpnative
deaf = socket.socket()
deaf.bind(("127.0.0.1", 0))
deaf.listen(5)
client = mcpnative.Client(url="http://127.0.0.1:%d/mcp" % deaf.getsockname()[1])
print("waiting", flush=True)
try:
    client.open()
except KeyboardInterrupt:
    print("interrupted", flush=True)
client.close()
"""
        process = start_program(source)
        lines = Lines(process.stdout)
        self.addCleanup(self.end, process, lines)
        lines.until("waiting")
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        # The signal may come before the wait has begun; then the program ends by it, as it should.
        process.wait(PATIENCE)
        self.assertLess(time.monotonic() - began, 5.0)


if __name__ == "__main__":
    unittest.main()
