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
from servers import MODERN, Real, table
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
        where: Optional[Dict[str, Any]] = None
        for row in rows:
            print(row, flush=True)
            began = time.monotonic()
            try:
                where = where or place(row, logs, stack)
                told = f"{visit(row, where)} steps"
            except Exception as error:
                failed += 1
                told = "FAILED"
                print(f"  \u2717 {error}", flush=True)
                if not isinstance(error, Failure):
                    traceback.print_exc(file=sys.stdout)
            lines.append(f"{row} {told:9} {time.monotonic() - began:5.1f} s")
    return lines, failed


def place(row: Row, logs: Path, stack: ExitStack) -> Dict[str, Any]:
    """The settings of where the server is; one over HTTP is started for all of its visits."""
    command = row.server.commands[row.transport]
    if row.transport == "stdio":
        return {"command": command[0], "args": list(command[1:])}
    env = {**row.server.env, "ENDPOINT": ENDPOINTS[row.transport], "MAX_SECONDS": "300"}
    host = Host(command, logs / f"real-{row.server.name}-{row.transport}.log", env)
    stack.callback(host.end)
    return {"url": host.url}


def visit(row: Row, where: Dict[str, Any]) -> int:
    """One visit, with a folder of its own; gives the number of its steps."""
    spoken = row.server.eras[row.era]
    with tempfile.TemporaryDirectory() as folder:
        settings = {**where, "era": row.era}
        if "command" in where:
            settings["env"] = {name: value.format(folder=folder) for name, value in row.server.env.items()}
        guest = Visit(settings, answers=row.server.answers, roots=f"file://{folder}")
        try:
            guest.opens(*spoken, row.server.called)
            row.server.tour(guest, spoken == MODERN)
            guest.closes()
        except BaseException:
            for log in guest.seen.of("stderr")[-30:]:
                print(f"    its standard error: {log.data}")
            guest.client.close(5)
            raise
        return guest.steps


if __name__ == "__main__":
    # So that the servers end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
