"""Servers over HTTP, started here and ended by their id; and a look at the processes that the library started."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, Set, Tuple

START = 120.0
_ours: Set[int] = set()


class Host:
    """A server over HTTP that prints `listening URL`, which it chose itself."""

    def __init__(self, command: Sequence[str], log: Path, env: Optional[Mapping[str, str]] = None) -> None:
        self.log = log
        with open(log, "wb") as out:
            self._process = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, **(env or {})}
            )
        _ours.add(self._process.pid)
        try:
            self.url = self._wait_for_url()
        except BaseException:
            self.end()
            raise

    def _wait_for_url(self) -> str:
        end = time.monotonic() + START
        while time.monotonic() < end and self._process.poll() is None:
            for line in self.said().splitlines(keepends=True):
                if line.startswith("listening ") and line.endswith("\n"):
                    return line.split()[1]
            time.sleep(0.05)
        raise RuntimeError(f"the server did not start:\n{self.said()}")

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _ours.discard(self._process.pid)


def below() -> List[int]:
    """The processes below this one, without the servers over HTTP."""
    parents: Dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        seen = _stat(int(entry.name)) if entry.name.isdigit() else None
        if seen is not None:
            parents[int(entry.name)] = seen[1]
    found: List[int] = []
    rows = [os.getpid()]
    while rows:
        parent = rows.pop()
        children = [pid for pid, of in parents.items() if of == parent and pid not in _ours]
        found += children
        rows += children
    return found


def running(pid: int) -> bool:
    """Whether the process runs, or waits for us as a zombie that nobody took care of."""
    seen = _stat(pid)
    return seen is not None and (seen[0] != "Z" or seen[1] == os.getpid())


def _stat(pid: int) -> Optional[Tuple[str, int]]:
    """State and parent."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None  # it has ended
    return fields[0], int(fields[1])
