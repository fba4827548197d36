/* The demo of `make demo`: a long job at a server, seen from C. It shows the job's progress, answers the one question
 * that the server asks, cancels a second job, and prints the result.
 *
 *   demo URL          (an MCP server with the tool slow_job, as the bundled test server has)
 */
#include <mcpnative.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int on_terminal;

/* Says why a call failed, and ends the program. */
static int fail(const char *what)
{
    mcp_error *error = NULL;
    mcp_last_error(&error);
    const char *why = mcp_error_text(error, MCP_ERROR_MESSAGE, NULL);
    fprintf(stderr, "%s failed: %s\n", what, why ? why : "no reason given");
    mcp_error_free(error);
    return 1;
}

static void draw(const char *message)
{
    int done = 0, all = 0;
    if (!on_terminal || sscanf(message, "step %d of %d", &done, &all) != 2 || all <= 0) {
        printf("%s%s\n", on_terminal ? "\n  " : "  ", message);
    } else {
        printf("\r  [");
        for (int i = 0; i < 30; i++)
            putchar(i < 30 * done / all ? '#' : '.');
        printf("] %3d %%  %-20s", 100 * done / all, message);
    }
    fflush(stdout);
}

/* Created and status events: the same picture, drawn anew. Runs on a thread of the library. */
static void on_progress(mcp_event *event, void *user)
{
    mcp_snapshot *snapshot = NULL;
    (void)user;
    if (mcp_event_snapshot(event, &snapshot) == MCP_OK) {
        const char *message = mcp_snapshot_text(snapshot, MCP_SNAPSHOT_MESSAGE, NULL);
        if (message)
            draw(message);
    }
    mcp_snapshot_free(snapshot);
}

/* The server's question. A program with a window would keep the input and answer when the user has. */
static void on_question(mcp_event *event, void *user)
{
    static const char answer[] = "{\"value\":\"yes\"}";
    mcp_input *input = NULL;
    (void)user;
    if (mcp_event_input(event, &input) == MCP_OK) {
        const char *message = mcp_input_text(input, MCP_INPUT_MESSAGE, NULL);
        printf("%s  the server asks: %s  -> yes\n", on_terminal ? "\n" : "", message ? message : "");
        mcp_input_answer(input, answer, strlen(answer));
    }
    mcp_input_free(input);
}

/* Starts slow_job and hands out its task. */
static int start(mcp_client *client, const char *arguments, mcp_task **task)
{
    mcp_call *call = NULL;
    int failed = mcp_tool_call(client, "slow_job", arguments, strlen(arguments), NULL, 0, &call) != MCP_OK
                 || mcp_call_wait(call, 10000) != MCP_S_TASK || mcp_call_task(call, task) != MCP_OK;
    if (failed)
        fail("starting slow_job");
    mcp_call_free(call);
    return failed;
}

/* The first job: followed to its end, its result printed. */
static int run_job(mcp_client *client)
{
    mcp_task *task = NULL;
    mcp_snapshot *end = NULL;
    mcp_result *result = NULL;
    int failed = 1;
    puts("A long job, with one question half-way:");
    if (start(client, "{\"steps\":12,\"step_ms\":200,\"poll_ms\":100,\"ask\":true}", &task) == 0) {
        if (mcp_task_wait(task, 60000, &end) != MCP_OK || mcp_snapshot_result(end, &result) != MCP_OK) {
            fail("the job");
        } else {
            printf("%s  result: %s\n", on_terminal ? "\n" : "", mcp_result_text(result, MCP_RESULT_TEXT, NULL));
            failed = 0;
        }
    }
    mcp_result_free(result);
    mcp_snapshot_free(end);
    mcp_task_free(task);
    return failed;
}

/* The second job: cancelled, and followed to what the server makes of that. */
static int cancel_job(mcp_client *client)
{
    mcp_task *task = NULL;
    mcp_snapshot *end = NULL;
    int64_t reason = MCP_REASON_NONE;
    int failed = 1;
    puts("A second job, cancelled:");
    if (start(client, "{\"steps\":1000,\"step_ms\":200,\"poll_ms\":100}", &task) == 0) {
        if (mcp_task_cancel(task) != MCP_OK || mcp_task_wait(task, 20000, &end) != MCP_OK)
            fail("cancelling");
        else if (mcp_snapshot_number(end, MCP_SNAPSHOT_REASON, &reason) == MCP_OK && reason == MCP_REASON_CANCELLED)
            failed = 0;
        printf("%s  the server says: %s\n", on_terminal ? "\n" : "", failed ? "not cancelled" : "cancelled");
    }
    mcp_snapshot_free(end);
    mcp_task_free(task);
    return failed;
}

int main(int argc, char **argv)
{
    char settings[1024];
    mcp_client *client = NULL;
    if (argc != 2 || strpbrk(argv[1], "\"\\") || strlen(argv[1]) > 900) {
        fprintf(stderr, "usage: demo URL\n");
        return 2;
    }
    on_terminal = isatty(STDOUT_FILENO);
    snprintf(settings, sizeof settings, "{\"url\":\"%s\",\"client\":{\"name\":\"demo\",\"version\":\"1\"}}", argv[1]);
    if (mcp_client_new(settings, strlen(settings), &client) != MCP_OK)
        return fail("reading the settings");
    mcp_client_on(client, MCP_EVENT_TASK_CREATED, on_progress, NULL, NULL);
    mcp_client_on(client, MCP_EVENT_TASK_STATUS, on_progress, NULL, NULL);
    mcp_client_on(client, MCP_EVENT_ELICITATION, on_question, NULL, NULL);
    int failed = 1;
    if (mcp_client_open(client) != MCP_OK || mcp_client_wait_open(client, 10000) != MCP_OK)
        fail("connecting");
    else
        failed = run_job(client) || cancel_job(client);
    mcp_client_close(client);
    mcp_client_wait_closed(client, 5000);
    mcp_client_free(client);
    mcp_shutdown(5000);
    return failed;
}
