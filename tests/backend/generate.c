/* Scopes: the values of a program under construction, and the equations that convert a value to another shape, dtype or range. */
#include "generate.h"

#include "generate_scope.h"

#include <math.h>

/* ------------------------------------------------------------------ chance */

uint64_t draw(generator *g)
{
    uint64_t z = g->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int pick(generator *g, int n) { return (int)(draw(g) % (uint64_t)n); }
bool chance(generator *g, int percent) { return pick(g, 100) < percent; }

static void fill(mf_array *a, fact f, generator *g)
{
    mf_dtype d = a->type->dtype;
    char *p = mf_array_data(a);
    for (int64_t i = 0; i < a->type->size; i++, p += mf_dtype_size(d)) {
        double share = (double)(draw(g) >> 11) * 0x1p-53;
        if (mf_dtype_is_float(d) && !f.whole)
            mf_store_f64(d, p, f.low + share * (f.high - f.low));
        else if (mf_dtype_is_float(d))
            mf_store_f64(d, p, floor(f.low + share * (f.high - f.low + 1)));
        else
            mf_store_i64(d, p, (int64_t)floor(f.low + share * (f.high - f.low + 1)));
    }
}

mf_array *generated_input(const generated *g, int input, uint64_t seed)
{
    generator random = { .state = seed * 31 + (uint64_t)input };
    mf_array *a = mf_array_new(g->p->in[input]->type);
    fill(a, fact_range(g->low[input], g->high[input], g->whole[input]), &random);
    return a;
}

/* ------------------------------------------------------------------ slots */

scope scope_open(generator *g, const mf_axis_env *env, int depth)
{
    scope s = { .g = g, .depth = depth, .collectives = true };
    mf_builder_init(&s.b, env);
    return s;
}

/* Large and deep values are not kept; if the scope is full, another value is dropped. */
void scope_add(scope *s, mf_variable *v, fact f)
{
    const mf_type *t = v->type;
    if (t->size > 4096 || t->rank > 6 || t->weak || mf_dtype_is_complex(t->dtype) || (t->size == 0 && s->count && chance(s->g, 75)))
        return;
    int at = s->count < SLOTS ? s->count++ : pick(s->g, SLOTS);
    s->at[at] = (slot){ v, f };
}

static fact whole_range(mf_dtype d, fact f)
{
    double low = isfinite(f.low) ? ceil(f.low) : -9, high = isfinite(f.high) ? floor(f.high) : 9;
    if (d == MF_BOOL)
        return (fact){ 0, 1, true, f.uniform };
    low = mf_dtype_is_unsigned(d) && low < 0 ? 0 : low;
    return (fact){ low, high < low ? low : high, true, f.uniform };
}

static fact usual_range(mf_dtype d, fact f)
{
    if (f.whole || !mf_dtype_is_float(d))
        return whole_range(d, f);
    return (fact){ isfinite(f.low) ? f.low : -2, isfinite(f.high) ? f.high : 2, false, f.uniform };
}

static slot constant_of(scope *s, const mf_type *type, fact f)
{
    int64_t some = type->size > 16 ? 16 : type->size;
    const mf_type *flat = some == type->size ? type : mf_type_get(type->dtype, false, 1, &some);
    mf_array *a = mf_array_new(flat);
    fill(a, f, s->g);
    slot x = { constant_array(&s->b, a), f };
    mf_drop(a);
    return scope_reshaped(s, x, type);
}

slot scope_fresh(scope *s, const mf_type *type, fact f)
{
    generated *out = s->g->out;
    int i = s->b.program->in_count;
    f = usual_range(type->dtype, f);
    f.uniform = true;
    if (!s->top || i >= GENERATED_INPUTS)
        return constant_of(s, type, f);
    out->low[i] = f.low;
    out->high[i] = f.high;
    out->whole[i] = f.whole;
    slot x = { mf_builder_input(&s->b, type), f };
    scope_add(s, x.v, x.f);
    return x;
}

slot scope_find(scope *s, mf_dtype dtype, bool whole)
{
    for (int tries = 0; tries < 12 && s->count; tries++) {
        int last = pick(s->g, s->count), first = pick(s->g, s->count);
        slot x = s->at[last > first ? last : first]; /* prefers a late one, so that chains grow long */
        if (x.v->type->dtype == dtype && (!whole || x.f.whole))
            return x;
    }
    return (slot){ 0 };
}

/* Prefers a value that nothing reads yet. */
slot scope_result(scope *s)
{
    slot x = { 0 };
    for (int tries = 0; tries < 16; tries++) {
        x = s->at[pick(s->g, s->count)];
        bool read = !x.v->producer;
        for (int i = 0; i < s->b.program->eqn_count && !read; i++)
            for (int k = 0; k < s->b.program->eqns[i]->in_count; k++)
                read = read || s->b.program->eqns[i]->in[k] == x.v;
        if (!read)
            break;
    }
    return x;
}

/* ------------------------------------------------------------------ shapes */

static slot emitted(scope *s, slot from, const mf_op *op, const void *params)
{
    return (slot){ mf_emit(&s->b, op, params, 1, from.v), from.f };
}

static slot as_shape(scope *s, slot x, int rank, const int64_t *dims)
{
    const mf_type *t = x.v->type;
    bool same = t->rank == rank;
    for (int i = 0; i < rank && same; i++)
        same = t->dims[i] == dims[i];
    mf_shape_params to = { mf_ints_intern(dims, rank) };
    return same ? x : emitted(s, x, &mf_op_reshape, &to);
}

static slot repeated(scope *s, slot x, int64_t times)
{
    int64_t n = x.v->type->size, sizes[2] = { times, n };
    mf_broadcast_params to = { mf_ints_intern(sizes, 2), mf_ints_of(1, 1) };
    int64_t total = n * times;
    return as_shape(s, emitted(s, x, &mf_op_broadcast_in_dim, &to), 1, &total);
}

static slot first_of(scope *s, slot x, int64_t count)
{
    int64_t n = x.v->type->size, step = n / (count ? count : 1) > 1 && chance(s->g, 30) ? 2 : 1;
    int64_t reach = count ? (count - 1) * step + 1 : 0, start = pick(s->g, (int)(n - reach + 1)), limit = start + reach;
    mf_slice_params cut = { mf_ints_intern(&start, 1), mf_ints_intern(&limit, 1), mf_ints_intern(&step, 1) };
    return n == count ? x : emitted(s, x, &mf_op_slice, &cut);
}

/* Whether the trailing dimensions of `of` are x's: such broadcasts are frequent in programs. */
static bool is_suffix(const mf_type *x, const mf_type *of)
{
    for (int i = 1; i <= x->rank; i++)
        if (i > of->rank || x->dims[x->rank - i] != of->dims[of->rank - i])
            return false;
    return x->rank < of->rank;
}

static slot broadcast_to(scope *s, slot x, const mf_type *shape)
{
    int64_t dims[MF_RANK];
    int rank = x.v->type->rank;
    for (int i = 0; i < rank; i++)
        dims[i] = shape->rank - rank + i;
    mf_broadcast_params to = { mf_ints_intern(shape->dims, shape->rank), mf_ints_intern(dims, rank) };
    return emitted(s, x, &mf_op_broadcast_in_dim, &to);
}

slot scope_reshaped(scope *s, slot x, const mf_type *shape)
{
    const mf_type *t = x.v->type;
    if (mf_type_same_shape(t, shape))
        return x;
    if (is_suffix(t, shape))
        return broadcast_to(s, x, shape);
    if (t->size != shape->size) {
        if (t->size == 0)
            return scope_fresh(s, mf_type_with_dtype(shape, t->dtype), usual_range(t->dtype, x.f));
        x = as_shape(s, x, 1, &t->size);
        if (t->size < shape->size)
            x = repeated(s, x, (shape->size + t->size - 1) / t->size);
        x = first_of(s, x, shape->size);
    }
    return as_shape(s, x, shape->rank, shape->dims);
}

/* ------------------------------------------------------------------ ranges and dtypes */

static slot clamped(scope *s, slot x, double low, double high)
{
    const mf_type *t = mf_type_scalar(x.v->type->dtype, false);
    mf_variable *bound[2];
    for (int i = 0; i < 2; i++) {
        mf_array *a = mf_array_new(t);
        mf_store_f64(t->dtype, mf_array_data(a), i ? high : low);
        bound[i] = constant_array(&s->b, a);
        mf_drop(a);
    }
    mf_variable *v = mf_emit(&s->b, &mf_op_clamp, NULL, 3, bound[0], x.v, bound[1]);
    return (slot){ v, { low, high, x.f.whole, x.f.uniform } };
}

/* middle + half * tanh(x): smooth, so gradients pass. */
static slot squashed(scope *s, slot x, double low, double high)
{
    const mf_type *t = x.v->type;
    mf_variable *terms[2];
    for (int i = 0; i < 2; i++) {
        mf_array *a = mf_array_new(mf_type_scalar(t->dtype, false));
        mf_store_f64(t->dtype, mf_array_data(a), i ? (low + high) / 2 : (high - low) / 2);
        mf_variable *v = constant_array(&s->b, a);
        mf_broadcast_params to = { mf_ints_intern(t->dims, t->rank), mf_ints_intern(NULL, 0) };
        terms[i] = t->rank ? mf_emit(&s->b, &mf_op_broadcast_in_dim, &to, 1, v) : v;
        mf_drop(a);
    }
    mf_variable *v = mf_emit(&s->b, &mf_op_mul, NULL, 2, mf_emit(&s->b, &mf_op_tanh, NULL, 1, x.v), terms[0]);
    return (slot){ mf_emit(&s->b, &mf_op_add, NULL, 2, v, terms[1]), { low, high, false, x.f.uniform } };
}

slot scope_ranged(scope *s, slot x, double low, double high)
{
    mf_dtype d = x.v->type->dtype;
    if ((x.f.low >= low && x.f.high <= high) || d == MF_BOOL || !isfinite(low) || !isfinite(high))
        return x;
    if (x.f.whole || !mf_dtype_is_float(d)) {
        fact f = whole_range(d, fact_range(low, high, true));
        return clamped(s, x, f.low, f.high);
    }
    return chance(s->g, 50) ? clamped(s, x, low, high) : squashed(s, x, low, high);
}

static double whole_limit(mf_dtype d) { return d == MF_BF16 ? 256 : d == MF_F16 ? 2048 : 1 << 20; }

/* A value converted from another dtype; floats that are not whole are not converted to integers. */
static slot converted(scope *s, mf_dtype dtype, bool whole)
{
    static const mf_dtype others[] = { MF_F32, MF_F32, MF_F32, MF_I32, MF_F64, MF_BOOL, MF_BF16, MF_U8 };
    mf_dtype from = others[pick(s->g, 8)];
    slot x = scope_find(s, from, whole || !mf_dtype_is_float(dtype));
    if (!x.v || from == dtype || !(x.f.low >= -whole_limit(dtype) && x.f.high <= whole_limit(dtype)))
        return (slot){ 0 };
    x.v = mf_emit(&s->b, &mf_op_convert_element_type, &(mf_convert_params){ dtype, false }, 1, x.v);
    if (mf_dtype_is_float(dtype))
        return x;
    x.f = fact_any(); /* it may have wrapped around */
    x.f.whole = true;
    return x;
}

/* Prefers a value that already has the shape. */
static slot find_like(scope *s, const mf_type *type, bool whole)
{
    slot x = scope_find(s, type->dtype, whole);
    for (int tries = 0; tries < 5 && x.v && !mf_type_same_shape(x.v->type, type); tries++) {
        slot other = scope_find(s, type->dtype, whole);
        x = other.v ? other : x;
    }
    return x;
}

slot scope_value(scope *s, const mf_type *type, double low, double high, bool whole)
{
    slot x = chance(s->g, 90) ? find_like(s, type, whole) : (slot){ 0 };
    if (!x.v && chance(s->g, 70))
        x = converted(s, type->dtype, whole);
    if (!x.v)
        return scope_fresh(s, type, fact_range(low, high, whole));
    if (x.f.whole && !whole && chance(s->g, 70)) { /* mostly fractions are wanted */
        slot other = find_like(s, type, false);
        x = other.v ? other : x;
    }
    return scope_ranged(s, scope_reshaped(s, x, type), low, high);
}

/* ------------------------------------------------------------------ whole programs */

void scope_fill(scope *s, int count)
{
    for (int n = 0; n < count && s->g->left > 0 && !s->b.error; n++) {
        s->g->left--;
        if (s->depth < 3 && chance(s->g, s->b.env ? 35 : 22))
            add_nested(s);
        else
            add_row(s);
    }
}

static void start_inputs(scope *s)
{
    static const int64_t shapes[][3] = { { 3 }, { 2, 3 }, { 17 }, { 4, 5 }, { 8, 3 }, { 2, 4, 3 }, { 40, 9 }, { 130 }, { 1, 6 }, { 700 } };
    static const int ranks[] = { 1, 2, 1, 2, 2, 3, 2, 1, 2, 1 };
    for (int i = 0; i < 3; i++) {
        int k = pick(s->g, 10);
        mf_dtype d = chance(s->g, 75) ? MF_F32 : chance(s->g, 50) ? MF_F64 : MF_BF16;
        scope_fresh(s, mf_type_get(d, false, ranks[k], shapes[k]), fact_range(-2, 2, i == 2));
    }
    scope_fresh(s, mf_type_scalar(MF_I32, false), fact_range(0, 3, true));
}

bool generate_program(uint64_t seed, generated *out, mf_error_object **error)
{
    generator g = { .state = seed, .out = out };
    mf_variable *results[8];
    int count = 0;
    g.left = 5 + pick(&g, 20);
    scope s = scope_open(&g, NULL, 0);
    s.top = true;
    start_inputs(&s);
    scope_fill(&s, 1000);
    while (count < 6)
        results[count++] = scope_result(&s).v;
    out->p = mf_builder_finish(&s.b, results, count, error);
    return out->p;
}
