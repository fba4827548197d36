"""A small server on the Python package mcp 2.x (both eras): mcp2.py stdio|http."""

from __future__ import annotations

import sys
from typing import Annotated

import mcp_types as types
import serving
from mcp.server.mcpserver import (
    Context,
    Elicit,
    ElicitationResult,
    Image,
    ListRoots,
    MCPServer,
    Resolve,
    Sample,
)
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

mcp = MCPServer("small-mcp2", instructions="A small server.", log_level="WARNING")
NAMES = ["Ada", "Alan", "Grace"]
DOT = b"\x89PNG\r\n\x1a\n, as far as it goes"


class Person(BaseModel):
    name: str


def who() -> Elicit[Person]:
    return Elicit("Who are you?", Person)


def answer() -> Sample:
    text = types.TextContent(type="text", text="What is the answer?")
    return Sample([types.SamplingMessage(role="user", content=text)], max_tokens=50)


def roots() -> ListRoots:
    return ListRoots()


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
async def ask_name(person: Annotated[ElicitationResult[Person], Resolve(who)]) -> str:
    """Asks the user."""
    return f"hello {person.data.name}" if person.action == "accept" else f"hello nobody ({person.action})"


@mcp.tool()
async def ask_model(said: Annotated[types.CreateMessageResult, Resolve(answer)]) -> str:
    """Asks the client's model."""
    return f"the model says {said.content.text}"


@mcp.tool()
async def ask_roots(listed: Annotated[types.ListRootsResult, Resolve(roots)]) -> str:
    """Asks for the client's roots."""
    return "roots: " + ", ".join(str(root.uri) for root in listed.roots)


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
    return types.Completion(values=[name for name in NAMES if name.startswith(argument.value)], has_more=False)


if sys.argv[1] == "http":
    serving.over_http(mcp.streamable_http_app())
else:
    mcp.run("stdio")
