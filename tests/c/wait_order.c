/* The order of events: created before the end of the call that made the task, status between, one end; the same in the
 * view of a wait. */
#include "check.h"

static int seen[256], seen_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static counter ends = COUNTER, inside = COUNTER;

static void on_event(mcp_event *event, void *user)
{
    (void)user;
    /* One at a time. */
    CHECK(pthread_mutex_trylock(&lock) == 0);
    EQUAL(0, counted(&inside) % 2);
    count(&inside);
    int kind = mcp_event_kind(event);
    if (kind != MCP_EVENT_STATE && seen_count < 256)
        seen[seen_count++] = kind;
    if (kind == MCP_EVENT_CALL_DONE) {
        mcp_task *task = NULL;
        int64_t status = 0;
        STATUS(MCP_OK, mcp_event_task(event, &task));
        CHECK(task != NULL);
        STATUS(MCP_OK, mcp_event_number(event, MCP_EVENT_NUMBER_STATUS, &status));
        EQUAL(MCP_S_TASK, status);
        STATUS(MCP_OK, mcp_task_free(task));
    }
    count(&inside);
    pthread_mutex_unlock(&lock);
    if (kind == MCP_EVENT_TASK_DONE)
        count(&ends);
}

PROGRAM
{
    mcp_client *client = new_client("");
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_ANY, on_event, NULL, NULL));
    open_client(client);
    for (int round = 0; round < 5; round++) {
        seen_count = 0;
        mcp_call *call = start_tool(client, "slow_job", "{\"poll_ms\":10,\"steps\":5}");
        mcp_task *task = NULL;
        mcp_snapshot *snapshot = NULL;
        mcp_result *result = NULL;
        int64_t reason = 0;
        STATUS(MCP_S_TASK, mcp_call_wait(call, PATIENCE_MS));
        STATUS(MCP_OK, mcp_call_task(call, &task));
        STATUS(MCP_OK, mcp_task_wait(task, PATIENCE_MS, &snapshot));
        STATUS(MCP_OK, mcp_snapshot_number(snapshot, MCP_SNAPSHOT_REASON, &reason));
        EQUAL(MCP_REASON_COMPLETED, reason);
        STATUS(MCP_OK, mcp_snapshot_result(snapshot, &result));
        CHECK(result != NULL);
        AWAIT(&ends, round + 1);
        CHECK(seen_count >= 3);
        EQUAL(MCP_EVENT_TASK_CREATED, seen[0]);
        EQUAL(MCP_EVENT_CALL_DONE, seen[1]);
        for (int i = 2; i < seen_count - 1; i++)
            EQUAL(MCP_EVENT_TASK_STATUS, seen[i]);
        EQUAL(MCP_EVENT_TASK_DONE, seen[seen_count - 1]);
        /* Over is over. */
        STATUS(MCP_S_ALREADY_DONE, mcp_task_cancel(task));
        STATUS(MCP_S_ALREADY_DONE, mcp_task_let_go(task));
        STATUS(MCP_OK, mcp_result_free(result));
        STATUS(MCP_OK, mcp_snapshot_free(snapshot));
        STATUS(MCP_OK, mcp_task_free(task));
        STATUS(MCP_OK, mcp_call_free(call));
    }
    end_client(client);
    EQUAL(5, counted(&ends));
    end_library();
}
