/* The native engine, and in a test of its own a PJRT plugin that is the default backend, against the reference on random programs
 * (generate.h): the same program on both, and on the reference in double precision. Integers and bools must have the same bits. A float may
 * be off the double result by a few times what the reference itself is off anywhere in that result, or by what the roundings of such a
 * program can amount to: where the first bound does not hold, the program runs again in double precision with every result disturbed by at
 * most twice its rounding error.
 *
 * A failure prints the seed and the program, cut down as far as it still fails. MF_DIFF_SEED and MF_DIFF_COUNT choose the programs. */
#include "backend/native/llvm/tier_up.h"
#include "check.h"
#include "generate.h"
#include "ops/sample.h"
#include "rewrite.h"
#include "runtime/compile/schedule/schedule.h"
#include "runtime/device.h"
#include "runtime/executable.h"

#include <manyfold/debug.h>

#include <signal.h>
#include <unistd.h>

enum { OUTS = 32, NOISES = 6 };

static const double times_reference = 8, times_noise = 8, floor_ulps = 16;

typedef struct trial {
    const generated *g;
    uint64_t seed;
    mf_array *native[OUTS], *single[OUTS], *wide[OUTS];
    double noise[OUTS]; /* < 0: unknown */
    char what[512];     /* the description of the failure */
} trial;

static const mf_segment_compiler *engine; /* the engine under test; NULL: the default backend */
static uint64_t current;                  /* for the report of a crash */
static int equations, refusals, disturbed;

/* ------------------------------------------------------------------ running */

/* compiler: a compiler of the CPU; NULL: runs on the default backend. */
static bool run_inputs(const trial *t, const mf_program *p, const mf_segment_compiler *compiler, mf_array **out, mf_error_object **error)
{
    mf_array *in[GENERATED_INPUTS];
    for (int i = 0; i < p->in_count; i++) {
        in[i] = generated_input(t->g, i, t->seed);
        if (in[i]->type == p->in[i]->type)
            continue;
        mf_array *wide = mf_array_new(p->in[i]->type);
        mf_error_ignore(mf_array_copy_out(in[i], MF_F64, mf_array_data(wide)));
        mf_drop(in[i]);
        in[i] = wide;
    }
    *error = compiler ? run_program(p, compiler, in, out) : run_program_on(mf_client_default(), p, in, out);
    drop_arrays(in, p->in_count);
    return !*error;
}

/* The engine's three ways to make kernels, inline and on the pool, and what segments compute again, by turns. */
static void choose_way(uint64_t seed)
{
    mf_native_tiers = seed % 8 == 0 ? MF_TIERS_LOOPS : seed % 8 == 1 ? MF_TIERS_SECOND : MF_TIERS_FIRST;
    mf_native_rows_use = seed % 5 < 3 ? MF_ROWS_ALWAYS : MF_ROWS_WHERE_IT_PAYS;
    mf_executable_inline_below(seed % 3 == 0 ? 0 : seed % 3 == 1 ? 1e12 : 200000);
    mf_schedule_large_bytes = seed % 2 ? 1 : MF_SCHEDULE_LARGE_BYTES;
}

/* ------------------------------------------------------------------ comparing */

static double number(const mf_array *a, int64_t i)
{
    return mf_load_f64(a->type->dtype, (const char *)mf_array_data(a) + i * mf_dtype_size(a->type->dtype));
}

static double distance(double a, double b)
{
    return a == b || (isnan(a) && isnan(b)) ? 0 : isfinite(a) && isfinite(b) ? fabs(a - b) : INFINITY;
}

/* Narrower than what it is computed from, an infinity may be there for a large number. */
static double farthest(const mf_array *a, const mf_array *b)
{
    double most = 0;
    for (int64_t i = 0; i < a->type->size; i++)
        most = fmax(most, distance(number(a, i), number(b, i)));
    return most;
}

static double largest(const mf_array *a)
{
    double most = 0;
    for (int64_t i = 0; i < a->type->size; i++)
        if (isfinite(number(a, i)))
            most = fmax(most, fabs(number(a, i)));
    return most;
}

static double unit_of(mf_dtype d) { return d == MF_F16 ? 0x1p-11 : d == MF_BF16 ? 0x1p-8 : d == MF_F32 ? 0x1p-24 : 0x1p-53; }

/* What the roundings of the program can do to its results. */
static void measure_noise(trial *t, const mf_program *p)
{
    disturbed++;
    for (int n = 0; n < NOISES; n++) {
        mf_error_object *error = NULL;
        mf_array *out[OUTS] = { 0 };
        mf_program *noisy = program_with_noise(p, t->seed * 977 + (uint64_t)n, &error);
        if (noisy && run_inputs(t, noisy, &mf_segment_compiler_reference, out, &error))
            for (int o = 0; o < p->out_count; o++)
                t->noise[o] = fmax(t->noise[o], farthest(out[o], t->wide[o]));
        if (error)
            CHECK_NOTE("noise: %s", mf_error_text(error));
        mf_drop(error);
        drop_arrays(out, p->out_count);
        mf_drop(noisy);
    }
}

static bool wrong(trial *t, int o, int64_t i, double tolerance)
{
    snprintf(t->what, sizeof t->what, "result %d, element %lld: native %.9g, reference %.9g, in double precision %.17g (tolerance %.3g)", o,
             (long long)i, number(t->native[o], i), number(t->single[o], i), number(t->wide[o], i), tolerance);
    return false;
}

static bool floats_agree(trial *t, const mf_program *p, int o)
{
    mf_array *native = t->native[o], *wide = t->wide[o];
    double about = engine ? largest(wide) : fmax(1, largest(wide)); /* the absolute accuracy of a plugin's functions, also near 0 */
    double floor = floor_ulps * unit_of(native->type->dtype) * about;
    double tolerance = times_reference * farthest(t->single[o], wide) + floor;
    for (int64_t i = 0; i < native->type->size; i++) {
        double off = distance(number(native, i), number(wide, i));
        if (off <= tolerance || distance(number(native, i), number(t->single[o], i)) == 0)
            continue;
        if (t->noise[o] < 0)
            measure_noise(t, p);
        tolerance = fmax(tolerance, times_noise * t->noise[o] + floor);
        if (!(off <= tolerance))
            return wrong(t, o, i, tolerance);
    }
    return true;
}

static bool bits_agree(trial *t, int o)
{
    int size = mf_dtype_size(t->native[o]->type->dtype);
    for (int64_t i = 0; i < t->native[o]->type->size; i++)
        if (memcmp((char *)mf_array_data(t->native[o]) + i * size, (char *)mf_array_data(t->single[o]) + i * size, (size_t)size) != 0)
            return wrong(t, o, i, 0);
    return true;
}

/* Integers must have the same bits. That includes the reference in double precision: else the generator let an op that is not continuous
 * see inexact numbers. */
static bool agree(trial *t, const mf_program *p)
{
    for (int o = 0; o < p->out_count; o++) {
        t->noise[o] = -1;
        if (mf_dtype_is_float(t->native[o]->type->dtype) ? !floats_agree(t, p, o) : !bits_agree(t, o))
            return false;
    }
    return true;
}

/* True if both results agree; else t->what says why. A program that the reference refuses counts as agreeing. */
static bool compare(trial *t, const mf_program *p, bool *refused)
{
    mf_error_object *error = NULL;
    mf_array **sets[3] = { t->single, t->wide, t->native };
    mf_program *wide = program_in_f64(p, &error);
    bool good = wide && run_inputs(t, p, &mf_segment_compiler_reference, t->single, &error) &&
                run_inputs(t, wide, &mf_segment_compiler_reference, t->wide, &error);
    *refused = !good;
    if (!good)
        snprintf(t->what, sizeof t->what, "refused: %s", error ? mf_error_text(error) : "?");
    if (good && !(good = run_inputs(t, p, engine, t->native, &error)))
        snprintf(t->what, sizeof t->what, "the engine: %s", mf_error_text(error));
    else if (good)
        good = agree(t, p);
    for (int k = 0; k < 3; k++) {
        drop_arrays(sets[k], OUTS);
        memset(sets[k], 0, OUTS * sizeof *sets[k]);
    }
    mf_error_ignore(error);
    mf_drop(wide);
    return good || *refused;
}

/* ------------------------------------------------------------------ shrinking */

/* Replaces *p by the smaller program if that fails too. */
static bool still_fails(trial *t, mf_program **p, mf_program *smaller)
{
    char before[sizeof t->what];
    bool refused = true;
    memcpy(before, t->what, sizeof before);
    if (smaller && !compare(t, smaller, &refused)) {
        mf_drop(*p);
        *p = smaller;
        return true;
    }
    memcpy(t->what, before, sizeof before);
    mf_drop(smaller);
    return false;
}

static mf_program *with_one_output(const mf_program *p, int output)
{
    mf_builder b;
    mf_error_object *error = NULL;
    mf_builder_init(&b, NULL);
    mf_variable *in[GENERATED_INPUTS], *out[OUTS];
    for (int i = 0; i < p->in_count; i++)
        in[i] = mf_builder_input(&b, p->in[i]->type);
    mf_inline(&b, p, in, out);
    mf_program *one = mf_builder_finish(&b, &out[output], 1, &error);
    mf_error_ignore(error);
    return one;
}

/* True if the program became smaller and still fails. */
static bool progress_at(trial *t, mf_program **p, int target, cut_way way, bool *progress)
{
    mf_program *smaller = program_with_cut(*p, target, way);
    if (smaller && program_equations(smaller) >= program_equations(*p)) {
        mf_drop(smaller);
        return false;
    }
    bool got = still_fails(t, p, smaller);
    *progress = *progress || got;
    return got;
}

static mf_program *shrink(trial *t, mf_program *p)
{
    for (int o = 0; p->out_count > 1 && o < p->out_count; o++)
        if (still_fails(t, &p, with_one_output(p, o)))
            break;
    for (bool progress = true; progress;) {
        progress = false;
        for (int target = program_equations(p) - 1; target >= 0; target--)
            for (int way = CUT_TO_OPERAND; way <= CUT_TO_ONES && !progress_at(t, &p, target, (cut_way)way, &progress); way++) {
            }
    }
    return p;
}

static void report(trial *t, mf_program *p)
{
    CHECK_NOTE("%s", t->what);
    int before = program_equations(p);
    p = shrink(t, mf_retain(p));
    mf_text text = { 0 };
    mf_program_print(&text, p);
    CHECK_NOTE("MF_DIFF_SEED=%llu MF_DIFF_COUNT=1 gives it again; cut down from %d equations:\n%s\n%s", (unsigned long long)t->seed, before,
               t->what, text.at);
    for (int i = 0; i < p->in_count; i++)
        CHECK_NOTE("input %d: %s in [%g, %g]%s", i, mf_type_name(p->in[i]->type), t->g->low[i], t->g->high[i],
                   t->g->whole[i] ? ", whole numbers" : "");
    mf_text_free(&text);
    mf_drop(p);
}

/* ------------------------------------------------------------------ the programs */

static void say_seed(int signal_number)
{
    char text[64];
    int n = snprintf(text, sizeof text, "\nMF_DIFF_SEED=%llu MF_DIFF_COUNT=1 crashes\n", (unsigned long long)current);
    if (write(2, text, (size_t)n) == n)
        signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void watch_crashes(void)
{
    static const int signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
    for (int i = 0; i < 5; i++) {
        struct sigaction now;
        if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL) /* sanitizers have better handlers */
            signal(signals[i], say_seed);
    }
}

static bool *seen; /* by op: a program contained it */

static void note_ops(const mf_program *p)
{
    for (int i = 0; i < p->eqn_count; i++) {
        const mf_eqn *e = p->eqns[i];
        for (int k = 0; k < mf_op_count(); k++)
            seen[k] = seen[k] || mf_op_at(k) == e->op;
        for (int k = 0; k < mf_params_program_count(e->op, e->params); k++)
            note_ops(*mf_params_program_at(e->op, e->params, k));
    }
}

/* Ops that generated programs cannot contain, and why; every other op must occur. */
static bool is_left_out(const mf_op *op)
{
    static const char *const names[] = {
        "bitcast_convert_type", /* the same bits are another number in double precision */
        "custom_jvp_call",      /* their rules are C functions: transform/test_custom.c */
        "custom_vjp_call",
        "custom_linear",
        "fft", /* of complex numbers, which are generated only as pairs: ops/test_fft.c, ops/test_oracle.c */
        NULL
    };
    bool out = (op->flags & MF_OP_HOST) != 0; /* C functions too: ops/test_callback.c */
    for (const char *const *name = names; *name && !out; name++)
        out = !strcmp(*name, op->name);
    return out;
}

static void check_ops(void)
{
    for (int k = 0; k < mf_op_count(); k++) {
        bool out = is_left_out(mf_op_at(k));
        if (!CHECK(seen[k] != out))
            CHECK_NOTE("%s: %s", mf_op_at(k)->name, out ? "is made after all" : "no program has it");
    }
}

/* Results in which a plugin may differ: the signs of the vectors of eigh and svd; and a solve with a singular triangular matrix and a zero
 * right side, which gives NaN where LAPACK gives zeros. */
static bool has_answers_of_its_own(const mf_program *p)
{
    bool has = false;
    for (int i = 0; i < p->eqn_count && !has; i++) {
        const mf_eqn *e = p->eqns[i];
        has = !strcmp(e->op->name, "eigh") || !strcmp(e->op->name, "svd") || !strcmp(e->op->name, "triangular_solve");
        for (int k = 0; k < mf_params_program_count(e->op, e->params); k++)
            has = has || has_answers_of_its_own(*mf_params_program_at(e->op, e->params, k));
    }
    return has;
}

static void try_seed(uint64_t seed)
{
    generated g;
    mf_error_object *error = NULL;
    bool refused = false;
    current = seed;
    choose_way(seed);
    if (!CHECK(generate_program(seed, &g, &error))) {
        CHECK_NOTE("MF_DIFF_SEED=%llu: %s", (unsigned long long)seed, mf_error_text(error));
        mf_drop(error);
        return;
    }
    if (!engine && has_answers_of_its_own(g.p)) {
        mf_drop(g.p);
        return;
    }
    trial t = { .g = &g, .seed = seed };
    bool same = compare(&t, g.p, &refused);
    equations += program_equations(g.p);
    note_ops(g.p);
    refusals += refused;
    if (!CHECK(!refused))
        CHECK_NOTE("MF_DIFF_SEED=%llu: %s", (unsigned long long)seed, t.what);
    if (!CHECK(same))
        report(&t, g.p);
    mf_drop(g.p);
}

static int64_t setting(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoll(text, NULL, 10) : otherwise;
}

TEST(native_agrees_with_the_reference)
{
    const char *checked = getenv("MF_SANITIZE");
    int64_t seed = setting("MF_DIFF_SEED", 1), count = setting("MF_DIFF_COUNT", checked && *checked ? 300 : 2000);
    if (!mf_segment_compiler_find("native"))
        SKIP("this machine cannot run the native engine");
    engine = &mf_segment_compiler_native;
    mf_error_ignore(mf_device_set_total(GENERATED_DEVICES));
    watch_crashes();
    int64_t done = 0;
    seen = calloc((size_t)mf_op_count() + 1, sizeof *seen);
    for (; done < count && check_failures < 3; done++)
        try_seed((uint64_t)(seed + done));
    mf_native_tiers = MF_TIERS_AS_ASKED;
    mf_native_rows_use = MF_ROWS_WHERE_IT_PAYS;
    mf_schedule_large_bytes = MF_SCHEDULE_LARGE_BYTES;
    mf_executable_inline_below(200000);
    printf("(%lld programs, %d equations; noise measured for %d results) ", (long long)done, equations, disturbed);
    CHECK_EQ_INT(refusals, 0);
    if (done >= 2000)
        check_ops();
    free(seen);
}

/* Fewer programs than on the CPU, because XLA compiles slowly. */
TEST(a_plugin_agrees_with_the_reference)
{
    int64_t seed = setting("MF_DIFF_SEED", 1), count = setting("MF_DIFF_COUNT", 200), done = 0;
    if (mf_client_default() == &mf_client_cpu)
        SKIP("no plugin is the default backend");
    engine = NULL;
    mf_error_ignore(mf_device_set_total(GENERATED_DEVICES));
    watch_crashes();
    seen = calloc((size_t)mf_op_count() + 1, sizeof *seen);
    for (; done < count && check_failures < 3; done++)
        try_seed((uint64_t)(seed + done));
    printf("(%lld programs, %d equations, %d refused; noise measured for %d results) ", (long long)done, equations, refusals, disturbed);
    CHECK_EQ_INT(refusals, 0);
    free(seen);
}

/* ------------------------------------------------------------------ loops in both tiers */

static bool has_loop(const mf_program *p)
{
    bool has = false;
    for (int i = 0; i < p->eqn_count && !has; i++) {
        const mf_eqn *e = p->eqns[i];
        has = e->op == &mf_op_while || e->op == &mf_op_scan;
        for (int k = 0; k < mf_params_program_count(e->op, e->params); k++)
            has = has || has_loop(*mf_params_program_at(e->op, e->params, k));
    }
    return has;
}

static bool same_bits(const mf_array *a, const mf_array *b)
{
    int size = mf_dtype_size(a->type->dtype);
    bool real = mf_dtype_is_float(a->type->dtype);
    for (int64_t i = 0; i < a->type->size; i++)
        if (memcmp((char *)mf_array_data(a) + i * size, (char *)mf_array_data(b) + i * size, (size_t)size) != 0 &&
            !(real && isnan(number(a, i)) && isnan(number(b, i))))
            return false;
    return true;
}

static void compare_tiers(uint64_t seed, const generated *g)
{
    trial t = { .g = g, .seed = seed };
    mf_error_object *error = NULL;
    mf_native_tiers = MF_TIERS_FIRST;
    bool ran = run_inputs(&t, g->p, &mf_segment_compiler_native, t.single, &error);
    mf_native_tiers = MF_TIERS_LOOPS;
    ran = ran && run_inputs(&t, g->p, &mf_segment_compiler_native, t.native, &error);
    if (!CHECK(ran))
        CHECK_NOTE("MF_DIFF_SEED=%llu: %s", (unsigned long long)seed, mf_error_text(error));
    for (int o = 0; ran && o < g->p->out_count; o++)
        if (!CHECK(same_bits(t.single[o], t.native[o]))) {
            mf_text text = { 0 };
            mf_program_print(&text, g->p);
            CHECK_NOTE("MF_DIFF_SEED=%llu MF_DIFF_COUNT=1: result %d differs between the tiers:\n%s", (unsigned long long)seed, o, text.at);
            mf_text_free(&text);
        }
    mf_error_ignore(error);
    drop_arrays(t.single, OUTS);
    drop_arrays(t.native, OUTS);
}

TEST(loops_have_the_same_bits_in_both_tiers)
{
    const char *checked = getenv("MF_SANITIZE");
    int64_t seed = setting("MF_DIFF_SEED", 1), count = setting("MF_DIFF_COUNT", checked && *checked ? 100 : 600), loops = 0;
    int64_t before = mf_compiler_read().loops;
    if (!mf_segment_compiler_find("native"))
        SKIP("this machine cannot run the native engine");
    for (int64_t i = 0; i < count && check_failures < 3; i++) {
        generated g;
        mf_error_object *error = NULL;
        current = (uint64_t)(seed + i);
        if (CHECK(generate_program(current, &g, &error)) && has_loop(g.p)) {
            compare_tiers(current, &g);
            loops++;
        }
        mf_error_ignore(error);
        mf_drop(g.p);
    }
    mf_native_tiers = MF_TIERS_AS_ASKED;
    printf("(%lld programs, %lld loops compiled) ", (long long)loops, (long long)(mf_compiler_read().loops - before));
}
