/* BR-48 d: a peer that announces or sends absurd sizes costs a call, not the process.
 *
 * The server's script:
 {"rules": [
   {"match": {"method": "tools/call", "name": "announce"}, "do": {"result": {"resultType": "complete", "content": []}, "content_length": 9000000000000000000, "then": "close_silently"}},
   {"match": {"method": "tools/call", "name": "announce_more"}, "do": {"headers": {"Content-Type": "application/json", "Content-Length": "99999999999999999999999999"}, "framing": "close", "body": "{}"}},
   {"match": {"method": "tools/call", "name": "limit"}, "do": {"result": {"resultType": "complete", "content": []}, "content_length": 2000000, "then": "close_silently"}},
   {"match": {"method": "tools/call", "name": "chunk"}, "do": {"headers": {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}, "framing": "close", "body": "FFFFFFFFFFFFFFFF\r\n{}"}},
   {"match": {"method": "tools/call", "name": "retry"}, "do": {"http_status": 503, "headers": {"Retry-After": "99999999999999999999"}}}],
  "tasks": [{"tool": "eternal", "seed": {"ttlMs": 1e300, "pollIntervalMs": 9223372036854775807}, "polls": [{"task": {}}]}]}
 */
#include "check.h"

#include <sys/resource.h>

PROGRAM
{
    /* An allocation of what the peer says would fail here, visibly. */
    struct rlimit limit = {(rlim_t)3 << 30, (rlim_t)3 << 30};
    setrlimit(RLIMIT_AS, &limit);
    static const char *const tools[] = {"announce", "announce_more", "limit", "chunk", "retry"};
    mcp_client *client = new_client(",\"limits\":{\"message_bytes\":1000000}");
    open_client(client);
    mcp_call *call = NULL;
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        mcp_status ended = mcp_tool_run(client, tools[i], NULL, 0, NULL, 0, PATIENCE_MS, &call);
        printf("%s: %s\n", tools[i], mcp_status_name(ended));
        CHECK(ended < 0 && ended != MCP_E_PANIC && ended != MCP_E_MEMORY && ended != MCP_E_INTERNAL);
        mcp_error *error = NULL;
        STATUS(MCP_OK, mcp_call_error(call, &error));
        CHECK(mcp_error_text(error, MCP_ERROR_MESSAGE, NULL) != NULL);
        STATUS(MCP_OK, mcp_error_free(error));
        STATUS(MCP_OK, mcp_call_free(call));
        check_usable(client);
    }
    /* Really sent: over the limit, then under it. */
    STATUS(MCP_E_TOO_LARGE, mcp_tool_run(client, "big", "{\"bytes\":3000000}", 17, NULL, 0, PATIENCE_MS, &call));
    STATUS(MCP_OK, mcp_call_free(call));
    STATUS(MCP_OK, mcp_tool_run(client, "big", "{\"bytes\":300000}", 16, NULL, 0, PATIENCE_MS, &call));
    STATUS(MCP_OK, mcp_call_free(call));
    /* A task with absurd times is followed, and can be let go. */
    mcp_task *task = NULL;
    call = start_tool(client, "eternal", "{}");
    STATUS(MCP_S_TASK, mcp_call_wait(call, PATIENCE_MS));
    STATUS(MCP_OK, mcp_call_task(call, &task));
    STATUS(MCP_OK, mcp_task_let_go(task));
    STATUS(MCP_OK, mcp_task_free(task));
    STATUS(MCP_OK, mcp_call_free(call));
    check_usable(client);
    end_client(client);
    end_library();
}
