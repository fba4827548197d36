/* A long job in a program with one thread and an event loop of its own (here: poll). The job's events come in that
 * loop; the program could do anything else meanwhile.
 *
 *   long_job URL [TOOL ARGUMENTS]
 */
#include <mcpnative.h>

#include <poll.h>
#include <stdio.h>
#include <string.h>

struct job {
    int over, failed;
};

static void tell(const char *what, mcp_error *error)
{
    const char *why = error ? mcp_error_text(error, MCP_ERROR_MESSAGE, NULL) : NULL;
    fprintf(stderr, "%s: %s\n", what, why ? why : "no reason given");
}

static void on_status(mcp_event *event, void *user)
{
    mcp_snapshot *snapshot = NULL;
    (void)user;
    if (mcp_event_snapshot(event, &snapshot) == MCP_OK) {
        const char *message = mcp_snapshot_text(snapshot, MCP_SNAPSHOT_MESSAGE, NULL);
        printf("%s\n", message ? message : "working");
    }
    mcp_snapshot_free(snapshot);
}

static void on_end(mcp_event *event, void *user)
{
    struct job *job = user;
    mcp_snapshot *snapshot = NULL;
    mcp_result *result = NULL;
    mcp_error *error = NULL;
    mcp_event_snapshot(event, &snapshot);
    if (mcp_snapshot_result(snapshot, &result) == MCP_OK) {
        const char *text = mcp_result_text(result, MCP_RESULT_TEXT, NULL);
        printf("done: %s\n", text ? text : mcp_result_text(result, MCP_RESULT_JSON, NULL));
    } else {
        mcp_snapshot_error(snapshot, &error);
        tell("the job ended without a result", error);
        job->failed = 1;
    }
    mcp_error_free(error);
    mcp_result_free(result);
    mcp_snapshot_free(snapshot);
    job->over = 1;
}

/* The call ends with its task, or, at a server without tasks, with the result itself. */
static void on_call(mcp_event *event, void *user)
{
    struct job *job = user;
    mcp_call *call = NULL;
    mcp_result *result = NULL;
    mcp_error *error = NULL;
    mcp_event_call(event, &call);
    mcp_status status = mcp_call_status(call);
    if (status == MCP_OK && mcp_call_result(call, &result) == MCP_OK) {
        const char *text = mcp_result_text(result, MCP_RESULT_TEXT, NULL);
        printf("done at once: %s\n", text ? text : mcp_result_text(result, MCP_RESULT_JSON, NULL));
    } else if (status < 0) {
        mcp_call_error(call, &error);
        tell("the call failed", error);
        job->failed = 1;
    }
    job->over = status != MCP_S_TASK;
    mcp_error_free(error);
    mcp_result_free(result);
    mcp_call_free(call);
}

/* The server asks the user. A program with a window would keep the input and answer when the user has. */
static void on_question(mcp_event *event, void *user)
{
    static const char answer[] = "{\"value\":\"yes\"}";
    mcp_input *input = NULL;
    (void)user;
    if (mcp_event_input(event, &input) == MCP_OK) {
        const char *message = mcp_input_text(input, MCP_INPUT_MESSAGE, NULL);
        printf("the server asks: %s -> yes\n", message ? message : "");
        mcp_input_answer(input, answer, strlen(answer));
    }
    mcp_input_free(input);
}

int main(int argc, char **argv)
{
    const char *tool = argc > 3 ? argv[2] : "slow_job", *arguments = argc > 3 ? argv[3] : "{\"steps\":5,\"ask\":true}";
    struct job job = {0, 0};
    mcp_queue *queue = NULL;
    mcp_client *client = NULL;
    mcp_call *call = NULL;
    mcp_error *error = NULL;
    int64_t descriptor = -1;
    char settings[1024];
    int length = snprintf(settings, sizeof settings, "{\"url\":\"%s\"}", argc > 1 ? argv[1] : "http://127.0.0.1:8080/mcp");

    if (mcp_queue_new(&queue) < 0 || mcp_queue_descriptor(queue, &descriptor) < 0
        || mcp_client_new(settings, (size_t)length, &client) < 0 || mcp_client_set_queue(client, queue) < 0
        || mcp_client_on(client, MCP_EVENT_TASK_CREATED, on_status, NULL, NULL) < 0
        || mcp_client_on(client, MCP_EVENT_TASK_STATUS, on_status, NULL, NULL) < 0
        || mcp_client_on(client, MCP_EVENT_TASK_DONE, on_end, &job, NULL) < 0
        || mcp_client_on(client, MCP_EVENT_CALL_DONE, on_call, &job, NULL) < 0
        || mcp_client_on(client, MCP_EVENT_ELICITATION, on_question, NULL, NULL) < 0 || mcp_client_open(client) < 0
        || mcp_tool_call(client, tool, arguments, strlen(arguments), NULL, 0, &call) < 0) {
        mcp_last_error(&error);
        tell("cannot start", error);
        mcp_error_free(error);
        job.over = job.failed = 1;
    }
    while (!job.over) {
        struct pollfd news = {(int)descriptor, POLLIN, 0};
        poll(&news, 1, -1);
        mcp_queue_dispatch(queue, 0, NULL);
    }
    mcp_call_free(call);
    mcp_client_free(client);
    /* Serves the queue on this thread for the last time, then frees it. */
    mcp_shutdown(5000);
    mcp_queue_free(queue);
    return job.failed;
}
