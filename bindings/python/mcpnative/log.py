"""The library's own log, handed to Python."""

from __future__ import annotations

import logging
from typing import Any, Callable, Optional

from . import _constants as c
from . import _dispatch, _keep
from ._load import library
from .errors import ArgumentError, Status, check

_LEVELS = {"error": c.LOG_ERROR, "warn": c.LOG_WARN, "info": c.LOG_INFO, "debug": c.LOG_DEBUG}
_LOGGING = {
    c.LOG_ERROR: logging.ERROR,
    c.LOG_WARN: logging.WARNING,
    c.LOG_INFO: logging.INFO,
    c.LOG_DEBUG: logging.DEBUG,
}

LogLine = Callable[[int, str], Any]


def log_to(target: Optional[LogLine] = None, *, level: str = "info") -> None:
    """Send the library's log to ``target(level, message)``, in the levels of :mod:`logging`; one per process.

    Without a target the lines go to the logger ``mcpnative``. Lines never hold credentials.
    """
    if level not in _LEVELS:
        raise ArgumentError(Status.E_ARGUMENT, f"level must be one of {', '.join(_LEVELS)}")
    write: LogLine = target if target is not None else logging.getLogger("mcpnative").log

    def line(number: int, message: str) -> None:
        write(_LOGGING.get(number, logging.INFO), message)

    lib = library()
    queue = _dispatch.dispatcher.queue()
    check(lib, lib.mcp_log_on(queue, _LEVELS[level], _keep.LOG, _keep.keep(line), _keep.DESTROY))
    _dispatch.dispatcher.logs = True


def log_off() -> None:
    """Send the library's log nowhere."""
    lib = library()
    check(lib, lib.mcp_log_on(None, c.LOG_ERROR, _keep.NO_LOG, None, _keep.NO_DESTROY))
