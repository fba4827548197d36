/* Hears of changes of the server's list of tools, for some seconds: subscribe URL [SECONDS] */
#include <mcpnative.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_state(mcp_event *event, void *user)
{
    static const char *const names[] = {"?", "active", "lost, opened again by itself", "active again: look at the list anew", "over"};
    const char *json = mcp_event_text(event, MCP_EVENT_TEXT_JSON, NULL);
    int64_t state = 0;
    (void)user;
    mcp_event_number(event, MCP_EVENT_NUMBER_SUBSCRIPTION, &state);
    printf("subscription %s %s\n", names[state >= 1 && state <= 4 ? state : 0], json ? json : "");
}

static void on_news(mcp_event *event, void *user)
{
    (void)user;
    printf("%s\n", mcp_event_text(event, MCP_EVENT_TEXT_METHOD, NULL));
}

int main(int argc, char **argv)
{
    static const char filter[] = "{\"notifications\":{\"toolsListChanged\":true}}";
    long seconds = argc > 2 ? strtol(argv[2], NULL, 10) : 2;
    mcp_client *client = NULL;
    mcp_call *call = NULL;
    mcp_error *error = NULL;
    char settings[1024];
    int length = snprintf(settings, sizeof settings, "{\"url\":\"%s\"}", argc > 1 ? argv[1] : "http://127.0.0.1:8080/mcp");
    int failed = mcp_client_new(settings, (size_t)length, &client) < 0
                 || mcp_client_on(client, MCP_EVENT_SUBSCRIPTION, on_state, NULL, NULL) < 0
                 || mcp_client_on(client, MCP_EVENT_NOTIFICATION, on_news, NULL, NULL) < 0 || mcp_client_open(client) < 0
                 || mcp_call_start(client, "subscriptions/listen", filter, strlen(filter), NULL, 0, &call) < 0
                 /* The wait runs out, unless the server refuses. */
                 || mcp_call_wait(call, seconds * 1000) != MCP_S_TIMEOUT;
    if (failed && mcp_last_error(&error) == MCP_OK)
        fprintf(stderr, "failed: %s\n", mcp_error_text(error, MCP_ERROR_MESSAGE, NULL));
    mcp_error_free(error);
    mcp_call_cancel(call);
    mcp_call_free(call);
    mcp_client_free(client);
    mcp_shutdown(5000);
    return failed;
}
