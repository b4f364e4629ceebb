/* The shim over oneDNN's C API; see dnnl.h.
 *
 * Invariant: no oneDNN object is shared by two running calls. A primitive is immutable once published, and lives while somebody uses it;
 * what a run changes (stream, memory handles) sits in a context that the run takes from the primitive's free list and returns.
 * Memory: it does not look at each result of malloc, its exceptions know no C, and OpenMP ends the process when it gets nothing. So it
 * is entered where there is memory to spare, many times what it was seen to take, and what it throws nevertheless ends here. oneDNN 2.x
 * and 3.x differ in how memory and primitive descriptors are made, which this file hides. */
#define _GNU_SOURCE
#include "dnnl.h"
#include "dnnl_library.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/guard.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- primitives ---- */

enum { TO_CREATE = 16 << 20, TO_RUN = 16 << 10 }; /* bytes */

static _Thread_local bool memory_was_out; /* since somebody set it to false */

static bool fine(dnnl_status_t status)
{
    memory_was_out = memory_was_out || status == dnnl_out_of_memory;
    return status == dnnl_success;
}

enum { IN0, IN1, OUT, OPERANDS };
enum { KEY_WORDS = 48 };

/* One operand: as the caller stores it, as the library wants it, and the way between where they differ. */
typedef struct dnnl_operand {
    int argument; /* DNNL_ARG_* of the main primitive */
    desc user, wanted;
    dnnl_primitive_desc_t reorder_desc;
    dnnl_primitive_t reorder; /* NULL: equal layouts */
    desc_ref reorder_scratch;
    size_t bytes, offset; /* of the wanted form in the scratch */
} dnnl_operand;

typedef struct context {
    struct context *next;
    dnnl_stream_t stream;
    dnnl_memory_t user[OPERANDS], wanted[OPERANDS], reorder_scratch[OPERANDS], scratch;
} context;

struct mf_dnnl_primitive {
    struct mf_dnnl_primitive *next;
    int64_t key[KEY_WORDS];
    dnnl_operand operands[OPERANDS];
    int packed; /* the one that callers may have as the library wants it */
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive; /* NULL: known to be unsupported */
    desc_ref scratch;
    size_t reorder_offset, scratch_bytes;
    const char *description;
    pthread_mutex_t lock; /* guards idle */
    context *idle;
    int users; /* and when it was got last, in gets: guarded by the cache's lock */
    int64_t last;
};

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static mf_dnnl_primitive *cache;
static int64_t gets;
static int primitives; /* in the cache */
_Atomic int mf_dnnl_cache_most = 512;

static size_t align64(size_t n) { return (n + 63) & ~(size_t)63; }

static dnnl_data_type_t data_type(mf_dtype dtype)
{
    return dtype == MF_F32 ? dnnl_f32 : dtype == MF_BF16 ? dnnl_bf16 : dnnl_data_type_undef;
}

static bool make_desc(desc *out, int rank, const int64_t *dims, const int64_t *strides, mf_dtype dtype)
{
    dnnl_dims_t d = { 0 }, s = { 0 };
    for (int i = 0; i < rank; i++) {
        d[i] = dims[i];
        if (strides)
            s[i] = strides[i];
    }
#if DNNL_VERSION_MAJOR >= 3
    return fine(strides ? mf_dnnl.dnnl_memory_desc_create_with_strides(out, rank, d, data_type(dtype), s)
                        : mf_dnnl.dnnl_memory_desc_create_with_tag(out, rank, d, data_type(dtype), dnnl_format_tag_any));
#else
    return fine(strides ? mf_dnnl.dnnl_memory_desc_init_by_strides(out, rank, d, data_type(dtype), s)
                        : mf_dnnl.dnnl_memory_desc_init_by_tag(out, rank, d, data_type(dtype), dnnl_format_tag_any));
#endif
}

static desc copy_desc(desc_ref d)
{
#if DNNL_VERSION_MAJOR >= 3
    desc out = NULL;
    mf_dnnl.dnnl_memory_desc_clone(&out, d);
    return out;
#else
    return *d;
#endif
}

static void free_desc(desc *d)
{
#if DNNL_VERSION_MAJOR >= 3
    if (*d)
        mf_dnnl.dnnl_memory_desc_destroy(*d);
#endif
    memset(d, 0, sizeof *d);
}

static bool add_reorder(mf_dnnl_primitive *p, dnnl_operand *o, bool output)
{
    desc_ref from = output ? REF(o->wanted) : REF(o->user), to = output ? REF(o->user) : REF(o->wanted);
    if (!fine(mf_dnnl.dnnl_reorder_primitive_desc_create(&o->reorder_desc, from, mf_dnnl.engine, to, mf_dnnl.engine, mf_dnnl.attr)))
        return false;
    bool ok = fine(mf_dnnl.dnnl_primitive_create(&o->reorder, o->reorder_desc));
    o->reorder_scratch = mf_dnnl.dnnl_primitive_desc_query_md(o->reorder_desc, dnnl_query_scratchpad_md, 0);
    o->bytes = mf_dnnl.dnnl_memory_desc_get_size(REF(o->wanted));
    o->offset = p->scratch_bytes;
    p->scratch_bytes += align64(o->bytes);
    return ok;
}

/* Fills what follows from the descriptor of the chosen code: wanted layouts, reorders, scratch. */
static bool finish(mf_dnnl_primitive *p)
{
    dnnl_primitive_desc_t pd = p->desc;
    p->scratch = mf_dnnl.dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    p->scratch_bytes = p->scratch ? align64(mf_dnnl.dnnl_memory_desc_get_size(p->scratch)) : 0;
    mf_dnnl.dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &p->description);
    for (int i = 0; i < OPERANDS; i++) {
        dnnl_operand *o = &p->operands[i];
        o->wanted = copy_desc(mf_dnnl.dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, o->argument));
        if (mf_dnnl.dnnl_memory_desc_equal(REF(o->user), REF(o->wanted)))
            continue;
        if (!add_reorder(p, o, i == OUT))
            return false;
    }
    p->reorder_offset = p->scratch_bytes;
    size_t most = 0;
    for (int i = 0; i < OPERANDS; i++) {
        desc_ref d = p->operands[i].reorder_scratch;
        size_t bytes = d ? mf_dnnl.dnnl_memory_desc_get_size(d) : 0;
        if (bytes > most)
            most = bytes;
    }
    p->scratch_bytes += align64(most);
    return fine(mf_dnnl.dnnl_primitive_create(&p->primitive, pd));
}

/* ---- convolution ---- */

static int64_t or1(int64_t n) { return n ? n : 1; }

static int64_t out_size(const mf_dnnl_conv *c, int i)
{
    int64_t window = (c->kernel[i] - 1) * or1(c->dilation[i]) + 1;
    int64_t room = c->in[i] + c->pad_low[i] + c->pad_high[i] - window;
    return room < 0 ? 0 : room / or1(c->stride[i]) + 1;
}

/* Strides of N-spatial-C data, listed {n, c, spatial...}. */
static void activation_strides(int64_t *s, const int64_t *given, const int64_t *dims, int rank)
{
    if (given[0] || given[1]) {
        for (int i = 0; i < rank; i++)
            s[i] = given[i];
        return;
    }
    int64_t step = dims[1];
    s[1] = 1;
    for (int i = rank - 1; i >= 2; i--, step *= dims[i + 1])
        s[i] = step;
    s[0] = step;
}

/* {o, i, spatial...} of spatial-I-O weights; with groups o splits into {group, o}. Returns the rank. */
static int weight_dims(const mf_dnnl_conv *c, int64_t *dims, int64_t *s)
{
    int64_t groups = or1(c->groups), o = c->out_channels, i = c->in_channels / groups, step = o * i;
    int64_t strides[2 + MF_DNNL_SPATIAL] = { 1, o };
    for (int d = c->spatial - 1; d >= 0; d--) {
        strides[2 + d] = step;
        step *= c->kernel[d];
    }
    const int64_t *from = c->w_strides[0] || c->w_strides[1] ? c->w_strides : strides;
    int rank = 0;
    if (groups > 1) {
        dims[rank] = groups;
        s[rank++] = o / groups * from[0];
    }
    dims[rank] = o / groups;
    s[rank++] = from[0];
    dims[rank] = i;
    s[rank++] = from[1];
    for (int d = 0; d < c->spatial; d++) {
        dims[rank] = c->kernel[d];
        s[rank++] = from[2 + d];
    }
    return rank;
}

enum { ANY_X = 1, ANY_W = 2, ANY_Y = 4, ANY_ALL = 7 }; /* operands whose layout the library chooses */
enum { LONG_ROW = 1 << 15 };

typedef struct conv_descs {
    desc x, w, y;
} conv_descs;

static bool make_conv_descs(const mf_dnnl_conv *c, unsigned any, conv_descs *out)
{
    int rank = 2 + c->spatial;
    int64_t x[2 + MF_DNNL_SPATIAL] = { c->batch, c->in_channels }, y[2 + MF_DNNL_SPATIAL] = { c->batch, c->out_channels };
    int64_t w[3 + MF_DNNL_SPATIAL], xs[2 + MF_DNNL_SPATIAL], ys[2 + MF_DNNL_SPATIAL], ws[3 + MF_DNNL_SPATIAL];
    for (int i = 0; i < c->spatial; i++) {
        x[2 + i] = c->in[i];
        y[2 + i] = out_size(c, i);
    }
    activation_strides(xs, c->x_strides, x, rank);
    activation_strides(ys, c->y_strides, y, rank);
    int weight_rank = weight_dims(c, w, ws);
    return make_desc(&out->x, rank, x, any & ANY_X ? NULL : xs, c->dtype) &&
           make_desc(&out->w, weight_rank, w, any & ANY_W ? NULL : ws, c->kind == MF_DNNL_BACKWARD_WEIGHTS ? MF_F32 : c->dtype) &&
           make_desc(&out->y, rank, y, any & ANY_Y ? NULL : ys, c->dtype);
}

typedef struct conv_steps {
    dnnl_dims_t stride, dilation, low, high;
} conv_steps;

static conv_steps make_steps(const mf_dnnl_conv *c)
{
    conv_steps s;
    memset(&s, 0, sizeof s);
    for (int i = 0; i < c->spatial; i++) {
        s.stride[i] = or1(c->stride[i]);
        s.dilation[i] = or1(c->dilation[i]) - 1;
        s.low[i] = c->pad_low[i];
        s.high[i] = c->pad_high[i];
    }
    return s;
}

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t forward_desc(dnnl_primitive_desc_t *pd, conv_descs *d, conv_steps *s)
{
    return mf_dnnl.dnnl_convolution_forward_primitive_desc_create(pd, mf_dnnl.engine, dnnl_forward_training, dnnl_convolution_direct, d->x,
                                                                  d->w, NULL, d->y, s->stride, s->dilation, s->low, s->high, mf_dnnl.attr);
}

static dnnl_status_t backward_desc(dnnl_primitive_desc_t *pd, mf_dnnl_conv_kind kind, conv_descs *d, conv_steps *s,
                                   dnnl_primitive_desc_t hint)
{
    if (kind == MF_DNNL_BACKWARD_DATA)
        return mf_dnnl.dnnl_convolution_backward_data_primitive_desc_create(pd, mf_dnnl.engine, dnnl_convolution_direct, d->x, d->w, d->y,
                                                                            s->stride, s->dilation, s->low, s->high, hint, mf_dnnl.attr);
    return mf_dnnl.dnnl_convolution_backward_weights_primitive_desc_create(
        pd, mf_dnnl.engine, dnnl_convolution_direct, d->x, d->w, NULL, d->y, s->stride, s->dilation, s->low, s->high, hint, mf_dnnl.attr);
}

#else

static dnnl_status_t forward_desc(dnnl_primitive_desc_t *pd, conv_descs *d, conv_steps *s)
{
    dnnl_convolution_desc_t op;
    dnnl_status_t status = mf_dnnl.dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_training, dnnl_convolution_direct, &d->x,
                                                                              &d->w, NULL, &d->y, s->stride, s->dilation, s->low, s->high);
    return status != dnnl_success ? status : mf_dnnl.dnnl_primitive_desc_create(pd, &op, mf_dnnl.attr, mf_dnnl.engine, NULL);
}

static dnnl_status_t backward_desc(dnnl_primitive_desc_t *pd, mf_dnnl_conv_kind kind, conv_descs *d, conv_steps *s,
                                   dnnl_primitive_desc_t hint)
{
    dnnl_convolution_desc_t op;
    dnnl_status_t status = kind == MF_DNNL_BACKWARD_DATA
                               ? mf_dnnl.dnnl_dilated_convolution_backward_data_desc_init(&op, dnnl_convolution_direct, &d->x, &d->w, &d->y,
                                                                                          s->stride, s->dilation, s->low, s->high)
                               : mf_dnnl.dnnl_dilated_convolution_backward_weights_desc_init(
                                     &op, dnnl_convolution_direct, &d->x, &d->w, NULL, &d->y, s->stride, s->dilation, s->low, s->high);
    return status != dnnl_success ? status : mf_dnnl.dnnl_primitive_desc_create(pd, &op, mf_dnnl.attr, mf_dnnl.engine, hint);
}

#endif

static void free_conv_descs(conv_descs *d)
{
    free_desc(&d->x);
    free_desc(&d->w);
    free_desc(&d->y);
}

static bool choose_backward(mf_dnnl_primitive *p, const mf_dnnl_conv *c, unsigned any, conv_descs *d, conv_steps *s)
{
    dnnl_primitive_desc_t hint;
    conv_descs ahead = { 0 };
    mf_dnnl_conv forward = *c;
    forward.kind = MF_DNNL_FORWARD;
    bool hinted = make_conv_descs(&forward, any, &ahead) && fine(forward_desc(&hint, &ahead, s));
    bool ok = hinted && fine(backward_desc(&p->desc, c->kind, d, s, hint));
    if (hinted)
        mf_dnnl.dnnl_primitive_desc_destroy(hint);
    free_conv_descs(&ahead);
    return ok;
}

static bool choose_conv(mf_dnnl_primitive *p, const mf_dnnl_conv *c, unsigned any)
{
    conv_descs d = { 0 };
    conv_steps s = make_steps(c);
    bool ok = make_conv_descs(c, any, &d) &&
              (c->kind == MF_DNNL_FORWARD ? fine(forward_desc(&p->desc, &d, &s)) : choose_backward(p, c, any, &d, &s));
    free_conv_descs(&d);
    return ok;
}

/* oneDNN's plain loops: some hundred times slower than anything else it has. */
static bool is_reference(dnnl_primitive_desc_t pd)
{
    const char *name = NULL;
    mf_dnnl.dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return name && !strncmp(name, "ref", 3);
}

/* The code for AVX-512 that free weights get (brgconv) is planned column by column, 5 us each: a row of 2,000,000 takes 9 s before its
 * first result. Weights as they lie get products of columns (gemm), which are as fast there and planned at once. */
static bool has_long_rows(const mf_dnnl_conv *c) { return c->kind == MF_DNNL_FORWARD && c->in[c->spatial - 1] >= LONG_ROW; }

/* Measured: N-spatial-C activations in place with free weights are as fast as blocked ones, which cost two reorders.
 * Only where the caller's strides leave the library nothing but plain loops do the activations move too. */
static bool choose_layouts(mf_dnnl_primitive *p, const mf_dnnl_conv *c)
{
    for (int i = has_long_rows(c) ? 0 : 1; i < 2; i++) {
        if (!choose_conv(p, c, i ? ANY_W : 0))
            continue;
        if (!is_reference(p->desc))
            return true;
        mf_dnnl.dnnl_primitive_desc_destroy(p->desc);
        p->desc = NULL;
    }
    return choose_conv(p, c, ANY_ALL);
}

static bool build_conv(mf_dnnl_primitive *p, const mf_dnnl_conv *c)
{
    conv_descs user = { 0 };
    bool made = make_conv_descs(c, 0, &user);
    dnnl_operand *o = p->operands;
    switch (c->kind) {
    case MF_DNNL_FORWARD:
        o[IN0] = (dnnl_operand){ .argument = DNNL_ARG_SRC, .user = user.x };
        o[IN1] = (dnnl_operand){ .argument = DNNL_ARG_WEIGHTS, .user = user.w };
        o[OUT] = (dnnl_operand){ .argument = DNNL_ARG_DST, .user = user.y };
        break;
    case MF_DNNL_BACKWARD_DATA:
        o[IN0] = (dnnl_operand){ .argument = DNNL_ARG_DIFF_DST, .user = user.y };
        o[IN1] = (dnnl_operand){ .argument = DNNL_ARG_WEIGHTS, .user = user.w };
        o[OUT] = (dnnl_operand){ .argument = DNNL_ARG_DIFF_SRC, .user = user.x };
        break;
    case MF_DNNL_BACKWARD_WEIGHTS:
        o[IN0] = (dnnl_operand){ .argument = DNNL_ARG_SRC, .user = user.x };
        o[IN1] = (dnnl_operand){ .argument = DNNL_ARG_DIFF_DST, .user = user.y };
        o[OUT] = (dnnl_operand){ .argument = DNNL_ARG_DIFF_WEIGHTS, .user = user.w };
        break;
    }
    p->packed = c->kind == MF_DNNL_BACKWARD_WEIGHTS ? OUT : IN1;
    return made && choose_layouts(p, c) && finish(p);
}

/* ---- matrix product ---- */

static bool matrix_desc(const mf_dnnl_matmul *m, mf_dtype dtype, int64_t rows, int64_t columns, const int64_t *given, bool any, desc *out)
{
    int64_t dims[MF_DNNL_BATCH + 2], dense[MF_DNNL_BATCH + 2], step = 1;
    int rank = m->batch_rank + 2;
    const int64_t *strides = dense;
    for (int i = 0; i < m->batch_rank; i++)
        dims[i] = m->batch[i];
    dims[rank - 2] = rows;
    dims[rank - 1] = columns;
    for (int i = rank - 1; i >= 0; step *= dims[i--])
        dense[i] = step;
    for (int i = 0; i < rank; i++)
        if (given[i])
            strides = given;
    if (strides == given) /* a repeated operand is one that has size 1 there */
        for (int i = 0; i < m->batch_rank; i++)
            if (!given[i])
                dims[i] = 1, dense[i] = 0;
    int64_t kept[MF_DNNL_BATCH + 2];
    for (int i = 0; i < rank; i++) {
        if (!strides[i] && dims[i] > 1)
            return false;
        kept[i] = strides[i] ? strides[i] : 1;
    }
    return make_desc(out, rank, dims, any ? NULL : kept, dtype);
}

static bool make_matmul_desc(dnnl_primitive_desc_t *pd, desc *a, desc *b, desc *c)
{
#if DNNL_VERSION_MAJOR >= 3
    return fine(mf_dnnl.dnnl_matmul_primitive_desc_create(pd, mf_dnnl.engine, *a, *b, NULL, *c, mf_dnnl.attr));
#else
    dnnl_matmul_desc_t op;
    return fine(mf_dnnl.dnnl_matmul_desc_init(&op, a, b, NULL, c)) &&
           fine(mf_dnnl.dnnl_primitive_desc_create(pd, &op, mf_dnnl.attr, mf_dnnl.engine, NULL));
#endif
}

static bool make_matrix_descs(const mf_dnnl_matmul *m, bool any, desc *a, desc *b, desc *c)
{
    return matrix_desc(m, m->dtype, m->m, m->k, m->a_strides, any, a) && matrix_desc(m, m->dtype, m->k, m->n, m->b_strides, any, b) &&
           matrix_desc(m, m->result, m->m, m->n, m->c_strides, any, c);
}

static bool choose_matmul(mf_dnnl_primitive *p, const mf_dnnl_matmul *m)
{
    dnnl_operand *o = p->operands;
    desc a = { 0 }, b = { 0 }, c = { 0 };
    if (make_matmul_desc(&p->desc, &o[IN0].user, &o[IN1].user, &o[OUT].user)) {
        if (!is_reference(p->desc))
            return true;
        mf_dnnl.dnnl_primitive_desc_destroy(p->desc);
        p->desc = NULL;
    }
    bool ok = make_matrix_descs(m, true, &a, &b, &c) && make_matmul_desc(&p->desc, &a, &b, &c);
    free_desc(&a);
    free_desc(&b);
    free_desc(&c);
    return ok;
}

static bool build_matmul(mf_dnnl_primitive *p, const mf_dnnl_matmul *m)
{
    dnnl_operand *o = p->operands;
    o[IN0].argument = DNNL_ARG_SRC;
    o[IN1].argument = DNNL_ARG_WEIGHTS;
    o[OUT].argument = DNNL_ARG_DST;
    p->packed = IN1;
    return make_matrix_descs(m, false, &o[IN0].user, &o[IN1].user, &o[OUT].user) && choose_matmul(p, m) && finish(p);
}

/* ---- the cache ---- */

typedef union dnnl_problem {
    const mf_dnnl_conv *conv;
    const mf_dnnl_matmul *matmul;
} dnnl_problem;

static int put(int64_t *key, int at, const int64_t *values, int n)
{
    for (int i = 0; i < n; i++)
        key[at + i] = values[i];
    return at + n;
}

static void conv_key(int64_t *key, const mf_dnnl_conv *c)
{
    const int64_t head[] = { 1, c->kind, c->dtype, c->spatial, c->batch, c->in_channels, c->out_channels, c->groups };
    const int64_t *spatial[] = { c->in, c->kernel, c->stride, c->dilation, c->pad_low, c->pad_high };
    const int64_t *strides[] = { c->x_strides, c->w_strides, c->y_strides };
    int at = put(key, 0, head, 8);
    for (int i = 0; i < 6; i++)
        at = put(key, at, spatial[i], c->spatial);
    for (int i = 0; i < 3; i++)
        at = put(key, at, strides[i], 2 + c->spatial);
}

static void matmul_key(int64_t *key, const mf_dnnl_matmul *m)
{
    const int64_t head[] = { 2, m->dtype, m->result, m->batch_rank, m->m, m->n, m->k };
    const int64_t *strides[] = { m->a_strides, m->b_strides, m->c_strides };
    int at = put(key, put(key, 0, head, 7), m->batch, m->batch_rank);
    for (int i = 0; i < 3; i++)
        at = put(key, at, strides[i], 2 + m->batch_rank);
}

static mf_dnnl_primitive *find(const int64_t *key)
{
    for (mf_dnnl_primitive *p = cache; p; p = p->next)
        if (!memcmp(p->key, key, sizeof p->key))
            return p;
    return NULL;
}

static void free_context(context *c);

/* What is made for it, but its key. */
static void empty(mf_dnnl_primitive *p)
{
    for (context *c = p->idle, *next; c; c = next) {
        next = c->next;
        free_context(c);
    }
    for (int i = 0; i < OPERANDS; i++) {
        dnnl_operand *o = &p->operands[i];
        if (o->reorder)
            mf_dnnl.dnnl_primitive_destroy(o->reorder);
        if (o->reorder_desc)
            mf_dnnl.dnnl_primitive_desc_destroy(o->reorder_desc);
        free_desc(&o->user);
        free_desc(&o->wanted);
        *o = (dnnl_operand){ 0 };
    }
    if (p->primitive)
        mf_dnnl.dnnl_primitive_destroy(p->primitive);
    if (p->desc)
        mf_dnnl.dnnl_primitive_desc_destroy(p->desc);
    p->primitive = NULL;
    p->desc = NULL;
}

static void free_primitive(mf_dnnl_primitive *p)
{
    empty(p);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

typedef struct making {
    mf_dnnl_primitive *p;
    dnnl_problem what;
    bool made;
} making;

static void build(void *of)
{
    making *m = of;
    m->made = m->p->key[0] == 1 ? build_conv(m->p, m->what.conv) : build_matmul(m->p, m->what.matmul);
}

/* NULL: memory is out. What cannot be had keeps its key, so that nobody tries again. */
static mf_dnnl_primitive *make(const int64_t *key, dnnl_problem what)
{
    mf_dnnl_primitive *p = mf_memory_to_spare(TO_CREATE) ? calloc(1, sizeof *p) : NULL;
    making m = { .p = p, .what = what };
    if (!p)
        return NULL;
    memcpy(p->key, key, sizeof p->key);
    pthread_mutex_init(&p->lock, NULL);
    int team = mf_dnnl_team_of_one();
    memory_was_out = false;
    memory_was_out = !mf_guarded(build, &m) || memory_was_out;
    mf_dnnl_team_restore(team);
    if (!m.made)
        empty(p);
    if (!m.made && memory_was_out) {
        free_primitive(p);
        return NULL;
    }
    return p;
}

/* Room for one more: those that nobody uses and that were got before all others go. The lock is held. */
static void evict(void)
{
    while (primitives >= mf_dnnl_cache_most) {
        mf_dnnl_primitive **oldest = NULL, *gone;
        for (mf_dnnl_primitive **at = &cache; *at; at = &(*at)->next)
            if (!(*at)->users && (!oldest || (*at)->last < (*oldest)->last))
                oldest = at;
        if (!oldest)
            return;
        gone = *oldest;
        *oldest = gone->next;
        primitives--;
        free_primitive(gone);
    }
}

/* Creates under the lock: two devices that ask for the same problem wait for one creation. */
static const mf_dnnl_primitive *create(const int64_t *key, dnnl_problem what, bool *no_memory)
{
    *no_memory = false;
    if (!mf_dnnl_enter())
        return NULL;
    pthread_mutex_lock(&cache_lock);
    mf_dnnl_primitive *p = find(key);
    if (!p && (p = make(key, what))) {
        evict();
        p->next = cache;
        cache = p;
        primitives++;
    }
    *no_memory = !p;
    if (p)
        p->last = ++gets;
    if (p && !p->primitive)
        p = NULL;
    if (p)
        p->users++;
    pthread_mutex_unlock(&cache_lock);
    mf_dnnl_leave();
    return p;
}

void mf_dnnl_let_go(void *primitive)
{
    pthread_mutex_lock(&cache_lock);
    ((mf_dnnl_primitive *)primitive)->users--;
    pthread_mutex_unlock(&cache_lock);
}

int mf_dnnl_cache_count(void)
{
    pthread_mutex_lock(&cache_lock);
    int count = primitives;
    pthread_mutex_unlock(&cache_lock);
    return count;
}

/* Larger ones it counts in an int somewhere, and crashes. */
static bool is_size(int64_t n) { return n >= 1 && n <= INT32_MAX; }

/* Its code for padding and for a stride is written out, place by place: of 100,000 it takes a second and 100 MiB. */
enum { MOST_PLACES = 4096 };

static bool conv_valid(const mf_dnnl_conv *c)
{
    if (c->spatial < 1 || c->spatial > MF_DNNL_SPATIAL || !is_size(c->batch) || !is_size(c->in_channels) || !is_size(c->out_channels))
        return false;
    for (int i = 0; i < c->spatial; i++)
        if (!is_size(c->in[i]) || !is_size(c->kernel[i]) || !is_size(out_size(c, i)) || c->pad_low[i] > MOST_PLACES ||
            c->pad_high[i] > MOST_PLACES || c->stride[i] > MOST_PLACES)
            return false;
    return c->in_channels % or1(c->groups) == 0 && c->out_channels % or1(c->groups) == 0;
}

static bool matmul_valid(const mf_dnnl_matmul *m)
{
    if (m->batch_rank < 0 || m->batch_rank > MF_DNNL_BATCH || !is_size(m->m) || !is_size(m->n) || !is_size(m->k))
        return false;
    for (int i = 0; i < m->batch_rank; i++)
        if (!is_size(m->batch[i]))
            return false;
    return true;
}

const mf_dnnl_primitive *mf_dnnl_conv_create(const mf_dnnl_conv *conv, bool *no_memory)
{
    int64_t key[KEY_WORDS] = { 0 };
    *no_memory = false;
    if (!conv_valid(conv) || !mf_dnnl_supports(conv->dtype))
        return NULL;
    conv_key(key, conv);
    return create(key, (dnnl_problem){ .conv = conv }, no_memory);
}

const mf_dnnl_primitive *mf_dnnl_matmul_create(const mf_dnnl_matmul *matmul, bool *no_memory)
{
    int64_t key[KEY_WORDS] = { 0 };
    *no_memory = false;
    if (!matmul_valid(matmul) || !mf_dnnl_supports(matmul->dtype) || !mf_dnnl_supports(matmul->result))
        return NULL;
    matmul_key(key, matmul);
    return create(key, (dnnl_problem){ .matmul = matmul }, no_memory);
}

static bool is_intel(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_is("intel");
#else
    return false;
#endif
}

/* Whether this machine multiplies bf16 faster than f32. oneDNN emulates what the machine lacks, at a quarter of f32's rate; and Intel's
 * AVX-512 takes two cycles for a product of bf16, half of f32's rate, so there it has to be AMX, which the system may refuse. */
static bool bf16_pays(void)
{
    unsigned isa = mf_dnnl.dnnl_get_effective_cpu_isa(), least = is_intel() ? dnnl_cpu_isa_avx512_core_amx : dnnl_cpu_isa_avx512_core_bf16;
    return (isa & least) == least;
}

bool mf_dnnl_supports(mf_dtype dtype)
{
    if (data_type(dtype) == dnnl_data_type_undef || !mf_dnnl_loaded())
        return false;
    return dtype == MF_F32 || bf16_pays();
}

/* ---- running ---- */

static dnnl_memory_t make_memory(desc_ref d)
{
    dnnl_memory_t memory = NULL;
    if (d)
        mf_dnnl.dnnl_memory_create(&memory, d, mf_dnnl.engine, DNNL_MEMORY_NONE);
    return memory;
}

static void free_context(context *c)
{
    for (int i = 0; i < OPERANDS; i++) {
        if (c->user[i])
            mf_dnnl.dnnl_memory_destroy(c->user[i]);
        if (c->wanted[i])
            mf_dnnl.dnnl_memory_destroy(c->wanted[i]);
        if (c->reorder_scratch[i])
            mf_dnnl.dnnl_memory_destroy(c->reorder_scratch[i]);
    }
    if (c->scratch)
        mf_dnnl.dnnl_memory_destroy(c->scratch);
    if (c->stream)
        mf_dnnl.dnnl_stream_destroy(c->stream);
    free(c);
}

static context *make_context(const mf_dnnl_primitive *p)
{
    context *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    bool ok = mf_dnnl.dnnl_stream_create(&c->stream, mf_dnnl.engine, dnnl_stream_default_flags) == dnnl_success;
    c->scratch = make_memory(p->scratch);
    ok = ok && (c->scratch || !p->scratch);
    for (int i = 0; ok && i < OPERANDS; i++) {
        const dnnl_operand *o = &p->operands[i];
        c->user[i] = make_memory(REF(o->user));
        ok = c->user[i] != NULL;
        if (!o->reorder)
            continue;
        c->wanted[i] = make_memory(REF(o->wanted));
        c->reorder_scratch[i] = make_memory(o->reorder_scratch);
        ok = ok && c->wanted[i] && (c->reorder_scratch[i] || !o->reorder_scratch);
    }
    if (ok)
        return c;
    free_context(c);
    return NULL;
}

static context *take(mf_dnnl_primitive *p)
{
    pthread_mutex_lock(&p->lock);
    context *c = p->idle;
    if (c)
        p->idle = c->next;
    pthread_mutex_unlock(&p->lock);
    return c ? c : make_context(p);
}

static void give(mf_dnnl_primitive *p, context *c)
{
    pthread_mutex_lock(&p->lock);
    c->next = p->idle;
    p->idle = c;
    pthread_mutex_unlock(&p->lock);
}

static bool set(dnnl_memory_t memory, const void *data)
{
    return !memory || mf_dnnl.dnnl_memory_set_data_handle(memory, (void *)(uintptr_t)data) == dnnl_success;
}

static bool reorder(const mf_dnnl_primitive *p, context *c, int i)
{
    dnnl_memory_t from = i == OUT ? c->wanted[i] : c->user[i], to = i == OUT ? c->user[i] : c->wanted[i];
    dnnl_exec_arg_t args[] = { { DNNL_ARG_FROM, from }, { DNNL_ARG_TO, to }, { DNNL_ARG_SCRATCHPAD, c->reorder_scratch[i] } };
    int n = c->reorder_scratch[i] ? 3 : 2;
    return mf_dnnl.dnnl_primitive_execute(p->operands[i].reorder, c->stream, n, args) == dnnl_success;
}

/* packed: an operand that is given, or wanted, as the library has it; OPERANDS: none. */
static bool run(const mf_dnnl_primitive *p, context *c, const void *const *data, int packed, char *scratch)
{
    dnnl_exec_arg_t args[OPERANDS + 1];
    int n = OPERANDS;
    bool ok = set(c->scratch, scratch);
    for (int i = 0; ok && i < OPERANDS; i++) {
        const dnnl_operand *o = &p->operands[i];
        ok = set(c->user[i], data[i]) && set(c->wanted[i], i == packed ? data[i] : scratch + o->offset) &&
             set(c->reorder_scratch[i], scratch + p->reorder_offset);
        args[i] = (dnnl_exec_arg_t){ o->argument, o->reorder ? c->wanted[i] : c->user[i] };
        if (o->reorder && i != OUT && i != packed)
            ok = ok && reorder(p, c, i);
    }
    if (c->scratch)
        args[n++] = (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, c->scratch };
    ok = ok && mf_dnnl.dnnl_primitive_execute(p->primitive, c->stream, n, args) == dnnl_success;
    return ok && (!p->operands[OUT].reorder || packed == OUT || reorder(p, c, OUT));
}

typedef struct guarded_run {
    mf_dnnl_primitive *p;
    const void *const *data;
    int packed;
    char *scratch;
    context *c;
    bool (*run)(const mf_dnnl_primitive *p, context *c, const void *const *data, int packed, char *scratch);
    bool ok;
} guarded_run;

static void run_inside(void *of)
{
    guarded_run *r = of;
    r->c = take(r->p);
    r->ok = r->c && r->run(r->p, r->c, r->data, r->packed, r->scratch);
}

static bool run_guarded(guarded_run r)
{
    if (!mf_dnnl_enter())
        return false;
    bool to_spare = mf_memory_to_spare(TO_RUN);
    int team = to_spare ? mf_dnnl_team_of_one() : 0;
    bool ok = to_spare && mf_guarded(run_inside, &r) && r.ok;
    if (r.c)
        give(r.p, r.c);
    mf_dnnl_team_restore(team);
    mf_dnnl_leave();
    return ok;
}

static bool run_with(const mf_dnnl_primitive *p, const void *const *data, int packed, void *scratch)
{
    mf_dnnl_primitive *mutable = (mf_dnnl_primitive *)(uintptr_t)p; /* the free list has its own lock */
    return run_guarded((guarded_run){ .p = mutable, .data = data, .packed = packed, .scratch = scratch, .run = run });
}

bool mf_dnnl_run(const mf_dnnl_primitive *p, const void *in0, const void *in1, void *out, void *scratch)
{
    return run_with(p, (const void *const[]){ in0, in1, out }, OPERANDS, scratch);
}

bool mf_dnnl_run_packed(const mf_dnnl_primitive *p, const void *in0, const void *in1, void *out, void *scratch)
{
    return run_with(p, (const void *const[]){ in0, in1, out }, p->operands[p->packed].reorder ? p->packed : OPERANDS, scratch);
}

/* Between the caller's layout and the packed one. */
static bool move_packed(const mf_dnnl_primitive *p, context *c, const void *const *data, int i, char *scratch)
{
    return set(c->user[i], data[0]) && set(c->wanted[i], data[1]) && set(c->reorder_scratch[i], scratch + p->reorder_offset) &&
           reorder(p, c, i);
}

static bool repack(const mf_dnnl_primitive *p, const void *plain, const void *packed, char *scratch)
{
    mf_dnnl_primitive *mutable = (mf_dnnl_primitive *)(uintptr_t)p;
    const void *const data[] = { plain, packed };
    return p->operands[p->packed].reorder &&
           run_guarded((guarded_run){ .p = mutable, .data = data, .packed = p->packed, .scratch = scratch, .run = move_packed });
}

bool mf_dnnl_pack(const mf_dnnl_primitive *p, const void *in1, void *packed, void *scratch) { return repack(p, in1, packed, scratch); }
bool mf_dnnl_unpack(const mf_dnnl_primitive *p, const void *packed, void *out, void *scratch) { return repack(p, out, packed, scratch); }

size_t mf_dnnl_packed_bytes(const mf_dnnl_primitive *p) { return p->operands[p->packed].bytes; }

bool mf_dnnl_same_packing(const mf_dnnl_primitive *one, const mf_dnnl_primitive *other)
{
    const dnnl_operand *a = &one->operands[one->packed], *b = &other->operands[other->packed];
    return a->reorder && b->reorder && mf_dnnl.dnnl_memory_desc_equal(REF(a->wanted), REF(b->wanted));
}

size_t mf_dnnl_scratch_bytes(const mf_dnnl_primitive *p) { return p->scratch_bytes; }

const char *mf_dnnl_describe(const mf_dnnl_primitive *p) { return p->description ? p->description : ""; }
