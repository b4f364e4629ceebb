/* Parses the parameters of an equation: "[axes=(0), tiled=true]". The descriptions of the fields (ir/op.h) drive it, so no op has a parser
 * of its own. Omitted fields are zero or the empty list; nested programs come after the fields that bind their axis. */
#include "ir/text/parser.h"

#include "base/memory/vector.h"
#include "ir/text/number_text.h"

#include <ctype.h>
#include <string.h>

static int64_t parse_int(parser *p)
{
    int64_t x = MF_NONE;
    if (!parse_accept(p, "None"))
        parse_number(p, MF_I64, &x, "an integer");
    return x;
}

static bool parse_bool(parser *p)
{
    unsigned char x = 0;
    parse_number(p, MF_BOOL, &x, "true or false");
    return x;
}

static mf_dtype parse_dtype(parser *p)
{
    const char *word;
    int n = parse_accept(p, "default") ? 0 : parse_word(p, &word, "a dtype such as f32");
    mf_dtype dtype = n ? mf_dtype_parse(word, n) : MF_DTYPE_DEFAULT;
    if (n && dtype == MF_DTYPE_DEFAULT) {
        p->at = word;
        parse_expected(p, "a dtype such as f32");
    }
    return dtype;
}

static const mf_intlist *parse_ints(parser *p)
{
    MF_VECTOR(int64_t) list = { 0 };
    parse_expect(p, "(");
    while (!p->error && !parse_accept(p, ")")) {
        if (!mf_vector_push(&list, parse_int(p)))
            parse_out_of_memory(p);
        if (!parse_accept(p, ",")) {
            parse_expect(p, ")");
            break;
        }
    }
    const mf_intlist *result = p->error ? NULL : mf_ints_intern(list.at, list.count);
    if (!result)
        parse_out_of_memory(p);
    mf_free(list.at);
    return result;
}

static int hex_digit(char c) { return isdigit((unsigned char)c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

/* Reads one character of a string, unescaped; -1 at the string's end. */
static int string_char(parser *p)
{
    const char *s = p->at;
    if (*s == '"' || !*s)
        return -1;
    bool hex = s[0] == '\\' && s[1] == 'x' && hex_digit(s[2]) >= 0 && hex_digit(s[3]) >= 0;
    bool escaped = s[0] == '\\' && (s[1] == '"' || s[1] == '\\');
    p->at += hex ? 4 : escaped ? 2 : 1;
    return hex ? hex_digit(s[2]) * 16 + hex_digit(s[3]) : (unsigned char)s[escaped];
}

static const char *parse_string(parser *p)
{
    mf_text t = { 0 };
    p->at++;
    for (int c; (c = string_char(p)) >= 0;)
        mf_text_putn(&t, &(char){ (char)c }, 1);
    const char *s = t.failed ? NULL : mf_intern_n(t.at ? t.at : "", t.count);
    if (!s)
        parse_out_of_memory(p);
    mf_text_free(&t);
    parse_expect(p, "\"");
    return s;
}

/* NULL for None, or with an error. */
static const char *parse_name(parser *p)
{
    if (p->error || parse_accept(p, "None"))
        return NULL;
    if (*p->at == '"')
        return parse_string(p);
    const char *word;
    int n = parse_word(p, &word, "a name");
    const char *s = n ? mf_intern_n(word, (size_t)n) : NULL;
    if (!s)
        parse_out_of_memory(p);
    return s;
}

static const mf_namelist *parse_names(parser *p)
{
    MF_VECTOR(const char *) list = { 0 };
    parse_expect(p, "(");
    while (!p->error && !parse_accept(p, ")")) {
        const char *s = parse_name(p);
        if (!s && !p->error)
            parse_expected(p, "a name");
        if (!mf_vector_push(&list, s))
            parse_out_of_memory(p);
        if (!parse_accept(p, ",")) {
            parse_expect(p, ")");
            break;
        }
    }
    const mf_namelist *result = p->error ? NULL : mf_names_intern(list.at, list.count);
    if (!result)
        parse_out_of_memory(p);
    mf_free(list.at);
    return result;
}

static mf_program *parse_program_field(parser *p, const mf_axis_env *env) { return parse_accept(p, "None") ? NULL : parse_body(p, env); }

static void parse_programs(parser *p, mf_arena *arena, mf_program_list *list, const mf_axis_env *env)
{
    MF_VECTOR(mf_program *) read = { 0 };
    parse_expect(p, "[");
    while (!p->error && !parse_accept(p, "]")) {
        mf_program *program = parse_body(p, env);
        if (program && !mf_vector_push(&read, program)) {
            mf_drop(program);
            parse_out_of_memory(p);
        }
        if (!parse_accept(p, ",")) {
            parse_expect(p, "]");
            break;
        }
    }
    mf_program **at = mf_arena_alloc(arena, (size_t)read.count * sizeof *at + 1);
    if (!at)
        parse_out_of_memory(p);
    for (int i = 0; i < read.count; i++) {
        if (at)
            at[i] = read.at[i];
        else
            mf_drop(read.at[i]);
    }
    mf_free(read.at);
    if (at)
        *list = (mf_program_list){ read.count, at };
}

static const void *parse_rule(parser *p)
{
    if (!parse_accept(p, "None"))
        parse_fail_at(p, p->at, mf_error_new(MF_ERROR_ARGUMENT, "a custom rule is printed as its name and cannot be read back"));
    return NULL;
}

static void parse_value(parser *p, mf_arena *arena, mf_param_kind kind, void *f, const mf_axis_env *env)
{
    switch (kind) {
    case MF_PARAM_INT: *(int64_t *)f = parse_int(p); break;
    case MF_PARAM_BOOL: *(bool *)f = parse_bool(p); break;
    case MF_PARAM_DOUBLE: parse_number(p, MF_F64, f, "a number"); break;
    case MF_PARAM_DTYPE: *(mf_dtype *)f = parse_dtype(p); break;
    case MF_PARAM_INTS:
    case MF_PARAM_EXTRA: *(const mf_intlist **)f = parse_ints(p); break;
    case MF_PARAM_NAME: *(const char **)f = parse_name(p); break;
    case MF_PARAM_NAMES: *(const mf_namelist **)f = parse_names(p); break;
    case MF_PARAM_PROGRAM: *(mf_program **)f = parse_program_field(p, env); break;
    case MF_PARAM_PROGRAMS: parse_programs(p, arena, f, env); break;
    case MF_PARAM_RULE: *(const void **)f = parse_rule(p); break;
    }
}

static const mf_param *find_field(const mf_op *op, const char *name, int length)
{
    for (const mf_param *f = op->params; f->name; f++)
        if ((int)strlen(f->name) == length && memcmp(f->name, name, (size_t)length) == 0)
            return f;
    return NULL;
}

/* A nested program is parsed in its op's axis environment, so the size of an axis that the op binds must be known by now. */
static bool axis_is_sized(parser *p, const mf_op *op, const char *params, mf_param_kind kind)
{
    const int64_t *size = kind == MF_PARAM_PROGRAM || kind == MF_PARAM_PROGRAMS ? mf_params_role(op, params, MF_ROLE_BOUND_SIZE) : NULL;
    if (size && *size < 1)
        parse_fail_at(p, p->at, mf_error_new(MF_ERROR_ARGUMENT, "%s: expected a positive axis_size before the program", op->name));
    return !p->error;
}

static void parse_field(parser *p, mf_arena *arena, const mf_op *op, char *params, const mf_axis_env *env, uint64_t *seen)
{
    const char *name;
    int n = parse_word(p, &name, "a field");
    if (!n)
        return;
    const mf_param *f = find_field(op, name, n);
    uint64_t bit = f ? (uint64_t)1 << ((f - op->params) & 63) : 0;
    if (!f || (*seen & bit)) {
        const char *why = f ? "stands here twice" : "is not one of its fields";
        parse_fail_at(p, name, mf_error_new(MF_ERROR_ARGUMENT, "%s: '%.*s' %s", op->name, n > 40 ? 40 : n, name, why));
        return;
    }
    *seen |= bit;
    if (parse_expect(p, "=") && axis_is_sized(p, op, params, f->kind))
        parse_value(p, arena, f->kind, params + f->offset, mf_params_env(op, params, env));
}

/* Fills in omitted fields. */
static void complete(parser *p, const mf_op *op, char *params)
{
    for (const mf_param *f = op->params; f->name && !p->error; f++) {
        void **at = (void **)(void *)(params + f->offset);
        if ((f->kind == MF_PARAM_INTS || f->kind == MF_PARAM_EXTRA) && !*at)
            *(const mf_intlist **)at = mf_ints_intern(NULL, 0);
        else if (f->kind == MF_PARAM_NAMES && !*at)
            *(const mf_namelist **)at = mf_names_intern(NULL, 0);
        else if (f->kind == MF_PARAM_PROGRAM && !*at)
            parse_fail_at(p, p->at, mf_error_new(MF_ERROR_ARGUMENT, "%s: the field '%s' is missing", op->name, f->name));
        else
            continue;
        if (!*at)
            parse_out_of_memory(p);
    }
}

void *parse_params(parser *p, mf_arena *arena, const mf_op *op, const mf_axis_env *env)
{
    if (!op->params || p->error)
        return NULL;
    char *params = mf_arena_alloc(arena, op->params_size);
    uint64_t seen = 0;
    if (!params) {
        parse_out_of_memory(p);
        return NULL;
    }
    if (parse_accept(p, "["))
        while (!parse_accept(p, "]") && !p->error) {
            parse_field(p, arena, op, params, env, &seen);
            if (!parse_accept(p, ",")) {
                parse_expect(p, "]");
                break;
            }
        }
    complete(p, op, params);
    return params;
}

void *mf_params_parse(mf_arena *arena, const mf_op *op, const mf_axis_env *env, const char **text, mf_error_object **error)
{
    parser p = { .start = *text, .at = *text };
    void *params = parse_params(&p, arena, op, env);
    *text = p.at;
    if (!p.error)
        return params;
    mf_params_drop(op, params);
    *error = p.error;
    return NULL;
}
