/* A scatter that simplify replaces by a comparison gives the same bits: indices out of range and negative ones, sums with zeros of both
 * signs. */
#include "check.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "runtime/compile/segment_compiler.h"

enum { ROWS = 6, COLUMNS = 5 };

static void run(const mf_program *p, const void *const *in, void *out)
{
    mf_kernel *k = NULL;
    mf_error_object *error = mf_segment_compiler_reference.compile(&mf_segment_compiler_reference, p, NULL, &k);
    if (!CHECK(!error)) {
        CHECK_NOTE("%s", mf_error_text(error));
        return;
    }
    void *scratch = malloc(k->scratch_bytes + 64), *outs[] = { out };
    CHECK(!mf_segment_compiler_reference.run(k, in, outs, scratch));
    free(scratch);
    mf_segment_compiler_reference.destroy(k);
}

static int count_of(const mf_program *p, const mf_op *op)
{
    int count = 0;
    for (int i = 0; i < p->eqn_count; i++)
        count += p->eqns[i]->op == op;
    return count;
}

static void compare(const char *op, const char *operand, int mode, bool rewritten)
{
    char text[1024];
    snprintf(text, sizeof text,
             "program (i: i32[6,1,1], u: f32[6,1]) {\n a: f32[6,5] = broadcast_in_dim[shape=(6,5), broadcast_dimensions=()] %s:f32[]\n"
             " b: f32[6,5] = %s[update_window_dims=(), inserted_window_dims=(1), scatter_dims_to_operand_dims=(1), "
             "operand_batching_dims=(0), scatter_indices_batching_dims=(0), mode=%d] a i u\n return b\n}",
             operand, op, mode);
    const int32_t index[ROWS] = { 0, 4, 5, -1, 2, 3 };
    const float update[ROWS] = { 1.5f, -0.0f, 7, 8, 0.0f, -2 };
    const void *in[] = { index, update };
    float before[ROWS * COLUMNS], after[ROWS * COLUMNS];
    mf_error_object *error = NULL;
    mf_program *p = mf_program_parse(text, NULL, &error);
    if (!CHECK(p))
        CHECK_NOTE("%s", mf_error_text(error));
    REQUIRE(p);
    mf_program *simple = mf_pass_simplify(p, NULL, &error);
    REQUIRE(simple);
    CHECK_EQ_INT(count_of(simple, &mf_op_scatter) + count_of(simple, &mf_op_scatter_add), rewritten ? 0 : 1);
    run(p, in, before);
    run(simple, in, after);
    if (!CHECK_BYTES(after, before, sizeof before))
        CHECK_NOTE("%s into %s, mode %d", op, operand, mode);
    mf_drop(p);
    mf_drop(simple);
}

TEST(one_index_a_row)
{
    static const char *const ops[] = { "scatter", "scatter_add" }, *const operands[] = { "0.0", "-0.0", "3.0" };
    for (int op = 0; op < 2; op++)
        for (int k = 0; k < 3; k++)
            compare(ops[op], operands[k], 1, true);
    compare("scatter_add", "0.0", 0, false); /* clamped: another element is updated */
}
