"""mcpnative: an MCP client that follows long-running tool calls (tasks) to their end.

A thin wrapper over the native library of the same name; see :class:`Client`.
"""

from __future__ import annotations

from . import _dispatch
from ._load import library as _library
from .call import Call
from .client import Client
from .errors import (
    STATUS_NAMES,
    ArgumentError,
    AuthorizationError,
    CallCancelled,
    CallError,
    ClosedError,
    ConnectError,
    ForkedError,
    HttpError,
    InputRefusedError,
    InputRequiredError,
    InternalError,
    LedgerError,
    McpError,
    OutcomeUnknownError,
    ProtocolError,
    ReentrantError,
    RequestTimeout,
    RpcError,
    SchemaError,
    StateError,
    Status,
    TaskCancelled,
    TaskError,
    TaskExpired,
    TaskFailed,
    TaskUnknown,
    ToolError,
    TransportError,
    UnsupportedError,
    UsageError,
    WaitTimeout,
    status_name,
)
from .events import LogMessage, Notification, Progress, State, SubscriptionChange, SubscriptionState
from .input import Input, InputKind
from .log import log_off, log_to
from .result import Block, BlockKind, Result
from .server import Server
from .task import Reason, Snapshot, Task, TaskStatus, wait_all, wait_any
from .uri_template import expand_uri_template

__version__ = "0.1.0"


def library_version() -> str:
    """The version of the native library; loads it."""
    version: bytes = _library().mcp_version()
    return version.decode("ascii")


def stop() -> None:
    """Close all clients, wait for the last handler and end this package's thread. Runs by itself at exit.

    A client made afterwards starts a thread again.
    """
    _dispatch.dispatcher.stop()


__all__ = [
    "STATUS_NAMES",
    "ArgumentError",
    "AuthorizationError",
    "Block",
    "BlockKind",
    "Call",
    "CallCancelled",
    "CallError",
    "Client",
    "ClosedError",
    "ConnectError",
    "ForkedError",
    "HttpError",
    "Input",
    "InputKind",
    "InputRefusedError",
    "InputRequiredError",
    "InternalError",
    "LedgerError",
    "LogMessage",
    "McpError",
    "Notification",
    "OutcomeUnknownError",
    "Progress",
    "ProtocolError",
    "Reason",
    "ReentrantError",
    "RequestTimeout",
    "Result",
    "RpcError",
    "SchemaError",
    "Server",
    "Snapshot",
    "State",
    "StateError",
    "Status",
    "SubscriptionChange",
    "SubscriptionState",
    "Task",
    "TaskCancelled",
    "TaskError",
    "TaskExpired",
    "TaskFailed",
    "TaskStatus",
    "TaskUnknown",
    "ToolError",
    "TransportError",
    "UnsupportedError",
    "UsageError",
    "WaitTimeout",
    "expand_uri_template",
    "library_version",
    "log_off",
    "log_to",
    "status_name",
    "stop",
    "wait_all",
    "wait_any",
]
