/* A host with floating-point traps, as Delphi and Free Pascal programs are: numbers such as 1e999 raise nothing in it,
 * its traps stay armed after each call, and callbacks on its own threads run under its own control word.
 *
 * The server's script:
 {"rules": [
   {"match": {"method": "tools/call", "name": "odd"}, "do": {"body": "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"resultType\":\"complete\",\"content\":[{\"type\":\"text\",\"text\":\"odd\"}],\"structuredContent\":{\"a\":1e999,\"b\":-1e999,\"c\":1e-999,\"d\":17976931348623159e300,\"e\":0.1}}}", "headers": {"Content-Type": "application/json"}}},
   {"match": {"method": "tools/call", "name": "note"}, "do": {"sse": [
     {"message": {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "$token", "progress": 0.5, "total": 3.0}}},
     {"result": {"resultType": "complete", "content": [], "x": 1.5}}]}}],
  "tasks": [{"tool": "job", "seed": {"pollIntervalMs": 10.5, "ttlMs": 60000.75}, "polls": [
     {"task": {"pollIntervalMs": 12.25}}, {"task": {"status": "completed", "result": {"content": [], "y": 3.25}}}]}]}
 */
#include "check.h"

#include <fenv.h>

#if !defined(__x86_64__) && !defined(__i386__)
PROGRAM
{
    puts("no floating-point traps to be had here");
}
#else

#define TRAPS (FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW)

static counter on_host = COUNTER, destroyed = COUNTER;
static pthread_t me;

#define check_armed() EQUAL(TRAPS, fegetexcept())

/* A control word with everything unusual: traps, and rounding. */
static void on_event(mcp_event *event, void *user)
{
    (void)user;
    if (pthread_equal(me, pthread_self())) {
        check_armed();
        EQUAL(FE_DOWNWARD, fegetround());
        count(&on_host);
        mcp_event *kept = NULL;
        STATUS(MCP_OK, mcp_event_keep(event, &kept));
        STATUS(MCP_OK, mcp_event_free(kept));
        check_armed();
    } else {
        /* A thread of the library's has the default word, whatever its starter had. */
        EQUAL(0, fegetexcept());
        EQUAL(FE_TONEAREST, fegetround());
    }
}

static void on_destroy(void *user)
{
    if (pthread_equal(me, pthread_self())) {
        check_armed();
        EQUAL(FE_DOWNWARD, fegetround());
    }
    count(user);
}

static void calls(mcp_client *client, mcp_queue *queue)
{
    static const char *const tools[] = {"odd", "note", "job", "echo"};
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        const char *arguments = "{\"x\":1e999,\"y\":0.1,\"z\":17976931348623159e300}";
        mcp_call *call = NULL;
        mcp_result *result = NULL;
        STATUS(MCP_OK, mcp_tool_run(client, tools[i], arguments, strlen(arguments), "{\"total_ms\":60000}", 18,
                                    PATIENCE_MS, &call));
        check_armed();
        STATUS(MCP_OK, mcp_call_result(call, &result));
        size_t length = 0;
        CHECK(mcp_result_text(result, MCP_RESULT_JSON, &length) != NULL);
        mcp_result_text(result, MCP_RESULT_STRUCTURED, NULL);
        check_armed();
        STATUS(MCP_OK, mcp_result_free(result));
        STATUS(MCP_OK, mcp_call_free(call));
        call = start_tool(client, tools[i], arguments);
        CHECK(mcp_call_wait(call, PATIENCE_MS) >= 0);
        check_armed();
        STATUS(MCP_OK, mcp_call_free(call));
        while (queue && mcp_queue_dispatch(queue, 0, NULL) == MCP_OK)
            check_armed();
    }
}

PROGRAM
{
    me = pthread_self();
    feclearexcept(FE_ALL_EXCEPT);
    CHECK(feenableexcept(TRAPS) != -1);
    CHECK(fesetround(FE_DOWNWARD) == 0);
    check_armed();

    mcp_client *client = new_client(",\"extensions\":{\"com.example/x\":{\"big\":1e999}}");
    check_armed();
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_ANY, on_event, NULL, NULL));
    open_client(client);
    calls(client, NULL);
    end_client(client);

    mcp_queue *queue = NULL;
    STATUS(MCP_OK, mcp_queue_new(&queue));
    client = new_client("");
    STATUS(MCP_OK, mcp_client_set_queue(client, queue));
    /* Destructors on this thread: of one that is refused, one that is replaced, one at the end. */
    STATUS(MCP_E_ARGUMENT, mcp_client_on(client, 4711, on_event, &destroyed, on_destroy));
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_ANY, on_event, &destroyed, on_destroy));
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_ANY, on_event, &destroyed, on_destroy));
    EQUAL(2, counted(&destroyed));
    open_client(client);
    calls(client, queue);
    end_client(client);
    EQUAL(3, counted(&destroyed));
    CHECK(counted(&on_host) > 0);
    STATUS(MCP_OK, mcp_queue_free(queue));
    end_library();
    check_armed();
    EQUAL(FE_DOWNWARD, fegetround());
    CHECK(fetestexcept(TRAPS) == 0);
}
#endif
