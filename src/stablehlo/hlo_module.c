/* Modules: main's arguments and results, and donation. Invariant: a donated argument shares the memory of a result of its type
 * (tf.aliasing_output), each result being used at most once; a donated argument without such a result may be reused by the plugin as it
 * likes (jax.buffer_donor). */
#include "stablehlo/hlo_module.h"

#include "ops/ops.h"
#include "stablehlo/hlo.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

/* main's arguments and results. If the whole program is one map, they are its devices' own inputs and outputs. */
typedef struct signature {
    const mf_eqn *map; /* or NULL */
    int in_count, out_count;
    const mf_type **in, **out;
    int *alias;  /* by argument: the result that shares its memory; -1: none */
    bool *donor; /* by argument */
} signature;

static int place_of(mf_variable *const *list, int count, const mf_variable *v)
{
    for (int i = 0; i < count; i++)
        if (list[i] == v)
            return i;
    return -1;
}

static void map_types(mf_hlo *h, signature *s, const mf_program *p)
{
    mf_hlo_part *in = h_alloc(h, s->in_count, sizeof *in), *out = h_alloc(h, s->out_count, sizeof *out);
    s->map = in && out ? mf_hlo_parts(p, h->replicas, in, out) : NULL;
    const mf_pmap_params *m = s->map ? s->map->params : NULL;
    for (int i = 0; m && i < p->in_count; i++) {
        int k = place_of(s->map->in, s->map->in_count, p->in[i]);
        s->in[i] = hlo_sound(h, mf_hlo_part_type(&in[i], p->in[i]->type));
        s->donor[i] = s->donor[i] || (k >= 0 && k < m->donated->count && m->donated->at[k]);
    }
    for (int o = 0; m && o < p->out_count; o++)
        s->out[o] = hlo_sound(h, mf_hlo_part_type(&out[o], p->out[o]->type));
}

static void set_aliases(mf_hlo *h, signature *s)
{
    bool *taken = h_alloc(h, s->out_count, sizeof *taken);
    for (int i = 0; taken && i < s->in_count; i++) {
        s->alias[i] = -1;
        for (int o = 0; s->donor[i] && o < s->out_count && s->alias[i] < 0; o++)
            if (!taken[o] && s->in[i]->dtype == s->out[o]->dtype && mf_type_same_shape(s->in[i], s->out[o])) {
                s->alias[i] = o;
                taken[o] = true;
            }
    }
}

static bool read_signature(mf_hlo *h, signature *s, const mf_program *p, const bool *donated)
{
    *s = (signature){ .in_count = p->in_count, .out_count = p->out_count };
    s->in = h_alloc(h, s->in_count, sizeof *s->in);
    s->out = h_alloc(h, s->out_count, sizeof *s->out);
    s->alias = h_alloc(h, s->in_count, sizeof *s->alias);
    s->donor = h_alloc(h, s->in_count, sizeof *s->donor);
    if (h->error)
        return false;
    for (int i = 0; i < s->in_count; i++) {
        s->in[i] = p->in[i]->type;
        s->donor[i] = donated && donated[i];
    }
    for (int o = 0; o < s->out_count; o++)
        s->out[o] = p->out[o]->type;
    map_types(h, s, p);
    set_aliases(h, s);
    return !h->error;
}

/* Outside the module a key is two words. */
static void put_outer_type(mf_hlo *h, const mf_type *t)
{
    if (t->dtype == MF_KEY)
        hlo_type_dims(h, t, "2xui32");
    else
        hlo_type(h, t);
}

static void put_arguments(mf_hlo *h, const signature *s)
{
    for (int i = 0; i < s->in_count; i++) {
        mf_text_add(h->text, "%s%%arg%d: ", i ? ", " : "", i);
        put_outer_type(h, s->in[i]);
        if (s->donor[i] && s->alias[i] >= 0)
            mf_text_add(h->text, " {tf.aliasing_output = %d : i32}", s->alias[i]);
        else if (s->donor[i])
            mf_text_put(h->text, " {jax.buffer_donor = true}");
    }
}

static void put_results(mf_hlo *h, const signature *s)
{
    mf_text_put(h->text, "(");
    for (int o = 0; o < s->out_count; o++) {
        mf_text_put(h->text, o ? ", " : "");
        put_outer_type(h, s->out[o]);
    }
    if (mf_hlo_finds_out(h->findings))
        mf_text_put(h->text, s->out_count ? ", tensor<ui64>" : "tensor<ui64>");
    mf_text_put(h->text, ")");
}

/* Converts a key's two words to one, or back. */
static mf_hlo_value cast_key(mf_hlo *h, mf_hlo_value v, bool inwards)
{
    if (v.type->dtype != MF_KEY)
        return v;
    mf_hlo_value to = { h->next++, v.type };
    hlo_indent(h);
    mf_text_add(h->text, "%%%d = \"stablehlo.bitcast_convert\"(", to.name);
    hlo_name(h, v);
    mf_text_put(h->text, ") : (");
    hlo_type_dims(h, v.type, inwards ? "2xui32" : "ui64");
    mf_text_put(h->text, ") -> ");
    hlo_type_dims(h, v.type, inwards ? "ui64" : "2xui32");
    mf_text_put(h->text, "\n");
    return to;
}

static void put_map(mf_hlo *h, const signature *s, const mf_program *p, const mf_hlo_value *given, mf_hlo_value *out)
{
    const mf_eqn *e = s->map;
    const mf_pmap_params *m = e->params;
    mf_hlo_value *in = h_alloc(h, e->in_count, sizeof *in);
    if (in)
        h_push_axis(h, m->axis_name, m->axis_size);
    for (int i = 0; in && i < e->in_count && !h->error; i++) {
        int k = place_of(p->in, p->in_count, e->in[i]);
        in[i] = k >= 0 ? given[k] : h_literal(h, e->in[i]->constant);
        if (k < 0 && m->in_axes->at[i] != MF_NONE)
            in[i] = h_row(h, in[i], h_innermost_index(h), (int)m->in_axes->at[i]);
    }
    for (int o = 0; o < s->out_count; o++)
        out[o].type = s->out[o];
    if (!h->error)
        h_map_program(h, m->program, in, out);
}

static void put_return(mf_hlo *h, const signature *s, mf_hlo_value *out)
{
    int count = h_put_found(h, out, s->out_count);
    mf_text_put(h->text, "    return");
    for (int o = 0; o < count; o++) {
        mf_text_put(h->text, o ? ", " : " ");
        hlo_name(h, out[o]);
    }
    for (int o = 0; o < count; o++) {
        mf_text_put(h->text, o ? ", " : " : ");
        put_outer_type(h, out[o].type);
    }
    mf_text_put(h->text, "\n");
}

static void put_main(mf_hlo *h, const signature *s, const mf_program *p)
{
    mf_hlo_value *in = h_alloc(h, s->in_count, sizeof *in), *out = h_alloc(h, s->out_count + 1, sizeof *out);
    if (!h->error)
        hlo_begin_findings(h);
    for (int i = 0; !h->error && i < s->in_count; i++)
        in[i] = cast_key(h, (mf_hlo_value){ -1 - i, s->in[i] }, true);
    if (!h->error && s->map)
        put_map(h, s, p, in, out);
    else if (!h->error)
        h_program(h, p, in, out);
    for (int o = 0; !h->error && o < s->out_count; o++)
        out[o] = cast_key(h, out[o], false);
    if (h->error)
        return;
    put_return(h, s, out);
}

/* Appends a name as a symbol: letters, digits and _. */
static void put_symbol(mf_text *t, const char *name)
{
    for (; name && *name; name++) {
        char c = isalnum((unsigned char)*name) ? *name : '_';
        mf_text_putn(t, &c, 1);
    }
}

mf_error_object *mf_hlo_module(mf_text *t, const char *name, const mf_program *p, int64_t replicas, const bool *donated,
                               mf_hlo_findings *findings, bool for_cpu)
{
    mf_hlo h = { .text = t, .replicas = replicas, .indent = 4, .findings = findings, .for_cpu = for_cpu };
    signature s;
    if (read_signature(&h, &s, p, donated)) {
        mf_text_put(t, "module @");
        put_symbol(t, name && *name ? name : "main");
        mf_text_add(t, " attributes {mhlo.num_replicas = %" PRId64 " : i32, mhlo.num_partitions = 1 : i32} {\n", replicas);
        mf_text_put(t, "  func.func public @main(");
        put_arguments(&h, &s);
        mf_text_put(t, ") -> ");
        put_results(&h, &s);
        mf_text_put(t, " {\n");
        put_main(&h, &s, p);
        mf_text_put(t, "  }\n}\n");
    }
    mf_arena_free(&h.arena);
    return h.error;
}
