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
from ._keep import NO_DESTROY, NO_LOG
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
        self._at_exit = False

    def queue(self) -> int:
        """The queue, with its thread started."""
        with self._lock:
            if self._queue is None:
                lib = library()
                queue = out_present(lib, lib.mcp_queue_new)
                self._stopping = threading.Event()
                self._thread = threading.Thread(
                    target=_serve, args=(lib, queue, self._stopping), name="mcpnative", daemon=True
                )
                self._thread.start()
                self._queue = queue
                if not self._at_exit:
                    self._at_exit = True
                    atexit.register(self.stop)
            return self._queue

    def add(self, client: int) -> None:
        """A client that has to be closed before the thread may stop."""
        self._clients.add(client)

    def remove(self, client: int) -> None:
        self._clients.discard(client)

    def is_current(self) -> bool:
        """Whether this is the thread that runs the handlers."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """Close all clients, wait for the last handler, and end the thread. Bounded; called at exit."""
        if os.getpid() != self._pid or self._queue is None or self.is_current():
            return
        lib = library()
        clients: List[int] = list(self._clients)
        for client in clients:
            lib.mcp_client_close(client)
        end = time.monotonic() + _CLOSE_WAIT_MS / 1000.0
        for client in clients:
            left = max(0, int((end - time.monotonic()) * 1000))
            lib.mcp_client_wait_closed(client, left)
            self.remove(client)
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
        if not thread.is_alive():
            for client in clients:
                lib.mcp_client_free(client)
            lib.mcp_queue_free(queue)


def _serve(lib: Any, queue: int, stopping: threading.Event) -> None:
    count = ctypes.c_int32()
    while not stopping.is_set():
        try:
            status = lib.mcp_queue_dispatch(queue, _DISPATCH_MS, ctypes.byref(count))
            if status < 0:
                report(last_error(lib, status), "the event thread of mcpnative, which ends")
                return
        except BaseException as error:
            report(error, "the event thread of mcpnative")


def _interrupt(thread: threading.Thread) -> None:
    # A handler does not come back. An exception raised inside it ends it where it runs Python code; one that
    # blocks in native code is left, and goes with the process.
    end = time.monotonic() + _INTERRUPT_WAIT_S
    while thread.is_alive() and time.monotonic() < end:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
        )
        thread.join(0.1)


dispatcher = Dispatcher()


def _reset_after_fork() -> None:
    # The thread is not in the child, and the library answers every call there with an error of its own.
    global dispatcher
    pid = dispatcher._pid
    dispatcher = Dispatcher()
    dispatcher._pid = pid


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def refuse_in_callback(what: str) -> None:
    """Raise before anything is sent: a handler that waits would wait for itself."""
    if dispatcher.is_current():
        raise ReentrantError(
            Status.E_REENTRANT, f"{what} would block inside a handler; start the work there and wait elsewhere"
        )
