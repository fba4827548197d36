"""What handlers are told besides tasks, questions and errors."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Mapping, Optional

from . import _constants as c
from .errors import McpError


class State(enum.IntEnum):
    """The state of a client's connection."""

    NEW = c.STATE_NEW
    OPENING = c.STATE_OPENING
    READY = c.STATE_READY
    CLOSING = c.STATE_CLOSING
    CLOSED = c.STATE_CLOSED
    FAILED = c.STATE_FAILED


@dataclass(frozen=True)
class Progress:
    """How far a call is. Of several that came while a handler was busy, the last one is delivered."""

    #: The :attr:`Call.id` that this is about, None where it is not known.
    call_id: Optional[int]
    progress: float
    total: Optional[float]
    message: Optional[str]
    #: The notification's parameters as sent.
    params: Mapping[str, Any]


@dataclass(frozen=True)
class LogMessage:
    """A log message of the server's."""

    level: str
    logger: Optional[str]
    data: Any
    #: The :attr:`Call.id` that it belongs to, None where it is not known.
    call_id: Optional[int]


@dataclass(frozen=True)
class Notification:
    """Any other notification of the server's."""

    method: str
    params: Any
    #: The :attr:`Call.id` that it belongs to (a subscription, say), None where it belongs to none.
    call_id: Optional[int] = None


class SubscriptionState(enum.IntEnum):
    """Where a subscription stands."""

    #: The server acknowledged it.
    ACTIVE = c.SUBSCRIPTION_ACTIVE
    #: Its stream is gone; it is opened again by itself.
    LOST = c.SUBSCRIPTION_LOST
    #: Active again, after a gap: look again at what you follow.
    CATCH_UP = c.SUBSCRIPTION_CATCH_UP
    #: Over.
    ENDED = c.SUBSCRIPTION_ENDED


@dataclass(frozen=True)
class SubscriptionChange:
    """A subscription stands elsewhere now."""

    call_id: Optional[int]
    state: SubscriptionState
    #: What the server granted, maybe less than was asked for; None unless it is ACTIVE or CATCH_UP.
    filter: Optional[Mapping[str, Any]]
    #: Why it was lost, or ended with; None where all is well.
    error: Optional[McpError]
