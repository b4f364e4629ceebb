/* The cipher behind all random numbers, for random/ (keys are u32[2]), and the derivative of a gamma draw. */
#include "lax/wrap.h"

#include <manyfold/random.h>

mf_value(mf_threefry2x32)(mf_value key, mf_value x1, mf_value x2)
{
    MF_ENTER(MF_FORKED);
    if (!mf_wrap_array(&key, "threefry2x32"))
        return key;
    const mf_type *k = mf_value_type(key);
    if (k->dtype != MF_U32 || k->rank != 1 || k->dims[0] != 2)
        return mf_fail(
            MF_ERROR_DTYPE, "a random key is uint32[2], but this is %s%s", mf_type_name(k),
            k->dtype == MF_U32 && k->rank > 1 && k->dims[k->rank - 1] == 2 ? ": take one of these keys by mf_get, or map over them" : "");
    mf_value v[2] = { x1, x2 };
    for (int i = 0; i < 2; i++) {
        if (mf_wrap_array(&v[i], "threefry2x32"))
            v[i] = mf_convert_value(v[i], MF_U32, false);
        if (!mf_value_type(v[i])) /* pass the error on */
            return v[i];
    }
    if (!mf_broadcast_shapes(v, 2, "threefry2x32"))
        return v[0];
    const mf_type *t = mf_value_type(v[0]);
    mf_value k1 = mf_broadcast_value(mf_get_n(key, (const mf_value[]){ mf_i(0) }, 1), t->rank, t->dims);
    mf_value k2 = mf_broadcast_value(mf_get_n(key, (const mf_value[]){ mf_i(1) }, 1), t->rank, t->dims);
    mf_value out[2];
    mf_bind_n(&mf_op_threefry2x32, NULL, (const mf_value[]){ k1, k2, v[0], v[1] }, 4, out, 2);
    return mf_tuple_n(out, 2);
}

mf_value(mf_random_gamma_grad)(mf_value a, mf_value sample)
{
    MF_ENTER(MF_FORKED);
    if (!mf_promote2_inexact(&a, &sample, "random_gamma_grad"))
        return a;
    return mf_bind(&mf_op_random_gamma_grad, NULL, 2, a, sample);
}
