/* Constants and attributes as text. Invariant: a constant's text reads back as the same bits: floats have enough digits, infinities and
 * NaNs are written as their bits, and large constants as hexadecimal bytes. */
#include "ir/text/number_text.h"
#include "stablehlo/hlo.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { FEW = 16 }; /* the most elements that are written one by one */

/* ---- numbers */
static void put_float(mf_text *t, mf_dtype d, const void *p)
{
    double x = mf_load_f64(d, p);
    uint64_t bits = 0;
    memcpy(&bits, p, (size_t)mf_dtype_size(d));
    if (isfinite(x))
        mf_text_add(t, "%.*e", d == MF_F64 ? 16 : 8, x);
    else
        mf_text_add(t, "0x%0*" PRIX64, 2 * mf_dtype_size(d), bits);
}

static void put_number(mf_text *t, mf_dtype d, const void *p)
{
    if (mf_dtype_is_float(d))
        put_float(t, d, p);
    else if (d == MF_BOOL)
        mf_text_put(t, *(const unsigned char *)p ? "true" : "false");
    else if (mf_dtype_is_signed(d))
        mf_text_add(t, "%" PRId64, mf_load_i64(d, p));
    else
        mf_text_add(t, "%" PRIu64, (uint64_t)mf_load_i64(d, p));
}

static void put_element(mf_text *t, mf_dtype d, const void *p)
{
    mf_dtype real = d == MF_C64 ? MF_F32 : MF_F64;
    if (!mf_dtype_is_complex(d)) {
        put_number(t, d == MF_KEY ? MF_U64 : d, p);
        return;
    }
    mf_text_put(t, "(");
    put_number(t, real, p);
    mf_text_put(t, ", ");
    put_number(t, real, (const char *)p + mf_dtype_size(real));
    mf_text_put(t, ")");
}

static const char *put_nested(mf_text *t, const mf_type *type, int axis, const char *p)
{
    if (axis == type->rank) {
        put_element(t, type->dtype, p);
        return p + mf_dtype_size(type->dtype);
    }
    mf_text_put(t, "[");
    for (int64_t i = 0; i < type->dims[axis]; i++) {
        mf_text_put(t, i ? ", " : "");
        p = put_nested(t, type, axis + 1, p);
    }
    mf_text_put(t, "]");
    return p;
}

static void put_bytes(mf_text *t, const unsigned char *p, int64_t count)
{
    static const char digits[] = "0123456789ABCDEF";
    char some[512];
    mf_text_put(t, "\"0x");
    for (int64_t i = 0; i < count;) {
        size_t n = 0;
        for (; n < sizeof some && i < count; i++) {
            some[n++] = digits[p[i] >> 4];
            some[n++] = digits[p[i] & 15];
        }
        mf_text_putn(t, some, n);
    }
    mf_text_put(t, "\"");
}

/* ---- constants */
static mf_hlo_value put_constant(mf_hlo *h, const mf_type *type, mf_text *elements)
{
    type = hlo_sound(h, type);
    if (h->error) {
        mf_text_free(elements);
        return (mf_hlo_value){ 0, type };
    }
    mf_hlo_value v = { h->next++, type };
    hlo_indent(h);
    mf_text_add(h->text, "%%%d = \"stablehlo.constant\"() <{value = dense<%s> : ", v.name, elements->at ? elements->at : "");
    hlo_type(h, type);
    mf_text_put(h->text, "}> : () -> ");
    hlo_type(h, type);
    mf_text_put(h->text, "\n");
    if (elements->failed)
        h_fail(h, NULL);
    mf_text_free(elements);
    return v;
}

mf_hlo_value h_bytes(mf_hlo *h, const mf_type *type, const void *element)
{
    mf_text t = { 0 };
    if (type && type->size)
        put_element(&t, type->dtype, element);
    return put_constant(h, type, &t);
}

mf_hlo_value h_full(mf_hlo *h, const mf_type *type, double x)
{
    unsigned char element[16] = { 0 };
    mf_dtype d = type ? type->dtype : MF_F32;
    int numbers;
    if (mf_dtype_is_inexact(d))
        mf_store_f64(mf_number_dtype(d, &numbers), element, x);
    else
        mf_store_i64(d, element, (int64_t)x);
    return h_bytes(h, type, element);
}

mf_hlo_value h_scalar(mf_hlo *h, mf_dtype dtype, double x) { return h_full(h, mf_type_scalar(dtype, false), x); }

static bool all_alike(const mf_literal *l)
{
    size_t size = (size_t)mf_dtype_size(l->type->dtype);
    for (int64_t i = 1; i < l->type->size; i++)
        if (memcmp(l->data, l->data + (size_t)i * size, size) != 0)
            return false;
    return l->type->size > 0;
}

/* Whether the integers are 0, 1, 2, ..., which a compiler turns into an iota. */
static bool is_iota(const mf_literal *l)
{
    bool counts = l->type->rank == 1 && mf_dtype_is_int(l->type->dtype);
    for (int64_t i = 0; i < l->type->size && counts; i++)
        counts = mf_load_i64(l->type->dtype, l->data + i * mf_dtype_size(l->type->dtype)) == i;
    return counts;
}

mf_hlo_value h_literal(mf_hlo *h, mf_literal *literal)
{
    mf_text t = { 0 };
    mf_literal *l = mf_literal_contiguous(literal);
    if (!l) {
        h_fail(h, NULL);
        return (mf_hlo_value){ 0, literal->type };
    }
    if (all_alike(l))
        put_element(&t, l->type->dtype, l->data);
    else if (l->type->size > FEW && l->type->dtype != MF_BOOL)
        put_bytes(&t, l->data, l->type->bytes);
    else if (l->type->size)
        put_nested(&t, l->type, 0, (const char *)l->data);
    mf_hlo_value v = put_constant(h, l->type, &t);
    bool counts = is_iota(l);
    mf_drop(l);
    return counts ? h_count(h, v) : v;
}

/* ---- attributes */
static void put_list(mf_text *t, const int64_t *at, int count)
{
    for (int i = 0; i < count; i++)
        mf_text_add(t, "%s%" PRId64, i ? ", " : "", at[i]);
}

const char *h_array(mf_hlo *h, const int64_t *at, int count)
{
    mf_text t = { 0 };
    mf_text_put(&t, count ? "array<i64: " : "array<i64");
    put_list(&t, at, count);
    mf_text_put(&t, ">");
    return h_keep(h, &t);
}

const char *h_ints(mf_hlo *h, const mf_intlist *list) { return h_array(h, list->at, list->count); }

const char *h_list(mf_hlo *h, const mf_intlist *list)
{
    mf_text t = { 0 };
    mf_text_put(&t, "[");
    put_list(&t, list->at, list->count);
    mf_text_put(&t, "]");
    return h_keep(h, &t);
}

const char *h_edges(mf_hlo *h, const int64_t *low, const int64_t *high, int count)
{
    mf_text t = { 0 };
    mf_text_put(&t, "dense<");
    for (int i = 0; i < count; i++)
        mf_text_add(&t, "%s[%" PRId64 ", %" PRId64 "]%s", i ? ", " : "[", low[i], high[i], i + 1 == count ? "]" : "");
    mf_text_add(&t, "> : tensor<%dx2xi64>", count);
    return h_keep(h, &t);
}
