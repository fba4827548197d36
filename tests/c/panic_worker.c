/* BR-48 b: a panic in the middle of a call, on a worker and on the caller's own thread, ends that call with MCP_E_PANIC.
 * The client stays usable, others notice nothing, and the end is in order. */
#include "check.h"

static counter done = COUNTER, panics = COUNTER, destroyed = COUNTER, lines = COUNTER;

static void on_done(mcp_event *event, void *user)
{
    int64_t status = 0;
    mcp_error *error = NULL;
    (void)user;
    STATUS(MCP_OK, mcp_event_number(event, MCP_EVENT_NUMBER_STATUS, &status));
    if (status == MCP_E_PANIC) {
        STATUS(MCP_OK, mcp_event_error(event, &error));
        CHECK(mcp_error_text(error, MCP_ERROR_MESSAGE, NULL) != NULL);
        STATUS(MCP_OK, mcp_error_free(error));
        count(&panics);
    }
    count(&done);
}

static void on_line(int32_t level, const char *message, size_t length, void *user)
{
    (void)length;
    (void)user;
    if (level == MCP_LOG_ERROR && strstr(message, "panic"))
        count(&lines);
}

PROGRAM
{
    STATUS(MCP_OK, mcp_log_on(NULL, MCP_LOG_ERROR, on_line, NULL, NULL));
    mcp_client *client = new_client(""), *other = new_client("");
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_CALL_DONE, on_done, &destroyed, count_destroyed));
    open_client(client);
    open_client(other);
    mcp_call *beside = start_tool(client, "sleep", "{\"ms\":100}");
    mcp_call *elsewhere = start_tool(other, "sleep", "{\"ms\":100}");
    for (int round = 0; round < 5; round++) {
        mcp_call *call = NULL;
        STATUS(MCP_OK, mcp_call_start(client, "mcpnative/panic", NULL, 0, NULL, 0, &call));
        STATUS(MCP_E_PANIC, mcp_call_wait(call, PATIENCE_MS));
        STATUS(MCP_OK, mcp_call_free(call));
        STATUS(MCP_E_PANIC, mcp_call_run(client, "mcpnative/panic", NULL, 0, NULL, 0, PATIENCE_MS, &call));
        STATUS(MCP_OK, mcp_call_free(call));
        check_usable(client);
        check_usable(other);
    }
    STATUS(MCP_OK, mcp_call_wait(beside, PATIENCE_MS));
    STATUS(MCP_OK, mcp_call_wait(elsewhere, PATIENCE_MS));
    STATUS(MCP_OK, mcp_call_free(beside));
    STATUS(MCP_OK, mcp_call_free(elsewhere));
    AWAIT(&lines, 10);
    end_client(other);
    end_client(client);
    EQUAL(6, counted(&done));
    EQUAL(5, counted(&panics));
    EQUAL(1, counted(&destroyed));
    STATUS(MCP_OK, mcp_log_on(NULL, MCP_LOG_ERROR, NULL, NULL, NULL));
    end_library();
}
