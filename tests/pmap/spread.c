#include "spread.h"
#include "check.h"
#include "threads_comm.h"

enum { MOST_LEAVES = 8 };

typedef struct numbers { /* an array on the host */
    mf_dtype dtype;
    mf_shape shape;
    size_t count; /* of all rows */
    double *at;
} numbers;

typedef struct process {
    char error[512];
    int leaf_count;
    numbers leaves[MOST_LEAVES];
} process;

typedef struct job_of {
    known_program program;
    const char *name;
    int in_count;
    numbers in[KNOWN_MAX];
    int first[JOB_MOST + 1]; /* rows */
    process at[JOB_MOST];
} job_of;

static numbers read_numbers(mf_value v)
{
    numbers n = { .dtype = mf_dtype_of(v), .shape = mf_shape_of(v), .count = (size_t)mf_size(v) };
    n.at = calloc(n.count + 1, sizeof *n.at);
    if (mf_to_host(v, MF_F64, n.at, n.count) != MF_OK)
        n.count = 0;
    return n;
}

static mf_value rows_of(const numbers *n, int from, int to)
{
    mf_shape s = n->shape;
    size_t row = n->count / (size_t)s.dims[0];
    s.dims[0] = to - from;
    return mf_array_n(n->dtype, s, n->at + row * (size_t)from, row * (size_t)(to - from));
}

static void run_rows(void *context, int rank)
{
    job_of *j = context;
    process *p = &j->at[rank];
    mf_value in[KNOWN_MAX] = { { 0 } };
    MF_SCOPE;
    for (int i = 0; i < j->in_count; i++)
        in[i] = rows_of(&j->in[i], j->first[rank], j->first[rank + 1]);
    mf_value result = j->program(j->name, in);
    mf_value leaves = mf_is_error(result) ? result : mf_tree_leaves(result);
    p->leaf_count = mf_is_error(result) ? 0 : mf_len(leaves);
    for (int i = 0; i < p->leaf_count && i < MOST_LEAVES; i++)
        p->leaves[i] = read_numbers(mf_get(leaves, i));
    snprintf(p->error, sizeof p->error, "%s", mf_is_error(result) ? mf_error(result) : "");
}

/* Leaf i of every process against its rows of the whole. */
static void compare_leaf(const job_of *j, int size, int i, mf_value whole)
{
    numbers w = read_numbers(whole);
    size_t row = w.count / (size_t)(w.shape.rank ? w.shape.dims[0] : 1);
    for (int p = 0; p < size; p++) {
        const numbers *own = &j->at[p].leaves[i];
        if (!CHECK_EQ_INT(own->count, row * (size_t)(j->first[p + 1] - j->first[p])) || !CHECK_EQ_INT(own->dtype, w.dtype) ||
            !CHECK_BYTES(own->at, w.at + row * (size_t)j->first[p], own->count * sizeof *w.at))
            CHECK_NOTE("case %s: process %d of %d, leaf %d", j->name, p, size, i);
    }
    free(w.at);
}

void spread_compare(known_program program, const char *name, const mf_value *in, int in_count, const int *shares, int inside,
                    mf_value whole, int seed)
{
    static job_of j;
    int devices[JOB_MOST], size = 0, rows = (int)mf_shape_of(in[0]).dims[0], most = 0;
    memset(&j, 0, sizeof j);
    for (; shares[size]; size++)
        most += shares[size];
    if (most > rows)
        return;
    j.program = program;
    j.name = name;
    j.in_count = in_count;
    for (int i = 0; i < in_count; i++)
        j.in[i] = read_numbers(in[i]);
    for (int p = 0; p < size; p++) {
        j.first[p + 1] = p == size - 1 ? rows : j.first[p] + shares[p];
        devices[p] = (j.first[p + 1] - j.first[p]) * inside;
    }
    mf_clear_caches(); /* a communicator stands where that of another job stood */
    job_run(size, devices, (uint64_t)seed, run_rows, &j);
    bool good = true;
    for (int p = 0; p < size; p++)
        if (!CHECK_STR(j.at[p].error, "")) {
            CHECK_NOTE("case %s: process %d of %d", name, p, size);
            good = false;
        }
    mf_value leaves = mf_tree_leaves(whole);
    for (int i = 0; good && i < mf_len(leaves) && CHECK(i < MOST_LEAVES); i++)
        compare_leaf(&j, size, i, mf_get(leaves, i));
    for (int p = 0; p < size; p++)
        for (int i = 0; i < MOST_LEAVES; i++)
            free(j.at[p].leaves[i].at);
    for (int i = 0; i < in_count; i++)
        free(j.in[i].at);
}
