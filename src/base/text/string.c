/* The growing string. Invariant: `at` is terminated whenever it is not NULL; after a failed allocation it keeps its text. */
#include "base/text/string.h"

#include "base/memory/alloc.h"
#include "base/handles/handle.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool reserve(mf_text *t, size_t more)
{
    if (t->failed)
        return false;
    size_t needed = t->count + more + 1;
    if (needed <= t->capacity)
        return true;
    size_t capacity = t->capacity < 64 ? 64 : t->capacity * 2;
    if (capacity < needed)
        capacity = needed;
    char *p = mf_realloc(t->at, capacity);
    if (!p) {
        t->failed = true;
        return false;
    }
    t->at = p;
    t->capacity = capacity;
    return true;
}

void mf_text_putn(mf_text *t, const char *s, size_t n)
{
    if (!reserve(t, n))
        return;
    if (n)
        memcpy(t->at + t->count, s, n);
    t->count += n;
    t->at[t->count] = 0;
}

void mf_text_put(mf_text *t, const char *s) { mf_text_putn(t, s, strlen(s)); }

void mf_text_vadd(mf_text *t, const char *format, va_list list)
{
    va_list again;
    va_copy(again, list);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (n < 0 || !reserve(t, (size_t)n))
        return;
    vsnprintf(t->at + t->count, (size_t)n + 1, format, list);
    t->count += (size_t)n;
}

void mf_text_add(mf_text *t, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    mf_text_vadd(t, format, list);
    va_end(list);
}

void mf_text_free(mf_text *t)
{
    mf_free(t->at);
    *t = (mf_text){ 0 };
}

typedef struct text_object {
    mf_object object;
    char *at;
} text_object;

static void text_destroy(mf_object *o) { mf_free(((text_object *)o)->at); }
static const mf_class text_class = { "text", text_destroy };

const char *mf_text_to_scope(mf_text *t)
{
    if (!t->failed && !t->at)
        reserve(t, 0);
    text_object *o = t->failed || !t->at ? NULL : mf_object_new(&text_class, sizeof *o);
    if (!o) {
        mf_text_free(t);
        return "(out of memory)";
    }
    t->at[t->count] = 0;
    o->at = t->at;
    *t = (mf_text){ 0 };
    return mf_handle_get_as(mf_handle_new(o), &text_class) ? o->at : "(out of memory)";
}
