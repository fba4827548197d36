"""For your tests: the clock of tasks in your hands, so that a job of a day takes a moment."""

from __future__ import annotations

import contextlib
from typing import Iterator, Optional

from ._load import library
from ._time import milliseconds, run_interruptibly
from .errors import Status, WaitTimeout, check

__all__ = ["HeldClock", "clock"]


class HeldClock:
    """The clock that :func:`clock` holds."""

    def advance(self, seconds: float, timeout: Optional[float] = 30.0) -> None:
        """Move the clock. What falls due on the way is asked and answered, in its order, before this returns.

        WaitTimeout where an answer did not come in time; the clock stands at its end all the same.
        """
        lib = library()
        by, wait = milliseconds(seconds, "seconds"), milliseconds(timeout)
        status = run_interruptibly(lambda: check(lib, lib.mcp_clock_advance(by, wait)))
        if status == Status.S_TIMEOUT:
            raise WaitTimeout(Status.S_TIMEOUT, "what fell due was not all answered in time")


@contextlib.contextmanager
def clock() -> Iterator[HeldClock]:
    """Hold the clock of tasks for a block: polls, times to live and the age of kept answers go by it alone.

    Clients are opened and closed inside the block; StateError says that one is open at its beginning or its end. Waits and
    timeouts of calls stay with the system's clock.
    """
    lib = library()
    check(lib, lib.mcp_clock_hold())
    try:
        yield HeldClock()
    finally:
        check(lib, lib.mcp_clock_release())
