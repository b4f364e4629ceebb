/* Reads and runs samples. Invariant: the same sample and seed give the same values on every machine. */
#include "ops/sample.h"

#include "check.h"
#include "ops/ops.h"
#include "runtime/executable.h"
#include "trace/function.h"

#include <ctype.h>

/* ---- failures */
bool sample_fail(const sample *s, const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    check_fail_(__FILE__, __LINE__);
    printf("%s %s: %s\n", s->op->name, s->text, text);
    return false;
}

bool sample_fail_error(const sample *s, const char *what, mf_error_object *e)
{
    sample_fail(s, "%s: %s", what, e ? e->message : "failed");
    mf_error_ignore(e);
    return false;
}

/* ---- reading */
static void skip_blanks(const char **p)
{
    while (**p == ' ')
        ++*p;
}

static bool read_operand(sample *s, const char **p, sample_operand *o)
{
    *o = (sample_operand){ .type = mf_type_parse(p), .low = -1, .high = 1 };
    if (!o->type)
        return sample_fail(s, "no type at \"%s\"", *p);
    if (**p != '{')
        return true;
    const char *end = strchr(*p, '}');
    char *colon;
    if (!end)
        return sample_fail(s, "no } behind \"%s\"", *p);
    if ((*p)[1] == '=') {
        o->values = *p + 2;
    } else {
        o->low = strtod(*p + 1, &colon);
        if (*colon != ':')
            return sample_fail(s, "neither a range nor values at \"%s\"", *p);
        o->high = strtod(colon + 1, NULL);
    }
    *p = end + 1;
    return true;
}

static bool read_operands(sample *s, const char **p, sample_operand *list, int *count)
{
    for (*count = 0; skip_blanks(p), **p && strncmp(*p, "->", 2) != 0; ++*count)
        if (*count == SAMPLE_MAX || !read_operand(s, p, &list[*count]))
            return false;
    return true;
}

/* "i=4:", the axis of a map of four devices. */
static bool read_axis(sample *s, const char **p)
{
    const char *equals = *p + strspn(*p, "abcdefghijklmnopqrstuvwxyz");
    char *end;
    if (*equals != '=')
        return true;
    int64_t size = strtoll(equals + 1, &end, 10);
    if (*end != ':')
        return sample_fail(s, "no : behind the axis at \"%s\"", *p);
    s->over = mf_axis_env_push(NULL, mf_intern_n(*p, (size_t)(equals - *p)), size, 1);
    *p = end + 1;
    skip_blanks(p);
    return s->over;
}

bool sample_read(sample *s, const mf_op *op, const char *text)
{
    mf_error_object *error = NULL;
    *s = (sample){ .op = op, .text = text };
    skip_blanks(&text);
    if (!read_axis(s, &text))
        return false;
    if (op->params_size) {
        const char *without = "[]", **from = *text == '[' ? &text : &without;
        s->params = mf_params_parse(&s->arena, op, s->over, from, &error);
        if (!s->params)
            return sample_fail_error(s, "params", error);
    }
    if (!read_operands(s, &text, s->in, &s->in_count))
        return false;
    if (*text)
        text += 2;
    return read_operands(s, &text, s->out, &s->out_count);
}

void sample_free(sample *s)
{
    if (s->params)
        mf_params_drop(s->op, s->params);
    mf_arena_free(&s->arena);
}

/* ---- in double precision */
static mf_dtype widened(mf_dtype d) { return mf_dtype_is_float(d) ? MF_F64 : d == MF_C64 ? MF_C128 : d; }

void sample_as_f64(sample *copy, const sample *s, void *params, size_t room)
{
    *copy = *s;
    if (s->params && s->op->params_size <= room) {
        memcpy(params, s->params, s->op->params_size);
        copy->params = params;
        for (const mf_param *p = s->op->params; p->name; p++)
            if (p->kind == MF_PARAM_DTYPE) {
                mf_dtype *d = (mf_dtype *)(void *)((char *)params + p->offset);
                *d = widened(*d);
            }
    }
    for (int i = 0; i < s->in_count; i++)
        copy->in[i].type = mf_type_with_dtype(s->in[i].type, widened(s->in[i].type->dtype));
}

bool sample_has_half(const sample *s)
{
    bool half = false;
    for (int i = 0; i < s->in_count; i++)
        half = half || s->in[i].type->dtype == MF_F16 || s->in[i].type->dtype == MF_BF16;
    return half;
}

/* ---- values */
static uint64_t next_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Complex numbers are pairs of floats. */
static mf_dtype part_of(mf_dtype d) { return d == MF_C64 ? MF_F32 : d == MF_C128 ? MF_F64 : d; }
static int64_t part_count(const mf_type *t) { return mf_dtype_is_complex(t->dtype) ? 2 * t->size : t->size; }

mf_array *random_array(const mf_type *type, double low, double high, uint64_t seed)
{
    mf_array *a = mf_array_new(type);
    char *p = a ? mf_array_data(a) : NULL;
    mf_dtype part = part_of(type->dtype);
    int size = mf_dtype_size(part);
    for (int64_t i = 0; a && i < part_count(type); i++) {
        double share = (double)(next_random(&seed) >> 11) * 0x1p-53;
        if (mf_dtype_is_inexact(part))
            mf_store_f64(part, p + i * size, low + share * (high - low));
        else
            mf_store_i64(part, p + i * size, (int64_t)floor(low + share * (high - low + 1)));
    }
    return a;
}

/* Reads one number and skips it and its comma. */
static void read_number(const char **text, mf_dtype dtype, void *out)
{
    char *end;
    if (mf_dtype_is_inexact(dtype)) {
        mf_store_f64(dtype, out, strtod(*text, &end));
    } else {
        bool truth = strncmp(*text, "true", 4) == 0;
        int64_t x = truth ? 1 : **text == '-' ? strtoll(*text, &end, 10) : (int64_t)strtoull(*text, &end, 10);
        mf_store_i64(dtype, out, x);
        end = (char *)(uintptr_t)(*text + strcspn(*text, ",}"));
    }
    *text = end + (*end == ',');
}

mf_array *sample_array(const sample_operand *o, uint64_t seed)
{
    if (!o->values)
        return random_array(o->type, o->low, o->high, seed);
    mf_array *a = mf_array_new(o->type);
    const char *text = o->values;
    mf_dtype part = part_of(o->type->dtype);
    int size = mf_dtype_size(part);
    for (int64_t i = 0; a && i < part_count(o->type); i++)
        read_number(&text, part, (char *)mf_array_data(a) + i * size);
    return a;
}

/* ---- running */
static const mf_intlist *zeros(int count)
{
    int64_t at[SAMPLE_MAX] = { 0 };
    return mf_ints_intern(at, count);
}

/* A map of the equation over the first axis of all its operands and results. */
static mf_program *map_program(const sample *s, const mf_type *const *types, mf_error_object **error)
{
    const mf_type *rows[SAMPLE_MAX];
    for (int i = 0; i < s->in_count; i++) {
        if (!types[i]->rank || types[i]->dims[0] != s->over->size) {
            *error = mf_error_new(MF_ERROR_SHAPE, "operand %d has no row for each device", i);
            return NULL;
        }
        rows[i] = mf_type_without_axis(types[i], 0);
    }
    mf_program *one = mf_program_of_eqn(s->over, s->op, s->params, rows, s->in_count, error);
    if (!one)
        return NULL;
    mf_pmap_params map = { .program = one,
                           .axis_name = s->over->name,
                           .axis_size = s->over->size,
                           .local = zeros(0),
                           .in_axes = zeros(s->in_count),
                           .out_axes = zeros(one->out_count),
                           .devices = zeros(0),
                           .donated = zeros(0) };
    mf_program *p = mf_program_of_eqn(NULL, &mf_op_pmap, &map, types, s->in_count, error);
    mf_drop(one);
    return p;
}

mf_program *sample_program(const sample *s, mf_error_object **error)
{
    const mf_type *types[SAMPLE_MAX];
    for (int i = 0; i < s->in_count; i++)
        types[i] = s->in[i].type;
    return s->over ? map_program(s, types, error) : mf_program_of_eqn(NULL, s->op, s->params, types, s->in_count, error);
}

static mf_error_object *settle(mf_array **a)
{
    mf_error_object *e = mf_array_wait(*a);
    mf_array *flat = e ? NULL : mf_array_contiguous(*a);
    if (flat) {
        mf_drop(*a);
        *a = flat;
    }
    return e;
}

mf_error_object *run_program(const mf_program *p, const mf_segment_compiler *compiler, mf_array *const *in, mf_array **out)
{
    mf_error_object *error = NULL;
    mf_executable *x = mf_executable_load(&(mf_load_request){ .client = &mf_client_cpu, .program = p, .compiler = compiler->name }, &error);
    memset(out, 0, (size_t)p->out_count * sizeof *out);
    if (!error)
        error = mf_executable_run(x, in, NULL, out);
    for (int i = 0; i < p->out_count && !error; i++)
        error = settle(&out[i]);
    mf_drop(x);
    return error;
}

static mf_error_object *bring(const mf_client *client, mf_array **a)
{
    mf_error_object *e = NULL;
    mf_array *there = mf_array_on(client, *a, &e);
    if (there) {
        mf_drop(*a);
        *a = there;
    }
    return e;
}

mf_error_object *run_program_on(const mf_client *client, const mf_program *p, mf_array *const *in, mf_array **out)
{
    mf_error_object *error = NULL;
    mf_array *there[SAMPLE_MAX] = { 0 };
    mf_executable *x = mf_executable_load(&(mf_load_request){ .client = client, .program = p }, &error);
    memset(out, 0, (size_t)p->out_count * sizeof *out);
    if (!error && p->in_count > SAMPLE_MAX)
        error = mf_error_new(MF_ERROR_ARGUMENT, "%d inputs; %d are the most", p->in_count, SAMPLE_MAX);
    for (int i = 0; i < p->in_count && !error; i++) {
        there[i] = mf_retain(in[i]);
        error = bring(client, &there[i]);
    }
    if (!error)
        error = mf_executable_run(x, there, NULL, out);
    for (int i = 0; i < p->out_count && !error; i++) {
        error = bring(&mf_client_cpu, &out[i]);
        error = error ? error : settle(&out[i]);
    }
    drop_arrays(there, SAMPLE_MAX);
    mf_drop(x);
    return error;
}

void drop_arrays(mf_array **arrays, int count)
{
    for (int i = 0; i < count; i++)
        mf_drop(arrays[i]);
}
