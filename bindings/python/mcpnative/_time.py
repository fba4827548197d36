"""Waiting: in slices, so that signals (Ctrl-C) are served, and with one deadline for a whole operation."""

from __future__ import annotations

import math
import threading
import time
from typing import Callable, List, Optional, TypeVar

from .errors import ArgumentError, Status

T = TypeVar("T")

# Only the main thread runs signal handlers; the others have no reason to wake up often.
SLICE_MAIN_MS = 50
SLICE_OTHER_MS = 1000

_LONGEST_MS = 2**53


def milliseconds(timeout: Optional[float], what: str = "timeout") -> int:
    """Seconds as whole milliseconds, rounded up; -1 for None, which is no limit."""
    if timeout is None:
        return -1
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout >= 0:
        raise ArgumentError(Status.E_ARGUMENT, f"{what} must be None or a number of seconds from 0 up")
    return int(min(math.ceil(timeout * 1000), _LONGEST_MS)) if math.isfinite(timeout) else -1


class Deadline:
    """The end of an operation that may wait several times."""

    __slots__ = ("_end",)

    def __init__(self, timeout: Optional[float]) -> None:
        wait = milliseconds(timeout)
        self._end = None if wait < 0 else time.monotonic() + wait / 1000.0

    def remaining_ms(self) -> int:
        """What is left, rounded up; -1 for no limit."""
        if self._end is None:
            return -1
        return max(0, math.ceil((self._end - time.monotonic()) * 1000))

    def remaining(self) -> Optional[float]:
        """What is left in seconds; None for no limit."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())


def wait_in_slices(wait: Callable[[int], int], deadline: Deadline) -> int:
    """Call a waiting function of the library's with short waits until it says something else than timeout."""
    slice_ms = SLICE_MAIN_MS if threading.current_thread() is threading.main_thread() else SLICE_OTHER_MS
    while True:
        left = deadline.remaining_ms()
        status = wait(slice_ms if left < 0 else min(left, slice_ms))
        if status != Status.S_TIMEOUT or left == 0:
            return status


def run_interruptibly(work: Callable[[], T]) -> T:
    """Run a blocking function of the library's that cannot be waited for in slices.

    On the main thread it runs on a helper thread, so that Ctrl-C is raised here at once; the helper then ends
    by the function's own time limit, and its outcome is dropped.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    done = threading.Event()
    values: List[T] = []
    errors: List[BaseException] = []

    def helper() -> None:
        try:
            values.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    try:
        threading.Thread(target=helper, name="mcpnative-wait", daemon=True).start()
    except RuntimeError:
        return work()  # the interpreter is on its way out and starts no thread any more
    while not done.wait(SLICE_MAIN_MS / 1000.0):
        pass
    if errors:
        raise errors[0]
    return values[0]
