/* mcp_shutdown() ends every thread, with everything under way and with a log hook that takes each line of the closing;
 * a later use starts anew; one that ran out of time says so, and the next waits for the rest.
 *
 * The server's script:
 {"rules": [{"match": {"method": "tools/call", "name": "held"}, "do": {"hold": true}}]}
 */
#include "check.h"

static counter lines = COUNTER, destroyed = COUNTER, inside = COUNTER, go_on = COUNTER;

static void on_line(int32_t level, const char *message, size_t length, void *user)
{
    (void)level;
    (void)user;
    EQUAL(strlen(message), length);
    count(&lines);
}

static void on_state(mcp_event *event, void *user)
{
    (void)event;
    (void)user;
}

static void on_closing(mcp_event *event, void *user)
{
    int64_t state = 0;
    (void)user;
    STATUS(MCP_OK, mcp_event_number(event, MCP_EVENT_NUMBER_STATE, &state));
    if (state != MCP_STATE_CLOSING)
        return;
    count(&inside);
    AWAIT(&go_on, 1);
}

/* A thread that was joined leaves the list of the system's a moment later; an idle one would stay for seconds. */
static void check_alone(void)
{
    long long end = now_ms() + 3000;
    while (threads_now() > 1 && now_ms() < end)
        sched_yield();
    EQUAL(1, threads_now());
}

static void *shut_down(void *user)
{
    (void)user;
    STATUS(MCP_OK, mcp_shutdown(-1));
    return NULL;
}

PROGRAM
{
    STATUS(MCP_OK, mcp_shutdown(0));
    STATUS(MCP_OK, mcp_log_on(NULL, MCP_LOG_DEBUG, on_line, &destroyed, count_destroyed));
    for (int round = 0; round < 3; round++) {
        int before = counted(&lines);
        mcp_client *client = new_client(""), *fresh = new_client("");
        STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_ANY, on_state, NULL, NULL));
        open_client(client);
        mcp_call *call = start_tool(client, "held", "{}");
        mcp_call *job = start_tool(client, "slow_job", "{\"poll_ms\":5,\"steps\":100000}");
        STATUS(MCP_S_TASK, mcp_call_wait(job, PATIENCE_MS));
        STATUS(MCP_OK, mcp_shutdown(PATIENCE_MS));
        check_alone();
        CHECK(counted(&lines) > before);
        STATUS(MCP_E_CLOSED, mcp_call_status(call));
        EQUAL(MCP_STATE_CLOSED, mcp_client_state(client));
        EQUAL(MCP_STATE_CLOSED, mcp_client_state(fresh));
        /* What is left are names; using them starts nothing. */
        STATUS(MCP_S_ALREADY_DONE, mcp_client_close(client));
        STATUS(MCP_OK, mcp_client_wait_closed(client, 0));
        STATUS(MCP_OK, mcp_client_free(client));
        STATUS(MCP_OK, mcp_client_free(fresh));
        STATUS(MCP_OK, mcp_call_free(call));
        STATUS(MCP_OK, mcp_call_free(job));
        check_alone();
    }
    EQUAL(0, counted(&destroyed));
    STATUS(MCP_OK, mcp_log_on(NULL, MCP_LOG_DEBUG, NULL, NULL, NULL));
    EQUAL(1, counted(&destroyed));

    /* A callback that does not return in time. */
    mcp_client *slow = new_client("");
    STATUS(MCP_OK, mcp_client_on(slow, MCP_EVENT_STATE, on_closing, NULL, NULL));
    open_client(slow);
    STATUS(MCP_S_TIMEOUT, mcp_shutdown(0));
    AWAIT(&inside, 1);
    STATUS(MCP_S_TIMEOUT, mcp_shutdown(20));
    pthread_t thread = start_thread(shut_down, NULL);
    count(&go_on);
    pthread_join(thread, NULL);
    check_alone();
    STATUS(MCP_OK, mcp_client_free(slow));
    STATUS(MCP_OK, mcp_shutdown(0));
}
