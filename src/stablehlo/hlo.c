/* Operations as text: names, types and regions, in MLIR's generic form. Invariant: every value is defined on a line of its own before it is
 * used; the operations of a region are indented by two. */
#include "stablehlo/hlo.h"

#include "base/memory/vector.h"

#include <inttypes.h>
#include <string.h>

void h_fail(mf_hlo *h, mf_error_object *e)
{
    e = e ? e : mf_error_out_of_memory();
    if (h->error)
        mf_error_ignore(e);
    else
        h->error = e;
}

bool h_failed(const mf_hlo *h) { return h->error; }

void *h_alloc(mf_hlo *h, int64_t count, size_t size)
{
    void *p = mf_arena_alloc(&h->arena, ((size_t)count + 1) * size);
    if (!p)
        h_fail(h, NULL);
    return p;
}

const char *h_keep(mf_hlo *h, mf_text *t)
{
    char *kept = t->failed ? NULL : h_alloc(h, (int64_t)t->count, 1);
    if (kept && t->count)
        memcpy(kept, t->at, t->count);
    else if (t->failed)
        h_fail(h, NULL);
    mf_text_free(t);
    return kept ? kept : "";
}

/* ---- types and names */
static const char *element_name(mf_dtype d)
{
    switch (d) {
    case MF_BOOL: return "i1";
    case MF_U8: return "ui8";
    case MF_U16: return "ui16";
    case MF_U32: return "ui32";
    case MF_KEY:
    case MF_U64: return "ui64";
    case MF_C64: return "complex<f32>";
    case MF_C128: return "complex<f64>";
    default: return mf_dtype_short(d);
    }
}

void hlo_type_dims(mf_hlo *h, const mf_type *type, const char *element)
{
    mf_text_put(h->text, "tensor<");
    for (int i = 0; i < type->rank; i++)
        mf_text_add(h->text, "%" PRId64 "x", type->dims[i]);
    mf_text_add(h->text, "%s>", element);
}

void hlo_type(mf_hlo *h, const mf_type *type) { hlo_type_dims(h, type, element_name(type->dtype)); }

void hlo_name(mf_hlo *h, mf_hlo_value v)
{
    if (v.name < 0)
        mf_text_add(h->text, "%%arg%d", -1 - v.name);
    else
        mf_text_add(h->text, "%%%d", v.name);
}

void hlo_indent(mf_hlo *h) { mf_text_add(h->text, "%*s", h->indent, ""); }

static void put_names(mf_hlo *h, const mf_hlo_value *v, int count)
{
    for (int i = 0; i < count; i++) {
        mf_text_put(h->text, i ? ", " : "");
        hlo_name(h, v[i]);
    }
}

static void put_types(mf_hlo *h, const mf_hlo_value *v, int count)
{
    for (int i = 0; i < count; i++) {
        mf_text_put(h->text, i ? ", " : "");
        hlo_type(h, v[i].type);
    }
}

/* Whether all values exist. An operation on a value that could not be made is not emitted. */
static bool complete(mf_hlo *h, const mf_hlo_value *v, int count)
{
    for (int i = 0; i < count; i++)
        if (!v[i].type)
            h_fail(h, NULL);
    return !h->error;
}

/* "%4, %5 = "stablehlo.op"(%1, %2) <{attributes}>" */
static void put_head(mf_hlo *h, const char *op, const mf_hlo_value *in, int in_count, mf_hlo_value *out, int out_count, const char *format,
                     va_list list)
{
    for (int i = 0; i < out_count; i++)
        out[i].name = h->next++;
    hlo_indent(h);
    put_names(h, out, out_count);
    mf_text_add(h->text, "%s\"%s%s\"(", out_count ? " = " : "", strchr(op, '.') ? "" : "stablehlo.", op);
    put_names(h, in, in_count);
    mf_text_put(h->text, ")");
    if (format) {
        mf_text_put(h->text, " <{");
        mf_text_vadd(h->text, format, list);
        mf_text_put(h->text, "}>");
    }
}

static void put_signature(mf_hlo *h, const mf_hlo_value *in, int in_count, const mf_hlo_value *out, int out_count)
{
    mf_text_put(h->text, " : (");
    put_types(h, in, in_count);
    mf_text_put(h->text, ") -> (");
    put_types(h, out, out_count);
    mf_text_put(h->text, ")\n");
}

const mf_type *hlo_sound(mf_hlo *h, const mf_type *type)
{
    if (!type)
        h_fail(h, NULL);
    return type ? type : mf_type_scalar(MF_F32, false);
}

mf_hlo_value h_op(mf_hlo *h, const char *op, const mf_type *type, const mf_hlo_value *in, int count, const char *format, ...)
{
    mf_hlo_value out = { 0, hlo_sound(h, type) };
    if (!complete(h, in, count) || !complete(h, &out, 1))
        return out;
    va_list list;
    va_start(list, format);
    put_head(h, op, in, count, &out, 1, format, list);
    va_end(list);
    put_signature(h, in, count, &out, 1);
    return out;
}

static void put_plain(mf_hlo *h, const char *op, const mf_hlo_value *in, int in_count, mf_hlo_value *out, int out_count, ...)
{
    va_list none;
    va_start(none, out_count);
    put_head(h, op, in, in_count, out, out_count, NULL, none);
    va_end(none);
    put_signature(h, in, in_count, out, out_count);
}

void h_ops(mf_hlo *h, const char *op, const mf_hlo_value *in, int in_count, mf_hlo_value *out, int out_count)
{
    if (complete(h, in, in_count) && complete(h, out, out_count))
        put_plain(h, op, in, in_count, out, out_count);
}

/* ---- regions */
void h_open(mf_hlo *h, const char *op, const mf_hlo_value *in, int in_count, mf_hlo_value *out, int out_count, const char *format, ...)
{
    if (!complete(h, in, in_count) || !complete(h, out, out_count))
        return;
    va_list list;
    va_start(list, format);
    put_head(h, op, in, in_count, out, out_count, format, list);
    va_end(list);
    mf_text_put(h->text, " (");
    h->indent += 2;
}

void h_region(mf_hlo *h, mf_hlo_value *arguments, int count)
{
    if (!complete(h, arguments, count))
        return;
    bool first = h->text->count && h->text->at[h->text->count - 1] == '(';
    mf_text_put(h->text, first ? "{\n" : ", {\n");
    if (!count)
        return;
    mf_text_add(h->text, "%*s^bb0(", h->indent - 2, "");
    for (int i = 0; i < count; i++) {
        arguments[i].name = h->next++;
        mf_text_put(h->text, i ? ", " : "");
        hlo_name(h, arguments[i]);
        mf_text_put(h->text, ": ");
        hlo_type(h, arguments[i].type);
    }
    mf_text_put(h->text, "):\n");
}

void h_return(mf_hlo *h, const mf_hlo_value *values, int count)
{
    if (!complete(h, values, count))
        return;
    hlo_indent(h);
    mf_text_put(h->text, "\"stablehlo.return\"(");
    put_names(h, values, count);
    mf_text_put(h->text, ") : (");
    put_types(h, values, count);
    mf_text_add(h->text, ") -> ()\n%*s}", h->indent - 2, "");
}

void h_close(mf_hlo *h, const mf_hlo_value *in, int in_count, const mf_hlo_value *out, int out_count)
{
    if (h->error)
        return;
    h->indent -= 2;
    mf_text_put(h->text, ")");
    put_signature(h, in, in_count, out, out_count);
}

/* ---- programs */
static mf_hlo_value *value_of(mf_hlo *h, mf_hlo_value *values, const mf_variable *v)
{
    mf_hlo_value *at = &values[v->id];
    if (!at->type && v->constant)
        *at = h_literal(h, v->constant);
    return at;
}

/* The type that v's value should have: the variable's, or the type of the wanted part (h_map_program). */
static const mf_type *wanted_of(const mf_hlo_value *values, const mf_variable *v)
{
    return values[v->id].type ? values[v->id].type : v->type;
}

static void put_eqn(mf_hlo *h, const mf_eqn *e, mf_hlo_value *values)
{
    MF_SMALL_ARRAY(mf_hlo_value, in, 8, e->in_count);
    MF_SMALL_ARRAY(mf_hlo_value, out, 8, e->out_count);
    if (!in || !out)
        h_fail(h, NULL);
    for (int i = 0; !h->error && i < e->in_count; i++)
        in[i] = *value_of(h, values, e->in[i]);
    for (int i = 0; !h->error && i < e->out_count; i++)
        out[i] = (mf_hlo_value){ 0, wanted_of(values, e->out[i]) };
    if (!h->error)
        e->op->stablehlo(h, e, in, out);
    for (int i = 0; !h->error && i < e->out_count; i++)
        values[e->out[i]->id] = (mf_hlo_value){ out[i].name, wanted_of(values, e->out[i]) };
}

static void put_eqns(mf_hlo *h, const mf_program *p, const mf_hlo_value *in, mf_hlo_value *values)
{
    for (int i = 0; i < p->in_count; i++)
        values[p->in[i]->id] = in[i];
    for (int i = 0; i < p->eqn_count && !h->error; i++)
        put_eqn(h, p->eqns[i], values);
}

void h_program(mf_hlo *h, const mf_program *p, const mf_hlo_value *in, mf_hlo_value *out)
{
    mf_hlo_value *values = h_alloc(h, p->var_count, sizeof *values);
    if (values)
        put_eqns(h, p, in, values);
    for (int i = 0; values && i < p->out_count && !h->error; i++)
        out[i] = *value_of(h, values, p->out[i]);
}

void h_map_program(mf_hlo *h, const mf_program *p, const mf_hlo_value *in, mf_hlo_value *out)
{
    mf_hlo_value *values = h_alloc(h, p->var_count, sizeof *values);
    for (int i = 0; values && i < p->out_count; i++)
        if (h_is_part(out[i].type, p->out[i]) && hlo_uses(p, p->out[i], NULL, NULL) == 1)
            values[p->out[i]->id].type = out[i].type;
    if (values)
        put_eqns(h, p, in, values);
    for (int i = 0; values && i < p->out_count && !h->error; i++) {
        const mf_type *wanted = out[i].type;
        out[i] = *value_of(h, values, p->out[i]);
        if (wanted)
            out[i] = hlo_cut(h, out[i], p->out[i], wanted);
    }
}

/* ---- rules shared by several ops */
void mf_hlo_by_name(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out)
{
    out[0] = h_op(h, e->op->hlo, e->out[0]->type, in, e->in_count, NULL);
}

void mf_hlo_none(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out)
{
    (void)in, (void)out;
    h_fail(h, mf_error_new_at(e->address, MF_ERROR_ARGUMENT, "%s has no StableHLO: %s", e->op->name, e->op->hlo));
}

void mf_hlo_same(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out)
{
    (void)h;
    for (int i = 0; i < e->out_count; i++)
        out[i] = in[i];
}

void mf_hlo_call(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out)
{
    h_program(h, *mf_params_program_at(e->op, e->params, 0), in, out);
}
