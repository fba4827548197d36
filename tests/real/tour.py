"""A tour of servers that others wrote: each on each of its transports, in each era that it speaks.

    tour.py TOOLS REAL_TOOLS BUILD [WORD...]

The first three are folders as in scripts/real-servers.sh. With words: the visits whose line has them all. The end is a
table of the visits; the exit code tells whether all went well. A server that could not be had is named as skipped, which
is a failure with MCP_TEST_ALL=1.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import traceback
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import mcpnative
from processes import Host
from servers import MODERN, REFUSED, SECRET, Real, table
from steps import Failure, Visit

ENDPOINTS = {"http": "/mcp", "sse": "/sse"}


@dataclass(frozen=True)
class Row:
    """A visit."""

    server: Real
    transport: str
    era: str

    def __str__(self) -> str:
        return f"{self.server.name:18} {self.transport:6} {self.era:7} -> {self.server.eras[self.era][1]}"


def main(arguments: Sequence[str]) -> int:
    tools, real_tools, build = (Path(argument).resolve() for argument in arguments[:3])
    missing = (real_tools / "missing").read_text().split()
    lines: List[str] = []
    failed = 0
    for server in table(tools, real_tools, build / "real/debug"):
        for transport in server.commands:
            rows = [Row(server, transport, era) for era in server.eras]
            rows = [row for row in rows if set(arguments[3:]) <= set(str(row).split())]
            if server.part in missing:
                failed += bool(os.environ.get("MCP_TEST_ALL"))
                lines += [f"SKIPPED {row}: {server.part} is missing" for row in rows]
            else:
                told, bad = visits(rows, build / "test-logs")
                lines += told
                failed += bad
    mcpnative.stop()
    print("\n".join(["", *lines, ""]))
    return 0 if lines and not failed else 1


def visits(rows: Sequence[Row], logs: Path) -> Tuple[List[str], int]:
    """The visits of one server on one transport, in turn; what is told of them, and how many went wrong."""
    lines: List[str] = []
    failed = 0
    with ExitStack() as stack:
        host: Optional[Host] = None
        for row in rows:
            print(row, flush=True)
            began = time.monotonic()
            try:
                if host is None and row.transport != "stdio":
                    host = start(row, logs)
                    stack.callback(host.end)
                told = f"{visit(row, host)} steps"
            except Exception as error:
                failed += 1
                told = "FAILED"
                print(f"  \u2717 {error}", flush=True)
                if not isinstance(error, Failure):
                    traceback.print_exc(file=sys.stdout)
                if host is not None:
                    print(f"    the end of its log:\n{host.said()[-4000:]}")
            lines.append(f"{row} {told:9} {time.monotonic() - began:5.1f} s")
    return lines, failed


def start(row: Row, logs: Path) -> Host:
    """A server over HTTP, for all of its visits."""
    env = {**row.server.env, "ENDPOINT": ENDPOINTS[row.transport], "MAX_SECONDS": "600"}
    return Host(row.server.commands[row.transport], logs / f"real-{row.server.name}-{row.transport}.log", env)


def visit(row: Row, host: Optional[Host]) -> int:
    """One visit, with a folder of its own; gives the number of its steps."""
    spoken = row.server.eras[row.era]
    said = host.said() if host is not None else ""
    with tempfile.TemporaryDirectory() as folder:
        settings: Dict[str, Any] = {"era": row.era, "url": host.url} if host is not None else local(row, folder)
        guest = Visit(settings, answers=row.server.answers, roots=f"file://{folder}")
        try:
            if spoken == REFUSED:
                guest.is_refused()
                return guest.steps
            guest.opens(*spoken, row.server.called)
            row.server.tour(guest, spoken == MODERN)
            guest.closes()
            words = row.server.farewells.get(row.transport)
            if host is not None and words is not None:
                guest.eventually(f"the server says: {words}", lambda: words in host.said()[len(said) :])
        except BaseException:
            for log in guest.seen.of("stderr")[-30:]:
                print(f"    its standard error: {log.data}")
            guest.client.close(5)
            raise
        return guest.steps


def local(row: Row, folder: str) -> Dict[str, Any]:
    """The settings of a server that the library starts itself."""
    command = row.server.commands[row.transport]
    env = {name: value.format(folder=folder) for name, value in row.server.env.items()}
    return {"era": row.era, "command": command[0], "args": list(command[1:]), "env": env}


if __name__ == "__main__":
    os.environ[SECRET] = "a secret"
    # So that the servers end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
