/* The other tools of fastmcp/server.py: other_tools URL. One line for each promise. */
#include "mcpnative.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MS 30000

static mcp_client *client;

static void check(int good, const char *what)
{
    printf("%s  %s\n", good ? "ok" : "FAILED", what);
    if (good)
        return;
    mcp_error *error = NULL;
    if (mcp_last_error(&error) == MCP_OK)
        printf("        %s\n", mcp_error_text(error, MCP_ERROR_MESSAGE, NULL));
    exit(1);
}

static void on_elicitation(mcp_event *event, void *user)
{
    mcp_input *input = NULL;
    int *asked = user;
    if (mcp_event_input(event, &input) != MCP_OK)
        return;
    const char *message = mcp_input_text(input, MCP_INPUT_MESSAGE, NULL);
    *asked += message != NULL && strcmp(message, "Who are you?") == 0;
    mcp_input_answer(input, "{\"name\":\"Ada\"}", 14);
    mcp_input_free(input);
}

/* Runs a tool to its end; true where it says this. */
static int runs(const char *tool, const char *arguments, const char *expected, int is_error)
{
    mcp_call *call = NULL;
    mcp_result *result = NULL;
    int good = mcp_tool_run(client, tool, arguments, strlen(arguments), NULL, 0, WAIT_MS, &call) == MCP_OK &&
               mcp_call_result(call, &result) == MCP_OK;
    if (good) {
        const char *text = mcp_result_text(result, MCP_RESULT_TEXT, NULL);
        good = text != NULL && strcmp(text, expected) == 0 && mcp_result_is_error(result) == is_error;
        if (!good)
            printf("        %s\n", mcp_result_text(result, MCP_RESULT_JSON, NULL));
    }
    mcp_result_free(result);
    mcp_call_free(call);
    return good;
}

static int lists(const char *name)
{
    mcp_text *tools = NULL;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\"name\":\"%s\"", name);
    int good = mcp_tool_list(client, WAIT_MS, &tools) == MCP_OK && strstr(mcp_text_get(tools, NULL), wanted) != NULL;
    mcp_text_free(tools);
    return good;
}

static int cancels(void)
{
    const char *arguments = "{\"steps\":200}";
    mcp_call *call = NULL;
    mcp_task *task = NULL;
    mcp_snapshot *snapshot = NULL;
    int64_t reason = 0;
    int good = mcp_tool_call(client, "long_job", arguments, strlen(arguments), NULL, 0, &call) == MCP_OK &&
               mcp_call_wait(call, WAIT_MS) == MCP_S_TASK && mcp_call_task(call, &task) == MCP_OK &&
               mcp_task_cancel(task) == MCP_OK && mcp_task_wait(task, WAIT_MS, &snapshot) == MCP_OK &&
               mcp_snapshot_number(snapshot, MCP_SNAPSHOT_REASON, &reason) == MCP_OK;
    mcp_snapshot_free(snapshot);
    mcp_task_free(task);
    mcp_call_free(call);
    return good && reason == MCP_REASON_CANCELLED;
}

static int knows_no_such_task(void)
{
    mcp_task *task = NULL;
    mcp_snapshot *snapshot = NULL;
    int good = mcp_task_open(client, "no-such-task", &task) == MCP_OK &&
               mcp_task_get(task, WAIT_MS, &snapshot) == MCP_E_TASK_UNKNOWN;
    mcp_task_let_go(task);
    mcp_snapshot_free(snapshot);
    mcp_task_free(task);
    return good;
}

/* A client that declares no tasks: the server then answers at once. */
static int answers_without_tasks(const char *url)
{
    mcp_client *with_tasks = client;
    char settings[512];
    client = NULL;
    snprintf(settings, sizeof settings, "{\"url\":\"%s\",\"tasks\":{\"enabled\":false}}", url);
    int good = mcp_client_new(settings, strlen(settings), &client) == MCP_OK && mcp_client_open(client) == MCP_OK &&
               runs("long_job", "{\"steps\":2,\"step_ms\":10}", "done after 2 steps", 0);
    mcp_client_free(client);
    client = with_tasks;
    return good;
}

int main(int count, char **args)
{
    char settings[512];
    int asked = 0;
    mcp_server *server = NULL;
    if (count != 2)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    snprintf(settings, sizeof settings, "{\"url\":\"%s\"}", args[1]);
    check(mcp_client_new(settings, strlen(settings), &client) == MCP_OK, "a client");
    mcp_client_on(client, MCP_EVENT_ELICITATION, on_elicitation, &asked, NULL);
    mcp_client_open(client);
    check(mcp_client_wait_open(client, WAIT_MS) == MCP_OK, "opens");
    check(mcp_client_server(client, &server) == MCP_OK &&
              strcmp(mcp_server_text(server, MCP_SERVER_VERSION, NULL), "2026-07-28") == 0,
          "speaks 2026-07-28");
    mcp_server_free(server);
    check(lists("long_job") && lists("greet"), "lists its tools");
    check(runs("greet", "{\"name\":\"Bob\"}", "hello Bob", 0), "a plain tool");
    check(runs("greet", "{\"name\":\"\\u4e16\\u754c\"}", "hello \xe4\xb8\x96\xe7\x95\x8c", 0), "a plain tool, beyond ASCII");
    check(runs("failing_job", "{}", "the job broke", 1), "a job that fails is a result with isError");
    check(runs("asking_job", "{}", "hello Ada", 0) && asked == 1, "a job asks once and goes on with the answer");
    check(cancels(), "a cancelled job ends as cancelled");
    check(knows_no_such_task(), "an unknown task is told as such");
    check(answers_without_tasks(args[1]), "without the extension the job answers at once");
    mcp_client_close(client);
    check(mcp_client_wait_closed(client, WAIT_MS) == MCP_OK, "closes");
    mcp_client_free(client);
    check(mcp_shutdown(10000) == MCP_OK, "shuts down");
    return 0;
}
