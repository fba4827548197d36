/* A tool call in ten lines: quick URL [TOOL ARGUMENTS] */
#include <mcpnative.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *tool = argc > 3 ? argv[2] : "add", *arguments = argc > 3 ? argv[3] : "{\"a\":1,\"b\":2}";
    mcp_client *client = NULL;
    mcp_call *call = NULL;
    mcp_result *result = NULL;
    mcp_error *error = NULL;
    char settings[1024];
    int length = snprintf(settings, sizeof settings, "{\"url\":\"%s\"}", argc > 1 ? argv[1] : "http://127.0.0.1:8080/mcp");
    int failed = mcp_client_new(settings, (size_t)length, &client) < 0 || mcp_client_open(client) < 0
                 || mcp_tool_run(client, tool, arguments, strlen(arguments), NULL, 0, 60000, &call) < 0
                 || mcp_call_result(call, &result) != MCP_OK;
    if (failed) {
        mcp_last_error(&error);
        fprintf(stderr, "failed: %s\n", error ? mcp_error_text(error, MCP_ERROR_MESSAGE, NULL) : "no result");
    } else {
        const char *text = mcp_result_text(result, MCP_RESULT_TEXT, NULL);
        puts(text ? text : mcp_result_text(result, MCP_RESULT_JSON, NULL));
    }
    mcp_error_free(error);
    mcp_result_free(result);
    mcp_call_free(call);
    mcp_client_free(client);
    mcp_shutdown(5000);
    return failed;
}
