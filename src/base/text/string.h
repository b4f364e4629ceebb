/* A growing string, for printing programs, arrays and messages. A failed allocation is recorded in `failed` and reported when the text is
 * taken. */
#ifndef MF_BASE_TEXT_STRING_H
#define MF_BASE_TEXT_STRING_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct mf_text {
    char *at; /* terminated, once anything was added */
    size_t count, capacity;
    bool failed;
} mf_text; /* zero-initialised is empty */

void mf_text_add(mf_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mf_text_vadd(mf_text *t, const char *format, va_list list);
void mf_text_put(mf_text *t, const char *s);
void mf_text_putn(mf_text *t, const char *s, size_t n);
void mf_text_free(mf_text *t);
/* The text, moved to the innermost scope of this thread, where it lives as long as the scope; leaves t empty. mf_str and mf_error return
 * such a text. */
const char *mf_text_to_scope(mf_text *t);

#endif
