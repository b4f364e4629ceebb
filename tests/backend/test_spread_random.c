/* Maps out of random programs (generate.h), over processes as in one: equal bits, however their devices are spread. The processes are threads
 * (threads_comm.h). A failure prints the seed; MF_DIFF_SEED and MF_DIFF_COUNT choose the programs. */
#include "check.h"
#include "generate.h"
#include "ops/params.h"
#include "ops/rows.h"
#include "runtime/compile/compile.h"
#include "runtime/device.h"
#include "threads_comm.h"
#include "trace/function.h"
#include "transform/functions/pmap.h"

enum { MOST = 32, DEVICES = GENERATED_DEVICES };

typedef struct part { /* what one process has: or one alone, all rows */
    int row_count, rows[DEVICES];
    unsigned char *out[MOST];
    char error[512];
} part;

typedef struct trial {
    const mf_pmap_params *map;
    const mf_type *types[MOST]; /* of the whole operands */
    unsigned char *in[MOST];
    int in_count, out_count, size, owners[DEVICES], counts[JOB_MOST];
    const mf_intlist *devices;
    part whole, at[JOB_MOST];
} trial;

/* ------------------------------------------------------------------ rows of arrays */

static const mf_type *with_rows(const mf_type *t, int64_t axis, int64_t rows)
{
    return axis == INT64_MIN ? t : mf_type_insert_axis(mf_type_without_axis(t, (int)axis), (int)axis, rows);
}

/* Those rows of a whole array along this axis, one after the other; all of it where it is not mapped. */
static unsigned char *rows_of(const unsigned char *from, const mf_type *t, int64_t axis, const part *p)
{
    unsigned char *out = malloc((size_t)t->bytes + 1), *to = out;
    int64_t before = 1, inside = mf_dtype_size(t->dtype);
    for (int i = 0; i < t->rank && axis >= 0; i++)
        *(i < axis ? &before : &inside) *= i == axis ? 1 : t->dims[i];
    if (axis == INT64_MIN)
        return memcpy(out, from, (size_t)t->bytes);
    for (int64_t b = 0; b < before; b++)
        for (int r = 0; r < p->row_count; r++, to += inside)
            memcpy(to, from + (b * t->dims[axis] + p->rows[r]) * inside, (size_t)inside);
    return out;
}

static unsigned char *numbers(const mf_type *t, uint64_t seed)
{
    double *values = malloc(((size_t)t->size + 1) * sizeof *values);
    unsigned char *out = malloc((size_t)t->bytes + 1);
    for (int64_t k = 0; k < t->size; k++) {
        double x = (double)((k * 37 + (int64_t)seed * 11) % 64 - 20);
        values[k] = mf_dtype_is_inexact(t->dtype) ? x / 7 : fabs(x) / 8;
    }
    mf_convert(t->dtype, out, MF_F64, values, t->size);
    free(values);
    return out;
}

/* ------------------------------------------------------------------ running */

/* The map alone, as a process with these rows has it. */
static mf_program *program_of(const trial *t, const part *p, mf_error_object **error)
{
    mf_pmap_params map = *t->map;
    const mf_type *types[MOST];
    int64_t local[DEVICES];
    for (int i = 0; i < t->in_count; i++)
        types[i] = with_rows(t->types[i], map.in_axes->at[i], p->row_count);
    for (int r = 0; r < p->row_count; r++)
        local[r] = p->rows[r];
    map.local = mf_ints_intern(local, p->row_count < map.axis_size ? p->row_count : 0);
    map.devices = t->devices;
    return mf_program_of_eqn(NULL, &mf_op_pmap, &map, types, t->in_count, error);
}

static mf_error_object *run_part(const trial *t, part *p)
{
    mf_error_object *error = NULL;
    mf_array *in[MOST] = { 0 }, *out[MOST] = { 0 };
    mf_program *q = program_of(t, p, &error);
    mf_executable *x = q ? mf_compile_program(&(mf_load_request){ .client = &mf_client_cpu, .program = q }, &error) : NULL;
    for (int i = 0; i < t->in_count && x; i++) {
        unsigned char *rows = rows_of(t->in[i], t->types[i], t->map->in_axes->at[i], p);
        in[i] = mf_array_from_host(q->in[i]->type, rows);
        free(rows);
    }
    if (x)
        error = mf_executable_run(x, in, NULL, out);
    for (int o = 0; o < t->out_count && x && !error; o++) {
        p->out[o] = malloc((size_t)out[o]->type->bytes + 1);
        error = mf_array_copy_out(out[o], out[o]->type->dtype, p->out[o]);
    }
    for (int i = 0; i < MOST; i++) {
        mf_drop(in[i]);
        mf_drop(out[i]);
    }
    mf_drop(x);
    mf_drop(q);
    return error;
}

static void run_rank(void *context, int rank)
{
    trial *t = context;
    part *p = &t->at[rank];
    mf_error_object *error = run_part(t, p);
    snprintf(p->error, sizeof p->error, "%s", error ? mf_error_text(error) : "");
    mf_drop(error);
}

/* Each index to a process, at random or one after the other; nobody goes without. Devices are numbered process by process. */
static bool spread(trial *t, uint64_t *random)
{
    int64_t n = t->map->axis_size, inside = mf_program_replicas(t->map->program), ids[DEVICES], next = 0;
    memset(t->counts, 0, sizeof t->counts);
    memset(t->at, 0, sizeof t->at);
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    t->size = 2 + (int)(*random >> 40) % 3;
    for (int64_t i = 0; i < n; i++) {
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        t->owners[i] = *random >> 63 ? (int)(i * t->size / n) : (int)((*random >> 33) % (unsigned)t->size);
        part *p = &t->at[t->owners[i]];
        p->rows[p->row_count++] = (int)i;
    }
    for (int p = 0; p < t->size; p++) {
        t->counts[p] = (int)(t->at[p].row_count * inside);
        for (int r = 0; r < t->at[p].row_count; r++)
            for (int64_t k = 0; k < inside; k++)
                ids[t->at[p].rows[r] * inside + k] = next++;
        if (!t->counts[p])
            return false;
    }
    t->devices = mf_ints_intern(ids, (int)(n * inside));
    return true;
}

/* ------------------------------------------------------------------ comparing */

static bool compare(const trial *t, const mf_eqn *e, int rank)
{
    const part *p = &t->at[rank];
    bool good = CHECK_STR(p->error, "");
    for (int o = 0; o < t->out_count && good; o++) {
        int64_t axis = t->map->out_axes->at[o];
        unsigned char *rows = rows_of(t->whole.out[o], e->out[o]->type, axis, p);
        good = CHECK_BYTES(p->out[o], rows, (size_t)with_rows(e->out[o]->type, axis, p->row_count)->bytes);
        free(rows);
    }
    return good;
}

static void free_outputs(part *p)
{
    for (int o = 0; o < MOST; o++) {
        free(p->out[o]);
        p->out[o] = NULL;
    }
}

static int maps, jobs;

static void report(const trial *t, const mf_eqn *e, uint64_t seed, int rank)
{
    mf_text text = { 0 };
    mf_error_object *error = NULL;
    mf_program *q = program_of(t, &t->at[rank], &error);
    if (q)
        mf_program_print(&text, q);
    CHECK_NOTE("MF_DIFF_SEED=%llu MF_DIFF_COUNT=1: process %d of %d, a map of %d results:\n%s", (unsigned long long)seed, rank, t->size,
               e->out_count, text.at ? text.at : "");
    mf_text_free(&text);
    mf_error_ignore(error);
    mf_drop(q);
}

static void try_map(const mf_eqn *e, uint64_t seed)
{
    static trial t;
    uint64_t random = seed;
    memset(&t, 0, sizeof t);
    t.map = e->params;
    t.in_count = e->in_count;
    t.out_count = e->out_count;
    t.devices = mf_ints_intern(NULL, 0);
    if (t.map->axis_size < 2 || t.in_count > MOST || t.out_count > MOST)
        return;
    for (int i = 0; i < t.in_count; i++) {
        t.types[i] = e->in[i]->type;
        t.in[i] = numbers(e->in[i]->type, seed + (uint64_t)i);
    }
    for (int i = 0; i < t.map->axis_size; i++)
        t.whole.rows[t.whole.row_count++] = i;
    mf_error_object *error = run_part(&t, &t.whole);
    if (!CHECK(!error))
        CHECK_NOTE("MF_DIFF_SEED=%llu in one process: %s", (unsigned long long)seed, mf_error_text(error));
    maps++;
    for (int k = 0; k < 3 && !error; k++) {
        if (!spread(&t, &random))
            continue;
        jobs++;
        job_run(t.size, t.counts, random, run_rank, &t);
        for (int p = 0; p < t.size; p++) {
            if (!compare(&t, e, p))
                report(&t, e, seed, p);
            free_outputs(&t.at[p]);
        }
    }
    mf_error_ignore(error);
    free_outputs(&t.whole);
    for (int i = 0; i < t.in_count; i++)
        free(t.in[i]);
}

static int64_t setting(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoll(text, NULL, 10) : otherwise;
}

TEST(random_maps_over_processes)
{
    const char *checked = getenv("MF_SANITIZE");
    int64_t seed = setting("MF_DIFF_SEED", 1), count = setting("MF_DIFF_COUNT", checked && *checked ? 200 : 2000);
    mf_error_ignore(mf_device_set_total(DEVICES));
    for (int64_t k = 0; k < count && check_failures < 3; k++) {
        generated g;
        mf_error_object *error = NULL;
        if (!CHECK(generate_program((uint64_t)(seed + k), &g, &error))) {
            mf_error_ignore(error);
            continue;
        }
        for (int i = 0; i < g.p->eqn_count; i++)
            if (g.p->eqns[i]->op == &mf_op_pmap)
                try_map(g.p->eqns[i], (uint64_t)(seed + k));
        mf_drop(g.p);
    }
    printf("(%d maps, %d jobs) ", maps, jobs);
    CHECK(maps > 0);
}
