/* Tests every op of the op table with its own samples; README.md tells what is checked. A failure names op and sample. */
#include "ops/sample.h"

#include "check.h"
#include "ops/ops.h"
#include "transform/transform.h"

/* Devices for the maps around collectives. */
__attribute__((constructor)) static void four_devices(void) { setenv("MF_NUM_CPU_DEVICES", "4", 1); }

/* ---- which ops
 * No text can say what an op calls that is made of C functions: callbacks and custom rules are tried in test_callback.c and
 * transform/test_custom.c, check_nan, which only they have beside them, in passes/test_checks.c. */
static bool calls_functions(const mf_op *op)
{
    for (const mf_param *p = op->params; p && p->name; p++)
        if (p->kind == MF_PARAM_RULE)
            return true;
    return op->flags & MF_OP_HOST || op == &mf_op_custom_linear; /* which exists only for custom_vjp's transpose */
}

static uint64_t seed_of(const sample *s, int salt) { return mf_hash(s->text, strlen(s->text), (uint64_t)salt + 1); }

/* Calls `check` for every sample of every op that can be evaluated. */
static void for_samples(void (*check)(const sample *s))
{
    for (int i = 0; i < mf_op_count(); i++) {
        const mf_op *op = mf_op_at(i);
        for (const char *const *text = op->samples; !calls_functions(op) && *text; text++) {
            sample s;
            if (sample_read(&s, op, *text))
                check(&s);
            sample_free(&s);
        }
    }
}

TEST(ops_are_complete)
{
    for (int i = 0; i < mf_op_count(); i++) {
        const mf_op *op = mf_op_at(i);
        bool whole = op->name && op->type_rule && op->jvp && op->transpose && op->partial_eval && op->dce && op->batch && op->variance &&
                     op->cost && op->lower && op->evaluate && op->samples && (!op->params == !op->params_size);
        if (!CHECK(whole))
            CHECK_NOTE("op %s lacks a rule", op->name ? op->name : "without a name");
        if (!CHECK(op->name && mf_op_find(op->name, (int)strlen(op->name)) == op))
            CHECK_NOTE("op %s is not found by its name", op->name);
        if (!CHECK(calls_functions(op) || op->samples[0]))
            CHECK_NOTE("op %s has no samples", op->name);
    }
}

/* ---- comparing arrays */
static double tolerance_of(mf_dtype d)
{
    switch (d) {
    case MF_F16: return 2e-3;
    case MF_BF16: return 1.6e-2;
    case MF_C64:
    case MF_F32: return 4e-6;
    case MF_C128:
    case MF_F64: return 1e-12;
    default: return 0;
    }
}

/* A product sums up to 18 products of numbers up to 2, and oneDNN's order of summation depends on the machine: two sums differ by at most 2
 * n u (n 4). */
static double product_tolerance(const mf_op *op, mf_dtype d)
{
    bool sums = op == &mf_op_dot_general || op == &mf_op_conv_general_dilated;
    return sums && d == MF_F32 ? 2 * 18 * (18 * 4) * 0x1p-24 : tolerance_of(d);
}

static bool number_near(mf_dtype d, const char *p, const char *q, double tolerance)
{
    double x = mf_load_f64(d, p), y = mf_load_f64(d, q);
    if (memcmp(p, q, (size_t)mf_dtype_size(d)) == 0 || (isnan(x) && isnan(y)))
        return true;
    return tolerance > 0 && (x == y || fabs(x - y) <= tolerance * fmax(1, fabs(y)));
}

/* Whether element i of a and element k of b have the same bits, are both NaN or, with a tolerance, are near. */
static bool element_near(const mf_array *a, int64_t i, const mf_array *b, int64_t k, double tolerance)
{
    mf_dtype d = a->type->dtype;
    int size = mf_dtype_size(d);
    const char *p = (const char *)mf_array_data(a) + i * size, *q = (const char *)mf_array_data(b) + k * size;
    if (memcmp(p, q, (size_t)size) == 0)
        return true;
    if (mf_dtype_is_complex(d)) {
        mf_dtype part = d == MF_C64 ? MF_F32 : MF_F64;
        return number_near(part, p, q, tolerance) && number_near(part, p + size / 2, q + size / 2, tolerance);
    }
    return mf_dtype_is_float(d) && number_near(d, p, q, tolerance);
}

static double element(const mf_array *a, int64_t i)
{
    return mf_load_f64(a->type->dtype, (const char *)mf_array_data(a) + i * mf_dtype_size(a->type->dtype));
}

static bool arrays_near(const sample *s, const char *what, int output, const mf_array *got, const mf_array *want, double tolerance)
{
    for (int64_t i = 0; i < got->type->size; i++)
        if (!element_near(got, i, want, i, tolerance))
            return sample_fail(s, "%s: element %lld of result %d is %.17g, expected %.17g", what, (long long)i, output, element(got, i),
                               element(want, i));
    return true;
}

/* ---- running a sample: operands and results on the reference backend */
typedef struct trial {
    const sample *s;
    mf_program *p;
    mf_array *in[SAMPLE_MAX], *out[SAMPLE_MAX];
} trial;

static bool trial_begin(trial *t, const sample *s)
{
    mf_error_object *error = NULL;
    memset(t, 0, sizeof *t);
    t->s = s;
    if (!(t->p = sample_program(s, &error)))
        return sample_fail_error(s, "type rule", error);
    if ((error = mf_program_verify(t->p, NULL)))
        return sample_fail_error(s, "verifier", error);
    for (int i = 0; i < s->in_count; i++)
        t->in[i] = sample_array(&s->in[i], seed_of(s, i));
    if ((error = run_program(t->p, mf_segment_compiler_find("reference"), t->in, t->out)))
        return sample_fail_error(s, "run", error);
    return true;
}

static void trial_end(trial *t)
{
    drop_arrays(t->in, SAMPLE_MAX);
    drop_arrays(t->out, SAMPLE_MAX);
    mf_drop(t->p);
}

/* ---- evaluation */
static void check_results(const trial *t)
{
    const sample *s = t->s;
    if (s->out_count && s->out_count != t->p->out_count)
        sample_fail(s, "has %d results, expected %d", t->p->out_count, s->out_count);
    for (int i = 0; i < t->p->out_count; i++) {
        const mf_type *type = t->p->out[i]->type;
        if (t->out[i]->type->dtype != type->dtype || !mf_type_same_shape(t->out[i]->type, type))
            sample_fail(s, "result %d is %s, the type rule says %s", i, mf_type_name(t->out[i]->type), mf_type_name(type));
        if (i >= s->out_count)
            continue;
        if (s->out[i].type->dtype != type->dtype || !mf_type_same_shape(s->out[i].type, type)) {
            sample_fail(s, "result %d is %s, the sample expects %s", i, mf_type_name(type), mf_type_name(s->out[i].type));
            continue;
        }
        mf_array *want = sample_array(&s->out[i], 0);
        if (s->out[i].values)
            arrays_near(s, "reference", i, t->out[i], want, 0);
        mf_drop(want);
    }
}

static void check_evaluation(const sample *s)
{
    trial t;
    if (trial_begin(&t, s))
        check_results(&t);
    trial_end(&t);
}

TEST(samples_evaluate_to_what_they_expect) { for_samples(check_evaluation); }

static void check_backends(const sample *s)
{
    trial t;
    bool begun = trial_begin(&t, s);
    for (int i = 0; begun && mf_segment_compilers[i]; i++) {
        const mf_segment_compiler *compiler = mf_segment_compiler_find(mf_segment_compilers[i]->name);
        mf_array *out[SAMPLE_MAX];
        if (!compiler || strcmp(compiler->name, "reference") == 0)
            continue;
        mf_error_object *error = run_program(t.p, compiler, t.in, out);
        for (int o = 0; o < t.p->out_count && !error; o++)
            arrays_near(s, compiler->name, o, out[o], t.out[o], s->op->approximate ? product_tolerance(s->op, out[o]->type->dtype) : 0);
        if (error)
            sample_fail_error(s, compiler->name, error);
        drop_arrays(out, t.p->out_count);
    }
    trial_end(&t);
}

TEST(backends_agree_with_the_reference) { for_samples(check_backends); }

/* ---- long operands, which compiled code processes several elements at a time, unlike a sample's few elements */
enum { LONG = 3001 };

static void check_long(const sample *short_one)
{
    const mf_client *client = mf_client_default();
    sample s = *short_one;
    bool random = s.op->flags & MF_OP_ELEMENTWISE && s.in_count && !s.over;
    for (int i = 0; i < s.in_count; i++) {
        random = random && !s.in[i].values && mf_type_same_shape(s.in[i].type, s.in[0].type);
        s.in[i].type = mf_type_with_shape(s.in[i].type, 1, (int64_t[]){ LONG });
    }
    trial t;
    if (!random)
        return;
    if (trial_begin(&t, &s)) {
        mf_array *out[SAMPLE_MAX];
        mf_error_object *error = run_program_on(client, t.p, t.in, out);
        for (int o = 0; o < t.p->out_count && !error; o++)
            arrays_near(&s, client->platform, o, out[o], t.out[o], tolerance_of(out[o]->type->dtype));
        if (error)
            sample_fail_error(&s, client->platform, error);
        drop_arrays(out, t.p->out_count);
    }
    trial_end(&t);
}

TEST(long_operands_agree_with_the_reference) { for_samples(check_long); }

/* ---- derivatives, in double precision */
/* A complex number counts as two independent doubles. */
static bool is_real(const mf_type *t) { return t->dtype == MF_F64 || t->dtype == MF_C128; }
static int64_t doubles(const mf_type *t) { return t->dtype == MF_C128 ? 2 * t->size : t->size; }
static double double_at(const mf_array *a, int64_t i) { return ((const double *)mf_array_data(a))[i]; }

/* Whether all floats are random, or exact ones in f64, which were written for this purpose. */
static bool has_derivative(const sample *s)
{
    bool any = false;
    for (int i = 0; i < s->in_count; i++) {
        mf_dtype d = s->in[i].type->dtype;
        if (s->in[i].values && d != MF_F64 && mf_dtype_is_inexact(d))
            return false;
        any = any || mf_dtype_is_inexact(d);
    }
    return any && !sample_has_half(s) && s->op != &mf_op_stop_gradient; /* whose derivative is wrong by design */
}

/* x + step * t for real operands x. */
static void move_operands(const trial *t, mf_array *const *tangents, double step, mf_array **out)
{
    for (int i = 0; i < t->s->in_count; i++) {
        const mf_type *type = t->in[i]->type;
        out[i] = mf_array_new(type);
        memcpy(mf_array_data(out[i]), mf_array_data(t->in[i]), (size_t)type->bytes);
        double *x = mf_array_data(out[i]);
        for (int64_t k = 0; is_real(type) && k < doubles(type); k++)
            x[k] += step * ((const double *)mf_array_data(tangents[i]))[k];
    }
}

/* Compares (f(x + h t) - f(x - h t)) / 2h with the jvp's tangents; all real results have one. */
static void compare_differences(const trial *t, mf_array *const *tangents, mf_array *const *jvp)
{
    const double step = 1e-5;
    mf_array *low[SAMPLE_MAX] = { 0 }, *high[SAMPLE_MAX] = { 0 }, *below[SAMPLE_MAX] = { 0 }, *above[SAMPLE_MAX] = { 0 };
    move_operands(t, tangents, -step, low);
    move_operands(t, tangents, step, high);
    mf_error_object *error = run_program(t->p, mf_segment_compiler_find("reference"), low, below);
    error = error ? error : run_program(t->p, mf_segment_compiler_find("reference"), high, above);
    for (int o = 0, k = 0; o < t->p->out_count && !error; o++) {
        const mf_type *type = t->p->out[o]->type;
        for (int64_t i = 0; is_real(type) && i < doubles(type); i++) {
            double slope = (double_at(above[o], i) - double_at(below[o], i)) / (2 * step), got = double_at(jvp[k], i);
            if (!isfinite(slope) || fabs(slope - got) <= 1e-6 * fmax(1, fabs(slope)))
                continue; /* an infinite result, such as an empty max, has no derivative */
            sample_fail(t->s, "jvp: element %lld of result %d is %.9g, differences give %.9g", (long long)i, o, got, slope);
            break;
        }
        k += is_real(type);
    }
    if (error)
        sample_fail_error(t->s, "run beside the point", error);
    drop_arrays(low, SAMPLE_MAX);
    drop_arrays(high, SAMPLE_MAX);
    drop_arrays(below, SAMPLE_MAX);
    drop_arrays(above, SAMPLE_MAX);
}

/* The tangents of the real results, in order, computed by the jvp of the program. */
static bool run_jvp(const trial *t, mf_array *const *tangents, mf_array **out)
{
    bool has[SAMPLE_MAX] = { 0 }, gives[SAMPLE_MAX];
    mf_array *in[2 * SAMPLE_MAX], *all[2 * SAMPLE_MAX];
    int count = t->s->in_count, outs = t->p->out_count;
    mf_error_object *error = NULL;
    for (int i = 0; i < count; i++)
        in[i] = t->in[i];
    for (int i = 0; i < t->s->in_count; i++)
        if ((has[i] = is_real(t->in[i]->type)))
            in[count++] = tangents[i];
    for (int i = 0; i < outs; i++)
        gives[i] = is_real(t->p->out[i]->type);
    mf_program *jvp = mf_jvp_program(t->p, NULL, has, gives, &error);
    error = error ? error : mf_program_verify(jvp, NULL);
    error = error ? error : run_program(jvp, mf_segment_compiler_find("reference"), in, all);
    if (error) {
        mf_drop(jvp);
        return sample_fail_error(t->s, "jvp", error);
    }
    drop_arrays(all, outs);
    for (int i = outs; i < jvp->out_count; i++)
        out[i - outs] = all[i];
    mf_drop(jvp);
    return true;
}

/* The real part of the sum of products, without conjugation, as in JAX's transposes. */
static double dot_product(const mf_array *a, const mf_array *b, double *size)
{
    double sum = 0;
    bool pairs = a->type->dtype == MF_C128;
    for (int64_t i = 0; i < doubles(a->type); i++) {
        double product = double_at(a, i) * double_at(b, i);
        sum += pairs && i % 2 ? -product : product;
        *size += fabs(product);
    }
    return sum;
}

/* The cotangents of the real operands, in order, for these cotangents of the real results. */
static bool run_vjp(const trial *t, mf_array *const *cts, int ct_count, mf_array **out)
{
    mf_program *forward = NULL, *backward = NULL;
    mf_error_object *error = NULL;
    mf_array *all[8 * SAMPLE_MAX] = { 0 }, *in[8 * SAMPLE_MAX];
    int residuals = 0, outs = t->p->out_count;
    bool fine = mf_vjp_program(t->p, NULL, t->p->in_count, NULL, &forward, &backward, &residuals, &error) &&
                residuals + ct_count < 8 * SAMPLE_MAX;
    error = error ? error : fine ? mf_program_verify(backward, NULL) : NULL;
    error = error || !fine ? error : run_program(forward, mf_segment_compiler_find("reference"), t->in, all);
    for (int i = 0; i < residuals && fine && !error; i++)
        in[i] = all[outs + i];
    for (int i = 0; i < ct_count && fine && !error; i++)
        in[residuals + i] = cts[i];
    fine = fine && !error && !(error = run_program(backward, mf_segment_compiler_find("reference"), in, out));
    drop_arrays(all, 8 * SAMPLE_MAX);
    mf_drop(forward);
    mf_drop(backward);
    return fine || sample_fail_error(t->s, "vjp", error);
}

static void check_transposition(const trial *t, mf_array *const *tangents, mf_array *const *jvp)
{
    mf_array *cts[SAMPLE_MAX] = { 0 }, *back[SAMPLE_MAX] = { 0 };
    double there = 0, home = 0, size = 0;
    int ct_count = 0, k = 0;
    for (int o = 0; o < t->p->out_count; o++)
        if (is_real(t->p->out[o]->type)) {
            cts[ct_count] = random_array(mf_tangent_type(t->p->out[o]->type), -1, 1, seed_of(t->s, 100 + o));
            there += dot_product(cts[ct_count], jvp[ct_count], &size);
            ct_count++;
        }
    if (run_vjp(t, cts, ct_count, back)) {
        for (int i = 0; i < t->s->in_count; i++)
            if (is_real(t->in[i]->type))
                home += dot_product(back[k++], tangents[i], &size);
        if (isfinite(there) && !(fabs(there - home) <= 1e-12 * (1 + size)))
            sample_fail(t->s, "transpose: <ct, J t> is %.17g, <J' ct, t> is %.17g", there, home);
    }
    drop_arrays(cts, SAMPLE_MAX);
    drop_arrays(back, SAMPLE_MAX);
}

static void check_derivatives(const sample *plain)
{
    _Alignas(16) char params[256];
    mf_array *tangents[SAMPLE_MAX] = { 0 }, *jvp[SAMPLE_MAX] = { 0 };
    mf_error_object *error = NULL;
    sample s;
    trial t = { 0 };
    if (!has_derivative(plain))
        return;
    sample_as_f64(&s, plain, params, sizeof params);
    mf_program *fits = sample_program(&s, &error);
    mf_error_ignore(error); /* a rule may reject doubles: the bits of a float */
    mf_drop(fits);
    if (fits && trial_begin(&t, &s)) {
        bool any = false;
        for (int i = 0; i < s.in_count; i++)
            tangents[i] = is_real(t.in[i]->type) ? random_array(mf_tangent_type(t.in[i]->type), -1, 1, seed_of(&s, 50 + i)) : NULL;
        for (int o = 0; o < t.p->out_count; o++)
            any = any || is_real(t.p->out[o]->type);
        if (any && run_jvp(&t, tangents, jvp)) {
            compare_differences(&t, tangents, jvp);
            if (s.op != &mf_op_while) /* which has no reverse mode */
                check_transposition(&t, tangents, jvp);
        }
    }
    drop_arrays(tangents, SAMPLE_MAX);
    drop_arrays(jvp, SAMPLE_MAX);
    trial_end(&t);
}

TEST(derivatives_agree_with_differences_and_transposes) { for_samples(check_derivatives); }

/* ---- batching against a loop */
enum { BATCH = 3 };

/* Slice number `index` of the batch along `axis`; the whole array if axis is -1. */
static mf_array *slice_of(mf_array *a, int axis, int64_t index, const mf_type *type)
{
    if (axis < 0)
        return mf_retain(a);
    int64_t strides[MF_RANK], kept[MF_RANK], out_strides[MF_RANK];
    mf_array *slice = mf_array_new(type);
    mf_contiguous_strides(a->type, strides);
    mf_contiguous_strides(type, out_strides);
    for (int i = 0; i < type->rank; i++)
        kept[i] = strides[i + (i >= axis)];
    mf_copy_strided(type->rank, type->dims, mf_dtype_size(type->dtype), mf_array_data(slice), out_strides,
                    (const char *)mf_array_data(a) + index * strides[axis], kept);
    return slice;
}

/* Random operands differ between slices; exact operands are the same in each. */
static mf_array *batched_operand(const sample *s, int i, int axis)
{
    const sample_operand *o = &s->in[i];
    if (axis < 0)
        return sample_array(o, seed_of(s, i));
    const mf_type *type = mf_type_insert_axis(o->type, axis, BATCH);
    if (!o->values)
        return random_array(type, o->low, o->high, seed_of(s, 200 + i));
    mf_array *one = sample_array(o, 0), *all = mf_array_new(type);
    int64_t strides[MF_RANK], from[MF_RANK] = { 0 }, own[MF_RANK];
    mf_contiguous_strides(type, strides);
    mf_contiguous_strides(o->type, own);
    for (int k = 0; k < o->type->rank; k++)
        from[k + (k >= axis)] = own[k];
    mf_copy_strided(type->rank, type->dims, mf_dtype_size(type->dtype), mf_array_data(all), strides, mf_array_data(one), from);
    mf_drop(one);
    return all;
}

static bool same_slices(const sample *s, const mf_program *p, mf_array *const *in, const int *in_axis, mf_array *const *out,
                        const int *out_axis)
{
    bool fine = true;
    for (int index = 0; index < BATCH && fine; index++) {
        mf_array *one_in[SAMPLE_MAX] = { 0 }, *one_out[SAMPLE_MAX] = { 0 };
        for (int i = 0; i < p->in_count; i++)
            one_in[i] = slice_of(in[i], in_axis[i], index, p->in[i]->type);
        mf_error_object *error = run_program(p, mf_segment_compiler_find("reference"), one_in, one_out);
        if (error)
            fine = sample_fail_error(s, "run of a slice", error);
        for (int o = 0; o < p->out_count && fine; o++) {
            mf_array *slice = slice_of(out[o], out_axis[o], index, p->out[o]->type);
            fine = arrays_near(s, "batch", o, slice, one_out[o], tolerance_of(p->out[o]->type->dtype));
            mf_drop(slice);
        }
        drop_arrays(one_in, SAMPLE_MAX);
        drop_arrays(one_out, SAMPLE_MAX);
    }
    return fine;
}

static bool check_batch(const sample *s, const mf_program *p, const int *in_axis)
{
    int out_axis[SAMPLE_MAX];
    mf_array *in[SAMPLE_MAX] = { 0 }, *out[SAMPLE_MAX] = { 0 };
    mf_error_object *error = NULL;
    for (int o = 0; o < p->out_count; o++)
        out_axis[o] = -2;
    mf_program *batched = mf_batch_program(p, NULL, NULL, BATCH, in_axis, out_axis, &error);
    error = error ? error : mf_program_verify(batched, NULL);
    for (int i = 0; i < s->in_count; i++)
        in[i] = batched_operand(s, i, in_axis[i]);
    error = error ? error : run_program(batched, mf_segment_compiler_find("reference"), in, out);
    bool fine = error ? sample_fail_error(s, "batch", error) : same_slices(s, p, in, in_axis, out, out_axis);
    drop_arrays(in, SAMPLE_MAX);
    drop_arrays(out, SAMPLE_MAX);
    mf_drop(batched);
    return fine;
}

/* Every choice of batched operands, with the batch axis first, last, or alternating. */
static void check_batching(const sample *s)
{
    mf_error_object *error = NULL;
    mf_program *p = sample_program(s, &error);
    int choices = s->in_count <= 5 ? 1 << s->in_count : 2;
    bool fine = p || sample_fail_error(s, "type rule", error);
    for (int chosen = 1; chosen < choices && fine; chosen++)
        for (int place = 0; place < 3 && fine; place++) {
            int in_axis[SAMPLE_MAX];
            for (int i = 0; i < s->in_count; i++) {
                bool last = place == 1 || (place == 2 && i % 2);
                in_axis[i] = chosen >> i & 1 ? (last ? s->in[i].type->rank : 0) : -1;
            }
            fine = check_batch(s, p, in_axis);
            if (!fine)
                CHECK_NOTE("operands batched: mask %d, %s", chosen, place == 0 ? "first" : place == 1 ? "last" : "by turns");
        }
    mf_drop(p);
}

TEST(batches_agree_with_loops) { for_samples(check_batching); }
