"""The long job from Python: long_job.py URL TOOL ARGUMENTS."""

from __future__ import annotations

import json
import sys

import mcpnative


def main() -> int:
    url, tool, arguments = sys.argv[1:4]
    created, ended = [], []
    client = mcpnative.Client(url=url)
    client.on_task_created(lambda task, seen: created.append(seen.task_id))
    client.on_task_status(lambda task, seen: print(f"status: {seen.status}, {seen.message or ''}", flush=True))
    client.on_task_completed(lambda task, seen: ended.append(seen.task_id))
    with client:
        result = client.call_tool(tool, json.loads(arguments), timeout=60)
    # The handlers have run: leaving the block waits for them.
    if len(created) != 1 or ended != created:
        print(f"error: created {created}, ended {ended}")
        return 1
    print(f"result: {result.text}")
    return int(result.is_error)


sys.exit(main())
