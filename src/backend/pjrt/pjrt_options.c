/* The create options of a plugin, parsed from "key=value,key=value": integers, floats, true and false, [1,2] as a list of integers,
 * anything else as a string. Invariant: device counts are in range, since XLA's CPU client aborts the process on others. */
#include "backend/pjrt/pjrt.h"

#include "base/memory/alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool read_integer(const char *text, char **end, int64_t *out)
{
    errno = 0;
    *out = strtoll(text, end, 10);
    return !errno && *end != text;
}

static bool read_number(pjrt_named_value *v, const char *text)
{
    char *end;
    v->value_size = 1;
    v->kind = PJRT_INT64;
    if (read_integer(text, &end, &v->value.integer) && !*end)
        return true;
    v->kind = PJRT_FLOAT;
    v->value.real = strtof(text, &end);
    return *text && !*end;
}

/* Parses "[1,2]"; the numbers are stored at *next, which advances. False: it is not a list. */
static bool read_list(pjrt_named_value *v, const char *text, int64_t **next)
{
    v->kind = PJRT_INT64_LIST;
    v->value.integers = *next;
    v->value_size = 0;
    for (bool more = strcmp(text, "[]") != 0; more;) {
        char *end;
        if (!read_integer(text + 1, &end, *next) || (*end != ',' && *end != ']'))
            return false;
        ++*next;
        v->value_size++;
        more = *end == ',';
        text = end;
    }
    return strcmp(text, "]") == 0 || strcmp(text, "[]") == 0;
}

static void read_words(pjrt_named_value *v, const char *text)
{
    v->kind = PJRT_BOOL;
    v->value.truth = strcmp(text, "true") == 0;
    v->value_size = 1;
    if (v->value.truth || strcmp(text, "false") == 0)
        return;
    v->kind = PJRT_STRING;
    v->value.string = text;
    v->value_size = strlen(text);
}

/* A comma inside brackets belongs to a list. NULL: the text ends first. */
static char *end_of_option(char *text)
{
    for (int depth = 0; *text; text++) {
        depth += (*text == '[') - (*text == ']' && depth);
        if (*text == ',' && !depth)
            return text;
    }
    return NULL;
}

static bool counts_devices(const pjrt_named_value *v)
{
    static const char ending[] = "device_count";
    size_t size = sizeof ending - 1;
    return strcmp(v->name, "num_devices") == 0 || (v->name_size >= size && strcmp(v->name + v->name_size - size, ending) == 0);
}

static mf_error_object *read_option(pjrt_named_value *v, const char *name, char *text, int64_t **next)
{
    char *equals = strchr(text, '='), *value = equals ? equals + 1 : NULL;
    if (!equals || equals == text)
        return mf_error_new(MF_ERROR_ARGUMENT, "%s: '%s' is no option: they are key=value, with commas between", name, text);
    *equals = 0;
    *v = (pjrt_named_value){ .head = PJRT_HEAD(pjrt_named_value), .name = text, .name_size = strlen(text) };
    if (*value == '[') {
        if (!read_list(v, value, next))
            return mf_error_new(MF_ERROR_ARGUMENT, "%s: %s=%s is no list of whole numbers, as in [0,1]", name, text, value);
    } else if (!read_number(v, value)) {
        read_words(v, value);
    }
    if (counts_devices(v) && (v->kind != PJRT_INT64 || v->value.integer < 1 || v->value.integer > PJRT_MOST_DEVICES))
        return mf_error_new(MF_ERROR_ARGUMENT, "%s: %s is to be a number from 1 to %d, not %s", name, text, PJRT_MOST_DEVICES, value);
    if (v->kind == PJRT_INT64 && strcmp(text, "memory_fraction") == 0) { /* CUDA's plugin refuses 1 */
        v->kind = PJRT_FLOAT;
        v->value.real = (float)v->value.integer;
    }
    return NULL;
}

mf_error_object *pjrt_options_read(pjrt_options *o, const char *name, const char *text)
{
    mf_error_object *error = NULL;
    o->count = 0;
    o->text = mf_strdup(text);
    o->numbers = mf_calloc(strlen(text) + 1, sizeof *o->numbers); /* each takes at least one character */
    if (!o->text || !o->numbers)
        return mf_error_out_of_memory();
    int64_t *number = o->numbers;
    for (char *at = o->text, *next; at && *at && !error; at = next) {
        next = end_of_option(at);
        if (next)
            *next++ = 0;
        if (o->count == PJRT_MOST_OPTIONS)
            return mf_error_new(MF_ERROR_ARGUMENT, "%s: more than %d options", name, PJRT_MOST_OPTIONS);
        error = read_option(&o->list[o->count++], name, at, &number);
    }
    return error;
}

void pjrt_options_free(pjrt_options *o)
{
    mf_free(o->text);
    mf_free(o->numbers);
}
