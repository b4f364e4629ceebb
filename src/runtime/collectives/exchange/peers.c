/* The processes of an exchange: which ones take part, which ranks each has, and for which nodes of the tree over the ranks it sends partial
 * results. This process is the first, and the others follow around the circle of all processes, so that each process begins with another
 * one.
 * Invariant: a process's runs of ranks ascend, and so does what it sends of them. */
#include "runtime/collectives/exchange/exchange.h"

#include <stdlib.h>

/* If all are ppermutes, only a process's own partners matter to it. */
static bool only_permutes(const mf_exchange *x)
{
    for (int k = 0; k < x->out_count; k++)
        if (mf_exchange_eqn(x, k)->op->collective != MF_COLLECTIVE_PERMUTE)
            return false;
    return true;
}

static int by_number(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* The numbers of the processes that take part, ascending and unique; *count of them. NULL: memory is out. */
static int *find_processes(const mf_exchange *x, int64_t *count)
{
    const mf_rendezvous *g = x->rendezvous;
    const mf_ownership *o = &g->owners;
    int64_t most = 1 + (x->pairs ? 2 * g->here_count * x->out_count : o->runs), found = 1, unique = 0;
    int *list = mf_alloc((size_t)most * sizeof *list);
    if (!list)
        return NULL;
    list[0] = x->run_state->comm->rank;
    for (int64_t run = 0; run < o->runs && !x->pairs; run++)
        list[found++] = mf_ownership_process(o, run);
    for (int k = 0; k < x->out_count && x->pairs; k++)
        for (int64_t i = 0; i < g->here_count; i++) {
            const mf_permutation *p = &g->instr->participants->permutations[k];
            int ranks[2] = { p->sources[g->members[i].rank], p->targets[g->members[i].rank] };
            for (int side = 0; side < 2; side++)
                if (ranks[side] >= 0)
                    list[found++] = mf_ownership_process(o, mf_ownership_run_of(o, ranks[side]));
        }
    qsort(list, (size_t)found, sizeof *list, by_number);
    for (int64_t i = 0; i < found; i++)
        if (!i || list[i] != list[unique - 1])
            list[unique++] = list[i];
    *count = unique;
    return list;
}

/* Numbers the sources: this process first, then the others around the circle. */
static bool number_sources(mf_exchange *x)
{
    int64_t count, own = 0;
    int *list = find_processes(x, &count);
    x->sources = list ? mf_calloc((size_t)count, sizeof *x->sources) : NULL;
    if (x->sources) {
        while (list[own] != x->run_state->comm->rank)
            own++;
        x->source_count = (int)count;
        for (int64_t i = 0; i < count; i++)
            x->sources[i] = (mf_exchange_peer){ .process = list[(own + i) % count], .nth = (int)((own + i) % count) };
    }
    mf_free(list);
    return x->sources;
}

/* The index in `sources` of a process that is one of them. */
static int source_of(const mf_exchange *x, int process)
{
    int size = x->run_state->comm->size, own = x->sources->process, low = 0, high = x->source_count;
    int distance = (process - own + size) % size;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        *(distance < (x->sources[middle].process - own + size) % size ? &high : &low) = middle;
    }
    return low;
}

int mf_exchange_source_of_rank(const mf_exchange *x, int64_t rank)
{
    const mf_ownership *o = &x->rendezvous->owners;
    return source_of(x, mf_ownership_process(o, mf_ownership_run_of(o, rank)));
}

/* Lists each source's runs of ranks in one array. */
static bool list_runs(mf_exchange *x)
{
    const mf_ownership *o = &x->rendezvous->owners;
    mf_rank_run *list = x->runs = mf_alloc((size_t)o->runs * sizeof *list);
    if (!list)
        return false;
    for (int64_t i = 0; i < o->runs; i++)
        x->sources[source_of(x, mf_ownership_process(o, i))].run_count++;
    for (int s = 0; s < x->source_count; list += x->sources[s].run_count, x->sources[s++].run_count = 0)
        x->sources[s].runs = list;
    for (int64_t i = 0; i < o->runs; i++) {
        mf_exchange_peer *owner = &x->sources[source_of(x, mf_ownership_process(o, i))];
        mf_rank_run run = { mf_ownership_first(o, i), mf_ownership_first(o, i + 1), owner->rank_count };
        owner->runs[owner->run_count++] = run;
        owner->rank_count += run.end - run.first;
    }
    return true;
}

int64_t mf_exchange_position_of(const mf_exchange_peer *owner, int64_t rank)
{
    int64_t low = 0, high = owner->run_count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        *(rank < owner->runs[middle].first ? &high : &low) = middle;
    }
    return owner->runs[low].before + rank - owner->runs[low].first;
}

static bool find_frontier(const mf_exchange *x, mf_exchange_peer *of)
{
    mf_subtree nodes[MF_FRONTIER_MAX];
    int64_t n = x->rendezvous->member_count, count = 0;
    for (int64_t i = 0; i < of->run_count; i++)
        count += mf_frontier(n, of->runs[i].first, of->runs[i].end, nodes);
    of->frontier = mf_alloc((size_t)count * sizeof *of->frontier);
    for (int64_t i = 0; i < of->run_count && of->frontier; i++)
        of->frontier_count += mf_frontier(n, of->runs[i].first, of->runs[i].end, of->frontier + of->frontier_count);
    return of->frontier;
}

/* What comes from one process is in the order of the sources' ranks. */
static void number_pairs(const mf_exchange *x, int k)
{
    const mf_rendezvous *g = x->rendezvous;
    const mf_permutation *p = &g->instr->participants->permutations[k];
    mf_exchange_pair *pairs = x->exchanged + k * g->here_count;
    for (int64_t i = 0; i < g->here_count; i++) {
        int source = p->sources[g->members[i].rank], target = p->targets[g->members[i].rank];
        int from = source < 0 ? 0 : mf_exchange_source_of_rank(x, source), to = target < 0 ? 0 : mf_exchange_source_of_rank(x, target);
        pairs[i] = (mf_exchange_pair){ to ? to : -1, from ? from : -1, 0 };
        for (int64_t j = 0; j < i && from; j++)
            if (pairs[j].from == from) {
                int64_t other = p->sources[g->members[j].rank];
                pairs[other < source ? i : j].number++;
            }
    }
}

static bool find_pairs(mf_exchange *x)
{
    bool any = false;
    for (int k = 0; k < x->out_count; k++)
        any |= mf_exchange_eqn(x, k)->op->collective == MF_COLLECTIVE_PERMUTE;
    if (any && !(x->exchanged = mf_alloc((size_t)(x->out_count * x->rendezvous->here_count) * sizeof *x->exchanged)))
        return false;
    for (int k = 0; k < x->out_count; k++)
        if (mf_exchange_eqn(x, k)->op->collective == MF_COLLECTIVE_PERMUTE)
            number_pairs(x, k);
    return true;
}

bool mf_exchange_find_peers(mf_exchange *x)
{
    x->pairs = only_permutes(x);
    bool made = number_sources(x) && find_pairs(x) && (x->pairs || list_runs(x));
    for (int i = 0; i < x->source_count && made; i++) {
        mf_exchange_peer *from = &x->sources[i];
        made = (from->offsets = mf_alloc((size_t)x->out_count * sizeof *from->offsets)) && (x->pairs || find_frontier(x, from));
    }
    return made;
}
