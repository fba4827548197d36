/* Two threads free the same handle: one of them does, the other is told. */
#include "check.h"

enum { ROUNDS = 200, CLIENTS = 15 };

static pthread_barrier_t start;
static void *shared;
static mcp_status outcome[2];
static mcp_status (*free_it)(void *);

static mcp_status free_text(void *it) { return mcp_text_free(it); }
static mcp_status free_call(void *it) { return mcp_call_free(it); }
static mcp_status free_client(void *it) { return mcp_client_free(it); }

static void *race(void *which)
{
    pthread_barrier_wait(&start);
    outcome[(intptr_t)which] = free_it(shared);
    return NULL;
}

static void round_of(void *handle, mcp_status (*free_fn)(void *))
{
    shared = handle;
    free_it = free_fn;
    pthread_t other = start_thread(race, (void *)1);
    race((void *)0);
    pthread_join(other, NULL);
    CHECK((outcome[0] == MCP_OK && outcome[1] == MCP_E_HANDLE) || (outcome[0] == MCP_E_HANDLE && outcome[1] == MCP_OK));
}

PROGRAM
{
    counter destroyed = COUNTER;
    pthread_barrier_init(&start, NULL, 2);
    mcp_client *client = new_client("");
    open_client(client);
    for (int round = 0; round < ROUNDS; round++) {
        mcp_text *text = NULL;
        STATUS(MCP_OK, mcp_client_stats(client, &text));
        round_of(text, free_text);
    }
    /* A call in flight. */
    for (int round = 0; round < 10; round++)
        round_of(start_tool(client, "echo", "{}"), free_call);
    end_client(client);
    for (int round = 0; round < CLIENTS; round++) {
        client = new_client("");
        STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_ANY, NULL, &destroyed, count_destroyed));
        if (round % 2)
            STATUS(MCP_OK, mcp_client_open(client));
        round_of(client, free_client);
    }
    end_library();
    EQUAL(CLIENTS, counted(&destroyed));
    pthread_barrier_destroy(&start);
}
