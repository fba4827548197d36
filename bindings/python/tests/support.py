"""What the tests share: the test server as a process that always ends, and Python programs in processes of their own."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import textwrap
import threading
import unittest
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

PACKAGE_ROOT = Path(__file__).resolve().parents[1]
ROOT = PACKAGE_ROOT.parents[1]

if str(PACKAGE_ROOT) not in sys.path:
    sys.path.insert(0, str(PACKAGE_ROOT))

#: No wait in these tests is longer; most end at once.
PATIENCE = 30.0


def server_program() -> Path:
    chosen = os.environ.get("MCP_TEST_SERVER")
    if chosen:
        return Path(chosen)
    name = "mcp-test-server" + (".exe" if os.name == "nt" else "")
    for profile in ("debug", "release"):
        path = ROOT / "target" / profile / name
        if path.is_file():
            return path
    raise RuntimeError("mcp-test-server is not built: run `cargo build --workspace`, or set MCP_TEST_SERVER")


class Lines:
    """The lines of a stream, read by a thread so that waiting for one has an end."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._lines: "queue.Queue[Optional[str]]" = queue.Queue()
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: Any) -> None:
        for line in stream:
            self._lines.put(line.rstrip("\r\n"))
        self._lines.put(None)

    def close(self) -> None:
        """After the end of the process: the thread has come to the end of the stream."""
        self._thread.join(PATIENCE)
        self._stream.close()

    def next(self, timeout: float = PATIENCE) -> Optional[str]:
        """The next line; None at the end of the stream; AssertionError when none came in time."""
        try:
            return self._lines.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError("no line came in time") from None

    def until(self, wanted: str, timeout: float = PATIENCE) -> List[str]:
        """All lines up to the first that starts with a text."""
        seen: List[str] = []
        while True:
            line = self.next(timeout)
            if line is None:
                raise AssertionError(f"the output ended without {wanted!r}: {seen}")
            seen.append(line)
            if line.startswith(wanted):
                return seen


class Server:
    """The test server in a process of its own."""

    def __init__(self, script: Optional[Mapping[str, Any]] = None) -> None:
        command = [str(server_program())]
        if script is not None:
            command += ["--script-json", json.dumps(script)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, universal_newlines=True
        )
        self._lines = Lines(self._process.stdout)
        try:
            first = self._lines.next()
            if first is None or not first.startswith("listening "):
                raise AssertionError(f"the test server did not start: {first!r}")
            self.url = first[len("listening "):].strip()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)
        self._lines.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()


class ServerTest(unittest.TestCase):
    """A test case with a well-behaved server for all its tests."""

    script: Optional[Mapping[str, Any]] = None
    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server(cls.script)
        cls.addClassCleanup(cls.server.stop)

    @property
    def url(self) -> str:
        return self.server.url


def environment(**more: str) -> Dict[str, str]:
    """The environment for a Python program that uses the package of this checkout."""
    given = dict(os.environ)
    given["PYTHONPATH"] = str(PACKAGE_ROOT)
    given["PYTHONFAULTHANDLER"] = "1"
    given["PYTHONUNBUFFERED"] = "1"
    given.update(more)
    return given


def start_program(source: str, *arguments: str) -> "subprocess.Popen[str]":
    """Start a Python program given as text."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        universal_newlines=True,
    )


def run_program(source: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a Python program given as text to its end."""
    process = start_program(source, *arguments)
    try:
        output, errors = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        raise AssertionError(f"the program did not end\n--- stdout\n{output}\n--- stderr\n{errors}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


class Told:
    """Collects what handlers are told, and waits for it."""

    def __init__(self) -> None:
        self.all: List[Any] = []
        self._changed = threading.Condition()

    def __call__(self, *what: Any) -> None:
        with self._changed:
            self.all.append(what[0] if len(what) == 1 else what)
            self._changed.notify_all()

    def wait_for(self, count: int, timeout: float = PATIENCE) -> List[Any]:
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.all) >= count, timeout):
                raise AssertionError(f"{len(self.all)} of {count} came")
            return list(self.all)
