/* The tokens of a program's text: words, numbers, types; and errors with line and column. */
#include "ir/text/parser.h"

#include "ir/text/number_text.h"

#include <ctype.h>
#include <string.h>

void parse_fail_at(parser *p, const char *at, mf_error_object *why)
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

void parse_expected(parser *p, const char *what)
{
    int length = 0;
    while (length < 20 && (isalnum((unsigned char)p->at[length]) || p->at[length] == '_'))
        length++;
    if (!length && *p->at && isprint((unsigned char)*p->at))
        length = 1;
    if (length)
        parse_fail_at(p, p->at, mf_error_new(MF_ERROR_ARGUMENT, "expected %s, found '%.*s'", what, length, p->at));
    else
        parse_fail_at(
            p, p->at,
            mf_error_new(MF_ERROR_ARGUMENT, "expected %s, found %s", what, *p->at ? "a character that cannot stand here" : "the end"));
}

void parse_out_of_memory(parser *p) { parse_fail_at(p, p->at, mf_error_out_of_memory()); }

bool parse_skip(parser *p)
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

bool parse_accept(parser *p, const char *word)
{
    if (p->error)
        return false;
    parse_skip(p);
    size_t n = strlen(word);
    if (strncmp(p->at, word, n) != 0)
        return false;
    if (isalpha((unsigned char)word[0]) && (isalnum((unsigned char)p->at[n]) || p->at[n] == '_'))
        return false;
    p->at += n;
    return true;
}

bool parse_expect(parser *p, const char *word)
{
    if (parse_accept(p, word))
        return true;
    char what[24] = "'";
    strncat(what, word, sizeof what - 3);
    if (!p->error)
        parse_expected(p, strcat(what, "'"));
    return false;
}

int parse_word_length(const char *s)
{
    if (!isalpha((unsigned char)s[0]) && s[0] != '_')
        return 0;
    int n = 1;
    while (isalnum((unsigned char)s[n]) || s[n] == '_' || s[n] == '.')
        n++;
    return n;
}

int parse_word(parser *p, const char **word, const char *what)
{
    if (p->error)
        return 0;
    parse_skip(p);
    int n = parse_word_length(p->at);
    *word = p->at;
    p->at += n;
    if (!n)
        parse_expected(p, what);
    return n;
}

int parse_number_length(const char *s)
{
    int n = 0;
    while (isalnum((unsigned char)s[n]) || s[n] == '+' || s[n] == '-' || s[n] == '.')
        n++;
    return n;
}

bool parse_number(parser *p, mf_dtype dtype, void *out, const char *what)
{
    if (p->error)
        return false;
    parse_skip(p);
    int n = parse_number_length(p->at);
    if (!mf_number_read(dtype, p->at, n, out)) {
        parse_expected(p, what);
        return false;
    }
    p->at += n;
    return true;
}

const mf_type *parse_type(parser *p) { return parse_type_after(p, ":"); }

const mf_type *parse_type_after(parser *p, const char *word)
{
    if (!parse_expect(p, word))
        return NULL;
    parse_skip(p);
    const char *s = p->at;
    const mf_type *type = mf_type_parse(&s);
    if (!type) {
        parse_expected(p, "a type such as f32[2,3]");
        return NULL;
    }
    p->at = s;
    return type;
}
