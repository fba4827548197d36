/* A job that asked a question and got its answer leaves nothing behind: question, task, client and the library's own
 * threads and tables end, which valgrind looks at.
 */
#include "check.h"

static void on_question(mcp_event *event, void *user)
{
    mcp_input *input = NULL;
    STATUS(MCP_OK, mcp_event_input(event, &input));
    STATUS(MCP_E_ARGUMENT, mcp_input_answer(input, NULL, 0));
    STATUS(MCP_OK, mcp_input_answer(input, "{\"value\":\"yes\"}", 15));
    STATUS(MCP_S_ALREADY_DONE, mcp_input_answer(input, "{\"value\":\"no\"}", 14));
    STATUS(MCP_OK, mcp_input_free(input));
    count(user);
}

PROGRAM
{
    static const char job[] = "{\"steps\":2,\"step_ms\":20,\"poll_ms\":100,\"ask\":true}";
    counter asked = COUNTER;
    mcp_client *client = new_client("");
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_ELICITATION, on_question, &asked, NULL));
    open_client(client);
    for (int round = 1; round <= 3; round++) {
        mcp_call *call = NULL;
        STATUS(MCP_OK, mcp_tool_run(client, "slow_job", job, sizeof job - 1, NULL, 0, PATIENCE_MS, &call));
        EQUAL(round, counted(&asked));
        STATUS(MCP_OK, mcp_call_free(call));
    }
    end_client(client);
    end_library();
}
