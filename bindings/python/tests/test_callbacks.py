"""BR-47 and BR-48: callbacks that nobody holds, that raise, that are replaced, and the end of the interpreter."""

from __future__ import annotations

import gc
import subprocess
import threading
import unittest
from typing import Any, Callable, List

from .support import PATIENCE, ServerTest, Told, run_program

import mcpnative
from mcpnative import Client, _keep

EACH = 100

#: Every call of `echo` is answered by a stream of notifications before the result.
NOISY = {
    "rules": [
        {
            "match": {"method": "tools/call", "tool": "echo"},
            "do": {
                "sse": [{"message": {"jsonrpc": "2.0", "method": "notifications/custom", "params": {}}}] * EACH
                + [{"progress": {"progress": 1}}]
                + [{"message": {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}}]
                + [{"result": {"resultType": "complete", "content": [{"type": "text", "text": "noisy"}]}}]
            },
        }
    ]
}


class Notifications(ServerTest):
    script = NOISY

    def test_br47_ten_thousand_with_nobody_holding_the_callbacks(self) -> None:
        count = [0]
        others = {"progress": 0, "log": 0, "library": 0, "question": 0}
        everything = threading.Event()

        def connect() -> Client:
            def counted(notification: mcpnative.Notification) -> None:
                count[0] += 1
                if count[0] == 10_000:
                    everything.set()

            def also(what: str) -> Callable[..., None]:
                def add(*_: Any) -> None:
                    others[what] += 1

                return add

            def answer(question: mcpnative.Input) -> Any:
                others["question"] += 1
                return {"value": "x"}

            mcpnative.log_to(also("library"), level="debug")
            client = Client(url=self.url)
            client.on_notification(counted)
            client.on_progress(also("progress"))
            client.on_log(also("log"))
            client.on_elicitation(answer)
            return client.open(PATIENCE)

        client = connect()
        self.addCleanup(client.close)
        self.addCleanup(mcpnative.log_off)
        memory: List[bytes] = []
        for number in range(10_000 // EACH):
            client.call_tool("echo")
            memory.append(bytes(10_000))
            gc.collect()
            if number % 10 == 0:
                client.call_tool("ask_first")
        self.assertTrue(everything.wait(PATIENCE), count[0])
        self.assertTrue(client.close())
        self.assertEqual(count[0], 10_000)
        self.assertGreater(others.pop("library"), 0)
        self.assertEqual(others, {"progress": 10_000 // EACH, "log": 10_000 // EACH, "question": 1_000 // EACH})

    def test_br47_replaced_while_messages_arrive(self) -> None:
        told = Told()
        with Client(url=self.url) as client:
            calls = [client.start_tool("echo") for _ in range(20)]
            for number in range(200):
                client.on_notification(lambda notification, number=number: told(number))
                gc.collect(0)
            for call in calls:
                call.result(PATIENCE)
        self.assertLessEqual(len(told.all), 20 * EACH)

    def test_br47_closed_while_messages_arrive(self) -> None:
        before = _keep.kept()
        told = Told()
        client = Client(url=self.url, on_notification=told).open(PATIENCE)
        for _ in range(10):
            client.start_tool("echo")
        told.wait_for(1)
        self.assertTrue(client.close())
        self.assertEqual(_keep.kept(), before)
        after = len(told.all)
        gc.collect()
        with Client(url=self.url) as other:
            other.call_tool("echo")
        self.assertEqual(len(told.all), after)

    def test_br48_exceptions_are_reported_and_not_lost(self) -> None:
        reported = Told()

        def raises(notification: mcpnative.Notification) -> None:
            raise KeyError("every time")

        with Client(url=self.url, on_notification=raises, on_callback_error=reported) as client:
            for _ in range(3):
                self.assertEqual(client.call_tool("echo").text, "noisy")
        self.assertEqual(len(reported.all), 3 * EACH)
        error, where = reported.all[0]
        self.assertIsInstance(error, KeyError)
        self.assertIn("on_notification", where)

    def test_br48_whatever_is_raised(self) -> None:
        kinds = [KeyboardInterrupt, SystemExit, GeneratorExit, RecursionError, BaseException]
        reported = Told()

        def raises(notification: mcpnative.Notification) -> None:
            raise kinds[len(reported.all) % len(kinds)]()

        with Client(url=self.url, on_notification=raises, on_callback_error=reported) as client:
            self.assertEqual(client.call_tool("echo").text, "noisy")
        self.assertEqual({type(one[0]) for one in reported.all}, set(kinds))

    def test_br48_without_a_hook(self) -> None:
        program = """
            import sys, mcpnative
            def broken(notification):
                raise ValueError("from a handler")
            with mcpnative.Client(url=sys.argv[1], on_notification=broken) as client:
                client.call_tool("echo")
            print("alive")
        """
        done = run_program(program, self.url)
        self.assertEqual((done.returncode, done.stdout), (0, "alive\n"))
        self.assertEqual(done.stderr.count("ValueError: from a handler"), EACH)
        self.assertIn("an on_notification handler", done.stderr)

    def test_br48_a_hook_that_raises(self) -> None:
        program = """
            import sys, mcpnative
            def broken(*_):
                raise ValueError("from %s" % len(_))
            with mcpnative.Client(url=sys.argv[1], on_notification=broken, on_callback_error=broken) as client:
                client.call_tool("echo")
            print("alive")
        """
        done = run_program(program, self.url)
        self.assertEqual((done.returncode, done.stdout), (0, "alive\n"))
        self.assertIn("ValueError: from 1", done.stderr)
        self.assertIn("ValueError: from 2", done.stderr)


class Inside(ServerTest):
    """What may and may not be done in a handler."""

    def inside(self, work: Any) -> Any:
        """What some work gives, or raises, inside a handler."""
        told = Told()
        client = Client(url=self.url)

        @client.on_state
        def state(state: mcpnative.State, error: Any) -> None:
            if state is mcpnative.State.READY:
                try:
                    told(work(client))
                except BaseException as problem:
                    told(problem)

        self.addCleanup(client.close)
        client.start()
        return told.wait_for(1)[0]

    def test_what_blocks_is_refused(self) -> None:
        works = [
            lambda client: client.call_tool("echo"),
            lambda client: client.request("tools/list"),
            lambda client: client.list_tools(),
            lambda client: client.check(),
            lambda client: client.wait_open(1),
            lambda client: client.notify("notifications/custom"),
            lambda client: client.start_tool("echo").result(1),
            lambda client: client.start_tool("echo").wait(1),
            lambda client: client.start_tool("echo").wait_answer(1),
            lambda client: client.task("x").wait(1),
            lambda client: client.task("x").get(1),
            lambda client: client.task("x").update({"a": {}}, 1),
        ]
        for work in works:
            self.assertIsInstance(self.inside(work), mcpnative.ReentrantError)

    def test_what_starts_is_fine(self) -> None:
        call = self.inside(lambda client: client.start_tool("echo", {"a": 1}))
        self.assertEqual(call.result(PATIENCE).structured, {"a": 1})

    def test_close_inside(self) -> None:
        self.assertIs(self.inside(lambda client: client.close()), False)

    def test_the_library_s_log(self) -> None:
        lines = Told()
        mcpnative.log_to(lambda level, message: lines((level, message)), level="debug")
        self.addCleanup(mcpnative.log_off)
        with Client(url=self.url) as client:
            client.call_tool("echo")
        level, message = lines.wait_for(1)[0]
        self.assertIsInstance(level, int)
        self.assertIsInstance(message, str)
        mcpnative.log_to(lambda level, message: 1 / 0, level="error")


class Exit(ServerTest):
    """The interpreter ends with something still going on. Always promptly, always with the program's own code."""

    script = NOISY

    def ends(self, source: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
        done = run_program(source, self.url)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_br47_client_open(self) -> None:
        done = self.ends(
            """
            import sys, mcpnative
            client = mcpnative.Client(url=sys.argv[1]).open(20)
            print(client.call_tool("echo").text)
            sys.exit(3)
            """,
            3,
        )
        self.assertEqual((done.stdout, done.stderr), ("noisy\n", ""))

    def test_br47_the_library_s_log(self) -> None:
        done = self.ends(
            """
            import sys, threading, mcpnative
            for _ in range(5):
                told = threading.Event()
                mcpnative.log_to(lambda level, message: told.set(), level="debug")
                client = mcpnative.Client(url=sys.argv[1]).open(20)
                client.call_tool("echo")
                assert told.wait(20)
                mcpnative.stop()
            mcpnative.log_to(print, level="debug")
            mcpnative.Client(url=sys.argv[1]).open(20).start_tool("echo")
            """
        )
        self.assertEqual(done.stderr, "")

    def test_br47_clients_that_nobody_holds(self) -> None:
        for _ in range(3):
            done = self.ends(
                """
                import gc, sys, threading, mcpnative
                def leave():
                    began = threading.Event()
                    client = mcpnative.Client(url=sys.argv[1], on_notification=lambda n: began.set()).open(20)
                    client.start_tool("slow_job", {"steps": 1000, "step_ms": 60}).wait_answer(20)
                    client.start_tool("echo")
                    assert began.wait(20)
                for _ in range(5):
                    leave()
                gc.collect()
                """
            )
            self.assertEqual(done.stderr, "")

    def test_br47_other_threads_that_wait(self) -> None:
        for _ in range(3):
            done = self.ends(
                """
                import sys, threading, mcpnative
                client = mcpnative.Client(url=sys.argv[1]).open(20)
                begun = threading.Barrier(5)
                def wait(start):
                    call = start()
                    begun.wait(20)
                    try:
                        call.result()
                    except mcpnative.McpError:
                        pass
                for tool in ("sleep", "slow_job") * 2:
                    start = lambda tool=tool: client.start_tool(tool, {"ms": 60000, "steps": 1000, "step_ms": 60})
                    threading.Thread(target=wait, args=(start,), daemon=True).start()
                begun.wait(20)
                """
            )
            self.assertEqual(done.stderr, "")

    def test_br47_messages_arriving(self) -> None:
        for _ in range(3):
            done = self.ends(
                """
                import sys, threading, mcpnative
                began = threading.Event()
                client = mcpnative.Client(url=sys.argv[1], on_notification=lambda n: began.set()).open(20)
                calls = [client.start_tool("echo") for _ in range(50)]
                began.wait(20)
                """
            )
            self.assertEqual(done.stderr, "")

    def test_br47_in_the_middle_of_a_callback(self) -> None:
        done = self.ends(
            """
            import sys, threading, time, mcpnative
            began = threading.Event()
            def slow(notification):
                if not began.is_set():
                    began.set()
                    time.sleep(0.5)
                    print("finished", flush=True)
            client = mcpnative.Client(url=sys.argv[1], on_notification=slow).open(20)
            client.start_tool("echo")
            began.wait(20)
            """
        )
        self.assertEqual((done.stdout, done.stderr), ("finished\n", ""))

    def test_br47_a_callback_that_never_comes_back(self) -> None:
        done = self.ends(
            """
            import sys, threading, mcpnative
            began = threading.Event()
            def never(notification):
                began.set()
                while True:
                    pass
            client = mcpnative.Client(url=sys.argv[1], on_notification=never).open(20)
            client.start_tool("echo")
            began.wait(20)
            """
        )
        self.assertIn("SystemExit", done.stderr)

    def test_br47_a_callback_that_waits_for_ever(self) -> None:
        self.ends(
            """
            import sys, threading, mcpnative
            began, never = threading.Event(), threading.Lock()
            never.acquire()
            def waits(notification):
                began.set()
                never.acquire()
            client = mcpnative.Client(url=sys.argv[1], on_notification=waits).open(20)
            client.start_tool("echo")
            began.wait(20)
            """
        )

    def test_br47_an_uncaught_exception(self) -> None:
        done = self.ends(
            """
            import sys, mcpnative
            client = mcpnative.Client(url=sys.argv[1], on_notification=print).open(20)
            client.start_tool("echo")
            raise RuntimeError("of the program's own")
            """,
            1,
        )
        self.assertIn("of the program's own", done.stderr)

    def test_br50_the_library_closed_by_hand(self) -> None:
        self.ends(
            """
            import ctypes, sys, mcpnative, _ctypes
            from mcpnative import _load
            client = mcpnative.Client(url=sys.argv[1]).open(20)
            client.call_tool("echo")
            client.close()
            mcpnative.stop()
            if hasattr(_ctypes, "dlclose"):
                _ctypes.dlclose(_load.library()._handle)
            """
        )


if __name__ == "__main__":
    unittest.main()
