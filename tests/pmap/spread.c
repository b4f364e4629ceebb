#include "spread.h"
#include "check.h"
#include "threads_comm.h"

#include "runtime/collectives/collectives.h"
#include "runtime/collectives/schedule/relay_schedule.h"

enum { MOST_LEAVES = 24 };

const char *const spread_of_eight[] = { "00000000", "00001111", "00112233", "01234567", "00011111",
                                        "01111223", "01010101", "11110000", "21012012", NULL };

typedef struct numbers { /* an array on the host */
    mf_dtype dtype;
    mf_shape shape;
    size_t count;
    double *at;
} numbers;

typedef enum kind { ROWS, GRID, SAME, KINDS } kind;
static const char *const kinds[KINDS] = { "rows", "grid", "same" };

typedef struct outcome { /* the outcome in one process */
    spread_here here;
    char words[1024];
    bool failed;
    int leaf_count[KINDS];
    numbers leaves[KINDS][MOST_LEAVES];
} outcome;

typedef struct job_of {
    spread_program program;
    int ids[SPREAD_INDICES]; /* the devices' ids, in the order of the axis */
    int count;
    outcome at[SPREAD_PROCESSES];
} job_of;

/* ------------------------------------------------------------------ for programs */

static mf_value some_of(const int *indices, int count, mf_value x, int axis)
{
    double numbers[SPREAD_INDICES];
    for (int i = 0; i < count; i++)
        numbers[i] = indices[i];
    return mf_take(x, mf_array_n(MF_I32, MF_SHAPE(count), numbers, count), axis);
}

static mf_value rows_of_leaf(void *context, mf_value leaf)
{
    const spread_here *h = *(const spread_here **)context;
    return some_of(h->rows, h->row_count, leaf, 0);
}

static mf_value cells_of_leaf(void *context, mf_value leaf)
{
    const spread_here *h = *(const spread_here **)context;
    return some_of(h->columns, h->column_count, some_of(h->rows, h->row_count, leaf, 0), 1);
}

mf_value spread_rows(const spread_here *h, mf_value all) { return mf_tree_map(mf_closure(rows_of_leaf, &h), all); }

mf_value spread_grid(const spread_here *h, mf_value all) { return mf_tree_map(mf_closure(cells_of_leaf, &h), all); }

/* ------------------------------------------------------------------ running */

static numbers read_numbers(mf_value v)
{
    numbers n = { .dtype = mf_dtype_of(v), .shape = mf_shape_of(v), .count = (size_t)mf_size(v) };
    n.at = calloc(n.count + 1, sizeof *n.at);
    if (mf_to_host(v, MF_F64, n.at, n.count) != MF_OK)
        n.count = 0;
    return n;
}

static void read_kind(outcome *o, kind k, mf_value tree)
{
    mf_value leaves = mf_tree_leaves(tree);
    o->leaf_count[k] = mf_len(leaves);
    for (int i = 0; i < o->leaf_count[k] && CHECK(i < MOST_LEAVES); i++)
        o->leaves[k][i] = read_numbers(mf_get(leaves, i));
}

static void run_here(job_of *j, outcome *o)
{
    mf_device devices[SPREAD_INDICES];
    MF_SCOPE;
    if (o->here.named) {
        mf_device_list all = mf_devices();
        for (int i = 0; i < j->count; i++)
            devices[i] = all.at[j->ids[i]];
        o->here.devices = (mf_device_list){ j->count, devices };
    }
    mf_value result = j->program(&o->here);
    if (mf_block_until_ready(result) != MF_OK || mf_is_error(result)) {
        mf_value leaves = mf_is_error(result) ? result : mf_tree_leaves(result);
        for (int i = 0; i < mf_len(leaves) && !mf_is_error(result); i++)
            result = mf_block_until_ready(mf_get(leaves, i)) == MF_OK ? result : mf_add(mf_get(leaves, i), 0);
        mf_block_until_ready(result);
        o->failed = true;
        snprintf(o->words, sizeof o->words, "%s%s", mf_error_status(result) == MF_ERROR_PEER ? "peer: " : "", mf_error(result));
        return;
    }
    for (kind k = 0; k < KINDS && mf_kind_of(result) == MF_KIND_DICT; k++)
        for (int i = 0; i < mf_len(result); i++)
            if (!strcmp(mf_key(result, i), kinds[k]))
                read_kind(o, k, mf_get(result, kinds[k]));
    snprintf(o->words, sizeof o->words, "%s", mf_str(result));
}

static void run_rank(void *context, int rank)
{
    job_of *j = context;
    run_here(j, &j->at[rank]);
}

static void put_index(int *list, int *count, int index)
{
    if (!*count || list[*count - 1] != index)
        list[(*count)++] = index;
}

/* Assigns the devices to the processes, numbered process by process. */
static int lay_out(job_of *j, const void *context, int axis_size, const char *owners, int *devices)
{
    int size = 0, next[SPREAD_PROCESSES] = { 0 }, inside = (int)strlen(owners) / axis_size;
    bool named = false;
    j->count = inside * axis_size;
    memset(devices, 0, SPREAD_PROCESSES * sizeof *devices);
    for (int d = 0; d < j->count; d++) {
        devices[owners[d] - '0']++;
        size = owners[d] - '0' >= size ? owners[d] - '0' + 1 : size;
    }
    for (int p = 1; p < size; p++)
        next[p] = next[p - 1] + devices[p - 1];
    for (int d = 0; d < j->count; d++)
        named |= (j->ids[d] = next[owners[d] - '0']++) != d;
    for (int p = 0; p < size; p++) {
        spread_here *h = &j->at[p].here;
        *h = (spread_here){ .context = context, .rank = p, .size = size, .axis_size = axis_size, .inner_size = inside, .named = named };
        for (int d = 0; d < j->count; d++)
            if (owners[d] - '0' == p)
                put_index(h->rows, &h->row_count, d / inside);
        for (int d = 0; d < j->count; d++)
            if (owners[d] - '0' == p && d / inside == h->rows[0])
                put_index(h->columns, &h->column_count, d % inside);
    }
    return size;
}

static void free_numbers(job_of *j)
{
    for (int p = 0; p < SPREAD_PROCESSES; p++)
        for (kind k = 0; k < KINDS; k++)
            for (int i = 0; i < j->at[p].leaf_count[k] && i < MOST_LEAVES; i++)
                free(j->at[p].leaves[k][i].at);
    memset(j, 0, sizeof *j);
}

/* Runs the program as a job and returns the number of processes. owners NULL: in this process, without a communicator. */
static int run_job(job_of *j, spread_program program, const void *context, int axis_size, int inside, const char *owners)
{
    static uint64_t seed;
    int devices[SPREAD_PROCESSES];
    char one[SPREAD_INDICES + 1] = "";
    if (!owners)
        memset(one, '0', (size_t)axis_size * (size_t)inside);
    memset(j, 0, sizeof *j);
    j->program = program;
    int size = lay_out(j, context, axis_size, owners ? owners : one, devices);
    mf_clear_caches(); /* the communicator may have the address of an earlier job's */
    if (!owners)
        run_here(j, &j->at[0]);
    else
        job_run(size, devices, ++seed, run_rank, j);
    return size;
}

/* ------------------------------------------------------------------ comparing */

/* The numbers of the whole result that a leaf of this process must have; `at` has room for all. */
static size_t own_part(const spread_here *h, kind k, const numbers *whole, double *at)
{
    size_t rows = k == SAME ? 1 : (size_t)whole->shape.dims[0], columns = k == GRID ? (size_t)whole->shape.dims[1] : 1,
           cell = whole->count / (rows * columns), count = 0;
    for (int r = 0; r < (k == SAME ? 1 : h->row_count); r++)
        for (int c = 0; c < (k == GRID ? h->column_count : 1); c++, count++)
            memcpy(at + count * cell,
                   whole->at + ((k == SAME ? 0 : (size_t)h->rows[r]) * columns + (k == GRID ? (size_t)h->columns[c] : 0)) * cell,
                   cell * sizeof *at);
    return count * cell;
}

static bool compare_leaf(const outcome *o, kind k, const numbers *whole, const numbers *own)
{
    double *part = calloc(whole->count + 1, sizeof *part);
    size_t count = own_part(&o->here, k, whole, part);
    bool good = CHECK_EQ_INT(own->dtype, whole->dtype) && CHECK_EQ_INT(own->count, count) &&
                CHECK_BYTES(own->at, part, count * sizeof *part);
    free(part);
    return good;
}

static void compare(const char *name, const char *owners, const outcome *o, const outcome *whole)
{
    bool good = CHECK_STR(o->words, o->failed ? "" : o->words);
    for (kind k = 0; k < KINDS && good; k++) {
        good = CHECK_EQ_INT(o->leaf_count[k], whole->leaf_count[k]);
        for (int i = 0; i < whole->leaf_count[k] && good; i++)
            if (!(good = compare_leaf(o, k, &whole->leaves[k][i], &o->leaves[k][i])))
                CHECK_NOTE("leaf %d of '%s'", i, kinds[k]);
    }
    if (!good)
        CHECK_NOTE("case %s: process %d of %s", name, o->here.rank, owners);
}

void spread_fail_when_read(int process) { atomic_store(&job_fails_when_read, process); }

void spread_algorithm(int number)
{
    static const struct {
        int64_t reduce_scatter_from;
        int algorithm;
    } algorithms[] = { { INT64_MAX, MF_ALGORITHM_DIRECT },
                       { 1, MF_ALGORITHM_DIRECT },
                       { INT64_MAX, MF_ALGORITHM_DOUBLING },
                       { INT64_MAX, MF_ALGORITHM_HALVING } };
    atomic_store(&mf_reduce_scatter_from, algorithms[number % 4].reduce_scatter_from);
    atomic_store(&mf_algorithm_forced, algorithms[number % 4].algorithm);
}

void spread_check(const char *name, spread_program program, const void *context, int axis_size, const char *const *owners)
{
    static job_of whole, part;
    run_job(&whole, program, context, axis_size, (int)strlen(*owners) / axis_size, NULL);
    bool any = false;
    for (kind k = 0; k < KINDS; k++)
        any |= whole.at[0].leaf_count[k] > 0;
    if (!CHECK_STR(whole.at[0].words, whole.at[0].failed ? "" : whole.at[0].words) || !CHECK(any))
        CHECK_NOTE("case %s in one process", name);
    static int algorithm;
    for (; *owners && !whole.at[0].failed; owners++, algorithm++) {
        spread_algorithm(algorithm);
        int size = run_job(&part, program, context, axis_size, 1, *owners);
        for (int p = 0; p < size; p++)
            compare(name, *owners, &part.at[p], &whole.at[0]);
        free_numbers(&part);
    }
    free_numbers(&whole);
}

void spread_print(spread_program program, const void *context, int axis_size, const char *owners, spread_texts *words)
{
    static job_of j;
    int size = run_job(&j, program, context, axis_size, 1, owners);
    for (int p = 0; p < size; p++)
        memcpy(words->of[p], j.at[p].words, sizeof words->of[p]);
    free_numbers(&j);
}

/* ------------------------------------------------------------------ programs of known answers */

typedef struct known_of {
    known_program program;
    const char *name;
    int in_count;
    numbers in[KNOWN_MAX];
} known_of;

static mf_value run_known(const spread_here *h)
{
    const known_of *k = h->context;
    mf_value in[KNOWN_MAX] = { { 0 } };
    for (int i = 0; i < k->in_count; i++)
        in[i] = spread_rows(h, mf_array_n(k->in[i].dtype, k->in[i].shape, k->in[i].at, (int)k->in[i].count));
    mf_value result = k->program(k->name, in);
    return mf_is_error(result) ? result : mf_dict("rows", result);
}

void spread_compare(known_program program, const char *name, const mf_value *in, int in_count, const int *shares, int inside)
{
    known_of k = { .program = program, .name = name, .in_count = in_count };
    int rows = (int)mf_shape_of(in[0]).dims[0], at = 0;
    char owners[SPREAD_INDICES + 1] = "";
    for (int p = 0; shares[p]; p++)
        for (int end = at + shares[p]; at < end || (!shares[p + 1] && at < rows); at++) {
            if (at >= rows)
                return;
            memset(owners + at * inside, '0' + p, (size_t)inside);
        }
    for (int i = 0; i < in_count; i++)
        k.in[i] = read_numbers(in[i]);
    spread_check(name, run_known, &k, rows, (const char *const[]){ owners, NULL });
    for (int i = 0; i < in_count; i++)
        free(k.in[i].at);
}
