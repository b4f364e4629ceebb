/* Matrix products for oneDNN: their descriptors, and the layouts that it is given. */
#include "dnnl_primitive.h"

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
    if (strides == given) /* a broadcast operand has size 1 in that dimension */
        for (int i = 0; i < m->batch_rank; i++)
            if (!given[i])
                dims[i] = 1, dense[i] = 0;
    int64_t kept[MF_DNNL_BATCH + 2];
    for (int i = 0; i < rank; i++) {
        if (!strides[i] && dims[i] > 1)
            return false;
        kept[i] = strides[i] ? strides[i] : 1;
    }
    return mf_dnnl_desc_make(out, rank, dims, any ? NULL : kept, dtype);
}

static bool make_matmul_desc(dnnl_primitive_desc_t *pd, desc *a, desc *b, desc *c)
{
#if DNNL_VERSION_MAJOR >= 3
    return mf_dnnl_ok(mf_dnnl.dnnl_matmul_primitive_desc_create(pd, mf_dnnl.engine, *a, *b, NULL, *c, mf_dnnl.attr));
#else
    dnnl_matmul_desc_t op;
    return mf_dnnl_ok(mf_dnnl.dnnl_matmul_desc_init(&op, a, b, NULL, c)) &&
           mf_dnnl_ok(mf_dnnl.dnnl_primitive_desc_create(pd, &op, mf_dnnl.attr, mf_dnnl.engine, NULL));
#endif
}

static bool make_matrix_descs(const mf_dnnl_matmul *m, bool any, desc *a, desc *b, desc *c)
{
    return matrix_desc(m, m->dtype, m->m, m->k, m->a_strides, any, a) && matrix_desc(m, m->dtype, m->k, m->n, m->b_strides, any, b) &&
           matrix_desc(m, m->result, m->m, m->n, m->c_strides, any, c);
}

static bool choose_matmul(mf_dnnl_primitive *p, const mf_dnnl_matmul *m)
{
    mf_dnnl_operand *o = p->operands;
    desc a = { 0 }, b = { 0 }, c = { 0 };
    if (make_matmul_desc(&p->desc, &o[MF_DNNL_IN0].user, &o[MF_DNNL_IN1].user, &o[MF_DNNL_OUT].user)) {
        if (!mf_dnnl_is_reference(p->desc))
            return true;
        mf_dnnl.dnnl_primitive_desc_destroy(p->desc);
        p->desc = NULL;
    }
    bool ok = make_matrix_descs(m, true, &a, &b, &c) && make_matmul_desc(&p->desc, &a, &b, &c);
    mf_dnnl_desc_free(&a);
    mf_dnnl_desc_free(&b);
    mf_dnnl_desc_free(&c);
    return ok;
}

static bool build_matmul(mf_dnnl_primitive *p, const void *problem)
{
    const mf_dnnl_matmul *m = problem;
    mf_dnnl_operand *o = p->operands;
    o[MF_DNNL_IN0].argument = DNNL_ARG_SRC;
    o[MF_DNNL_IN1].argument = DNNL_ARG_WEIGHTS;
    o[MF_DNNL_OUT].argument = DNNL_ARG_DST;
    p->packed = MF_DNNL_IN1;
    return make_matrix_descs(m, false, &o[MF_DNNL_IN0].user, &o[MF_DNNL_IN1].user, &o[MF_DNNL_OUT].user) && choose_matmul(p, m) &&
           mf_dnnl_finish(p);
}

static void matmul_key(int64_t *key, const mf_dnnl_matmul *m)
{
    const int64_t head[] = { 2, m->dtype, m->result, m->batch_rank, m->m, m->n, m->k };
    const int64_t *strides[] = { m->a_strides, m->b_strides, m->c_strides };
    int at = mf_dnnl_key_put(key, mf_dnnl_key_put(key, 0, head, 7), m->batch, m->batch_rank);
    for (int i = 0; i < 3; i++)
        at = mf_dnnl_key_put(key, at, strides[i], 2 + m->batch_rank);
}

static bool matmul_valid(const mf_dnnl_matmul *m)
{
    if (m->batch_rank < 0 || m->batch_rank > MF_DNNL_BATCH || !mf_dnnl_is_size(m->m) || !mf_dnnl_is_size(m->n) || !mf_dnnl_is_size(m->k))
        return false;
    for (int i = 0; i < m->batch_rank; i++)
        if (!mf_dnnl_is_size(m->batch[i]))
            return false;
    return true;
}

const mf_dnnl_primitive *mf_dnnl_matmul_create(const mf_dnnl_matmul *matmul, bool *no_memory)
{
    int64_t key[MF_DNNL_KEY_WORDS] = { 0 };
    *no_memory = false;
    if (!matmul_valid(matmul) || !mf_dnnl_supports(matmul->dtype) || !mf_dnnl_supports(matmul->result))
        return NULL;
    matmul_key(key, matmul);
    return mf_dnnl_get(key, build_matmul, matmul, no_memory);
}
