/* Random programs: chains of elementwise ops, views, reductions and products over a few shapes, compiled by the native engine in every way
 * and compared with the reference. They look for groups that include their own readers, values that share memory while both are live, and
 * donated operands that are overwritten too early. All numbers are small integers, so every order of summation is exact. */
#include "backend/native/llvm/tier_up.h"
#include "check.h"
#include "ops/ops.h"
#include "runtime/compile/segment_compiler.h"

enum { MOST_VARS = 80, MOST_IO = 8 };

typedef struct random_program {
    uint32_t state;
    mf_builder b;
    mf_variable *vars[MOST_VARS];
    int count;
} random_program;

static int pick(random_program *r, int n)
{
    r->state = r->state * 1664525u + 1013904223u;
    return (int)((r->state >> 10) % (uint32_t)n);
}

static mf_variable *any(random_program *r) { return r->vars[pick(r, r->count)]; }

/* A variable of this shape: an existing one, or a view or copy of one. */
static mf_variable *alike(random_program *r, const mf_type *t)
{
    for (int tries = 0; tries < 8; tries++) {
        mf_variable *v = any(r);
        if (mf_type_same_shape(v->type, t))
            return v;
        if (v->type->size == t->size)
            return mf_emit(&r->b, &mf_op_reshape, &(mf_shape_params){ mf_ints_intern(t->dims, t->rank) }, 1, v);
        if (v->type->rank == 1 && t->rank && v->type->dims[0] == t->dims[t->rank - 1])
            return mf_emit(&r->b, &mf_op_broadcast_in_dim,
                           &(mf_broadcast_params){ mf_ints_intern(t->dims, t->rank), mf_ints_of(1, t->rank - 1) }, 1, v);
        if (v->type->rank == 0)
            return mf_emit(&r->b, &mf_op_broadcast_in_dim, &(mf_broadcast_params){ mf_ints_intern(t->dims, t->rank), mf_ints_of(0) }, 1, v);
    }
    return NULL;
}

static mf_variable *elementwise(random_program *r)
{
    static const mf_op *const two[] = { &mf_op_add, &mf_op_sub, &mf_op_max, &mf_op_min }, *const one[] = { &mf_op_neg, &mf_op_abs,
                                                                                                           &mf_op_sign };
    mf_variable *x = any(r), *y = alike(r, x->type);
    if (!y || pick(r, 3) == 0)
        return mf_emit(&r->b, one[pick(r, 3)], NULL, 1, x);
    if (pick(r, 4) == 0) {
        mf_variable *less = mf_emit(&r->b, &mf_op_lt, NULL, 2, x, y);
        return mf_emit(&r->b, &mf_op_select_n, NULL, 3, less, x, y);
    }
    return mf_emit(&r->b, two[pick(r, 4)], NULL, 2, x, y);
}

static mf_variable *view(random_program *r)
{
    mf_variable *x = any(r);
    const mf_type *t = x->type;
    if (t->rank == 0)
        return NULL;
    if (t->rank == 1)
        return mf_emit(&r->b, &mf_op_rev, &(mf_axes_params){ mf_ints_of(1, 0) }, 1, x);
    if (pick(r, 3) == 0) {
        int64_t start[MF_RANK] = { 0 }, limit[MF_RANK], strides[MF_RANK];
        for (int i = 0; i < t->rank; i++) {
            limit[i] = t->dims[i];
            strides[i] = 1;
        }
        start[0] = t->dims[0] / 2;
        return mf_emit(
            &r->b, &mf_op_slice,
            &(mf_slice_params){ mf_ints_intern(start, t->rank), mf_ints_intern(limit, t->rank), mf_ints_intern(strides, t->rank) }, 1, x);
    }
    int64_t order[MF_RANK];
    for (int i = 0; i < t->rank; i++)
        order[i] = t->rank - 1 - i;
    return mf_emit(&r->b, &mf_op_transpose, &(mf_permutation_params){ mf_ints_intern(order, t->rank) }, 1, x);
}

static mf_variable *reduction(random_program *r)
{
    mf_variable *x = any(r);
    if (x->type->rank == 0)
        return NULL;
    mf_axes_params axes = { mf_ints_of(1, pick(r, x->type->rank)) };
    mf_variable *y = mf_emit(&r->b, pick(r, 2) ? &mf_op_reduce_max : &mf_op_reduce_min, &axes, 1, x);
    return y;
}

/* Products grow; the sign keeps them small. */
static mf_variable *product(random_program *r)
{
    mf_variable *x = any(r), *y = any(r);
    if (x->type->rank != 2 || y->type->rank != 2 || x->type->dims[1] != y->type->dims[0])
        return NULL;
    mf_dot_params p = { mf_ints_of(1, 1), mf_ints_of(1, 0), mf_ints_of(0), mf_ints_of(0), MF_DTYPE_DEFAULT };
    mf_variable *z = mf_emit(&r->b, &mf_op_dot_general, &p, 2, mf_emit(&r->b, &mf_op_sign, NULL, 1, x),
                             mf_emit(&r->b, &mf_op_sign, NULL, 1, y));
    return z;
}

static mf_program *make(uint32_t seed, mf_error_object **error)
{
    static const int64_t shapes[][3] = { { 4, 6, 0 }, { 6, 4, 0 }, { 6, 0, 0 }, { 2, 3, 4 }, { 24, 0, 0 }, { 0, 0, 0 }, { 4, 4, 0 } };
    random_program r = { .state = seed * 2654435761u };
    mf_builder_init(&r.b, NULL);
    int inputs = 2 + pick(&r, 4), steps = 5 + pick(&r, 40);
    for (int i = 0; i < inputs; i++) {
        const int64_t *dims = shapes[pick(&r, 7)];
        int rank = 0;
        while (rank < 3 && dims[rank])
            rank++;
        r.vars[r.count++] = mf_builder_input(&r.b, mf_type_get(MF_F32, false, rank, dims));
    }
    for (int i = 0; i < steps && r.count < MOST_VARS; i++) {
        int kind = pick(&r, 10);
        mf_variable *made = kind < 6 ? elementwise(&r) : kind < 8 ? view(&r) : kind < 9 ? reduction(&r) : product(&r);
        if (made)
            r.vars[r.count++] = made;
    }
    mf_variable *out[MOST_IO];
    int outputs = 1 + pick(&r, MOST_IO - 1);
    for (int o = 0; o < outputs; o++)
        out[o] = o < outputs / 2 ? any(&r) : r.vars[r.count - 1 - pick(&r, r.count / 2)];
    return mf_builder_finish(&r.b, out, outputs, error);
}

typedef struct memory {
    float in[MOST_IO][64], out[MOST_IO][64];
    const void *in_at[MOST_IO];
    void *out_at[MOST_IO];
} memory;

static void prepare(memory *m, const mf_program *p, uint32_t seed)
{
    memset(m->out, 0x5a, sizeof m->out);
    for (int i = 0; i < p->in_count; i++) {
        m->in_at[i] = m->in[i];
        for (int k = 0; k < 64; k++)
            m->in[i][k] = (float)((int)((seed = seed * 1664525u + 1013904223u) >> 24) % 9 - 4);
    }
    for (int o = 0; o < p->out_count; o++)
        m->out_at[o] = m->out[o];
}

static bool run(const mf_segment_compiler *compiler, const mf_program *p, memory *m, const bool *donatable)
{
    mf_kernel *k;
    mf_error_object *error = compiler->compile(compiler, p, donatable, &k);
    if (!CHECK(!error))
        return CHECK_NOTE("%s", mf_error_text(error));
    for (int o = 0; donatable && o < p->out_count; o++)
        if (k->alias[o] >= 0)
            m->out_at[o] = m->in[k->alias[o]];
    void *scratch = aligned_alloc(64, (k->scratch_bytes + 127) / 64 * 64);
    memset(scratch, 0xa5, k->scratch_bytes);
    error = compiler->run(k, m->in_at, m->out_at, scratch);
    free(scratch);
    compiler->destroy(k);
    return CHECK(!error);
}

static bool same_everywhere(const mf_program *p, uint32_t seed)
{
    static const bool all[MOST_IO] = { true, true, true, true, true, true, true, true };
    memory reference, native;
    prepare(&reference, p, seed);
    if (!run(&mf_segment_compiler_reference, p, &reference, NULL))
        return false;
    for (int way = 0; way < 2; way++) {
        prepare(&native, p, seed);
        if (!run(&mf_segment_compiler_native, p, &native, way ? all : NULL))
            return false;
        for (int o = 0; o < p->out_count; o++)
            for (int64_t i = 0; i < p->out[o]->type->size; i++)
                if (!CHECK(((float *)native.out_at[o])[i] == reference.out[o][i]))
                    return CHECK_NOTE("seed %u, %s, result %d, element %d: %g, expected %g", (unsigned)seed, way ? "donated" : "kept", o,
                                      (int)i, (double)((float *)native.out_at[o])[i], (double)reference.out[o][i]);
    }
    return true;
}

static void try_seeds(uint32_t from, uint32_t to)
{
    for (uint32_t seed = from; seed < to; seed++) {
        mf_error_object *error = NULL;
        mf_program *p = make(seed, &error);
        bool fine = CHECK(p);
        if (!fine)
            CHECK_NOTE("seed %u: %s", (unsigned)seed, mf_error_text(error));
        fine = fine && same_everywhere(p, seed);
        if (!fine && p) {
            mf_text t = { 0 };
            mf_program_print(&t, p);
            CHECK_NOTE("%s", t.at);
            mf_text_free(&t);
        }
        mf_drop(p);
        if (!fine)
            return;
    }
}

TEST(by_tile_kernels)
{
    mf_native_tiers = MF_TIERS_FIRST;
    try_seeds(1, 3000);
    mf_native_tiers = MF_TIERS_AS_ASKED;
}

TEST(by_joined_rows)
{
    mf_native_rows_use = MF_ROWS_ALWAYS;
    mf_native_tiers = MF_TIERS_FIRST;
    try_seeds(3000, 6000);
    mf_native_tiers = MF_TIERS_LOOPS;
    try_seeds(200, 320);
    mf_native_tiers = MF_TIERS_AS_ASKED;
    mf_native_rows_use = MF_ROWS_WHERE_IT_PAYS;
}

TEST(by_compiled_loops)
{
    mf_native_tiers = MF_TIERS_LOOPS;
    try_seeds(1, 120);
    mf_native_tiers = MF_TIERS_AS_ASKED;
}

TEST(out_of_memory_is_an_error)
{
    for (uint32_t seed = 1; seed < 20; seed++) {
        mf_native_rows_use = seed % 2 ? MF_ROWS_ALWAYS : MF_ROWS_WHERE_IT_PAYS;
        mf_error_object *error = NULL;
        mf_program *p = make(seed, &error);
        REQUIRE(p);
        for (int64_t n = 1; n < 400; n++) {
            mf_kernel *k = NULL;
            mf_alloc_fail_after(n);
            error = mf_segment_compiler_native.compile(&mf_segment_compiler_native, p, NULL, &k);
            mf_alloc_fail_after(0);
            if (!error) {
                mf_segment_compiler_native.destroy(k);
                break; /* fewer allocations than that, or a build without fault injection */
            }
            CHECK_EQ_INT(error->status, MF_ERROR_MEMORY);
            CHECK(!k);
            mf_error_ignore(error);
        }
        mf_drop(p);
    }
    mf_native_rows_use = MF_ROWS_WHERE_IT_PAYS;
}
