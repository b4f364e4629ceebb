/* LAPACK by its Fortran symbols, loaded when first needed: any library of the name serves (the reference one, OpenBLAS, ...).
 * Invariant: row-major matrices are handed over as they lie. Fortran sees each one transposed, so lower is upper there and left is right. */
#include "ops/lapack.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#define LIBRARY "liblapack.so.3"

/* Every argument by address; the lengths of the character arguments come last, as gfortran has them. */
typedef void potrf(const char *uplo, const int *n, void *a, const int *lda, int *info, size_t length);
typedef void trsm(const char *side, const char *uplo, const char *transa, const char *diag, const int *m, const int *n, const void *alpha,
                  const void *a, const int *lda, void *b, const int *ldb, size_t, size_t, size_t, size_t);

enum { SINGLE, DOUBLE, COMPLEX, DOUBLE_COMPLEX, KINDS };
static const char *const potrf_names[KINDS] = { "spotrf_", "dpotrf_", "cpotrf_", "zpotrf_" };
static const char *const trsm_names[KINDS] = { "strsm_", "dtrsm_", "ctrsm_", "ztrsm_" };
static potrf *potrf_of[KINDS];
static trsm *trsm_of[KINDS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char missing[256]; /* why it cannot be used; empty when it can */

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found && !missing[0])
        snprintf(missing, sizeof missing, LIBRARY " has no %s", name);
    return found;
}

/* Stays loaded: some of these libraries start threads. */
static void load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(missing, sizeof missing, "%s", dlerror());
        return;
    }
    for (int k = 0; k < KINDS; k++) {
        *(void **)(void *)&potrf_of[k] = symbol(library, potrf_names[k]);
        *(void **)(void *)&trsm_of[k] = symbol(library, trsm_names[k]);
    }
}

mf_error_object *mf_lapack_load(void)
{
    pthread_once(&once, load);
    if (!missing[0])
        return NULL;
    return mf_error_new(MF_ERROR_IO, "linear algebra needs LAPACK (Debian: liblapack3 or libopenblas0), which cannot be loaded: %s",
                        missing);
}

static int kind_of(mf_dtype d) { return d == MF_F32 ? SINGLE : d == MF_F64 ? DOUBLE : d == MF_C64 ? COMPLEX : DOUBLE_COMPLEX; }

bool mf_lapack_cholesky(mf_dtype dtype, int n, void *a)
{
    int info = 0;
    if (n > 0)
        potrf_of[kind_of(dtype)]("U", &n, a, &n, &info, 1);
    return info == 0;
}

void mf_lapack_triangular_solve(mf_dtype dtype, const mf_lapack_solve *how, const void *a, void *b)
{
    static const float single[2] = { 1, 0 };
    static const double wide[2] = { 1, 0 };
    const void *one = dtype == MF_F32 || dtype == MF_C64 ? (const void *)single : wide;
    const char *op = !how->transposed ? "N" : how->conjugated ? "C" : "T";
    int size = how->left ? how->rows : how->columns;
    if (how->rows == 0 || how->columns == 0)
        return;
    trsm_of[kind_of(dtype)](how->left ? "R" : "L", how->lower ? "U" : "L", op, how->unit ? "U" : "N", &how->columns, &how->rows, one, a,
                            &size, b, &how->columns, 1, 1, 1, 1);
}
