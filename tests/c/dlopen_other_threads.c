/* BR-50, variant: dlopen() and unloading in the main thread, while other threads that used the library end later: their
 * thread-local destructors still have code to run. */
#include "loaded.h"

enum { THREADS = 4 };

static pthread_barrier_t used, unloaded;

static void *visit(void *user)
{
    (void)user;
    close_and_free(connect_and_call());
    /* A failure leaves its error in this thread's own place. */
    EQUAL(MCP_E_HANDLE, OF_LIBRARY(mcp_call_cancel)(NULL));
    pthread_barrier_wait(&used);
    pthread_barrier_wait(&unloaded);
    return NULL;
}

PROGRAM
{
    for (int round = 0; round < 5; round++) {
        pthread_t threads[THREADS];
        pthread_barrier_init(&used, NULL, THREADS + 1);
        pthread_barrier_init(&unloaded, NULL, THREADS + 1);
        load();
        for (int i = 0; i < THREADS; i++)
            threads[i] = start_thread(visit, NULL);
        pthread_barrier_wait(&used);
        if (round % 2)
            EQUAL(MCP_OK, OF_LIBRARY(mcp_shutdown)(-1));
        unload();
        pthread_barrier_wait(&unloaded);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&used);
        pthread_barrier_destroy(&unloaded);
    }
}
