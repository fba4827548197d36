"""How the small Python servers serve: over standard input and output, or on a free port of the loopback interface."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

import uvicorn


def over_http(app: Any) -> None:
    """Print `listening URL` and serve until the process is ended, or for MAX_SECONDS (300)."""
    asyncio.run(_serve(app))


async def _serve(app: Any) -> None:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    print(f"listening http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    limit = float(os.environ.get("MAX_SECONDS", "300"))
    asyncio.get_running_loop().call_later(limit, setattr, server, "should_exit", True)
    await server.serve(sockets=[listener])
