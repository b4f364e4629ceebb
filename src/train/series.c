/* Series of points. Invariant: among the points of earlier runs, the steps of a name ascend. */
#include "train/series.h"

#include "io/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The series of that name, created if necessary. NULL if out of memory. */
static mf_series *find(mf_series_list *l, const char *name)
{
    for (int i = 0; i < l->count; i++)
        if (strcmp(l->at[i].name, name) == 0)
            return &l->at[i];
    mf_series *more = realloc(l->at, ((size_t)l->count + 1) * sizeof *more);
    if (!more)
        return NULL;
    l->at = more;
    more[l->count] = (mf_series){ .name = strdup(name) };
    return more[l->count].name ? &more[l->count++] : NULL;
}

static bool put(mf_series *s, double step, double value)
{
    if (s->count == s->capacity) {
        int64_t capacity = s->capacity ? s->capacity * 2 : 64;
        double *steps = realloc(s->steps, (size_t)capacity * sizeof *steps);
        s->steps = steps ? steps : s->steps;
        double *values = steps ? realloc(s->values, (size_t)capacity * sizeof *values) : NULL;
        s->values = values ? values : s->values;
        if (!values)
            return false;
        s->capacity = capacity;
    }
    s->steps[s->count] = step;
    s->values[s->count++] = value;
    return true;
}

static void forget_from(mf_series *s, double step)
{
    while (s->count && s->steps[s->count - 1] >= step)
        s->count--;
}

bool mf_series_add(mf_series_list *l, const char *name, double step, double value)
{
    mf_series *s = find(l, name);
    if (!s)
        return false;
    if (!s->has_new)
        forget_from(s, step);
    s->has_new = true;
    return put(s, step, value);
}

/* ------------------------------------------------------------------ lines of earlier runs */

/* A number, or one of the strings that stand for NaN and infinities, which JSON does not have. */
static bool read_number(mf_json *j, double *out)
{
    static const struct {
        const char *text;
        double value;
    } words[] = { { "\"NaN\"", NAN }, { "\"Infinity\"", INFINITY }, { "\"-Infinity\"", -INFINITY } };
    char first = mf_json_peek(j), *end;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (j->size - j->at >= strlen(words[i].text) && memcmp(j->text + j->at, words[i].text, strlen(words[i].text)) == 0) {
            j->at += strlen(words[i].text);
            *out = words[i].value;
            return true;
        }
    if (first != '-' && (first < '0' || first > '9'))
        return mf_json_wrong(j, j->at, "a number");
    *out = strtod(j->text + j->at, &end);
    size_t length = strspn(j->text + j->at, "+-.0123456789Ee");
    if (end != j->text + j->at + length)
        return mf_json_wrong(j, j->at, "a number");
    j->at += length;
    return true;
}

/* Parses a line: returns whether it is complete, and sets *step; if l is not NULL, also adds its points. */
static bool read_line(const char *text, size_t size, double *step, mf_series_list *l, bool *memory)
{
    mf_json j = { .text = text, .size = size };
    bool first = true, stepped = false;
    (void)mf_json_take(&j, '{', "an object");
    while (!j.expected && mf_json_more(&j, '}', &first)) {
        size_t length;
        double value = 0;
        char *name = mf_json_string(&j, &length);
        bool read = name && mf_json_take(&j, ':', "a colon") && read_number(&j, &value);
        if (read && strcmp(name, "step") == 0 && !stepped) {
            stepped = true;
            *step = value;
        } else if (read && l && strcmp(name, "time") != 0) {
            mf_series *s = find(l, name);
            if (s)
                forget_from(s, *step);
            *memory = s && put(s, *step, value) && *memory;
        }
        free(name);
    }
    return !j.expected && stepped && mf_json_peek(&j) == '\0';
}

bool mf_series_read(mf_series_list *l, FILE *lines)
{
    char *line = NULL;
    size_t capacity = 0;
    bool memory = true;
    for (ssize_t size; memory && (size = getline(&line, &capacity, lines)) >= 0;) {
        double step = 0;
        if (read_line(line, (size_t)size, &step, NULL, &memory) && isfinite(step))
            (void)read_line(line, (size_t)size, &step, l, &memory);
    }
    free(line);
    return memory;
}

void mf_series_end(mf_series_list *l)
{
    for (int i = 0; i < l->count; i++) {
        free(l->at[i].name);
        free(l->at[i].steps);
        free(l->at[i].values);
    }
    free(l->at);
    *l = (mf_series_list){ NULL, 0 };
}
