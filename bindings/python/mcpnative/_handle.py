"""A handle of the library's with an owner in Python: freed once, by ``close`` or when nobody holds it."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, Callable, Optional

from .errors import check


class Handle:
    """Owns one handle. Freeing never blocks and gives up the name only; what it names lives on as it should."""

    __slots__ = ("key", "_finalizer", "__weakref__")

    def __init__(self, key: int, free: Callable[[int], Any]) -> None:
        self.key = key
        self._finalizer = weakref.finalize(self, free, key)
        self._finalizer.atexit = False

    def close(self) -> None:
        """Free the handle now. A second time is nothing."""
        self._finalizer()


def out(library: Any, function: Callable[..., int], *arguments: Any) -> Optional[int]:
    """Call a function whose last argument is a handle to be filled; None when it filled in none."""
    handle = ctypes.c_void_p()
    check(library, function(*arguments, ctypes.byref(handle)))
    return handle.value


def out_present(library: Any, function: Callable[..., int], *arguments: Any) -> int:
    """The same where the library promises a handle."""
    key = out(library, function, *arguments)
    if key is None:
        raise AssertionError("the library gave no handle where it promises one")
    return key
