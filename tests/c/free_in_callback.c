/* Inside each kind of callback: the call, the task, the snapshot, the question, the error, the client and (in vain,
 * since it is borrowed) the event are freed. The event stays readable to the callback's end, and the user data ends
 * once.
 *
 * The server's script:
 {"rules": [
   {"match": {"method": "tools/call", "name": "note"}, "do": {"sse": [
     {"message": {"jsonrpc": "2.0", "method": "notifications/custom", "params": {"x": 1}}},
     {"result": {"resultType": "complete", "content": []}}]}}],
  "tasks": [
   {"tool": "troubled", "seed": {"pollIntervalMs": 10}, "polls": [
     {"http_status": 503, "times": 2}, {"task": {"statusMessage": "well again"}, "times": 2}, {"task": {"status": "completed", "result": {"content": []}}}]},
   {"tool": "steady", "seed": {"pollIntervalMs": 10}, "polls": [{"task": {"statusMessage": "one"}}, {"task": {"statusMessage": "two"}}]},
   {"tool": "overdue", "seed": {"pollIntervalMs": 10, "ttlMs": 30}, "polls": [{"task": {"ttlMs": 30, "pollIntervalMs": 10}}]},
   {"tool": "stubborn", "seed": {"pollIntervalMs": 10}, "polls": [{"task": {}}],
    "cancels": [{"error": {"code": -32602, "message": "no"}}]}]}
 */
#include "check.h"

struct scene {
    int kind;
    mcp_client *client;
    counter seen, asked, destroyed;
};

static void free_parts(mcp_event *event, struct scene *scene)
{
    mcp_call *call = NULL;
    mcp_task *task = NULL;
    mcp_snapshot *snapshot = NULL;
    mcp_input *input = NULL;
    mcp_error *error = NULL;
    mcp_event *kept = NULL;
    mcp_event_call(event, &call);
    mcp_event_task(event, &task);
    mcp_event_snapshot(event, &snapshot);
    mcp_event_input(event, &input);
    mcp_event_error(event, &error);
    STATUS(MCP_OK, mcp_event_keep(event, &kept));
    STATUS(MCP_OK, mcp_client_free(scene->client));
    STATUS(MCP_OK, mcp_call_free(call));
    STATUS(MCP_OK, mcp_task_free(task));
    STATUS(MCP_OK, mcp_snapshot_free(snapshot));
    STATUS(MCP_OK, mcp_input_free(input));
    STATUS(MCP_OK, mcp_error_free(error));
    STATUS(MCP_OK, mcp_event_free(kept));
    STATUS(MCP_E_STATE, mcp_event_free(event));
}

static void on_event(mcp_event *event, void *user)
{
    struct scene *scene = user;
    int kind = mcp_event_kind(event);
    if (kind == MCP_EVENT_ELICITATION)
        count(&scene->asked);
    if (kind != scene->kind || counted(&scene->seen) > 0)
        return;
    free_parts(event, scene);
    EQUAL(kind, mcp_event_kind(event));
    mcp_event_text(event, MCP_EVENT_TEXT_JSON, NULL);
    count(&scene->seen);
}

static void destroyed(void *user)
{
    count(&((struct scene *)user)->destroyed);
}

/* What makes an event of each kind. */
static const struct {
    int kind;
    const char *tool, *arguments;
} makers[] = {
    {MCP_EVENT_STATE, NULL, NULL},
    {MCP_EVENT_CALL_DONE, "echo", "{}"},
    {MCP_EVENT_PROGRESS, "progress", "{\"n\":3}"},
    {MCP_EVENT_LOG_MESSAGE, "log", "{\"n\":3}"},
    {MCP_EVENT_NOTIFICATION, "note", "{}"},
    {MCP_EVENT_TASK_CREATED, "slow_job", "{\"poll_ms\":10}"},
    {MCP_EVENT_TASK_STATUS, "steady", "{}"},
    {MCP_EVENT_TASK_DONE, "slow_job", "{\"poll_ms\":10,\"steps\":1}"},
    {MCP_EVENT_TASK_OVERDUE, "overdue", "{}"},
    {MCP_EVENT_TASK_DEGRADED, "troubled", "{}"},
    {MCP_EVENT_TASK_RECOVERED, "troubled", "{}"},
    {MCP_EVENT_ELICITATION, "ask_first", "{\"rounds\":1,\"kind\":\"elicitation\"}"},
    {MCP_EVENT_SAMPLING, "ask_first", "{\"rounds\":1,\"kind\":\"sampling\"}"},
    {MCP_EVENT_ROOTS, "ask_first", "{\"rounds\":1,\"kind\":\"roots\"}"},
    {MCP_EVENT_INPUT_WITHDRAWN, "ask_first", "{\"rounds\":1,\"kind\":\"elicitation\"}"},
    {MCP_EVENT_ERROR, "stubborn", "{}"},
    {MCP_EVENT_TASK_RESUMED, "slow_job", "{\"poll_ms\":10}"},
};

static void play(int kind, const char *tool, const char *arguments, mcp_queue *queue)
{
    struct scene scene = {kind, NULL, COUNTER, COUNTER, COUNTER};
    scene.client = new_client(",\"log_level\":\"debug\",\"input\":{\"elicitation\":\"handler\",\"sampling\":\"handler\","
                              "\"roots\":\"handler\"}");
    if (queue)
        STATUS(MCP_OK, mcp_client_set_queue(scene.client, queue));
    STATUS(MCP_OK, mcp_client_on(scene.client, MCP_EVENT_ANY, on_event, &scene, destroyed));
    STATUS(MCP_OK, mcp_client_open(scene.client));
    mcp_call *call = NULL;
    if (tool)
        STATUS(MCP_OK, mcp_tool_call(scene.client, tool, arguments, strlen(arguments), NULL, 0, &call));
    mcp_task *task = NULL;
    if (kind == MCP_EVENT_INPUT_WITHDRAWN) {
        AWAIT(&scene.asked, 1);
        STATUS(MCP_OK, mcp_call_cancel(call));
    } else if (kind == MCP_EVENT_ERROR) {
        STATUS(MCP_S_TASK, mcp_call_wait(call, PATIENCE_MS));
        STATUS(MCP_OK, mcp_call_task(call, &task));
        STATUS(MCP_OK, mcp_task_cancel(task));
    } else if (kind == MCP_EVENT_TASK_RESUMED) {
        STATUS(MCP_OK, mcp_task_open(scene.client, "another-task", &task));
    }
    if (queue) {
        while (counted(&scene.destroyed) == 0)
            CHECK(mcp_queue_dispatch(queue, PATIENCE_MS, NULL) >= 0);
    }
    if (!reached(&scene.destroyed, 1, PATIENCE_MS))
        FAIL("kind %d: the user data did not end; the callback has run %d times", kind, counted(&scene.seen));
    EQUAL(1, counted(&scene.seen));
    STATUS(MCP_OK, mcp_task_free(task));
    STATUS(MCP_OK, mcp_call_free(call));
    STATUS(MCP_E_HANDLE, mcp_client_free(scene.client));
    EQUAL(1, counted(&scene.destroyed));
}

PROGRAM
{
    size_t kinds = sizeof makers / sizeof *makers;
    EQUAL(MCP_EVENT_TASK_RESUMED, kinds);
    for (size_t i = 0; i < kinds; i++)
        play(makers[i].kind, makers[i].tool, makers[i].arguments, NULL);

    /* The same on a thread of the host's. */
    mcp_queue *queue = NULL;
    STATUS(MCP_OK, mcp_queue_new(&queue));
    play(MCP_EVENT_STATE, NULL, NULL, queue);
    play(MCP_EVENT_CALL_DONE, "echo", "{}", queue);
    play(MCP_EVENT_TASK_DONE, "slow_job", "{\"poll_ms\":10,\"steps\":1}", queue);
    STATUS(MCP_OK, mcp_queue_free(queue));
    end_library();
}
