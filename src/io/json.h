/* JSON (RFC 8259) as it is read and written in headers of files: a reader that is asked for what should come next. Public API only. */
#ifndef MF_IO_JSON_H
#define MF_IO_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A text of `size` bytes that is read from `at` on. Once `expected` says what was missing at `at`, every further question is answered in
 * the negative. */
typedef struct mf_json {
    const char *text;
    size_t size, at;
    const char *expected;
} mf_json;

/* The next character that is no blank, which stays; 0 at the end. */
char mf_json_peek(mf_json *j);
/* That character, where it comes next; where it does not, that is wrong (take) or may be (found). */
bool mf_json_take(mf_json *j, char c, const char *expected);
bool mf_json_found(mf_json *j, char c);
/* Of a list or object whose bracket has been taken: whether another member comes. If not, its end has been taken, or something is wrong.
 * *first is true before the first one. */
bool mf_json_more(mf_json *j, char close, bool *first);
/* A string in memory of malloc, in UTF-8 and with a zero behind it; its length may be greater than strlen tells. NULL: wrong, or no memory
 * (`expected` says so). */
char *mf_json_string(mf_json *j, size_t *length);
/* A whole number from 0 to 2^64-1, in digits alone. */
bool mf_json_whole(mf_json *j, uint64_t *out);
/* A value of any kind, at most 64 deep. */
bool mf_json_skip(mf_json *j);
/* Notes what is wrong, at `at`. False. */
bool mf_json_wrong(mf_json *j, size_t at, const char *expected);

/* Whether the bytes are UTF-8, without surrogates and overlong forms. */
bool mf_is_utf8(const char *text, size_t length);
/* The text in quotes, escaped. False when writing fails. */
bool mf_json_write(FILE *f, const char *text, size_t length);

#endif
