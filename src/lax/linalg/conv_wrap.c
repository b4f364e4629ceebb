/* Convolutions: the public functions, with dimension numbers as text, "NHWC,HWIO->NHWC". Invariant: paddings are explicit numbers before an
 * equation is emitted. */
#include "base/memory/alloc.h"
#include "ops/shape/shape.h"
#include "lax/wrap.h"
#include <manyfold/lax.h>
#include <string.h>

typedef struct layout {
    const char *at[3]; /* lhs, rhs, out */
} layout;

static bool split_text(const char *text, int rank, layout *l)
{
    size_t n = (size_t)rank;
    const char *arrow = strstr(text, "->");
    if (!arrow || strlen(arrow + 2) != n || (size_t)(arrow - text) != 2 * n + 1 || text[n] != ',')
        return false;
    *l = (layout){ { text, text + n + 1, arrow + 2 } };
    return true;
}

static const char *letter(const char *spec, int rank, char c) { return memchr(spec, c, (size_t)rank); }

/* The positions of a text's two named dimensions, then those of the spatial ones in the kernel's order. */
static bool read_spec(const char *spec, const char *kernel, int rank, char first, char second, int64_t *at)
{
    int n = 2;
    const char *a = letter(spec, rank, first), *c = letter(spec, rank, second);
    if (!a || !c)
        return false;
    at[0] = a - spec;
    at[1] = c - spec;
    for (int i = 0; i < rank; i++) {
        if (kernel[i] == 'O' || kernel[i] == 'I')
            continue;
        const char *found = letter(spec, rank, kernel[i]);
        if (!found || n == rank)
            return false;
        at[n++] = found - spec;
    }
    return n == rank;
}

static bool is_permutation(const mf_intlist *spec, int rank) { return spec->count == rank && shape_distinct(spec, rank); }

/* False without an error: the text does not fit arrays of this rank. */
static bool read_layout(const char *text, int rank, mf_conv_params *p, mf_value *error)
{
    static const char *const last[] = { "NC,IO->NC", "NWC,WIO->NWC", "NHWC,HWIO->NHWC", "NDHWC,DHWIO->NDHWC" };
    int64_t lhs[MF_RANK], rhs[MF_RANK], out[MF_RANK];
    layout l;
    if (!text && rank >= 2 && rank <= 5)
        text = last[rank - 2];
    if (!text || !split_text(text, rank, &l))
        return false;
    return read_spec(l.at[0], l.at[1], rank, 'N', 'C', lhs) && read_spec(l.at[1], l.at[1], rank, 'O', 'I', rhs) &&
           read_spec(l.at[2], l.at[1], rank, 'N', 'C', out) && mf_intern_list(lhs, rank, &p->lhs_spec, error) &&
           mf_intern_list(rhs, rank, &p->rhs_spec, error) && mf_intern_list(out, rank, &p->out_spec, error) &&
           is_permutation(p->lhs_spec, rank) && is_permutation(p->rhs_spec, rank) && is_permutation(p->out_spec, rank);
}

static bool read_list(const mf_ints *list, int count, int64_t otherwise, const char *what, const mf_intlist **out, mf_value *error)
{
    int64_t at[MF_RANK];
    if (list->count != 0 && list->count != count) {
        *error = mf_fail(MF_ERROR_SHAPE, "conv_general_dilated: %s has %d entries for %d spatial dimensions", what, list->count, count);
        return false;
    }
    for (int i = 0; i < count; i++)
        at[i] = list->count ? list->at[i] : otherwise;
    return mf_intern_list(at, count, out, error);
}

static void pad_same(mf_conv_params *p, const mf_type *x, const mf_type *w)
{
    int64_t low[MF_RANK], high[MF_RANK];
    for (int i = 0; i < x->rank - 2; i++)
        shape_same_padding(x->dims[p->lhs_spec->at[i + 2]], w->dims[p->rhs_spec->at[i + 2]], p->rhs_dilation->at[i],
                           p->window_strides->at[i], &low[i], &high[i]);
    p->padding_low = mf_ints_intern(low, x->rank - 2);
    p->padding_high = mf_ints_intern(high, x->rank - 2);
}

static bool read_options(const mf_conv_options *o, const mf_type *x, const mf_type *w, mf_conv_params *p, mf_value *error)
{
    int spatial = x->rank - 2;
    *error = (mf_value){ 0 };
    if (x->rank != w->rank || x->rank < 2 || !read_layout(o->dimension_numbers, x->rank, p, error)) {
        *error = error->handle ? *error
                               : mf_fail(MF_ERROR_SHAPE, "conv_general_dilated: dimension numbers %s do not describe %s and a kernel %s",
                                         o->dimension_numbers ? o->dimension_numbers : "NHWC,HWIO->NHWC", mf_type_name(x), mf_type_name(w));
        return false;
    }
    if (!read_list(&o->window_strides, spatial, 1, "window_strides", &p->window_strides, error) ||
        !read_list(&o->lhs_dilation, spatial, 1, "lhs_dilation", &p->lhs_dilation, error) ||
        !read_list(&o->rhs_dilation, spatial, 1, "rhs_dilation", &p->rhs_dilation, error) ||
        !read_list(&o->padding_low, spatial, 0, "padding_low", &p->padding_low, error) ||
        !read_list(&o->padding_high, spatial, 0, "padding_high", &p->padding_high, error))
        return false;
    if (o->padding > MF_VALID) {
        *error = mf_fail(MF_ERROR_ARGUMENT, "conv_general_dilated: padding is MF_SAME, MF_VALID or in numbers");
        return false;
    }
    p->feature_group_count = o->feature_group_count ? o->feature_group_count : 1;
    p->batch_group_count = o->batch_group_count ? o->batch_group_count : 1;
    if (o->padding == MF_SAME)
        pad_same(p, x, w);
    return true;
}

/* A product of complex numbers is four of real ones, so no backend has to know of them. */
static mf_value convolved(const mf_conv_params *p, mf_value x, mf_value kernel)
{
    if (!mf_dtype_is_complex(mf_value_type(x)->dtype))
        return mf_bind(&mf_op_conv_general_dilated, p, 2, x, kernel);
    mf_value a = mf_real(x), b = mf_imag(x), c = mf_real(kernel), d = mf_imag(kernel);
    return mf_complex(mf_sub(convolved(p, a, c), convolved(p, b, d)), mf_add(convolved(p, a, d), convolved(p, b, c)));
}

mf_value mf_conv_general_dilated_opt(mf_value x, mf_value kernel, const mf_conv_options *o)
{
    MF_ENTER(MF_FORKED);
    static const mf_conv_options none;
    mf_value v[2] = { x, kernel }, error;
    mf_conv_params p;
    if (!mf_promote_dtypes(v, 2, "conv_general_dilated"))
        return v[0];
    if (!read_options(o ? o : &none, mf_value_type(v[0]), mf_value_type(v[1]), &p, &error))
        return error;
    for (int i = 0; i < 2 && o && o->preferred_element_type; i++)
        v[i] = mf_convert_value(v[i], o->preferred_element_type, false);
    return convolved(&p, v[0], v[1]);
}

mf_value(mf_conv_general_dilated)(mf_value x, mf_value kernel)
{
    MF_ENTER(MF_FORKED);
    return mf_conv_general_dilated_opt(x, kernel, NULL);
}
