/* A host with the default SIGPIPE lives on when the server breaks connections, on every thread that writes.
 *
 * The server's script:
 {"rules": [
   {"match": {"method": "tools/call", "name": "reset"}, "do": {"reset": true}},
   {"match": {"method": "tools/call", "name": "close"}, "do": {"then": "close_silently", "result": {"resultType": "complete", "content": []}}}]}
 */
#include "check.h"

#include <signal.h>

PROGRAM
{
    signal(SIGPIPE, SIG_DFL);
    sigset_t none, before;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, &before);
    mcp_client *client = new_client("");
    open_client(client);
    static char big[1 << 20];
    size_t length = (size_t)snprintf(big, sizeof big, "{\"x\":\"");
    memset(big + length, 'x', sizeof big - length - 3);
    memcpy(big + sizeof big - 3, "\"}", 3);
    for (int round = 0; round < 10; round++) {
        const char *tool = round % 2 ? "close" : "reset";
        mcp_call *call = NULL;
        mcp_status ended = mcp_tool_run(client, tool, big, strlen(big), NULL, 0, PATIENCE_MS, &call);
        /* A reset after the request is an unknown outcome, never a silent second try. */
        if (round % 2 == 0)
            STATUS(MCP_E_OUTCOME_UNKNOWN, ended);
        STATUS(MCP_OK, mcp_call_free(call));
        call = start_tool(client, tool, big);
        mcp_call_wait(call, PATIENCE_MS);
        STATUS(MCP_OK, mcp_call_free(call));
        /* Connections that lie idle break as well. */
        control("POST", "cut");
        check_usable(client);
    }
    /* Nobody has touched the host's mask or action. */
    sigset_t now;
    struct sigaction action;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    CHECK(!sigismember(&now, SIGPIPE));
    CHECK(sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    end_client(client);
    end_library();
}
