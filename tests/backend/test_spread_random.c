/* Maps of random programs (generate.h) and their derivatives, over several processes and in one process: equal bits, however the devices
 * are divided. The processes are threads (threads_comm.h). A failure prints the seed; MF_DIFF_SEED and MF_DIFF_COUNT choose the
 * programs. */
#include "check.h"
#include "generate.h"
#include "ops/params.h"
#include "ops/ops.h"
#include "runtime/compile/compile.h"
#include "runtime/compile/schedule/schedule.h"
#include "runtime/device.h"
#include "threads_comm.h"
#include "trace/function.h"
#include "transform/functions/mapped/pmap.h"
#include "transform/transform.h"

enum { MOST = 64, DEVICES = GENERATED_DEVICES };

typedef enum way { AS_IT_IS, FORWARD, REVERSE, WAYS } way;

typedef struct part { /* the rows that one process has; all rows for a single process */
    int row_count, rows[DEVICES];
    unsigned char *out[MOST];
    char error[512];
} part;

typedef struct whole { /* whole operands or results */
    int count;
    const mf_type *types[MOST];
    int64_t axes[MOST];
} whole;

typedef struct trial {
    const mf_pmap_params *map;
    way way;
    int map_in, size, owners[DEVICES], counts[JOB_MOST];
    whole in, out;
    unsigned char *numbers[MOST];
    const mf_intlist *devices;
    part alone, at[JOB_MOST];
} trial;

/* ------------------------------------------------------------------ rows of arrays */

static const mf_type *with_rows(const mf_type *t, int64_t axis, int64_t rows)
{
    return axis == INT64_MIN ? t : mf_type_insert_axis(mf_type_without_axis(t, (int)axis), (int)axis, rows);
}

/* Copies the process's rows of a whole array along this axis; the whole array if the axis is not mapped. */
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

/* The program of the map for a process with these rows. */
static mf_program *map_of(const trial *t, const part *p, mf_error_object **error)
{
    mf_pmap_params map = *t->map;
    const mf_type *types[MOST];
    int64_t local[DEVICES];
    for (int i = 0; i < t->map_in; i++)
        types[i] = with_rows(t->in.types[i], map.in_axes->at[i], p->row_count);
    for (int r = 0; r < p->row_count; r++)
        local[r] = p->rows[r];
    map.local = mf_ints_intern(local, p->row_count < map.axis_size ? p->row_count : 0);
    map.devices = t->devices;
    return mf_program_of_eqn(NULL, &mf_op_pmap, &map, types, t->map_in, error);
}

/* The forward-mode derivative, with a tangent for each operand and result that has one. */
static mf_program *forward_of(const mf_program *p, mf_error_object **error)
{
    bool has[MOST], gives[MOST];
    for (int i = 0; i < p->in_count; i++)
        has[i] = mf_tangent_type(p->in[i]->type);
    for (int o = 0; o < p->out_count; o++)
        gives[o] = mf_tangent_type(p->out[o]->type);
    return mf_jvp_program(p, NULL, has, gives, error);
}

/* The reverse-mode derivative: cotangents of the results to cotangents of the operands. */
static mf_program *reverse_of(const mf_program *p, mf_error_object **error)
{
    mf_program *forward = NULL, *backward = NULL;
    int residuals;
    if (!mf_vjp_program(p, NULL, p->in_count, NULL, &forward, &backward, &residuals, error))
        return NULL;
    mf_builder b;
    mf_builder_init(&b, NULL);
    mf_variable **in = calloc((size_t)(p->in_count + forward->out_count + backward->in_count + backward->out_count) + 1, sizeof *in),
                **out = in + p->in_count, **back = out + p->out_count;
    for (int i = 0; i < p->in_count; i++)
        in[i] = mf_builder_input(&b, p->in[i]->type);
    mf_inline(&b, forward, in, out); /* the residuals are inputs of the backward program */
    for (int i = residuals; i < backward->in_count; i++)
        back[i] = mf_builder_input(&b, backward->in[i]->type);
    mf_inline(&b, backward, back, back);
    mf_program *both = mf_builder_finish(&b, out, p->out_count + backward->out_count, error);
    free(in);
    mf_drop(forward);
    mf_drop(backward);
    return both;
}

static mf_program *program_of(const trial *t, const part *p, mf_error_object **error)
{
    mf_program *map = map_of(t, p, error);
    if (!map || t->way == AS_IT_IS)
        return map;
    mf_program *q = t->way == FORWARD ? forward_of(map, error) : reverse_of(map, error);
    mf_drop(map);
    return q;
}

static mf_error_object *run_part(const trial *t, part *p)
{
    mf_error_object *error = NULL;
    mf_array *in[MOST] = { 0 }, *out[MOST] = { 0 };
    mf_program *q = program_of(t, p, &error);
    mf_executable *x = q ? mf_compile_program(&(mf_load_request){ .client = &mf_client_cpu, .program = q }, &error) : NULL;
    for (int i = 0; i < t->in.count && x; i++) {
        unsigned char *rows = rows_of(t->numbers[i], t->in.types[i], t->in.axes[i], p);
        in[i] = mf_array_from_host(q->in[i]->type, rows);
        free(rows);
    }
    if (x)
        error = mf_executable_run(x, in, NULL, out);
    for (int o = 0; o < t->out.count && x && !error; o++) {
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

/* Assigns each index to a process, at random or consecutively; each process has one. Devices are numbered process by process. */
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

static bool compare(const trial *t, int rank)
{
    const part *p = &t->at[rank];
    bool good = CHECK_STR(p->error, "");
    for (int o = 0; o < t->out.count && good; o++) {
        unsigned char *rows = rows_of(t->alone.out[o], t->out.types[o], t->out.axes[o], p);
        good = CHECK_BYTES(p->out[o], rows, (size_t)with_rows(t->out.types[o], t->out.axes[o], p->row_count)->bytes);
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

static void report(const trial *t, uint64_t seed, int rank)
{
    mf_text text = { 0 };
    mf_error_object *error = NULL;
    mf_program *q = program_of(t, &t->at[rank], &error);
    if (q)
        mf_program_print(&text, q);
    CHECK_NOTE("MF_DIFF_SEED=%llu MF_DIFF_COUNT=1: process %d of %d:\n%s", (unsigned long long)seed, rank, t->size, text.at ? text.at : "");
    mf_text_free(&text);
    mf_error_ignore(error);
    mf_drop(q);
}

static void put(whole *w, const mf_type *t, int64_t axis)
{
    w->types[w->count] = t;
    w->axes[w->count++] = axis;
}

/* Lays out all operands and results of the map, then the additional ones of the derivative. */
static void lay_out(trial *t, const mf_eqn *e)
{
    t->map = e->params;
    t->map_in = e->in_count;
    for (int i = 0; i < e->in_count; i++)
        put(&t->in, e->in[i]->type, t->map->in_axes->at[i]);
    for (int o = 0; o < e->out_count; o++)
        put(&t->out, e->out[o]->type, t->map->out_axes->at[o]);
    whole *after_in = t->way == FORWARD ? &t->in : &t->out, *after_out = t->way == FORWARD ? &t->out : &t->in;
    for (int i = 0; i < e->in_count && t->way != AS_IT_IS; i++)
        if (mf_tangent_type(e->in[i]->type))
            put(after_in, mf_tangent_type(e->in[i]->type), t->map->in_axes->at[i]);
    for (int o = 0; o < e->out_count && t->way != AS_IT_IS; o++)
        if (mf_tangent_type(e->out[o]->type))
            put(after_out, mf_tangent_type(e->out[o]->type), t->map->out_axes->at[o]);
}

static int runs[WAYS], jobs;

/* A derivative that does not exist is no failure. */
static bool run_alone(trial *t, uint64_t seed)
{
    mf_error_object *error = run_part(t, &t->alone);
    if (error && t->way == AS_IT_IS && !CHECK(!error))
        CHECK_NOTE("MF_DIFF_SEED=%llu in one process: %s", (unsigned long long)seed, mf_error_text(error));
    mf_error_ignore(error);
    return !error;
}

static void try_map(const mf_eqn *e, uint64_t seed, way way)
{
    static trial t;
    uint64_t random = seed;
    memset(&t, 0, sizeof t);
    t.way = way;
    t.devices = mf_ints_intern(NULL, 0);
    if (((const mf_pmap_params *)e->params)->axis_size < 2 || 2 * (e->in_count + e->out_count) > MOST)
        return;
    lay_out(&t, e);
    for (int i = 0; i < t.in.count; i++)
        t.numbers[i] = numbers(t.in.types[i], seed + (uint64_t)i);
    for (int i = 0; i < t.map->axis_size; i++)
        t.alone.rows[t.alone.row_count++] = i;
    bool ran = run_alone(&t, seed);
    runs[way] += ran;
    for (int k = 0; k < 2 && ran; k++) {
        if (!spread(&t, &random))
            continue;
        jobs++;
        job_run(t.size, t.counts, random, run_rank, &t);
        for (int p = 0; p < t.size; p++) {
            if (!compare(&t, p))
                report(&t, seed, p);
            free_outputs(&t.at[p]);
        }
    }
    free_outputs(&t.alone);
    for (int i = 0; i < t.in.count; i++)
        free(t.numbers[i]);
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
        mf_schedule_large_bytes = k % 2 ? 1 : MF_SCHEDULE_LARGE_BYTES;
        for (int i = 0; i < g.p->eqn_count && check_failures < 3; i++)
            if (g.p->eqns[i]->op == &mf_op_pmap)
                for (way w = AS_IT_IS; w < WAYS; w++)
                    try_map(g.p->eqns[i], (uint64_t)(seed + k), w);
        mf_drop(g.p);
    }
    mf_schedule_large_bytes = MF_SCHEDULE_LARGE_BYTES;
    printf("(%d maps, %d forward, %d in reverse, %d jobs) ", runs[AS_IT_IS], runs[FORWARD], runs[REVERSE], jobs);
    CHECK(count < 200 || (runs[FORWARD] && runs[REVERSE]));
}
