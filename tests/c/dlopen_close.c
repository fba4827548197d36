/* BR-50: a thread loads the library with dlopen(), connects, calls, closes, shuts down, unloads and ends; twenty times.
 * After each shutdown no thread of the library is left. */
#include "loaded.h"

static void *visit(void *user)
{
    (void)user;
    load();
    close_and_free(connect_and_call());
    EQUAL(MCP_OK, OF_LIBRARY(mcp_shutdown)(-1));
    /* This thread and the main one; a thread that was joined leaves the list of the system's a moment later. */
    UNTIL(threads_now() == 2);
    unload();
    return NULL;
}

PROGRAM
{
    for (int round = 0; round < 20; round++) {
        pthread_join(start_thread(visit, NULL), NULL);
        UNTIL(threads_now() == 1);
    }
}
