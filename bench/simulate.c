/* Simulates reductions and all_to_all over 2 to 10,000 processes: the schedules that a job runs
 * (src/runtime/collectives/schedule/relay_schedule.h), over a modelled network.
 *
 *     simulate                   a table
 *     simulate PROCESSES BYTES   one row of the table
 *     simulate --check           prints nothing and exits with 0 if the messages and bytes of each process stay within their bounds
 *
 * The model: a message costs OVERHEAD on each end's processor and LATENCY on the network; its bytes flow at BANDWIDTH, in both directions
 * at the same time. A large message is offered first and sent when the receiver is ready (rendezvous), as in src/comm. Partial results are
 * added at COMBINE. Some processes may be slow in all of this. One process may be dead: a process that waits for it asks after ASKED, gets
 * an error, fails, and answers later questions with that error. Not modelled: links that several pairs share, and other work of a
 * process. */
#include "runtime/collectives/collectives.h"
#include "runtime/collectives/schedule/relay_schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double OVERHEAD = 0.5e-6, LATENCY = 5e-6, BANDWIDTH = 10e9, COMBINE = 5e9, ASKED = 20e-3; /* seconds, bytes per second */
enum { DIRECT_MOST = 8, PIECES_FROM = 64 << 10, EAGER_MOST = 32 << 10, SLOW = 10 }; /* SLOW: the factor of a slow process */

typedef struct network {
    int64_t processes;
    int *first;    /* each process's first rank, and the number of ranks */
    mf_comm *comm; /* only its information on which process has which ranks is used */
    mf_ownership owners;
    double *slow; /* for each process: 1, or the factor by which it is slower */
    int64_t dead; /* the dead process; -1: none */
} network;

typedef struct outcome {
    mf_algorithm algorithm;
    int chain;              /* the longest chain of dependent messages */
    int64_t messages;       /* the most that one process sends */
    double sent, sent_mean; /* the bytes that a process sends: maximum and mean */
    double memory;          /* the most bytes that a process needs */
    double seconds;         /* until the last process has the sum or, with a dead process, the error */
    bool all;               /* with a dead process: whether all others get the error */
} outcome;

static network make_network(int64_t processes, int each, bool uneven)
{
    network n = { .processes = processes,
                  .first = calloc((size_t)processes + 1, sizeof *n.first),
                  .comm = calloc(1, sizeof *n.comm),
                  .slow = calloc((size_t)processes, sizeof *n.slow),
                  .dead = -1 };
    if (!n.first || !n.slow || !n.comm)
        exit(EXIT_FAILURE);
    for (int64_t i = 0; i < processes; i++) {
        n.first[i + 1] = n.first[i] + (uneven ? 1 + (int)(i * 7 % each) : each);
        n.slow[i] = 1;
    }
    *n.comm = (mf_comm){ .size = (int)processes, .first_device = n.first };
    mf_comm_count_devices(n.comm);
    if (!mf_ownership_line(&n.owners, n.comm, 0, 1, n.first[processes]))
        exit(EXIT_FAILURE);
    return n;
}

static void free_network(network *n)
{
    free(n->first);
    free(n->comm);
    free(n->slow);
}

/* ------------------------------------------------------------------ relayed */

typedef struct process {
    double now, failed; /* seconds; failed: when it got an error, else INFINITY */
    int chain;
    int64_t messages;
    double sent, memory;
} process;

typedef struct message {
    int64_t count; /* the number of equal messages, one for each node */
    double bytes;  /* of all of them */
} message;

static message message_of(const network *n, int64_t sender, mf_span span, bool partial, int step)
{
    mf_subtree nodes[MF_RELAY_NODES];
    if (sender < 0 || span.first >= span.end)
        return (message){ 0, 0 };
    int64_t count = partial ? mf_relay_nodes(&n->owners, sender, step, nodes) : 1;
    return (message){ count, (double)(count * (span.end - span.first)) };
}

static double larger(double a, double b) { return a > b ? a : b; }

/* The time at which a message arrives that its sender begins at `from` and its receiver requests at `to`. */
static double arrival(const network *n, double from, double to, message m, int64_t a, int64_t b)
{
    double slow = larger(n->slow[a], n->slow[b]), hop = slow * (2 * OVERHEAD + LATENCY);
    double start = m.bytes / (double)m.count > EAGER_MOST ? larger(from + hop, to) + hop : from;
    return start + slow * ((double)m.count * 2 * OVERHEAD + m.bytes / BANDWIDTH + LATENCY);
}

static void take_step(const network *n, mf_algorithm algorithm, int64_t length, int step, int64_t i, const process *all, process *p)
{
    mf_transfer t = mf_relay_step(algorithm, n->processes, i, length, step);
    message in = message_of(n, t.from, t.receives, t.partial, step), out = message_of(n, t.to < 0 ? -1 : i, t.sends, t.partial, step);
    if (isfinite(p->failed) || (!in.count && !out.count))
        return;
    bool waits_for_send = out.count && out.bytes / (double)out.count > EAGER_MOST;
    double other = INFINITY; /* when the process that this one waits for failed */
    if (in.count)
        other = all[t.from].failed;
    if (waits_for_send && all[t.to].failed < other)
        other = all[t.to].failed;
    if (isfinite(other)) {
        p->failed = larger(p->now, other) + ASKED;
        return;
    }
    double done = p->now + n->slow[i] * (double)out.count * OVERHEAD;
    if (in.count) {
        done = larger(done, arrival(n, all[t.from].now, p->now, in, t.from, i));
        done += t.partial ? n->slow[i] * in.bytes / COMBINE : 0;
        int chain = all[t.from].chain + 1;
        p->chain = chain > p->chain ? chain : p->chain;
    }
    if (waits_for_send)
        done = larger(done, arrival(n, p->now, all[t.to].now, out, i, t.to));
    p->now = done;
    p->messages += out.count;
    p->sent += out.bytes;
    p->memory += t.partial ? in.bytes : 0;
}

static outcome relay(const network *n, mf_algorithm algorithm, int64_t bytes)
{
    process *now = calloc((size_t)n->processes, sizeof *now), *next = calloc((size_t)n->processes, sizeof *next);
    if (!now || !next)
        exit(EXIT_FAILURE);
    for (int64_t i = 0; i < n->processes; i++) {
        mf_subtree own[MF_FRONTIER_MAX];
        int64_t nodes = mf_frontier(n->first[n->processes], n->first[i], n->first[i + 1], own);
        now[i] = (process){ .failed = i == n->dead ? 0 : INFINITY, .memory = (double)((nodes + 1) * bytes) };
    }
    for (int step = 0; step < mf_relay_steps(n->processes); step++) {
        memcpy(next, now, (size_t)n->processes * sizeof *now);
        for (int64_t i = 0; i < n->processes; i++)
            take_step(n, algorithm, bytes, step, i, now, &next[i]);
        process *before = now;
        now = next;
        next = before;
    }
    outcome o = { .algorithm = algorithm, .all = true };
    for (int64_t i = 0; i < n->processes; i++) {
        const process *p = &now[i];
        o.chain = p->chain > o.chain ? p->chain : o.chain;
        o.messages = p->messages > o.messages ? p->messages : o.messages;
        o.sent = larger(o.sent, p->sent);
        o.sent_mean += p->sent / (double)n->processes;
        o.memory = larger(o.memory, p->memory);
        o.seconds = larger(o.seconds, n->dead < 0 ? p->now : i == n->dead || !isfinite(p->failed) ? 0 : p->failed);
        o.all &= isfinite(p->failed);
    }
    free(now);
    free(next);
    return o;
}

/* ------------------------------------------------------------------ direct: each process to each other */

static outcome direct(const network *n, int64_t bytes)
{
    bool pieces = bytes >= atomic_load(&mf_reduce_scatter_from);
    double others = (double)(n->processes - 1), each = pieces ? (double)bytes / (double)n->processes : (double)bytes, ways = pieces ? 2 : 1;
    double slow = 1;
    for (int64_t i = 0; i < n->processes; i++)
        slow = larger(slow, n->slow[i]);
    double algorithm = slow * (others * (2 * OVERHEAD + each / BANDWIDTH) + LATENCY);
    return (outcome){ .algorithm = MF_ALGORITHM_DIRECT,
                      .chain = (int)ways,
                      .messages = (int64_t)(ways * others),
                      .sent = ways * others * each,
                      .sent_mean = ways * others * each,
                      .memory = (double)bytes * 2 + others * each,
                      .seconds = ways * algorithm + slow * others * each / COMBINE,
                      .all = true };
}

/* ------------------------------------------------------------------ all_to_all */

/* Every process has a piece of `bytes` for each other process and sends them in rounds. o.messages: the most messages in flight at once. */
static outcome all_to_all(const network *n, int64_t bytes)
{
    outcome o = { .algorithm = MF_ALGORITHM_DIRECT, .all = true };
    double *begun = calloc((size_t)n->processes, sizeof *begun), *next = calloc((size_t)n->processes, sizeof *next);
    if (!begun || !next)
        exit(EXIT_FAILURE);
    double each = 2 * OVERHEAD + (double)bytes / BANDWIDTH, offer = bytes > EAGER_MOST ? 2 * (LATENCY + 2 * OVERHEAD) : 0;
    for (mf_span d = mf_round_distances(n->processes, 0); d.first < d.end; d = mf_round_distances(n->processes, o.chain)) {
        for (int64_t i = 0; i < n->processes; i++) {
            next[i] = 0;
            for (int64_t k = d.first; k < d.end; k++) {
                int64_t from = (i - k + n->processes) % n->processes, to = (i + k) % n->processes;
                double nth = (double)(k - d.first + 1);
                double in = larger(begun[i], begun[from]) + larger(n->slow[i], n->slow[from]) * (nth * each + LATENCY + offer);
                double out = larger(begun[i], bytes > EAGER_MOST ? begun[to] : 0) + larger(n->slow[i], n->slow[to]) * (nth * each + offer);
                next[i] = larger(next[i], larger(in, out));
            }
        }
        int64_t in_flight = d.end - d.first;
        o.messages = in_flight > o.messages ? in_flight : o.messages;
        o.chain++;
        double *before = begun;
        begun = next;
        next = before;
    }
    for (int64_t i = 0; i < n->processes; i++)
        o.seconds = larger(o.seconds, begun[i]);
    o.sent = o.sent_mean = (double)(n->processes - 1) * (double)bytes;
    o.memory = 2 * (double)n->processes * (double)bytes;
    free(begun);
    free(next);
    return o;
}

static void print_all_to_all(int64_t processes, int64_t bytes)
{
    network n = make_network(processes, 8, false);
    outcome o = all_to_all(&n, bytes);
    double bound = (double)(processes - 1) * (2 * OVERHEAD + (double)bytes / BANDWIDTH);
    for (int64_t i = 0; i < processes; i += 100)
        n.slow[i] = SLOW;
    outcome slow = all_to_all(&n, bytes);
    printf("%9lld %8.2f KiB %7d %9lld %10.3f %10.3f %10.3f\n", (long long)processes, (double)bytes / 1024, o.chain, (long long)o.messages,
           1e3 * o.seconds, 1e3 * bound, 1e3 * slow.seconds);
    free_network(&n);
}

static outcome simulate(const network *n, int64_t bytes)
{
    mf_algorithm algorithm = mf_algorithm_for(atomic_load(&mf_reduce_scatter_from), n->processes, bytes);
    return algorithm == MF_ALGORITHM_DIRECT ? direct(n, bytes) : relay(n, algorithm, bytes);
}

/* ------------------------------------------------------------------ the table */

static const int64_t sizes[] = { 1 << 10, 64 << 10, 1 << 20, 64 << 20 };
enum { SIZES = sizeof sizes / sizeof *sizes };

static void print_row(int64_t processes, int64_t bytes)
{
    static const char *const ways[] = { "direct", "whole", "parts" };
    network n = make_network(processes, 8, false);
    outcome o = simulate(&n, bytes), to_all = direct(&n, bytes);
    for (int64_t i = 0; i < processes; i += 100)
        n.slow[i] = SLOW;
    outcome slow = simulate(&n, bytes);
    for (int64_t i = 0; i < processes; i += 100)
        n.slow[i] = 1;
    n.dead = processes / 3;
    outcome dead = o.algorithm == MF_ALGORITHM_DIRECT ? (outcome){ .seconds = ASKED } : simulate(&n, bytes);
    printf("%9lld %8lld KiB %7s %6d %9lld %6.2f %6.2f %7.2f %10.3f %10.3f %10.3f %8.0f\n", (long long)processes, (long long)bytes >> 10,
           ways[o.algorithm], o.chain, (long long)o.messages, o.sent / (double)bytes, o.sent_mean / (double)bytes, o.memory / (double)bytes,
           1e3 * o.seconds, 1e3 * to_all.seconds, 1e3 * slow.seconds, 1e3 * dead.seconds);
    free_network(&n);
}

static void print_head(void)
{
    puts(
        "chain: messages one after the other. messages, sent (and mean), memory: of a process, in vectors of so many bytes. all to all: the same,\n"
        "if everybody sent to everybody. slow: every hundredth process ten times slower. dead: until all have heard of a dead one.\n");
    puts("processes        bytes     way  chain  messages   sent   mean  memory         ms all to all ms    slow ms  dead ms");
}

/* ------------------------------------------------------------------ bounds */

static bool within(const network *n, int64_t bytes, int nodes)
{
    outcome o = simulate(n, bytes);
    int log = 0;
    while (n->processes >> (log + 1))
        log++;
    bool whole = o.algorithm == MF_ALGORITHM_DOUBLING;
    if (o.algorithm == MF_ALGORITHM_DIRECT)
        return true;
    bool good = o.chain <= (whole ? 2 : 4) * log && o.messages <= nodes * ((whole ? 2 : 4) * log + 2) &&
                o.sent <= nodes * (whole ? 2 * log + 2 : 5) * (double)bytes &&
                o.sent_mean <= nodes * (whole ? log + 1 : 2.1) * (double)bytes &&
                o.memory <= (nodes + 1) * (whole ? log + 2 : 3.0) * (double)bytes;
    if (!good)
        printf("%lld processes, %lld bytes: a chain of %d, %lld messages, %.2f vectors sent (%.2f in the mean), %.2f kept\n",
               (long long)n->processes, (long long)bytes, o.chain, (long long)o.messages, o.sent / (double)bytes,
               o.sent_mean / (double)bytes, o.memory / (double)bytes);
    return good;
}

static bool hear(network *n, int64_t bytes)
{
    bool good = true;
    for (n->dead = 0; n->dead < n->processes; n->dead += 1 + n->processes / 3) {
        outcome o = simulate(n, bytes);
        if (!o.all)
            printf("%lld processes, %lld bytes: not all hear of the death of process %lld\n", (long long)n->processes, (long long)bytes,
                   (long long)n->dead);
        good &= o.all;
    }
    n->dead = -1;
    return good;
}

/* Few messages are in flight at once, and the overhead of the rounds is small compared with the bytes that each process sends. */
static bool check_all_to_all(void)
{
    bool good = true;
    for (int64_t processes = 2; processes <= 2000; processes += 1 + processes / 3)
        for (int64_t bytes = 64; bytes <= 1 << 20; bytes *= 128) {
            network n = make_network(processes, 8, false);
            outcome o = all_to_all(&n, bytes);
            double bound = (double)(processes - 1) * (2 * OVERHEAD + (double)bytes / BANDWIDTH);
            double wait = LATENCY + (bytes > EAGER_MOST ? 2 * (LATENCY + 2 * OVERHEAD) : 0);
            bool fine = o.messages <= MF_ROUND_MOST && o.seconds <= bound + o.chain * wait + 1e-9;
            if (!fine)
                printf("all_to_all over %lld processes, %lld bytes to each: %lld at a time, %g s\n", (long long)processes, (long long)bytes,
                       (long long)o.messages, o.seconds);
            good &= fine;
            free_network(&n);
        }
    return good;
}

static bool check(void)
{
    bool good = check_all_to_all();
    for (int64_t processes = 2; processes <= 10000; processes += 1 + processes / 3)
        for (int shares = 0; shares < 3; shares++) { /* aligned; a few nodes each; uneven */
            network n = make_network(processes, shares ? 6 : 8, shares == 2);
            for (int s = 0; s < SIZES; s++)
                good &= within(&n, sizes[s], (const int[]){ 1, 2, 8 }[shares]) && (s % 2 || hear(&n, sizes[s]));
            free_network(&n);
        }
    return good;
}

int main(int argc, char **argv)
{
    static const int64_t counts[] = { 2, 8, 15, 16, 17, 32, 64, 100, 128, 1000, 1024, 4096, 4097, 10000 };
    if (argc == 2 && strcmp(argv[1], "--check") == 0)
        return !check();
    if (argc == 3 && atoll(argv[1]) >= 2 && atoll(argv[1]) <= INT32_MAX / 8 && atoll(argv[2]) >= 1) {
        print_head();
        print_row(atoll(argv[1]), atoll(argv[2]));
        return 0;
    }
    if (argc != 1) {
        fputs("usage: simulate [--check | PROCESSES BYTES]\n", stderr);
        return 2;
    }
    print_head();
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int s = 0; s < SIZES; s++)
            print_row(counts[i], sizes[s]);
    puts(
        "\nall_to_all, so many bytes to each: rounds; messages at a time; bound: what the processors and the link need without any wait.\n");
    puts("processes        each  rounds  at a time         ms   bound ms    slow ms");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int64_t bytes = 64; bytes <= 64 << 10; bytes *= 32)
            print_all_to_all(counts[i], bytes);
    return 0;
}
