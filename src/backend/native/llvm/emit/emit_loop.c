/* Emits a group as one loop nest: rows outside (the leading dimensions as one count), vectors over the innermost dimension inside, and the
 * last elements of a row one by one. Values that are constant in a row, or in all rows, are read outside its loop.
 * Invariants: within an iteration all loads precede all stores, so a result may share an operand's memory; a row writes only its own
 * elements, so any range of rows may run on any thread. */
#include "backend/native/llvm/llvm.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ text */

mf_ir_value mf_ir_format(mf_ir *ir, const char *format, ...)
{
    char few[128];
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    int n = vsnprintf(few, sizeof few, format, list);
    va_end(list);
    char *s = mf_arena_alloc(ir->strings, (size_t)n + 1);
    if (s)
        vsnprintf(s, (size_t)n + 1, format, again);
    va_end(again);
    ir->failed |= !s;
    return s ? s : "poison";
}

mf_ir_value mf_ir_op(mf_ir *ir, const char *format, ...)
{
    va_list list;
    mf_ir_value made = mf_ir_format(ir, "%%v%d", ir->next++);
    mf_text_add(&ir->text, "  %s = ", made);
    va_start(list, format);
    mf_text_vadd(&ir->text, format, list);
    va_end(list);
    mf_text_put(&ir->text, "\n");
    return made;
}

void mf_ir_line(mf_ir *ir, const char *format, ...)
{
    va_list list;
    mf_text_put(&ir->text, "  ");
    va_start(list, format);
    mf_text_vadd(&ir->text, format, list);
    va_end(list);
    mf_text_put(&ir->text, "\n");
}

void mf_ir_label(mf_ir *ir, const char *label)
{
    snprintf(ir->label, sizeof ir->label, "%s", label);
    mf_text_add(&ir->text, "%s:\n", label);
}

const char *mf_ir_memory(mf_dtype dtype)
{
    switch (dtype) {
    case MF_F32: return "float";
    case MF_F64: return "double";
    default: break;
    }
    switch (mf_dtype_size(dtype)) {
    case 1: return "i8";
    case 2: return "i16";
    case 4: return "i32";
    default: return "i64";
    }
}

const char *mf_ir_scalar(mf_dtype dtype) { return dtype == MF_BOOL ? "i1" : mf_ir_memory(dtype); }

mf_ir_value mf_ir_element(mf_ir *ir, mf_dtype dtype, const void *element)
{
    if (dtype == MF_F32 || dtype == MF_F64) { /* a float constant is written as the double of the same value */
        double x = mf_load_f64(dtype, element);
        uint64_t bits;
        memcpy(&bits, &x, sizeof bits);
        return mf_ir_format(ir, "%s 0x%016" PRIX64, mf_ir_scalar(dtype), bits);
    }
    int64_t x = 0;
    if (dtype == MF_F16 || dtype == MF_BF16)
        x = *(const int16_t *)element;
    else
        x = mf_load_i64(dtype, element);
    return mf_ir_format(ir, "%s %" PRId64, mf_ir_scalar(dtype), x);
}

mf_ir_value mf_ir_splat(mf_ir *ir, mf_dtype dtype, const void *element)
{
    mf_ir_value one = mf_ir_element(ir, dtype, element);
    if (ir->width == 1)
        return mf_ir_format(ir, "<%s>", one);
    return mf_ir_format(ir, "splat (%s)", one);
}

/* ------------------------------------------------------------------ the nest */

typedef struct nest {
    mf_ir *ir;
    const mf_group_plan *plan;
    int inner; /* the innermost dimension, or -1 */
    int64_t inner_size;
    mf_ir_value *in, *out; /* by node: pointers of operands and of results */
    mf_ir_value *once;     /* by node: a scalar that is read before its loop, or NULL */
    mf_ir_divisor *by;     /* by node: the same, prepared as a divisor */
    mf_ir_value *start;    /* by node: where a walk starts in this row, in elements; NULL: it follows the elements */
    mf_ir_value *value;    /* by node: in the current iteration */
    mf_ir_value row_start; /* number of the row's first element */
} nest;

static bool walks(const mf_node *x) { return x->kind == MF_NODE_LOAD || x->kind == MF_NODE_IOTA; }
static int64_t inner_stride(const nest *n, int i) { return n->inner < 0 ? 0 : n->plan->loads[i].strides[n->inner]; }

mf_ir_value mf_ir_pointer(mf_ir *ir, mf_ir_value base, mf_dtype dtype, mf_ir_value index)
{
    return mf_ir_op(ir, "getelementptr %s, ptr %s, i64 %s", mf_ir_memory(dtype), base, index);
}

mf_ir_value mf_ir_from_memory(mf_ir *ir, mf_dtype dtype, mf_ir_value vector)
{
    return dtype == MF_BOOL ? mf_ir_op(ir, "icmp ne <%d x i8> %s, zeroinitializer", ir->width, vector) : vector;
}

mf_ir_value mf_ir_broadcast(mf_ir *ir, const char *type, mf_ir_value scalar)
{
    mf_ir_value first = mf_ir_op(ir, "insertelement <%d x %s> poison, %s %s, i64 0", ir->width, type, type, scalar);
    return ir->width == 1 ? first
                          : mf_ir_op(ir, "shufflevector <%d x %s> %s, <%d x %s> poison, <%d x i32> zeroinitializer", ir->width, type, first,
                                     ir->width, type, ir->width);
}

static void read_once(nest *n, int i, mf_ir_value place)
{
    mf_ir *ir = n->ir;
    mf_dtype dtype = n->plan->group->nodes[i].dtype;
    n->once[i] = mf_ir_op(ir, "load %s, ptr %s, align %d", mf_ir_memory(dtype), place, mf_dtype_size(dtype));
    if (mf_ir_is_divisor(n->plan->group, i))
        n->by[i] = mf_ir_divisor_of(ir, n->once[i]);
}

/* Emits the pointers of operands and results, and what all iterations share. */
static void emit_entry(nest *n)
{
    const mf_group *g = n->plan->group;
    mf_ir *ir = n->ir;
    for (int i = 0; i < g->count; i++) {
        const mf_node *x = &g->nodes[i];
        const mf_load *l = &n->plan->loads[i];
        if (x->kind == MF_NODE_LOAD) {
            mf_ir_value place = mf_ir_op(ir, "getelementptr ptr, ptr %%in, i64 %d", l->slot);
            mf_ir_value base = mf_ir_op(ir, "load ptr, ptr %s, align 8", place);
            n->in[i] = l->offset ? mf_ir_pointer(ir, base, x->dtype, mf_ir_format(ir, "%" PRId64, l->offset)) : base;
            if (l->splat)
                read_once(n, i, n->in[i]);
        }
        if (n->plan->out_slot[i] >= 0) {
            mf_ir_value place = mf_ir_op(ir, "getelementptr ptr, ptr %%out, i64 %d", n->plan->out_slot[i]);
            n->out[i] = mf_ir_op(ir, "load ptr, ptr %s, align 8", place);
        }
    }
}

/* Emits where each walk starts in row %row, and the values that the row shares. */
static void emit_row(nest *n)
{
    const mf_group *g = n->plan->group;
    mf_ir *ir = n->ir;
    mf_ir_value index[MF_FACTORS] = { NULL }, rest = "%row";
    n->row_start = n->inner > 0 ? mf_ir_op(ir, "mul i64 %%row, %" PRId64, n->inner_size) : "0";
    for (int d = n->inner - 1; d >= 0; d--) {
        index[d] = d == 0 ? rest : mf_ir_op(ir, "urem i64 %s, %" PRId64, rest, n->plan->dims[d]);
        if (d > 0)
            rest = mf_ir_op(ir, "udiv i64 %s, %" PRId64, rest, n->plan->dims[d]);
    }
    for (int i = 0; i < g->count; i++) {
        const mf_load *l = &n->plan->loads[i];
        n->start[i] = NULL;
        if (!walks(&g->nodes[i]) || (g->nodes[i].kind == MF_NODE_LOAD && (l->flat || l->splat)))
            continue;
        mf_ir_value at = mf_ir_format(ir, "%" PRId64, g->nodes[i].kind == MF_NODE_IOTA ? l->offset : 0);
        for (int d = 0; d < n->inner; d++)
            if (l->strides[d])
                at = mf_ir_op(ir, "add i64 %s, %s", at, mf_ir_op(ir, "mul i64 %s, %" PRId64, index[d], l->strides[d]));
        n->start[i] = at;
        if (g->nodes[i].kind == MF_NODE_LOAD && inner_stride(n, i) == 0)
            read_once(n, i, mf_ir_pointer(ir, n->in[i], g->nodes[i].dtype, at));
    }
}

/* ------------------------------------------------------------------ one iteration */

static mf_ir_value emit_gather(nest *n, int i, mf_ir_value j)
{
    mf_ir *ir = n->ir;
    const mf_node *x = &n->plan->group->nodes[i];
    mf_ir_value all = "poison";
    mf_ir_value at = mf_ir_op(ir, "add i64 %s, %s", n->start[i], mf_ir_op(ir, "mul i64 %s, %" PRId64, j, inner_stride(n, i)));
    mf_ir_value p = mf_ir_pointer(ir, n->in[i], x->dtype, at);
    for (int lane = 0; lane < ir->width; lane++) {
        mf_ir_value q = mf_ir_pointer(ir, p, x->dtype, mf_ir_format(ir, "%" PRId64, lane * inner_stride(n, i)));
        mf_ir_value one = mf_ir_op(ir, "load %s, ptr %s, align %d", mf_ir_memory(x->dtype), q, mf_dtype_size(x->dtype));
        all = mf_ir_op(ir, "insertelement <%d x %s> %s, %s %s, i64 %d", ir->width, mf_ir_memory(x->dtype), all, mf_ir_memory(x->dtype), one,
                       lane);
    }
    return mf_ir_from_memory(ir, x->dtype, all);
}

static mf_ir_value emit_iota(nest *n, int i, mf_ir_value j)
{
    mf_ir *ir = n->ir;
    int64_t stride = inner_stride(n, i);
    mf_dtype dtype = n->plan->group->nodes[i].dtype;
    mf_ir_value at = mf_ir_op(ir, "add i64 %s, %s", n->start[i], mf_ir_op(ir, "mul i64 %s, %" PRId64, j, stride));
    mf_text steps = { 0 };
    for (int lane = 0; lane < ir->width; lane++)
        mf_text_add(&steps, "%si64 %" PRId64, lane ? ", " : "", lane * stride);
    mf_ir_value all = mf_ir_op(ir, "add <%d x i64> %s, <%s>", ir->width, mf_ir_broadcast(ir, "i64", at), steps.at ? steps.at : "");
    ir->failed |= steps.failed;
    mf_text_free(&steps);
    if (dtype == MF_I64)
        return all;
    return mf_ir_op(ir, "%s <%d x i64> %s to <%d x %s>", dtype == MF_F32 ? "sitofp" : "trunc", ir->width, all, ir->width,
                    mf_ir_scalar(dtype));
}

static mf_ir_value emit_load(nest *n, int i, mf_ir_value j)
{
    mf_ir *ir = n->ir;
    const mf_node *x = &n->plan->group->nodes[i];
    const mf_load *l = &n->plan->loads[i];
    if (x->kind == MF_NODE_IOTA)
        return emit_iota(n, i, j);
    if (n->once[i])
        return mf_ir_from_memory(ir, x->dtype, mf_ir_broadcast(ir, mf_ir_memory(x->dtype), n->once[i]));
    if (!l->flat && inner_stride(n, i) != 1)
        return emit_gather(n, i, j);
    mf_ir_value at = mf_ir_op(ir, "add i64 %s, %s", l->flat ? n->row_start : n->start[i], j);
    return mf_ir_from_memory(ir, x->dtype,
                             mf_ir_op(ir, "load <%d x %s>, ptr %s, align %d", ir->width, mf_ir_memory(x->dtype),
                                      mf_ir_pointer(ir, n->in[i], x->dtype, at), mf_dtype_size(x->dtype)));
}

static void emit_store(nest *n, int i, mf_ir_value at)
{
    mf_ir *ir = n->ir;
    mf_dtype dtype = n->plan->group->nodes[i].dtype;
    mf_ir_value v = n->value[i];
    if (dtype == MF_BOOL)
        v = mf_ir_op(ir, "zext <%d x i1> %s to <%d x i8>", ir->width, v, ir->width);
    mf_ir_line(ir, "store <%d x %s> %s, ptr %s, align %d", ir->width, mf_ir_memory(dtype), v, mf_ir_pointer(ir, n->out[i], dtype, at),
               mf_dtype_size(dtype));
}

static void emit_iteration(nest *n, mf_ir_value j)
{
    const mf_group *g = n->plan->group;
    for (int i = 0; i < g->count; i++)
        if (walks(&g->nodes[i]))
            n->value[i] = emit_load(n, i, j);
    for (int i = 0; i < g->count; i++) {
        const mf_node *x = &g->nodes[i];
        mf_ir_value in[3] = { NULL };
        for (int k = 0; k < x->in_count; k++)
            in[k] = n->value[x->in[k]];
        if (walks(x))
            continue;
        bool prepared = n->ir->width >= mf_llvm_lanes() && x->in_count == 2 && n->by[x->in[1]].value && !strcmp(x->name, "div");
        n->value[i] = prepared ? mf_ir_divide(n->ir, in[0], &n->by[x->in[1]]) : mf_ir_node(n->ir, g, x, in);
    }
    mf_ir_value at = mf_ir_op(n->ir, "add i64 %s, %s", n->row_start, j);
    for (int i = 0; i < g->count; i++)
        if (n->plan->out_slot[i] >= 0)
            emit_store(n, i, at);
}

/* Emits a loop of j from `from` while j + width <= to; returns where it stops. */
static mf_ir_value emit_loop(nest *n, int width, mf_ir_value from, mf_ir_value to)
{
    mf_ir *ir = n->ir;
    int id = ir->next++;
    char before[24], test[24], body[24], done[24];
    memcpy(before, ir->label, sizeof before);
    snprintf(test, sizeof test, "test%d", id);
    snprintf(body, sizeof body, "body%d", id);
    snprintf(done, sizeof done, "done%d", id);
    ir->width = width;
    mf_ir_line(ir, "br label %%%s", test);
    mf_ir_label(ir, test);
    mf_ir_line(ir, "%%j%d = phi i64 [ %s, %%%s ], [ %%next%d, %%again%d ]", id, from, before, id, id);
    mf_ir_line(ir, "%%next%d = add i64 %%j%d, %d", id, id, width);
    mf_ir_value more = mf_ir_op(ir, "icmp sle i64 %%next%d, %s", id, to);
    mf_ir_line(ir, "br i1 %s, label %%%s, label %%%s", more, body, done);
    mf_ir_label(ir, body);
    emit_iteration(n, mf_ir_format(ir, "%%j%d", id));
    mf_ir_line(ir, "br label %%again%d", id);
    mf_ir_label(ir, mf_ir_format(ir, "again%d", id));
    mf_ir_line(ir, "br label %%%s", test);
    mf_ir_label(ir, done);
    return mf_ir_format(ir, "%%j%d", id);
}

/* ------------------------------------------------------------------ the function */

static int choose_width(const mf_group_plan *plan, int64_t inner)
{
    int calls = 0, width = mf_llvm_lanes();
    for (int i = 0; i < plan->group->count; i++)
        calls += !walks(&plan->group->nodes[i]) && plan->group->nodes[i].kind != MF_NODE_CONSTANT;
    if (calls <= 40)
        width *= 2; /* two dependency chains overlap */
    while (width > 1 && width > inner)
        width /= 2;
    return width;
}

static void emit_rows(nest *n, int width)
{
    mf_ir *ir = n->ir;
    mf_ir_line(ir, "br label %%rows");
    mf_ir_label(ir, "rows");
    mf_ir_line(ir, "%%row = phi i64 [ %%from, %%entry ], [ %%row.next, %%row.again ]");
    mf_ir_value more = mf_ir_op(ir, "icmp slt i64 %%row, %%to");
    mf_ir_line(ir, "br i1 %s, label %%row.body, label %%end", more);
    mf_ir_label(ir, "row.body");
    emit_row(n);
    mf_ir_value size = mf_ir_format(ir, "%" PRId64, n->inner_size), at = emit_loop(n, width, "0", size);
    if (n->inner_size % width)
        emit_loop(n, 1, at, size);
    mf_ir_line(ir, "%%row.next = add i64 %%row, 1");
    mf_ir_line(ir, "br label %%row.again");
    mf_ir_label(ir, "row.again");
    mf_ir_line(ir, "br label %%rows");
    mf_ir_label(ir, "end");
}

static void emit_flat(nest *n, int width)
{
    emit_row(n);
    mf_ir_value at = emit_loop(n, width, "%from", "%to");
    if (width > 1)
        emit_loop(n, 1, at, "%to");
}

bool mf_ir_may_be_rare(const mf_group *g)
{
    for (int i = 0; i < g->count; i++)
        if (g->nodes[i].kind == MF_NODE_CALL && (g->nodes[i].dtype == MF_F32 || g->nodes[i].dtype == MF_F64) &&
            (!strcmp(g->nodes[i].name, "sin") || !strcmp(g->nodes[i].name, "cos") || !strcmp(g->nodes[i].name, "tan")))
            return true;
    return false;
}

void mf_ir_rare_memory(mf_ir *ir, int width)
{
    mf_ir_line(ir, "%%rare.x = alloca [%d x double]", width);
    mf_ir_line(ir, "%%rare.r = alloca [%d x double]", width);
    mf_ir_line(ir, "%%rare.m = alloca [%d x i8]", width);
}

int64_t mf_loop_rows(const mf_group_plan *plan) { return plan->rank > 1 ? plan->n / plan->dims[plan->rank - 1] : plan->n; }

void mf_ir_loops(mf_ir *ir, const mf_group_plan *plan)
{
    nest n = { .ir = ir, .plan = plan, .inner = plan->rank - 1, .inner_size = plan->rank ? plan->dims[plan->rank - 1] : 1 };
    size_t count = (size_t)plan->group->count + 1;
    mf_ir_value *lists = mf_arena_alloc(ir->strings, 5 * count * sizeof *lists);
    n.by = mf_arena_alloc(ir->strings, count * sizeof *n.by);
    if (!lists || !n.by) {
        ir->failed = true;
        return;
    }
    n.in = lists;
    n.out = lists + count;
    n.once = lists + 2 * count;
    n.start = lists + 3 * count;
    n.value = lists + 4 * count;
    int width = choose_width(plan, n.inner_size);
    mf_text_add(&ir->text, "define void @mf_loop(ptr noalias %%in, ptr noalias %%out, i64 %%from, i64 %%to) #0 {\n");
    mf_ir_label(ir, "entry");
    if (mf_ir_may_be_rare(plan->group))
        mf_ir_rare_memory(ir, width);
    emit_entry(&n);
    if (plan->rank > 1)
        emit_rows(&n, width);
    else
        emit_flat(&n, width);
    mf_text_put(&ir->text, "  ret void\n}\nattributes #0 = { nounwind }\n");
    ir->failed |= ir->text.failed;
}
