/* What the programs of this folder share: checks that end the program, a way to wait that is always bounded, a client
 * of the server under test, and the server's control door. A program passes when it exits with 0. */
#ifndef CHECK_H
#define CHECK_H

#include <mcpnative.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

/* The bound of every wait. Nothing waits for it to pass, so it may be long: a busy machine under valgrind is slow. */
#define PATIENCE_MS 60000

static const char *server_url UNUSED;

#define FAIL(...)                                                                                                      \
    do {                                                                                                               \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                                                \
        fprintf(stderr, __VA_ARGS__);                                                                                  \
        fputc('\n', stderr);                                                                                           \
        _exit(1);                                                                                                      \
    } while (0)

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            FAIL("expected %s", #condition);                                                                           \
    } while (0)

#define EQUAL(want, have)                                                                                              \
    do {                                                                                                               \
        long long want_ = (long long)(want), have_ = (long long)(have);                                                \
        if (want_ != have_)                                                                                            \
            FAIL("%s: expected %s = %lld but found %lld", #have, #want, want_, have_);                                 \
    } while (0)

/* The status of a call of the library, with the last error where it is not the one expected. */
#define STATUS(want, call) check_status(__FILE__, __LINE__, #call, (want), (call))

UNUSED static mcp_status check_status(const char *file, int line, const char *what, mcp_status want, mcp_status have)
{
    if (want != have) {
        mcp_error *error = NULL;
        mcp_last_error(&error);
        const char *why = error ? mcp_error_text(error, MCP_ERROR_MESSAGE, NULL) : "no last error";
        fprintf(stderr, "%s:%d: %s: expected %s but found %s (%s)\n", file, line, what, mcp_status_name(want),
                mcp_status_name(have), why);
        _exit(1);
    }
    return have;
}

/* ---- Waiting for other threads: a counter under a lock --------------------------------------------------------- */

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int count;
} counter;

#define COUNTER {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0}

UNUSED static void count(counter *c)
{
    pthread_mutex_lock(&c->lock);
    c->count++;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

UNUSED static int counted(counter *c)
{
    pthread_mutex_lock(&c->lock);
    int now = c->count;
    pthread_mutex_unlock(&c->lock);
    return now;
}

UNUSED static int reached(counter *c, int want, int wait_ms)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += wait_ms / 1000;
    end.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&c->lock);
    int late = 0;
    while (c->count < want && !late)
        late = pthread_cond_timedwait(&c->changed, &c->lock, &end) != 0;
    int now = c->count;
    pthread_mutex_unlock(&c->lock);
    return now >= want;
}

#define AWAIT(c, want)                                                                                                 \
    do {                                                                                                               \
        if (!reached((c), (want), PATIENCE_MS))                                                                        \
            FAIL("waited in vain for %s >= %d, it is %d", #c, (int)(want), counted(c));                                \
    } while (0)

/* A destructor of user data: counts. */
UNUSED static void count_destroyed(void *user)
{
    count(user);
}

UNUSED static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Until a condition of another process or of the kernel's holds; for what cannot be waited for otherwise. */
#define UNTIL(condition)                                                                                               \
    do {                                                                                                               \
        long long end_ = now_ms() + PATIENCE_MS;                                                                       \
        while (!(condition)) {                                                                                         \
            if (now_ms() > end_)                                                                                       \
                FAIL("waited in vain for %s", #condition);                                                             \
            sched_yield();                                                                                             \
        }                                                                                                              \
    } while (0)

/* ---- The server's control door --------------------------------------------------------------------------------- */

/* One control request; the answer, in a buffer that the next one overwrites. */
UNUSED static const char *control(const char *method, const char *what)
{
    static _Thread_local char answer[65536];
    char request[512];
    int port = 0;
    if (sscanf(server_url, "http://127.0.0.1:%d/", &port) != 1)
        FAIL("cannot read the port of %s", server_url);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
        FAIL("cannot reach the server");
    int length = snprintf(request, sizeof request,
                          "%s /_control/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                          method, what);
    if (send(fd, request, (size_t)length, MSG_NOSIGNAL) != length)
        FAIL("cannot ask the server");
    size_t have = 0;
    ssize_t got;
    while (have < sizeof answer - 1 && (got = read(fd, answer + have, sizeof answer - 1 - have)) > 0)
        have += (size_t)got;
    answer[have] = 0;
    close(fd);
    return answer;
}

/* A counter of the server's: "held" answers, "open" connections, ... */
UNUSED static int server_number(const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(control("GET", "counters"), key);
    return at ? atoi(at + strlen(key)) : -1;
}

UNUSED static void release(const char *gate)
{
    char what[64];
    snprintf(what, sizeof what, gate ? "release?gate=%s" : "release", gate);
    control("POST", what);
}

#define AWAIT_HELD(n) UNTIL(server_number("held") == (n))

/* ---- A client of the server under test ------------------------------------------------------------------------- */

/* A client with further settings, as in ",\"max_in_flight\":4"; not opened. */
UNUSED static mcp_client *new_client(const char *more)
{
    char settings[2048];
    mcp_client *client = NULL;
    int length = snprintf(settings, sizeof settings, "{\"url\":\"%s\"%s}", server_url, more);
    STATUS(MCP_OK, mcp_client_new(settings, (size_t)length, &client));
    CHECK(client != NULL);
    return client;
}

UNUSED static void open_client(mcp_client *client)
{
    STATUS(MCP_OK, mcp_client_open(client));
    STATUS(MCP_OK, mcp_client_wait_open(client, PATIENCE_MS));
}

/* Closes, waits for the last destructor, frees. */
UNUSED static void end_client(mcp_client *client)
{
    mcp_client_close(client);
    STATUS(MCP_OK, mcp_client_wait_closed(client, PATIENCE_MS));
    STATUS(MCP_OK, mcp_client_free(client));
}

UNUSED static mcp_call *start_tool(mcp_client *client, const char *tool, const char *arguments)
{
    mcp_call *call = NULL;
    STATUS(MCP_OK, mcp_tool_call(client, tool, arguments, strlen(arguments), NULL, 0, &call));
    CHECK(call != NULL);
    return call;
}

/* Calls `add` and reads the sum: the client is well. */
UNUSED static void check_usable(mcp_client *client)
{
    mcp_call *call = NULL;
    mcp_result *result = NULL;
    STATUS(MCP_OK, mcp_tool_run(client, "add", "{\"a\":40,\"b\":2}", 14, NULL, 0, PATIENCE_MS, &call));
    STATUS(MCP_OK, mcp_call_result(call, &result));
    const char *text = mcp_result_text(result, MCP_RESULT_TEXT, NULL);
    CHECK(text != NULL && strstr(text, "42") != NULL);
    STATUS(MCP_OK, mcp_result_free(result));
    STATUS(MCP_OK, mcp_call_free(call));
}

/* Ends the library's threads: the end of most programs. */
UNUSED static void end_library(void)
{
    STATUS(MCP_OK, mcp_shutdown(PATIENCE_MS));
}

UNUSED static int threads_now(void)
{
    DIR *folder = opendir("/proc/self/task");
    int found = 0;
    for (struct dirent *one; folder && (one = readdir(folder));)
        found += one->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return found;
}

typedef void *(*thread_fn)(void *);

UNUSED static pthread_t start_thread(thread_fn run, void *data)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, data) != 0)
        FAIL("cannot start a thread");
    return thread;
}

/* main() of a program: URL as its first argument. */
#define PROGRAM                                                                                                        \
    static void program(void);                                                                                         \
    int main(int argc, char **argv)                                                                                    \
    {                                                                                                                  \
        server_url = argc > 1 ? argv[1] : "http://127.0.0.1:9/mcp";                                                    \
        program();                                                                                                     \
        return 0;                                                                                                      \
    }                                                                                                                  \
    static void program(void)

#endif
