/* A job of a day in no time: the clock in the program's hands goes from poll to poll, past the time to live, to the end.
 *
 * The server's script:
{"tasks": [{"tool": "day", "id": "day", "seed": {"pollIntervalMs": 3600000, "ttlMs": 86400000}, "polls": [
  {"task": {"pollIntervalMs": 3600000, "ttlMs": 86400000}, "times": 24},
  {"task": {"status": "completed", "result": {"content": [{"type": "text", "text": "a day"}]}}}]}]}
 */
#include "check.h"

#define HOUR 3600000

static int64_t number(mcp_task *task, int32_t field)
{
    mcp_snapshot *snapshot = NULL;
    int64_t value = -1;
    STATUS(MCP_OK, mcp_task_snapshot(task, &snapshot));
    STATUS(MCP_OK, mcp_snapshot_number(snapshot, field, &value));
    STATUS(MCP_OK, mcp_snapshot_free(snapshot));
    return value;
}

static void on_overdue(mcp_event *event, void *user)
{
    (void)event;
    STATUS(MCP_E_REENTRANT, mcp_clock_advance(1, 0));
    STATUS(MCP_E_STATE, mcp_clock_release());
    count(user);
}

PROGRAM
{
    counter overdue = COUNTER;
    STATUS(MCP_E_STATE, mcp_clock_advance(1, 0));
    STATUS(MCP_S_ALREADY_DONE, mcp_clock_release());
    STATUS(MCP_OK, mcp_clock_hold());
    STATUS(MCP_S_ALREADY_DONE, mcp_clock_hold());
    mcp_client *client = new_client("");
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_TASK_OVERDUE, on_overdue, &overdue, NULL));
    open_client(client);
    mcp_call *call = start_tool(client, "day", "{}");
    mcp_task *task = NULL;
    mcp_snapshot *end = NULL;
    STATUS(MCP_S_TASK, mcp_call_wait(call, PATIENCE_MS));
    STATUS(MCP_OK, mcp_call_task(call, &task));
    STATUS(MCP_OK, mcp_clock_advance(23 * HOUR + HOUR - 1, PATIENCE_MS));
    EQUAL(0, number(task, MCP_SNAPSHOT_OVERDUE));
    STATUS(MCP_OK, mcp_clock_advance(1, PATIENCE_MS));
    EQUAL(1, number(task, MCP_SNAPSHOT_OVERDUE));
    EQUAL(MCP_REASON_NONE, number(task, MCP_SNAPSHOT_REASON));
    AWAIT(&overdue, 1);
    STATUS(MCP_S_TIMEOUT, mcp_task_wait(task, 0, NULL));
    STATUS(MCP_OK, mcp_clock_advance(2 * HOUR, PATIENCE_MS));
    STATUS(MCP_OK, mcp_task_wait(task, 0, &end));
    STATUS(MCP_OK, mcp_snapshot_free(end));
    EQUAL(MCP_REASON_COMPLETED, number(task, MCP_SNAPSHOT_REASON));
    EQUAL(1, counted(&overdue));
    STATUS(MCP_OK, mcp_task_free(task));
    STATUS(MCP_OK, mcp_call_free(call));
    end_client(client);
    /* Held until it is given back, also over the end of the library. */
    end_library();
    STATUS(MCP_S_ALREADY_DONE, mcp_clock_hold());
    STATUS(MCP_OK, mcp_clock_release());
}
