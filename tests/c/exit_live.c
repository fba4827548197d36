/* The process may end at any moment: with an open client, calls in flight, a task followed and callbacks under way, the
 * exit code is the program's own.
 *
 * The server's script:
 {"rules": [{"match": {"method": "tools/call", "name": "held"}, "do": {"hold": true}}]}
 */
#include "check.h"

#include <sys/wait.h>

static void on_event(mcp_event *event, void *user)
{
    (void)user;
    mcp_event_text(event, MCP_EVENT_TEXT_JSON, NULL);
}

static void *run_held(void *client)
{
    mcp_call *call = NULL;
    mcp_tool_run(client, "held", NULL, 0, NULL, 0, -1, &call);
    return NULL;
}

static int at_exit;
static mcp_client *client;

/* Later than main, when the thread's own places are gone: the library still answers, and ends in order. */
static void late(void)
{
    mcp_error *error = NULL;
    if (at_exit >= 2) {
        EQUAL(MCP_E_HANDLE, mcp_call_cancel(NULL));
        CHECK(mcp_last_error(&error) >= 0);
        mcp_error_free(error);
        check_usable(client);
        EQUAL(MCP_OK, mcp_client_close(client));
    }
    if (at_exit == 3)
        EQUAL(MCP_OK, mcp_shutdown(PATIENCE_MS));
}

static void live(int how)
{
    atexit(late);
    client = new_client("");
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_ANY, on_event, NULL, NULL));
    open_client(client);
    start_tool(client, "slow_job", "{\"poll_ms\":1,\"step_ms\":1,\"steps\":100000}");
    for (int i = 0; i < 4; i++)
        start_tool(client, "held", "{}");
    pthread_detach(start_thread(run_held, client));
    for (int i = 0; i < 20; i++)
        start_tool(client, "progress", "{\"n\":50}");
    check_usable(client);
    at_exit = how;
    if (how == 1)
        _exit(7);
    exit(7);
}

PROGRAM
{
    for (int round = 0; round < 8; round++) {
        pid_t child = fork();
        if (child == 0)
            live(round % 4);
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
            FAIL("round %d: expected exit code 7 but found %d, signal %d", round, WEXITSTATUS(status), WTERMSIG(status));
    }
    /* And this process, which has never used the library, ends with it loaded. */
}
