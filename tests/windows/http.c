/* A server over HTTP on loopback: tools are listed and called, a job runs to its end with its events, a call that waits is
 * cancelled; a manual queue wakes a WaitForMultipleObjects. */
#include "win.h"

static volatile LONG created;
static HANDLE job_done;

static void on_event(mcp_event *event, void *user)
{
    (void)user;
    int32_t kind = mcp_event_kind(event);
    if (kind == MCP_EVENT_TASK_CREATED)
        InterlockedIncrement(&created);
    if (kind == MCP_EVENT_TASK_DONE)
        SetEvent(job_done);
}

static void lists_calls_and_a_job(const char *settings)
{
    mcp_client *client = new_client(settings);
    job_done = CreateEventA(NULL, TRUE, FALSE, NULL);
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_ANY, on_event, NULL, NULL));
    STATUS(MCP_OK, mcp_client_open(client));
    mcp_text *list = NULL;
    STATUS(MCP_OK, mcp_tool_list(client, PATIENCE_MS, &list));
    CHECK(strstr(mcp_text_get(list, NULL), "\"slow_job\"") != NULL);
    mcp_text_free(list);
    check_usable(client);

    mcp_call *call = start_tool(client, "slow_job", "{\"steps\":5,\"step_ms\":100,\"poll_ms\":100}", NULL);
    STATUS(MCP_S_TASK, mcp_call_wait(call, PATIENCE_MS));
    mcp_task *task = NULL;
    STATUS(MCP_OK, mcp_call_task(call, &task));
    STATUS(MCP_OK, mcp_task_wait(task, PATIENCE_MS, NULL));
    await(job_done);
    CHECK(created == 1);
    mcp_task_free(task);
    mcp_call_free(call);

    call = start_waiting(client);
    STATUS(MCP_OK, mcp_call_cancel(call));
    STATUS(MCP_E_CANCELLED, mcp_call_wait(call, PATIENCE_MS));
    mcp_call_free(call);
    check_usable(client);
    end_client(client);
    CloseHandle(job_done);
}

static void on_done(mcp_event *event, void *user)
{
    (void)event;
    *(int *)user += 1;
}

static void a_manual_queue(const char *settings)
{
    mcp_client *client = new_client(settings);
    mcp_queue *queue = NULL;
    int64_t number = 0;
    int done = 0, dispatched = 0;
    STATUS(MCP_OK, mcp_queue_new(&queue));
    STATUS(MCP_OK, mcp_queue_descriptor(queue, &number));
    STATUS(MCP_OK, mcp_client_set_queue(client, queue));
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_CALL_DONE, on_done, &done, NULL));
    STATUS(MCP_OK, mcp_client_open(client));
    mcp_call *call = start_tool(client, "add", "{\"a\":1,\"b\":2}", NULL);
    HANDLE never = CreateEventA(NULL, TRUE, FALSE, NULL), all[2] = {never, (HANDLE)(intptr_t)number};
    while (!done) {
        CHECK(WaitForMultipleObjects(2, all, FALSE, PATIENCE_MS) == WAIT_OBJECT_0 + 1);
        mcp_status status = mcp_queue_dispatch(queue, 0, NULL);
        CHECK(status == MCP_OK || status == MCP_S_TIMEOUT);
        dispatched++;
    }
    CHECK(dispatched > 0 && WaitForSingleObject(all[1], 0) == WAIT_TIMEOUT);
    mcp_call_free(call);
    mcp_client_close(client);
    STATUS(MCP_OK, mcp_client_wait_closed(client, PATIENCE_MS));
    STATUS(MCP_OK, mcp_client_free(client));
    STATUS(MCP_OK, mcp_queue_free(queue));
    CloseHandle(never);
}

void http_program(void)
{
    char url[128], settings[256];
    process server = start_http_server(url, sizeof url);
    snprintf(settings, sizeof settings, "{\"url\":\"%s\"}", url);
    lists_calls_and_a_job(settings);
    a_manual_queue(settings);
    stop_process(&server);
}
