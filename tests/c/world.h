/* One live handle of each kind, for the programs that misuse them. The server needs no script. */
#ifndef WORLD_H
#define WORLD_H

#include "check.h"

enum {
    K_client, K_queue, K_call, K_task, K_snapshot, K_event, K_input, K_error, K_result, K_server, K_text, K_stream,
    KINDS
};

struct world {
    void *of[KINDS];
    counter destroyed;
    counter asked;
    mcp_event *kept;
    mcp_input *input;
};

static void world_on_question(mcp_event *event, void *user)
{
    struct world *world = user;
    if (counted(&world->asked) == 0) {
        STATUS(MCP_OK, mcp_event_keep(event, &world->kept));
        STATUS(MCP_OK, mcp_event_input(event, &world->input));
    }
    count(&world->asked);
}

static void world_destroyed(void *user)
{
    count(&((struct world *)user)->destroyed);
}

static void write_nowhere(const char *bytes, size_t length, void *user)
{
    (void)bytes;
    (void)length;
    (void)user;
}

UNUSED static struct world *world_make(void)
{
    struct world *world = calloc(1, sizeof *world);
    world->destroyed = world->asked = (counter)COUNTER;
    mcp_client *client = new_client(",\"tasks\":{\"auto_poll\":false}");
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_ELICITATION, world_on_question, world, world_destroyed));
    open_client(client);
    world->of[K_client] = client;

    mcp_queue *queue = NULL;
    STATUS(MCP_OK, mcp_queue_new(&queue));
    world->of[K_queue] = queue;

    mcp_call *call = start_tool(client, "slow_job", "{\"poll_ms\":60000,\"steps\":100000}");
    STATUS(MCP_S_TASK, mcp_call_wait(call, PATIENCE_MS));
    world->of[K_call] = call;
    mcp_task *task = NULL;
    mcp_snapshot *snapshot = NULL;
    STATUS(MCP_OK, mcp_call_task(call, &task));
    STATUS(MCP_OK, mcp_task_snapshot(task, &snapshot));
    world->of[K_task] = task;
    world->of[K_snapshot] = snapshot;

    mcp_call *asking = start_tool(client, "ask_first", "{\"rounds\":1,\"kind\":\"elicitation\"}");
    AWAIT(&world->asked, 1);
    STATUS(MCP_OK, mcp_call_free(asking));
    world->of[K_event] = world->kept;
    world->of[K_input] = world->input;

    mcp_client *none = NULL;
    mcp_error *error = NULL;
    STATUS(MCP_E_ARGUMENT, mcp_client_new("{", 1, &none));
    STATUS(MCP_OK, mcp_last_error(&error));
    world->of[K_error] = error;

    mcp_call *echo = NULL;
    mcp_result *result = NULL;
    STATUS(MCP_OK, mcp_tool_run(client, "echo", "{\"x\":1}", 7, NULL, 0, PATIENCE_MS, &echo));
    STATUS(MCP_OK, mcp_call_result(echo, &result));
    STATUS(MCP_OK, mcp_call_free(echo));
    world->of[K_result] = result;

    mcp_server *server = NULL;
    mcp_text *text = NULL;
    STATUS(MCP_OK, mcp_client_server(client, &server));
    STATUS(MCP_OK, mcp_client_stats(client, &text));
    world->of[K_server] = server;
    world->of[K_text] = text;
    mcp_stream *stream = NULL;
    STATUS(MCP_OK, mcp_stream_new(write_nowhere, NULL, NULL, NULL, &stream));
    world->of[K_stream] = stream;
    for (int kind = 0; kind < KINDS; kind++)
        CHECK(world->of[kind] != NULL);
    return world;
}

/* After the handles were freed: the library is idle, and the handlers are gone, once. */
UNUSED static void world_end(struct world *world)
{
    end_library();
    EQUAL(1, counted(&world->destroyed));
    free(world);
}

#endif
