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
#include "common.h"

#include <poll.h>
#include <pthread.h>

/* ---- Measuring ----------------------------------------------------------------------------------------------------- */

static int run(const char *url, char *peer, size_t question, size_t answer, int calls, int rounds)
{
    char *colon = strrchr(peer, ':');
    if (colon == NULL)
        die("bad arguments");
    *colon = 0;
    int fd = dial(peer, atoi(colon + 1));
    struct bare bare = {fd, fd, question, answer, calloc(1, question + answer)};
    mcp_client *client = open_client(url);
    compare(client, &bare, calls, rounds);
    close_client(client);
    mcp_shutdown(5000);
    close(fd);
    free(bare.bytes);
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
