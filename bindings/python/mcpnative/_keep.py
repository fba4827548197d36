"""What native code may still call is kept alive here.

The function objects that C sees are made once and live for the whole process. What differs from one
registration to the next is the user data: a key to a Python callable, which stays in the table until the
library calls ``destroy`` for it, exactly once and after the last delivery. So no callable has to be kept by
the program that registered it, and none can be collected while C still knows its key.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from typing import Any, Callable, Dict, Optional, Set

from . import _abi
from ._report import report

_keys = itertools.count(1)
_kept: Dict[int, Callable[..., None]] = {}
#: The threads on which no more callables run: each was told to end and did not.
_barred: Set[int] = set()


def keep(target: Callable[..., None]) -> int:
    """Keep a callable and give the user data to register with one of the functions below."""
    key = next(_keys)
    _kept[key] = target
    return key


def kept() -> int:
    """How many callables native code may still call."""
    return len(_kept)


def bar(thread: int) -> None:
    """Call nothing more on a thread."""
    _barred.add(thread)


def _target(user: Optional[int]) -> Optional[Callable[..., None]]:
    return None if threading.get_ident() in _barred else _kept.get(user or 0)


def _event(event: Optional[int], user: Optional[int]) -> None:
    try:
        target = _target(user)
        if target is not None:
            target(event)
    except BaseException as error:
        report(error, "an event callback")


def _log(level: int, message: Optional[int], length: int, user: Optional[int]) -> None:
    try:
        target = _target(user)
        if target is not None:
            line = ctypes.string_at(message, length) if message else b""
            target(level, line.decode("utf-8", "replace"))
    except BaseException as error:
        report(error, "a log callback")


def _destroy(user: Optional[int]) -> None:
    try:
        _kept.pop(user or 0, None)
    except BaseException as error:
        report(error, "the end of a callback")


def _for_ever(function: Any) -> Any:
    # One reference more than anybody gives back: not even the end of the interpreter takes it away.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))
    return function


EVENT = _for_ever(_abi.event_fn(_event))
LOG = _for_ever(_abi.log_fn(_log))
DESTROY = _for_ever(_abi.destroy_fn(_destroy))
NO_LOG = _for_ever(_abi.log_fn())
NO_DESTROY = _for_ever(_abi.destroy_fn())
