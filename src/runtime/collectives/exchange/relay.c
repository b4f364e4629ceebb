/* Collectives over many processes, by the schedules of relay_schedule.h.
 *
 * All reductions of a rendezvous travel as one vector: their partial results one after the other, each beginning at a unit; a part of the
 * vector is a span of units. Each node has its own memory, where it was computed or received. Everything that is gathered travels as
 * records, one per rank.
 * Invariants: a step begins when all messages of the one before have ended, including the sends, so what has been sent may be
 * overwritten; between steps nothing is under way. */
#include "runtime/collectives/exchange/exchange.h"
#include "runtime/collectives/schedule/relay_schedule.h"

#include <string.h>

enum { UNIT = 64, STEPS = 2 * 31 }; /* bytes; the most steps that bring partial results */

_Atomic int mf_algorithm_forced = -1;

typedef struct part { /* a part of the vector for one node */
    mf_subtree node;
    unsigned char *at; /* address of unit `first` */
    int64_t first;
} part;

struct mf_relay {
    int64_t processes, own; /* number of participants; this one's */
    mf_span ranks;          /* of this participant */
    int step;
    int64_t *offsets; /* by result: bytes into the vector, or into a record */
    /* reductions */
    mf_algorithm algorithm;
    int64_t length; /* of the vector in units; 0: nothing is reduced */
    part parts[MF_RELAY_NODES];
    int part_count;
    mf_register mine, sum, came[STEPS]; /* came: the nodes that each step brought */
    /* what is gathered */
    int64_t record; /* bytes; 0: nothing is gathered */
    mf_register all;
};

static bool is_gathered(const mf_eqn *e)
{
    mf_collective_kind kind = e->op->collective;
    return kind == MF_COLLECTIVE_GATHER || kind == MF_COLLECTIVE_COMPARE;
}

bool mf_relayed(const mf_exchange *x, int k)
{
    const mf_eqn *e = mf_exchange_eqn(x, k);
    return x->relay && (mf_reduces(e) || is_gathered(e));
}

/* ------------------------------------------------------------------ beginning */

static int64_t in_units(int64_t bytes) { return (bytes + UNIT - 1) / UNIT; }

static void lay_out(const mf_exchange *x, mf_relay *r)
{
    for (int k = 0; k < x->out_count; k++) {
        const mf_eqn *e = mf_exchange_eqn(x, k);
        if (mf_reduces(e)) {
            r->offsets[k] = r->length * UNIT;
            r->length += in_units(mf_partial_bytes(e));
        } else if (is_gathered(e)) {
            r->offsets[k] = r->record;
            r->record += in_units(mf_gathered_bytes(e)) * UNIT;
        }
    }
}

static bool put_partials(const mf_exchange *x, mf_relay *r)
{
    mf_subtree nodes[MF_FRONTIER_MAX];
    r->part_count = mf_frontier(x->rendezvous->member_count, r->ranks.first, r->ranks.end, nodes);
    bool made = mf_register_new(&r->mine, r->part_count * r->length * UNIT);
    for (int i = 0; i < r->part_count && made; i++) {
        r->parts[i] = (part){ nodes[i], r->mine.data + i * r->length * UNIT, 0 };
        for (int k = 0; k < x->out_count && made; k++) {
            const mf_eqn *e = mf_exchange_eqn(x, k);
            int64_t bytes = mf_partial_bytes(e);
            if (!mf_reduces(e))
                continue;
            memset(r->parts[i].at + r->offsets[k] + bytes, 0, (size_t)(in_units(bytes) * UNIT - bytes));
            made = mf_reduce_subtree(x, k, nodes[i], 0, e->in[0]->type->size, r->parts[i].at + r->offsets[k]);
        }
    }
    return made && mf_register_new(&r->sum, r->length * UNIT);
}

static bool put_records(const mf_exchange *x, mf_relay *r)
{
    const mf_rendezvous *g = x->rendezvous;
    if (!mf_register_new(&r->all, g->member_count * r->record))
        return false;
    memset(r->all.data + r->ranks.first * r->record, 0, (size_t)((r->ranks.end - r->ranks.first) * r->record));
    for (int k = 0; k < x->out_count; k++)
        if (is_gathered(mf_exchange_eqn(x, k)))
            mf_put_gathered(x, k, r->all.data + r->ranks.first * r->record + r->offsets[k], r->record); /* its ranks follow one another */
    return true;
}

bool mf_relay_prepare(mf_exchange *x)
{
    int forced = atomic_load_explicit(&mf_algorithm_forced, memory_order_relaxed);
    if (forced == MF_ALGORITHM_DIRECT || (forced < 0 && x->run_state->comm->size <= MF_DIRECT_MOST))
        return true;
    const mf_ownership *owners = &x->rendezvous->owners;
    int64_t processes = owners->ordered ? owners->runs : 0, bytes = 0;
    for (int k = 0; k < x->out_count; k++)
        bytes += mf_reduces(mf_exchange_eqn(x, k)) ? mf_partial_bytes(mf_exchange_eqn(x, k)) : 0;
    mf_algorithm algorithm = mf_algorithm_for(atomic_load_explicit(&mf_reduce_scatter_from, memory_order_relaxed), processes, bytes);
    algorithm = forced < 0 ? algorithm : (mf_algorithm)forced;
    if (algorithm == MF_ALGORITHM_DIRECT || processes < 2)
        return true;
    mf_relay *r = x->relay = mf_calloc(1, sizeof *r);
    if (!r)
        return false;
    r->processes = processes;
    r->algorithm = algorithm;
    r->step = -1;
    r->own = mf_ownership_run_of(owners, x->rendezvous->members[0].rank);
    r->ranks = (mf_span){ mf_ownership_first(owners, r->own), mf_ownership_first(owners, r->own + 1) };
    r->offsets = mf_calloc((size_t)x->out_count, sizeof *r->offsets);
    if (!r->offsets)
        return false;
    lay_out(x, r);
    return (!r->length || put_partials(x, r)) && (!r->record || put_records(x, r));
}

void mf_relay_free(mf_relay *r)
{
    if (!r)
        return;
    mf_register_release(&r->mine);
    mf_register_release(&r->sum);
    mf_register_release(&r->all);
    for (int i = 0; i < STEPS; i++)
        mf_register_release(&r->came[i]);
    mf_free(r->offsets);
    mf_free(r);
}

/* ------------------------------------------------------------------ messages */

/* Counts messages, and posts them if `post` is set. */
typedef struct posting {
    mf_exchange *x;
    mf_transfer t;
    bool post;
    int sent, received;
} posting;

/* The first message between two processes has the tag of a direct exchange's shared part: so a process that does not relay receives it,
 * and both notice that they compute different things. */
static mf_message_tag tag_of(const posting *p, int number)
{
    uint64_t step = mf_hash_mix(MF_PART_RELAY, (uint64_t)p->x->relay->step);
    return mf_exchange_tag(p->x, p->t.partial && !number ? MF_PART_SHARED : mf_hash_mix(step, (uint64_t)number));
}

static int process_of(const posting *p, int64_t participant) { return mf_ownership_process(&p->x->rendezvous->owners, participant); }

static void send(posting *p, const unsigned char *at, int64_t bytes)
{
    mf_comm *c = p->x->run_state->comm;
    if (p->t.to < 0 || !bytes)
        return;
    mf_message_tag tag = tag_of(p, p->sent++);
    if (p->post)
        c->send(c, process_of(p, p->t.to), &tag, at, (size_t)bytes, mf_message_ended, p->x);
}

static void receive(posting *p, unsigned char *at, int64_t bytes)
{
    mf_comm *c = p->x->run_state->comm;
    if (p->t.from < 0 || !bytes)
        return;
    mf_message_tag tag = tag_of(p, p->received++);
    if (p->post)
        c->receive(c, process_of(p, p->t.from), &tag, at, (size_t)bytes, mf_message_ended, p->x);
}

static int64_t span_bytes(mf_span s) { return s.end > s.first ? (s.end - s.first) * UNIT : 0; }

/* Posts the vector's messages: the nodes, or the sum. */
static void post_vector(posting *p)
{
    const mf_relay *r = p->x->relay;
    const mf_transfer *t = &p->t;
    int64_t in = span_bytes(t->receives), out = span_bytes(t->sends);
    mf_subtree nodes[MF_RELAY_NODES];
    if (!t->partial) {
        receive(p, r->sum.data + t->receives.first * UNIT, in);
        send(p, r->sum.data + t->sends.first * UNIT, out);
        return;
    }
    int count = t->from < 0 ? 0 : mf_relay_nodes(&p->x->rendezvous->owners, t->from, r->step, nodes);
    for (int i = 0; i < count; i++)
        receive(p, p->post ? r->came[r->step].data + i * in : NULL, in);
    for (int i = 0; i < r->part_count && t->to >= 0; i++)
        send(p, r->parts[i].at + (t->sends.first - r->parts[i].first) * UNIT, out);
}

/* The bytes of the records that a participant has, as spans. */
static int records_of(const mf_exchange *x, int64_t participant, bool partial, mf_span *out)
{
    const mf_relay *r = x->relay;
    const mf_ownership *owners = &x->rendezvous->owners;
    out[0] = (mf_span){ 0, r->processes };
    int count = partial ? mf_relay_held(r->processes, participant, r->step, out) : 1;
    for (int i = 0; i < count; i++)
        out[i] = (mf_span){ mf_ownership_first(owners, out[i].first) * r->record, mf_ownership_first(owners, out[i].end) * r->record };
    return count;
}

static void post_records(posting *p)
{
    const mf_relay *r = p->x->relay;
    mf_span span[2];
    int count = p->t.from < 0 ? 0 : records_of(p->x, p->t.from, p->t.partial, span);
    for (int i = 0; i < count; i++)
        receive(p, r->all.data + span[i].first, span[i].end - span[i].first);
    count = p->t.to < 0 ? 0 : records_of(p->x, r->own, p->t.partial, span);
    for (int i = 0; i < count; i++)
        send(p, r->all.data + span[i].first, span[i].end - span[i].first);
}

static mf_transfer transfer(const mf_relay *r, mf_algorithm algorithm)
{
    return mf_relay_step(algorithm, r->processes, r->own, r->length, r->step);
}

static int post(mf_exchange *x, bool really)
{
    const mf_relay *r = x->relay;
    posting p = { .x = x, .post = really };
    p.t = transfer(r, r->algorithm);
    if (r->length)
        post_vector(&p);
    p.t = transfer(r, MF_ALGORITHM_DOUBLING);
    if (r->record)
        post_records(&p);
    return p.sent + p.received;
}

/* Allocates memory for what this step brings; false: memory is out. */
static bool allocate(const mf_exchange *x)
{
    mf_relay *r = x->relay;
    mf_subtree nodes[MF_RELAY_NODES];
    mf_transfer t = transfer(r, r->algorithm);
    int64_t bytes = t.partial && t.from >= 0 ? span_bytes(t.receives) : 0;
    return !bytes || mf_register_new(&r->came[r->step], bytes * mf_relay_nodes(&x->rendezvous->owners, t.from, r->step, nodes));
}

/* ------------------------------------------------------------------ combining */

/* Adds a span of two siblings into the left one. */
static bool add(const mf_exchange *x, mf_span s, const part *into, const part *from)
{
    const mf_relay *r = x->relay;
    for (int k = 0; k < x->out_count; k++) {
        const mf_eqn *e = mf_exchange_eqn(x, k);
        int64_t begin = r->offsets[k], end = begin + mf_partial_bytes(e);
        begin = begin > s.first * UNIT ? begin : s.first * UNIT;
        end = end < s.end * UNIT ? end : s.end * UNIT;
        if (!mf_reduces(e) || begin >= end)
            continue;
        unsigned char *left = into->at + begin - into->first * UNIT, *right = from->at + begin - from->first * UNIT;
        mf_dtype dtype = mf_partial_dtype(e);
        if (!mf_collective_reduce(x->compiler, e, dtype, (const void *[]){ left, right }, 2, (end - begin) / mf_dtype_size(dtype), left))
            return false;
    }
    return true;
}

/* Merges the nodes that came with those that are here, from left to right; siblings become their parent. */
static bool combine(const mf_exchange *x, const mf_transfer *t)
{
    mf_relay *r = x->relay;
    mf_subtree nodes[MF_RELAY_NODES];
    part all[2 * MF_RELAY_NODES];
    int64_t bytes = span_bytes(t->receives), n = x->rendezvous->member_count;
    int count = 0, came = t->from < 0 ? 0 : mf_relay_nodes(&x->rendezvous->owners, t->from, r->step, nodes);
    for (int i = 0, j = 0; came && (i < r->part_count || j < came);) {
        bool own = j == came || (i < r->part_count && r->parts[i].node.first < nodes[j].first);
        all[count++] = own ? r->parts[i] : (part){ nodes[j], r->came[r->step].data + j * bytes, t->receives.first };
        i += own;
        j += !own;
        for (; count > 1 && mf_subtree_siblings(n, all[count - 2].node, all[count - 1].node); count--) {
            if (!add(x, t->receives, &all[count - 2], &all[count - 1]))
                return false;
            all[count - 2].node.count += all[count - 1].node.count;
        }
    }
    if (came) {
        memcpy(r->parts, all, (size_t)count * sizeof *all);
        r->part_count = count;
    }
    bool whole = r->part_count == 1 && r->parts[0].node.count == n;
    if (whole && bytes)
        memcpy(r->sum.data + t->receives.first * UNIT, r->parts[0].at + (t->receives.first - r->parts[0].first) * UNIT, (size_t)bytes);
    return true;
}

/* ------------------------------------------------------------------ from step to step */

int mf_relay_messages(mf_exchange *x)
{
    mf_relay *r = x->relay;
    int last = mf_relay_steps(r->processes), count = 0;
    while (!count && ++r->step < last)
        count = post(x, false);
    return !count || allocate(x) ? count : -1;
}

void mf_relay_post(mf_exchange *x) { post(x, true); }

bool mf_relay_arrived(mf_exchange *x)
{
    mf_relay *r = x->relay;
    mf_transfer t = transfer(r, r->algorithm);
    return !r->length || !t.partial || combine(x, &t);
}

/* ------------------------------------------------------------------ results */

const void *mf_relay_operand(const mf_exchange *x, int k, int64_t rank)
{
    const mf_relay *r = x->relay;
    return r->all.data + rank * r->record + r->offsets[k];
}

bool mf_relay_sum(const mf_exchange *x, int k, mf_register *sum)
{
    const mf_eqn *e = mf_exchange_eqn(x, k);
    const mf_type *type = e->in[0]->type;
    if (!mf_register_new(sum, type->bytes))
        return false;
    if (type->size)
        mf_convert(type->dtype, sum->data, mf_partial_dtype(e), x->relay->sum.data + x->relay->offsets[k], type->size);
    return true;
}
