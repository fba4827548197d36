/* Inside a callback, functions that may wait answer MCP_E_REENTRANT, whoever serves the queue; the others work; and
 * the callback's failures are not seen by the code around it. */
#include "each_function.h"

static struct world *world;
static counter tried = COUNTER;

static void on_done(mcp_event *event, void *user)
{
    (void)user;
    CHECK(refuse_blocking(world->of) >= 13);
    mcp_call *call = NULL, *another = NULL;
    int64_t number = 0;
    STATUS(MCP_OK, mcp_event_call(event, &call));
    STATUS(MCP_OK, mcp_event_number(event, MCP_EVENT_NUMBER_STATUS, &number));
    STATUS(MCP_OK, mcp_call_status(call));
    STATUS(MCP_OK, mcp_call_free(call));
    /* Starting is safe. */
    if (counted(&tried) == 0) {
        STATUS(MCP_OK, mcp_tool_call(world->of[K_client], "echo", NULL, 0, NULL, 0, &another));
        STATUS(MCP_OK, mcp_call_free(another));
    }
    /* A failure, as the last thing here. */
    STATUS(MCP_E_HANDLE, mcp_call_cancel(NULL));
    count(&tried);
}

PROGRAM
{
    world = world_make();

    /* A thread of the library delivers. */
    mcp_client *client = new_client("");
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_CALL_DONE, on_done, NULL, NULL));
    open_client(client);
    STATUS(MCP_OK, mcp_call_free(start_tool(client, "echo", "{}")));
    AWAIT(&tried, 1);
    end_client(client);

    /* This thread delivers, inside a dispatch and inside a blocking wait. */
    mcp_queue *queue = NULL;
    mcp_error *error = NULL;
    STATUS(MCP_OK, mcp_queue_new(&queue));
    client = new_client("");
    STATUS(MCP_OK, mcp_client_set_queue(client, queue));
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_CALL_DONE, on_done, NULL, NULL));
    open_client(client);
    STATUS(MCP_OK, mcp_call_free(start_tool(client, "echo", "{}")));
    while (counted(&tried) < 2)
        STATUS(MCP_OK, mcp_queue_dispatch(queue, PATIENCE_MS, NULL));
    STATUS(MCP_S_NONE, mcp_last_error(&error));
    mcp_call *slow = start_tool(client, "sleep", "{\"ms\":50}");
    STATUS(MCP_OK, mcp_call_wait(slow, PATIENCE_MS));
    STATUS(MCP_S_NONE, mcp_last_error(&error));
    STATUS(MCP_OK, mcp_call_free(slow));
    end_client(client);
    CHECK(counted(&tried) >= 3);
    STATUS(MCP_OK, mcp_queue_free(queue));

    free_each(world->of, MCP_OK);
    world_end(world);
}
