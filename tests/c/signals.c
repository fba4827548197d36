/* The library's threads take no signal of the host's, and the host's own mask stays as it was. */
#include "check.h"

#include <signal.h>
#include <sys/syscall.h>

static atomic_int taken, taken_elsewhere;
static pid_t me;

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(&taken, 1);
    if (syscall(SYS_gettid) != me)
        atomic_fetch_add(&taken_elsewhere, 1);
}

/* The mask of blocked signals of each thread but this one. */
static int check_masks(void)
{
    DIR *folder = opendir("/proc/self/task");
    int threads = 0;
    CHECK(folder != NULL);
    for (struct dirent *one; (one = readdir(folder));) {
        char path[300], line[256];
        if (one->d_name[0] == '.' || atoi(one->d_name) == me)
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", one->d_name);
        FILE *status = fopen(path, "r");
        /* It may have ended meanwhile. */
        if (!status)
            continue;
        unsigned long long blocked = 0;
        while (fgets(line, sizeof line, status))
            sscanf(line, "SigBlk: %llx", &blocked);
        fclose(status);
        for (int number = 1; number < 32; number++)
            if (number != SIGKILL && number != SIGSTOP && !(blocked >> (number - 1) & 1))
                FAIL("a thread of the library takes signal %d", number);
        threads++;
    }
    closedir(folder);
    return threads;
}

PROGRAM
{
    me = (pid_t)syscall(SYS_gettid);
    signal(SIGUSR1, on_signal);
    signal(SIGALRM, on_signal);
    sigset_t set, before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    mcp_client *client = new_client("");
    open_client(client);
    mcp_call *job = start_tool(client, "slow_job", "{\"poll_ms\":20,\"steps\":100000}");
    mcp_call *call = start_tool(client, "sleep", "{\"ms\":30}");
    STATUS(MCP_OK, mcp_call_wait(call, PATIENCE_MS));
    STATUS(MCP_S_TASK, mcp_call_wait(job, PATIENCE_MS));
    CHECK(check_masks() >= 2);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int number = 1; number < 32; number++)
        EQUAL(sigismember(&before, number), sigismember(&after, number));

    /* A signal to the process waits for the only thread that may take it. */
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < 20; i++) {
        kill(getpid(), SIGUSR1);
        check_usable(client);
        EQUAL(i, atomic_load(&taken));
        sigset_t pending;
        sigpending(&pending);
        CHECK(sigismember(&pending, SIGUSR1));
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        EQUAL(i + 1, atomic_load(&taken));
        pthread_sigmask(SIG_BLOCK, &set, NULL);
    }
    EQUAL(0, atomic_load(&taken_elsewhere));

    /* Signals in the middle of a wait and of a read do not break it. */
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    ualarm(2000, 2000);
    mcp_call *slow = NULL;
    for (int i = 0; i < 5; i++) {
        STATUS(MCP_OK, mcp_tool_run(client, "sleep", "{\"ms\":20}", 9, NULL, 0, PATIENCE_MS, &slow));
        STATUS(MCP_OK, mcp_call_free(slow));
    }
    ualarm(0, 0);
    CHECK(atomic_load(&taken) > 20);
    EQUAL(0, atomic_load(&taken_elsewhere));
    STATUS(MCP_OK, mcp_call_free(call));
    STATUS(MCP_OK, mcp_call_free(job));
    end_client(client);
    end_library();
}
