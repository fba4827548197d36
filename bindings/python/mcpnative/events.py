"""What handlers are told besides tasks, questions and errors."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Mapping, Optional

from . import _constants as c


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
