#include "win.h"


const char *server_path, *folder;

void check_status(const char *file, int line, const char *what, mcp_status want, mcp_status have)
{
    if (want != have) {
        mcp_error *error = NULL;
        mcp_last_error(&error);
        const char *why = error ? mcp_error_text(error, MCP_ERROR_MESSAGE, NULL) : "no last error";
        fprintf(stderr, "%s:%d: %s: expected %s but found %s (%s)\n", file, line, what, mcp_status_name(want),
                mcp_status_name(have), why);
        fflush(stderr);
        TerminateProcess(GetCurrentProcess(), 1);
    }
}

process start_process(const char *command_line)
{
    process p = {0};
    SECURITY_ATTRIBUTES inherited = {sizeof inherited, NULL, TRUE};
    HANDLE its_in, its_out;
    /* One at a time: a child must not get the ends that are made for another one. */
    static SRWLOCK one = SRWLOCK_INIT;
    AcquireSRWLockExclusive(&one);
    CHECK(CreatePipe(&its_in, &p.in, &inherited, 0) && SetHandleInformation(p.in, HANDLE_FLAG_INHERIT, 0));
    CHECK(CreatePipe(&p.out, &its_out, &inherited, 0) && SetHandleInformation(p.out, HANDLE_FLAG_INHERIT, 0));
    STARTUPINFOA how = {.cb = sizeof how, .dwFlags = STARTF_USESTDHANDLES};
    how.hStdInput = its_in;
    how.hStdOutput = its_out;
    how.hStdError = GetStdHandle(STD_ERROR_HANDLE);
    PROCESS_INFORMATION made;
    char *line = _strdup(command_line);
    CHECK(CreateProcessA(NULL, line, NULL, NULL, TRUE, CREATE_SUSPENDED, NULL, NULL, &how, &made));
    free(line);
    p.job = CreateJobObjectA(NULL, NULL);
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {0};
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    CHECK(SetInformationJobObject(p.job, JobObjectExtendedLimitInformation, &limits, sizeof limits));
    CHECK(AssignProcessToJobObject(p.job, made.hProcess));
    CHECK(ResumeThread(made.hThread) != (DWORD)-1);
    CloseHandle(made.hThread);
    CloseHandle(its_in);
    CloseHandle(its_out);
    ReleaseSRWLockExclusive(&one);
    p.process = made.hProcess;
    return p;
}

void stop_process(process *p)
{
    CloseHandle(p->in);
    CloseHandle(p->job);
    await(p->process);
    CloseHandle(p->process);
    CloseHandle(p->out);
}

DWORD wait_process(process *p)
{
    DWORD code = 0;
    await(p->process);
    CHECK(GetExitCodeProcess(p->process, &code));
    return code;
}

process start_http_server(char *url, size_t size)
{
    char line[1024], said[256];
    DWORD got, have = 0;
    snprintf(line, sizeof line, "\"%s\" --http 127.0.0.1:0 --stdin-guard --max-seconds 300", server_path);
    process p = start_process(line);
    while (have < sizeof said - 1 && !memchr(said, '\n', have)) {
        CHECK(ReadFile(p.out, said + have, sizeof said - 1 - have, &got, NULL) && got > 0);
        have += got;
    }
    said[have] = 0;
    CHECK(strncmp(said, "listening ", 10) == 0);
    snprintf(url, size, "%.*s", (int)strcspn(said + 10, "\r\n"), said + 10);
    return p;
}

int has_ended(DWORD id)
{
    HANDLE found = OpenProcess(SYNCHRONIZE, FALSE, id);
    if (!found)
        return 1;
    int ended = WaitForSingleObject(found, PATIENCE_MS) == WAIT_OBJECT_0;
    CloseHandle(found);
    return ended;
}

HANDLE start_thread(DWORD(WINAPI *run)(void *), void *data)
{
    HANDLE thread = CreateThread(NULL, 0, run, data, 0, NULL);
    CHECK(thread != NULL);
    return thread;
}

void join(HANDLE thread)
{
    await(thread);
    CloseHandle(thread);
}

void await(HANDLE what)
{
    CHECK(WaitForSingleObject(what, PATIENCE_MS) == WAIT_OBJECT_0);
}

static HANDLE progress;

static void on_progress(mcp_event *event, void *user)
{
    (void)event;
    SetEvent(user);
}

mcp_client *new_client(const char *settings)
{
    mcp_client *client = NULL;
    STATUS(MCP_OK, mcp_client_new(settings, strlen(settings), &client));
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_PROGRESS, on_progress, progress, NULL));
    return client;
}

mcp_client *open_client(const char *settings)
{
    mcp_client *client = new_client(settings);
    STATUS(MCP_OK, mcp_client_open(client));
    STATUS(MCP_OK, mcp_client_wait_open(client, PATIENCE_MS));
    return client;
}

void end_client(mcp_client *client)
{
    mcp_client_close(client);
    STATUS(MCP_OK, mcp_client_wait_closed(client, PATIENCE_MS));
    STATUS(MCP_OK, mcp_client_free(client));
}

const char *run_tool(mcp_client *client, const char *tool, const char *arguments)
{
    static char text[16384];
    mcp_call *call = NULL;
    mcp_result *result = NULL;
    STATUS(MCP_OK, mcp_tool_run(client, tool, arguments, strlen(arguments), NULL, 0, PATIENCE_MS, &call));
    STATUS(MCP_OK, mcp_call_result(call, &result));
    const char *found = mcp_result_text(result, MCP_RESULT_TEXT, NULL);
    snprintf(text, sizeof text, "%s", found ? found : "");
    STATUS(MCP_OK, mcp_result_free(result));
    STATUS(MCP_OK, mcp_call_free(call));
    return text;
}

mcp_call *start_tool(mcp_client *client, const char *tool, const char *arguments, const char *options)
{
    mcp_call *call = NULL;
    size_t length = options ? strlen(options) : 0;
    STATUS(MCP_OK, mcp_tool_call(client, tool, arguments, strlen(arguments), options, length, &call));
    return call;
}

mcp_call *start_waiting(mcp_client *client)
{
    ResetEvent(progress);
    mcp_call *call = start_tool(client, "progress", "{\"n\":3000,\"gap_ms\":200}", NULL);
    await(progress);
    return call;
}

void check_usable(mcp_client *client)
{
    CHECK(strstr(run_tool(client, "add", "{\"a\":40,\"b\":2}"), "42") != NULL);
}

char *quoted(const char *text)
{
    char *out = malloc(2 * strlen(text) + 3), *at = out;
    *at++ = '"';
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            *at++ = '\\';
        *at++ = *text;
    }
    *at++ = '"';
    *at = 0;
    return out;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    progress = CreateEventA(NULL, TRUE, FALSE, NULL);
    server_path = argv[2];
    folder = argv[3];
    const char *what = argv[1];
    if (strcmp(what, "http") == 0)
        http_program();
    else if (strcmp(what, "stdio") == 0)
        stdio_program();
    else if (strcmp(what, "stdio-crash") == 0)
        stdio_crash();
    else if (strcmp(what, "pipes") == 0)
        pipes_program();
    else if (strcmp(what, "ledger") == 0)
        ledger_program();
    else if (strcmp(what, "ledger-crash") == 0 && argc == 5)
        ledger_crash(argv[4]);
    else
        return 2;
    STATUS(MCP_OK, mcp_shutdown(PATIENCE_MS));
    printf("ok %s\n", what);
    return 0;
}
