/* Maps that span processes: however the devices are divided, every result has the bits of one process. The processes are threads, joined by
 * a communicator that delivers messages late and out of order. */
#include "check.h"
#include "run_text.h"

#include "threads_comm.h"

#include "runtime/collectives/collectives.h"
#include "runtime/collectives/schedule/relay_schedule.h"

#include <manyfold.h>

enum { MOST_NUMBERS = 4096, MOST_DEVICES = 16 };

/* A body mapped over i and, if m is not 0, also over j inside. */
typedef struct program {
    const char *name;
    int n, m;
    const char *in, *out; /* types of a shard of the operand and of the result: "f32[2]" */
    const char *body;     /* the body's text, a function of x */
} program;

/* How the devices of a program are divided: each process's indices of i and j, one digit for each index. */
typedef struct spread {
    int size;
    const char *i[JOB_MOST], *j[JOB_MOST]; /* j NULL: every process has all indices */
} spread;

/* ------------------------------------------------------------------ programs as text */

static const char *shape_of(const char *type) { return strchr(type, '[') + 1; }

/* "f32[rows,columns,shape]" */
static void put_type(char *out, size_t room, const char *shard, int rows, int columns)
{
    int length = (int)(strchr(shard, '[') - shard);
    char more[32] = "";
    if (columns)
        snprintf(more, sizeof more, ",%d", columns);
    snprintf(out, room, "%.*s[%d%s%s%s", length, shard, rows, more, *shape_of(shard) == ']' ? "" : ",", shape_of(shard));
}

static void put_digits(char *out, size_t room, const char *name, const char *digits)
{
    size_t at = (size_t)snprintf(out, room, ", %s=(", name);
    for (const char *d = digits; *d; d++)
        at += (size_t)snprintf(out + at, room - at, "%s%d", d == digits ? "" : ",", *d - 'a');
    snprintf(out + at, room - at, ")");
}

/* The program of a process with these indices ("abc": 0, 1, 2); devices: the ids of all devices, or "". */
static void put_program(char *out, size_t room, const program *p, const char *i, const char *j, const char *devices)
{
    char in[64], result[64], inner_in[64], inner_out[64], local_i[128] = "", local_j[128] = "";
    int rows = i ? (int)strlen(i) : p->n, columns = j ? (int)strlen(j) : p->m;
    if (i && rows < p->n)
        put_digits(local_i, sizeof local_i, "local", i);
    if (j && columns < p->m)
        put_digits(local_j, sizeof local_j, "local", j);
    put_type(in, sizeof in, p->in, rows, columns);
    put_type(result, sizeof result, p->out, rows, columns);
    put_type(inner_in, sizeof inner_in, p->in, columns, 0);
    put_type(inner_out, sizeof inner_out, p->out, columns, 0);
    int at = snprintf(out, room,
                      "program (a: %s) { b: %s = pmap[axis_name=i, axis_size=%d%s%s, in_axes=(0), out_axes=(0), program=(x: %s) { ", in,
                      result, p->n, local_i, devices, p->m ? inner_in : p->in);
    if (p->m)
        snprintf(
            out + at, room - (size_t)at,
            "y: %s = pmap[axis_name=j, axis_size=%d%s, in_axes=(0), out_axes=(0), program=(x: %s) { %s }] x\n return y }] a\n return b }",
            inner_out, p->m, local_j, p->in, p->body);
    else
        snprintf(out + at, room - (size_t)at, "%s }] a\n return b }", p->body);
}

/* ------------------------------------------------------------------ running */

static int64_t shard_size(const char *type)
{
    const mf_type *t = mf_type_parse(&type);
    return t->size;
}

/* Numbers whose sums depend on the order of addition. */
static double number(int64_t device, int64_t k) { return ((device * 37 + k * 11) % 64 - 20) * (1.0 + (double)((device * 7 + k) % 5) / 3); }

/* Copies the shards of one process's devices (row-major over i and j) from or to an array. */
typedef struct run {
    const program *p;
    const spread *s;
    const char *text[JOB_MOST], *before[JOB_MOST]; /* before: NULL, or a program that is run first, whatever its result is */
    double in[MOST_NUMBERS], out[JOB_MOST][MOST_NUMBERS];
    char error[JOB_MOST][512];
    int times;
} run;

static bool execute(const char *text, const double *in, double *out, char *error)
{
    mf_error_object *e = NULL;
    mf_array *a = NULL, *b = NULL;
    mf_executable *x = NULL;
    mf_program *q = mf_program_parse(text, NULL, &e);
    if (q)
        x = mf_executable_load(&(mf_load_request){ .client = &mf_client_cpu, .program = q }, &e);
    if (x) {
        const mf_type *type = q->in[0]->type;
        char *numbers = malloc((size_t)type->bytes + 1);
        mf_convert(type->dtype, numbers, MF_F64, in, type->size);
        a = mf_array_from_host(type, numbers);
        free(numbers);
        e = mf_executable_run(x, &a, NULL, &b);
    }
    if (b)
        e = mf_array_copy_out(b, MF_F64, out);
    snprintf(error, 512, "%s", e ? mf_error_text(e) : "");
    bool good = !e;
    mf_drop(e);
    mf_drop(a);
    mf_drop(b);
    mf_drop(x);
    mf_drop(q);
    return good;
}

static void run_process(void *context, int rank)
{
    run *r = context;
    const program *p = r->p;
    int64_t size = shard_size(p->in), at = 0;
    double *in = malloc(sizeof r->in);
    const char *all = "abcdefghijklmnop", *i = r->s->i[rank], *j = r->s->j[rank];
    for (const char *row = i; *row; row++)
        for (const char *column = p->m ? (j ? j : all) : "a"; *column && *column - 'a' < (p->m ? p->m : 1); column++, at += size)
            memcpy(in + at, r->in + ((*row - 'a') * (p->m ? p->m : 1) + *column - 'a') * size, (size_t)size * sizeof *in);
    if (r->before[rank])
        execute(r->before[rank], r->in, r->out[rank], r->error[rank]);
    for (int t = 0; t < r->times; t++)
        if (!execute(r->text[rank], in, r->out[rank], r->error[rank]))
            break;
    free(in);
}

static int owner_of(const program *p, const spread *s, int device)
{
    char i = (char)('a' + device / (p->m ? p->m : 1)), j = (char)('a' + device % (p->m ? p->m : 1));
    int rank = 0;
    while (!strchr(s->i[rank], i) || (s->j[rank] && !strchr(s->j[rank], j)))
        rank++;
    return rank;
}

/* Device ids are assigned process by process, so the program lists them in the order of its indices. */
static void put_devices(char *out, size_t room, const program *p, const spread *s, int *counts)
{
    int total = p->n * (p->m ? p->m : 1), next[JOB_MOST] = { 0 };
    memset(counts, 0, JOB_MOST * sizeof *counts);
    for (int d = 0; d < total; d++)
        counts[owner_of(p, s, d)]++;
    for (int r = 1; r < s->size; r++)
        next[r] = next[r - 1] + counts[r - 1];
    size_t at = (size_t)snprintf(out, room, ", devices=(");
    for (int d = 0; d < total; d++)
        at += (size_t)snprintf(out + at, room - at, "%s%d", d ? "," : "", next[owner_of(p, s, d)]++);
    snprintf(out + at, room - at, ")");
}

static void run_spread(run *r, const program *p, const spread *s, uint64_t seed)
{
    static char text[JOB_MOST][8192];
    char devices[256];
    int counts[JOB_MOST];
    r->p = p;
    r->s = s;
    put_devices(devices, sizeof devices, p, s, counts);
    for (int rank = 0; rank < s->size; rank++) {
        put_program(text[rank], sizeof text[rank], p, s->i[rank], s->j[rank], devices);
        r->text[rank] = text[rank];
        r->error[rank][0] = 0;
    }
    job_run(s->size, counts, seed, run_process, r);
}

static run r;
static double whole[MOST_NUMBERS];

static bool run_whole(const program *p)
{
    char text[8192], error[512];
    int total = p->n * (p->m ? p->m : 1);
    int64_t size = shard_size(p->in);
    for (int d = 0; d < total; d++)
        for (int64_t k = 0; k < size; k++)
            r.in[d * size + k] = number(d, k);
    put_program(text, sizeof text, p, NULL, NULL, "");
    return CHECK(execute(text, r.in, whole, error)) || CHECK_NOTE("%s: %s\n%s", p->name, error, text);
}

/* Compares the rows of all processes with those of a single process. */
static void compare(const program *p, const spread *s)
{
    int64_t size = shard_size(p->out);
    int64_t at[JOB_MOST] = { 0 };
    for (int d = 0; d < p->n * (p->m ? p->m : 1); d++) {
        int rank = owner_of(p, s, d);
        if (!CHECK_STR(r.error[rank], "") || !CHECK_BYTES(r.out[rank] + at[rank], whole + d * size, (size_t)size * sizeof *whole)) {
            CHECK_NOTE("%s: process %d of %d, device %d\n%s", p->name, rank, s->size, d, r.text[rank]);
            return;
        }
        at[rank] += size;
    }
}

/* ------------------------------------------------------------------ the table */

#define SUM "s: f32[3] = psum[axes=(i)] x\n y: f32[3] = add x s\n return y"

static const program over_i[] = {
    { "psum", 8, 0, "f32[3]", "f32[3]", SUM },
    { "psum of bf16", 8, 0, "bf16[3]", "bf16[3]", "s: bf16[3] = psum[axes=(i)] x\n return s" },
    { "psum of f16", 8, 0, "f16[]", "f16[]", "s: f16[] = psum[axes=(i)] x\n return s" },
    { "psum of i8", 8, 0, "i8[5]", "i8[5]", "s: i8[5] = psum[axes=(i)] x\n return s" },
    { "pmax of bf16", 8, 0, "bf16[3]", "bf16[3]", "s: bf16[3] = pmax[axes=(i)] x\n return s" },
    { "extrema", 8, 0, "f32[2]", "f32[2]", "s: f32[2] = pmax[axes=(i)] x\n t: f32[2] = pmin[axes=(i)] x\n y: f32[2] = sub s t\n return y" },
    { "groups", 8, 0, "f32[3]", "f32[3]", "s: f32[3] = psum[axes=(i), groups=(0,4,1,5,2,6,3,7), group_size=2] x\n return s" },
    { "groups of four", 8, 0, "f32[3]", "f32[3]", "s: f32[3] = psum[axes=(i), groups=(7,5,3,1,0,2,4,6), group_size=4] x\n return s" },
    { "uneven groups", 8, 0, "f32[]", "f32[]",
      "s: f32[] = psum[axes=(i), groups=(6,1,4,2,5,0,3,-1,7,-1,-1,-1), group_size=4] x\n return s" },
    { "all_gather", 8, 0, "f32[2]", "f32[8,2]", "y: f32[8,2] = all_gather[axes=(i), axis=0] x\n return y" },
    { "all_gather tiled", 8, 0, "f32[2,3]", "f32[2,24]", "y: f32[2,24] = all_gather[axes=(i), axis=1, tiled=true] x\n return y" },
    { "all_gather in groups", 8, 0, "f32[2]", "f32[4,2]",
      "y: f32[4,2] = all_gather[axes=(i), axis=0, groups=(0,2,4,6,7,5,3,1), group_size=4] x\n return y" },
    { "psum_scatter", 8, 0, "f32[8,2]", "f32[2]", "y: f32[2] = psum_scatter[axes=(i), axis=0] x\n return y" },
    { "psum_scatter of bf16", 8, 0, "bf16[2,16]", "bf16[2,2]", "y: bf16[2,2] = psum_scatter[axes=(i), axis=1, tiled=true] x\n return y" },
    { "all_to_all", 8, 0, "f32[8,3]", "f32[3,8]", "y: f32[3,8] = all_to_all[axes=(i), split_axis=0, concat_axis=1] x\n return y" },
    { "all_to_all tiled", 8, 0, "f32[2,16]", "f32[16,2]",
      "y: f32[16,2] = all_to_all[axes=(i), split_axis=1, concat_axis=0, tiled=true] x\n return y" },
    { "ppermute", 8, 0, "f32[3]", "f32[3]", "y: f32[3] = ppermute[axes=(i), perm=(0,1,1,2,2,3,3,4,4,5,5,6,6,7,7,0)] x\n return y" },
    { "ppermute of few", 8, 0, "f32[3]", "f32[3]", "y: f32[3] = ppermute[axes=(i), perm=(0,7,7,3,2,1)] x\n return y" },
    { "axis_index", 8, 0, "f32[]", "f32[]",
      "k: i32[] = axis_index[axes=(i)]\n f: f32[] = convert_element_type[dtype=f32] k\n y: f32[] = mul f x\n return y" },
    { "several together", 8, 0, "f32[3]", "f32[3]",
      "s: f32[3] = psum[axes=(i)] x\n g: f32[8,3] = all_gather[axes=(i), axis=0] x\n p: f32[3] = ppermute[axes=(i), perm=(3,4,4,3)] x\n"
      " m: f32[3] = pmax[axes=(i)] x\n h: f32[3] = reduce_sum[axes=(0)] g\n u: f32[3] = add s h\n v: f32[3] = add p m\n y: f32[3] = add u v\n return y" },
    { "a chain", 8, 0, "f32[3]", "f32[3]",
      "s: f32[3] = psum[axes=(i)] x\n t: f32[3] = mul s x\n u: f32[3] = pmax[axes=(i)] t\n v: f32[3] = sub t u\n w: f32[3] = psum[axes=(i)] v\n return w" },
    { "in a scan", 8, 0, "f32[3]", "f32[3]",
      "c: f32[3] = scan[length=5, carry=1, body=(z: f32[3]) { s: f32[3] = psum[axes=(i)] z\n t: f32[3] = sub z s\n u: f32[3] = mul t t\n v: f32[3] = tanh u\n return v }] x\n return c" },
    { "in a while", 8, 0, "f32[]", "f32[]",
      "c: f32[] = while[cond=(z: f32[]) { s: f32[] = pmax[axes=(i)] z\n b: bool[] = lt s 1000.0:f32[]\n return b }, "
      "body=(z: f32[]) { s: f32[] = pmax[axes=(i)] z\n t: f32[] = abs s\n u: f32[] = add z t\n return u }] x\n return c" },
    { "in a branch that all take", 8, 0, "f32[]", "f32[]",
      "s: f32[] = pmin[axes=(i)] x\n b: bool[] = lt s 0.0:f32[]\n k: i32[] = convert_element_type[dtype=i32] b\n"
      " y: f32[] = cond[branches=[(z: f32[]) { return z }, (z: f32[]) { t: f32[] = psum[axes=(i)] z\n return t }]] k x\n return y" },
    { "no numbers", 8, 0, "f32[0]", "f32[0]", "s: f32[0] = psum[axes=(i)] x\n return s" },
};

static const spread of_i[] = {
    { 1, { "abcdefgh" }, { 0 } },
    { 2, { "abcd", "efgh" }, { 0 } },
    { 2, { "abc", "defgh" }, { 0 } },
    { 2, { "aceg", "bdfh" }, { 0 } },
    { 3, { "ab", "cdefg", "h" }, { 0 } },
    { 4, { "ab", "cd", "ef", "gh" }, { 0 } },
    { 4, { "ah", "bg", "cdf", "e" }, { 0 } },
    { 7, { "a", "b", "cd", "e", "f", "g", "h" }, { 0 } },
};

#define BOTH(first, second) "s: f32[2] = psum[axes=(" first ")] x\n t: f32[2] = psum[axes=(" second ")] x\n y: f32[2] = sub s t\n return y"

static const program over_ij[] = {
    { "over j", 3, 4, "f32[2]", "f32[2]", "s: f32[2] = psum[axes=(j)] x\n y: f32[2] = sub x s\n return y" },
    { "over i", 3, 4, "f32[2]", "f32[2]", "s: f32[2] = psum[axes=(i)] x\n y: f32[2] = sub x s\n return y" },
    { "over i and over j", 3, 4, "f32[2]", "f32[2]", BOTH("i", "j") },
    { "over both", 3, 4, "f32[2]", "f32[2]", BOTH("i,j", "j,i") },
    { "index over both", 3, 4, "f32[]", "f32[]",
      "k: i32[] = axis_index[axes=(j,i)]\n f: f32[] = convert_element_type[dtype=f32] k\n y: f32[] = mul f x\n return y" },
    { "gather over both", 3, 4, "f32[]", "f32[12]", "y: f32[12] = all_gather[axes=(j,i), axis=0] x\n return y" },
    { "all_to_all over i", 3, 4, "f32[3]", "f32[3]", "y: f32[3] = all_to_all[axes=(i), split_axis=0, concat_axis=0] x\n return y" },
    { "ring over j", 3, 4, "f32[]", "f32[]", "y: f32[] = ppermute[axes=(j), perm=(0,1,1,2,2,3,3,0)] x\n return y" },
    { "over i of what is the same along j", 3, 4, "f32[]", "f32[]",
      "m: f32[] = pmax[axes=(j)] x\n s: f32[] = psum[axes=(i)] m\n t: f32[] = psum[axes=(j)] s\n return t" },
    { "in a scan", 3, 4, "f32[]", "f32[]",
      "c: f32[] = scan[length=3, carry=1, body=(z: f32[]) { s: f32[] = psum[axes=(i)] z\n t: f32[] = pmax[axes=(j)] s\n u: f32[] = sub z t\n v: f32[] = mul u 0.5:f32[]\n return v }] x\n return c" },
};

static const spread of_ij[] = {
    { 3, { "a", "b", "c" }, { 0 } },
    { 2, { "ac", "b" }, { 0 } },
    { 2, { "abc", "abc" }, { "abc", "d" } },
    { 3, { "abc", "abc", "abc" }, { "a", "cd", "b" } },
    { 4, { "ab", "ab", "c", "c" }, { "abc", "d", "abc", "d" } },
    { 7, { "a", "b", "c", "ab", "ab", "c", "c" }, { "ab", "ab", "ab", "c", "d", "c", "d" } },
};

static void each(const program *programs, size_t count, const spread *spreads, size_t spread_count)
{
    r.times = 3;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < spread_count && (k || run_whole(&programs[i])); k++) {
            for (int way = 0; way < 4; way++) { /* reductions whole or in pieces, direct or relayed */
                atomic_store(&mf_reduce_scatter_from, way & 1 ? 1 : INT64_MAX);
                atomic_store(&mf_algorithm_forced, way < 2 ? MF_ALGORITHM_DIRECT : way == 2 ? MF_ALGORITHM_DOUBLING : MF_ALGORITHM_HALVING);
                run_spread(&r, &programs[i], &spreads[k], 1 + i * 100 + k);
                compare(&programs[i], &spreads[k]);
            }
        }
    atomic_store(&mf_algorithm_forced, -1);
}

#define COUNT(list) (sizeof(list) / sizeof *(list))

TEST(equal_bits_however_an_axis_is_spread) { each(over_i, COUNT(over_i), of_i, COUNT(of_i)); }

TEST(equal_bits_however_two_axes_are_spread) { each(over_ij, COUNT(over_ij), of_ij, COUNT(of_ij)); }

/* ------------------------------------------------------------------ when processes do not do the same */

/* Two processes of four devices each; each runs its own body and gets the expected error. */
typedef struct quarrel {
    const char *name;
    const char *bodies[2];
    const char *words[2]; /* a part of each process's error message; "": no error is required */
} quarrel;

static const quarrel quarrels[] = {
    { "another op",
      { "s: f32[] = psum[axes=(i)] x\n return s", "s: f32[] = pmax[axes=(i)] x\n return s" },
      { "process 1 computes something else here", "process 0 computes something else here" } },
    { "another type",
      { "s: f32[] = psum[axes=(i)] x\n return s",
        "b: f64[] = convert_element_type[dtype=f64] x\n s: f64[] = psum[axes=(i)] b\n y: f32[] = convert_element_type[dtype=f32] s\n return y" },
      { "process 1 computes something else here", "process 0 computes something else here" } },
    { "another order",
      { "s: f32[] = psum[axes=(i)] x\n t: f32[] = pmax[axes=(i), groups=(0,1,2,3,4,5,6,7), group_size=8] s\n return t",
        "s: f32[] = pmax[axes=(i), groups=(0,1,2,3,4,5,6,7), group_size=8] x\n t: f32[] = psum[axes=(i)] s\n return t" },
      { "process 1 computes something else here", "process 0 computes something else here" } },
    { "nothing", { "s: f32[] = psum[axes=(i)] x\n return s", "s: f32[] = neg x\n return s" }, { "ended its call 0 without this", "" } },
    { "more rounds",
      { "c: f32[] = scan[length=3, carry=1, body=(z: f32[]) { s: f32[] = psum[axes=(i)] z\n t: f32[] = tanh s\n return t }] x\n return c",
        "c: f32[] = scan[length=2, carry=1, body=(z: f32[]) { s: f32[] = psum[axes=(i)] z\n t: f32[] = tanh s\n return t }] x\n return c" },
      { "ended its call 0 without this", "" } },
    { "devices that disagree",
      { "k: i32[] = axis_index[axes=(i)]\n y: f32[] = cond[branches=[(z: f32[]) { s: f32[] = psum[axes=(i)] z\n return s }, (z: f32[]) { return z }]] k x\n return y",
        "s: f32[] = psum[axes=(i)] x\n return s" },
      { "The devices disagree", "process 0: The devices disagree" } },
};

static void put_quarrel(char text[2][2048], const quarrel *what)
{
    for (int rank = 0; rank < 2; rank++) {
        program own = { what->name, 8, 0, "f32[]", "f32[]", what->bodies[rank] };
        put_program(text[rank], sizeof text[rank], &own, rank ? "efgh" : "abcd", NULL, "");
    }
}

TEST(processes_that_do_not_do_the_same_get_an_error)
{
    static char text[2][2048];
    static const program any = { "any", 8, 0, "f32[]", "f32[]", "" };
    static const int devices[2] = { 4, 4 };
    r.p = &any;
    r.s = &of_i[1];
    r.times = 1;
    for (uint64_t seed = 0; seed < 10; seed++)
        for (size_t i = 0; i < COUNT(quarrels); i++) {
            put_quarrel(text, &quarrels[i]);
            for (int rank = 0; rank < 2; rank++)
                r.text[rank] = text[rank];
            job_run(2, devices, seed, run_process, &r);
            for (int rank = 0; rank < 2; rank++)
                if (!CHECK_CONTAINS(r.error[rank], quarrels[i].words[rank]))
                    CHECK_NOTE("%s: process %d", quarrels[i].name, rank);
        }
}

TEST(the_next_call_after_a_failure_is_a_good_one)
{
    static char text[2][2048];
    static const program good = { "psum", 8, 0, "f32[3]", "f32[3]", SUM };
    REQUIRE(run_whole(&good));
    r.times = 2;
    for (size_t i = 0; i < COUNT(quarrels); i++) {
        put_quarrel(text, &quarrels[i]);
        for (int rank = 0; rank < 2; rank++)
            r.before[rank] = text[rank];
        run_spread(&r, &good, &of_i[1], i);
        compare(&good, &of_i[1]);
    }
    memset(r.before, 0, sizeof r.before);
}

TEST(a_map_of_more_devices_than_there_are)
{
    static char text[8192];
    static const program any = { "any", 8, 0, "f32[]", "f32[]", "s: f32[] = psum[axes=(i)] x\n return s" };
    static const int devices[2] = { 4, 3 };
    r.p = &any;
    r.s = &of_i[1];
    r.times = 1;
    for (int rank = 0; rank < 2; rank++) {
        put_program(text + rank * 4096, 4096, &any, rank ? "efgh" : "abcd", NULL, "");
        r.text[rank] = text + rank * 4096;
    }
    job_run(2, devices, 1, run_process, &r);
    for (int rank = 0; rank < 2; rank++)
        CHECK_CONTAINS(r.error[rank], "more devices than the processes together");
}

/* ------------------------------------------------------------------ devices */

static char seen[JOB_MOST][256];

static void look(void *context, int rank)
{
    (void)context;
    mf_device_list all = mf_devices(), own = mf_local_devices();
    int at = snprintf(seen[rank], sizeof seen[rank], "process %d of %d, %d of %d:", mf_process_index(), mf_process_count(),
                      mf_local_device_count(), mf_device_count());
    for (int i = 0; i < all.count; i++)
        at += snprintf(seen[rank] + at, sizeof seen[rank] - (size_t)at, " %d/%d", mf_device_process(all.at[i]),
                       mf_device_local_ordinal(all.at[i]));
    for (int i = 0; i < own.count; i++)
        at += snprintf(seen[rank] + at, sizeof seen[rank] - (size_t)at, " own %d", mf_device_id(own.at[i]));
}

TEST(each_process_has_its_devices)
{
    static const int devices[3] = { 1, 3, 2 };
    CHECK_EQ_INT(mf_set_num_cpu_devices(8), MF_OK);
    job_run(3, devices, 1, look, NULL);
    CHECK_STR(seen[0], "process 0 of 3, 1 of 6: 0/0 1/0 1/1 1/2 2/0 2/1 own 0");
    CHECK_STR(seen[1], "process 1 of 3, 3 of 6: 0/0 1/0 1/1 1/2 2/0 2/1 own 1 own 2 own 3");
    CHECK_STR(seen[2], "process 2 of 3, 2 of 6: 0/0 1/0 1/1 1/2 2/0 2/1 own 4 own 5");
    CHECK(mf_process_count() == 1 && mf_local_device_count() == 8);
}

static mf_value sum(mf_value x) { return mf_psum(x, "i"); }

static void map_one_row(void *context, int rank)
{
    (void)context;
    MF_SCOPE;
    mf_value r = mf_call(mf_pmap(sum, "i"), mf_ones(MF_SHAPE(rank ? 1 : 2), MF_F32));
    snprintf(seen[rank], sizeof seen[rank], "%s", mf_is_error(r) ? mf_error(r) : mf_str(r));
}

TEST(a_process_without_devices_gets_an_error)
{
    static const int devices[2] = { 2, 0 };
    mf_clear_caches();
    job_run(2, devices, 1, map_one_row, NULL);
    CHECK_STR(seen[0], "[2. 2.]");
    CHECK_CONTAINS(seen[1], "this process has none of the map's 2 devices");
}
