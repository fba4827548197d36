/*
 * What the benchmarks share: failing, one call of `echo` through the library, a bare socket, clocks and quantiles.
 */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include "mcpnative.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ARGUMENTS "{\"text\":\"hello\"}"
#define EXPECTED "{\"text\":\"hello\"}"
#define MAX_ROUNDS 99

static inline void die(const char *what)
{
    fprintf(stderr, "benchmark: %s\n", what);
    exit(1);
}

/* With the library's own words about the last failure. */
static inline void die_of(const char *what, mcp_status status)
{
    mcp_error *error = NULL;
    const char *message = mcp_last_error(&error) == MCP_OK ? mcp_error_text(error, MCP_ERROR_MESSAGE, NULL) : NULL;
    fprintf(stderr, "benchmark: %s: %s: %s\n", what, mcp_status_name(status), message ? message : "");
    exit(1);
}

/* ---- A call -------------------------------------------------------------------------------------------------------- */

static inline mcp_client *new_with(const char *settings)
{
    mcp_client *client = NULL;
    mcp_status status = mcp_client_new(settings, strlen(settings), &client);
    if (status != MCP_OK)
        die_of(settings, status);
    return client;
}

static inline void open_it(mcp_client *client)
{
    mcp_status status = mcp_client_open(client);
    if (status == MCP_OK)
        status = mcp_client_wait_open(client, 10000);
    if (status != MCP_OK)
        die_of("opening", status);
}

static inline mcp_client *open_with(const char *settings)
{
    mcp_client *client = new_with(settings);
    open_it(client);
    return client;
}

static inline mcp_client *open_client(const char *url)
{
    char settings[512];
    snprintf(settings, sizeof settings, "{\"url\":\"%s\"}", url);
    return open_with(settings);
}

static inline void close_client(mcp_client *client)
{
    mcp_client_close(client);
    mcp_client_wait_closed(client, 5000);
    mcp_client_free(client);
}

static inline void call_once(mcp_client *client)
{
    mcp_call *call = NULL;
    mcp_result *result = NULL;
    mcp_status status = mcp_tool_run(client, "echo", ARGUMENTS, sizeof ARGUMENTS - 1, NULL, 0, 60000, &call);
    if (status != MCP_OK)
        die_of("mcp_tool_run", status);
    status = mcp_call_result(call, &result);
    if (status != MCP_OK)
        die_of("mcp_call_result", status);
    const char *text = mcp_result_text(result, MCP_RESULT_TEXT, NULL);
    if (text == NULL || strcmp(text, EXPECTED) != 0)
        die("the answer is not the one expected");
    mcp_result_free(result);
    mcp_call_free(call);
}

/* ---- The bare socket, or pair of pipes --------------------------------------------------------------------------------- */

struct bare {
    int in, out;
    size_t question, answer;
    char *bytes;
};

static inline int dial(const char *host, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || inet_pton(AF_INET, host, &address.sin_addr) != 1 ||
        connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        die("cannot connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static inline void ping(struct bare *bare)
{
    if (write(bare->out, bare->bytes, bare->question) != (ssize_t)bare->question)
        die("the peer took only a part");
    for (size_t have = 0; have < bare->answer;) {
        ssize_t more = read(bare->in, bare->bytes, bare->answer - have);
        if (more <= 0)
            die("the peer has left");
        have += (size_t)more;
    }
}

/* ---- Clocks and quantiles ------------------------------------------------------------------------------------------------ */

static inline double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Of the whole process: what the library's own threads use counts too. */
static inline double cpu_us(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static inline int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double quantile(double *values, int count, double part)
{
    qsort(values, (size_t)count, sizeof *values, by_size);
    return values[(int)((count - 1) * part + 0.5)];
}

/* ---- Two kinds of round trips, in turn ----------------------------------------------------------------------------------- */

struct figures {
    double median, p99, cpu;
};

static inline struct figures measure(mcp_client *client, struct bare *bare, int calls)
{
    double *each = calloc((size_t)calls, sizeof *each);
    if (each == NULL)
        die("no memory");
    double cpu = cpu_us();
    for (int i = 0; i < calls; i++) {
        double begin = now_us();
        if (client)
            call_once(client);
        else
            ping(bare);
        each[i] = now_us() - begin;
    }
    cpu = (cpu_us() - cpu) / calls;
    struct figures figures = {quantile(each, calls, 0.5), quantile(each, calls, 0.99), cpu};
    free(each);
    return figures;
}

static inline double over_rounds(const struct figures *rounds, int count, size_t which)
{
    double values[MAX_ROUNDS];
    for (int i = 0; i < count; i++)
        values[i] = *(const double *)((const char *)&rounds[i] + which);
    return quantile(values, count, 0.5);
}

static inline void print(const char *name, struct figures figures)
{
    printf("%s\t%.1f\t%.1f\t%.1f\n", name, figures.median, figures.p99, figures.cpu);
    fflush(stdout);
}

static inline struct figures middle(const struct figures *rounds, int count)
{
    return (struct figures){over_rounds(rounds, count, offsetof(struct figures, median)),
                            over_rounds(rounds, count, offsetof(struct figures, p99)),
                            over_rounds(rounds, count, offsetof(struct figures, cpu))};
}

/* The round with the least median: what other work on the machine has disturbed least. */
static inline struct figures least(const struct figures *rounds, int count)
{
    struct figures found = rounds[0];
    for (int i = 1; i < count; i++)
        if (rounds[i].median < found.median)
            found = rounds[i];
    return found;
}

/* Rounds of the two kinds take turns, so that a change of the machine's mood meets both. */
static inline void compare(mcp_client *client, struct bare *bare, int calls, int rounds)
{
    struct figures library[MAX_ROUNDS], plain[MAX_ROUNDS];
    if (bare->bytes == NULL || calls < 1 || rounds < 1 || rounds > MAX_ROUNDS)
        die("bad arguments");
    measure(client, NULL, calls / 4 + 1);
    measure(NULL, bare, calls / 4 + 1);
    for (int i = 0; i < rounds; i++) {
        plain[i] = measure(NULL, bare, calls);
        library[i] = measure(client, NULL, calls);
        print("round bare", plain[i]);
        print("round call", library[i]);
    }
    print("bare", middle(plain, rounds));
    print("call", middle(library, rounds));
    print("least bare", least(plain, rounds));
    print("least call", least(library, rounds));
}

#endif
