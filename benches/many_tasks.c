/*
 * What many outstanding tasks cost the client, and how punctual their polls are.
 *
 *   many_tasks URL TASKS POLL_MS LIFE_MS SECONDS
 *
 * Starts TASKS jobs at a server of `mcp-test-server --fast`, each with that poll interval and, unless LIFE_MS is 0, an end
 * after that time; watches for SECONDS; prints, tab-separated: name and figure. Memory is what the process has more than
 * before the first task; CPU time is that of the watched seconds. How punctual the polls were tells the server.
 */
#define _GNU_SOURCE
#include "common.h"

#include <dirent.h>

#define AT_ONCE 64

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
    int length = life_ms > 0
                     ? snprintf(arguments, sizeof arguments, "{\"poll_ms\":%d,\"life_ms\":%d}", poll_ms, life_ms)
                     : snprintf(arguments, sizeof arguments, "{\"poll_ms\":%d}", poll_ms);
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
        mcp_status status = mcp_tool_call(client, "job", arguments, (size_t)length, NULL, 0, place);
        if (status != MCP_OK)
            die_of("mcp_tool_call", status);
    }
}

int main(int count, char **args)
{
    static char figures[65536];
    if (count != 6) {
        fprintf(stderr, "usage: many_tasks URL TASKS POLL_MS LIFE_MS SECONDS\n");
        return 2;
    }
    int tasks = atoi(args[2]), most = 0;
    mcp_client *client = open_client(args[1]);
    call_once(client);
    long before = memory_kib();
    double begin = now_us();
    start_tasks(client, tasks, atoi(args[3]), atoi(args[4]));
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
    close_client(client);
    return mcp_shutdown(5000) == MCP_OK ? 0 : 1;
}
