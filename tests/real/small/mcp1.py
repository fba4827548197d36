"""A small server on the Python package mcp 1.x (legacy only): mcp1.py stdio|http."""

from __future__ import annotations

import sys

import serving
from mcp import types
from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.server.fastmcp.exceptions import ToolError
from pydantic import BaseModel

mcp = FastMCP("small-mcp1", instructions="A small server.", log_level="WARNING")
NAMES = ["Ada", "Alan", "Grace"]
DOT = b"\x89PNG\r\n\x1a\n, as far as it goes"


class Person(BaseModel):
    name: str


@mcp.tool()
def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


@mcp.tool()
def fail() -> str:
    """Reports an error of its own."""
    raise ToolError("it broke")


@mcp.tool()
def picture() -> Image:
    """An image."""
    return Image(data=DOT, format="png")


@mcp.tool()
async def count(steps: int, ctx: Context) -> str:
    """Counts, with progress and log messages."""
    for step in range(1, steps + 1):
        await ctx.info(f"at {step}")
        await ctx.report_progress(step, steps, f"step {step}")
    return f"counted {steps}"


@mcp.tool()
async def ask_name(ctx: Context) -> str:
    """Asks the user."""
    answer = await ctx.elicit("Who are you?", Person)
    return f"hello {answer.data.name}" if answer.action == "accept" else f"hello nobody ({answer.action})"


@mcp.tool()
async def ask_model(ctx: Context) -> str:
    """Asks the client's model."""
    text = types.TextContent(type="text", text="What is the answer?")
    answer = await ctx.session.create_message([types.SamplingMessage(role="user", content=text)], max_tokens=50)
    return f"the model says {answer.content.text}"


@mcp.tool()
async def ask_roots(ctx: Context) -> str:
    """Asks for the client's roots."""
    answer = await ctx.session.list_roots()
    return "roots: " + ", ".join(str(root.uri) for root in answer.roots)


@mcp.resource("memo://welcome")
def welcome() -> str:
    """A text."""
    return "be welcome, 世界"


@mcp.resource("memo://bytes", mime_type="application/octet-stream")
def some_bytes() -> bytes:
    """No text."""
    return bytes(range(256))


@mcp.resource("memo://item/{number}")
def item(number: str) -> str:
    """One of many."""
    return f"item {number}"


@mcp.prompt()
def greeting(name: str) -> str:
    """A greeting for somebody."""
    return f"Please greet {name}."


@mcp.completion()
async def complete(
    ref: types.PromptReference | types.ResourceTemplateReference,
    argument: types.CompletionArgument,
    context: types.CompletionContext | None,
) -> types.Completion:
    return types.Completion(values=[name for name in NAMES if name.startswith(argument.value)], hasMore=False)


if sys.argv[1] == "http":
    serving.over_http(mcp.streamable_http_app())
else:
    mcp.run("stdio")
