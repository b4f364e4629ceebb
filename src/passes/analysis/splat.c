/* Splats; see splat.h. Invariant: nothing here emits equations. */
#include "passes/analysis/splat.h"
#include "ops/ops.h"
#include <math.h>

mf_variable *mf_splat_of(mf_variable *v)
{
    while (v->producer && (v->producer->op == &mf_op_broadcast_in_dim || v->producer->op == &mf_op_reshape))
        v = v->producer->in[0];
    return v->type->rank == 0 && v->constant ? v : NULL;
}

bool mf_splat_is(mf_variable *v, double x)
{
    const mf_variable *s = mf_splat_of(v);
    if (!s)
        return false;
    mf_dtype dtype = s->type->dtype;
    const void *p = s->constant->data;
    if (mf_dtype_is_float(dtype))
        return mf_load_f64(dtype, p) == x && !signbit(mf_load_f64(dtype, p)) == !signbit(x);
    return mf_dtype_is_int(dtype) && mf_load_i64(dtype, p) == (int64_t)x;
}
