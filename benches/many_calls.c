/*
 * How many tool calls a second go through the library when many threads call at once, beside as many bare sockets that
 * carry the same number of bytes.
 *
 *   many_calls URL HOST:PORT Q A THREADS CALLS ROUNDS     CALLS in all, of each kind and round
 *
 * Rounds of the two kinds take turns. One line for each round and the median over the rounds: name, calls a second, CPU
 * time of this process for each call in microseconds.
 */
#include "common.h"

#include <pthread.h>
#include <stdatomic.h>

struct load {
    mcp_client *client;
    const char *host;
    int port;
    size_t question, answer;
    int calls;
    atomic_int left;
    pthread_barrier_t ready;
};

static void *one(void *argument)
{
    struct load *load = argument;
    struct bare bare = {-1, -1, load->question, load->answer, calloc(1, load->question + load->answer)};
    if (bare.bytes == NULL)
        die("no memory");
    if (load->client == NULL)
        bare.in = bare.out = dial(load->host, load->port);
    pthread_barrier_wait(&load->ready);
    while (atomic_fetch_sub(&load->left, 1) > 0) {
        if (load->client != NULL)
            call_once(load->client);
        else
            ping(&bare);
    }
    if (bare.in >= 0)
        close(bare.in);
    free(bare.bytes);
    return NULL;
}

struct rate {
    double per_second, cpu;
};

static struct rate measure_many(struct load *load, int threads)
{
    pthread_t *all = calloc((size_t)threads, sizeof *all);
    if (all == NULL)
        die("no memory");
    atomic_store(&load->left, load->calls);
    pthread_barrier_init(&load->ready, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&all[i], NULL, one, load) != 0)
            die("no thread");
    pthread_barrier_wait(&load->ready);
    double begin = now_us(), cpu = cpu_us();
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    double took = now_us() - begin;
    cpu = (cpu_us() - cpu) / load->calls;
    pthread_barrier_destroy(&load->ready);
    free(all);
    return (struct rate){load->calls / took * 1e6, cpu};
}

static void tell(const char *name, struct rate rate)
{
    printf("%s\t%.0f\t%.1f\n", name, rate.per_second, rate.cpu);
    fflush(stdout);
}

static struct rate middle_of(struct rate *rates, int rounds)
{
    double fast[MAX_ROUNDS], cpu[MAX_ROUNDS];
    for (int i = 0; i < rounds; i++) {
        fast[i] = rates[i].per_second;
        cpu[i] = rates[i].cpu;
    }
    return (struct rate){quantile(fast, rounds, 0.5), quantile(cpu, rounds, 0.5)};
}

int main(int count, char **args)
{
    char *colon = count == 8 ? strrchr(args[2], ':') : NULL;
    if (colon == NULL) {
        fprintf(stderr, "usage: many_calls URL HOST:PORT Q A THREADS CALLS ROUNDS\n");
        return 2;
    }
    *colon = 0;
    int threads = atoi(args[5]), rounds = atoi(args[7]);
    struct load bare = {.host = args[2], .port = atoi(colon + 1), .question = strtoul(args[3], NULL, 10),
                        .answer = strtoul(args[4], NULL, 10), .calls = atoi(args[6])};
    struct load library = {.calls = bare.calls, .client = open_client(args[1])};
    struct rate with[MAX_ROUNDS], without[MAX_ROUNDS];
    if (threads < 1 || rounds < 1 || rounds > MAX_ROUNDS || bare.calls < 1)
        die("bad arguments");
    measure_many(&library, threads);
    for (int i = 0; i < rounds; i++) {
        tell("round bare", without[i] = measure_many(&bare, threads));
        tell("round call", with[i] = measure_many(&library, threads));
    }
    tell("bare", middle_of(without, rounds));
    tell("call", middle_of(with, rounds));
    close_client(library.client);
    return mcp_shutdown(5000) == MCP_OK ? 0 : 1;
}
