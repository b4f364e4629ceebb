/* A JSON pull parser, and output of JSON strings. Invariants: nothing beyond `size` is read; a call either consumes the whole item or
 * records the position of the error, after which the parser does not advance; the depth of recursion is bounded. */
#include "io/json.h"

#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64 };

bool mf_json_wrong(mf_json *j, size_t at, const char *expected)
{
    if (!j->expected) {
        j->at = at;
        j->expected = expected;
    }
    return false;
}

char mf_json_peek(mf_json *j)
{
    while (!j->expected && j->at < j->size && j->text[j->at] && strchr(" \t\r\n", j->text[j->at]))
        j->at++;
    return !j->expected && j->at < j->size ? j->text[j->at] : '\0';
}

bool mf_json_found(mf_json *j, char c)
{
    bool found = mf_json_peek(j) == c && !j->expected && j->at < j->size;
    j->at += found;
    return found;
}

bool mf_json_take(mf_json *j, char c, const char *expected) { return mf_json_found(j, c) || mf_json_wrong(j, j->at, expected); }

bool mf_json_more(mf_json *j, char close, bool *first)
{
    bool before = *first;
    *first = false;
    if (before || j->expected)
        return !mf_json_found(j, close) && !j->expected;
    if (mf_json_found(j, ','))
        return true;
    (void)mf_json_take(j, close, close == '}' ? "a comma or the end of an object" : "a comma or the end of a list");
    return false;
}

/* ---- strings */

/* The length of the UTF-8 character that begins at s; 0 if it is invalid. */
static size_t utf8_length(const unsigned char *s, size_t rest)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
    if (!n || n > rest)
        return 0;
    for (size_t i = 1; i < n; i++)
        if (s[i] < 0x80 || s[i] > 0xbf)
            return 0;
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool beyond = (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f);
    return overlong || beyond ? 0 : n;
}

bool mf_is_utf8(const char *text, size_t length)
{
    for (size_t i = 0, n; i < length; i += n)
        if (!(n = utf8_length((const unsigned char *)text + i, length - i)))
            return false;
    return true;
}

static size_t put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    out[0] = (char)(first[n] | c >> 6 * (n - 1));
    for (size_t i = 1; i < n; i++)
        out[i] = (char)(0x80 | (c >> 6 * (n - 1 - i) & 0x3f));
    return n;
}

/* Parses four hexadecimal digits. */
static bool hex4(const mf_json *j, size_t at, uint32_t *out)
{
    *out = 0;
    if (j->size - at < 4)
        return false;
    for (size_t i = at; i < at + 4; i++) {
        char c = j->text[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0)
            return false;
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

/* Parses the escape sequence at j->at, a backslash, and writes its character to out in UTF-8. Returns the number of bytes; 0 if it is
 * invalid. */
static size_t escape(mf_json *j, char *out)
{
    static const char short_ones[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    size_t at = j->at + 1;
    const char *found = at < j->size && j->text[at] ? strchr(short_ones, j->text[at]) : NULL;
    if (found) {
        *out = meant[found - short_ones];
        j->at = at + 1;
        return 1;
    }
    uint32_t c, low = 0;
    bool good = at < j->size && j->text[at] == 'u' && hex4(j, at + 1, &c);
    if (!good)
        return 0;
    at += 5;
    if (c >= 0xd800 && c < 0xdc00) {
        if (j->size - at < 6 || j->text[at] != '\\' || j->text[at + 1] != 'u' || !hex4(j, at + 2, &low) || low < 0xdc00 || low > 0xdfff)
            return 0;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        at += 6;
    } else if (c >= 0xdc00 && c < 0xe000) {
        return 0;
    }
    j->at = at;
    return put_utf8(out, c);
}

/* The offset of the closing quote of a string whose text begins at `at`. */
static size_t find_quote(const mf_json *j, size_t at)
{
    while (at < j->size && j->text[at] != '"')
        at += j->text[at] == '\\' ? 2 : 1;
    return at;
}

char *mf_json_string(mf_json *j, size_t *length)
{
    *length = 0;
    if (!mf_json_take(j, '"', "a string"))
        return NULL;
    size_t begin = j->at, end = find_quote(j, begin);
    if (end >= j->size) {
        mf_json_wrong(j, j->size, "the end of a string");
        return NULL;
    }
    char *out = malloc(end - begin + 1); /* an escape sequence is never shorter than its character */
    if (!out)
        mf_json_wrong(j, begin, "memory for a string");
    while (out && j->at < end) {
        const unsigned char *c = (const unsigned char *)j->text + j->at;
        size_t n = *c == '\\' ? escape(j, out + *length) : *c < 0x20 ? 0 : utf8_length(c, end - j->at);
        if (!n) {
            mf_json_wrong(j, j->at, "a character of a string, in UTF-8 or escaped");
            free(out);
            return NULL;
        }
        if (*c != '\\') {
            memcpy(out + *length, c, n);
            j->at += n;
        }
        *length += n;
    }
    if (out) {
        out[*length] = 0;
        j->at = end + 1;
    }
    return out;
}

/* ---- integers, and skipping values */

bool mf_json_whole(mf_json *j, uint64_t *out)
{
    static const char expected[] = "a whole number from 0 to 2^64-1";
    char first = mf_json_peek(j);
    size_t begin = j->at;
    *out = 0;
    if (j->expected || first < '0' || first > '9')
        return mf_json_wrong(j, begin, expected);
    for (; j->at < j->size && j->text[j->at] >= '0' && j->text[j->at] <= '9'; j->at++) {
        unsigned digit = (unsigned)(j->text[j->at] - '0');
        if (*out > (UINT64_MAX - digit) / 10)
            return mf_json_wrong(j, begin, expected);
        *out = *out * 10 + digit;
    }
    bool more = j->at < j->size && j->text[j->at] && strchr(".eE", j->text[j->at]);
    return !more && (first != '0' || j->at == begin + 1) ? true : mf_json_wrong(j, begin, expected);
}

static bool skip_word(mf_json *j)
{
    static const char *const words[] = { "true", "false", "null" };
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if (j->size - j->at >= n && memcmp(j->text + j->at, words[i], n) == 0) {
            j->at += n;
            return true;
        }
    }
    return mf_json_wrong(j, j->at, "a value");
}

static size_t skip_digits(mf_json *j)
{
    size_t begin = j->at;
    while (j->at < j->size && j->text[j->at] >= '0' && j->text[j->at] <= '9')
        j->at++;
    return j->at - begin;
}

static bool skip_number(mf_json *j)
{
    size_t begin = j->at;
    j->at += j->text[j->at] == '-';
    bool zero = j->at < j->size && j->text[j->at] == '0';
    size_t whole = skip_digits(j);
    bool good = whole && !(zero && whole > 1);
    if (j->at < j->size && j->text[j->at] == '.') {
        j->at++;
        good = skip_digits(j) && good;
    }
    if (j->at < j->size && (j->text[j->at] == 'e' || j->text[j->at] == 'E')) {
        j->at++;
        j->at += j->at < j->size && (j->text[j->at] == '+' || j->text[j->at] == '-');
        good = skip_digits(j) && good;
    }
    return good || mf_json_wrong(j, begin, "a number");
}

static bool skip(mf_json *j, int depth);

static bool skip_members(mf_json *j, char close, int depth)
{
    if (depth == DEEPEST)
        return mf_json_wrong(j, j->at, "values at most 64 deep");
    j->at++;
    for (bool first = true; mf_json_more(j, close, &first);) {
        size_t length;
        char *key = close == '}' ? mf_json_string(j, &length) : NULL;
        free(key);
        if (close == '}' && (!key || !mf_json_take(j, ':', "a colon")))
            return false;
        if (!skip(j, depth + 1))
            return false;
    }
    return !j->expected;
}

static bool skip(mf_json *j, int depth)
{
    char c = mf_json_peek(j);
    size_t length;
    if (j->expected)
        return false;
    if (c == '{' || c == '[')
        return skip_members(j, c == '{' ? '}' : ']', depth);
    if (c == '"') {
        char *text = mf_json_string(j, &length);
        free(text);
        return text != NULL;
    }
    if (c == '-' || (c >= '0' && c <= '9'))
        return skip_number(j);
    return skip_word(j);
}

bool mf_json_skip(mf_json *j) { return skip(j, 0); }

/* ---- writing */

bool mf_json_write(FILE *f, const char *text, size_t length)
{
    bool good = putc('"', f) != EOF;
    for (const unsigned char *c = (const unsigned char *)text, *end = c + length; c < end && good; c++) {
        static const char plain[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
        const char *short_one = *c ? strchr(plain, *c) : NULL;
        if (short_one)
            good = fprintf(f, "\\%c", letters[short_one - plain]) > 0;
        else if (*c < 0x20)
            good = fprintf(f, "\\u%04x", *c) > 0;
        else
            good = putc(*c, f) != EOF;
    }
    return putc('"', f) != EOF && good;
}
