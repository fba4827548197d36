/* The tiny program of somebody who found the package: calls a tool of the server at URL. */
#include <mcpnative.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    char settings[512];
    mcp_client *client = NULL;
    mcp_call *call = NULL;
    if (argc < 2 || mcp_abi_version() != MCP_ABI_VERSION)
        return 2;
    int length = snprintf(settings, sizeof settings, "{\"url\":\"%s\"}", argv[1]);
    int failed = mcp_client_new(settings, (size_t)length, &client) != MCP_OK || mcp_client_open(client) != MCP_OK
                 || mcp_tool_run(client, "echo", NULL, 0, NULL, 0, 60000, &call) != MCP_OK;
    mcp_call_free(call);
    mcp_client_free(client);
    return failed || mcp_shutdown(60000) != MCP_OK;
}
