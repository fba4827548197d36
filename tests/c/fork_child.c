/* In a forked child every function answers MCP_E_FORKED, nothing hangs, and the child can exit; the parent goes on. */
#include "each_function.h"

#include <sys/wait.h>

static int exit_of(pid_t child)
{
    int status = 0;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
        FAIL("the child ended by a signal (%d)", status);
    return WEXITSTATUS(status);
}

static void in_child(struct world *world)
{
    /* A hang is an end by a signal. */
    alarm(30);
    mcp_client *client = world->of[K_client], *fresh = NULL;
    mcp_call *call = NULL;
    mcp_error *error = NULL;
    EQUAL(MCP_ABI_VERSION, mcp_abi_version());
    CHECK(strcmp(mcp_status_name(MCP_E_FORKED), "MCP_E_FORKED") == 0);
    EQUAL(MCP_E_FORKED, mcp_tool_run(client, "echo", NULL, 0, NULL, 0, -1, &call));
    EQUAL(MCP_E_FORKED, mcp_tool_call(client, "echo", NULL, 0, NULL, 0, &call));
    EQUAL(MCP_E_FORKED, mcp_client_new("{}", 2, &fresh));
    EQUAL(MCP_E_FORKED, mcp_client_close(client));
    EQUAL(MCP_E_FORKED, mcp_client_wait_closed(client, -1));
    EQUAL(MCP_E_FORKED, mcp_client_state(client));
    EQUAL(MCP_E_FORKED, mcp_last_error(&error));
    CHECK(mcp_text_get(world->of[K_text], NULL) == NULL);
    void **h = world->of;
    EQUAL(MCP_E_FORKED, mcp_queue_dispatch(h[K_queue], -1, NULL));
    free_each(h, MCP_E_FORKED);
    EQUAL(MCP_E_FORKED, mcp_shutdown(-1));
    /* Through exit handlers and static destructors. */
    exit(0);
}

PROGRAM
{
    /* Before the first use a fork is nothing. */
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        mcp_client *client = new_client("");
        open_client(client);
        check_usable(client);
        end_client(client);
        end_library();
        exit(0);
    }
    EQUAL(0, exit_of(child));

    struct world *world = world_make();
    for (int round = 0; round < 10; round++) {
        /* Threads of the library are at work while it happens. */
        mcp_call *busy[4];
        for (int i = 0; i < 4; i++)
            busy[i] = start_tool(world->of[K_client], "echo", "{}");
        child = fork();
        if (child == 0)
            in_child(world);
        EQUAL(0, exit_of(child));
        for (int i = 0; i < 4; i++) {
            STATUS(MCP_OK, mcp_call_wait(busy[i], PATIENCE_MS));
            STATUS(MCP_OK, mcp_call_free(busy[i]));
        }
    }
    check_usable(world->of[K_client]);
    free_each(world->of, MCP_OK);
    world_end(world);
}
