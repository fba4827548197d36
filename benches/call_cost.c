/*
 * What a tool call costs through the library, beside a bare socket that carries the same number of bytes.
 *
 *   call_cost sizes URL                          prints the sizes of a call's request and answer on the wire: "Q A"
 *   call_cost run URL HOST:PORT Q A CALLS ROUNDS  measures; HOST:PORT is a peer that reads Q bytes and answers A
 *
 * A call is mcp_tool_run() of `echo`, its result, the text of the result, and the frees. Rounds of the two kinds take
 * turns, so that a change of the machine's mood meets both. One line is printed for each round, and then, for each of
 * the figures, the median over the rounds, and the round with the least median: name, median, p99 and CPU time of a call,
 * tab-separated, in microseconds.
 */
#include "mcpnative.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
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

static void die(const char *what)
{
    fprintf(stderr, "call_cost: %s\n", what);
    exit(1);
}

static void die_of(const char *what, mcp_status status)
{
    mcp_error *error = NULL;
    const char *message = mcp_last_error(&error) == MCP_OK ? mcp_error_text(error, MCP_ERROR_MESSAGE, NULL) : NULL;
    fprintf(stderr, "call_cost: %s: %s: %s\n", what, mcp_status_name(status), message ? message : "");
    exit(1);
}

/* ---- A call -------------------------------------------------------------------------------------------------------- */

static mcp_client *open_client(const char *url)
{
    mcp_client *client = NULL;
    char settings[512];
    int length = snprintf(settings, sizeof settings, "{\"url\":\"%s\"}", url);
    mcp_status status = mcp_client_new(settings, (size_t)length, &client);
    if (status == MCP_OK)
        status = mcp_client_open(client);
    if (status == MCP_OK)
        status = mcp_client_wait_open(client, 10000);
    if (status != MCP_OK)
        die_of(url, status);
    return client;
}

static void close_client(mcp_client *client)
{
    mcp_client_close(client);
    mcp_client_wait_closed(client, 5000);
    mcp_client_free(client);
}

static void call_once(mcp_client *client)
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

/* ---- The bare socket ----------------------------------------------------------------------------------------------- */

struct bare {
    int fd;
    size_t question, answer;
    char *bytes;
};

static int dial(const char *host, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || inet_pton(AF_INET, host, &address.sin_addr) != 1 ||
        connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        die("cannot connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void ping(struct bare *bare)
{
    if (write(bare->fd, bare->bytes, bare->question) != (ssize_t)bare->question)
        die("the peer took only a part");
    for (size_t have = 0; have < bare->answer;) {
        ssize_t more = read(bare->fd, bare->bytes, bare->answer - have);
        if (more <= 0)
            die("the peer has left");
        have += (size_t)more;
    }
}

/* ---- Measuring ----------------------------------------------------------------------------------------------------- */

struct figures {
    double median, p99, cpu;
};

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Of the whole process: what the library's own threads use counts too. */
static double cpu_us(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *values, int count, double part)
{
    qsort(values, (size_t)count, sizeof *values, by_size);
    return values[(int)((count - 1) * part + 0.5)];
}

static struct figures measure(mcp_client *client, struct bare *bare, int calls)
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

static double over_rounds(const struct figures *rounds, int count, size_t which)
{
    double values[MAX_ROUNDS];
    for (int i = 0; i < count; i++)
        values[i] = *(const double *)((const char *)&rounds[i] + which);
    return quantile(values, count, 0.5);
}

static void print(const char *name, struct figures figures)
{
    printf("%s\t%.1f\t%.1f\t%.1f\n", name, figures.median, figures.p99, figures.cpu);
    fflush(stdout);
}

static struct figures middle(const struct figures *rounds, int count)
{
    return (struct figures){over_rounds(rounds, count, offsetof(struct figures, median)),
                            over_rounds(rounds, count, offsetof(struct figures, p99)),
                            over_rounds(rounds, count, offsetof(struct figures, cpu))};
}

/* The round with the least median: what other work on the machine has disturbed least. */
static struct figures least(const struct figures *rounds, int count)
{
    struct figures found = rounds[0];
    for (int i = 1; i < count; i++)
        if (rounds[i].median < found.median)
            found = rounds[i];
    return found;
}

static int run(const char *url, char *peer, size_t question, size_t answer, int calls, int rounds)
{
    struct figures library[MAX_ROUNDS], plain[MAX_ROUNDS];
    char *colon = strrchr(peer, ':');
    if (colon == NULL || calls < 1 || rounds < 1 || rounds > MAX_ROUNDS)
        die("bad arguments");
    *colon = 0;
    struct bare bare = {dial(peer, atoi(colon + 1)), question, answer, calloc(1, question + answer)};
    if (bare.bytes == NULL)
        die("no memory");
    mcp_client *client = open_client(url);
    measure(client, NULL, calls / 4 + 1);
    measure(NULL, &bare, calls / 4 + 1);
    for (int i = 0; i < rounds; i++) {
        plain[i] = measure(NULL, &bare, calls);
        library[i] = measure(client, NULL, calls);
        print("round bare", plain[i]);
        print("round call", library[i]);
    }
    close_client(client);
    mcp_shutdown(5000);
    close(bare.fd);
    free(bare.bytes);
    print("bare", middle(plain, rounds));
    print("call", middle(library, rounds));
    print("least bare", least(plain, rounds));
    print("least call", least(library, rounds));
    return 0;
}

/* ---- Sizes: a relay that counts ------------------------------------------------------------------------------------- */

struct relay {
    int listener, server_port;
    char host[64];
    size_t last[2]; /* bytes of the last request, of the last answer */
};

static void *relay_one(void *argument)
{
    struct relay *relay = argument;
    char bytes[65536];
    int from = -1;
    struct pollfd ends[2] = {{.fd = accept(relay->listener, NULL, NULL), .events = POLLIN},
                             {.fd = dial(relay->host, relay->server_port), .events = POLLIN}};
    while (poll(ends, 2, 10000) > 0) {
        for (int side = 0; side < 2; side++) {
            if (!(ends[side].revents & (POLLIN | POLLHUP)))
                continue;
            ssize_t count = read(ends[side].fd, bytes, sizeof bytes);
            if (count <= 0 || write(ends[1 - side].fd, bytes, (size_t)count) != count) {
                close(ends[0].fd);
                close(ends[1].fd);
                return NULL;
            }
            relay->last[side] = (from == side ? relay->last[side] : 0) + (size_t)count;
            from = side;
        }
    }
    die("no traffic");
    return NULL;
}

static int sizes(const char *url)
{
    struct relay relay = {0};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    pthread_t thread;
    char path[256], through[512];
    if (sscanf(url, "http://%63[^:/]:%d%255s", relay.host, &relay.server_port, path) != 3)
        die("the URL must look like http://HOST:PORT/PATH");
    relay.listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(relay.listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(relay.listener, 1) != 0 ||
        getsockname(relay.listener, (struct sockaddr *)&address, &length) != 0 ||
        pthread_create(&thread, NULL, relay_one, &relay) != 0)
        die("cannot listen");
    snprintf(through, sizeof through, "http://127.0.0.1:%d%s", ntohs(address.sin_port), path);
    mcp_client *client = open_client(through);
    for (int i = 0; i < 1000; i++)
        call_once(client);
    close_client(client);
    mcp_shutdown(5000);
    pthread_join(thread, NULL);
    close(relay.listener);
    printf("%zu %zu\n", relay.last[0], relay.last[1]);
    return 0;
}

int main(int count, char **args)
{
    if (count == 3 && strcmp(args[1], "sizes") == 0)
        return sizes(args[2]);
    if (count == 8 && strcmp(args[1], "run") == 0)
        return run(args[2], args[3], strtoul(args[4], NULL, 10), strtoul(args[5], NULL, 10), atoi(args[6]),
                   atoi(args[7]));
    fprintf(stderr, "usage: call_cost sizes URL | call_cost run URL HOST:PORT Q A CALLS ROUNDS\n");
    return 2;
}
