/* Reading programs back from text; ir/print.c shows what it looks like.
 *
 *     text    = "program" body
 *     body    = "(" [defs] ")" "{" {eqn} "return" [operand {"," operand}] "}"
 *     defs    = name ":" type {"," name ":" type}
 *     eqn     = (defs | "()") "=" op ["[" field "=" value {"," field "=" value} "]"] {operand}    operands stand on the line of the op
 *     operand = name | (number | "{" [number {"," number}] "}") ":" type
 *     value   = integer | "None" | "true" | "false" | number | dtype | name | string | "(" values ")" | body | "[" bodies "]"
 *
 * Fields that are left out are zero or the empty list; nested programs stand behind the fields that bind their axis.
 * Invariant: any text gives a program that passes the verifier, or an error with line, column and what was expected; nesting is bounded,
 * and nothing is allocated by a number in the text alone. Equations go through the builder, so the types are the rules' own. */
#include "ir/number_text.h"
#include "ir/op.h"
#include <ctype.h>
#include <string.h>

#define DEEPEST 64

typedef struct name_entry {
    const char *name; /* in the text */
    int length;
    mf_variable *var;
} name_entry;

/* The names of one body. */
typedef struct name_table {
    int count, capacity;
    name_entry *at; /* open addressing */
} name_table;

typedef struct var_list {
    int count, capacity;
    mf_variable **at;
} var_list;

typedef struct def {
    const char *name;
    int length;
    const mf_type *type;
} def;

typedef struct def_list {
    int count, capacity;
    def *at;
} def_list;

typedef struct parser {
    const char *start, *at;
    int depth;
    mf_error_object *error; /* the first */
} parser;

typedef struct body {
    mf_builder builder;
    name_table names;
    def_list defs;     /* of the equation at hand */
    var_list operands; /* likewise */
} body;

static mf_program *parse_body(parser *p, const mf_axis_env *env);
static void *parse_params(parser *p, mf_arena *arena, const mf_op *op, const mf_axis_env *env);

/* ---- errors and characters */
static void fail_at(parser *p, const char *at, mf_error_object *why)
{
    if (p->error) {
        mf_error_ignore(why);
        return;
    }
    int line = 1, column = 1;
    for (const char *s = p->start; s < at; s++) {
        column = *s == '\n' ? 1 : column + 1;
        line += *s == '\n';
    }
    p->error = mf_error_wrap(why, "line %d, column %d", line, column);
}

static void expected(parser *p, const char *what)
{
    int length = 0;
    while (length < 20 && (isalnum((unsigned char)p->at[length]) || p->at[length] == '_'))
        length++;
    if (!length && *p->at && isprint((unsigned char)*p->at))
        length = 1;
    if (length)
        fail_at(p, p->at, mf_error_new(MF_ERROR_ARGUMENT, "expected %s, found '%.*s'", what, length, p->at));
    else
        fail_at(p, p->at,
                mf_error_new(MF_ERROR_ARGUMENT, "expected %s, found %s", what, *p->at ? "a character that cannot stand here" : "the end"));
}

static void out_of_memory(parser *p) { fail_at(p, p->at, mf_error_out_of_memory()); }

/* Skips white space, and comments from # to the end of the line; says whether a line ended in it. */
static bool skip(parser *p)
{
    bool ended = false;
    for (; *p->at == ' ' || *p->at == '\t' || *p->at == '\r' || *p->at == '\n' || *p->at == '#'; p->at++) {
        if (*p->at == '#')
            p->at += strcspn(p->at, "\n");
        if (!*p->at)
            return ended;
        ended = ended || *p->at == '\n';
    }
    return ended;
}

static bool accept(parser *p, const char *word)
{
    if (p->error)
        return false;
    skip(p);
    size_t n = strlen(word);
    if (strncmp(p->at, word, n) != 0)
        return false;
    if (isalpha((unsigned char)word[0]) && (isalnum((unsigned char)p->at[n]) || p->at[n] == '_'))
        return false;
    p->at += n;
    return true;
}

static bool expect(parser *p, const char *word)
{
    if (accept(p, word))
        return true;
    char what[24] = "'";
    strncat(what, word, sizeof what - 3);
    if (!p->error)
        expected(p, strcat(what, "'"));
    return false;
}

/* [A-Za-z_][A-Za-z0-9_.]*; 0 when there is none. */
static int word_length(const char *s)
{
    if (!isalpha((unsigned char)s[0]) && s[0] != '_')
        return 0;
    int n = 1;
    while (isalnum((unsigned char)s[n]) || s[n] == '_' || s[n] == '.')
        n++;
    return n;
}

static int parse_word(parser *p, const char **word, const char *what)
{
    if (p->error)
        return 0;
    skip(p);
    int n = word_length(p->at);
    *word = p->at;
    p->at += n;
    if (!n)
        expected(p, what);
    return n;
}

static int number_length(const char *s)
{
    int n = 0;
    while (isalnum((unsigned char)s[n]) || s[n] == '+' || s[n] == '-' || s[n] == '.')
        n++;
    return n;
}

static bool parse_number(parser *p, mf_dtype dtype, void *out, const char *what)
{
    if (p->error)
        return false;
    skip(p);
    int n = number_length(p->at);
    if (!mf_number_read(dtype, p->at, n, out)) {
        expected(p, what);
        return false;
    }
    p->at += n;
    return true;
}

static const mf_type *parse_type(parser *p)
{
    if (!expect(p, ":"))
        return NULL;
    skip(p);
    const char *s = p->at;
    const mf_type *type = mf_type_parse(&s);
    if (!type) {
        expected(p, "a type such as f32[2,3]");
        return NULL;
    }
    p->at = s;
    return type;
}

/* ---- names */
static int name_slot(const name_table *t, const char *name, int length)
{
    int i = (int)(mf_hash(name, (size_t)length, 0) & (uint64_t)(t->capacity - 1));
    while (t->at[i].name && (t->at[i].length != length || memcmp(t->at[i].name, name, (size_t)length) != 0))
        i = (i + 1) & (t->capacity - 1);
    return i;
}

static mf_variable *find_name(const name_table *t, const char *name, int length)
{
    return t->capacity ? t->at[name_slot(t, name, length)].var : NULL;
}

static bool grow_names(name_table *t)
{
    if (t->count * 2 < t->capacity)
        return true;
    name_table bigger = { t->count, t->capacity ? t->capacity * 2 : 32, NULL };
    bigger.at = mf_calloc((size_t)bigger.capacity, sizeof *bigger.at);
    if (!bigger.at)
        return false;
    for (int i = 0; i < t->capacity; i++)
        if (t->at[i].name)
            bigger.at[name_slot(&bigger, t->at[i].name, t->at[i].length)] = t->at[i];
    mf_free(t->at);
    *t = bigger;
    return true;
}

static void define(parser *p, body *b, const def *d, mf_variable *v)
{
    if (find_name(&b->names, d->name, d->length)) {
        fail_at(p, d->name, mf_error_new(MF_ERROR_ARGUMENT, "'%.*s' is defined twice", d->length, d->name));
        return;
    }
    if (!grow_names(&b->names)) {
        out_of_memory(p);
        return;
    }
    b->names.at[name_slot(&b->names, d->name, d->length)] = (name_entry){ d->name, d->length, v };
    b->names.count++;
}

static void parse_def(parser *p, def_list *list)
{
    def d = { 0 };
    d.length = parse_word(p, &d.name, "a variable's name");
    d.type = parse_type(p);
    if (p->error)
        return;
    if (!mf_grow(&list->at, &list->capacity, list->count + 1, sizeof *list->at)) {
        out_of_memory(p);
        return;
    }
    list->at[list->count++] = d;
}

static void parse_defs(parser *p, def_list *list)
{
    do
        parse_def(p, list);
    while (accept(p, ","));
}

/* ---- operands */
/* Steps over "{1.0, 2.0}" and counts. */
static int64_t skip_elements(parser *p)
{
    int64_t count = 0;
    if (!expect(p, "{") || accept(p, "}"))
        return 0;
    do {
        skip(p);
        int n = number_length(p->at);
        if (!n)
            expected(p, "a number");
        p->at += n;
        count++;
    } while (accept(p, ","));
    expect(p, "}");
    return count;
}

static mf_literal *read_elements(parser *p, const char *from, const mf_type *type, bool braces)
{
    int numbers;
    mf_dtype dtype = mf_number_dtype(type->dtype, &numbers);
    void *bytes;
    mf_literal *l = mf_literal_new(type, &bytes);
    if (!l) {
        out_of_memory(p);
        return NULL;
    }
    const char *after = p->at;
    char *out = bytes;
    p->at = from;
    if (braces)
        expect(p, "{");
    for (int64_t i = 0; i < type->size * numbers && !p->error; i++, out += mf_dtype_size(dtype)) {
        if (i)
            expect(p, ",");
        parse_number(p, dtype, out, mf_dtype_short(dtype));
    }
    p->at = after;
    return l;
}

static mf_variable *parse_literal(parser *p, body *b)
{
    const char *from = p->at;
    bool braces = *from == '{';
    int64_t count = braces ? skip_elements(p) : 1;
    if (!braces)
        p->at += number_length(from);
    const mf_type *type = parse_type(p);
    if (!type)
        return NULL;
    int numbers;
    mf_number_dtype(type->dtype, &numbers);
    if (braces != (type->rank > 0 || numbers > 1) || count % numbers || count / numbers != type->size) {
        fail_at(p, from,
                mf_error_new(MF_ERROR_ARGUMENT, "expected the elements of %s, found %lld numbers", mf_type_name(type), (long long)count));
        return NULL;
    }
    mf_literal *l = read_elements(p, from, type, braces);
    mf_variable *v = p->error ? NULL : mf_builder_constant(&b->builder, l);
    mf_drop(l);
    return v;
}

static mf_variable *parse_variable(parser *p, body *b)
{
    const char *name = p->at;
    int length = word_length(name);
    if (length == 5 && strncmp(name, "const#", 6) == 0) {
        fail_at(p, name,
                mf_error_new(MF_ERROR_ARGUMENT, "constants of more than %d elements are printed as a summary and cannot be read back",
                             MF_LITERAL_MAX));
        return NULL;
    }
    mf_variable *v = find_name(&b->names, name, length);
    if (v)
        p->at += length;
    else if (length)
        fail_at(p, name,
                mf_error_new(MF_ERROR_ARGUMENT, "expected a variable, but '%.*s' is not defined here", length > 40 ? 40 : length, name));
    else
        expected(p, "a variable or a number");
    return v;
}

static void parse_operand(parser *p, body *b)
{
    skip(p);
    int n = word_length(p->at);
    bool literal = isdigit((unsigned char)*p->at) || *p->at == '-' || *p->at == '{' || (n && p->at[n] == ':');
    mf_variable *v = literal ? parse_literal(p, b) : parse_variable(p, b);
    if (p->error)
        return;
    var_list *list = &b->operands;
    if (!mf_grow(&list->at, &list->capacity, list->count + 1, sizeof *list->at))
        out_of_memory(p);
    else
        list->at[list->count++] = v;
}

/* The rest of the line. */
static void parse_operands(parser *p, body *b)
{
    b->operands.count = 0;
    while (!p->error && !skip(p) && *p->at && *p->at != '}')
        parse_operand(p, b);
}

/* ---- fields */
static int64_t parse_int(parser *p)
{
    int64_t x = MF_NONE;
    if (!accept(p, "None"))
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
    int n = accept(p, "default") ? 0 : parse_word(p, &word, "a dtype such as f32");
    mf_dtype dtype = n ? mf_dtype_parse(word, n) : MF_DTYPE_DEFAULT;
    if (n && dtype == MF_DTYPE_DEFAULT) {
        p->at = word;
        expected(p, "a dtype such as f32");
    }
    return dtype;
}

static const mf_intlist *parse_ints(parser *p)
{
    struct {
        int count, capacity;
        int64_t *at;
    } list = { 0 };
    expect(p, "(");
    while (!p->error && !accept(p, ")")) {
        int64_t x = parse_int(p);
        if (!mf_grow(&list.at, &list.capacity, list.count + 1, sizeof *list.at)) {
            out_of_memory(p);
            break;
        }
        list.at[list.count++] = x;
        if (!accept(p, ",")) {
            expect(p, ")");
            break;
        }
    }
    const mf_intlist *result = p->error ? NULL : mf_ints_intern(list.at, list.count);
    if (!result)
        out_of_memory(p);
    mf_free(list.at);
    return result;
}

static int hex_digit(char c) { return isdigit((unsigned char)c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

/* One character of a string, unescaped; -1 at its end. */
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
        out_of_memory(p);
    mf_text_free(&t);
    expect(p, "\"");
    return s;
}

/* NULL for None, or with an error. */
static const char *parse_name(parser *p)
{
    if (p->error || accept(p, "None"))
        return NULL;
    if (*p->at == '"')
        return parse_string(p);
    const char *word;
    int n = parse_word(p, &word, "a name");
    const char *s = n ? mf_intern_n(word, (size_t)n) : NULL;
    if (!s)
        out_of_memory(p);
    return s;
}

static const mf_namelist *parse_names(parser *p)
{
    struct {
        int count, capacity;
        const char **at;
    } list = { 0 };
    expect(p, "(");
    while (!p->error && !accept(p, ")")) {
        const char *s = parse_name(p);
        if (!s && !p->error)
            expected(p, "a name");
        if (!mf_grow(&list.at, &list.capacity, list.count + 1, sizeof *list.at)) {
            out_of_memory(p);
            break;
        }
        list.at[list.count++] = s;
        if (!accept(p, ",")) {
            expect(p, ")");
            break;
        }
    }
    const mf_namelist *result = p->error ? NULL : mf_names_intern(list.at, list.count);
    if (!result)
        out_of_memory(p);
    mf_free(list.at);
    return result;
}

static mf_program *parse_program_field(parser *p, const mf_axis_env *env) { return accept(p, "None") ? NULL : parse_body(p, env); }

static void parse_programs(parser *p, mf_arena *arena, mf_program_list *list, const mf_axis_env *env)
{
    struct {
        int count, capacity;
        mf_program **at;
    } read = { 0 };
    expect(p, "[");
    while (!p->error && !accept(p, "]")) {
        if (!mf_grow(&read.at, &read.capacity, read.count + 1, sizeof *read.at)) {
            out_of_memory(p);
            break;
        }
        read.at[read.count] = parse_body(p, env);
        read.count += read.at[read.count] != NULL;
        if (!accept(p, ",")) {
            expect(p, "]");
            break;
        }
    }
    mf_program **at = mf_arena_alloc(arena, (size_t)read.count * sizeof *at + 1);
    if (!at)
        out_of_memory(p);
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
    if (!accept(p, "None"))
        fail_at(p, p->at, mf_error_new(MF_ERROR_ARGUMENT, "a custom rule is printed as its name and cannot be read back"));
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

/* A program is read in the environment of its op: an axis that it binds must have a size by then. */
static bool axis_is_sized(parser *p, const mf_op *op, const char *params, mf_param_kind kind)
{
    const int64_t *size = kind == MF_PARAM_PROGRAM || kind == MF_PARAM_PROGRAMS ? mf_params_role(op, params, MF_ROLE_BOUND_SIZE) : NULL;
    if (size && *size < 1)
        fail_at(p, p->at, mf_error_new(MF_ERROR_ARGUMENT, "%s: expected a positive axis_size before the program", op->name));
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
        fail_at(p, name, mf_error_new(MF_ERROR_ARGUMENT, "%s: '%.*s' %s", op->name, n > 40 ? 40 : n, name, why));
        return;
    }
    *seen |= bit;
    if (expect(p, "=") && axis_is_sized(p, op, params, f->kind))
        parse_value(p, arena, f->kind, params + f->offset, mf_params_env(op, params, env));
}

/* Fields that were left out. */
static void complete(parser *p, const mf_op *op, char *params)
{
    for (const mf_param *f = op->params; f->name && !p->error; f++) {
        void **at = (void **)(void *)(params + f->offset);
        if ((f->kind == MF_PARAM_INTS || f->kind == MF_PARAM_EXTRA) && !*at)
            *(const mf_intlist **)at = mf_ints_intern(NULL, 0);
        else if (f->kind == MF_PARAM_NAMES && !*at)
            *(const mf_namelist **)at = mf_names_intern(NULL, 0);
        else if (f->kind == MF_PARAM_PROGRAM && !*at)
            fail_at(p, p->at, mf_error_new(MF_ERROR_ARGUMENT, "%s: the field '%s' is missing", op->name, f->name));
        else
            continue;
        if (!*at)
            out_of_memory(p);
    }
}

/* Holds references, also when an error is set: the caller gives them up in either case. */
static void *parse_params(parser *p, mf_arena *arena, const mf_op *op, const mf_axis_env *env)
{
    if (!op->params || p->error)
        return NULL;
    char *params = mf_arena_alloc(arena, op->params_size);
    uint64_t seen = 0;
    if (!params) {
        out_of_memory(p);
        return NULL;
    }
    if (accept(p, "["))
        while (!accept(p, "]") && !p->error) {
            parse_field(p, arena, op, params, env, &seen);
            if (!accept(p, ",")) {
                expect(p, "]");
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

/* ---- equations */
static void bind_results(parser *p, body *b, const mf_eqn *e, const char *at)
{
    if (e->out_count != b->defs.count) {
        const char *op = e->op->name;
        fail_at(p, at,
                mf_error_new(MF_ERROR_ARGUMENT, "%s gives %d result%s, but %d are named", op, e->out_count, e->out_count == 1 ? "" : "s",
                             b->defs.count));
    }
    for (int i = 0; i < b->defs.count && !p->error; i++) {
        const def *d = &b->defs.at[i];
        if (d->type != e->out[i]->type)
            fail_at(p, d->name,
                    mf_error_new(MF_ERROR_ARGUMENT, "'%.*s' is said to be %s, but %s gives %s", d->length > 40 ? 40 : d->length, d->name,
                                 mf_type_name(d->type), e->op->name, mf_type_name(e->out[i]->type)));
        else
            define(p, b, d, e->out[i]);
    }
}

static void emit(parser *p, body *b, const mf_op *op, const void *params, const char *at)
{
    mf_eqn *e = mf_emit_eqn(&b->builder, op, params, b->operands.at, b->operands.count);
    if (b->builder.error) {
        fail_at(p, at, b->builder.error);
        b->builder.error = NULL; /* given away; nothing more is emitted because the parser has an error */
        return;
    }
    bind_results(p, b, e, at);
}

static void parse_application(parser *p, body *b)
{
    const char *name;
    int n = parse_word(p, &name, "an op");
    const mf_op *op = n ? mf_op_find(name, n) : NULL;
    if (n && !op)
        fail_at(p, name, mf_error_new(MF_ERROR_ARGUMENT, "expected an op, but there is none called '%.*s'", n > 40 ? 40 : n, name));
    if (p->error)
        return;
    mf_arena arena = { 0 };
    void *params = parse_params(p, &arena, op, b->builder.env);
    parse_operands(p, b);
    if (!p->error)
        emit(p, b, op, params, name);
    mf_params_drop(op, params);
    mf_arena_free(&arena);
}

static void parse_eqn(parser *p, body *b)
{
    b->defs.count = 0;
    if (accept(p, "("))
        expect(p, ")");
    else
        parse_defs(p, &b->defs);
    if (expect(p, "="))
        parse_application(p, b);
}

/* ---- bodies */
static void parse_inputs(parser *p, body *b)
{
    if (!expect(p, "(") || accept(p, ")"))
        return;
    parse_defs(p, &b->defs);
    for (int i = 0; i < b->defs.count && !p->error; i++)
        define(p, b, &b->defs.at[i], mf_builder_input(&b->builder, b->defs.at[i].type));
    expect(p, ")");
}

static void parse_outputs(parser *p, body *b)
{
    b->operands.count = 0;
    skip(p);
    if (p->error || *p->at == '}')
        return;
    do
        parse_operand(p, b);
    while (accept(p, ","));
}

static mf_program *finish(parser *p, body *b)
{
    mf_program *program = NULL;
    mf_error_object *error = NULL;
    if (p->error)
        mf_builder_abandon(&b->builder);
    else
        program = mf_builder_finish(&b->builder, b->operands.at, b->operands.count, &error);
    if (error)
        fail_at(p, p->at, error);
    mf_free(b->names.at);
    mf_free(b->defs.at);
    mf_free(b->operands.at);
    return program;
}

static mf_program *parse_body(parser *p, const mf_axis_env *env)
{
    if (p->error)
        return NULL;
    if (p->depth == DEEPEST) {
        fail_at(p, p->at, mf_error_new(MF_ERROR_ARGUMENT, "programs are nested more than %d deep", DEEPEST));
        return NULL;
    }
    p->depth++;
    body b = { 0 };
    mf_builder_init(&b.builder, env);
    parse_inputs(p, &b);
    expect(p, "{");
    while (!p->error && !accept(p, "return"))
        parse_eqn(p, &b);
    parse_outputs(p, &b);
    expect(p, "}");
    p->depth--;
    return finish(p, &b);
}

mf_program *mf_program_parse(const char *text, const mf_axis_env *env, mf_error_object **error)
{
    parser p = { .start = text, .at = text };
    expect(&p, "program");
    mf_program *program = parse_body(&p, env);
    skip(&p);
    if (program && *p.at)
        expected(&p, "the end");
    if (!p.error)
        return program;
    mf_drop(program);
    *error = p.error;
    return NULL;
}
