/* A job that outlives the process that started it: the process is killed, the next one finds the task in the ledger's file
 * and follows it to its end; after its acknowledgement it is not told of again. */
#include "win.h"

static char *settings_of(const char *url)
{
    char path[MAX_PATH], *file;
    snprintf(path, sizeof path, "%s\\led\xc3\xa4ger.db", folder);
    file = quoted(path);
    char *settings = malloc(strlen(file) + strlen(url) + 128);
    sprintf(settings, "{\"url\":\"%s\",\"tasks\":{\"ledger\":{\"file\":%s}}}", url, file);
    free(file);
    return settings;
}

static mcp_task *found;
static HANDLE done;
static volatile LONG resumed;

static void on_event(mcp_event *event, void *user)
{
    (void)user;
    if (mcp_event_kind(event) == MCP_EVENT_TASK_RESUMED) {
        InterlockedIncrement(&resumed);
        STATUS(MCP_OK, mcp_event_task(event, &found));
    }
    if (mcp_event_kind(event) == MCP_EVENT_TASK_DONE)
        SetEvent(done);
}

static mcp_client *next_process(const char *url)
{
    char *settings = settings_of(url);
    mcp_client *client = new_client(settings);
    free(settings);
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_ANY, on_event, NULL, NULL));
    STATUS(MCP_OK, mcp_client_open(client));
    STATUS(MCP_OK, mcp_client_wait_open(client, PATIENCE_MS));
    return client;
}

void ledger_crash(const char *url)
{
    char *settings = settings_of(url);
    mcp_client *client = open_client(settings);
    mcp_call *call = start_tool(client, "slow_job", "{\"steps\":20,\"step_ms\":100,\"poll_ms\":100}", NULL);
    STATUS(MCP_S_TASK, mcp_call_wait(call, PATIENCE_MS));
    TerminateProcess(GetCurrentProcess(), 7);
}

void ledger_program(void)
{
    char url[128], line[1024], self[MAX_PATH];
    process server = start_http_server(url, sizeof url);
    GetModuleFileNameA(NULL, self, sizeof self);
    snprintf(line, sizeof line, "\"%s\" ledger-crash \"%s\" \"%s\" %s", self, server_path, folder, url);
    process host = start_process(line);
    CHECK(wait_process(&host) == 7);
    stop_process(&host);

    done = CreateEventA(NULL, TRUE, FALSE, NULL);
    mcp_client *client = next_process(url);
    await(done);
    CHECK(resumed == 1);
    mcp_snapshot *snapshot = NULL;
    int64_t status = 0;
    STATUS(MCP_OK, mcp_task_wait(found, PATIENCE_MS, &snapshot));
    STATUS(MCP_OK, mcp_snapshot_number(snapshot, MCP_SNAPSHOT_STATUS, &status));
    CHECK(status == MCP_TASK_COMPLETED);
    mcp_snapshot_free(snapshot);
    STATUS(MCP_OK, mcp_task_acknowledge(found));
    mcp_task_free(found);
    end_client(client);
    end_client(next_process(url));
    CHECK(resumed == 1);
    CloseHandle(done);
    stop_process(&server);
}
