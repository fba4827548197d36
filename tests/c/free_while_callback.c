/* Another thread frees the client, the call and the task while a callback runs: what the callback holds stays whole to
 * its end, and the user data ends after it, once. */
#include "check.h"

static counter inside = COUNTER, go_on = COUNTER, destroyed = COUNTER;
static mcp_client *client;

static void on_created(mcp_event *event, void *user)
{
    mcp_task *task = NULL;
    mcp_snapshot *snapshot = NULL;
    STATUS(MCP_OK, mcp_event_task(event, &task));
    STATUS(MCP_OK, mcp_event_snapshot(event, &snapshot));
    const char *id = mcp_snapshot_text(snapshot, MCP_SNAPSHOT_TASK_ID, NULL);
    char copy[128];
    CHECK(id != NULL && strlen(id) < sizeof copy);
    strcpy(copy, id);
    count(&inside);
    AWAIT(&go_on, 1);
    /* Everything was freed meanwhile, but for what is ours. */
    CHECK(strcmp(id, copy) == 0);
    EQUAL(MCP_EVENT_TASK_CREATED, mcp_event_kind(event));
    mcp_snapshot *later = NULL;
    STATUS(MCP_OK, mcp_task_snapshot(task, &later));
    CHECK(strcmp(mcp_snapshot_text(later, MCP_SNAPSHOT_TASK_ID, NULL), copy) == 0);
    EQUAL(0, counted(&destroyed));
    CHECK(user == &destroyed);
    STATUS(MCP_OK, mcp_snapshot_free(later));
    STATUS(MCP_OK, mcp_snapshot_free(snapshot));
    STATUS(MCP_OK, mcp_task_free(task));
    STATUS(MCP_E_HANDLE, mcp_client_poke(client));
}

PROGRAM
{
    client = new_client("");
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_TASK_CREATED, on_created, &destroyed, count_destroyed));
    open_client(client);
    mcp_call *call = start_tool(client, "slow_job", "{\"poll_ms\":20,\"steps\":100000}");
    mcp_task *task = NULL;
    AWAIT(&inside, 1);
    STATUS(MCP_S_TASK, mcp_call_wait(call, PATIENCE_MS));
    STATUS(MCP_OK, mcp_call_task(call, &task));
    STATUS(MCP_OK, mcp_task_free(task));
    STATUS(MCP_OK, mcp_call_free(call));
    STATUS(MCP_OK, mcp_client_close(client));
    /* A wait for the end cannot be over while the callback runs. */
    STATUS(MCP_S_TIMEOUT, mcp_client_wait_closed(client, 0));
    STATUS(MCP_OK, mcp_client_free(client));
    EQUAL(0, counted(&destroyed));
    count(&go_on);
    AWAIT(&destroyed, 1);
    end_library();
    EQUAL(1, counted(&destroyed));
}
