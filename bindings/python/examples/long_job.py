"""Run a long job on an MCP server, show how it goes, answer its question, print its result.

    python examples/long_job.py [URL] [TOOL] [ARGUMENTS AS JSON]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import mcpnative  # noqa: E402


def main() -> int:
    given = sys.argv[1:]
    url = given[0] if given else "http://127.0.0.1:8080/mcp"
    tool = given[1] if len(given) > 1 else "slow_job"
    arguments = json.loads(given[2]) if len(given) > 2 else {"steps": 5, "step_ms": 200, "ask": True}

    client = mcpnative.Client(url=url)

    @client.on_task_created
    def created(task: mcpnative.Task, seen: mcpnative.Snapshot) -> None:
        print(f"task {seen.task_id} of {seen.tool}", flush=True)

    @client.on_task_status
    def status(task: mcpnative.Task, seen: mcpnative.Snapshot) -> None:
        print(f"  {seen.status}: {seen.message or ''}", flush=True)

    @client.on_elicitation
    def ask(question: mcpnative.Input) -> dict:
        # This example says yes to everything. A program with a human would return None here
        # and call question.answer(...) or question.decline() when the human has spoken.
        print(f"  the server asks: {question.message}", flush=True)
        fields = (question.params or {}).get("requestedSchema", {}).get("properties", {})
        return {name: _example(schema) for name, schema in fields.items()}

    try:
        with client:
            server = client.server
            print(f"{server.name or 'server'}, protocol {server.version} ({server.era})", flush=True)
            result = client.call_tool(tool, arguments)
    except KeyboardInterrupt:
        print("cancelled", file=sys.stderr)
        return 130
    except mcpnative.McpError as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    print(result.text)
    return 1 if result.is_error else 0


def _example(schema: dict) -> object:
    if "enum" in schema:
        return schema["enum"][0]
    return {"boolean": True, "integer": 1, "number": 1.0}.get(schema.get("type", "string"), "yes")


if __name__ == "__main__":
    sys.exit(main())
