/* LAPACK by its Fortran symbols, loaded on first use: any library of that name works (the reference one, OpenBLAS, ...). Invariant:
 * row-major matrices are passed as they are where transposition does not matter: Fortran sees each one transposed, so lower is upper there,
 * and left is right. The other factorisations work on a column-major copy, so that their signs are the usual ones. */
#include "ops/linalg/lapack.h"

#include "base/memory/alloc.h"
#include "base/thread/cancel.h"

#include <dlfcn.h>
#include <pthread.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "liblapack.so.3"

/* All arguments are passed by address; the lengths of character arguments come last, as in gfortran. */
typedef void potrf(const char *uplo, const int *n, void *a, const int *lda, int *info, size_t length);
typedef void trsm(const char *side, const char *uplo, const char *transa, const char *diag, const int *m, const int *n, const void *alpha,
                  const void *a, const int *lda, void *b, const int *ldb, size_t, size_t, size_t, size_t);
typedef void getrf(const int *m, const int *n, void *a, const int *lda, int *pivots, int *info);
typedef void geqrf(const int *m, const int *n, void *a, const int *lda, void *tau, void *work, const int *lwork, int *info);
typedef void orgqr(const int *m, const int *n, const int *k, void *a, const int *lda, const void *tau, void *work, const int *lwork,
                   int *info);
typedef void syevd(const char *jobz, const char *uplo, const int *n, void *a, const int *lda, void *w, void *work, const int *lwork,
                   int *iwork, const int *liwork, int *info, size_t, size_t);
typedef void heevd(const char *jobz, const char *uplo, const int *n, void *a, const int *lda, void *w, void *work, const int *lwork,
                   void *rwork, const int *lrwork, int *iwork, const int *liwork, int *info, size_t, size_t);
typedef void gesdd(const char *jobz, const int *m, const int *n, void *a, const int *lda, void *s, void *u, const int *ldu, void *vt,
                   const int *ldvt, void *work, const int *lwork, int *iwork, int *info, size_t);
typedef void gesdd_complex(const char *jobz, const int *m, const int *n, void *a, const int *lda, void *s, void *u, const int *ldu,
                           void *vt, const int *ldvt, void *work, const int *lwork, void *rwork, int *iwork, int *info, size_t);

enum { SINGLE, DOUBLE, COMPLEX, DOUBLE_COMPLEX, KINDS };
enum { POTRF, TRSM, GETRF, GEQRF, ORGQR, SYEVD, GESDD, ROUTINES };
static const char *const names[ROUTINES][KINDS] = {
    { "spotrf_", "dpotrf_", "cpotrf_", "zpotrf_" }, { "strsm_", "dtrsm_", "ctrsm_", "ztrsm_" },
    { "sgetrf_", "dgetrf_", "cgetrf_", "zgetrf_" }, { "sgeqrf_", "dgeqrf_", "cgeqrf_", "zgeqrf_" },
    { "sorgqr_", "dorgqr_", "cungqr_", "zungqr_" }, { "ssyevd_", "dsyevd_", "cheevd_", "zheevd_" },
    { "sgesdd_", "dgesdd_", "cgesdd_", "zgesdd_" },
};
static void (*routines[ROUTINES][KINDS])(void);
#define CALL(type, routine, dtype) ((type *)routines[routine][kind_of(dtype)])
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char missing[256]; /* why it cannot be used; empty if it can */

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found && !missing[0])
        snprintf(missing, sizeof missing, LIBRARY " has no %s", name);
    return found;
}

/* The library stays loaded, since some implementations start threads. */
static void load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(missing, sizeof missing, "%s", dlerror());
        return;
    }
    for (int r = 0; r < ROUTINES; r++)
        for (int k = 0; k < KINDS; k++)
            *(void **)(void *)&routines[r][k] = symbol(library, names[r][k]);
}

mf_error_object *mf_lapack_load(void)
{
    MF_UNCANCELLED;
    pthread_once(&once, load);
    if (!missing[0])
        return NULL;
    return mf_error_new(MF_ERROR_IO, "linear algebra needs LAPACK (Debian: liblapack3 or libopenblas0), which cannot be loaded: %s",
                        missing);
}

static int kind_of(mf_dtype d) { return d == MF_F32 ? SINGLE : d == MF_F64 ? DOUBLE : d == MF_C64 ? COMPLEX : DOUBLE_COMPLEX; }

bool mf_lapack_cholesky(mf_dtype dtype, int n, void *a)
{
    MF_UNCANCELLED;
    int info = 0;
    if (n > 0)
        CALL(potrf, POTRF, dtype)("U", &n, a, &n, &info, 1);
    return info == 0;
}

void mf_lapack_triangular_solve(mf_dtype dtype, const mf_lapack_solve *how, const void *a, void *b)
{
    MF_UNCANCELLED;
    static const float single[2] = { 1, 0 };
    static const double wide[2] = { 1, 0 };
    const void *one = dtype == MF_F32 || dtype == MF_C64 ? (const void *)single : wide;
    const char *op = !how->transposed ? "N" : how->conjugated ? "C" : "T";
    int size = how->left ? how->rows : how->columns;
    if (how->rows == 0 || how->columns == 0)
        return;
    CALL(trsm, TRSM, dtype)
    (how->left ? "R" : "L", how->lower ? "U" : "L", op, how->unit ? "U" : "N", &how->columns, &how->rows, one, a, &size, b, &how->columns,
     1, 1, 1, 1);
}

/* ---- factorisations of a column-major copy */

static int size_of(mf_dtype d) { return d == MF_F32 ? 4 : d == MF_C128 ? 16 : 8; }
static int real_size_of(mf_dtype d) { return d == MF_F32 || d == MF_C64 ? 4 : 8; }
static bool is_complex(mf_dtype d) { return d == MF_C64 || d == MF_C128; }

/* out[c][r] = in[r][c] */
static void turn(mf_dtype dtype, int rows, int columns, const void *in, void *out)
{
    size_t size = (size_t)size_of(dtype);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            memcpy((char *)out + (size_t)(c * rows + r) * size, (const char *)in + (size_t)(r * columns + c) * size, size);
}

/* One allocation that is divided into pieces. */
typedef struct workspace {
    char *at;
    size_t used, size;
} workspace;

static size_t whole(size_t bytes) { return (bytes + 63) / 64 * 64; }

static bool workspace_alloc(workspace *r, size_t size)
{
    *r = (workspace){ mf_alloc(size + 64), 0, size };
    return r->at;
}

static void *workspace_cut(workspace *r, size_t bytes)
{
    void *p = r->at + r->used;
    r->used += whole(bytes);
    return p;
}

/* The workspace size that a routine returned in the first element of its workspace; rounded up, because a float cannot represent every
 * integer. -1: more than LAPACK's int can hold. */
static int asked(mf_dtype dtype, const void *work)
{
    double n = real_size_of(dtype) == 4 ? (double)*(const float *)work * (1 + 1e-6) : *(const double *)work;
    return n + 1 < INT_MAX ? (int)n + 1 : -1;
}

static mf_error_object *too_large(const char *what, int rows, int columns)
{
    return mf_error_new(MF_ERROR_SHAPE, "%s: LAPACK cannot count the workspace for a matrix of %d rows and %d columns", what, rows,
                        columns);
}

mf_error_object *mf_lapack_lu(mf_dtype dtype, int n, const void *a, void *lu, int32_t *pivots)
{
    MF_UNCANCELLED;
    int info = 0;
    void *columns = n ? mf_alloc((size_t)n * (size_t)n * (size_t)size_of(dtype)) : NULL;
    if (n && !columns)
        return mf_error_out_of_memory();
    if (n) {
        turn(dtype, n, n, a, columns);
        CALL(getrf, GETRF, dtype)(&n, &n, columns, &n, pivots, &info);
        turn(dtype, n, n, columns, lu);
    }
    for (int i = 0; i < n; i++)
        pivots[i]--; /* Fortran counts from 1 */
    mf_free(columns);
    return NULL;
}

/* The upper triangle of the first `rows` rows of a column-major matrix with m rows, in row-major order. */
static void upper_rows(mf_dtype dtype, int m, int rows, int columns, const char *a, char *r)
{
    size_t size = (size_t)size_of(dtype);
    memset(r, 0, (size_t)rows * (size_t)columns * size);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = i; k < columns && i < m; k++)
            memcpy(r + (size_t)(i * columns + k) * size, a + (size_t)(k * m + i) * size, size);
}

mf_error_object *mf_lapack_qr(mf_dtype dtype, int m, int n, bool full, const void *a, void *q, void *r)
{
    MF_UNCANCELLED;
    int least = m < n ? m : n, count = full ? m : least, most = n > count ? n : count, query = -1, info = 0;
    size_t size = (size_t)size_of(dtype);
    char first[2][16];
    workspace space = { 0 };
    if (m == 0)
        return NULL;
    CALL(geqrf, GEQRF, dtype)(&m, &n, NULL, &m, NULL, first[0], &query, &info);
    CALL(orgqr, ORGQR, dtype)(&m, &count, &least, NULL, &m, NULL, first[1], &query, &info);
    int length = asked(dtype, first[0]), second = asked(dtype, first[1]);
    if (length < 0 || second < 0)
        return too_large("qr", m, n);
    length = length > second ? length : second;
    size_t matrix = whole((size_t)m * (size_t)most * size), taus = whole((size_t)(least + 1) * size);
    if (!workspace_alloc(&space, matrix + taus + (size_t)length * size))
        return mf_error_out_of_memory();
    char *columns = workspace_cut(&space, matrix), *tau = workspace_cut(&space, taus), *work = workspace_cut(&space, 0);
    memset(columns, 0, matrix);
    turn(dtype, m, n, a, columns);
    if (n)
        CALL(geqrf, GEQRF, dtype)(&m, &n, columns, &m, tau, work, &length, &info);
    upper_rows(dtype, m, count, n, columns, r);
    CALL(orgqr, ORGQR, dtype)(&m, &count, &least, columns, &m, tau, work, &length, &info);
    turn(dtype, count, m, columns, q);
    mf_free(space.at);
    return NULL;
}

mf_error_object *mf_lapack_eigh(mf_dtype dtype, int n, const void *a, void *w, void *v, bool *converged)
{
    MF_UNCANCELLED;
    int query = -1, info = 0, integers = 0, reals = 0, length;
    size_t size = (size_t)size_of(dtype), real = (size_t)real_size_of(dtype);
    char first[16], first_real[16];
    workspace space = { 0 };
    *converged = true;
    if (n == 0)
        return NULL;
    if (is_complex(dtype))
        CALL(heevd, SYEVD, dtype)("V", "L", &n, NULL, &n, NULL, first, &query, first_real, &query, &integers, &query, &info, 1, 1);
    else
        CALL(syevd, SYEVD, dtype)("V", "L", &n, NULL, &n, NULL, first, &query, &integers, &query, &info, 1, 1);
    length = asked(dtype, first);
    reals = is_complex(dtype) ? asked(dtype, first_real) : 0;
    if (length < 0 || reals < 0)
        return too_large("eigh", n, n);
    size_t matrix = whole((size_t)n * (size_t)n * size), works = whole((size_t)length * size), rworks = whole((size_t)reals * real);
    if (!workspace_alloc(&space, matrix + works + rworks + (size_t)integers * sizeof(int)))
        return mf_error_out_of_memory();
    char *columns = workspace_cut(&space, matrix), *work = workspace_cut(&space, works), *rwork = workspace_cut(&space, rworks);
    int *iwork = workspace_cut(&space, 0);
    turn(dtype, n, n, a, columns);
    if (is_complex(dtype))
        CALL(heevd, SYEVD, dtype)("V", "L", &n, columns, &n, w, work, &length, rwork, &reals, iwork, &integers, &info, 1, 1);
    else
        CALL(syevd, SYEVD, dtype)("V", "L", &n, columns, &n, w, work, &length, iwork, &integers, &info, 1, 1);
    turn(dtype, n, n, columns, v);
    *converged = info == 0;
    mf_free(space.at);
    return NULL;
}

/* The real workspace of the complex routine, according to its documentation. */
static size_t svd_reals(size_t least, size_t most, bool vectors)
{
    size_t one = 5 * least * least + 5 * least, other = 2 * most * least + 2 * least * least + least;
    return !vectors ? 7 * least : one > other ? one : other;
}

mf_error_object *mf_lapack_svd(mf_dtype dtype, int m, int n, mf_lapack_vectors which, const void *a, void *s, void *u, void *vt,
                               bool *converged)
{
    MF_UNCANCELLED;
    int least = m < n ? m : n, query = -1, info = 0, none = 1;
    int u_columns = which == MF_LAPACK_FULL ? m : least, rows = which == MF_LAPACK_FULL ? n : least;
    const char *job = which == MF_LAPACK_FULL ? "A" : which == MF_LAPACK_THIN ? "S" : "N";
    size_t size = (size_t)size_of(dtype);
    char first[16];
    int lda = m, ldu = m, ldv = which == MF_LAPACK_NONE ? none : rows;
    workspace space = { 0 };
    *converged = true;
    if (least == 0)
        return NULL;
    if (is_complex(dtype))
        CALL(gesdd_complex, GESDD, dtype)(job, &m, &n, NULL, &lda, NULL, NULL, &ldu, NULL, &ldv, first, &query, NULL, NULL, &info, 1);
    else
        CALL(gesdd, GESDD, dtype)(job, &m, &n, NULL, &lda, NULL, NULL, &ldu, NULL, &ldv, first, &query, NULL, &info, 1);
    int length = asked(dtype, first);
    if (length < 0)
        return too_large("svd", m, n);
    bool vectors = which != MF_LAPACK_NONE;
    size_t reals = is_complex(dtype) ? svd_reals((size_t)least, (size_t)(m > n ? m : n), vectors) * (size_t)real_size_of(dtype) : 0;
    size_t matrix = whole((size_t)m * (size_t)n * size), works = whole((size_t)length * size), rworks = whole(reals);
    size_t left = vectors ? whole((size_t)m * (size_t)u_columns * size) : 0, right = vectors ? whole((size_t)rows * (size_t)n * size) : 0;
    if (!workspace_alloc(&space, matrix + works + rworks + left + right + 8 * (size_t)least * sizeof(int)))
        return mf_error_out_of_memory();
    char *columns = workspace_cut(&space, matrix), *work = workspace_cut(&space, works), *rwork = workspace_cut(&space, rworks);
    char *u_by_columns = workspace_cut(&space, left), *vt_by_columns = workspace_cut(&space, right);
    int *iwork = workspace_cut(&space, 0);
    turn(dtype, m, n, a, columns);
    if (is_complex(dtype))
        CALL(gesdd_complex, GESDD, dtype)
    (job, &m, &n, columns, &lda, s, u_by_columns, &ldu, vt_by_columns, &ldv, work, &length, rwork, iwork, &info, 1);
    else CALL(gesdd, GESDD, dtype)(job, &m, &n, columns, &lda, s, u_by_columns, &ldu, vt_by_columns, &ldv, work, &length, iwork, &info, 1);
    if (vectors) {
        turn(dtype, u_columns, m, u_by_columns, u);
        turn(dtype, n, rows, vt_by_columns, vt);
    }
    *converged = info == 0;
    mf_free(space.at);
    return NULL;
}
