/* JSON (RFC 8259) in file headers: a pull parser, which the caller asks for the item that it expects next. Uses the public API only. */
#ifndef MF_IO_JSON_H
#define MF_IO_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A text of `size` bytes, parsed up to `at`. An error sets `expected`, to what was expected at `at`; all further calls then fail. */
typedef struct mf_json {
    const char *text;
    size_t size, at;
    const char *expected;
} mf_json;

/* Skips white space and returns the next character without consuming it; 0 at the end. */
char mf_json_peek(mf_json *j);
/* Consumes c if it is the next character. If it is not, take records an error and found does not. */
bool mf_json_take(mf_json *j, char c, const char *expected);
bool mf_json_found(mf_json *j, char c);
/* Whether a list or object, whose opening bracket has been consumed, has another member. If not, consumes the closing bracket, or records
 * an error. *first must be true before the first member. */
bool mf_json_more(mf_json *j, char close, bool *first);
/* A string in UTF-8, malloc'd and NUL-terminated; it may contain further NULs, which *length counts. NULL after an error, which `expected`
 * tells, also if out of memory. */
char *mf_json_string(mf_json *j, size_t *length);
/* An integer from 0 to 2^64-1, without sign, fraction or exponent. */
bool mf_json_whole(mf_json *j, uint64_t *out);
/* Skips a value of any kind, nested at most 64 deep. */
bool mf_json_skip(mf_json *j);
/* Records an error at `at`, unless there is one already. Returns false. */
bool mf_json_wrong(mf_json *j, size_t at, const char *expected);

/* Whether the bytes are UTF-8, without surrogates and overlong forms. */
bool mf_is_utf8(const char *text, size_t length);
/* Writes the text as a JSON string, quoted and escaped. False if writing fails. */
bool mf_json_write(FILE *f, const char *text, size_t length);

#endif
