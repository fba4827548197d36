/* A cancel ends a blocked read at once, from another thread, and touches no neighbour.
 *
 * The server's script:
 {"rules": [
   {"match": {"method": "tools/call", "name": "first"}, "do": {"hold": "one", "result": {"resultType": "complete", "content": []}}},
   {"match": {"method": "tools/call", "name": "second"}, "do": {"hold": "two", "result": {"resultType": "complete", "content": []}}},
   {"match": {"method": "tools/call", "name": "stream"}, "do": {"sse": [
     {"progress": {"progress": 1}}, {"hold": "three", "result": {"resultType": "complete", "content": []}}]}}]}
 */
#include "check.h"

/* Far below any time limit that could end the call instead. */
#define AT_ONCE_MS 5000

static mcp_client *client;

struct job {
    const char *tool;
    mcp_status want;
    counter told;
    int64_t id;
};

static struct job neighbour = {"second", MCP_OK, COUNTER, 0};

static void *run(void *user)
{
    struct job *job = user;
    mcp_call *call = NULL;
    STATUS(job->want, mcp_tool_run(client, job->tool, NULL, 0, NULL, 0, -1, &call));
    STATUS(MCP_OK, mcp_call_free(call));
    count(&job->told);
    return NULL;
}

static void cancel_held(const char *tool, int held)
{
    mcp_call *call = start_tool(client, tool, "{}");
    AWAIT_HELD(held);
    long long begun = now_ms();
    STATUS(MCP_OK, mcp_call_cancel(call));
    STATUS(MCP_S_ALREADY_DONE, mcp_call_cancel(call));
    STATUS(MCP_E_CANCELLED, mcp_call_wait(call, PATIENCE_MS));
    CHECK(now_ms() - begun < AT_ONCE_MS);
    STATUS(MCP_OK, mcp_call_free(call));
}

static mcp_call *found;
static counter has_progress = COUNTER;

/* A call that is waited for has no handle yet; its events have. */
static void on_progress(mcp_event *event, void *user)
{
    (void)user;
    if (counted(&has_progress) == 0)
        STATUS(MCP_OK, mcp_event_call(event, &found));
    count(&has_progress);
}

PROGRAM
{
    client = new_client("");
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_PROGRESS, on_progress, NULL, NULL));
    open_client(client);
    pthread_t beside = start_thread(run, &neighbour);
    AWAIT_HELD(1);
    mcp_call *started = start_tool(client, "second", "{}");
    AWAIT_HELD(2);

    cancel_held("first", 3);

    /* A call that another thread waits for, in the middle of a stream. */
    struct job blocked = {"stream", MCP_E_CANCELLED, COUNTER, 0};
    pthread_t thread = start_thread(run, &blocked);
    AWAIT(&has_progress, 1);
    long long begun = now_ms();
    STATUS(MCP_OK, mcp_call_cancel(found));
    AWAIT(&blocked.told, 1);
    CHECK(now_ms() - begun < AT_ONCE_MS);
    pthread_join(thread, NULL);
    STATUS(MCP_OK, mcp_call_free(found));

    /* The neighbours never noticed. */
    STATUS(MCP_S_PENDING, mcp_call_status(started));
    EQUAL(0, counted(&neighbour.told));
    release("two");
    STATUS(MCP_OK, mcp_call_wait(started, PATIENCE_MS));
    pthread_join(beside, NULL);
    STATUS(MCP_OK, mcp_call_free(started));
    check_usable(client);
    end_client(client);
    end_library();
}
