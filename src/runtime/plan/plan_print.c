/* Plans as text, which plan_parse.c reads.
 *
 *     plan  = "plan" "{" block {map} "}"
 *     block = ("program" | "device" | "uniform" | "nested") "{" {reg} {instr} "return" refs "}"
 *     reg   = "r"N ":" type [("input" | "constant") N] ["destination" N]
 *     instr = kind position ["[" words "]"] ["map" N] refs "->" "(" {ref ["over" N]} ")" ["last" refs] ["{" {block} "}"]
 *     refs  = "(" {ref} ")"
 *     ref   = ["~"] "r"N ["!"]
 *     map   = "map" N "{" "size" N ["local" {N}] {"input" N ":" type "shard" type "axis" N ["held"]}
 *             {"output" N ":" type "shard" type ("stacked" | "uniform" | "forward" N) ["donor" N]} block block "}"
 *
 * destination: the output in whose memory the register is computed; over: the operand whose memory the result may take over; ~: a register
 * of the uniform block; !: the register is moved.
 * Invariant: the text has everything that decides what is read, written, moved, waited for and shared. */
#include "runtime/plan/plan.h"

static const char *const kinds[] = { [MF_DO_SEGMENT] = "segment",
                                     [MF_DO_ALIAS] = "alias",
                                     [MF_DO_AXIS_INDEX] = "axis_index",
                                     [MF_DO_COLLECTIVE] = "collective",
                                     [MF_DO_CALL] = "call",
                                     [MF_DO_WHILE] = "while",
                                     [MF_DO_SCAN] = "scan",
                                     [MF_DO_MAP] = "map",
                                     [MF_DO_AWAIT] = "await" };

static void put_ref(mf_text *t, int ref, bool moved)
{
    mf_text_add(t, "%sr%d%s", ref < 0 ? "~" : "", ref < 0 ? ~ref : ref, moved ? "!" : "");
}

static void put_refs(mf_text *t, const int *refs, const bool *moved, int count)
{
    mf_text_put(t, "(");
    for (int i = 0; i < count; i++) {
        mf_text_put(t, i ? " " : "");
        put_ref(t, refs[i], moved && moved[i]);
    }
    mf_text_put(t, ")");
}

static void indent(mf_text *t, int depth)
{
    for (int i = 0; i < depth; i++)
        mf_text_put(t, "  ");
}

static void put_register(mf_text *t, const mf_block *b, int r)
{
    mf_text_add(t, "r%d: ", r);
    mf_type_print(t, b->types[r]);
    for (int i = 0; i < b->in_count; i++)
        if (b->in[i] == r)
            mf_text_add(t, " input %d", i);
    for (int c = 0; c < b->constant_count; c++)
        if (b->constants[c] == r)
            mf_text_add(t, " constant %d", c);
    if (b->destination[r] >= 0)
        mf_text_add(t, " destination %d", b->destination[r]);
    mf_text_put(t, "\n");
}

static void put_words(mf_text *t, const mf_instr *in)
{
    if (in->kind == MF_DO_AWAIT || in->kind == MF_DO_MAP)
        return;
    mf_text_put(t, " [");
    for (int k = 0; !in->label && in->source && k < in->source->count; k++)
        mf_text_add(t, "%s%s", k ? " " : "", in->source->eqns[k]->op->name);
    mf_text_add(t, "%s]", in->label ? in->label : "");
}

static int map_number(const mf_plan *plan, const mf_map_plan *map)
{
    int after = 0;
    for (const mf_map_plan *m = plan->maps; m; m = m->next)
        after = m == map ? 0 : after + 1;
    return after;
}

static void put_block(mf_text *t, const mf_plan *plan, const char *name, const mf_block *b, int depth);

static void put_instr(mf_text *t, const mf_plan *plan, const mf_instr *in, int depth)
{
    indent(t, depth);
    mf_text_add(t, "%s %d", kinds[in->kind], in->position);
    put_words(t, in);
    if (in->map)
        mf_text_add(t, " map %d", map_number(plan, in->map));
    mf_text_put(t, " ");
    put_refs(t, in->in, in->moves, in->in_count);
    mf_text_put(t, " -> (");
    for (int o = 0; o < in->out_count; o++) {
        mf_text_put(t, o ? " " : "");
        put_ref(t, in->out[o], false);
        if (in->kernel && in->kernel->alias && in->kernel->alias[o] >= 0)
            mf_text_add(t, " over %d", in->kernel->alias[o]);
    }
    mf_text_put(t, ")");
    if (in->last_use_count) {
        mf_text_put(t, " last ");
        put_refs(t, in->last_uses, NULL, in->last_use_count);
    }
    mf_text_put(t, in->block_count ? " {\n" : "\n");
    for (int i = 0; i < in->block_count; i++)
        put_block(t, plan, "nested", in->blocks[i], depth + 1);
    if (in->block_count) {
        indent(t, depth);
        mf_text_put(t, "}\n");
    }
}

static void put_block(mf_text *t, const mf_plan *plan, const char *name, const mf_block *b, int depth)
{
    indent(t, depth);
    mf_text_add(t, "%s {\n", name);
    for (int r = 0; r < b->register_count; r++) {
        indent(t, depth + 1);
        put_register(t, b, r);
    }
    for (int i = 0; i < b->instr_count; i++)
        put_instr(t, plan, b->instrs[i], depth + 1);
    indent(t, depth + 1);
    mf_text_put(t, "return ");
    put_refs(t, b->out, b->out_moves, b->out_count);
    mf_text_put(t, "\n");
    indent(t, depth);
    mf_text_put(t, "}\n");
}

static void put_types(mf_text *t, const mf_type *type, const mf_type *shard)
{
    mf_type_print(t, type);
    mf_text_put(t, " shard ");
    mf_type_print(t, shard);
}

static void put_map(mf_text *t, const mf_plan *plan, const mf_map_plan *m)
{
    mf_text_add(t, "  map %d {\n    size %lld", map_number(plan, m), (long long)m->axis_size);
    for (int k = 0; k < m->local->count; k++)
        mf_text_add(t, "%s%lld", k ? " " : " local ", (long long)m->local->at[k]);
    mf_text_put(t, "\n");
    for (int i = 0; i < m->in_count; i++) {
        mf_text_add(t, "    input %d: ", i);
        put_types(t, m->types[i], m->shards[i]);
        if (m->axes[i] == INT64_MIN)
            mf_text_put(t, " axis None\n");
        else
            mf_text_add(t, " axis %lld%s\n", (long long)m->axes[i], m->held && m->held[i] ? " held" : "");
    }
    for (int o = 0; o < m->out_count; o++) {
        const mf_map_output *out = &m->out[o];
        mf_text_add(t, "    output %d: ", o);
        put_types(t, out->type, out->shard);
        if (out->forward >= 0)
            mf_text_add(t, " forward %d", out->forward);
        else
            mf_text_put(t, out->uniform ? " uniform" : " stacked");
        if (out->donor >= 0)
            mf_text_add(t, " donor %d", out->donor);
        mf_text_put(t, "\n");
    }
    put_block(t, plan, "device", m->device, 2);
    put_block(t, plan, "uniform", m->uniform, 2);
    mf_text_put(t, "  }\n");
}

/* In the order in which they were made. */
static void put_maps(mf_text *t, const mf_plan *plan, const mf_map_plan *m)
{
    int count = 0;
    for (const mf_map_plan *at = m; at; at = at->next)
        count++;
    for (int i = count - 1; i >= 0; i--) {
        const mf_map_plan *at = m;
        for (int k = 0; k < i; k++)
            at = at->next;
        put_map(t, plan, at);
    }
}

void mf_plan_print(mf_text *t, const mf_plan *plan)
{
    mf_text_put(t, "plan {\n");
    put_block(t, plan, "program", plan->top, 1);
    put_maps(t, plan, plan->maps);
    mf_text_put(t, "}\n");
}
