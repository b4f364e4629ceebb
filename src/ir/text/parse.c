/* Parses programs; print.c shows the format.
 *
 *     text    = "program" body
 *     body    = "(" [defs] ")" "{" {eqn} "return" [operand {"," operand}] "}"
 *     defs    = name ":" type {"," name ":" type}
 *     eqn     = (defs | "()") "=" op ["[" field "=" value {"," field "=" value} "]"] {operand}    operands stand on the line of the op
 *     operand = name | (number | "{" [number {"," number}] "}") ":" type
 *     value   = integer | "None" | "true" | "false" | number | dtype | name | string | "(" values ")" | body | "[" bodies "]"
 *
 * Invariant: any text gives a program that passes the verifier, or an error with line, column and what was expected. Nesting is bounded,
 * and a number in the text never decides an allocation by itself. Equations go through the builder, so their types are the rules' own. */
#include "ir/text/parser.h"

#include "base/memory/hash_map.h"
#include "base/memory/vector.h"
#include "ir/text/number_text.h"

#include <ctype.h>
#include <string.h>

#define DEEPEST 64

/* A variable of the body, and its name in the text. */
typedef struct named_variable {
    const char *name;
    int length;
    mf_variable *var;
} named_variable;

/* "name: type", of a result or an input. */
typedef struct definition {
    const char *name;
    int length;
    const mf_type *type;
} definition;

typedef struct body {
    mf_builder builder;
    mf_hash_map names;                 /* maps names to named_variables */
    mf_arena arena;                    /* holds the named_variables */
    MF_VECTOR(definition) definitions; /* of the current equation */
    MF_VECTOR(mf_variable *) operands; /* of the current equation */
} body;

/* ---- names */
static uint64_t hash_of(const char *name, int length) { return mf_hash(name, (size_t)length, 0); }

static mf_variable *find_name(const body *b, const char *name, int length)
{
    int at = -1;
    for (const named_variable *n; (n = mf_hash_map_next(&b->names, hash_of(name, length), &at));)
        if (n->length == length && !memcmp(n->name, name, (size_t)length))
            return n->var;
    return NULL;
}

static void define(parser *p, body *b, const definition *d, mf_variable *v)
{
    if (find_name(b, d->name, d->length)) {
        parse_fail_at(p, d->name, mf_error_new(MF_ERROR_ARGUMENT, "'%.*s' is defined twice", d->length, d->name));
        return;
    }
    named_variable *n = mf_arena_alloc(&b->arena, sizeof *n);
    if (!n || !mf_hash_map_add(&b->names, hash_of(d->name, d->length), n)) {
        parse_out_of_memory(p);
        return;
    }
    *n = (named_variable){ d->name, d->length, v };
}

static void parse_definition(parser *p, body *b)
{
    definition d = { 0 };
    d.length = parse_word(p, &d.name, "a variable's name");
    d.type = parse_type(p);
    if (!p->error && !mf_vector_push(&b->definitions, d))
        parse_out_of_memory(p);
}

static void parse_definitions(parser *p, body *b)
{
    do
        parse_definition(p, b);
    while (parse_accept(p, ","));
}

/* ---- operands */
/* Skips "{1.0, 2.0}" and counts the numbers. */
static int64_t skip_elements(parser *p)
{
    int64_t count = 0;
    if (!parse_expect(p, "{") || parse_accept(p, "}"))
        return 0;
    do {
        parse_skip(p);
        int n = parse_number_length(p->at);
        if (!n)
            parse_expected(p, "a number");
        p->at += n;
        count++;
    } while (parse_accept(p, ","));
    parse_expect(p, "}");
    return count;
}

static mf_literal *read_elements(parser *p, const char *from, const mf_type *type, bool braces)
{
    int numbers;
    mf_dtype dtype = mf_number_dtype(type->dtype, &numbers);
    void *bytes;
    mf_literal *l = mf_literal_new(type, &bytes);
    if (!l) {
        parse_out_of_memory(p);
        return NULL;
    }
    const char *after = p->at;
    char *out = bytes;
    p->at = from;
    if (braces)
        parse_expect(p, "{");
    for (int64_t i = 0; i < type->size * numbers && !p->error; i++, out += mf_dtype_size(dtype)) {
        if (i)
            parse_expect(p, ",");
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
        p->at += parse_number_length(from);
    const mf_type *type = parse_type(p);
    if (!type)
        return NULL;
    int numbers;
    mf_number_dtype(type->dtype, &numbers);
    if (braces != (type->rank > 0 || numbers > 1) || count % numbers || count / numbers != type->size) {
        parse_fail_at(
            p, from,
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
    int length = parse_word_length(name);
    if (length == 5 && strncmp(name, "const#", 6) == 0) {
        parse_fail_at(p, name,
                      mf_error_new(MF_ERROR_ARGUMENT, "constants of more than %d elements are printed as a summary and cannot be read back",
                                   MF_LITERAL_MAX));
        return NULL;
    }
    mf_variable *v = find_name(b, name, length);
    if (v)
        p->at += length;
    else if (length)
        parse_fail_at(
            p, name,
            mf_error_new(MF_ERROR_ARGUMENT, "expected a variable, but '%.*s' is not defined here", length > 40 ? 40 : length, name));
    else
        parse_expected(p, "a variable or a number");
    return v;
}

static void parse_operand(parser *p, body *b)
{
    parse_skip(p);
    int n = parse_word_length(p->at);
    bool literal = isdigit((unsigned char)*p->at) || *p->at == '-' || *p->at == '{' || (n && p->at[n] == ':');
    mf_variable *v = literal ? parse_literal(p, b) : parse_variable(p, b);
    if (!p->error && !mf_vector_push(&b->operands, v))
        parse_out_of_memory(p);
}

/* Parses operands to the end of the line. */
static void parse_operands(parser *p, body *b)
{
    b->operands.count = 0;
    while (!p->error && !parse_skip(p) && *p->at && *p->at != '}')
        parse_operand(p, b);
}

/* ---- equations */
static void bind_results(parser *p, body *b, const mf_eqn *e, const char *at)
{
    if (e->out_count != b->definitions.count) {
        const char *op = e->op->name;
        parse_fail_at(p, at,
                      mf_error_new(MF_ERROR_ARGUMENT, "%s gives %d result%s, but %d are named", op, e->out_count,
                                   e->out_count == 1 ? "" : "s", b->definitions.count));
    }
    for (int i = 0; i < b->definitions.count && !p->error; i++) {
        const definition *d = &b->definitions.at[i];
        if (d->type != e->out[i]->type)
            parse_fail_at(p, d->name,
                          mf_error_new(MF_ERROR_ARGUMENT, "'%.*s' is said to be %s, but %s gives %s", d->length > 40 ? 40 : d->length,
                                       d->name, mf_type_name(d->type), e->op->name, mf_type_name(e->out[i]->type)));
        else
            define(p, b, d, e->out[i]);
    }
}

static void emit(parser *p, body *b, const mf_op *op, const void *params, const char *at)
{
    mf_eqn *e = mf_emit_eqn(&b->builder, op, params, b->operands.at, b->operands.count);
    if (b->builder.error) {
        parse_fail_at(p, at, b->builder.error);
        b->builder.error = NULL; /* its reference was passed on; nothing more is emitted, since the parser has an error */
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
        parse_fail_at(p, name, mf_error_new(MF_ERROR_ARGUMENT, "expected an op, but there is none called '%.*s'", n > 40 ? 40 : n, name));
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
    b->definitions.count = 0;
    if (parse_accept(p, "("))
        parse_expect(p, ")");
    else
        parse_definitions(p, b);
    if (parse_expect(p, "="))
        parse_application(p, b);
}

/* ---- bodies */
static void parse_inputs(parser *p, body *b)
{
    if (!parse_expect(p, "(") || parse_accept(p, ")"))
        return;
    parse_definitions(p, b);
    for (int i = 0; i < b->definitions.count && !p->error; i++)
        define(p, b, &b->definitions.at[i], mf_builder_input(&b->builder, b->definitions.at[i].type));
    parse_expect(p, ")");
}

static void parse_outputs(parser *p, body *b)
{
    b->operands.count = 0;
    parse_skip(p);
    if (p->error || *p->at == '}')
        return;
    do
        parse_operand(p, b);
    while (parse_accept(p, ","));
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
        parse_fail_at(p, p->at, error);
    mf_hash_map_free(&b->names);
    mf_arena_free(&b->arena);
    mf_free(b->definitions.at);
    mf_free(b->operands.at);
    return program;
}

mf_program *parse_body(parser *p, const mf_axis_env *env)
{
    if (p->error)
        return NULL;
    if (p->depth == DEEPEST) {
        parse_fail_at(p, p->at, mf_error_new(MF_ERROR_ARGUMENT, "programs are nested more than %d deep", DEEPEST));
        return NULL;
    }
    p->depth++;
    body b = { 0 };
    mf_builder_init(&b.builder, env);
    parse_inputs(p, &b);
    parse_expect(p, "{");
    while (!p->error && !parse_accept(p, "return"))
        parse_eqn(p, &b);
    parse_outputs(p, &b);
    parse_expect(p, "}");
    p->depth--;
    return finish(p, &b);
}

mf_program *mf_program_parse(const char *text, const mf_axis_env *env, mf_error_object **error)
{
    parser p = { .start = text, .at = text };
    parse_expect(&p, "program");
    mf_program *program = parse_body(&p, env);
    parse_skip(&p);
    if (program && *p.at)
        parse_expected(&p, "the end");
    if (!p.error)
        return program;
    mf_drop(program);
    *error = p.error;
    return NULL;
}
