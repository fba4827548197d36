"""Tasks: followed to their end, asked, answered, cancelled."""

from __future__ import annotations

import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any

from .support import PATIENCE, ServerTest, Told

import mcpnative
from mcpnative import Client, Input, Reason, Snapshot, Task, TaskStatus


class Stored(ServerTest):
    def test_a_ledger_outlives_its_client(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "tasks.db"
            with Client(url=self.url, ledger=file) as first:
                call = first.start_tool("slow_job", {"steps": 3, "step_ms": 50})
                self.assertTrue(call.wait_answer(PATIENCE))
                assert call.task is not None
                task_id, record = call.task.id, call.task.export()
            resumed, ended = Told(), threading.Event()
            seen = Told()

            def completed(task: Task, snapshot: Snapshot) -> None:
                seen((snapshot.task_id, snapshot.reason, snapshot.repeated, task.acknowledge()))
                ended.set()

            second = Client(
                url=self.url,
                ledger={"file": str(file)},
                on_task_resumed=lambda task, snapshot: resumed(task.id),
                on_task_completed=completed,
            )
            with second:
                self.assertTrue(ended.wait(PATIENCE))
                self.assertEqual(second.import_task(record).id, task_id, "the ledger knows it")
                self.assertEqual(second.purge(), 1)
            self.assertEqual(resumed.all[0], task_id)
            self.assertEqual(seen.all[0], (task_id, Reason.COMPLETED, False, True))

    def test_a_file_that_is_no_ledger(self) -> None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"remember the milk")
            file.flush()
            with self.assertRaises(mcpnative.LedgerError) as caught:
                Client(url=self.url, ledger=file.name).open()
            self.assertEqual(caught.exception.status, mcpnative.Status.E_LEDGER)
        with self.assertRaises(mcpnative.ArgumentError):
            Client({"tasks": {"ledger": {}}}, url=self.url, ledger="x")


class Following(ServerTest):
    def test_a_job_to_its_end(self) -> None:
        told = Told()
        done = threading.Event()
        client = Client(url=self.url)

        @client.on_task_created
        def created(task: Task, seen: Snapshot) -> None:
            told(("created", seen.task_id, seen.tool, seen.tool_call_id, seen.context))

        @client.on_task_status
        def status(task: Task, seen: Snapshot) -> None:
            told(("status", seen.task_id))

        @client.on_task_completed
        def completed(task: Task, seen: Snapshot) -> None:
            told(("completed", seen.task_id, seen.reason))
            done.set()

        with client:
            result = client.call_tool(
                "slow_job", {"steps": 4, "step_ms": 30}, tool_call_id="toolu_1", context={"row": 7}
            )
            self.assertEqual(result.text, "done")
            self.assertTrue(done.wait(PATIENCE))
        first, last = told.all[0], told.all[-1]
        self.assertEqual(first[0], "created")
        self.assertEqual(first[2:], ("slow_job", "toolu_1", {"row": 7}))
        self.assertEqual(last, ("completed", first[1], Reason.COMPLETED))
        self.assertEqual([one[0] for one in told.all].count("completed"), 1)
        self.assertEqual({one[1] for one in told.all}, {first[1]})

    def test_the_task_of_a_call(self) -> None:
        with Client(url=self.url) as client:
            call = client.start_tool("slow_job", {"steps": 3, "step_ms": 100})
            self.assertTrue(call.wait_answer(PATIENCE))
            self.assertEqual(call.status, mcpnative.Status.S_TASK)
            task = call.task
            assert task is not None
            self.assertFalse(call.done())
            seen = task.snapshot()
            self.assertEqual((seen.status, seen.reason, seen.tool), (TaskStatus.WORKING, None, "slow_job"))
            self.assertEqual(seen.poll_interval_ms, 50)
            self.assertEqual(seen.ttl_ms, 60_000)
            self.assertEqual([one["task_id"] for one in client.tasks()], [task.id])
            asked = task.get(PATIENCE)
            self.assertEqual(asked.task_id, task.id)
            same = client.task(task.id)
            self.assertFalse(same.wait(0))
            self.assertEqual(same.result(PATIENCE).text, "done")
            self.assertEqual(call.result(0).text, "done")
            self.assertEqual((task.status, task.reason), (TaskStatus.COMPLETED, Reason.COMPLETED))
            self.assertEqual(client.tasks(), [])

    def test_tasks_by_their_context(self) -> None:
        with Client(url=self.url) as client:
            for talk in ("one", "two"):
                call = client.start_tool("slow_job", {"steps": 600, "step_ms": 100}, context={"talk": talk, "n": 1})
                self.assertTrue(call.wait_answer(PATIENCE))
            self.assertEqual(len(client.tasks(context={"n": 1})), 2)
            found = client.tasks(context={"talk": "two"})
            self.assertEqual([one["context"] for one in found], [{"talk": "two", "n": 1}])
            self.assertEqual(client.tasks(context={"talk": "three"}), [])
            tasks = [client.task(one["task_id"]) for one in client.tasks()]
            for task in tasks:
                task.cancel()
            self.assertTrue(mcpnative.wait_all(tasks, PATIENCE))
            ended = client.check(context={"talk": "one"}, timeout=PATIENCE)
            self.assertEqual([one["context"]["talk"] for one in ended], ["one"])
            with self.assertRaises(mcpnative.ArgumentError):
                client.tasks(context="one")  # type: ignore[arg-type]

    def test_ends(self) -> None:
        with Client(url=self.url) as client:
            with self.assertRaises(mcpnative.TaskFailed) as failed:
                client.call_tool("fail_job", {"steps": 1})
            self.assertEqual(failed.exception.rpc_code, -32050)
            assert failed.exception.snapshot is not None
            self.assertIs(failed.exception.snapshot.reason, Reason.FAILED)
            with self.assertRaises(mcpnative.TaskCancelled):
                client.call_tool("cancelled_job", {"steps": 1})
            self.assertTrue(client.call_tool("tool_error_job", {"steps": 1}).is_error)
            with self.assertRaises(mcpnative.TaskUnknown):
                client.task("there is no such task").result(PATIENCE)

    def test_cancel(self) -> None:
        with Client(url=self.url) as client:
            call = client.start_tool("slow_job", {"steps": 1000, "step_ms": 100})
            self.assertTrue(call.wait_answer(PATIENCE))
            task = call.task
            assert task is not None
            self.assertTrue(task.cancel())
            with self.assertRaises(mcpnative.TaskCancelled):
                call.result(PATIENCE)
            self.assertFalse(task.cancel())

    def test_time_limit_cancels_the_task(self) -> None:
        ended = Told()
        with Client(url=self.url, on_task_completed=lambda task, seen: ended(seen.reason)) as client:
            with self.assertRaises(mcpnative.RequestTimeout):
                client.call_tool("slow_job", {"steps": 1000, "step_ms": 100}, timeout=0.3)
            self.assertEqual(ended.wait_for(1), [Reason.CANCELLED])

    def test_any_and_all(self) -> None:
        with Client(url=self.url) as client:
            quick, slow = (
                client.start_tool("slow_job", {"steps": steps, "step_ms": 50}) for steps in (1, 20)
            )
            tasks = []
            for call in (slow, quick):
                self.assertTrue(call.wait_answer(PATIENCE))
                assert call.task is not None
                tasks.append(call.task)
            self.assertIsNone(mcpnative.wait_any(tasks, 0))
            self.assertIs(mcpnative.wait_any(tasks, PATIENCE), tasks[1])
            self.assertTrue(mcpnative.wait_all(tasks, PATIENCE))
            seen = tasks[0].snapshot()
            self.assertEqual(seen.tool_result["content"][0]["text"], "done")
            self.assertEqual((seen.history[0]["status"], seen.history[-1]["status"]), ("working", "completed"))
            self.assertTrue(mcpnative.wait_all([], 0))
            self.assertRaises(ValueError, mcpnative.wait_any, [])

    def test_taken_up_by_its_id(self) -> None:
        resumed, ended = Told(), Told()
        with Client(url=self.url) as first:
            call = first.start_tool("slow_job", {"steps": 5, "step_ms": 50})
            call.wait_answer(PATIENCE)
            assert call.task is not None
            task_id = call.task.id
        with Client(
            url=self.url,
            on_task_resumed=lambda task, seen: resumed(seen.task_id),
            on_task_completed=lambda task, seen: ended(seen.reason),
        ) as second:
            self.assertEqual(second.task(task_id).result(PATIENCE).text, "done")
            self.assertEqual(resumed.wait_for(1), [task_id])
            self.assertEqual(ended.wait_for(1), [Reason.COMPLETED])

    def test_let_go(self) -> None:
        with Client(url=self.url) as client:
            call = client.start_tool("slow_job", {"steps": 1000, "step_ms": 100})
            call.wait_answer(PATIENCE)
            task = call.task
            assert task is not None
            task.let_go()
            with self.assertRaises(mcpnative.ClosedError):
                task.result(PATIENCE)

    def test_check(self) -> None:
        with Client({"url": self.url, "tasks": {"auto_poll": False}}) as client:
            call = client.start_tool("slow_job", {"steps": 1, "step_ms": 1}, tool_call_id="one")
            call.wait_answer(PATIENCE)
            found = []
            turns = threading.Event()
            for _ in range(200):
                found = client.check(tool_call_id="one", timeout=PATIENCE)
                if found:
                    break
                turns.wait(0.02)
            self.assertEqual([(one["tool_call_id"], one["reason"]) for one in found], [("one", "completed")])
            self.assertEqual(found[0]["result"]["content"][0]["text"], "done")


class Legacy(ServerTest):
    """Tasks of 2025-11-25: the same."""

    script = {"options": {"era": "legacy", "legacy": {"tasks": {"immediate": "I am on it."}}}}

    def test_a_job_that_asks(self) -> None:
        job = {"steps": 2, "step_ms": 20, "poll_ms": 50, "ask": True}
        with Client(url=self.url, on_elicitation=lambda question: {"value": "go"}) as client:
            call = client.start_tool("slow_job", job)
            self.assertTrue(call.wait_answer(PATIENCE))
            task = call.task
            assert task is not None
            self.assertEqual(task.snapshot().immediate_response, "I am on it.")
            self.assertIn('"value":"go"', task.result(PATIENCE).text or "")
            plain = client.call_tool("slow_job", {"steps": 1, "step_ms": 1}, options={"task": False})
            self.assertEqual(plain.text, "done")
            self.assertEqual(len(client.request("tasks/list", options={"all_pages": True})["tasks"]), 1)


class Questions(ServerTest):
    def ask(self, tool: str, arguments: Any = None, **handlers: Any) -> mcpnative.Result:
        with Client(url=self.url, **handlers) as client:
            return client.call_tool(tool, arguments, timeout=PATIENCE)

    def test_answered_at_once(self) -> None:
        asked = Told()

        def answer(question: Input) -> dict:
            asked((question.method, question.message))
            return {"name": "Ada"}

        self.assertEqual(self.ask("ask_then_task", on_elicitation=answer).text, "Hello, Ada")
        self.assertEqual(asked.all, [("elicitation/create", "Your name?")])

    def test_answered_later_from_another_thread(self) -> None:
        kept = Told()
        with Client(url=self.url, on_elicitation=lambda question: kept(question)) as client:
            call = client.start_tool("ask_then_task")
            question = kept.wait_for(1)[0]
            self.assertFalse(call.wait(0.1))
            self.assertTrue(question.answer({"name": "Grace"}))
            self.assertEqual(call.result(PATIENCE).text, "Hello, Grace")
            self.assertFalse(question.answer({"name": "again"}))

    def test_declined_and_cancelled(self) -> None:
        said = self.ask("ask_then_task", on_elicitation=lambda question: question.decline() and None)
        self.assertEqual(said.text, "Hello, decline")
        said = self.ask("ask_then_task", on_elicitation=lambda question: question.cancel() and None)
        self.assertEqual(said.text, "Hello, cancel")

    def test_a_handler_that_fails_never_means_yes(self) -> None:
        reported = Told()

        def broken(question: Input) -> dict:
            raise ZeroDivisionError("broken")

        said = self.ask("ask_then_task", on_elicitation=broken, on_callback_error=reported)
        self.assertEqual(said.text, "Hello, decline")
        self.assertIsInstance(reported.wait_for(1)[0][0], ZeroDivisionError)
        for wrong in (True, 1, "yes", [1], {"name": object()}):
            said = self.ask("ask_then_task", on_elicitation=lambda question: wrong, on_callback_error=reported)
            self.assertEqual(said.text, "Hello, decline", wrong)

    def test_a_question_of_a_task(self) -> None:
        seen = Told()

        def answer(question: Input) -> dict:
            seen(question.task_id)
            return {"value": "go"}

        said = self.ask("slow_job", {"steps": 4, "step_ms": 20, "ask": True}, on_elicitation=answer)
        self.assertEqual(said.text, 'done; answers: {"ask-1":{"action":"accept","content":{"value":"go"}}}')
        self.assertEqual(len(seen.all), 1)
        self.assertTrue(seen.all[0])

    def test_by_hand(self) -> None:
        settings = {"url": self.url, "input": {"elicitation": "manual"}}
        with Client(settings) as client:
            with self.assertRaises(mcpnative.InputRequiredError) as raised:
                client.call_tool("slow_job", {"steps": 4, "step_ms": 20, "ask": True}, timeout=PATIENCE)
            call, task = raised.exception.call, raised.exception.task
            assert call is not None and task is not None
            opened = task.snapshot().inputs
            self.assertEqual([one["method"] for one in opened], ["elicitation/create"])
            answer = {opened[0]["key"]: {"action": "accept", "content": {"value": "go"}}}
            self.assertTrue(task.update(answer, PATIENCE))
            self.assertIn('"value":"go"', call.result(PATIENCE).text)
            self.assertFalse(task.update(answer, PATIENCE))

    def test_every_kind(self) -> None:
        asked = Told()

        def url(question: Input) -> None:
            asked((question.kind, question.params["mode"], question.task_id, question.call_id))
            question.answer()

        def sampling(question: Input) -> dict:
            asked((question.kind, question.method))
            return {"role": "assistant", "content": {"type": "text", "text": "a model's words"}, "model": "m"}

        def roots(question: Input) -> dict:
            asked((question.kind, question.method))
            return {"roots": [{"uri": "file:///tmp", "name": "tmp"}]}

        with Client(url=self.url, on_elicitation=url, on_sampling=sampling, on_roots=roots) as client:
            call = client.start_tool("ask_first", {"kind": "url"})
            call.result(PATIENCE)
            self.assertIn("a model's words", client.call_tool("ask_first", {"kind": "sampling"}).text)
            self.assertIn("file:///tmp", client.call_tool("ask_first", {"kind": "roots"}).text)
        kinds = mcpnative.InputKind
        self.assertEqual(
            asked.all,
            [
                (kinds.ELICITATION, "url", None, call.id),
                (kinds.SAMPLING, "sampling/createMessage"),
                (kinds.ROOTS, "roots/list"),
            ],
        )

    def test_what_has_no_form_of_refusal(self) -> None:
        reported = Told()

        def broken(question: Input) -> dict:
            raise ZeroDivisionError("broken")

        for wrong in (broken, lambda question: question.decline(), lambda question: question.fail("no model here")):
            handlers = {"on_sampling": wrong, "on_roots": wrong, "on_callback_error": reported}
            for kind in ("sampling", "roots"):
                with self.assertRaises(mcpnative.InputRefusedError) as raised:
                    self.ask("ask_first", {"kind": kind}, **handlers)
        self.assertIn("no model here", str(raised.exception))
        self.assertIsInstance(reported.all[2][0], mcpnative.UnsupportedError)

    def test_withdrawn(self) -> None:
        kept, withdrawn = Told(), Told()
        with Client(
            url=self.url,
            on_elicitation=lambda question: kept(question),
            on_input_withdrawn=lambda question: withdrawn(question.key),
        ) as client:
            call = client.start_tool("ask_first")
            question = kept.wait_for(1)[0]
            call.cancel()
            self.assertEqual(withdrawn.wait_for(1), [question.key])
            self.assertFalse(question.answer({"value": "too late"}))
            with self.assertRaises(mcpnative.CallCancelled):
                call.result(PATIENCE)

    def test_a_call_by_hand(self) -> None:
        settings = {"url": self.url, "input": {"elicitation": "manual"}}
        with Client(settings) as client:
            call = client.start_tool("ask_first")
            with self.assertRaises(mcpnative.InputRequiredError) as raised:
                call.result(PATIENCE)
            self.assertIs(raised.exception.call, call)
            self.assertIn("by hand", raised.exception.message)
            opened = call.inputs()
            self.assertEqual(len(opened), 1)
            call.answer({opened[0]["key"]: {"action": "accept", "content": {"value": "x"}}})
            self.assertIn("x", call.result(PATIENCE).text)


if __name__ == "__main__":
    unittest.main()
