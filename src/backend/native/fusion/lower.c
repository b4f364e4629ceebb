/* The emitter that records what ops lower to: an equation becomes primitive nodes of its group, each of which a tile kernel can run, and
 * most of which LLVM can emit. A kernel value is 1 + a node's number; 0 means that there is no kernel for it.
 * Invariant: f16 and bf16 take part in arithmetic as f32 only, and are rounded once per equation. */
#include "backend/native/segment_build.h"
#include "backend/native/kernels/kernels.h"

#include "ir/kernel.h"
#include <string.h>

typedef struct recorder {
    mf_kernel_builder table; /* first, so that the rules' pointer is ours */
    mf_build *b;
    mf_group *group;
} recorder;

int mf_node_append(mf_build *b, mf_group *g, const mf_node *node)
{
    if (!b->error && !mf_grow(&g->nodes, &g->capacity, g->count + 1, sizeof *g->nodes))
        b->error = mf_error_out_of_memory();
    if (b->error)
        return -1;
    mf_node *made = &g->nodes[g->count];
    *made = *node;
    made->out_var = made->f32 = made->f16 = made->bf16 = -1;
    return g->count++;
}

static recorder *of(mf_kernel_builder *k) { return (recorder *)(void *)k; }
static mf_node *node_of(const recorder *r, mf_kernel_value v) { return &r->group->nodes[v - 1]; }

/* Whether the node is an f32 value that bf16 can represent: widened from bf16, or computed from such values by an operation that creates
 * no new magnitudes. */
static bool is_bf16(const mf_group *g, const mf_node *x)
{
    static const char *const choosing[] = { "max", "min", "neg", "abs" };
    bool known = x->kind == MF_NODE_SELECT;
    if (x->dtype != MF_F32)
        return false;
    if (x->kind == MF_NODE_CONSTANT)
        return (x->bits & 0xffff) == 0;
    if (x->kind == MF_NODE_CONVERT)
        return g->nodes[x->in[0]].dtype == MF_BF16;
    for (size_t i = 0; i < sizeof choosing / sizeof *choosing && x->kind == MF_NODE_CALL; i++)
        known |= !strcmp(x->name, choosing[i]);
    for (int i = x->kind == MF_NODE_SELECT; i < x->in_count; i++)
        known &= g->nodes[x->in[i]].is_bf16;
    return known;
}

static mf_kernel_value append(recorder *r, const mf_node *node)
{
    mf_kernel_value made = (mf_kernel_value)mf_node_append(r->b, r->group, node) + 1;
    if (made)
        node_of(r, made)->is_bf16 = node->is_bf16 || is_bf16(r->group, node);
    return made;
}

static mf_kernel_value call_tile(recorder *r, const char *name, mf_dtype out, const mf_kernel_value *in, int count)
{
    if (count > 3)
        return 0;
    const mf_op *row = mf_op_find(name, (int)strlen(name));
    mf_node node = { .kind = MF_NODE_CALL, .dtype = out, .name = name, .weight = row && row->weight ? row->weight : 1, .in_count = count };
    for (int i = 0; i < count; i++) {
        if (!in[i])
            return 0;
        node.in[i] = (int)in[i] - 1;
    }
    return mf_tile_lookup(name, node_of(r, in[0])->dtype, out) ? append(r, &node) : 0;
}

static mf_kernel_value binary(mf_kernel_builder *k, const char *name, mf_kernel_value a, mf_kernel_value b)
{
    recorder *r = of(k);
    return a && b ? call_tile(r, name, node_of(r, a)->dtype, (mf_kernel_value[]){ a, b }, 2) : 0;
}

static mf_kernel_value add(mf_kernel_builder *k, mf_kernel_value a, mf_kernel_value b) { return binary(k, "add", a, b); }
static mf_kernel_value sub(mf_kernel_builder *k, mf_kernel_value a, mf_kernel_value b) { return binary(k, "sub", a, b); }
static mf_kernel_value mul(mf_kernel_builder *k, mf_kernel_value a, mf_kernel_value b) { return binary(k, "mul", a, b); }
static mf_kernel_value divide(mf_kernel_builder *k, mf_kernel_value a, mf_kernel_value b) { return binary(k, "div", a, b); }

static mf_dtype computing(mf_dtype dtype) { return dtype == MF_F16 || dtype == MF_BF16 ? MF_F32 : dtype; }

static mf_kernel_value constant(mf_kernel_builder *k, mf_dtype dtype, double x)
{
    mf_node node = { .kind = MF_NODE_CONSTANT, .dtype = computing(dtype) };
    mf_store_f64(node.dtype, &node.bits, x);
    return append(of(k), &node);
}

static mf_kernel_value compare(mf_kernel_builder *k, const char *how, mf_kernel_value a, mf_kernel_value b)
{
    return a && b ? call_tile(of(k), how, MF_BOOL, (mf_kernel_value[]){ a, b }, 2) : 0;
}

static mf_kernel_value choose(mf_kernel_builder *k, mf_kernel_value mask, mf_kernel_value yes, mf_kernel_value no)
{
    recorder *r = of(k);
    if (!mask || !yes || !no || !mf_tile_lookup("select_n", node_of(r, yes)->dtype, node_of(r, yes)->dtype))
        return 0;
    mf_node node = {
        .kind = MF_NODE_SELECT, .dtype = node_of(r, yes)->dtype, .in_count = 3, .in = { (int)mask - 1, (int)no - 1, (int)yes - 1 }
    };
    return append(r, &node);
}

/* Converts between stored dtypes; reuses an earlier conversion. */
static mf_kernel_value convert_to(recorder *r, mf_dtype to, mf_kernel_value a)
{
    if (!a || node_of(r, a)->dtype == to)
        return a;
    mf_dtype from = node_of(r, a)->dtype;
    int known = to == MF_F32 ? node_of(r, a)->f32 : to == MF_F16 ? node_of(r, a)->f16 : to == MF_BF16 ? node_of(r, a)->bf16 : -1;
    if (known >= 0)
        return (mf_kernel_value)known + 1;
    if (!mf_tile_lookup("convert_element_type", from, to))
        return 0;
    bool exact = to == MF_BF16 && node_of(r, a)->is_bf16;
    mf_node node = { .kind = MF_NODE_CONVERT, .dtype = to, .in_count = 1, .in = { (int)a - 1 }, .is_bf16 = exact };
    mf_kernel_value made = append(r, &node);
    if (made && exact)
        node_of(r, made)->f32 = (int)a - 1;
    if (made && to == MF_F32)
        node_of(r, a)->f32 = (int)made - 1;
    if (made && to == MF_F16)
        node_of(r, a)->f16 = (int)made - 1;
    if (made && to == MF_BF16)
        node_of(r, a)->bf16 = (int)made - 1;
    return made;
}

static mf_kernel_value convert(mf_kernel_builder *k, mf_dtype to, mf_kernel_value a) { return convert_to(of(k), computing(to), a); }

static mf_kernel_value bitcast(mf_kernel_builder *k, mf_dtype to, mf_kernel_value a)
{
    recorder *r = of(k);
    if (!a || mf_dtype_size(to) != mf_dtype_size(node_of(r, a)->dtype) || to == MF_F16 || to == MF_BF16)
        return 0;
    mf_node node = { .kind = MF_NODE_BITCAST, .dtype = to, .in_count = 1, .in = { (int)a - 1 } };
    return append(r, &node);
}

static mf_kernel_value call(mf_kernel_builder *k, const char *name, const mf_kernel_value *in, int count)
{
    static const char *const other[][2] = { { "shl", "shift_left" },
                                            { "shr_logical", "shift_right_logical" },
                                            { "shr_arithmetic", "shift_right_arithmetic" } };
    recorder *r = of(k);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        name = !strcmp(name, other[i][0]) ? other[i][1] : name;
    for (int i = 0; i < count; i++)
        if (!in[i])
            return 0;
    return count < 1 ? 0 : call_tile(r, name, !strcmp(name, "is_finite") ? MF_BOOL : node_of(r, in[0])->dtype, in, count);
}

bool mf_touches_complex(const mf_eqn *e)
{
    return mf_dtype_is_complex(e->out[0]->type->dtype) || mf_dtype_is_complex(e->in[0]->type->dtype);
}

int(mf_lower)(mf_build *b, mf_group *g, const mf_eqn *e, const int *in)
{
    recorder r = { { add, sub, mul, divide, constant, compare, choose, convert, bitcast, call }, b, g };
    mf_kernel_value wide[3], out;
    if (e->in_count > 3 || e->in_count < 1)
        return -1;
    if (mf_touches_complex(e)) {
        for (int i = 0; i < e->in_count; i++)
            wide[i] = (mf_kernel_value)in[i] + 1;
        out = call_tile(&r, e->op->name, e->out[0]->type->dtype, wide, e->in_count);
        return b->error ? -1 : (int)out - 1;
    }
    for (int i = 0; i < e->in_count; i++)
        wide[i] = convert_to(&r, computing(g->nodes[in[i]].dtype), (mf_kernel_value)in[i] + 1);
    out = e->op->lower(&r.table, e, wide);
    out = out ? convert_to(&r, e->out[0]->type->dtype, out) : 0;
    return b->error ? -1 : (int)out - 1;
}
