/* A server behind a named pipe of this program: calls both ways, a cancel while the link waits for what comes, a server that
 * does not read, one that goes away and comes back, one that is busy, and no handle left behind. */
#include "win.h"

static char path[64], url[64];

/* The door: one instance of the pipe, behind which the test server sits, as a process of its own for each connection. */
static struct {
    HANDLE pipe, thread;
    HANDLE connected; /* set while a client is */
    HANDLE reading;   /* while it is not set, nothing is read from the client */
    process server;
    const char *script;
    volatile LONG closing;
    volatile LONG level; /* what the server may do in the client's name */
} door;

/* An operation on the pipe that was begun; the bytes, 0 at its end. */
static DWORD finish(BOOL begun, OVERLAPPED *operation)
{
    DWORD count = 0;
    if (!begun && GetLastError() != ERROR_IO_PENDING)
        return 0;
    return GetOverlappedResult(door.pipe, operation, &count, TRUE) ? count : 0;
}

static void note_level(void)
{
    SECURITY_IMPERSONATION_LEVEL level = SecurityAnonymous;
    HANDLE token;
    DWORD size;
    CHECK(ImpersonateNamedPipeClient(door.pipe));
    if (OpenThreadToken(GetCurrentThread(), TOKEN_QUERY, TRUE, &token)) {
        CHECK(GetTokenInformation(token, TokenImpersonationLevel, &level, sizeof level, &size));
        CloseHandle(token);
    }
    CHECK(RevertToSelf());
    door.level = (LONG)level;
}

/* What the client says goes to the server. */
static DWORD WINAPI upwards(void *unused)
{
    (void)unused;
    char bytes[4096];
    OVERLAPPED operation = {.hEvent = CreateEventA(NULL, TRUE, FALSE, NULL)};
    for (;;) {
        await(door.reading);
        DWORD count = finish(ReadFile(door.pipe, bytes, sizeof bytes, NULL, &operation), &operation), written = 0;
        if (count == 0)
            break;
        if (door.level < 0)
            note_level();
        if (!WriteFile(door.server.in, bytes, count, &written, NULL))
            break;
    }
    CloseHandle(operation.hEvent);
    /* The server goes with its connection. */
    TerminateProcess(door.server.process, 0);
    return 0;
}

static void serve_one(void)
{
    char line[1024], bytes[4096];
    DWORD count;
    snprintf(line, sizeof line, "\"%s\" --stdio --max-seconds 120 --script-json \"%s\"", server_path, door.script);
    door.server = start_process(line);
    SetEvent(door.connected);
    HANDLE up = start_thread(upwards, NULL);
    OVERLAPPED operation = {.hEvent = CreateEventA(NULL, TRUE, FALSE, NULL)};
    while (ReadFile(door.server.out, bytes, sizeof bytes, &count, NULL) && count > 0) {
        if (finish(WriteFile(door.pipe, bytes, count, NULL, &operation), &operation) == 0)
            break;
    }
    ResetEvent(door.connected);
    DisconnectNamedPipe(door.pipe);
    join(up);
    stop_process(&door.server);
    CloseHandle(operation.hEvent);
}

static DWORD WINAPI keep_door(void *unused)
{
    (void)unused;
    OVERLAPPED operation = {.hEvent = CreateEventA(NULL, TRUE, FALSE, NULL)};
    while (!door.closing) {
        DWORD nothing;
        ResetEvent(operation.hEvent);
        if (!ConnectNamedPipe(door.pipe, &operation) && GetLastError() == ERROR_IO_PENDING
            && !GetOverlappedResult(door.pipe, &operation, &nothing, TRUE))
            break;
        if (!door.closing)
            serve_one();
    }
    CloseHandle(operation.hEvent);
    return 0;
}

static void open_door(const char *script)
{
    door.script = script;
    door.closing = 0;
    door.level = -1;
    door.connected = CreateEventA(NULL, TRUE, FALSE, NULL);
    door.reading = CreateEventA(NULL, TRUE, TRUE, NULL);
    door.pipe = CreateNamedPipeA(path, PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED | FILE_FLAG_FIRST_PIPE_INSTANCE,
                                 PIPE_TYPE_BYTE | PIPE_REJECT_REMOTE_CLIENTS, 1, 4096, 4096, 0, NULL);
    CHECK(door.pipe != INVALID_HANDLE_VALUE);
    door.thread = start_thread(keep_door, NULL);
}

static void close_door(void)
{
    InterlockedExchange(&door.closing, 1);
    /* It may be about to wait for a client. */
    for (int i = 0; WaitForSingleObject(door.thread, 20) == WAIT_TIMEOUT; i++) {
        CHECK(i < PATIENCE_MS / 20);
        CancelIoEx(door.pipe, NULL);
    }
    CloseHandle(door.thread);
    CloseHandle(door.pipe);
    CloseHandle(door.connected);
    CloseHandle(door.reading);
}

static char settings[512];

static const char *settings_with(const char *more)
{
    snprintf(settings, sizeof settings, "{\"url\":\"%s\"%s}", url, more);
    return settings;
}

static void wrong_urls(void)
{
    static const struct { const char *url; mcp_status want; } all[] = {
        {"pipe://server/name", MCP_E_ARGUMENT},
        {"pipe:../x", MCP_E_ARGUMENT},
        {"pipe:", MCP_E_ARGUMENT},
        {"unix:///run/x", MCP_E_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        mcp_client *client = NULL;
        snprintf(settings, sizeof settings, "{\"url\":\"%s\"}", all[i].url);
        STATUS(all[i].want, mcp_client_new(settings, strlen(settings), &client));
    }
    mcp_client *nobody = new_client("{\"url\":\"pipe:mcpnative-nobody\"}");
    STATUS(MCP_OK, mcp_client_open(nobody));
    STATUS(MCP_E_CONNECT, mcp_client_wait_open(nobody, PATIENCE_MS));
    end_client(nobody);
}

static volatile LONG asked;

static void on_question(mcp_event *event, void *user)
{
    mcp_input *input = NULL;
    (void)user;
    STATUS(MCP_OK, mcp_event_input(event, &input));
    STATUS(MCP_OK, mcp_input_answer(input, "{\"name\":\"Ada\"}", 14));
    mcp_input_free(input);
    InterlockedIncrement(&asked);
}

/* A legacy server asks by requests of its own. */
static void both_ways(void)
{
    open_door("{\\\"options\\\":{\\\"era\\\":\\\"legacy\\\"}}");
    mcp_client *client = new_client(settings_with(""));
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_ELICITATION, on_question, NULL, NULL));
    STATUS(MCP_OK, mcp_client_open(client));
    STATUS(MCP_OK, mcp_client_wait_open(client, PATIENCE_MS));
    check_usable(client);
    CHECK(strstr(run_tool(client, "ask_elicitation", "{}"), "Ada") != NULL && asked == 1);

    mcp_call *waiting = start_waiting(client);
    STATUS(MCP_OK, mcp_call_cancel(waiting));
    STATUS(MCP_E_CANCELLED, mcp_call_wait(waiting, PATIENCE_MS));
    mcp_call_free(waiting);
    check_usable(client);
    end_client(client);
    close_door();
    CHECK(door.level >= 0);
    /* wine gives every server the right to act in its client's name. */
    if (!GetProcAddress(GetModuleHandleA("ntdll.dll"), "wine_get_version"))
        CHECK(door.level <= SecurityIdentification);
}

/* The server goes away while a call waits; the next call finds it again. A close does not wait for what may never come. */
static void gone_and_back(void)
{
    open_door("{}");
    mcp_client *client = open_client(settings_with(",\"restart\":{\"backoff_ms\":0}"));
    mcp_call *waiting = start_waiting(client);
    CHECK(TerminateProcess(door.server.process, 1));
    STATUS(MCP_E_OUTCOME_UNKNOWN, mcp_call_wait(waiting, PATIENCE_MS));
    mcp_call_free(waiting);
    check_usable(client);
    waiting = start_waiting(client);
    end_client(client);
    STATUS(MCP_E_CLOSED, mcp_call_wait(waiting, PATIENCE_MS));
    mcp_call_free(waiting);
    close_door();
}

/* What does not fit into the pipe waits within the limits of its call, can be cancelled, and leaves the line whole. */
static void a_server_that_does_not_read(void)
{
    enum { LONG_TEXT = 1 << 20 };
    char *arguments = malloc(LONG_TEXT + 32);
    size_t start = (size_t)sprintf(arguments, "{\"text\":\"");
    memset(arguments + start, 'x', LONG_TEXT);
    strcpy(arguments + start + LONG_TEXT, "\"}");
    open_door("{}");
    mcp_client *client = open_client(settings_with(""));
    ResetEvent(door.reading);
    mcp_call *late = start_tool(client, "echo", arguments, "{\"total_ms\":200}");
    STATUS(MCP_E_TIMEOUT, mcp_call_wait(late, PATIENCE_MS));
    mcp_call_free(late);
    mcp_call *cut = start_tool(client, "echo", arguments, NULL);
    STATUS(MCP_OK, mcp_call_cancel(cut));
    STATUS(MCP_E_CANCELLED, mcp_call_wait(cut, PATIENCE_MS));
    mcp_call_free(cut);
    SetEvent(door.reading);
    check_usable(client);
    /* Closed with a line half out. */
    ResetEvent(door.reading);
    late = start_tool(client, "echo", arguments, "{\"total_ms\":200}");
    STATUS(MCP_E_TIMEOUT, mcp_call_wait(late, PATIENCE_MS));
    mcp_call_free(late);
    end_client(client);
    SetEvent(door.reading);
    close_door();
    free(arguments);
}

/* All instances are taken: a client waits as long as a connection may take, and gets the next free one. */
static void a_busy_server(void)
{
    open_door("{}");
    HANDLE first = CreateFileA(path, GENERIC_READ | GENERIC_WRITE, 0, NULL, OPEN_EXISTING, 0, NULL);
    CHECK(first != INVALID_HANDLE_VALUE);
    await(door.connected);
    mcp_client *client = new_client(settings_with(",\"timeouts\":{\"connect_ms\":200}"));
    STATUS(MCP_OK, mcp_client_open(client));
    STATUS(MCP_E_TIMEOUT, mcp_client_wait_open(client, PATIENCE_MS));
    end_client(client);
    client = new_client(settings_with(",\"timeouts\":{\"connect_ms\":60000}"));
    STATUS(MCP_OK, mcp_client_open(client));
    STATUS(MCP_S_TIMEOUT, mcp_client_wait_open(client, 300));
    CloseHandle(first);
    STATUS(MCP_OK, mcp_client_wait_open(client, PATIENCE_MS));
    check_usable(client);
    end_client(client);
    /* One that waits at the door can be closed. */
    first = CreateFileA(path, GENERIC_READ | GENERIC_WRITE, 0, NULL, OPEN_EXISTING, 0, NULL);
    while (first == INVALID_HANDLE_VALUE) {
        CHECK(GetLastError() == ERROR_PIPE_BUSY && WaitNamedPipeA(path, PATIENCE_MS));
        first = CreateFileA(path, GENERIC_READ | GENERIC_WRITE, 0, NULL, OPEN_EXISTING, 0, NULL);
    }
    await(door.connected);
    client = new_client(settings_with(",\"timeouts\":{\"connect_ms\":-1}"));
    STATUS(MCP_OK, mcp_client_open(client));
    STATUS(MCP_S_TIMEOUT, mcp_client_wait_open(client, 100));
    end_client(client);
    CloseHandle(first);
    close_door();
}

/* wine does not count the handles of a process: each number that one may have is tried. */
static int handles(void)
{
    int count = 0;
    DWORD flags;
    for (uintptr_t number = 4; number < 1 << 14; number += 4)
        count += GetHandleInformation((HANDLE)number, &flags) != 0;
    return count;
}

static void no_handle_stays(void)
{
    int before = 0, after = 0;
    open_door("{}");
    end_client(open_client(settings_with("")));
    for (int round = 0; round <= 20; round++) {
        mcp_client *client = open_client(settings_with(""));
        check_usable(client);
        end_client(client);
        *(round == 0 ? &before : &after) = handles();
    }
    close_door();
    printf("handles %d, after 20 connections %d\n", before, after);
    /* A thread of the library's may come or go; one handle for each connection would be 20. */
    CHECK(before > 0 && after < before + 10);
}

void pipes_program(void)
{
    snprintf(path, sizeof path, "\\\\.\\pipe\\mcpnative-test %lu", GetCurrentProcessId());
    snprintf(url, sizeof url, "pipe:mcpnative-test%%20%lu", GetCurrentProcessId());
    wrong_urls();
    both_ways();
    gone_and_back();
    a_server_that_does_not_read();
    a_busy_server();
    no_handle_stays();
}
