"""Where an exception goes that nobody can catch: a hook of the host's, or ``sys.unraisablehook``."""

from __future__ import annotations

import sys
from typing import Callable, Optional

CallbackErrorHook = Callable[[BaseException, str], None]


def _unraisable(error: BaseException, where: str) -> None:
    # Only the interpreter can make the arguments of sys.unraisablehook: an object whose end raises brings it
    # to do so, and the name given to that end is what the report shows.
    def end(self: object) -> None:
        raise error

    end.__qualname__ = where
    try:
        type("Carrier", (), {"__del__": end})()
    except BaseException as second:
        try:
            print(f"mcpnative: {where} raised {error!r}; reporting it raised {second!r}", file=sys.stderr)
        except BaseException:
            pass  # stderr is gone as well: nothing is left to tell it to


def report(error: BaseException, where: str, hook: Optional[CallbackErrorHook] = None) -> None:
    """Report an exception of a callback. Never raises; a hook that raises is reported along with its cause."""
    if hook is not None:
        try:
            hook(error, where)
            return
        except BaseException as second:
            _unraisable(second, "an on_callback_error hook")
    _unraisable(error, where)
