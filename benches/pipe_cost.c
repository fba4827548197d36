/*
 * What a tool call costs through the library to a child process, beside bare pipes that carry the same number of bytes.
 *
 *   pipe_cost run CALLS ROUNDS    measures; starts its own peers and prints as call_cost does
 *   pipe_cost serve [FILE]        the server: answers `echo` from ready-made bytes; FILE gets "Q A", the sizes of its last
 *                                 line in and out
 *   pipe_cost echo Q A            the bare peer: reads Q bytes, answers A, until its input ends
 */
#include "common.h"

#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

/* ---- The peers ----------------------------------------------------------------------------------------------------- */

static void put(const char *bytes, size_t count)
{
    if (write(1, bytes, count) != (ssize_t)count)
        exit(0);
}

/* One line of a client's, without its end. Returns the length of the answer's line, 0 where there is none. */
static size_t respond(const char *line)
{
    char answer[1024];
    const char *id = strstr(line, "\"id\":");
    if (id == NULL)
        return 0;
    int number = atoi(id + 5);
    const char *result = "\"error\":{\"code\":-32601,\"message\":\"no such method\"}";
    if (strstr(line, "\"tools/call\"") != NULL)
        result = "\"result\":{\"resultType\":\"complete\",\"content\":[{\"type\":\"text\",\"text\":"
                 "\"{\\\"text\\\":\\\"hello\\\"}\"}],\"structuredContent\":{\"text\":\"hello\"}}";
    else if (strstr(line, "\"server/discover\"") != NULL)
        result = "\"result\":{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],"
                 "\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"pipe\",\"version\":\"1\"}}";
    int length = snprintf(answer, sizeof answer, "{\"jsonrpc\":\"2.0\",\"id\":%d,%s}\n", number, result);
    put(answer, (size_t)length);
    return (size_t)length;
}

static int serve(const char *file)
{
    static char bytes[1 << 20];
    size_t have = 0, question = 0, answer = 0;
    for (;;) {
        ssize_t more = read(0, bytes + have, sizeof bytes - 1 - have);
        if (more <= 0)
            break;
        have += (size_t)more;
        char *line = bytes, *end;
        while ((end = memchr(line, '\n', have - (size_t)(line - bytes))) != NULL) {
            *end = 0;
            size_t told = respond(line);
            if (told > 0 && strstr(line, "\"tools/call\"") != NULL) {
                question = (size_t)(end + 1 - line);
                answer = told;
            }
            line = end + 1;
        }
        have -= (size_t)(line - bytes);
        memmove(bytes, line, have);
    }
    FILE *out = file ? fopen(file, "w") : NULL;
    if (out != NULL) {
        fprintf(out, "%zu %zu\n", question, answer);
        fclose(out);
    }
    return 0;
}

static int echo(size_t question, size_t answer)
{
    char *asked = malloc(question), *told = calloc(1, answer);
    if (asked == NULL || told == NULL)
        die("no memory");
    for (;;) {
        for (size_t have = 0; have < question;) {
            ssize_t more = read(0, asked + have, question - have);
            if (more <= 0)
                return 0;
            have += (size_t)more;
        }
        put(told, answer);
    }
}

/* ---- Measuring ----------------------------------------------------------------------------------------------------- */

static pid_t start_bare(const char *self, struct bare *bare)
{
    int to[2], from[2];
    char question[32], answer[32];
    snprintf(question, sizeof question, "%zu", bare->question);
    snprintf(answer, sizeof answer, "%zu", bare->answer);
    char *args[] = {(char *)self, "echo", question, answer, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child = -1;
    if (pipe(to) != 0 || pipe(from) != 0 || posix_spawn_file_actions_init(&actions) != 0)
        die("no pipes");
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    posix_spawn_file_actions_addclose(&actions, to[1]);
    posix_spawn_file_actions_addclose(&actions, from[0]);
    if (posix_spawn(&child, self, &actions, NULL, args, environ) != 0)
        die("cannot start the bare peer");
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    bare->out = to[1];
    bare->in = from[0];
    return child;
}

static void sizes(const char *self, struct bare *bare)
{
    char file[] = "/tmp/pipe_cost.XXXXXX", settings[1024];
    int fd = mkstemp(file);
    if (fd < 0)
        die("no temporary file");
    snprintf(settings, sizeof settings, "{\"command\":\"%s\",\"args\":[\"serve\",\"%s\"]}", self, file);
    mcp_client *client = open_with(settings);
    for (int i = 0; i < 1000; i++)
        call_once(client);
    close_client(client);
    FILE *in = fdopen(fd, "r");
    if (in == NULL || fscanf(in, "%zu %zu", &bare->question, &bare->answer) != 2 || bare->question == 0)
        die("the server did not tell its sizes");
    fclose(in);
    remove(file);
}

static int run(const char *self, int calls, int rounds)
{
    struct bare bare = {0};
    char settings[1024];
    int status = 0;
    sizes(self, &bare);
    bare.bytes = calloc(1, bare.question + bare.answer);
    pid_t child = start_bare(self, &bare);
    snprintf(settings, sizeof settings, "{\"command\":\"%s\",\"args\":[\"serve\"]}", self);
    mcp_client *client = open_with(settings);
    compare(client, &bare, calls, rounds);
    printf("sizes\t%zu\t%zu\n", bare.question, bare.answer);
    close_client(client);
    mcp_shutdown(5000);
    close(bare.out);
    close(bare.in);
    waitpid(child, &status, 0);
    free(bare.bytes);
    return 0;
}

int main(int count, char **args)
{
    char self[512] = {0};
    if (count == 4 && strcmp(args[1], "run") == 0 && readlink("/proc/self/exe", self, sizeof self - 1) > 0)
        return run(self, atoi(args[2]), atoi(args[3]));
    if (count >= 2 && strcmp(args[1], "serve") == 0)
        return serve(count > 2 ? args[2] : NULL);
    if (count == 4 && strcmp(args[1], "echo") == 0)
        return echo(strtoul(args[2], NULL, 10), strtoul(args[3], NULL, 10));
    fprintf(stderr, "usage: pipe_cost run CALLS ROUNDS\n");
    return 2;
}
