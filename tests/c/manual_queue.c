/* A queue that the host serves: events only inside dispatch or inside a wait of the serving thread, a descriptor that
 * tells, a wake-up, several clients on one queue. */
#include "check.h"

#include <poll.h>

static pthread_t me;
static counter done = COUNTER, states = COUNTER, destroyed = COUNTER, lines = COUNTER, gone = COUNTER;

static void on_done(mcp_event *event, void *user)
{
    (void)event;
    (void)user;
    CHECK(pthread_equal(me, pthread_self()));
    count(&done);
}

static void on_state(mcp_event *event, void *user)
{
    (void)event;
    (void)user;
    CHECK(pthread_equal(me, pthread_self()));
    count(&states);
}

static void on_line(int32_t level, const char *message, size_t length, void *user)
{
    (void)user;
    CHECK(level >= MCP_LOG_ERROR && level <= MCP_LOG_DEBUG);
    EQUAL(strlen(message), length);
    CHECK(pthread_equal(me, pthread_self()));
    count(&lines);
}

static int readable(int64_t descriptor, int wait_ms)
{
    struct pollfd one = {(int)descriptor, POLLIN, 0};
    return poll(&one, 1, wait_ms) == 1;
}

static mcp_client *on_queue(mcp_queue *queue)
{
    mcp_client *client = new_client("");
    STATUS(MCP_OK, mcp_client_set_queue(client, queue));
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_CALL_DONE, on_done, NULL, NULL));
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_STATE, on_state, &destroyed, count_destroyed));
    return client;
}

static mcp_queue *queue;

static void *wake(void *user)
{
    (void)user;
    STATUS(MCP_OK, mcp_queue_wake(queue));
    return NULL;
}

PROGRAM
{
    int32_t delivered = 7;
    int64_t descriptor = -1;
    me = pthread_self();
    STATUS(MCP_OK, mcp_queue_new(&queue));
    STATUS(MCP_OK, mcp_queue_descriptor(queue, &descriptor));
    CHECK(descriptor >= 0);
    CHECK(!readable(descriptor, 0));
    STATUS(MCP_S_TIMEOUT, mcp_queue_dispatch(queue, 0, &delivered));
    EQUAL(0, delivered);

    /* Inside dispatch only. */
    mcp_client *client = on_queue(queue);
    STATUS(MCP_OK, mcp_client_open(client));
    CHECK(readable(descriptor, PATIENCE_MS));
    EQUAL(0, counted(&states));
    STATUS(MCP_OK, mcp_queue_dispatch(queue, 0, &delivered));
    CHECK(delivered >= 1 && counted(&states) == delivered);
    while (counted(&states) < 2)
        STATUS(MCP_OK, mcp_queue_dispatch(queue, PATIENCE_MS, NULL));
    EQUAL(MCP_STATE_READY, mcp_client_state(client));
    STATUS(MCP_S_TIMEOUT, mcp_queue_dispatch(queue, 0, &delivered));
    CHECK(!readable(descriptor, 0));

    /* An event loop with poll. */
    mcp_call *call = start_tool(client, "echo", "{}");
    while (counted(&done) < 1) {
        CHECK(readable(descriptor, PATIENCE_MS));
        CHECK(mcp_queue_dispatch(queue, 0, NULL) >= 0);
    }
    STATUS(MCP_OK, mcp_call_status(call));
    STATUS(MCP_OK, mcp_call_free(call));

    /* A wake-up ends a dispatch that waits, and one that is about to. */
    pthread_t thread = start_thread(wake, NULL);
    STATUS(MCP_S_TIMEOUT, mcp_queue_dispatch(queue, -1, &delivered));
    pthread_join(thread, NULL);
    EQUAL(0, delivered);
    STATUS(MCP_OK, mcp_queue_wake(queue));
    CHECK(readable(descriptor, 0));
    STATUS(MCP_S_TIMEOUT, mcp_queue_dispatch(queue, -1, NULL));
    CHECK(!readable(descriptor, 0));

    /* A wait on the serving thread serves: a second call can only be told of by this thread. */
    mcp_call *first = start_tool(client, "echo", "{}");
    mcp_call *slow = start_tool(client, "sleep", "{\"ms\":60}");
    STATUS(MCP_OK, mcp_call_wait(slow, PATIENCE_MS));
    STATUS(MCP_OK, mcp_call_wait(first, PATIENCE_MS));
    while (counted(&done) < 3)
        STATUS(MCP_OK, mcp_queue_dispatch(queue, PATIENCE_MS, NULL));
    STATUS(MCP_OK, mcp_call_free(first));
    STATUS(MCP_OK, mcp_call_free(slow));

    /* Two clients and the log on one queue. */
    STATUS(MCP_OK, mcp_log_on(queue, MCP_LOG_DEBUG, on_line, &destroyed, count_destroyed));
    mcp_client *other = on_queue(queue);
    open_client(other);
    call = start_tool(other, "echo", "{}");
    STATUS(MCP_OK, mcp_call_wait(call, PATIENCE_MS));
    while (counted(&done) < 4 || counted(&lines) < 1)
        STATUS(MCP_OK, mcp_queue_dispatch(queue, PATIENCE_MS, NULL));
    STATUS(MCP_OK, mcp_call_free(call));
    STATUS(MCP_E_STATE, mcp_client_set_queue(other, queue));

    /* The end of a client is served by the wait for it. */
    end_client(other);
    EQUAL(1, counted(&destroyed));
    STATUS(MCP_OK, mcp_log_on(NULL, MCP_LOG_ERROR, NULL, NULL, NULL));
    EQUAL(2, counted(&destroyed));
    /* A dispatch without limit returns when a client's end is all there is: no event, but the last destructor. */
    mcp_client *silent = new_client("");
    STATUS(MCP_OK, mcp_client_set_queue(silent, queue));
    STATUS(MCP_OK, mcp_client_on(silent, MCP_EVENT_TASK_DONE, on_done, &gone, count_destroyed));
    open_client(silent);
    STATUS(MCP_OK, mcp_client_free(silent));
    while (counted(&gone) == 0)
        CHECK(mcp_queue_dispatch(queue, -1, NULL) >= 0);
    /* And by shutdown, on the serving thread. */
    STATUS(MCP_OK, mcp_shutdown(PATIENCE_MS));
    EQUAL(3, counted(&destroyed));
    STATUS(MCP_OK, mcp_client_free(client));
    STATUS(MCP_OK, mcp_queue_free(queue));
}
