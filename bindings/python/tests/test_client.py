"""Opening, calling, and what goes wrong before anything is sent."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import subprocess
import sys
import threading
import unittest

from .support import PACKAGE_ROOT, PATIENCE, Server, ServerTest, Told, environment, run_program

import mcpnative
from mcpnative import BlockKind, Client, State


class Calls(ServerTest):
    def setUp(self) -> None:
        self.client = Client(url=self.url)
        self.addCleanup(self.client.close)
        self.client.open(PATIENCE)

    def test_server(self) -> None:
        server = self.client.server
        self.assertEqual(server.era, "modern")
        self.assertEqual(server.version, "2026-07-28")
        self.assertTrue(server.name)
        self.assertIn("tools", server.capabilities)
        self.assertIs(self.client.state, State.READY)

    def test_a_tool(self) -> None:
        result = self.client.call_tool("echo", {"text": "grüße\n\U0001f600", "n": 2**53})
        self.assertEqual(result.structured, {"text": "grüße\n\U0001f600", "n": 2**53})
        self.assertFalse(result.is_error)
        self.assertIn("grüße", result.text)
        self.assertEqual(result.blocks[0].kind, BlockKind.TEXT)
        self.assertEqual(result.blocks[0].text, result.text)
        self.assertEqual(result.json["structuredContent"]["n"], 2**53)
        self.assertEqual(self.client.call_tool("add", {"a": 2, "b": 3}).structured, {"sum": 5})

    def test_blocks(self) -> None:
        result = self.client.call_tool("binary")
        kinds = [block.kind for block in result.blocks]
        self.assertEqual(
            kinds,
            [BlockKind.TEXT, BlockKind.IMAGE, BlockKind.AUDIO, BlockKind.RESOURCE, BlockKind.RESOURCE_LINK],
        )
        image = result.blocks[1].data
        self.assertIsNotNone(image)
        assert image is not None
        self.assertEqual(image[:4], b"\x89PNG")
        self.assertIsNone(result.blocks[0].data)
        self.assertEqual(result.blocks[4].json["uri"], "test://static-text")
        blocks = result.blocks
        del result
        gc.collect()
        self.assertEqual(blocks[0].text, "five kinds of blocks")

    def test_a_large_result(self) -> None:
        self.assertEqual(len(self.client.call_tool("big", {"bytes": 5_000_000}).text), 5_000_000)

    def test_the_tool_s_own_failure_is_a_result(self) -> None:
        result = self.client.call_tool("tool_error", {"text": "no luck"})
        self.assertTrue(result.is_error)
        self.assertEqual(result.text, "no luck")
        with self.assertRaises(mcpnative.ToolError) as raised:
            self.client.call_tool("tool_error", {"text": "no luck"}, raise_on_error=True)
        assert raised.exception.result is not None
        self.assertEqual(raised.exception.result.text, "no luck")

    def test_a_result_that_does_not_match(self) -> None:
        schema = {"type": "object", "required": ["files"]}
        result = {"content": [{"type": "text", "text": "words"}], "structuredContent": {"n": 1}}
        names = ("plain", "slow")
        listed = [{"name": name, "inputSchema": {"type": "object"}, "outputSchema": schema} for name in names]
        script = {
            "options": {"poll_interval_ms": 10},
            "rules": [
                {"match": {"method": "tools/list"}, "do": {"result": {"tools": listed}}},
                {"match": {"method": "tools/call", "name": "plain"}, "do": {"result": result}},
            ],
            "tasks": [{"tool": "slow", "polls": [{"task": {"status": "completed", "result": result}}]}],
        }
        with Server(script) as server, Client(url=server.url) as client:
            client.list_tools(timeout=PATIENCE)
            for name in names:
                with self.assertRaises(mcpnative.SchemaError) as raised:
                    client.call_tool(name, timeout=PATIENCE)
                self.assertIn(f"the result of tool {name} does not match its outputSchema: required", str(raised.exception))
                self.assertEqual(raised.exception.status, mcpnative.Status.E_SCHEMA)
                kept = raised.exception.result
                assert kept is not None
                self.assertEqual((kept.text, kept.structured), ("words", {"n": 1}))
                self.assertEqual(client.call_tool(name, options={"validate": "off"}, timeout=PATIENCE).text, "words")

    def test_an_error_of_the_server_s(self) -> None:
        with self.assertRaises(mcpnative.RpcError) as raised:
            self.client.call_tool("rpc_error", {"code": -32050})
        error = raised.exception
        self.assertEqual((error.name, error.rpc_code), ("MCP_E_RPC", -32050))
        self.assertEqual(error.rpc_data, {"detail": "told by the tool"})
        self.assertTrue(error.rpc_message)

    def test_request_notify_and_list(self) -> None:
        listed = self.client.list_tools()
        self.assertIn("echo", [tool["name"] for tool in listed])
        answer = self.client.request("tools/call", {"name": "echo", "arguments": {"a": 1}})
        self.assertEqual(answer["structuredContent"], {"a": 1})
        self.client.notify("notifications/custom", {"a": 1})

    def test_lists_and_resources(self) -> None:
        client = self.client
        self.assertIn("test_simple_prompt", [prompt["name"] for prompt in client.list_prompts()])
        self.assertIn("test://static-text", [resource["uri"] for resource in client.list_resources()])
        template = client.list_resource_templates()[0]["uriTemplate"]
        uri = mcpnative.expand_uri_template(template, {"id": "a b"})
        self.assertEqual(uri, "test://template/a%20b/data")
        self.assertEqual(client.read_resource(uri)[0]["uri"], uri)
        prompt = client.get_prompt("test_prompt_with_arguments", {"arg1": "x", "arg2": "y"})
        self.assertIn("arg1='x'", prompt["messages"][0]["content"]["text"])
        self.assertIn("simple", client.get_prompt("test_simple_prompt")["messages"][0]["content"]["text"])
        words = ["paris", "park", "party"]
        self.assertEqual(client.complete("city", "par", prompt="p")["values"], words)
        found = client.complete("id", "par", template=template, context={"a": "b"})
        self.assertEqual(found["values"], words)
        with self.assertRaises(mcpnative.ArgumentError):
            client.complete("city", "par")
        with self.assertRaises(mcpnative.ArgumentError) as raised:
            mcpnative.expand_uri_template("{a")
        self.assertIn("RFC 6570", str(raised.exception))

    def test_kept_answers_and_generations(self) -> None:
        client = self.client
        for _ in range(3):
            self.assertTrue(client.list_tools(cache="until_changed"))
            self.assertTrue(client.read_resource("test://static-text", cache="until_changed"))
        self.assertGreaterEqual(client.stats()["cache_hits"], 4)
        self.assertTrue(client.list_tools(cache="off"))
        with self.assertRaises(mcpnative.ArgumentError):
            client.list_tools(cache="always")
        found = (client.tools_generation, client.prompts_generation, client.resources_generation)
        self.assertEqual(found, (1, 1, 1))

    def test_a_future(self) -> None:
        call = self.client.start_tool("sleep", {"ms": 300})
        self.assertGreater(call.id, 0)
        self.assertFalse(call.wait(0))
        self.assertFalse(call.done())
        with self.assertRaises(mcpnative.WaitTimeout):
            call.result(0)
        self.assertEqual(call.result(PATIENCE).text, "slept 300 ms")
        self.assertTrue(call.done())
        self.assertIsNone(call.task)
        self.assertIsNone(call.error)
        self.assertFalse(call.cancel())

    def test_cancel(self) -> None:
        call = self.client.start_tool("sleep", {"ms": 60_000})
        self.assertTrue(call.cancel())
        with self.assertRaises(mcpnative.CallCancelled):
            call.result(PATIENCE)
        self.assertFalse(call.cancel())

    def test_time_limit(self) -> None:
        with self.assertRaises(mcpnative.RequestTimeout) as raised:
            self.client.call_tool("sleep", {"ms": 60_000}, timeout=0.2)
        self.assertIsInstance(raised.exception, TimeoutError)
        self.assertEqual(self.client.call_tool("echo", {"a": 1}).structured, {"a": 1})

    def test_idle_limit(self) -> None:
        with self.assertRaises(mcpnative.RequestTimeout):
            self.client.call_tool("sleep", {"ms": 60_000}, idle_timeout=0.2)

    def test_many_threads(self) -> None:
        wrong = []

        def work(number: int) -> None:
            for step in range(20):
                sent = {"number": number, "step": step}
                try:
                    if self.client.call_tool("echo", sent).structured != sent:
                        wrong.append(sent)
                except BaseException as error:
                    wrong.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        self.assertEqual(wrong, [])

    def test_what_is_wrong_is_named(self) -> None:
        with self.assertRaisesRegex(mcpnative.ArgumentError, "arguments"):
            self.client.call_tool("echo", [1])  # type: ignore[arg-type]
        with self.assertRaisesRegex(mcpnative.ArgumentError, "surprise"):
            self.client.call_tool("echo", {}, options={"surprise": 1})
        with self.assertRaises(mcpnative.ArgumentError):
            self.client.call_tool("", {})
        with self.assertRaises(mcpnative.ArgumentError):
            self.client.call_tool("echo", {}, timeout=-1)

    def test_stats_and_poke(self) -> None:
        self.assertIsInstance(self.client.stats(), dict)
        self.client.poke()


class Life(ServerTest):
    def test_states_in_order(self) -> None:
        states = Told()
        with Client(url=self.url, on_state=lambda state, error: states(state)) as client:
            self.assertIs(client.state, State.READY)
        self.assertIs(client.state, State.CLOSED)
        self.assertEqual(states.all, [State.OPENING, State.READY, State.CLOSING, State.CLOSED])

    def test_nothing_listens(self) -> None:
        client = Client(url="http://127.0.0.1:9/mcp")
        with self.assertRaises(mcpnative.TransportError):
            client.open(PATIENCE)
        self.assertTrue(client.close())

    def test_a_server_that_comes_up_later(self) -> None:
        script = {"rules": [{"match": {"method": "server/discover", "nth": 1}, "do": {"http_status": 404}}]}
        with Server(script) as server, contextlib.closing(Client(url=server.url)) as client:
            with self.assertRaises(mcpnative.McpError):
                client.open(PATIENCE)
            self.assertIs(client.state, State.FAILED)
            with self.assertRaises(mcpnative.McpError):
                client.call_tool("echo")
            client.open(PATIENCE)
            self.assertEqual(client.call_tool("echo", {"a": 1}).structured, {"a": 1})

    def test_before_and_after(self) -> None:
        client = Client(url=self.url)
        self.assertIs(client.state, State.NEW)
        with self.assertRaises(mcpnative.StateError):
            client.server
        with self.assertRaises(mcpnative.StateError):
            client.call_tool("echo")
        client.open(PATIENCE)
        with self.assertRaises(mcpnative.StateError):
            client.open(PATIENCE)
        with self.assertRaises(mcpnative.StateError):
            client.on_elicitation(lambda question: None)
        self.assertTrue(client.close())
        self.assertTrue(client.close())
        with self.assertRaises(mcpnative.McpError):
            client.call_tool("echo")

    def test_closed_with_a_call_in_flight(self) -> None:
        client = Client(url=self.url).open(PATIENCE)
        call = client.start_tool("sleep", {"ms": 60_000})
        self.assertTrue(client.close())
        with self.assertRaises((mcpnative.ClosedError, mcpnative.CallCancelled)):
            call.result(PATIENCE)

    def test_settings(self) -> None:
        with self.assertRaisesRegex(mcpnative.ArgumentError, "surprise"):
            Client({"url": self.url, "surprise": 1})
        with self.assertRaises(mcpnative.ArgumentError):
            Client({"url": "not a url"})
        with self.assertRaises(mcpnative.ArgumentError):
            Client({})
        with self.assertRaisesRegex(mcpnative.ArgumentError, "twice"):
            Client({"url": self.url}, url=self.url)
        with self.assertRaises(mcpnative.ArgumentError):
            Client([])  # type: ignore[arg-type]
        given = {"url": self.url, "client": {"name": "tests", "version": "1"}}
        with Client(given, headers={"X-Test": "1"}) as client:
            self.assertEqual(client.call_tool("echo", {"a": 1}).structured, {"a": 1})
        self.assertNotIn("headers", given)

    def test_a_dropped_client_closes(self) -> None:
        states = Told()
        client = Client(url=self.url, on_state=lambda state, error: states(state)).open(PATIENCE)
        del client
        gc.collect()
        states.wait_for(4)
        self.assertIs(states.all[-1], State.CLOSED)

    def test_stop_and_start_again(self) -> None:
        program = """
            import sys, threading, mcpnative
            for _ in range(3):
                client = mcpnative.Client(url=sys.argv[1]).open(20)
                print(client.call_tool("echo", {"a": 1}).structured)
                mcpnative.stop()
                assert not [t for t in threading.enumerate() if t.name == "mcpnative"]
                assert client.state is mcpnative.State.CLOSED
        """
        done = run_program(program, self.url)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.splitlines(), ["{'a': 1}"] * 3)

    @unittest.skipUnless(hasattr(os, "fork"), "this system has no fork")
    def test_a_forked_child_is_told(self) -> None:
        program = """
            import os, sys, warnings, mcpnative
            warnings.simplefilter("ignore")
            client = mcpnative.Client(url=sys.argv[1]).open(20)
            pid = os.fork()
            if pid == 0:
                try:
                    client.call_tool("echo")
                except mcpnative.ForkedError as error:
                    first = error.name
                try:
                    mcpnative.Client(url=sys.argv[1]).open(20)
                except mcpnative.ForkedError as error:
                    print(first, error.name, flush=True)
                sys.exit(7)
            assert os.waitpid(pid, 0)[1] == 7 << 8
            print(client.call_tool("echo", {"a": 1}).structured)
        """
        done = run_program(program, self.url)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.splitlines(), ["MCP_E_FORKED MCP_E_FORKED", "{'a': 1}"])


    @unittest.skipUnless(hasattr(os, "fork"), "this system has no fork")
    def test_forked_before_the_first_use(self) -> None:
        program = """
            import os, sys, threading, warnings, mcpnative
            warnings.simplefilter("ignore")
            pid = os.fork()
            client = mcpnative.Client(url=sys.argv[1]).open(20)
            client.call_tool("echo")
            if pid:
                assert os.waitpid(pid, 0)[1] == 0
                print("both")
        """
        done = run_program(program, self.url)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "both\n", ""))


class Pages(ServerTest):
    script = {"options": {"page_size": 10, "extra_tools": 25}}

    def test_all_of_them(self) -> None:
        with Client(url=self.url) as client:
            names = [tool["name"] for tool in client.list_tools()]
        self.assertGreater(len(names), 25)
        self.assertEqual(len(names), len(set(names)))


class Absurd(ServerTest):
    """BR-48: what a peer asks for ends the call, and nothing else."""

    script = {
        "rules": [
            {"match": {"tool": "sleep"}, "do": {"content_length": 2**50, "then": "close_silently"}},
            {"match": {"tool": "count"}, "do": {"result": {"resultType": "complete", "content": "$arguments"}}},
            {"match": {"tool": "log"}, "do": {"body": "[" * 100_000}},
        ]
    }

    def test_br48_sizes_and_shapes(self) -> None:
        with Client(url=self.url) as client:
            for tool in ("sleep", "log"):
                with self.assertRaises((mcpnative.ProtocolError, mcpnative.TransportError)):
                    client.call_tool(tool, {"n": 1}, timeout=PATIENCE)
            odd = client.call_tool("count", {"a": 1}, timeout=PATIENCE)
            self.assertEqual((odd.text, odd.blocks), ("", []))
            self.assertEqual(client.call_tool("echo", {"a": 1}).structured, {"a": 1})


class Example(ServerTest):
    def test_long_job(self) -> None:
        done = subprocess.run(
            [
                sys.executable,
                str(PACKAGE_ROOT / "examples" / "long_job.py"),
                self.url,
                "slow_job",
                '{"steps": 4, "step_ms": 20, "ask": true}',
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            universal_newlines=True,
            timeout=PATIENCE,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("the server asks", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1].split(";")[0], "done")

    def test_the_readme_s(self) -> None:
        text = (PACKAGE_ROOT / "README.md").read_text(encoding="utf-8")
        found = re.search(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)
        assert found is not None
        shown = "http://127.0.0.1:8080/mcp"
        self.assertIn(shown, found.group(1))
        done = run_program(found.group(1).replace(shown, self.url))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertEqual(lines[-1], "done")
        self.assertEqual({line.split(" ")[0] for line in lines[:-1]}, {"working"})


if __name__ == "__main__":
    unittest.main()
