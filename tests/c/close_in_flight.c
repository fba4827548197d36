/* Close with many calls in flight, started and waited for, and with a task followed: every one ends once, with
 * MCP_E_CLOSED, without its answer; then the last destructor runs.
 *
 * The server's script:
 {"rules": [{"match": {"method": "tools/call", "name": "held"}, "do": {"hold": true}}]}
 */
#include "check.h"

enum { STARTED = 12, WAITING = 4 };

static mcp_client *client;
static counter done = COUNTER, closed_calls = COUNTER, task_done = COUNTER, states = COUNTER, destroyed = COUNTER;

static void on_event(mcp_event *event, void *user)
{
    int64_t number = 0;
    mcp_snapshot *snapshot = NULL;
    (void)user;
    switch (mcp_event_kind(event)) {
    case MCP_EVENT_CALL_DONE:
        STATUS(MCP_OK, mcp_event_number(event, MCP_EVENT_NUMBER_STATUS, &number));
        if (number == MCP_E_CLOSED)
            count(&closed_calls);
        count(&done);
        break;
    case MCP_EVENT_TASK_DONE:
        STATUS(MCP_OK, mcp_event_snapshot(event, &snapshot));
        STATUS(MCP_OK, mcp_snapshot_number(snapshot, MCP_SNAPSHOT_REASON, &number));
        EQUAL(MCP_REASON_CLOSED, number);
        STATUS(MCP_OK, mcp_snapshot_free(snapshot));
        count(&task_done);
        break;
    case MCP_EVENT_STATE:
        STATUS(MCP_OK, mcp_event_number(event, MCP_EVENT_NUMBER_STATE, &number));
        /* The last event of all. */
        EQUAL(0, counted(&states));
        if (number == MCP_STATE_CLOSED)
            count(&states);
        break;
    default:
        break;
    }
}

static void *run_held(void *user)
{
    mcp_call *call = NULL;
    (void)user;
    STATUS(MCP_E_CLOSED, mcp_tool_run(client, "held", NULL, 0, NULL, 0, -1, &call));
    STATUS(MCP_E_CLOSED, mcp_call_status(call));
    STATUS(MCP_OK, mcp_call_free(call));
    return NULL;
}

static void *wait_for(void *call)
{
    STATUS(MCP_E_CLOSED, mcp_call_wait(call, -1));
    return NULL;
}

static void *wait_for_task(void *task)
{
    mcp_snapshot *snapshot = NULL;
    int64_t reason = 0;
    STATUS(MCP_OK, mcp_task_wait(task, -1, &snapshot));
    STATUS(MCP_OK, mcp_snapshot_number(snapshot, MCP_SNAPSHOT_REASON, &reason));
    EQUAL(MCP_REASON_CLOSED, reason);
    STATUS(MCP_OK, mcp_snapshot_free(snapshot));
    return NULL;
}

PROGRAM
{
    /* Some calls wait for their turn. */
    client = new_client(",\"max_in_flight\":8");
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_ANY, on_event, &destroyed, count_destroyed));
    open_client(client);
    mcp_call *job = start_tool(client, "slow_job", "{\"poll_ms\":20,\"steps\":100000}");
    mcp_task *task = NULL;
    STATUS(MCP_S_TASK, mcp_call_wait(job, PATIENCE_MS));
    STATUS(MCP_OK, mcp_call_task(job, &task));

    mcp_call *calls[STARTED];
    pthread_t threads[WAITING + 2];
    for (int i = 0; i < STARTED; i++)
        calls[i] = start_tool(client, "held", "{}");
    for (int i = 0; i < WAITING; i++)
        threads[i] = start_thread(run_held, NULL);
    threads[WAITING] = start_thread(wait_for, calls[STARTED - 1]);
    threads[WAITING + 1] = start_thread(wait_for_task, task);
    AWAIT_HELD(8 + WAITING);

    long long begun = now_ms();
    STATUS(MCP_OK, mcp_client_close(client));
    STATUS(MCP_S_ALREADY_DONE, mcp_client_close(client));
    for (int i = 0; i < WAITING + 2; i++)
        pthread_join(threads[i], NULL);
    STATUS(MCP_OK, mcp_client_wait_closed(client, PATIENCE_MS));
    CHECK(now_ms() - begun < 30000);
    EQUAL(MCP_STATE_CLOSED, mcp_client_state(client));
    for (int i = 0; i < STARTED; i++) {
        STATUS(MCP_E_CLOSED, mcp_call_status(calls[i]));
        STATUS(MCP_S_ALREADY_DONE, mcp_call_cancel(calls[i]));
        STATUS(MCP_OK, mcp_call_free(calls[i]));
    }
    EQUAL(STARTED + 1, counted(&done));
    EQUAL(STARTED, counted(&closed_calls));
    EQUAL(1, counted(&task_done));
    EQUAL(1, counted(&states));
    EQUAL(1, counted(&destroyed));

    mcp_call *late = NULL;
    STATUS(MCP_E_CLOSED, mcp_tool_call(client, "echo", NULL, 0, NULL, 0, &late));
    CHECK(late == NULL);
    STATUS(MCP_E_CLOSED, mcp_client_open(client));
    STATUS(MCP_OK, mcp_task_free(task));
    STATUS(MCP_OK, mcp_call_free(job));
    STATUS(MCP_OK, mcp_client_free(client));
    end_library();
}
