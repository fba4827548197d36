/*
 * What many outstanding tasks cost the client, how punctual their polls are, and how soon an end is known.
 *
 *   many_tasks URL TASKS POLL_MS LIFE_MS SECONDS poll|push
 *
 * Starts TASKS jobs at a server of `mcp-test-server --fast`, each with that poll interval and, unless LIFE_MS is 0, an end
 * after that time and up to five seconds more; watches for SECONDS; prints, tab-separated: name and figure. With `poll` the
 * client asks for no push. Memory is what the process has more than before the first task; CPU time is that of the watched
 * seconds. How punctual the polls were tells the server. How soon an end is known is measured here: from the end, which
 * the result names, to the event.
 */
#define _GNU_SOURCE
#include "common.h"

#include <dirent.h>
#include <stdatomic.h>

#define AT_ONCE 64
#define SPREAD_MS 5000
/* A job without an end tells so often that it works, to whoever listens. */
#define SAY_MS 20000

static double *known_after; /* ms, one for each task that has ended */
static int most_known;
static atomic_int known;

static void ended(mcp_event *event, void *user)
{
    mcp_snapshot *snapshot = NULL;
    mcp_result *result = NULL;
    struct timespec now;
    (void)user;
    clock_gettime(CLOCK_REALTIME, &now);
    if (mcp_event_snapshot(event, &snapshot) != MCP_OK)
        die("no snapshot");
    /* At the close, tasks end without a result. */
    if (mcp_snapshot_result(snapshot, &result) == MCP_OK) {
        const char *end = mcp_result_text(result, MCP_RESULT_TEXT, NULL);
        int place = atomic_fetch_add(&known, 1);
        if (end == NULL || place >= most_known)
            die("a task has ended without its end");
        known_after[place] = (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6 - strtod(end, NULL) / 1e3;
    }
    mcp_result_free(result);
    mcp_snapshot_free(snapshot);
}

static long memory_kib(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long kib = -1;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kib;
}

static int thread_count(void)
{
    DIR *all = opendir("/proc/self/task");
    int count = 0;
    for (struct dirent *one; all != NULL && (one = readdir(all)) != NULL;)
        count += one->d_name[0] != '.';
    if (all != NULL)
        closedir(all);
    return count;
}

/* The server's figures as JSON; asking begins a new count. */
static void server_figures(const char *url, char *into, size_t size)
{
    char host[64], request[256];
    int port;
    size_t have = 0;
    if (sscanf(url, "http://%63[^:/]:%d", host, &port) != 2)
        die("the URL must look like http://HOST:PORT/PATH");
    int fd = dial(host, port);
    int length = snprintf(request, sizeof request,
                          "GET /_control/jobs HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", host);
    if (write(fd, request, (size_t)length) != length)
        die("the control door takes nothing");
    while (have + 1 < size) {
        ssize_t more = read(fd, into + have, size - 1 - have);
        if (more <= 0)
            break;
        have += (size_t)more;
        into[have] = 0;
        char *body = strstr(into, "\r\n\r\n"), *claim = strcasestr(into, "content-length:");
        if (body != NULL && claim != NULL && strlen(body + 4) >= strtoul(claim + 15, NULL, 10))
            break;
    }
    close(fd);
    into[have] = 0;
    char *body = strstr(into, "\r\n\r\n");
    if (body == NULL)
        die("no figures");
    memmove(into, body + 4, strlen(body + 4) + 1);
}

static void start_tasks(mcp_client *client, int tasks, int poll_ms, int life_ms)
{
    char arguments[128];
    /* As many calls at once as are sent at once: calls that wait are memory, too, and none of the tasks'. */
    mcp_call *calls[AT_ONCE] = {NULL};
    for (int i = 0; i < tasks + AT_ONCE; i++) {
        mcp_call **place = &calls[i % AT_ONCE];
        if (*place != NULL) {
            mcp_status ended = mcp_call_wait(*place, 60000);
            if (ended != MCP_OK && ended != MCP_S_TASK)
                die_of("mcp_call_wait", ended);
            mcp_call_free(*place);
            *place = NULL;
        }
        if (i >= tasks)
            continue;
        /* Ends in no order, and spread evenly. */
        int life = life_ms + (int)(i * 7919L % SPREAD_MS);
        int length = life_ms > 0 ? snprintf(arguments, sizeof arguments, "{\"poll_ms\":%d,\"life_ms\":%d}", poll_ms, life)
                                 : snprintf(arguments, sizeof arguments, "{\"poll_ms\":%d,\"say_ms\":%d}", poll_ms, SAY_MS);
        mcp_status status = mcp_tool_call(client, "job", arguments, (size_t)length, NULL, 0, place);
        if (status != MCP_OK)
            die_of("mcp_tool_call", status);
    }
}

int main(int count, char **args)
{
    static char figures[65536];
    char settings[512];
    if (count != 7) {
        fprintf(stderr, "usage: many_tasks URL TASKS POLL_MS LIFE_MS SECONDS poll|push\n");
        return 2;
    }
    int tasks = atoi(args[2]), life = atoi(args[4]), most = 0;
    known_after = calloc((size_t)tasks + 1, sizeof *known_after);
    most_known = tasks;
    snprintf(settings, sizeof settings, "{\"url\":\"%s\",\"tasks\":{\"push\":%s}}", args[1],
             strcmp(args[6], "push") == 0 ? "true" : "false");
    mcp_client *client = new_with(settings);
    if (known_after == NULL || (life > 0 && mcp_client_on(client, MCP_EVENT_TASK_DONE, ended, NULL, NULL) != MCP_OK))
        die("no handler");
    open_it(client);
    call_once(client);
    long before = memory_kib();
    double begin = now_us();
    start_tasks(client, tasks, atoi(args[3]), life);
    printf("started_ms\t%.0f\n", (now_us() - begin) / 1e3);
    server_figures(args[1], figures, sizeof figures);
    double cpu = cpu_us();
    for (int second = 0; second < atoi(args[5]); second++) {
        sleep(1);
        int now = thread_count();
        most = now > most ? now : most;
    }
    printf("cpu_s\t%.2f\n", (cpu_us() - cpu) / 1e6);
    printf("memory_kib\t%ld\nthreads\t%d\n", memory_kib() - before, most);
    server_figures(args[1], figures, sizeof figures);
    printf("server\t%s\n", figures);
    int ends = atomic_load(&known);
    if (life > 0 && ends < tasks)
        die("some ends were not heard");
    if (ends > 0)
        printf("known_after_ms\t%.1f\t%.1f\t%d\n", quantile(known_after, ends, 0.5), quantile(known_after, ends, 0.99), ends);
    close_client(client);
    return mcp_shutdown(5000) == MCP_OK ? 0 : 1;
}
