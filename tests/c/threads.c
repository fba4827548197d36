/* Many threads use one client at once. */
#include "check.h"

enum { THREADS = 8, ROUNDS = 25 };

static mcp_client *client;
static counter done = COUNTER;

static void on_done(mcp_event *event, void *user)
{
    (void)event;
    (void)user;
    count(&done);
}

static void *work(void *which)
{
    for (int round = 0; round < ROUNDS; round++) {
        char arguments[64], want[64];
        int number = (int)(intptr_t)which * 1000 + round;
        snprintf(arguments, sizeof arguments, "{\"n\":%d}", number);
        snprintf(want, sizeof want, "%d", number);
        mcp_call *call = NULL;
        mcp_result *result = NULL;
        if (round % 2) {
            STATUS(MCP_OK, mcp_tool_run(client, "echo", arguments, strlen(arguments), NULL, 0, PATIENCE_MS, &call));
        } else {
            call = start_tool(client, "echo", arguments);
            STATUS(MCP_OK, mcp_call_wait(call, PATIENCE_MS));
        }
        STATUS(MCP_OK, mcp_call_result(call, &result));
        CHECK(strstr(mcp_result_text(result, MCP_RESULT_JSON, NULL), want) != NULL);
        STATUS(MCP_OK, mcp_result_free(result));
        STATUS(MCP_OK, mcp_call_free(call));
        /* A failure on this thread is not seen on another. */
        mcp_error *error = NULL;
        STATUS(MCP_E_HANDLE, mcp_call_cancel(NULL));
        sched_yield();
        STATUS(MCP_OK, mcp_last_error(&error));
        int64_t status = 0;
        STATUS(MCP_OK, mcp_error_number(error, MCP_ERROR_STATUS, &status));
        EQUAL(MCP_E_HANDLE, status);
        STATUS(MCP_OK, mcp_error_free(error));
        mcp_text *text = NULL;
        STATUS(MCP_OK, mcp_client_stats(client, &text));
        CHECK(mcp_text_get(text, NULL) != NULL);
        STATUS(MCP_OK, mcp_text_free(text));
    }
    return NULL;
}

PROGRAM
{
    client = new_client("");
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_CALL_DONE, on_done, NULL, NULL));
    /* Calls may be started at once: they wait for the opening. */
    STATUS(MCP_OK, mcp_client_open(client));
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = start_thread(work, (void *)(intptr_t)(i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    end_client(client);
    /* Each started call has told its end, once; the others are in their caller's hands. */
    EQUAL(THREADS * ((ROUNDS + 1) / 2), counted(&done));
    end_library();
}
