/* Shared by the ops of linear algebra; see matrices.h. */
#include "ops/linalg/matrices.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static bool is_matrix_dtype(mf_dtype d) { return d == MF_F32 || d == MF_F64 || mf_dtype_is_complex(d); }

mf_error_object *mf_check_matrix(const mf_type_context *c, const mf_type *t)
{
    if (!is_matrix_dtype(t->dtype))
        return mf_type_error(c, MF_ERROR_DTYPE, "is defined for float32, float64 and complex numbers, not for %s", mf_dtype_name(t->dtype));
    if (t->rank < 2)
        return mf_type_error(c, MF_ERROR_SHAPE, "a matrix needs two dimensions");
    if (t->dims[t->rank - 1] > INT_MAX || t->dims[t->rank - 2] > INT_MAX)
        return mf_type_error(c, MF_ERROR_SHAPE, "the matrix is too large: LAPACK counts to %d", INT_MAX);
    return NULL;
}

mf_error_object *mf_check_square(const mf_type_context *c, const mf_type *t)
{
    mf_error_object *e = mf_check_matrix(c, t);
    if (!e && t->dims[t->rank - 1] != t->dims[t->rank - 2])
        e = mf_type_error(c, MF_ERROR_SHAPE, "the last two dimensions must be those of a square matrix");
    return e;
}

/* x with its last two dimensions exchanged and, if asked, conjugated. */
mf_variable *e_matrix_transpose(mf_builder *b, mf_variable *x, bool conjugate)
{
    int order[MF_RANK], rank = x->type->rank;
    for (int i = 0; i < rank; i++)
        order[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    x = e_transpose(b, x, order);
    return conjugate && mf_dtype_is_complex(x->type->dtype) ? e_unary(b, &mf_op_conj, x) : x;
}

/* Compares row index and column index, in x's shape. */
mf_variable *e_where_row(mf_builder *b, const mf_op *how, const mf_variable *x)
{
    const mf_type *t = x->type;
    return e_compare(b, how, e_iota(b, MF_I32, t->rank, t->dims, t->rank - 2), e_iota(b, MF_I32, t->rank, t->dims, t->rank - 1));
}

mf_variable *e_only_where(mf_builder *b, const mf_op *how, mf_variable *x)
{
    return e_select(b, e_where_row(b, how, x), x, e_zeros_like(b, x));
}

/* The product of the matrices in the last two dimensions. */
mf_variable *e_matmul(mf_builder *b, mf_variable *x, mf_variable *y)
{
    int64_t batch[MF_RANK];
    int rank = x->type->rank;
    for (int i = 0; i < rank; i++)
        batch[i] = i;
    const mf_intlist *leading = mf_ints_intern(batch, rank - 2);
    return e_dot_general(b, x, y, mf_ints_of(1, rank - 1), mf_ints_of(1, rank - 2), leading, leading);
}

int64_t mf_matrix_count(const mf_type *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank - 2; i++)
        n *= t->dims[i];
    return n;
}

/* Solves op(a) x = b or x op(a) = b; conjugation without transposition is applied to a first. */
mf_variable *e_triangular_solve(mf_builder *b, mf_variable *a, mf_variable *x, mf_solve_params p)
{
    if (p.conjugate_a && !p.transpose_a && mf_dtype_is_complex(a->type->dtype))
        a = e_unary(b, &mf_op_conj, a);
    p.conjugate_a = p.conjugate_a && p.transpose_a;
    return mf_emit(b, &mf_op_triangular_solve, &p, 2, a, x);
}

mf_variable *e_eye(mf_builder *b, const mf_variable *x)
{
    const mf_type *t = mf_type_strong(x->type);
    return e_select(b, e_where_row(b, &mf_op_eq, x), e_full(b, t, 1), e_full(b, t, 0));
}

mf_variable *e_diagonal(mf_builder *b, mf_variable *x)
{
    int rank = x->type->rank;
    int64_t least = x->type->dims[rank - 1] < x->type->dims[rank - 2] ? x->type->dims[rank - 1] : x->type->dims[rank - 2];
    x = e_slice_axis(b, e_slice_axis(b, x, rank - 2, 0, least), rank - 1, 0, least);
    return e_reduce_sum(b, e_only_where(b, &mf_op_eq, x), mf_ints_of(1, rank - 1));
}

mf_variable *e_real_part(mf_builder *b, mf_variable *x) { return mf_dtype_is_complex(x->type->dtype) ? e_unary(b, &mf_op_real, x) : x; }

void mf_batch_leading(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    mf_variable *moved[2] = { NULL, NULL };
    for (int i = 0; i < e->in_count && i < 2; i++)
        moved[i] = e_batched_at(c, in[i], in_axis[i], 0);
    mf_copy_eqn(c->b, e, moved, out);
    for (int o = 0; o < e->out_count; o++)
        out_axis[o] = 0;
}

/* The lower triangle of (a + a^H) / 2, zeros above. parts: numbers per element, 1 or 2. */
#define LOWER_HALF(name, type)                                                         \
    static void name(const type *a, type *out, int64_t n, int parts)                   \
    {                                                                                  \
        memset(out, 0, (size_t)(n * n * parts) * sizeof *out);                         \
        for (int64_t i = 0; i < n; i++)                                                \
            for (int64_t k = 0; k <= i; k++) {                                         \
                const type *x = a + (i * n + k) * parts, *y = a + (k * n + i) * parts; \
                out[(i * n + k) * parts] = (x[0] + y[0]) * (type)0.5;                  \
                if (parts == 2)                                                        \
                    out[(i * n + k) * parts + 1] = (x[1] - y[1]) * (type)0.5;          \
            }                                                                          \
    }
LOWER_HALF(lower_half_f32, float)
LOWER_HALF(lower_half_f64, double)

void mf_hermitian_lower(mf_dtype dtype, int64_t n, const void *a, void *out)
{
    int parts = mf_dtype_is_complex(dtype) ? 2 : 1;
    if (dtype == MF_F32 || dtype == MF_C64)
        lower_half_f32(a, out, n, parts);
    else
        lower_half_f64(a, out, n, parts);
}

void mf_fill_nan(mf_dtype dtype, void *x, int64_t count)
{
    mf_dtype part = dtype == MF_C64 ? MF_F32 : dtype == MF_C128 ? MF_F64 : dtype;
    for (int64_t i = 0; i < count * (part == dtype ? 1 : 2); i++)
        mf_store_f64(part, (char *)x + i * mf_dtype_size(part), (double)NAN);
}

bool mf_all_finite(mf_dtype dtype, const void *x, int64_t count)
{
    mf_dtype part = dtype == MF_C64 ? MF_F32 : dtype == MF_C128 ? MF_F64 : dtype;
    double sum = 0; /* 0 unless there is an infinity or a NaN */
    for (int64_t i = 0; i < count * (part == dtype ? 1 : 2); i++)
        sum += 0 * mf_load_f64(part, (const char *)x + i * mf_dtype_size(part));
    return sum == 0;
}
