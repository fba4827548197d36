/*
 * How long a program takes from its start to its first answer, beside one that dials a bare socket.
 *
 *   first_answer run URL HOST:PORT Q A ROUNDS   starts itself ROUNDS times for each kind, in turn
 *   first_answer call URL                       one call through the library, then a byte on standard output
 *   first_answer bare HOST:PORT Q A             one round trip, then a byte
 *
 * The time is from before the start of the process to its byte. The library's part: loading it, opening the client
 * (server/discover), one call of `echo`. Prints the median of each kind in microseconds.
 */
#include "common.h"

#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static int call_mode(const char *url)
{
    mcp_client *client = open_client(url);
    call_once(client);
    if (write(1, "!", 1) != 1)
        return 1;
    close_client(client);
    return mcp_shutdown(5000) == MCP_OK ? 0 : 1;
}

static int bare_mode(char *peer, size_t question, size_t answer)
{
    char *colon = strrchr(peer, ':');
    if (colon == NULL)
        die("bad address");
    *colon = 0;
    int fd = dial(peer, atoi(colon + 1));
    struct bare bare = {fd, fd, question, answer, calloc(1, question + answer)};
    if (bare.bytes == NULL)
        die("no memory");
    ping(&bare);
    return write(1, "!", 1) == 1 ? 0 : 1;
}

static double start(const char *self, char **args)
{
    int from[2], status = 0;
    char byte;
    pid_t child;
    posix_spawn_file_actions_t actions;
    if (pipe(from) != 0 || posix_spawn_file_actions_init(&actions) != 0)
        die("no pipe");
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    posix_spawn_file_actions_addclose(&actions, from[0]);
    double begin = now_us();
    if (posix_spawn(&child, self, &actions, NULL, args, environ) != 0)
        die("cannot start");
    close(from[1]);
    if (read(from[0], &byte, 1) != 1)
        die("the program told nothing");
    double took = now_us() - begin;
    close(from[0]);
    posix_spawn_file_actions_destroy(&actions);
    if (waitpid(child, &status, 0) != child || status != 0)
        die("the program failed");
    return took;
}

static int run(const char *self, char **args, int rounds)
{
    double with[MAX_ROUNDS], without[MAX_ROUNDS];
    char *call[] = {(char *)self, "call", args[0], NULL};
    char *bare[] = {(char *)self, "bare", args[1], args[2], args[3], NULL};
    if (rounds < 1 || rounds > MAX_ROUNDS)
        die("bad arguments");
    for (int i = 0; i < rounds; i++) {
        without[i] = start(self, bare);
        with[i] = start(self, call);
    }
    printf("bare\t%.0f\ncall\t%.0f\n", quantile(without, rounds, 0.5), quantile(with, rounds, 0.5));
    return 0;
}

int main(int count, char **args)
{
    char self[512] = {0};
    if (count == 7 && strcmp(args[1], "run") == 0 && readlink("/proc/self/exe", self, sizeof self - 1) > 0)
        return run(self, args + 2, atoi(args[6]));
    if (count == 3 && strcmp(args[1], "call") == 0)
        return call_mode(args[2]);
    if (count == 5 && strcmp(args[1], "bare") == 0)
        return bare_mode(args[2], strtoul(args[3], NULL, 10), strtoul(args[4], NULL, 10));
    fprintf(stderr, "usage: first_answer run URL HOST:PORT Q A ROUNDS\n");
    return 2;
}
