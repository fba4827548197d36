/* The long job from C: long_job URL TOOL ARGUMENTS. Prints the statuses on the way, then the result. */
#include "mcpnative.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct seen {
    atomic_int created, ended, early;
    atomic_int gone;
};

static const char *status_name(mcp_snapshot *snapshot)
{
    static const char *const names[] = {"", "working", "input_required", "completed", "failed", "cancelled"};
    int64_t status = 0;
    mcp_snapshot_number(snapshot, MCP_SNAPSHOT_STATUS, &status);
    return names[status];
}

static void on_event(mcp_event *event, void *user)
{
    struct seen *seen = user;
    mcp_snapshot *snapshot = NULL;
    switch (mcp_event_kind(event)) {
    case MCP_EVENT_TASK_CREATED:
        seen->created++;
        break;
    case MCP_EVENT_TASK_STATUS:
        if (mcp_event_snapshot(event, &snapshot) == MCP_OK) {
            const char *message = mcp_snapshot_text(snapshot, MCP_SNAPSHOT_MESSAGE, NULL);
            printf("status: %s, %s\n", status_name(snapshot), message ? message : "");
        }
        break;
    case MCP_EVENT_TASK_DONE:
        seen->ended++;
        break;
    }
    if (seen->created == 0 || seen->ended > 1)
        seen->early++;
    mcp_snapshot_free(snapshot);
}

static void on_destroy(void *user)
{
    ((struct seen *)user)->gone++;
}

static int fail(const char *what, mcp_status status)
{
    mcp_error *error = NULL;
    mcp_last_error(&error);
    const char *message = error ? mcp_error_text(error, MCP_ERROR_MESSAGE, NULL) : "";
    printf("error: %s: %s %s\n", what, mcp_status_name(status), message);
    mcp_error_free(error);
    return 1;
}

int main(int count, char **args)
{
    static struct seen seen;
    static const int kinds[3] = {MCP_EVENT_TASK_CREATED, MCP_EVENT_TASK_STATUS, MCP_EVENT_TASK_DONE};
    mcp_client *client = NULL;
    mcp_call *call = NULL;
    mcp_task *task = NULL;
    mcp_snapshot *snapshot = NULL;
    mcp_result *result = NULL;
    char settings[512];
    if (count != 4)
        return 2;
    snprintf(settings, sizeof settings, "{\"url\":\"%s\"}", args[1]);
    mcp_status status = mcp_client_new(settings, strlen(settings), &client);
    if (status != MCP_OK)
        return fail("mcp_client_new", status);
    /* One destroy function for all three: the handlers of a client end together. */
    for (int i = 0; i < 3; i++)
        mcp_client_on(client, kinds[i], on_event, &seen, i == 0 ? on_destroy : NULL);
    mcp_client_open(client);
    status = mcp_client_wait_open(client, 15000);
    if (status != MCP_OK)
        return fail("mcp_client_wait_open", status);
    status = mcp_tool_call(client, args[2], args[3], strlen(args[3]), NULL, 0, &call);
    if (status != MCP_OK)
        return fail("mcp_tool_call", status);
    status = mcp_call_wait(call, 15000);
    if (status != MCP_S_TASK || mcp_call_task(call, &task) != MCP_OK)
        return fail("mcp_call_wait", status);
    status = mcp_task_wait(task, 60000, &snapshot);
    if (status != MCP_OK)
        return fail("mcp_task_wait", status);
    status = mcp_snapshot_result(snapshot, &result);
    if (status != MCP_OK)
        return fail("mcp_snapshot_result", status);
    mcp_client_close(client);
    status = mcp_client_wait_closed(client, 10000);
    if (status != MCP_OK)
        return fail("mcp_client_wait_closed", status);
    if (seen.created != 1 || seen.ended != 1 || seen.early != 0 || seen.gone != 1) {
        printf("error: created %d, ended %d, out of order %d, destroyed %d\n", seen.created, seen.ended,
               seen.early, seen.gone);
        return 1;
    }
    printf("result: %s\n", mcp_result_text(result, MCP_RESULT_TEXT, NULL));
    int failed = mcp_result_is_error(result) != 0;
    mcp_result_free(result);
    mcp_snapshot_free(snapshot);
    mcp_task_free(task);
    mcp_call_free(call);
    mcp_client_free(client);
    return mcp_shutdown(10000) == MCP_OK ? failed : fail("mcp_shutdown", MCP_S_TIMEOUT);
}
