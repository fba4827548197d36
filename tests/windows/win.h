/* What the programs of this folder share: checks that end the program, waits that are always bounded, processes with
 * pipes, clients. A program passes when it exits with 0.
 *
 *   http|stdio|pipes|ledger SERVER FOLDER      (mcp-test-server.exe; a folder that may be written)
 */
#ifndef WIN_H
#define WIN_H

#include <mcpnative.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

/* The bound of every wait. Nothing waits for it to pass. */
#define PATIENCE_MS 60000

#define FAIL(...)                                                                                                      \
    do {                                                                                                               \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                                                \
        fprintf(stderr, __VA_ARGS__);                                                                                  \
        fputc('\n', stderr);                                                                                           \
        fflush(stderr);                                                                                                \
        TerminateProcess(GetCurrentProcess(), 1);                                                                      \
    } while (0)

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            FAIL("expected %s (last system error %lu)", #condition, GetLastError());                                   \
    } while (0)

/* The status of a call of the library, with the last error where it is not the one expected. */
#define STATUS(want, call) check_status(__FILE__, __LINE__, #call, (want), (call))

void check_status(const char *file, int line, const char *what, mcp_status want, mcp_status have);

extern const char *server_path, *folder;

/* A process of ours: it ends with us (its job), or by stop_process(). */
typedef struct {
    HANDLE process, job;
    HANDLE in;  /* its standard input, to be written */
    HANDLE out; /* its standard output, to be read */
} process;

process start_process(const char *command_line);
/* Ends it, and gives its handles back. */
void stop_process(process *p);
/* Waits for its own end; its exit code. */
DWORD wait_process(process *p);
/* The test server over HTTP; writes its URL. */
process start_http_server(char *url, size_t size);
/* Whether the process of this id has ended, waiting for it. */
int has_ended(DWORD id);

HANDLE start_thread(DWORD(WINAPI *run)(void *), void *data);
void join(HANDLE thread);
/* Waits for an event or a semaphore. */
void await(HANDLE what);

/* Not opened. */
mcp_client *new_client(const char *settings);
mcp_client *open_client(const char *settings);
/* Closes, waits for the last destructor, frees. */
void end_client(mcp_client *client);
/* Runs a tool; its text is in a buffer that the next call overwrites. */
const char *run_tool(mcp_client *client, const char *tool, const char *arguments);
mcp_call *start_tool(mcp_client *client, const char *tool, const char *arguments, const char *options);
/* A call that lasts for minutes and is at the server for certain: it has told of its progress. */
mcp_call *start_waiting(mcp_client *client);
/* Calls `add` and reads the sum: the client is well. */
void check_usable(mcp_client *client);
/* The text as a JSON string with its quotes, in a new buffer. */
char *quoted(const char *text);

void http_program(void);
void stdio_program(void);
void stdio_crash(void);
void pipes_program(void);
void ledger_program(void);
void ledger_crash(const char *url);

#endif
