/* The arithmetic of collectives: computes the result of each member here from the operands of all members, or from other processes'
 * contributions.
 * Invariant: a sum is one balanced tree over the members in rank order, whoever computes it and in however many pieces. */
#include "ops/checks.h"
#include "runtime/collectives/collectives.h"

#include <string.h>

#define PIECE ((int64_t)256 << 10) /* bytes of all operands per task, which so stay in its core's cache */

typedef struct result_job { /* one result of one rendezvous */
    mf_rendezvous *rendezvous;
    int k;
    int64_t n;
    const mf_type *in, *out;
    const mf_segment_compiler *compiler;
    const mf_exchange *x; /* NULL: all members are here */
    const void **from;    /* operands of the members here */
} result_job;

typedef struct cut {
    const mf_segment_compiler *compiler;
    const void **members;
    int64_t n;
    mf_reducer how;
    mf_dtype dtype;
    int64_t count, piece;
    void *out;
    _Atomic bool failed;
} cut;

static void reduce_piece(void *context, int64_t i)
{
    cut *c = context;
    int64_t from = i * c->piece, to = from + c->piece < c->count ? from + c->piece : c->count;
    if (!c->compiler->reduce(c->how, c->dtype, c->members, (int)c->n, c->out, c->count, from, to))
        atomic_store(&c->failed, true);
}

bool mf_collective_reduce(const mf_segment_compiler *compiler, const mf_eqn *e, mf_dtype dtype, const void **members, int64_t n,
                          int64_t count, void *out)
{
    cut c = { compiler, members, n, e->op->reducer, dtype, count, 0, out, false };
    if (mf_dtype_is_complex(c.dtype)) { /* reduced as pairs of real numbers */
        c.dtype = c.dtype == MF_C64 ? MF_F32 : MF_F64;
        c.count *= 2;
    }
    c.piece = PIECE / (n * mf_dtype_size(c.dtype));
    c.piece = c.piece < 1024 ? 1024 : c.piece & ~(int64_t)63;
    if (c.count <= 2 * c.piece) {
        c.piece = c.count;
        if (c.count)
            reduce_piece(&c, 0);
        return !atomic_load(&c.failed);
    }
    mf_parallel_for((c.count + c.piece - 1) / c.piece, reduce_piece, &c);
    return !atomic_load(&c.failed);
}

/* Gives a member result k: in its own register, or in its map's uniform register, which the map's first member fills. */
static void deliver(const result_job *j, const mf_participant *m, const mf_register *value)
{
    int ref = j->rendezvous->instr->out[j->k];
    mf_register *to = ref >= 0 ? &m->fiber->top->registers[ref] : &m->map->uniform->registers[~ref];
    if (!to->data)
        mf_register_copy(to, value);
}

static void deliver_to_all(const result_job *j, mf_register *value)
{
    for (int64_t i = 0; i < j->rendezvous->here_count; i++)
        deliver(j, &j->rendezvous->members[i], value);
    mf_register_release(value);
}

/* The operand of a rank, called in rank order; *next counts the members here. */
static const void *operand(const result_job *j, int64_t rank, int64_t *next)
{
    if (*next < j->rendezvous->here_count && j->rendezvous->members[*next].rank == rank)
        return j->from[(*next)++];
    return mf_exchange_operand(j->x, j->k, rank);
}

static bool reduce(const result_job *j, mf_register *sum)
{
    const mf_eqn *e = j->rendezvous->instr->participants->eqns[j->k];
    if (j->x)
        return mf_exchange_reduce(j->x, j->k, sum);
    return mf_register_new(sum, j->in->bytes) && mf_collective_reduce(j->compiler, e, j->in->dtype, j->from, j->n, j->in->size, sum->data);
}

static bool do_reduce(const result_job *j)
{
    mf_register sum = { 0 };
    bool made = reduce(j, &sum);
    if (made)
        deliver_to_all(j, &sum);
    else
        mf_register_release(&sum);
    return made;
}

/* The strides within `whole` of one of its n parts along an axis; returns the bytes from part to part. axis_is_new: the parts do not
 * have the axis, and each part is one index of it. */
static int64_t part_strides(const mf_type *whole, int64_t axis, bool axis_is_new, int64_t n, int64_t *strides)
{
    int64_t all[MF_RANK], step;
    mf_contiguous_strides(whole, all);
    step = axis_is_new ? all[axis] : all[axis] * (whole->dims[axis] / n);
    for (int i = 0, k = 0; i < whole->rank; i++)
        if (!axis_is_new || i != axis)
            strides[k++] = all[i];
    return step;
}

static bool do_all_gather(const result_job *j)
{
    const mf_gather_axis_params *p = j->rendezvous->instr->participants->eqns[j->k]->params;
    mf_register all = { 0 };
    int64_t to[MF_RANK], from[MF_RANK];
    if (!mf_register_new(&all, j->out->bytes))
        return false;
    int64_t step = part_strides(j->out, p->axis, !p->tiled, j->n, to);
    mf_contiguous_strides(j->in, from);
    for (int64_t i = 0, next = 0; i < j->n; i++)
        mf_copy_strided(j->in->rank, j->in->dims, mf_dtype_size(j->in->dtype), all.data + i * step, to, operand(j, i, &next), from);
    deliver_to_all(j, &all);
    return true;
}

/* Parts along the leading axis are views of the sum. */
static bool do_psum_scatter(const result_job *j)
{
    const mf_gather_axis_params *p = j->rendezvous->instr->participants->eqns[j->k]->params;
    mf_register sum = { 0 };
    int64_t from[MF_RANK], to[MF_RANK];
    bool made = reduce(j, &sum);
    int64_t step = part_strides(j->in, p->axis, !p->tiled, j->n, from);
    mf_contiguous_strides(j->out, to);
    for (int64_t i = 0; i < j->rendezvous->here_count && made; i++) {
        const mf_participant *m = &j->rendezvous->members[i];
        mf_register part = { 0 };
        if (p->axis == 0) {
            mf_register_view(&part, &sum, m->rank * step);
        } else if ((made = mf_register_new(&part, j->out->bytes))) {
            mf_copy_strided(j->out->rank, j->out->dims, mf_dtype_size(j->out->dtype), part.data, to, sum.data + m->rank * step, from);
        }
        if (made)
            deliver(j, m, &part);
        mf_register_release(&part);
    }
    mf_register_release(&sum);
    return made;
}

mf_pieces mf_all_to_all_pieces(const mf_eqn *e, int64_t n)
{
    const mf_all_to_all_params *p = e->params;
    const mf_type *in = e->in[0]->type;
    mf_pieces made = { .bytes = in->bytes / n };
    int64_t step = mf_dtype_size(in->dtype);
    made.split = part_strides(in, p->split_axis, !p->tiled, n, made.from);
    made.join = part_strides(e->out[0]->type, p->concat_axis, !p->tiled, n, made.to);
    for (int i = 0; i < in->rank; i++)
        if (p->tiled || i != p->split_axis)
            made.dims[made.rank++] = p->tiled && i == p->split_axis ? in->dims[i] / n : in->dims[i];
    for (int i = made.rank - 1; i >= 0; step *= made.dims[i--])
        made.packed[i] = step;
    return made;
}

static bool do_all_to_all(const result_job *j)
{
    mf_pieces p = mf_all_to_all_pieces(j->rendezvous->instr->participants->eqns[j->k], j->n);
    const mf_rendezvous *g = j->rendezvous;
    for (int64_t i = 0; i < g->here_count; i++) {
        int64_t r = g->members[i].rank;
        mf_register all = { 0 };
        if (!mf_register_new(&all, j->out->bytes))
            return false;
        for (int64_t s = 0, next = 0; s < j->n; s++) {
            bool here = next < g->here_count && g->members[next].rank == s;
            const void *piece = here ? (const char *)j->from[next++] + r * p.split : mf_exchange_piece(j->x, j->k, s, r);
            mf_copy_strided(p.rank, p.dims, mf_dtype_size(j->in->dtype), all.data + s * p.join, p.to, piece, here ? p.from : p.packed);
        }
        deliver(j, &g->members[i], &all);
        mf_register_release(&all);
    }
    return true;
}

/* Nothing is copied: a target holds its source's operand. */
static bool do_ppermute(const result_job *j)
{
    const int *sources = j->rendezvous->instr->participants->permutations[j->k].sources;
    for (int64_t i = 0; i < j->rendezvous->here_count; i++) {
        const mf_participant *target = &j->rendezvous->members[i];
        int source = sources[target->rank];
        const mf_participant *here = source < 0 ? NULL : mf_rendezvous_member(j->rendezvous, source);
        mf_register came = { 0 };
        if (source >= 0 && !here)
            mf_exchange_hold(j->x, j->k, target->rank, &came);
        if (source >= 0)
            deliver(j, target, here ? &here->in[j->k] : &came);
        mf_register_release(&came);
    }
    mf_register zeros = { 0 };
    if (!mf_register_new(&zeros, j->out->bytes))
        return false;
    memset(zeros.data, 0, (size_t)j->out->bytes);
    deliver_to_all(j, &zeros); /* does not replace what the targets have got */
    return true;
}

/* Compares every member's operand with the first one's, or their digests where members are in several processes; then all members share
 * one. */
static bool do_check(const result_job *j, mf_error_object **error)
{
    const mf_eqn *e = j->rendezvous->instr->participants->eqns[j->k];
    mf_text differ = { 0 };
    int count = 0;
    int64_t bytes = j->x ? mf_gathered_bytes(e) : j->in->bytes;
    const void *first = j->x ? mf_exchange_operand(j->x, j->k, 0) : j->from[0];
    for (int64_t i = 1; i < j->n; i++) {
        const void *other = j->x ? mf_exchange_operand(j->x, j->k, i) : j->from[i];
        if (other != first && memcmp(other, first, (size_t)bytes) != 0)
            mf_list_device(&differ, &count, mf_rendezvous_device(j->rendezvous, i));
    }
    if (count)
        *error = mf_replicated_error(e, NULL, differ.at ? differ.at : "", count, mf_rendezvous_device(j->rendezvous, 0));
    mf_text_free(&differ);
    for (int64_t i = 0; i < j->rendezvous->here_count && !count; i++)
        deliver(j, &j->rendezvous->members[i], &j->rendezvous->members[0].in[j->k]);
    return !count;
}

bool mf_rendezvous_deliver(mf_rendezvous *g, const mf_exchange *x, const mf_segment_compiler *compiler, mf_error_object **error)
{
    const mf_instr *in = g->instr;
    int64_t n = g->member_count;
    const void **from = mf_alloc((size_t)g->here_count * sizeof *from);
    bool made = from;
    for (int k = 0; k < in->out_count && made; k++) {
        const mf_eqn *e = in->participants->eqns[k];
        result_job j = { g, k, n, e->in[0]->type, e->out[0]->type, compiler, x, from };
        for (int64_t i = 0; i < g->here_count; i++)
            from[i] = g->members[i].in[k].data;
        switch (e->op->collective) {
        case MF_COLLECTIVE_REDUCE: made = do_reduce(&j); break;
        case MF_COLLECTIVE_SCATTER: made = do_psum_scatter(&j); break;
        case MF_COLLECTIVE_GATHER: made = do_all_gather(&j); break;
        case MF_COLLECTIVE_ALL_TO_ALL: made = do_all_to_all(&j); break;
        case MF_COLLECTIVE_PERMUTE: made = do_ppermute(&j); break;
        case MF_COLLECTIVE_COMPARE: made = do_check(&j, error); break;
        case MF_COLLECTIVE_NONE: break;
        }
    }
    mf_free(from);
    return made;
}
