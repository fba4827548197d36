/* Cancel against completion: whoever comes first decides, the other hears of it, and the call ends once. */
#include "check.h"

enum { ROUNDS = 500 };

static pthread_barrier_t start, stop;
static mcp_call *call;
static mcp_status cancelled;
static atomic_int over;
static counter done = COUNTER;

static void on_done(mcp_event *event, void *user)
{
    (void)event;
    (void)user;
    count(&done);
}

static void *cancel(void *user)
{
    (void)user;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&start);
        /* Before, in the middle of and after the answer. */
        for (int i = 0; i < (round % 20) * 400 && !atomic_load(&over); i++)
            sched_yield();
        cancelled = mcp_call_cancel(call);
        pthread_barrier_wait(&stop);
    }
    return NULL;
}

PROGRAM
{
    pthread_barrier_init(&start, NULL, 2);
    pthread_barrier_init(&stop, NULL, 2);
    mcp_client *client = new_client("");
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_CALL_DONE, on_done, NULL, NULL));
    open_client(client);
    pthread_t thread = start_thread(cancel, NULL);
    int won = 0;
    for (int round = 0; round < ROUNDS; round++) {
        atomic_store(&over, 0);
        call = start_tool(client, "echo", "{}");
        pthread_barrier_wait(&start);
        mcp_status ended = mcp_call_wait(call, PATIENCE_MS);
        atomic_store(&over, 1);
        pthread_barrier_wait(&stop);
        if (cancelled == MCP_OK) {
            STATUS(MCP_E_CANCELLED, ended);
            won++;
        } else {
            STATUS(MCP_S_ALREADY_DONE, cancelled);
            STATUS(MCP_OK, ended);
        }
        STATUS(ended, mcp_call_status(call));
        STATUS(MCP_OK, mcp_call_free(call));
    }
    pthread_join(thread, NULL);
    printf("the cancel won %d of %d\n", won, ROUNDS);
    check_usable(client);
    end_client(client);
    EQUAL(ROUNDS, counted(&done));
    end_library();
}
