/* Freeing twice is an error code, for each kind; so is freeing the event that a callback only borrows. */
#include "each_function.h"

static counter done = COUNTER;

static void on_state(mcp_event *event, void *user)
{
    (void)user;
    STATUS(MCP_E_STATE, mcp_event_free(event));
    STATUS(MCP_E_STATE, mcp_event_free(event));
    EQUAL(MCP_EVENT_STATE, mcp_event_kind(event));
    mcp_event *kept = NULL;
    STATUS(MCP_OK, mcp_event_keep(event, &kept));
    STATUS(MCP_OK, mcp_event_free(kept));
    STATUS(MCP_E_HANDLE, mcp_event_free(kept));
    EQUAL(MCP_EVENT_STATE, mcp_event_kind(event));
    count(&done);
}

PROGRAM
{
    struct world *world = world_make();
    void *copy[KINDS];
    memcpy(copy, world->of, sizeof copy);
    free_each(world->of, MCP_OK);
    for (int round = 0; round < 3; round++)
        free_each(copy, MCP_E_HANDLE);

    mcp_client *client = new_client("");
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_STATE, on_state, NULL, NULL));
    open_client(client);
    end_client(client);
    STATUS(MCP_E_HANDLE, mcp_client_free(client));
    /* opening, ready, closing, closed */
    EQUAL(4, counted(&done));
    world_end(world);
}
