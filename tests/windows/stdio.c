/* A local server as a child process: arguments and environment, calls in flight, a cancel, its end and that of everything
 * that it started, also where it does not want to end, and where this process does not say goodbye. */
#include "win.h"

static DWORD number_after(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    CHECK(at != NULL);
    return strtoul(at + strlen(key), NULL, 10);
}

static char *settings_of(const char *arguments, const char *more)
{
    char *command = quoted(server_path), *directory = quoted(folder);
    size_t size = strlen(arguments) + strlen(more) + strlen(command) + strlen(directory) + 256;
    char *settings = malloc(size);
    snprintf(settings, size, "{\"command\":%s,\"args\":[\"--stdio\",%s],\"cwd\":%s%s}", command, arguments, directory, more);
    free(command);
    free(directory);
    return settings;
}

static DWORD pid_of(mcp_client *client)
{
    return number_after(run_tool(client, "arguments", "{}"), "\"pid\":");
}

/* The record has the id of what the server started. */
static DWORD grandchild(const char *record)
{
    static char text[65536];
    FILE *file = fopen(record, "rb");
    CHECK(file != NULL);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    const char *line = strstr(text, "\"grandchild\"");
    CHECK(line != NULL);
    while (line > text && line[-1] != '\n')
        line--;
    return number_after(line, "\"body\":\"");
}

static void a_whole_life(void)
{
    static const char nasty[] = "\"a b\",\"q\\\"uote\",\"back\\\\slash\\\\\",\"\",\"%PATH%\",\"\xc3\xa4\",\"x\\\\\\\"y\"";
    char record[MAX_PATH], arguments[2048];
    snprintf(record, sizeof record, "%s\\record.jsonl", folder);
    DeleteFileA(record);
    char *file = quoted(record);
    snprintf(arguments, sizeof arguments,
             "\"--script-json\",\"{\\\"options\\\":{\\\"grandchild_ms\\\":120000}}\",\"--record\",%s,\"--\",%s", file, nasty);
    free(file);
    SetEnvironmentVariableA("MCP_TEST_SECRET", "do not tell");
    char *settings = settings_of(arguments, ",\"env\":{\"MCP_TEST_ADDED\":\"\xc3\xa4 b\"},\"timeouts\":{\"close_ms\":500}");
    mcp_client *client = open_client(settings);
    free(settings);
    check_usable(client);
    CHECK(strstr(run_tool(client, "arguments", "{}"), nasty) != NULL);
    const char *environment = run_tool(client, "environment", "{}");
    CHECK(strstr(environment, "\"MCP_TEST_ADDED\":\"\xc3\xa4 b\"") != NULL && strstr(environment, "MCP_TEST_SECRET") == NULL);

    /* Many in flight, and one that is cut while the link waits for what comes. */
    mcp_call *waiting = start_waiting(client), *calls[50];
    for (int i = 0; i < 50; i++)
        calls[i] = start_tool(client, "echo", "{\"text\":\"x\"}", NULL);
    for (int i = 0; i < 50; i++) {
        STATUS(MCP_OK, mcp_call_wait(calls[i], PATIENCE_MS));
        mcp_call_free(calls[i]);
    }
    STATUS(MCP_OK, mcp_call_cancel(waiting));
    STATUS(MCP_E_CANCELLED, mcp_call_wait(waiting, PATIENCE_MS));
    mcp_call_free(waiting);
    check_usable(client);

    DWORD server = pid_of(client), child = grandchild(record);
    CHECK(server != 0 && child != 0 && server != child);
    end_client(client);
    CHECK(has_ended(server) && has_ended(child));
}

static void a_server_that_does_not_end(void)
{
    char *settings = settings_of("\"--script-json\",\"{\\\"rules\\\":[{\\\"match\\\":{\\\"end\\\":true},\\\"do\\\":{\\\"never\\\":true}}]}\"",
                                 ",\"timeouts\":{\"close_ms\":200}");
    mcp_client *client = open_client(settings);
    free(settings);
    DWORD server = pid_of(client);
    end_client(client);
    CHECK(has_ended(server));
}

static void a_server_that_does_not_start(void)
{
    char *settings = settings_of("\"--script-json\",\"{\\\"rules\\\":[{\\\"match\\\":{\\\"accept\\\":true},\\\"do\\\":{\\\"stderr\\\":\\\"no token\\\\n\\\",\\\"exit\\\":3}}]}\"", "");
    mcp_client *client = new_client(settings);
    free(settings);
    STATUS(MCP_OK, mcp_client_open(client));
    STATUS(MCP_E_CHILD_EXIT, mcp_client_wait_open(client, PATIENCE_MS));
    mcp_error *error = NULL;
    int64_t code = 0;
    mcp_last_error(&error);
    STATUS(MCP_OK, mcp_error_number(error, MCP_ERROR_EXIT_CODE, &code));
    CHECK(code == 3 && strstr(mcp_error_text(error, MCP_ERROR_STDERR, NULL), "no token") != NULL);
    mcp_error_free(error);
    end_client(client);
}

/* `serve.cmd` is found by its name without the end, on the PATH of its settings, and gets its arguments as they are. */
static void a_batch_file(void)
{
    char script[MAX_PATH], settings[4096];
    snprintf(script, sizeof script, "%s\\serve it.cmd", folder);
    FILE *file = fopen(script, "wb");
    CHECK(file != NULL);
    fprintf(file, "@\"%s\" %%*\r\n", server_path);
    fclose(file);
    char *path = quoted(folder);
    snprintf(settings, sizeof settings,
             "{\"command\":\"serve it\",\"args\":[\"--stdio\",\"--\",\"a b\",\"c&d\"],\"env\":{\"PATH\":%s}}", path);
    free(path);
    mcp_client *client = open_client(settings);
    CHECK(strstr(run_tool(client, "arguments", "{}"), "\"a b\",\"c&d\"") != NULL);
    DWORD server = pid_of(client);
    end_client(client);
    CHECK(has_ended(server));
}

/* The part of a host that dies. */
void stdio_crash(void)
{
    char *settings = settings_of("\"--max-seconds\",\"120\"", "");
    mcp_client *client = open_client(settings);
    printf("server %lu\n", pid_of(client));
    fflush(stdout);
    TerminateProcess(GetCurrentProcess(), 7);
}

static void a_host_that_dies(void)
{
    char line[1024], self[MAX_PATH], said[64] = "";
    DWORD got = 0;
    GetModuleFileNameA(NULL, self, sizeof self);
    snprintf(line, sizeof line, "\"%s\" stdio-crash \"%s\" \"%s\"", self, server_path, folder);
    process host = start_process(line);
    CHECK(ReadFile(host.out, said, sizeof said - 1, &got, NULL));
    DWORD server = number_after(said, "server ");
    CHECK(wait_process(&host) == 7 && has_ended(server));
    stop_process(&host);
}

void stdio_program(void)
{
    a_whole_life();
    a_server_that_does_not_end();
    a_server_that_does_not_start();
    a_batch_file();
    a_host_that_dies();
}
