/* BR-50, variant: dlopen() in a thread, and the library is unloaded while a client is open, without a shutdown. Unloading
 * has no effect: the client goes on, also when it is loaded again. */
#include "loaded.h"

static mcp_client *left;

static void *visit(void *user)
{
    (void)user;
    load();
    left = connect_and_call();
    unload();
    return NULL;
}

PROGRAM
{
    mcp_client *clients[5];
    for (int round = 0; round < 5; round++) {
        pthread_join(start_thread(visit, NULL), NULL);
        clients[round] = left;
    }
    load();
    for (int round = 0; round < 5; round++)
        EQUAL(MCP_STATE_READY, OF_LIBRARY(mcp_client_state)(clients[round]));
    for (int round = 0; round < 4; round++)
        close_and_free(clients[round]);
    unload();
    /* One is open when the process ends. */
}
