/* Four ways to cut matrix products into tasks: several small products of a batch per task; columns of a product with few rows; oneDNN's
 * primitives, cut along one dimension; and for the largest products, packing b first and then computing rows from it, with a batch's pieces
 * in one loop, so that no core goes to sleep in between. oneDNN is the best while a product's operands fit the second-level cache, and for
 * bf16 if the machine supports it.
 *
 * Invariant: if b is packed, tasks begin in an order of their own, and a packing task waits for nothing; so a task that computes rows
 * waits at most for packing that another core is doing. */
#include "backend/native/products/product.h"

#include "runtime/compile/segment_compiler.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

/* Multiply-adds: TASK_WORK of a task of ours; DNNL_WORK from which on oneDNN is worth its overhead, and DNNL_TASK_WORK of its tasks,
 * each of which copies all of b; PACKED_WORK from which on packing pays; the BF16 ones likewise. */
#define TASK_WORK      1e6
#define DNNL_WORK      4e6
#define DNNL_TASK_WORK 5e6
#define PACKED_WORK    1e6
#define BF16_WORK      1e6
#define BF16_TASK_WORK 3.2e7

enum {
    FEW_ROWS = 4 * MF_GEMM_ROWS, /* with fewer, b is read too few times to pack it */
    MANY_ROWS = 256,             /* with LARGE_B elements of b: our own kernel is better than oneDNN */
    LARGE_B = 1 << 18,
    DNNL_ROWS = 48,   /* of its blocks */
    BF16_PIECE = 256, /* rows or columns for which rearranging the other operand pays */
    MOST_ROWS = 8 * MF_GEMM_ROWS,
    TAPER = 8,    /* the last tasks have the remaining rows divided by this, so that the cores finish together */
    PACKERS = 8,  /* packing tasks at most */
    SPINS = 1000, /* polls before yielding the core */
};

typedef struct product_job {
    const mf_product *p;
    const char *a, *b;
    char *c, *packed;          /* packed: all of the scratch */
    _Atomic int64_t *unpacked; /* by product: packing tasks left */
    _Atomic int64_t begun;     /* number of tasks of packed products */
    _Atomic bool failed;       /* memory is out in oneDNN */
} product_job;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t rounded_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
static int64_t size_of(const mf_product *p) { return mf_dtype_size(p->dtype); }

typedef struct product_place {
    const char *a, *b;
    char *c;
} product_place;

/* The addresses of product g of the batch. */
static product_place find(const product_job *j, int64_t g)
{
    const mf_product *p = j->p;
    int64_t a = 0, b = 0, c = 0, size = size_of(p);
    for (int i = p->batch_rank - 1; i >= 0; i--) {
        int64_t index = g % p->batch[i];
        g /= p->batch[i];
        a += index * p->a_batch[i];
        b += index * p->b_batch[i];
        c += index * p->c_batch[i];
    }
    return (product_place){ j->a + a * size, j->b + b * size, j->c + c * mf_dtype_size(p->result) };
}

static void run_gemm(const mf_product *p, const mf_gemm *g, const void *a, const void *b, void *c)
{
    if (p->dtype == MF_F64)
        mf_gemm_f64(g, a, b, c);
    else
        mf_gemm_f32(g, a, b, c);
}

static void run_products(void *context, int64_t index)
{
    const product_job *j = context;
    const mf_product *p = j->p;
    int64_t end = smaller((index + 1) * p->piece, p->count);
    for (int64_t g = index * p->piece; g < end; g++) {
        product_place at = find(j, g);
        run_gemm(p, &p->shape, at.a, at.b, at.c);
    }
}

/* The last task also takes the remainder: a piece of a single column would be summed in another order. */
static void run_columns(void *context, int64_t index)
{
    const product_job *j = context;
    const mf_product *p = j->p;
    int64_t each = p->tasks / p->count, from = index % each * p->piece;
    mf_gemm g = p->shape;
    g.n = index % each == each - 1 ? g.n - from : p->piece;
    product_place at = find(j, index / each);
    run_gemm(p, &g, at.a, at.b + from * g.b[1] * size_of(p), at.c + from * g.c[1] * size_of(p));
}

/* ------------------------------------------------------------------ oneDNN */

static void run_dnnl(void *context, int64_t index)
{
    product_job *j = context;
    const mf_product *p = j->p;
    const int64_t i = index % p->each;
    product_place at = p->each == p->tasks ? (product_place){ j->a, j->b, j->c } : find(j, index / p->each);
    if (!mf_dnnl_run(i == p->each - 1 && p->rest ? p->rest : p->whole, at.a + i * p->next[0], at.b + i * p->next[1], at.c + i * p->next[2],
                     j->packed + (size_t)index * p->task_scratch))
        atomic_store(&j->failed, true);
}

/* The dimension that is cut: the batch, rows, or columns if there are few rows. */
typedef enum cut_along { ALONG_BATCH, ALONG_ROWS, ALONG_COLUMNS } cut_along;

/* Makes a primitive for `piece` of that dimension; for one product of the batch unless the batch is cut. */
static const mf_dnnl_primitive *make_primitive(mf_product *p, cut_along along, int64_t piece)
{
    int batch_rank = along == ALONG_BATCH ? p->batch_rank : 0;
    mf_dnnl_matmul d = { p->dtype, p->result, batch_rank, { 0 }, p->shape.m, p->shape.n, p->shape.k, { 0 }, { 0 }, { 0 } };
    for (int i = 0; i < batch_rank; i++) {
        d.batch[i] = p->batch[i];
        d.a_strides[i] = p->a_batch[i];
        d.b_strides[i] = p->b_batch[i];
        d.c_strides[i] = p->c_batch[i];
    }
    *(along == ALONG_BATCH ? &d.batch[0] : along == ALONG_ROWS ? &d.m : &d.n) = piece;
    memcpy(d.a_strides + batch_rank, p->shape.a, sizeof p->shape.a);
    memcpy(d.b_strides + batch_rank, p->shape.b, sizeof p->shape.b);
    memcpy(d.c_strides + batch_rank, p->shape.c, sizeof p->shape.c);
    return mf_dnnl_matmul_create(&d, &p->no_memory);
}

static void find_next(mf_product *p, cut_along along)
{
    const mf_gemm *g = &p->shape;
    const int64_t elements[3][3] = { { p->a_batch[0], p->b_batch[0], p->c_batch[0] }, { g->a[0], 0, g->c[0] }, { 0, g->b[1], g->c[1] } };
    for (int i = 0; i < 3; i++)
        p->next[i] = elements[along][i] * p->piece * mf_dtype_size(i < 2 ? p->dtype : p->result);
}

/* Products that share b and are each worth a task are cut like a single one. */
static bool shares_b(const mf_product *p)
{
    const mf_gemm *g = &p->shape;
    return p->batch_rank == 1 && !p->b_batch[0] && (double)g->m * (double)g->n * (double)g->k >= TASK_WORK;
}

static bool plan_dnnl(mf_product *p, double work)
{
    const mf_gemm *g = &p->shape;
    bool bf16 = p->dtype == MF_BF16;
    int64_t products = shares_b(p) ? p->batch[0] : 1;
    work /= (double)products;
    cut_along along = p->batch_rank && !shares_b(p)                  ? ALONG_BATCH
                      : bf16 && g->m < 2 * BF16_PIECE && g->n > g->m ? ALONG_COLUMNS
                                                                     : ALONG_ROWS;
    int64_t outer = along == ALONG_BATCH ? p->batch[0] : along == ALONG_ROWS ? g->m : g->n;
    int64_t pieces = (int64_t)(work / (bf16 ? BF16_TASK_WORK : DNNL_TASK_WORK)) + 1;
    p->piece = rounded_up((outer + pieces - 1) / pieces, along == ALONG_BATCH ? 1 : bf16 ? BF16_PIECE : DNNL_ROWS);
    p->piece = smaller(p->piece, outer);
    p->each = (outer + p->piece - 1) / p->piece;
    p->tasks = products * p->each;
    int64_t last = outer - (p->each - 1) * p->piece;
    p->whole = make_primitive(p, along, p->piece);
    p->rest = !p->whole || last == p->piece ? NULL : make_primitive(p, along, last);
    if (!p->whole || (last != p->piece && !p->rest)) {
        if (p->whole)
            mf_dnnl_release((void *)(uintptr_t)p->whole);
        p->whole = NULL;
        return false;
    }
    find_next(p, along);
    p->task = run_dnnl;
    p->task_scratch = mf_dnnl_scratch_bytes(p->whole);
    if (p->rest && mf_dnnl_scratch_bytes(p->rest) > p->task_scratch)
        p->task_scratch = mf_dnnl_scratch_bytes(p->rest);
    p->task_scratch = (p->task_scratch + 63) / 64 * 64;
    p->scratch_bytes = (size_t)p->tasks * p->task_scratch;
    return true;
}

/* ------------------------------------------------------------------ packed */

static int64_t tapered(const mf_product *p, int64_t left)
{
    int64_t rows = rounded_up((left + TAPER - 1) / TAPER, MF_GEMM_ROWS);
    return smaller(left, smaller(p->most, larger(p->least, rows)));
}

static void rows_of(const mf_product *p, int64_t index, int64_t *from, int64_t *to)
{
    *from = smaller(index, p->full) * p->most;
    int64_t rows = index < p->full ? p->most : tapered(p, p->shape.m - *from);
    for (int64_t i = p->full; i < index; i++) {
        *from += rows;
        rows = tapered(p, p->shape.m - *from);
    }
    *to = *from + rows;
}

static void wait_for(_Atomic int64_t *unpacked)
{
    for (int64_t i = 1; atomic_load_explicit(unpacked, memory_order_acquire); i++)
        if (i % SPINS == 0)
            sched_yield();
}

/* A loop may take its pieces in any order, so tasks take their numbers here: packing first and the shortest pieces last. */
static void run_packed(void *context, int64_t unused)
{
    (void)unused;
    product_job *j = context;
    const mf_product *p = j->p;
    int64_t index = atomic_fetch_add_explicit(&j->begun, 1, memory_order_relaxed);
    int64_t each = p->tasks / p->count, product = index / each, size = size_of(p), from, to;
    product_place at = find(j, product);
    char *packed = j->packed + product * mf_gemm_packed(&p->shape) * size;
    index %= each;
    if (index < p->packers) {
        from = index * p->piece;
        mf_gemm_pack(p->dtype, &p->shape, at.b, packed, from, smaller(from + p->piece, p->shape.n));
        atomic_fetch_sub_explicit(&j->unpacked[product], 1, memory_order_release);
        return;
    }
    wait_for(&j->unpacked[product]);
    rows_of(p, index - p->packers, &from, &to);
    mf_gemm_rows(p->dtype, &p->shape, at.a, packed, at.c, from, to);
}

static void plan_packed(mf_product *p)
{
    const mf_gemm *g = &p->shape;
    int64_t rows = (int64_t)(TASK_WORK / 4 / ((double)g->n * (double)g->k));
    p->task = run_packed;
    p->piece = rounded_up((g->n + PACKERS - 1) / PACKERS, MF_GEMM_COLUMNS);
    p->packers = (g->n + p->piece - 1) / p->piece;
    p->least = rounded_up(larger(rows, 1), MF_GEMM_ROWS);
    p->most = larger(MOST_ROWS, p->least);
    p->full = larger(0, (g->m - TAPER * p->most + p->most - 1) / p->most);
    p->tail = 0;
    for (int64_t left = g->m - p->full * p->most; left > 0; left -= tapered(p, left))
        p->tail++;
    p->tasks = p->count * (p->packers + p->full + p->tail);
    p->scratch_bytes = (size_t)(p->count * (mf_gemm_packed(g) * size_of(p) + (int64_t)sizeof(_Atomic int64_t)));
}

/* ------------------------------------------------------------------ plan and run */

static void plan_columns(mf_product *p, double work)
{
    int64_t n = p->shape.n, pieces = smaller((int64_t)(work / TASK_WORK), n / MF_GEMM_COLUMNS);
    p->task = run_columns;
    p->piece = n / pieces / MF_GEMM_COLUMNS * MF_GEMM_COLUMNS;
    p->tasks = p->count * (n / p->piece);
}

static void plan_products(mf_product *p, double work)
{
    p->task = run_products;
    p->piece = larger(1, smaller(p->count, (int64_t)(TASK_WORK / (work + 1))));
    p->tasks = (p->count + p->piece - 1) / p->piece;
}

static bool plan_bf16(mf_product *p, double work)
{
    return (p->result == MF_BF16 || p->result == MF_F32) && work >= BF16_WORK && mf_dnnl_supports(MF_BF16) && plan_dnnl(p, work);
}

/* oneDNN's code for AVX2 copies columns of an operand together. If these are a multiple of 2 KiB apart they share a few sets of the
 * cache, and it takes 1.3 to 2.1 times as long as our own code. */
static bool crowds_a_cache(const mf_gemm *g)
{
    const int64_t set_period = 2048 / sizeof(float);
    bool rows = g->b[1] == 1 && g->b[0] % set_period == 0, columns = g->a[0] == 1 && g->a[1] % set_period == 0;
    return (rows || columns) && strcmp(mf_kernels_isa(), "avx2") == 0;
}

bool mf_product_plan(mf_product *p)
{
    const mf_gemm *g = &p->shape;
    double work = (double)g->m * (double)g->n * (double)g->k;
    p->count = 1;
    for (int i = 0; i < p->batch_rank; i++)
        p->count *= p->batch[i];
    p->scratch_bytes = 0;
    if (p->dtype == MF_BF16)
        return plan_bf16(p, work * (double)p->count);
    if (p->dtype != p->result || (p->dtype != MF_F32 && p->dtype != MF_F64))
        return false;
    bool own = p->dtype != MF_F32 || (g->m >= MANY_ROWS && g->n >= MF_GEMM_COLUMNS && g->n * g->k >= LARGE_B) ||
               work * (double)p->count < DNNL_WORK || crowds_a_cache(g);
    if (!own && mf_dnnl_supports(p->dtype) && (plan_dnnl(p, work * (double)p->count) || p->no_memory))
        return !p->no_memory;
    if (work >= PACKED_WORK && g->m >= FEW_ROWS && g->n >= MF_GEMM_COLUMNS)
        plan_packed(p);
    else if (work >= 2 * TASK_WORK && g->n >= 2 * MF_GEMM_COLUMNS)
        plan_columns(p, work);
    else
        plan_products(p, work);
    return true;
}

bool mf_product_is_ours(const mf_product *p) { return p->task != run_dnnl; }

bool mf_product_run(const mf_product *p, const void *a, const void *b, void *c, char *scratch)
{
    product_job j = { .p = p, .a = a, .b = b, .c = c, .packed = scratch };
    if (p->task == run_packed) {
        j.unpacked = (_Atomic int64_t *)(void *)(scratch + p->count * mf_gemm_packed(&p->shape) * size_of(p));
        for (int64_t i = 0; i < p->count; i++)
            atomic_init(&j.unpacked[i], p->packers);
    }
    mf_parallel_for(p->tasks, p->task, &j);
    return !atomic_load(&j.failed);
}
