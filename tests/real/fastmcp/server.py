"""Tools on a server that nobody of this project wrote: FastMCP with its tasks extension, over streamable HTTP.

Prints `listening URL` and serves until it is killed, or for MAX_SECONDS (300).
"""

import asyncio
import os
import socket
from datetime import timedelta

import mcp_types
import uvicorn
from fastmcp import Context, FastMCP
from fastmcp.dependencies import Progress
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension

mcp = FastMCP("real")
mcp.add_extension(TasksExtension())
JOB = TaskConfig(mode="optional", poll_interval=timedelta(milliseconds=100))


@mcp.tool
def greet(name: str) -> str:
    """No task: answers at once."""
    return f"hello {name}"


@mcp.tool(task=JOB)
async def long_job(steps: int, step_ms: int = 150, progress: Progress = Progress()) -> str:
    """Works for a while and tells how far it is."""
    await progress.set_total(steps)
    for step in range(1, steps + 1):
        await progress.set_message(f"step {step} of {steps}")
        await progress.increment()
        await asyncio.sleep(step_ms / 1000)
    return f"done after {steps} steps"


@mcp.tool(task=JOB)
async def failing_job() -> str:
    """Ends with an error of the tool."""
    await asyncio.sleep(0.1)
    raise ToolError("the job broke")


@mcp.tool(task=JOB)
async def asking_job(ctx: Context) -> str | mcp_types.InputRequiredResult:
    """Asks for a name half-way, and goes on with it."""
    if not ctx.input_responses:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        params = mcp_types.ElicitRequestFormParams(message="Who are you?", requested_schema=schema)
        return mcp_types.InputRequiredResult(input_requests={"who": mcp_types.ElicitRequest(params=params)})
    answer = ctx.input_responses["who"]
    if answer.action != "accept":
        return f"hello nobody ({answer.action})"
    return f"hello {answer.content['name']}"


async def main() -> None:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    config = uvicorn.Config(mcp.http_app(path="/mcp"), log_level="warning", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    print(f"listening http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    asyncio.get_running_loop().call_later(float(os.environ.get("MAX_SECONDS", "300")), setattr, server, "should_exit", True)
    await server.serve(sockets=[listener])


asyncio.run(main())
