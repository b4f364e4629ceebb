/* Several elements as vectors in registers: reads, writes, folds, and selects elements whose numbers are known when the text is written.
 * Invariant: lanes beyond the elements hold values too (0 or copies), so computing on them does no harm. */
#include "backend/native/llvm/llvm.h"
#include "backend/native/kernels/kernels.h"

#include <inttypes.h>
#include <math.h>

/* ------------------------------------------------------------------ memory */

mf_ir_value mf_ir_mask(mf_ir *ir, int live)
{
    mf_text t = { 0 };
    for (int k = 0; k < ir->width; k++)
        mf_text_add(&t, "%si1 %d", k ? ", " : "", k < live);
    mf_ir_value made = mf_ir_format(ir, "<%s>", t.at ? t.at : "");
    ir->failed |= t.failed;
    mf_text_free(&t);
    return made;
}

static const char *letter(mf_dtype dtype) { return dtype == MF_F32 || dtype == MF_F64 ? "f" : "i"; }

mf_ir_value mf_ir_read(mf_ir *ir, mf_dtype dtype, mf_ir_value place, int live)
{
    const char *m = mf_ir_memory(dtype);
    int size = mf_dtype_size(dtype), w = ir->width;
    mf_ir_value v = live == w ? mf_ir_op(ir, "load <%d x %s>, ptr %s, align %d", w, m, place, size)
                              : mf_ir_op(ir,
                                         "call <%d x %s> @llvm.masked.load.v%d%s%d.p0(ptr %s, i32 %d, <%d x i1> %s, <%d x %s> "
                                         "zeroinitializer)",
                                         w, m, w, letter(dtype), 8 * size, place, size, w, mf_ir_mask(ir, live), w, m);
    return mf_ir_from_memory(ir, dtype, v);
}

void mf_ir_write(mf_ir *ir, mf_dtype dtype, mf_ir_value v, mf_ir_value place, int live)
{
    const char *m = mf_ir_memory(dtype);
    int size = mf_dtype_size(dtype), w = ir->width;
    if (dtype == MF_BOOL)
        v = mf_ir_op(ir, "zext <%d x i1> %s to <%d x i8>", w, v, w);
    if (live == w)
        mf_ir_line(ir, "store <%d x %s> %s, ptr %s, align %d", w, m, v, place, size);
    else
        mf_ir_line(ir, "call void @llvm.masked.store.v%d%s%d.p0(<%d x %s> %s, ptr %s, i32 %d, <%d x i1> %s)", w, letter(dtype), 8 * size, w,
                   m, v, place, size, w, mf_ir_mask(ir, live));
}

/* ------------------------------------------------------------------ joining two values, folding lanes */

static bool is_extreme(mf_reducer how) { return how == MF_REDUCE_MAX || how == MF_REDUCE_MIN; }

bool mf_ir_can_fold(mf_reducer how, mf_dtype dtype)
{
    return mf_dtype_is_float(dtype) || dtype == MF_I32 || dtype == MF_U32 || dtype == MF_I64 || dtype == MF_U64 ||
           (dtype == MF_BOOL && is_extreme(how));
}

mf_ir_value mf_ir_identity(mf_ir *ir, mf_reducer how, mf_dtype dtype)
{
    _Alignas(8) unsigned char element[8] = { 0 };
    bool least = how == MF_REDUCE_MAX;
    if (!is_extreme(how))
        mf_store_f64(dtype, element, how == MF_REDUCE_PROD);
    else if (mf_dtype_is_float(dtype))
        mf_store_f64(dtype, element, least ? -(double)INFINITY : (double)INFINITY);
    else
        mf_store_i64(dtype, element,
                     dtype == MF_I32    ? (least ? INT32_MIN : INT32_MAX)
                     : dtype == MF_I64  ? (least ? INT64_MIN : INT64_MAX)
                     : dtype == MF_BOOL ? !least
                                        : (least ? 0 : -1));
    return mf_ir_splat(ir, dtype, element);
}

mf_ir_value mf_ir_join(mf_ir *ir, mf_reducer how, mf_dtype dtype, int width, mf_ir_value a, mf_ir_value b)
{
    const char *s = mf_ir_scalar(dtype);
    bool real = mf_dtype_is_float(dtype);
    if (!is_extreme(how))
        return mf_ir_op(ir, "%s%s <%d x %s> %s, %s", real ? "f" : "", how == MF_REDUCE_SUM ? "add" : "mul", width, s, a, b);
    if (dtype == MF_BOOL)
        return mf_ir_op(ir, "%s <%d x i1> %s, %s", how == MF_REDUCE_MAX ? "or" : "and", width, a, b);
    const char *name = real                        ? (how == MF_REDUCE_MAX ? "maximum" : "minimum")
                       : mf_dtype_is_signed(dtype) ? (how == MF_REDUCE_MAX ? "smax" : "smin")
                                                   : (how == MF_REDUCE_MAX ? "umax" : "umin");
    return mf_ir_op(ir, "call <%d x %s> @llvm.%s.v%d%s%d(<%d x %s> %s, <%d x %s> %s)", width, s, name, width, real ? "f" : "i",
                    8 * mf_dtype_size(dtype), width, s, a, width, s, b);
}

/* Selects lanes by `order`, counting a's lanes, then b's. */
static mf_ir_value shuffle(mf_ir *ir, const char *type, int from, mf_ir_value a, mf_ir_value b, int width, const int *order)
{
    mf_text t = { 0 };
    for (int k = 0; k < width; k++)
        mf_text_add(&t, "%si32 %d", k ? ", " : "", order[k]);
    mf_ir_value made = mf_ir_op(ir, "shufflevector <%d x %s> %s, <%d x %s> %s, <%d x i32> <%s>", from, type, a, from, type, b, width,
                                t.at ? t.at : "");
    ir->failed |= t.failed;
    mf_text_free(&t);
    return made;
}

mf_ir_value mf_ir_fold_lanes(mf_ir *ir, mf_reducer how, mf_dtype dtype, mf_ir_value v)
{
    const char *s = mf_ir_scalar(dtype);
    int order[MF_IR_LANES] = { 0 };
    for (int k = 0; k < MF_IR_LANES; k++)
        order[k] = k;
    for (int width = MF_IR_LANES; width > 1; width /= 2)
        v = mf_ir_join(ir, how, dtype, width / 2, shuffle(ir, s, width, v, "poison", width / 2, order),
                       shuffle(ir, s, width, v, "poison", width / 2, order + width / 2));
    return v;
}

/* ------------------------------------------------------------------ vectors */

mf_ir_vectors mf_ir_vectors_new(mf_ir *ir, mf_dtype dtype, int64_t n)
{
    mf_ir_vectors v = { .dtype = dtype, .n = n, .width = 1 };
    while (v.width < n && v.width < MF_IR_LANES)
        v.width *= 2;
    v.count = (int)((n + v.width - 1) / v.width);
    v.at = mf_arena_alloc(ir->strings, ((size_t)v.count + 1) * sizeof *v.at);
    ir->failed |= !v.at;
    v.count = v.at ? v.count : 0;
    return v;
}

int mf_ir_live(const mf_ir_vectors *v, int i)
{
    return (int)(v->n - (int64_t)i * v->width < v->width ? v->n - (int64_t)i * v->width : v->width);
}

static bool follow(const int64_t *index, int live, int64_t step)
{
    for (int k = 1; k < live; k++)
        if (index[k] != index[0] + k * step)
            return false;
    return true;
}

static mf_ir_value place(mf_ir *ir, mf_dtype dtype, mf_ir_value address, int64_t index)
{
    return index ? mf_ir_pointer(ir, address, dtype, mf_ir_format(ir, "%" PRId64, index)) : address;
}

static mf_ir_value gather(mf_ir *ir, mf_dtype dtype, mf_ir_value address, const int64_t *index, int live)
{
    const char *m = mf_ir_memory(dtype);
    bool one = follow(index, live, 0);
    if (follow(index, live, 1) && (live > 1 || ir->width == 1))
        return mf_ir_read(ir, dtype, place(ir, dtype, address, index[0]), live);
    mf_ir_value all = "zeroinitializer";
    for (int k = 0; k < (one ? 1 : live); k++) {
        mf_ir_value x = mf_ir_op(ir, "load %s, ptr %s, align %d", m, place(ir, dtype, address, index[k]), mf_dtype_size(dtype));
        all = one ? mf_ir_broadcast(ir, m, x) : mf_ir_op(ir, "insertelement <%d x %s> %s, %s %s, i64 %d", ir->width, m, all, m, x, k);
    }
    return mf_ir_from_memory(ir, dtype, all);
}

mf_ir_vectors mf_ir_gather(mf_ir *ir, mf_dtype dtype, mf_ir_value address, const int64_t *index, int64_t n)
{
    mf_ir_vectors v = mf_ir_vectors_new(ir, dtype, n);
    ir->width = v.width;
    for (int i = 0; i < v.count; i++)
        v.at[i] = gather(ir, dtype, address, index + (int64_t)i * v.width, mf_ir_live(&v, i));
    return v;
}

mf_ir_vectors mf_ir_literal(mf_ir *ir, mf_dtype dtype, const char *data, const int64_t *index, int64_t n)
{
    mf_ir_vectors v = mf_ir_vectors_new(ir, dtype, n);
    for (int i = 0; i < v.count; i++) {
        mf_text t = { 0 };
        for (int k = 0; k < v.width; k++) {
            int64_t e = (int64_t)i * v.width + k;
            mf_text_add(&t, "%s%s", k ? ", " : "", mf_ir_element(ir, dtype, data + index[e < n ? e : n - 1] * mf_dtype_size(dtype)));
        }
        v.at[i] = mf_ir_format(ir, "<%s>", t.at ? t.at : "");
        ir->failed |= t.failed;
        mf_text_free(&t);
    }
    return v;
}

mf_ir_vectors mf_ir_gathered(mf_ir *ir, mf_dtype dtype, const mf_ir_value *each, int64_t n)
{
    mf_ir_vectors v = mf_ir_vectors_new(ir, dtype, n);
    const char *s = mf_ir_scalar(dtype);
    for (int i = 0; i < v.count; i++) {
        v.at[i] = v.width == 1 ? each[i] : "zeroinitializer";
        for (int k = 0; v.width > 1 && k < mf_ir_live(&v, i); k++) {
            mf_ir_value x = mf_ir_op(ir, "extractelement <1 x %s> %s, i64 0", s, each[(int64_t)i * v.width + k]);
            v.at[i] = mf_ir_op(ir, "insertelement <%d x %s> %s, %s %s, i64 %d", v.width, s, v.at[i], s, x, k);
        }
    }
    return v;
}

static mf_ir_value one_lane(mf_ir *ir, const mf_ir_vectors *from, int64_t index)
{
    return mf_ir_op(ir, "extractelement <%d x %s> %s, i64 %d", from->width, mf_ir_scalar(from->dtype), from->at[index / from->width],
                    (int)(index % from->width));
}

/* Selects elements by taking lanes of each vector that has some of them, one vector after the other. Lanes beyond the last element
 * repeat it. */
static mf_ir_value pick(mf_ir *ir, const mf_ir_vectors *from, const int64_t *index, int live)
{
    const char *s = mf_ir_scalar(from->dtype);
    int w = ir->width, source[MF_IR_LANES], order[MF_IR_LANES] = { 0 };
    mf_ir_value made = NULL;
    if (follow(index, live, 0))
        return mf_ir_broadcast(ir, s, one_lane(ir, from, index[0]));
    for (int k = 0; k < w; k++)
        source[k] = (int)(index[k < live ? k : live - 1] / from->width);
    for (int k = 0; k < w; k++) {
        bool new = true;
        for (int j = 0; j < k; j++)
            new &= source[j] != source[k];
        if (!new)
            continue;
        for (int j = 0; j < w; j++)
            order[j] = source[j] == source[k] ? (int)(index[j < live ? j : live - 1] % from->width) : 0;
        bool whole = from->width == w;
        for (int j = 0; j < w; j++)
            whole &= source[j] != source[k] || order[j] == j;
        mf_ir_value part = whole ? from->at[source[k]] : shuffle(ir, s, from->width, from->at[source[k]], "poison", w, order);
        for (int j = 0; j < w; j++)
            order[j] = source[j] == source[k] ? w + j : j;
        made = made ? shuffle(ir, s, w, made, part, w, order) : part;
    }
    return made;
}

mf_ir_vectors mf_ir_pick(mf_ir *ir, const mf_ir_vectors *from, const int64_t *index, int64_t n)
{
    if (n == from->n && n > 0 && index[0] == 0) {
        int64_t i = 0;
        while (i < n && index[i] == i)
            i++;
        if (i == n)
            return *from;
    }
    mf_ir_vectors v = mf_ir_vectors_new(ir, from->dtype, n);
    ir->width = v.width;
    for (int i = 0; i < v.count; i++)
        v.at[i] = pick(ir, from, index + (int64_t)i * v.width, mf_ir_live(&v, i));
    return v;
}

mf_ir_vectors mf_ir_blend(mf_ir *ir, const mf_ir_vectors *v, const mf_ir_vectors *w, const int64_t *index)
{
    mf_ir_vectors made = mf_ir_vectors_new(ir, v->dtype, v->n);
    for (int i = 0; i < made.count; i++) {
        int order[MF_IR_LANES] = { 0 };
        for (int k = 0; k < made.width; k++)
            order[k] = k < mf_ir_live(&made, i) && index[(int64_t)i * made.width + k] >= 0 ? made.width + k : k;
        made.at[i] = shuffle(ir, mf_ir_scalar(v->dtype), made.width, v->at[i], w->at[i], made.width, order);
    }
    return made;
}

void mf_ir_scatter(mf_ir *ir, const mf_ir_vectors *v, mf_ir_value address, const int64_t *index)
{
    for (int i = 0; i < v->count; i++) {
        const int64_t *at = index + (int64_t)i * v->width;
        int live = mf_ir_live(v, i);
        ir->width = v->width;
        if (follow(at, live, 1)) {
            mf_ir_write(ir, v->dtype, v->at[i], place(ir, v->dtype, address, at[0]), live);
            continue;
        }
        ir->width = 1;
        for (int k = 0; k < live; k++)
            mf_ir_write(ir, v->dtype, mf_ir_broadcast(ir, mf_ir_scalar(v->dtype), one_lane(ir, v, (int64_t)i * v->width + k)),
                        place(ir, v->dtype, address, at[k]), 1);
    }
}
