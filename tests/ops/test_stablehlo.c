/* Every op as StableHLO: it has a rule, or an error tells why not; and its samples become modules. With MF_STABLEHLO_DIR=folder the modules
 * are written there with their arguments and the reference's results, for scripts/check_stablehlo.py, which parses them with MLIR and runs
 * them with XLA. */
#include "ops/sample.h"

#include "check.h"
#include "ir/stablehlo.h"
#include "ops/ops.h"
#include "runtime/compile/planner.h"
#include "stablehlo/hlo_module.h"

#include <inttypes.h>

__attribute__((constructor)) static void four_devices(void) { setenv("MF_NUM_CPU_DEVICES", "4", 1); }

/* The ops without StableHLO, in the order of the table. */
static const char *const without[] = { "custom_linear" };
enum { WITHOUT = sizeof without / sizeof *without };

TEST(each_row_has_a_rule_or_a_reason)
{
    int found = 0;
    for (int i = 0; i < mf_op_count(); i++) {
        const mf_op *op = mf_op_at(i);
        bool none = op->stablehlo == mf_hlo_none, named = none || op->stablehlo == mf_hlo_by_name;
        if (!CHECK(op->stablehlo && !named == !op->hlo))
            CHECK_NOTE("op %s has neither a rule nor a reason", op->name);
        if (none && !CHECK(found < WITHOUT && strcmp(without[found], op->name) == 0))
            CHECK_NOTE("op %s has no StableHLO and is not in the list here", op->name);
        found += none;
    }
    CHECK(found == WITHOUT);
}

/* ---- samples */
static void write_array(FILE *f, const char *word, const mf_array *a, int64_t axis, double tolerance)
{
    const unsigned char *p = mf_array_data(a);
    fprintf(f, "%s %s %" PRId64 " %g ", word, mf_dtype_short(a->type->dtype), axis == MF_NONE ? -1 : axis, tolerance);
    for (int i = 0; i < a->type->rank; i++)
        fprintf(f, "%s%" PRId64, i ? "," : "", a->type->dims[i]);
    fputs(" 0x", f);
    for (int64_t i = 0; i < a->type->bytes; i++)
        fprintf(f, "%02x", p[i]);
    fputc('\n', f);
}

/* Negative: NaN in the reference's result may be a number, because XLA omits the products with zeros that a convolution pads with. */
static double tolerance_of(const mf_op *op, mf_dtype d)
{
    bool sums = op == &mf_op_dot_general || op == &mf_op_conv_general_dilated;
    switch (d) {
    case MF_F16: return 2e-3;
    case MF_BF16: return 1.6e-2;
    case MF_C64:
    case MF_F32: return sums ? (op == &mf_op_conv_general_dilated ? -1 : 1) * 2 * 18 * (18 * 4) * 0x1p-24 : 4e-6;
    case MF_C128:
    case MF_F64: return 1e-12;
    default: return 0;
    }
}

static void write_sample(const sample *s, const mf_program *p, const char *module, const char *folder)
{
    static int count;
    char path[1024];
    mf_array *in[SAMPLE_MAX] = { 0 }, *out[SAMPLE_MAX] = { 0 };
    for (int i = 0; i < s->in_count; i++)
        in[i] = sample_array(&s->in[i], mf_hash(s->text, strlen(s->text), (uint64_t)i + 1));
    mf_error_object *error = run_program(p, mf_segment_compiler_find("reference"), in, out);
    if (error) {
        sample_fail_error(s, "run", error);
    } else {
        snprintf(path, sizeof path, "%s/%04d.txt", folder, count++);
        FILE *f = fopen(path, "w");
        const mf_pmap_params *m = p->eqns[0]->op == &mf_op_pmap ? p->eqns[0]->params : NULL;
        if (CHECK(f)) {
            fprintf(f, "op %s %d %d\n", s->op->name, mf_span_of(p), m != NULL);
            for (int i = 0; i < s->in_count; i++)
                write_array(f, "in", in[i], m ? m->in_axes->at[i] : MF_NONE, 0);
            for (int o = 0; o < p->out_count; o++)
                write_array(f, "out", out[o], m ? m->out_axes->at[o] : MF_NONE, tolerance_of(s->op, p->out[o]->type->dtype));
            fputs(module, f);
            fclose(f);
        }
    }
    drop_arrays(in, SAMPLE_MAX);
    drop_arrays(out, SAMPLE_MAX);
}

static bool is_narrow(mf_dtype d) { return d == MF_F16 || d == MF_BF16; }

/* Whether the op is a product that some modules compute in a wider dtype. */
static bool widens(const sample *s)
{
    bool narrow = false;
    for (int i = 0; i < s->in_count; i++)
        narrow |= is_narrow(s->in[i].type->dtype);
    return narrow && (s->op == &mf_op_dot_general || s->op == &mf_op_conv_general_dilated);
}

/* Checks the operation in its generic form: "(operands) -> (results)". */
static bool has_narrow_product(const mf_op *op, const char *module)
{
    const char *name = op == &mf_op_dot_general ? "stablehlo.dot_general" : "stablehlo.convolution", *line = strstr(module, name);
    const char *end = line ? strchr(line, '\n') : NULL, *narrow = line ? strstr(line, "f16>") : NULL;
    return !line || (narrow && narrow < end);
}

static void check_module(const sample *s, const mf_program *p, bool for_cpu)
{
    mf_text t = { 0 };
    mf_error_object *error = mf_hlo_module(&t, s->op->name, p, mf_span_of(p), NULL, NULL, for_cpu);
    if (s->op->stablehlo == mf_hlo_none) {
        bool says = error && error->status == MF_ERROR_ARGUMENT && strstr(error->message, s->op->name) &&
                    strstr(error->message, s->op->hlo);
        if (!says)
            sample_fail(s, "no StableHLO: %s", error ? error->message : "and no error");
        mf_error_ignore(error);
    } else if (error) {
        sample_fail_error(s, "StableHLO", error);
    } else if (!t.at || t.failed || !strstr(t.at, "func.func public @main(") || strstr(t.at, "(null)")) {
        sample_fail(s, "StableHLO: %s", t.at ? t.at : "no text");
    } else if (widens(s) && has_narrow_product(s->op, t.at) == for_cpu) {
        sample_fail(s, "StableHLO%s: %s", for_cpu ? " for a CPU" : "", t.at);
    } else if (getenv("MF_STABLEHLO_DIR")) {
        write_sample(s, p, t.at, getenv("MF_STABLEHLO_DIR"));
    }
    mf_text_free(&t);
}

static void check_sample(const sample *s)
{
    mf_error_object *error = NULL;
    mf_program *p = sample_program(s, &error);
    if (!p) {
        sample_fail_error(s, "type rule", error);
        return;
    }
    check_module(s, p, false);
    if (widens(s))
        check_module(s, p, true);
    mf_drop(p);
}

TEST(samples_become_modules)
{
    for (int i = 0; i < mf_op_count(); i++) {
        const mf_op *op = mf_op_at(i);
        for (const char *const *text = op->samples; *text; text++) {
            sample s;
            if (sample_read(&s, op, *text))
                check_sample(&s);
            sample_free(&s);
        }
    }
}
