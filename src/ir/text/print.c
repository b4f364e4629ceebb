/* Programs as text:
 *
 *     program (a: f32[4], b: f32[]*) {
 *       c: f32[4] = psum[axes=(i), groups=(), group_size=0] a
 *       d: f32[4] = mul c {1.0, 2.0, 3.0, 4.0}:f32[4]
 *       e: f32[8,4] = pmap[axis_name=i, axis_size=8, in_axes=(None), program=(a: f32[4]) {
 *         return a
 *       }] d
 *       return d, e
 *     }
 *
 * Invariant: the text parses (parse.c) to an equal program, except for constants of more than MF_LITERAL_MAX elements, printed as
 * const#<hash>:<type>, and custom rules, printed as a name. It depends on the program only, never on addresses: variables are named
 * a, b, ..., z, aa, ab, ... in order of definition, and a nested program starts at a again. A comment starts with # and ends with the line. */
#include "ir/text/number_text.h"
#include "ir/op.h"
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#define INDENT 2

static void print_program(mf_text *t, const mf_program *p, int indent);

static void indent_by(mf_text *t, int indent) { mf_text_add(t, "%*s", indent, ""); }

/* ---- variables and constants */
typedef struct printer {
    mf_text *text;
    int *number; /* by variable id: its number in order of definition; NULL when out of memory */
    int indent;
} printer;

static void print_name(mf_text *t, int number)
{
    char s[16];
    int i = (int)sizeof s;
    s[--i] = 0;
    for (int n = number; n >= 0 && i > 0; n = n / 26 - 1)
        s[--i] = (char)('a' + n % 26);
    mf_text_put(t, s + i);
}

static void print_elements(mf_text *t, const mf_literal *l)
{
    int numbers;
    mf_dtype dtype = mf_number_dtype(l->type->dtype, &numbers);
    int64_t count = l->type->size * numbers;
    bool braces = l->type->rank > 0 || numbers > 1;
    const unsigned char *p = l->data;
    if (braces)
        mf_text_put(t, "{");
    for (int64_t i = 0; i < count; i++, p += mf_dtype_size(dtype)) {
        if (i)
            mf_text_put(t, ", ");
        mf_number_print(t, dtype, p);
    }
    if (braces)
        mf_text_put(t, "}");
}

static void print_constant(mf_text *t, mf_literal *l)
{
    mf_literal *c = mf_literal_contiguous(l);
    if (!c)
        mf_text_put(t, "const#unavailable"); /* out of memory: a dump should still show the rest */
    else if (c->type->size <= MF_LITERAL_MAX)
        print_elements(t, c);
    else
        mf_text_add(t, "const#%016" PRIx64, mf_hash(c->data, (size_t)c->type->bytes, 0));
    mf_text_put(t, ":");
    mf_type_print(t, l->type);
    mf_drop(c);
}

static void print_var(const printer *p, const mf_variable *v)
{
    if (v->constant)
        print_constant(p->text, v->constant);
    else
        print_name(p->text, p->number ? p->number[v->id] : v->id);
}

static void print_definitions(const printer *p, mf_variable *const *vars, int count)
{
    for (int i = 0; i < count; i++) {
        mf_text_put(p->text, i ? ", " : "");
        print_var(p, vars[i]);
        mf_text_put(p->text, ": ");
        mf_type_print(p->text, vars[i]->type);
    }
}

/* ---- params */
static bool is_plain(const char *s)
{
    if (!isalpha((unsigned char)s[0]) && s[0] != '_')
        return false;
    if (strcmp(s, "None") == 0)
        return false;
    while (isalnum((unsigned char)*s) || *s == '_' || *s == '.')
        s++;
    return !*s;
}

static void print_string(mf_text *t, const char *s)
{
    if (!s || is_plain(s)) {
        mf_text_put(t, s ? s : "None");
        return;
    }
    mf_text_put(t, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            mf_text_add(t, "\\%c", c);
        else if (c < 32 || c == 127)
            mf_text_add(t, "\\x%02x", c);
        else
            mf_text_putn(t, s, 1);
    }
    mf_text_put(t, "\"");
}

static void print_int(mf_text *t, int64_t x)
{
    if (x == MF_NONE)
        mf_text_put(t, "None");
    else
        mf_text_add(t, "%" PRId64, x);
}

static void print_ints(mf_text *t, const mf_intlist *list)
{
    mf_text_put(t, "(");
    for (int i = 0; list && i < list->count; i++) {
        mf_text_put(t, i ? "," : "");
        print_int(t, list->at[i]);
    }
    mf_text_put(t, ")");
}

static void print_names(mf_text *t, const mf_namelist *list)
{
    mf_text_put(t, "(");
    for (int i = 0; list && i < list->count; i++) {
        mf_text_put(t, i ? "," : "");
        print_string(t, list->at[i]);
    }
    mf_text_put(t, ")");
}

static void print_nested(mf_text *t, const mf_program *p, int indent)
{
    if (p)
        print_program(t, p, indent);
    else
        mf_text_put(t, "None");
}

static void print_list(mf_text *t, const mf_program_list *list, int indent)
{
    mf_text_put(t, "[");
    for (int i = 0; i < list->count; i++) {
        mf_text_put(t, i ? ", " : "");
        print_nested(t, list->at[i], indent);
    }
    mf_text_put(t, "]");
}

static void print_rule(mf_text *t, const mf_custom_rule_head *rule) { print_string(t, rule ? rule->name : NULL); }

static void print_value(mf_text *t, mf_param_kind kind, const void *f, int indent)
{
    switch (kind) {
    case MF_PARAM_INT: print_int(t, *(const int64_t *)f); break;
    case MF_PARAM_BOOL: mf_text_put(t, *(const bool *)f ? "true" : "false"); break;
    case MF_PARAM_DOUBLE: mf_number_print_double(t, *(const double *)f); break;
    case MF_PARAM_DTYPE: mf_text_put(t, *(const mf_dtype *)f ? mf_dtype_short(*(const mf_dtype *)f) : "default"); break;
    case MF_PARAM_INTS:
    case MF_PARAM_EXTRA: print_ints(t, *(const mf_intlist *const *)f); break;
    case MF_PARAM_NAME: print_string(t, *(const char *const *)f); break;
    case MF_PARAM_NAMES: print_names(t, *(const mf_namelist *const *)f); break;
    case MF_PARAM_PROGRAM: print_nested(t, *(mf_program *const *)f, indent); break;
    case MF_PARAM_PROGRAMS: print_list(t, f, indent); break;
    case MF_PARAM_RULE: print_rule(t, *(const mf_custom_rule_head *const *)f); break;
    }
}

void mf_params_print(mf_text *t, const mf_op *op, const void *params, int indent)
{
    if (!op->params || !params)
        return;
    bool any = false;
    for (int programs = 0; programs < 2; programs++) /* programs last: the parser needs the fields that bind their axis first */
        for (const mf_param *p = op->params; p->name; p++) {
            const void *f = (const char *)params + p->offset;
            if ((p->kind == MF_PARAM_PROGRAM || p->kind == MF_PARAM_PROGRAMS) != programs ||
                (p->kind == MF_PARAM_EXTRA && !(*(const mf_intlist *const *)f)->count))
                continue;
            mf_text_add(t, "%s%s=", any ? ", " : "[", p->name);
            print_value(t, p->kind, f, indent);
            any = true;
        }
    mf_text_put(t, any ? "]" : "");
}

/* ---- programs */
static void number_vars(const mf_program *p, int *number)
{
    int next = 0;
    for (int i = 0; i < p->in_count; i++)
        number[p->in[i]->id] = next++;
    for (int k = 0; k < p->eqn_count; k++)
        for (int i = 0; i < p->eqns[k]->out_count; i++)
            number[p->eqns[k]->out[i]->id] = next++;
}

static void print_eqn(const printer *p, const mf_eqn *e)
{
    indent_by(p->text, p->indent);
    print_definitions(p, e->out, e->out_count);
    mf_text_add(p->text, "%s = %s", e->out_count ? "" : "()", e->op->name);
    mf_params_print(p->text, e->op, e->params, p->indent);
    for (int i = 0; i < e->in_count; i++) {
        mf_text_put(p->text, " ");
        print_var(p, e->in[i]);
    }
    mf_text_put(p->text, "\n");
}

static void print_program(mf_text *t, const mf_program *program, int indent)
{
    printer p = { t, mf_calloc((size_t)program->var_count + 1, sizeof *p.number), indent + INDENT };
    if (p.number)
        number_vars(program, p.number);
    mf_text_put(t, "(");
    print_definitions(&p, program->in, program->in_count);
    mf_text_put(t, ") {\n");
    for (int i = 0; i < program->eqn_count; i++)
        print_eqn(&p, program->eqns[i]);
    indent_by(t, p.indent);
    mf_text_put(t, "return");
    for (int i = 0; i < program->out_count; i++) {
        mf_text_put(t, i ? ", " : " ");
        print_var(&p, program->out[i]);
    }
    mf_text_put(t, "\n");
    indent_by(t, indent);
    mf_text_put(t, "}");
    mf_free(p.number);
}

void mf_program_print(mf_text *t, const mf_program *p)
{
    mf_text_put(t, "program ");
    print_program(t, p, 0);
    mf_text_put(t, "\n");
}
