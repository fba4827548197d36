"""The one queue of this process and the one thread that serves it.

The library's events wait in a manual queue; a daemon thread of this package takes them out, so every handler
runs on a Python thread. The order at exit: close the clients, wait for them (handlers still run), then stop
and join the thread. It must never be left inside the library while the interpreter goes away.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
from typing import Any, List, Optional, Set

from ._handle import out_present
from ._keep import NO_DESTROY, NO_LOG, bar
from ._load import library
from ._report import report
from .errors import ReentrantError, Status, last_error

# A dispatch that waits is woken when it should end; the limit is for a wake-up that came a moment too early.
_DISPATCH_MS = 1000
_CLOSE_WAIT_MS = 5000
_INTERRUPT_WAIT_S = 2.0


class Dispatcher:
    """The queue, its thread and the clients that are not closed yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._queue: Optional[int] = None
        self._thread: Optional[threading.Thread] = None
        self._stopping = threading.Event()
        self._clients: Set[int] = set()
        #: Closing, with nobody left in Python who knows them.
        self._orphans: Set[int] = set()
        self._at_exit = False
        #: Whether this package has set the library's log hook.
        self.logs = False

    def queue(self) -> int:
        """The queue, with its thread started."""
        with self._lock:
            if self._queue is None:
                server = _Server(library())
                self._queue, self._thread, self._stopping = server.begin(), server.thread, server.stopping
                if not self._at_exit:
                    self._at_exit = True
                    atexit.register(self.stop)
            return self._queue

    def add(self, client: int) -> None:
        """A client that has to be closed before the thread may stop."""
        self._sweep()
        self._clients.add(client)

    def remove(self, client: int) -> None:
        """A client that has closed."""
        self._clients.discard(client)

    def release(self, lib: Any, client: int) -> None:
        """Give up a client's handle. One that still has to close keeps it until it has: then it can be waited for."""
        if client not in self._clients:
            lib.mcp_client_free(client)
            return
        lib.mcp_client_close(client)
        self._orphans.add(client)
        self._clients.discard(client)

    def _sweep(self) -> None:
        # Inside a handler the answer is an error: the next sweep will do.
        for client in list(self._orphans):
            if library().mcp_client_wait_closed(client, 0) == Status.OK:
                self._orphans.discard(client)
                library().mcp_client_free(client)

    def is_current(self) -> bool:
        """Whether this is the thread that runs the handlers."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """Close all clients, wait for the last handler, and end the thread. Bounded; called at exit."""
        if os.getpid() != self._pid or self._queue is None or self.is_current():
            return
        lib = library()
        clients: List[int] = [*self._clients, *self._orphans]
        for client in clients:
            lib.mcp_client_close(client)
        end = time.monotonic() + _CLOSE_WAIT_MS / 1000.0
        closed = True
        for client in clients:
            left = max(0, int((end - time.monotonic()) * 1000))
            closed = lib.mcp_client_wait_closed(client, left) == Status.OK and closed
            self.remove(client)
        self._sweep()
        if self.logs:
            self.logs = False
            lib.mcp_log_on(None, 0, NO_LOG, None, NO_DESTROY)
        with self._lock:
            queue, thread = self._queue, self._thread
            self._queue = None
        if queue is None or thread is None:
            return
        self._stopping.set()
        lib.mcp_queue_wake(queue)
        thread.join(_DISPATCH_MS / 1000.0 + 1.0)
        if thread.is_alive():
            _interrupt(thread)
        if closed and not thread.is_alive():
            # Else it stays: a queue that is gone would have the library end the rest of the handlers by itself, on a
            # thread of its own, perhaps after the interpreter.
            lib.mcp_queue_free(queue)


class _Server:
    """The thread that makes the queue and serves it: at no moment is the queue another thread's to serve."""

    def __init__(self, lib: Any) -> None:
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name="mcpnative", daemon=True)
        self._lib = lib
        self._made = threading.Event()
        self._queue: Optional[int] = None
        self._error: Optional[BaseException] = None

    def begin(self) -> int:
        """Start the thread and give its queue."""
        self.thread.start()
        self._made.wait()
        if self._queue is None:
            raise self._error or AssertionError("there is neither a queue nor an error")
        return self._queue

    def _run(self) -> None:
        try:
            self._queue = out_present(self._lib, self._lib.mcp_queue_new)
        except BaseException as error:
            self._error = error
            return
        finally:
            self._made.set()
        self._serve(self._queue)

    def _serve(self, queue: int) -> None:
        count = ctypes.c_int32()
        while not self.stopping.is_set():
            try:
                status = self._lib.mcp_queue_dispatch(queue, _DISPATCH_MS, ctypes.byref(count))
                if status < 0:
                    report(last_error(self._lib, status), "the event thread of mcpnative, which ends")
                    return
            except BaseException as error:
                report(error, "the event thread of mcpnative")


def _interrupt(thread: threading.Thread) -> None:
    # A handler does not come back. An exception raised inside it ends it where it runs Python code; one that
    # blocks in native code is left, and goes with the process.
    # What waits behind it is not run any more: a thread that is in the middle of a callback when the interpreter goes
    # away would be ended by force inside native code.
    bar(thread.ident or 0)
    end = time.monotonic() + _INTERRUPT_WAIT_S
    while thread.is_alive() and time.monotonic() < end:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
        )
        thread.join(0.1)


dispatcher = Dispatcher()


def _reset_after_fork() -> None:
    # The thread is not in the child. Where the library was in use, it answers every call there with an error of its
    # own; the old dispatcher, which the child's exit still knows, stays with the parent's process id.
    global dispatcher
    dispatcher = Dispatcher()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def refuse_in_callback(what: str) -> None:
    """Raise before anything is sent: a handler that waits would wait for itself."""
    if dispatcher.is_current():
        raise ReentrantError(
            Status.E_REENTRANT, f"{what} would block inside a handler; start the work there and wait elsewhere"
        )
