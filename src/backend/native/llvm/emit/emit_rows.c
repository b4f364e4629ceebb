/* Emits joined steps as one function: a few rows at a time, phase by phase; within a phase row by row, 16 columns per vector, with the rest
 * of a row masked. Row nodes are computed between the phases, as vectors over all current rows, and are stored to memory for the rows'
 * loops; if fewer rows are left, the last lanes are idle.
 * Invariants: reductions go in the order of kernels/reduce/reduce.inc (16 lanes, folded in halves; chunks of 4,096 joined as a tree),
 * except for those that give the same bits in any order, which take elements in any lane; a phase does not load what it stores itself. */
#include "backend/native/llvm/llvm.h"
#include "backend/native/kernels/kernels.h"

#include <inttypes.h>
#include <string.h>

enum {
    LANES = MF_IR_LANES,
    CHUNK = 4096,
    MOST_CHUNKS = 16, /* each one is code of its own */
    MOST_FOLDS = 8,
    AT_ONCE = 4,
    FETCH_NEAREST = 8 << 10, /* bytes of a row */
    FETCH_MOST = 64 << 10
};

typedef struct fold { /* a reduction of the current phase */
    int node;
    mf_dtype dtype; /* for its arithmetic */
    bool any_order, by_range;
    mf_ir_value identity;
    mf_ir_value lanes[AT_ONCE];
    mf_ir_value nan;     /* by_range: lanes that have met a NaN */
    mf_ir_value pending; /* by_range: a vector not checked for NaN yet */
} fold;

typedef struct rows {
    mf_ir *ir;
    const mf_rows_plan *plan;
    bool *needed;           /* by node: in the current phase */
    int *last;              /* by node: the last phase that needs it */
    mf_ir_value *pointer;   /* by value; loaded at the beginning of the function */
    mf_ir_value *start;     /* by node: where a walk starts in this row, in elements */
    mf_ir_value *broadcast; /* by node: the row's single value, in all lanes */
    mf_ir_divisor *by;      /* by node: that value, prepared as a divisor */
    mf_ir_value *one;       /* by row node: the values of all current rows */
    mf_ir_value *place;     /* by row node: where they are in memory */
    mf_ir_value *value;     /* by node: in the current columns */
    fold folds[MOST_FOLDS];
    int fold_count, phase, at_once;
    mf_ir_value row, nth, buffers; /* of the current row: its number, its number among the current rows, its buffers */
} rows;

static const mf_node *node_of(const rows *r, int i) { return &r->plan->group.nodes[i]; }
static const mf_rows_node *at_of(const rows *r, int i) { return &r->plan->nodes[i]; }
static mf_ir_value integer(mf_ir *ir, int64_t x) { return mf_ir_format(ir, "%" PRId64, x); }
static mf_dtype computing(mf_dtype d) { return d == MF_F16 || d == MF_BF16 ? MF_F32 : d; }

/* ------------------------------------------------------------------ max and min */

/* max and min of f32 by one AVX-512 instruction (vrangeps). It ignores NaN, unlike llvm.maximum, which takes six instructions: lanes
 * that meet a NaN are noted separately, and become NaN in the end. */
static bool has_range(mf_reducer how, mf_dtype dtype)
{
    return (how == MF_REDUCE_MAX || how == MF_REDUCE_MIN) && dtype == MF_F32 && mf_kernels_avx512();
}

static mf_ir_value range(mf_ir *ir, mf_reducer how, mf_ir_value a, mf_ir_value b)
{
    return mf_ir_op(
        ir,
        "call <16 x float> @llvm.x86.avx512.mask.range.ps.512(<16 x float> %s, <16 x float> %s, i32 %d, <16 x float> %s, i16 -1, "
        "i32 4)",
        a, b, how == MF_REDUCE_MAX ? 5 : 4, a);
}

/* Checks two vectors at once. */
static void note_nan(mf_ir *ir, fold *d, mf_ir_value v, int live, const char *mask)
{
    if (live == LANES && !d->pending) {
        d->pending = v;
        return;
    }
    mf_ir_value bad = mf_ir_op(ir, "fcmp uno <16 x float> %s, %s", v, live == LANES ? d->pending : v);
    if (live == LANES)
        d->pending = NULL;
    else
        bad = mf_ir_op(ir, "and <16 x i1> %s, %s", bad, mask);
    d->nan = mf_ir_op(ir, "or <16 x i1> %s, %s", d->nan, bad);
}

static void note_pending(mf_ir *ir, fold *d)
{
    mf_ir_value v = d->pending;
    if (v)
        note_nan(ir, d, v, LANES, NULL);
}

static mf_ir_value join_lanes(mf_ir *ir, const fold *d, mf_reducer how, mf_ir_value a, mf_ir_value b)
{
    return d->by_range ? range(ir, how, a, b) : mf_ir_join(ir, how, d->dtype, LANES, a, b);
}

/* A vector of one lane: the lanes joined, or NaN if any of them has met one. */
static mf_ir_value fold_range(mf_ir *ir, mf_reducer how, const fold *d, mf_ir_value v)
{
    for (int width = LANES; width > 1; width /= 2) {
        mf_text order = { 0 };
        for (int k = 0; k < LANES; k++)
            mf_text_add(&order, "%si32 %d", k ? ", " : "", (k + width / 2) % LANES);
        v = range(ir, how, v,
                  mf_ir_op(ir, "shufflevector <16 x float> %s, <16 x float> poison, <16 x i32> <%s>", v, order.at ? order.at : ""));
        ir->failed |= order.failed;
        mf_text_free(&order);
    }
    mf_ir_value bad = mf_ir_op(ir, "icmp ne i16 %s, 0", mf_ir_op(ir, "bitcast <16 x i1> %s to i16", d->nan));
    mf_ir_value one = mf_ir_op(ir, "extractelement <16 x float> %s, i64 0", v);
    one = mf_ir_op(ir, "select i1 %s, float 0x7FF8000000000000, float %s", bad, one);
    return mf_ir_op(ir, "insertelement <1 x float> poison, float %s, i64 0", one);
}

/* ------------------------------------------------------------------ columns */

/* Prefetches the next rows' elements: because a row is read again and again first, the hardware does not predict them. */
static void fetch_ahead(rows *r, int i, mf_ir_value place)
{
    int64_t bytes = r->plan->columns * mf_dtype_size(node_of(r, i)->dtype);
    const mf_rows_node *at = at_of(r, i);
    if (r->last[i] != r->phase || r->plan->phases < 2 || at->row_stride != r->plan->columns || at->column_stride != 1 || bytes > FETCH_MOST)
        return;
    mf_ir_line(r->ir, "call void @llvm.prefetch.p0(ptr %s, i32 0, i32 %d, i32 1)",
               mf_ir_pointer(r->ir, place, node_of(r, i)->dtype, integer(r->ir, r->plan->at_once * r->plan->columns)),
               bytes <= FETCH_NEAREST ? 3 : 2);
}

static mf_ir_value result_place(rows *r, int i, mf_ir_value j)
{
    mf_ir *ir = r->ir;
    mf_dtype dtype = node_of(r, i)->dtype;
    if (at_of(r, i)->store >= 0) {
        mf_ir_value first = mf_ir_op(ir, "mul i64 %s, %" PRId64, r->row, r->plan->columns);
        return mf_ir_pointer(ir, r->pointer[at_of(r, i)->store], dtype, mf_ir_op(ir, "add i64 %s, %s", first, j));
    }
    mf_ir_value bytes = mf_ir_op(ir, "getelementptr i8, ptr %s, i64 %d", r->buffers, at_of(r, i)->buffer);
    return mf_ir_pointer(ir, bytes, dtype, j);
}

static mf_ir_value count_columns(rows *r, int i, mf_ir_value j)
{
    mf_ir *ir = r->ir;
    mf_dtype dtype = node_of(r, i)->dtype;
    int64_t stride = at_of(r, i)->column_stride;
    mf_ir_value first = mf_ir_op(ir, "add i64 %s, %s", r->start[i], mf_ir_op(ir, "mul i64 %s, %" PRId64, j, stride));
    const char *s = dtype == MF_I64 ? "i64" : "i32";
    bool narrow = dtype == MF_I32 || dtype == MF_U32;
    mf_text steps = { 0 };
    if (narrow) /* wraps like the truncated sum */
        first = mf_ir_op(ir, "trunc i64 %s to i32", first);
    else
        s = "i64";
    for (int k = 0; k < LANES; k++)
        mf_text_add(&steps, "%s%s %" PRId64, k ? ", " : "", s, narrow ? (int64_t)(int32_t)(uint32_t)(uint64_t)(k * stride) : k * stride);
    mf_ir_value all = mf_ir_op(ir, "add <%d x %s> %s, <%s>", LANES, s, mf_ir_broadcast(ir, s, first), steps.at ? steps.at : "");
    ir->failed |= steps.failed;
    mf_text_free(&steps);
    return dtype == MF_F32 ? mf_ir_op(ir, "sitofp <%d x i64> %s to <%d x float>", LANES, all, LANES) : all;
}

static mf_ir_value column_value(rows *r, int i, mf_ir_value j, int live)
{
    mf_ir *ir = r->ir;
    const mf_node *x = node_of(r, i);
    mf_ir_value in[3] = { NULL };
    if (r->broadcast[i])
        return r->broadcast[i];
    if (mf_rows_keeps(r->plan, i, r->phase))
        return mf_ir_read(ir, x->dtype, result_place(r, i, j), live);
    if (x->kind == MF_NODE_IOTA)
        return count_columns(r, i, j);
    if (x->kind == MF_NODE_LOAD) {
        mf_ir_value index = mf_ir_op(ir, "add i64 %s, %s", r->start[i], j);
        mf_ir_value place = mf_ir_pointer(ir, r->pointer[at_of(r, i)->load], x->dtype, index);
        fetch_ahead(r, i, place);
        return mf_ir_read(ir, x->dtype, place, live);
    }
    for (int k = 0; k < x->in_count; k++)
        in[k] = r->value[x->in[k]];
    bool prepared = x->in_count == 2 && r->broadcast[x->in[1]] && r->by[x->in[1]].value && !strcmp(x->name, "div");
    return prepared ? mf_ir_divide(ir, in[0], &r->by[x->in[1]]) : mf_ir_node(ir, &r->plan->group, x, in);
}

static bool written_now(const rows *r, int i)
{
    const mf_rows_node *at = at_of(r, i);
    return !at->row && at->phase == r->phase && (at->store >= 0 || at->buffer >= 0);
}

/* Prefetches what the next phase writes, so that its stores do not wait for cache lines. */
static void fetch_results(rows *r, mf_ir_value j)
{
    for (int i = 0; i < r->plan->group.count; i++) {
        const mf_rows_node *at = at_of(r, i);
        if (!at->row && at->phase == r->phase + 1 && at->store >= 0 && r->plan->columns * mf_dtype_size(node_of(r, i)->dtype) <= FETCH_MOST)
            mf_ir_line(r->ir, "call void @llvm.prefetch.p0(ptr %s, i32 1, i32 3, i32 1)", result_place(r, i, j));
    }
}

/* Emits sixteen columns from j on; u: their number among those emitted at once. */
static void emit_columns(rows *r, mf_ir_value j, int live, int u)
{
    mf_ir *ir = r->ir;
    ir->width = LANES;
    fetch_results(r, j);
    for (int i = 0; i < r->plan->group.count; i++)
        if (r->needed[i])
            r->value[i] = column_value(r, i, j, live);
    for (int i = 0; i < r->plan->group.count; i++)
        if (written_now(r, i))
            mf_ir_write(ir, node_of(r, i)->dtype, r->value[i], result_place(r, i, j), live);
    for (int f = 0; f < r->fold_count; f++) {
        fold *d = &r->folds[f];
        int of = node_of(r, d->node)->in[0], how = at_of(r, d->node)->fold, k = d->any_order ? u : 0;
        mf_dtype stored = node_of(r, of)->dtype;
        mf_ir_value v = stored == d->dtype ? r->value[of] : mf_ir_widen(ir, stored, r->value[of]);
        mf_ir_value joined = join_lanes(ir, d, how, d->lanes[k], v);
        const char *s = mf_ir_scalar(d->dtype), *mask = live == LANES ? NULL : mf_ir_mask(ir, live);
        if (d->by_range)
            note_nan(ir, d, v, live, mask);
        d->lanes[k] = live == LANES ? joined
                                    : mf_ir_op(ir, "select <%d x i1> %s, <%d x %s> %s, <%d x %s> %s", LANES, mask, LANES, s, joined, LANES,
                                               s, d->lanes[k]);
    }
}

/* ------------------------------------------------------------------ loops over columns */

static int chains(const rows *r, const fold *d) { return d->any_order ? r->at_once : 1; }

/* Emits a loop over `count` times at_once vectors, from column `from` on. */
static void emit_loop(rows *r, int64_t from, int64_t count)
{
    mf_ir *ir = r->ir;
    int id = ir->next++, step = LANES * r->at_once;
    char before[24];
    mf_ir_value phis[MOST_FOLDS][AT_ONCE];
    memcpy(before, ir->label, sizeof before);
    mf_ir_line(ir, "br label %%body%d", id);
    mf_ir_label(ir, mf_ir_format(ir, "body%d", id));
    mf_ir_line(ir, "%%j%d = phi i64 [ %" PRId64 ", %%%s ], [ %%next%d, %%again%d ]", id, from, before, id, id);
    for (int f = 0; f < r->fold_count; f++)
        for (int u = 0; u < chains(r, &r->folds[f]); u++) {
            fold *d = &r->folds[f];
            phis[f][u] = mf_ir_format(ir, "%%lane%d.%d.%d", id, f, u);
            mf_ir_line(ir, "%s = phi <%d x %s> [ %s, %%%s ], [ %%to%d.%d.%d, %%again%d ]", phis[f][u], LANES, mf_ir_scalar(d->dtype),
                       d->lanes[u], before, id, f, u, id);
            d->lanes[u] = phis[f][u];
        }
    for (int f = 0; f < r->fold_count; f++)
        if (r->folds[f].by_range) {
            mf_ir_line(ir, "%%nan%d.%d = phi <16 x i1> [ %s, %%%s ], [ %%nanto%d.%d, %%again%d ]", id, f, r->folds[f].nan, before, id, f,
                       id);
            r->folds[f].nan = mf_ir_format(ir, "%%nan%d.%d", id, f);
        }
    for (int u = 0; u < r->at_once; u++)
        emit_columns(r, mf_ir_op(ir, "add i64 %%j%d, %d", id, u * LANES), LANES, u);
    for (int f = 0; f < r->fold_count; f++)
        note_pending(ir, &r->folds[f]);
    mf_ir_line(ir, "br label %%again%d", id);
    mf_ir_label(ir, mf_ir_format(ir, "again%d", id));
    for (int f = 0; f < r->fold_count; f++)
        for (int u = 0; u < chains(r, &r->folds[f]); u++) { /* gives the value a name that the phi knows in advance */
            fold *d = &r->folds[f];
            mf_ir_line(ir, "%%to%d.%d.%d = bitcast <%d x %s> %s to <%d x %s>", id, f, u, LANES, mf_ir_scalar(d->dtype), d->lanes[u], LANES,
                       mf_ir_scalar(d->dtype));
            d->lanes[u] = mf_ir_format(ir, "%%to%d.%d.%d", id, f, u);
        }
    for (int f = 0; f < r->fold_count; f++)
        if (r->folds[f].by_range) {
            mf_ir_line(ir, "%%nanto%d.%d = bitcast <16 x i1> %s to <16 x i1>", id, f, r->folds[f].nan);
            r->folds[f].nan = mf_ir_format(ir, "%%nanto%d.%d", id, f);
        }
    mf_ir_line(ir, "%%next%d = add i64 %%j%d, %d", id, id, step);
    mf_ir_value more = mf_ir_op(ir, "icmp slt i64 %%next%d, %" PRId64, id, from + count * step);
    mf_ir_line(ir, "br i1 %s, label %%body%d, label %%done%d", more, id, id);
    mf_ir_label(ir, mf_ir_format(ir, "done%d", id));
}

/* Emits columns [from, to) and their reductions; then folds[f].lanes[0] is a vector of one lane. */
static void emit_chunk(rows *r, int64_t from, int64_t to)
{
    int64_t loops = (to - from) / (LANES * r->at_once), j = from + loops * LANES * r->at_once;
    for (int f = 0; f < r->fold_count; f++) {
        for (int u = 0; u < r->at_once; u++)
            r->folds[f].lanes[u] = r->folds[f].identity;
        r->folds[f].nan = "zeroinitializer";
        r->folds[f].pending = NULL;
    }
    if (loops)
        emit_loop(r, from, loops);
    for (; j < to; j += LANES)
        emit_columns(r, integer(r->ir, j), to - j < LANES ? (int)(to - j) : LANES, 0);
    for (int f = 0; f < r->fold_count; f++) {
        fold *d = &r->folds[f];
        mf_reducer how = at_of(r, d->node)->fold;
        for (int u = 1; u < chains(r, d); u++)
            d->lanes[0] = join_lanes(r->ir, d, how, d->lanes[0], d->lanes[u]);
        note_pending(r->ir, d);
        d->lanes[0] = d->by_range ? fold_range(r->ir, how, d, d->lanes[0]) : mf_ir_fold_lanes(r->ir, how, d->dtype, d->lanes[0]);
    }
}

/* ------------------------------------------------------------------ phases */

static void find_needed(rows *r)
{
    const mf_rows_plan *plan = r->plan;
    memset(r->needed, 0, (size_t)plan->group.count * sizeof *r->needed);
    r->fold_count = 0;
    for (int i = 0; i < plan->group.count; i++) {
        r->needed[i] = written_now(r, i);
        if (!plan->nodes[i].reduces || plan->nodes[i].phase != r->phase + 1)
            continue;
        mf_reducer how = plan->nodes[i].fold;
        mf_dtype dtype = computing(plan->group.nodes[i].dtype);
        r->ir->width = LANES;
        bool any_order = how == MF_REDUCE_MAX || how == MF_REDUCE_MIN || !mf_dtype_is_float(dtype);
        r->folds[r->fold_count++] = (fold){ .node = i,
                                            .dtype = dtype,
                                            .any_order = any_order,
                                            .by_range = has_range(how, dtype),
                                            .identity = mf_ir_identity(r->ir, how, dtype) };
        r->needed[plan->group.nodes[i].in[0]] = true;
    }
    for (int i = plan->group.count - 1; i >= 0; i--)
        for (int k = 0; r->needed[i] && !plan->nodes[i].row && !mf_rows_keeps(plan, i, r->phase) && k < plan->group.nodes[i].in_count; k++)
            r->needed[plan->group.nodes[i].in[k]] = true;
}

/* The position of a load's or iota's first element in this row. */
static mf_ir_value start_of(rows *r, int i)
{
    mf_ir_value first = mf_ir_op(r->ir, "mul i64 %s, %" PRId64, r->row, at_of(r, i)->row_stride);
    return mf_ir_op(r->ir, "add i64 %s, %" PRId64, first, at_of(r, i)->offset);
}

static mf_ir_value load_one(rows *r, int i, mf_ir_value place)
{
    mf_ir *ir = r->ir;
    mf_dtype dtype = node_of(r, i)->dtype;
    return mf_ir_op(ir, "load <1 x %s>, ptr %s, align %d", mf_ir_memory(dtype),
                    mf_ir_pointer(ir, r->pointer[at_of(r, i)->load], dtype, place), mf_dtype_size(dtype));
}

/* ------------------------------------------------------------------ the current rows */

/* What is emitted from here to end_rows runs for each current row. */
static int begin_rows(rows *r)
{
    mf_ir *ir = r->ir;
    int id = ir->next++;
    char before[24];
    memcpy(before, ir->label, sizeof before);
    mf_ir_line(ir, "br label %%each%d", id);
    mf_ir_label(ir, mf_ir_format(ir, "each%d", id));
    mf_ir_line(ir, "%%nth%d = phi i64 [ 0, %%%s ], [ %%nth.next%d, %%each.again%d ]", id, before, id, id);
    r->nth = mf_ir_format(ir, "%%nth%d", id);
    r->row = mf_ir_op(ir, "add i64 %%row, %s", r->nth);
    mf_ir_value bytes = mf_ir_op(ir, "mul i64 %s, %zu", r->nth, r->plan->buffer_bytes);
    r->buffers = mf_ir_op(ir, "getelementptr i8, ptr %%buffers, i64 %s", bytes);
    return id;
}

static void end_rows(rows *r, int id)
{
    mf_ir *ir = r->ir;
    mf_ir_line(ir, "br label %%each.again%d", id);
    mf_ir_label(ir, mf_ir_format(ir, "each.again%d", id));
    mf_ir_line(ir, "%%nth.next%d = add i64 %%nth%d, 1", id, id);
    mf_ir_value more = mf_ir_op(ir, "icmp slt i64 %%nth.next%d, %%count", id);
    mf_ir_line(ir, "br i1 %s, label %%each%d, label %%each.done%d", more, id, id);
    mf_ir_label(ir, mf_ir_format(ir, "each.done%d", id));
}

static bool is_walk(const mf_node *x) { return x->kind == MF_NODE_LOAD || x->kind == MF_NODE_IOTA; }
static bool row_node_now(const rows *r, int i) { return at_of(r, i)->row && at_of(r, i)->phase == r->phase; }

/* Where the current row's value of a row node is in memory. */
static mf_ir_value own_place(rows *r, int i) { return mf_ir_pointer(r->ir, r->place[i], node_of(r, i)->dtype, r->nth); }

static mf_ir_value count_row(rows *r, int i)
{
    mf_dtype dtype = node_of(r, i)->dtype;
    mf_ir_value n = mf_ir_broadcast(r->ir, "i64", start_of(r, i));
    if (dtype == MF_I64)
        return n;
    return mf_ir_op(r->ir, "%s <1 x i64> %s to <1 x %s>", dtype == MF_F32 ? "sitofp" : "trunc", n, mf_ir_scalar(dtype));
}

/* Emits the row nodes of this phase that are loads or iotas. */
static void emit_row_walks(rows *r)
{
    mf_ir *ir = r->ir;
    int id = -1;
    ir->width = 1;
    for (int i = 0; i < r->plan->group.count; i++) {
        const mf_node *x = node_of(r, i);
        if (!row_node_now(r, i) || !is_walk(x) || at_of(r, i)->reduces)
            continue;
        id = id >= 0 ? id : begin_rows(r);
        mf_ir_value one = x->kind == MF_NODE_IOTA ? count_row(r, i) : mf_ir_from_memory(ir, x->dtype, load_one(r, i, start_of(r, i)));
        mf_ir_write(ir, x->dtype, one, own_place(r, i), 1);
    }
    if (id >= 0)
        end_rows(r, id);
}

/* Reads what the rows have stored one by one: a single load of everything would stall until the stores are in the cache. */
static mf_ir_value gather_rows(rows *r, int i)
{
    mf_ir *ir = r->ir;
    mf_dtype dtype = node_of(r, i)->dtype;
    const char *m = mf_ir_memory(dtype);
    mf_ir_value all = "poison";
    for (int k = 0; k < ir->width; k++) {
        mf_ir_value one = mf_ir_pointer(ir, r->place[i], dtype, integer(ir, k));
        one = mf_ir_op(ir, "load %s, ptr %s, align %d", m, one, mf_dtype_size(dtype));
        all = mf_ir_op(ir, "insertelement <%d x %s> %s, %s %s, i64 %d", ir->width, m, all, m, one, k);
    }
    return mf_ir_from_memory(ir, dtype, all);
}

/* Emits the row nodes of this phase, for all current rows. */
static void emit_row_nodes(rows *r)
{
    mf_ir *ir = r->ir;
    emit_row_walks(r);
    ir->width = r->plan->at_once;
    for (int i = 0; i < r->plan->group.count; i++) {
        const mf_node *x = node_of(r, i);
        mf_ir_value in[3] = { NULL };
        if (!row_node_now(r, i))
            continue;
        if (is_walk(x)) {
            r->one[i] = gather_rows(r, i);
            continue;
        }
        for (int k = 0; k < x->in_count; k++)
            in[k] = r->one[x->in[k]];
        r->one[i] = mf_ir_node(ir, &r->plan->group, x, in);
        mf_ir_write(ir, x->dtype, r->one[i], r->place[i], ir->width);
    }
}

static bool stores_rows(const rows *r)
{
    for (int i = 0; i < r->plan->group.count; i++)
        if (row_node_now(r, i) && at_of(r, i)->store >= 0)
            return true;
    return false;
}

static void store_row(rows *r)
{
    r->ir->width = 1;
    for (int i = 0; i < r->plan->group.count; i++)
        if (row_node_now(r, i) && at_of(r, i)->store >= 0) {
            mf_dtype dtype = node_of(r, i)->dtype;
            mf_ir_write(r->ir, dtype, mf_ir_read(r->ir, dtype, own_place(r, i), 1),
                        mf_ir_pointer(r->ir, r->pointer[at_of(r, i)->store], dtype, r->row), 1);
        }
}

/* ------------------------------------------------------------------ a phase of a row */

/* Emits what all columns of the row share in this phase, and where walks begin. */
static void emit_shared(rows *r)
{
    mf_ir *ir = r->ir;
    for (int i = 0; i < r->plan->group.count; i++) {
        const mf_node *x = node_of(r, i);
        mf_ir_value one = NULL;
        r->broadcast[i] = NULL;
        if (!r->needed[i] || (x->kind == MF_NODE_CONSTANT && !at_of(r, i)->row))
            continue;
        ir->width = 1;
        if (at_of(r, i)->row) {
            one = mf_ir_read(ir, x->dtype, own_place(r, i), 1);
        } else if (x->kind == MF_NODE_LOAD || x->kind == MF_NODE_IOTA) {
            r->start[i] = start_of(r, i);
            if (x->kind == MF_NODE_LOAD && at_of(r, i)->column_stride == 0)
                one = mf_ir_from_memory(ir, x->dtype, load_one(r, i, r->start[i]));
        }
        if (!one)
            continue;
        ir->width = LANES;
        mf_ir_value scalar = mf_ir_op(ir, "extractelement <1 x %s> %s, i64 0", mf_ir_scalar(x->dtype), one);
        r->broadcast[i] = mf_ir_broadcast(ir, mf_ir_scalar(x->dtype), scalar);
        if (mf_ir_is_divisor(&r->plan->group, i))
            r->by[i] = mf_ir_divisor_of(ir, scalar);
    }
}

/* Joins chunks as a tree: neighbours pair up level by level, an odd one moves up. */
static mf_ir_value join_chunks(rows *r, const fold *d, mf_ir_value *parts, int64_t count)
{
    mf_reducer how = at_of(r, d->node)->fold;
    for (; count > 1; count = (count + 1) / 2)
        for (int64_t i = 0; i < count; i += 2)
            parts[i / 2] = i + 1 < count ? mf_ir_join(r->ir, how, d->dtype, 1, parts[i], parts[i + 1]) : parts[i];
    return parts[0];
}

/* Emits the columns of the current row, and their reductions. */
static void emit_row(rows *r)
{
    mf_ir *ir = r->ir;
    int calls = 0;
    emit_shared(r);
    bool chunked = false;
    for (int i = 0; i < r->plan->group.count; i++)
        calls += r->needed[i] && !r->broadcast[i] && node_of(r, i)->in_count > 0;
    for (int f = 0; f < r->fold_count; f++)
        chunked |= !r->folds[f].any_order && r->plan->columns > CHUNK;
    r->at_once = calls <= 4 ? AT_ONCE : calls <= 12 ? 2 : 1;
    int64_t chunk = chunked ? CHUNK : r->plan->columns, count = (r->plan->columns + chunk - 1) / chunk;
    mf_ir_value *parts = mf_arena_alloc(ir->strings, (size_t)(count * MOST_FOLDS) * sizeof *parts);
    ir->failed |= !parts;
    for (int64_t c = 0; c < count && !ir->failed; c++) {
        emit_chunk(r, c * chunk, c + 1 < count ? (c + 1) * chunk : r->plan->columns);
        for (int f = 0; f < r->fold_count; f++)
            parts[f * count + c] = r->folds[f].lanes[0];
    }
    ir->width = 1;
    for (int f = 0; f < r->fold_count && !ir->failed; f++) {
        const fold *d = &r->folds[f];
        mf_ir_value all = join_chunks(r, d, parts + f * count, count);
        mf_dtype dtype = node_of(r, d->node)->dtype;
        mf_ir_write(ir, dtype, dtype == d->dtype ? all : mf_ir_narrow(ir, dtype, all), own_place(r, d->node), 1);
    }
}

static void emit_phase(rows *r)
{
    bool work = false;
    emit_row_nodes(r);
    find_needed(r);
    for (int i = 0; i < r->plan->group.count; i++)
        work |= r->needed[i];
    if (r->ir->failed || !(work || stores_rows(r)))
        return;
    int id = begin_rows(r);
    store_row(r);
    if (work)
        emit_row(r);
    end_rows(r, id);
}

/* ------------------------------------------------------------------ the function */

static bool allocate(rows *r)
{
    size_t nodes = (size_t)r->plan->group.count, values = (size_t)r->plan->value_count;
    r->needed = mf_arena_alloc(r->ir->strings, nodes + 1);
    r->by = mf_arena_alloc(r->ir->strings, (nodes + 1) * sizeof *r->by);
    r->last = mf_arena_alloc(r->ir->strings, (nodes + 1) * sizeof *r->last);
    r->pointer = mf_arena_alloc(r->ir->strings, (values + 1) * sizeof *r->pointer);
    mf_ir_value *lists = mf_arena_alloc(r->ir->strings, (5 * nodes + 1) * sizeof *lists);
    if (!r->needed || !r->by || !r->last || !r->pointer || !lists)
        return false;
    r->start = lists;
    r->broadcast = lists + nodes;
    r->one = lists + 2 * nodes;
    r->value = lists + 3 * nodes;
    r->place = lists + 4 * nodes;
    return true;
}

static void find_last(rows *r)
{
    for (r->phase = 0; r->phase < r->plan->phases; r->phase++) {
        find_needed(r);
        for (int i = 0; i < r->plan->group.count; i++)
            if (r->needed[i])
                r->last[i] = r->phase;
    }
}

static void emit_pointers(rows *r)
{
    for (int i = 0; i < r->plan->group.count; i++) {
        int values[] = { at_of(r, i)->load, at_of(r, i)->store };
        for (int k = 0; k < 2; k++)
            if (values[k] >= 0 && !r->pointer[values[k]])
                r->pointer[values[k]] = mf_ir_op(r->ir, "load ptr, ptr %s, align 8",
                                                 mf_ir_op(r->ir, "getelementptr ptr, ptr %%in, i64 %d", values[k]));
    }
}

/* Idle lanes compute too: on 0, or on values of rows that are done. */
static void emit_places(rows *r)
{
    for (int i = 0; i < r->plan->group.count; i++) {
        const char *m = mf_ir_memory(node_of(r, i)->dtype);
        if (!at_of(r, i)->row)
            continue;
        r->place[i] = mf_ir_op(r->ir, "alloca [%d x %s], align 64", r->plan->at_once, m);
        mf_ir_line(r->ir, "store [%d x %s] zeroinitializer, ptr %s, align 64", r->plan->at_once, m, r->place[i]);
    }
}

static bool node_possible(const mf_rows_plan *plan, int i)
{
    const mf_rows_node *at = &plan->nodes[i];
    const mf_node *x = &plan->group.nodes[i];
    bool beside = at->row || at->load < 0 || at->column_stride == 0 || at->column_stride == 1;
    return at->reduces ? mf_ir_can_fold(at->fold, x->dtype) : beside && mf_ir_node_possible(&plan->group, x);
}

bool mf_llvm_can_rows(const mf_rows_plan *plan)
{
    bool can = plan->columns <= CHUNK * MOST_CHUNKS;
    for (int phase = 1; phase < plan->phases; phase++) {
        int folds = 0;
        for (int i = 0; i < plan->group.count; i++)
            folds += plan->nodes[i].reduces && plan->nodes[i].phase == phase;
        can &= folds <= MOST_FOLDS;
    }
    for (int i = 0; i < plan->group.count && can; i++)
        can = node_possible(plan, i);
    return can;
}

/* The first of the current rows is %row. */
void mf_ir_rows(mf_ir *ir, const mf_rows_plan *plan)
{
    rows r = { .ir = ir, .plan = plan };
    if (!allocate(&r)) {
        ir->failed = true;
        return;
    }
    mf_text_add(&ir->text, "define void @mf_loop(ptr noalias %%in, ptr noalias %%buffers, i64 %%from, i64 %%to) #0 {\n");
    mf_ir_label(ir, "entry");
    if (mf_ir_may_be_rare(&plan->group))
        mf_ir_rare_memory(ir, LANES);
    emit_places(&r);
    emit_pointers(&r);
    find_last(&r);
    mf_ir_line(ir, "br label %%rows");
    mf_ir_label(ir, "rows");
    mf_ir_line(ir, "%%row = phi i64 [ %%from, %%entry ], [ %%row.next, %%row.again ]");
    mf_ir_value left = mf_ir_op(ir, "sub i64 %%to, %%row"), few = mf_ir_op(ir, "icmp slt i64 %s, %d", left, plan->at_once);
    mf_ir_line(ir, "%%count = select i1 %s, i64 %s, i64 %d", few, left, plan->at_once);
    for (r.phase = 0; r.phase < plan->phases; r.phase++)
        emit_phase(&r);
    mf_ir_line(ir, "br label %%row.again");
    mf_ir_label(ir, "row.again");
    mf_ir_line(ir, "%%row.next = add i64 %%row, %d", plan->at_once);
    mf_ir_value more = mf_ir_op(ir, "icmp slt i64 %%row.next, %%to");
    mf_ir_line(ir, "br i1 %s, label %%rows, label %%end", more);
    mf_text_put(&ir->text, "end:\n  ret void\n}\nattributes #0 = { nounwind }\n");
    ir->failed |= ir->text.failed;
}
