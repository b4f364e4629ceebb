/* Reads plans from text; plan_print.c has the grammar. Invariant: any text gives a plan whose numbers are in range, or an error with
 * line and column; nesting is bounded, and no allocation is sized by a number in the text alone. Whether the plan makes sense is checked by
 * plan_verify.c. */
#include "runtime/plan/plan.h"

#include "base/memory/intern.h"
#include "base/memory/vector.h"
#include "ir/text/parser.h"

#include <ctype.h>
#include <string.h>

enum { DEEPEST = 32, MOST = 1 << 20 };

typedef struct plan_parser {
    parser text;
    mf_plan *plan;
} plan_parser;

typedef struct reference_list {
    MF_VECTOR(int) refs;
    MF_VECTOR(bool) moved;
    MF_VECTOR(int) over;
} reference_list;

/* ---- tokens */

static void fail(plan_parser *p, const char *expected) { parse_expected(&p->text, expected); }
static bool accept(plan_parser *p, const char *word) { return parse_accept(&p->text, word); }
static void expect(plan_parser *p, const char *word) { parse_expect(&p->text, word); }

static int64_t number(plan_parser *p)
{
    int64_t n = 0;
    if (parse_number(&p->text, MF_I64, &n, "a number") && (n < 0 || n > MOST))
        fail(p, "a smaller number");
    return p->text.error ? 0 : n;
}

static bool at_digit(plan_parser *p)
{
    parse_skip(&p->text);
    return !p->text.error && isdigit((unsigned char)*p->text.at);
}

static bool at_register(plan_parser *p)
{
    parse_skip(&p->text);
    return !p->text.error && *p->text.at == 'r' && isdigit((unsigned char)p->text.at[1]);
}

static int register_number(plan_parser *p)
{
    if (at_register(p))
        p->text.at++;
    else
        fail(p, "a register");
    return (int)number(p);
}

static void *get(plan_parser *p, size_t count, size_t size)
{
    void *made = p->text.error ? NULL : mf_arena_alloc(&p->plan->arena, (count + 1) * size);
    if (!made)
        parse_out_of_memory(&p->text);
    return made;
}

static void *copied(plan_parser *p, const void *from, int count, size_t size)
{
    void *made = get(p, (size_t)count, size);
    if (made && count)
        memcpy(made, from, (size_t)count * size);
    return made;
}

static void pushed(plan_parser *p, bool ok)
{
    if (!ok)
        parse_out_of_memory(&p->text);
}

/* ---- references */

static void read_ref(plan_parser *p, reference_list *l)
{
    bool uniform = accept(p, "~");
    int n = register_number(p);
    pushed(p, mf_vector_push(&l->refs, uniform ? ~n : n));
    pushed(p, mf_vector_push(&l->moved, accept(p, "!")));
    pushed(p, mf_vector_push(&l->over, accept(p, "over") ? (int)number(p) : -1));
}

static void read_refs(plan_parser *p, reference_list *l)
{
    expect(p, "(");
    while (!p->text.error && !accept(p, ")"))
        read_ref(p, l);
}

static void free_refs(reference_list *l)
{
    mf_free(l->refs.at);
    mf_free(l->moved.at);
    mf_free(l->over.at);
}

/* ---- blocks */

static mf_block *read_block(plan_parser *p);

static bool read_kind(plan_parser *p, mf_instr_kind *kind)
{
    static const char *const words[] = { "segment", "alias", "axis_index", "collective", "call", "while", "scan", "map", "await" };
    for (int i = 0; i < (int)(sizeof words / sizeof *words); i++)
        if (accept(p, words[i])) {
            *kind = (mf_instr_kind)i;
            return true;
        }
    return false;
}

static const char *read_words(plan_parser *p)
{
    const char *end = accept(p, "[") ? strchr(p->text.at, ']') : NULL;
    char *text = end ? get(p, (size_t)(end - p->text.at), 1) : NULL;
    if (!text)
        return NULL;
    memcpy(text, p->text.at, (size_t)(end - p->text.at));
    p->text.at = end + 1;
    return text;
}

static mf_map_plan *map_at(plan_parser *p, int64_t n)
{
    mf_map_plan **maps = &p->plan->maps; /* while reading: oldest first */
    for (; n >= 0 && !p->text.error; n--) {
        if (!*maps)
            *maps = get(p, 1, sizeof **maps);
        if (*maps && n == 0)
            return *maps;
        if (*maps)
            maps = &(*maps)->next;
    }
    return NULL;
}

static void read_nested(plan_parser *p, mf_instr *in)
{
    MF_VECTOR(mf_block *) blocks = { 0 };
    if (!accept(p, "{"))
        return;
    while (!p->text.error && accept(p, "nested"))
        pushed(p, mf_vector_push(&blocks, read_block(p)));
    expect(p, "}");
    in->block_count = blocks.count;
    in->blocks = copied(p, blocks.at, blocks.count, sizeof *in->blocks);
    mf_free(blocks.at);
}

static mf_instr *read_instr(plan_parser *p, mf_instr_kind kind)
{
    mf_instr *in = get(p, 1, sizeof *in);
    reference_list from = { 0 }, to = { 0 }, last = { 0 };
    if (!in)
        return NULL;
    in->kind = kind;
    in->position = (int)number(p);
    in->label = read_words(p);
    if (kind == MF_DO_MAP) {
        expect(p, "map");
        int64_t n = number(p);
        in->map = n < 1024 ? map_at(p, n) : NULL;
        if (!in->map)
            fail(p, "a map");
    }
    read_refs(p, &from);
    expect(p, "->");
    read_refs(p, &to);
    if (accept(p, "last"))
        read_refs(p, &last);
    in->in_count = from.refs.count;
    in->out_count = to.refs.count;
    in->last_use_count = last.refs.count;
    in->in = copied(p, from.refs.at, in->in_count, sizeof *in->in);
    in->moves = copied(p, from.moved.at, in->in_count, sizeof *in->moves);
    in->out = copied(p, to.refs.at, in->out_count, sizeof *in->out);
    in->last_uses = copied(p, last.refs.at, in->last_use_count, sizeof *in->last_uses);
    if (kind == MF_DO_SEGMENT && (in->kernel = get(p, 1, sizeof *in->kernel)))
        in->kernel->alias = copied(p, to.over.at, in->out_count, sizeof *in->kernel->alias);
    free_refs(&from);
    free_refs(&to);
    free_refs(&last);
    read_nested(p, in);
    return in;
}

typedef struct register_list {
    MF_VECTOR(const mf_type *) types;
    MF_VECTOR(int) destination;
    MF_VECTOR(int) constants;
    MF_VECTOR(int) in; /* by input: a register or -1 */
} register_list;

static void read_register(plan_parser *p, register_list *l)
{
    int r = register_number(p);
    if (r != l->types.count)
        fail(p, "registers in order");
    pushed(p, mf_vector_push(&l->types, parse_type(&p->text)));
    while (accept(p, "input")) {
        int64_t i = number(p);
        if (i >= 4096)
            fail(p, "a smaller number");
        while (!p->text.error && l->in.count <= i)
            pushed(p, mf_vector_push(&l->in, -1));
        if (!p->text.error)
            l->in.at[i] = r;
    }
    if (accept(p, "constant")) {
        number(p);
        pushed(p, mf_vector_push(&l->constants, r));
    }
    pushed(p, mf_vector_push(&l->destination, accept(p, "destination") ? (int)number(p) : -1));
}

static mf_block *read_block(plan_parser *p)
{
    mf_block *b = get(p, 1, sizeof *b);
    register_list regs = { 0 };
    MF_VECTOR(mf_instr *) instrs = { 0 };
    reference_list out = { 0 };
    mf_instr_kind kind = MF_DO_SEGMENT;
    if (!b || ++p->text.depth > DEEPEST) {
        fail(p, "fewer levels");
        return NULL;
    }
    expect(p, "{");
    while (at_register(p))
        read_register(p, &regs);
    while (!p->text.error && !accept(p, "return")) {
        if (!read_kind(p, &kind))
            fail(p, "an instruction");
        pushed(p, mf_vector_push(&instrs, p->text.error ? NULL : read_instr(p, kind)));
    }
    read_refs(p, &out);
    expect(p, "}");
    b->register_count = regs.types.count;
    b->types = copied(p, regs.types.at, regs.types.count, sizeof *b->types);
    b->destination = copied(p, regs.destination.at, regs.destination.count, sizeof *b->destination);
    b->in_count = regs.in.count;
    b->in = copied(p, regs.in.at, regs.in.count, sizeof *b->in);
    b->constant_count = regs.constants.count;
    b->constants = copied(p, regs.constants.at, regs.constants.count, sizeof *b->constants);
    b->instr_count = instrs.count;
    b->instrs = copied(p, instrs.at, instrs.count, sizeof *b->instrs);
    b->out_count = out.refs.count;
    b->out = copied(p, out.refs.at, out.refs.count, sizeof *b->out);
    b->out_moves = copied(p, out.moved.at, out.moved.count, sizeof *b->out_moves);
    mf_free(regs.types.at);
    mf_free(regs.destination.at);
    mf_free(regs.constants.at);
    mf_free(regs.in.at);
    mf_free(instrs.at);
    free_refs(&out);
    p->text.depth--;
    return b;
}

/* ---- maps */

static void read_inputs(plan_parser *p, mf_map_plan *m)
{
    MF_VECTOR(const mf_type *) types = { 0 };
    MF_VECTOR(const mf_type *) shards = { 0 };
    MF_VECTOR(int64_t) axes = { 0 };
    MF_VECTOR(bool) held = { 0 };
    while (accept(p, "input")) {
        if (number(p) != types.count)
            fail(p, "inputs in order");
        pushed(p, mf_vector_push(&types, parse_type(&p->text)));
        pushed(p, mf_vector_push(&shards, parse_type_after(&p->text, "shard")));
        expect(p, "axis");
        pushed(p, mf_vector_push(&axes, accept(p, "None") ? INT64_MIN : number(p)));
        pushed(p, mf_vector_push(&held, accept(p, "held")));
    }
    m->in_count = types.count;
    m->types = copied(p, types.at, types.count, sizeof *m->types);
    m->shards = copied(p, shards.at, shards.count, sizeof *m->shards);
    m->axes = copied(p, axes.at, axes.count, sizeof *m->axes);
    m->held = copied(p, held.at, held.count, sizeof *m->held);
    mf_free(held.at);
    mf_free(types.at);
    mf_free(shards.at);
    mf_free(axes.at);
}

static void read_outputs(plan_parser *p, mf_map_plan *m)
{
    MF_VECTOR(mf_map_output) list = { 0 };
    while (accept(p, "output")) {
        mf_map_output out = { .donor = -1, .forward = -1 };
        if (number(p) != list.count)
            fail(p, "outputs in order");
        out.type = parse_type(&p->text);
        out.shard = parse_type_after(&p->text, "shard");
        out.uniform = accept(p, "uniform");
        if (accept(p, "forward"))
            out.forward = (int)number(p);
        else if (!out.uniform)
            expect(p, "stacked");
        if (accept(p, "donor"))
            out.donor = (int)number(p);
        pushed(p, mf_vector_push(&list, out));
    }
    m->out_count = list.count;
    m->out = copied(p, list.at, list.count, sizeof *m->out);
    mf_free(list.at);
}

/* The indices along the axis that this process has. */
static void read_local(plan_parser *p, mf_map_plan *m)
{
    struct {
        int count, capacity;
        int64_t *at;
    } list = { 0 };
    if (accept(p, "local"))
        do
            pushed(p, mf_vector_push(&list, number(p)));
        while (at_digit(p));
    m->local = mf_ints_intern(list.at, list.count);
    pushed(p, m->local != NULL);
    m->size = list.count ? list.count : m->axis_size;
    mf_free(list.at);
}

static void read_map(plan_parser *p)
{
    int64_t n = number(p);
    mf_map_plan *m = n < 1024 ? map_at(p, n) : NULL;
    if (!m || m->device) {
        fail(p, "another map");
        return;
    }
    expect(p, "{");
    expect(p, "size");
    m->axis_size = number(p);
    read_local(p, m);
    read_inputs(p, m);
    read_outputs(p, m);
    expect(p, "device");
    m->device = read_block(p);
    expect(p, "uniform");
    m->uniform = read_block(p);
    expect(p, "}");
}

static void finish_maps(plan_parser *p)
{
    mf_map_plan *newest = NULL;
    for (mf_map_plan *m = p->plan->maps, *next; m && !p->text.error; m = next) {
        next = m->next;
        if (!m->device || !m->uniform)
            fail(p, "the map that an instruction names");
        m->next = newest;
        newest = m;
    }
    if (!p->text.error)
        p->plan->maps = newest;
}

mf_plan *mf_plan_parse(const char *text, mf_error_object **error)
{
    plan_parser p = { .text = { .start = text, .at = text }, .plan = mf_plan_new(NULL, 0) };
    if (!p.plan) {
        *error = mf_error_out_of_memory();
        return NULL;
    }
    expect(&p, "plan");
    expect(&p, "{");
    expect(&p, "program");
    p.plan->top = read_block(&p);
    while (accept(&p, "map"))
        read_map(&p);
    expect(&p, "}");
    parse_skip(&p.text);
    if (*p.text.at)
        fail(&p, "the end");
    finish_maps(&p);
    *error = p.text.error;
    if (!p.text.error)
        return p.plan;
    mf_plan_free(p.plan);
    return NULL;
}
