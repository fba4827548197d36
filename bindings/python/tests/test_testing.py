"""The clock in a test's hands."""

from __future__ import annotations

import os
import tempfile
import unittest

from .support import PATIENCE, Server

from mcpnative import Client, Reason, StateError, TaskStatus, testing

HOUR = 3600.0
WORKING = {"pollIntervalMs": 3_600_000, "ttlMs": 86_400_000}
SCRIPT = {
    "tasks": [
        {
            "tool": "day",
            "seed": WORKING,
            "polls": [
                {"task": WORKING, "times": 24},
                {"task": {"status": "completed", "result": {"content": [{"type": "text", "text": "a day"}]}}},
            ],
        }
    ]
}


class Clock(unittest.TestCase):
    def test_a_job_of_a_day(self) -> None:
        with Server(SCRIPT) as server, testing.clock() as clock:
            with Client(url=server.url) as client:
                call = client.start_tool("day", {})
                self.assertTrue(call.wait_answer(PATIENCE))
                task = call.task
                assert task is not None
                clock.advance(24 * HOUR - 0.001)
                self.assertFalse(task.snapshot().overdue)
                clock.advance(0.001)
                seen = task.snapshot()
                self.assertEqual((seen.status, seen.overdue), (TaskStatus.WORKING, True))
                clock.advance(2 * HOUR)
                self.assertEqual((task.result(0).text, task.reason), ("a day", Reason.COMPLETED))

    def test_it_changes_hands_only_without_clients(self) -> None:
        with Server() as server:
            with Client(url=server.url):
                with self.assertRaises(StateError):
                    with testing.clock():
                        self.fail("a client is open")
            with testing.clock() as clock:
                clock.advance(0)


class Record(unittest.TestCase):
    def test_a_session_is_played_without_its_server(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = {"file": os.path.join(folder, "record.jsonl")}
            with Server() as server, Client({"record": file}, url=server.url) as client:
                self.assertEqual(client.call_tool("add", {"a": 40, "b": 2}).text, "42")
            with Client({"replay": file}) as client:
                self.assertEqual(client.call_tool("add", {"a": 40, "b": 2}).text, "42")


if __name__ == "__main__":
    unittest.main()
