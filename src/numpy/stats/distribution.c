/* Location and scale: from the formula of a standard distribution to a function of it. */
#include "numpy/stats/distribution.h"

#include "numpy/floats.h"

/* All bytes are set, so that equal functions are one function and are traced once. */
typedef struct stats_function {
    stats_formula formula;
    int64_t kind, count;
} stats_function;

static mf_value of_arguments(const stats_function *f, const mf_value *v)
{
    int count = (int)f->count, after = f->kind == STATS_PLAIN ? 0 : f->kind <= STATS_PMF ? 1 : 2;
    mf_value x = v[0], a = count - after > 1 ? v[1] : (mf_value){ 0 }, b = count - after > 2 ? v[2] : (mf_value){ 0 };
    if (after == 0)
        return f->formula(x, a, b);
    if (after == 1)
        return f->formula(mf_sub(x, v[count - 1]), a, b);
    mf_value loc = v[count - 2], scale = v[count - 1];
    if (f->kind == STATS_PPF)
        return mf_add(mf_mul(f->formula(x, a, b), scale), loc);
    mf_value y = f->formula(mf_div(mf_sub(x, loc), scale), a, b);
    return f->kind <= STATS_PDF ? mf_sub(y, mf_log(scale)) : y;
}

static mf_value run(void *function, mf_value arguments)
{
    const stats_function *f = function;
    mf_value v[5] = { { 0 } };
    for (int i = 0; i < f->count; i++)
        v[i] = mf_get(arguments, i);
    mf_value y = of_arguments(f, v);
    if (f->kind == STATS_PMF || f->kind == STATS_PDF)
        return mf_exp(y);
    return f->kind == STATS_LOG_CDF ? mf_log(y) : y;
}

mf_value stats_is_probability(mf_value q) { return mf_logical_and(mf_greater_equal(q, 0), mf_less_equal(q, 1)); }

mf_value stats_apply(const char *name, stats_kind kind, stats_formula formula, const mf_value *arguments, int count)
{
    MF_LAYER;
    mf_value v[5] = { { 0 } };
    for (int i = 0; i < count; i++)
        v[i] = arguments[i];
    numpy_common_floats(v, count);
    mf_value first = numpy_real_float(v[0], name);
    if (mf_is_error(first))
        return first;
    const stats_function f = { formula, kind, count };
    return mf_call(mf_jit(mf_closure(run, &f)), mf_tuple_n(v, count));
}
