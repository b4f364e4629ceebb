/* CSV files of numbers (RFC 4180: quoted fields may contain delimiters, line breaks and doubled quotes). Invariant: every line has as many
 * fields as the first; an integer is read exactly or refused; an error names the file, the offset, the line and the column. */
#include "data/source.h"

#include <manyfold/data.h>

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The range of an integer dtype. */
typedef struct csv_range {
    mf_dtype dtype;
    int64_t least;
    uint64_t most;
} csv_range;

static const csv_range ranges[] = {
    { MF_BOOL, 0, 1 },        { MF_I8, INT8_MIN, INT8_MAX }, { MF_I16, INT16_MIN, INT16_MAX }, { MF_I32, INT32_MIN, INT32_MAX },
    { MF_U8, 0, UINT8_MAX },  { MF_U16, 0, UINT16_MAX },     { MF_U32, 0, UINT32_MAX },        { MF_I64, INT64_MIN, INT64_MAX },
    { MF_U64, 0, UINT64_MAX }
};

typedef union csv_cell {
    double number;
    uint64_t whole; /* for integer dtypes: the two's complement bits */
} csv_cell;

typedef struct csv {
    const char *path, *text;
    size_t size, at;
    char delimiter;
    int64_t line; /* the current line of the file, from 1 */
    char *field;  /* the last field read, NUL-terminated */
    size_t capacity;
    size_t field_at;        /* the offset of that field */
    bool last;              /* it is the last of its line */
    const csv_range *range; /* NULL: the dtype is a float */
    locale_t numbers;
} csv;

typedef struct csv_table {
    char **names;
    csv_cell **columns;
    int64_t count, rows, capacity;
} csv_table;

static mf_value out_of_memory(const csv *c) { return mf_make_error(MF_ERROR_MEMORY, "%s: out of memory", c->path); }

static mf_value wrong(const csv *c, size_t at, int64_t column, const char *expected)
{
    return mf_make_error(MF_ERROR_IO, "%s: at offset %zu (line %lld, column %lld): expected %s", c->path, at, (long long)c->line,
                         (long long)column + 1, expected);
}

/* ---- fields */

static bool put(csv *c, size_t n, char byte)
{
    if (n + 1 >= c->capacity) {
        size_t capacity = c->capacity ? c->capacity * 2 : 64;
        char *more = realloc(c->field, capacity);
        if (!more)
            return false;
        c->field = more;
        c->capacity = capacity;
    }
    c->field[n] = byte;
    c->field[n + 1] = 0;
    return true;
}

/* Skips one line end: CR, LF or CR LF. */
static void end_line(csv *c)
{
    c->last = true;
    if (c->at < c->size && c->text[c->at] == '\r')
        c->at++;
    if (c->at < c->size && c->text[c->at] == '\n')
        c->at++;
}

/* Reads a quoted field from behind its opening quote. Returns an error or unset. */
static mf_value read_quoted(csv *c, int64_t column, size_t *n)
{
    for (;; c->at++) {
        if (c->at >= c->size)
            return wrong(c, c->field_at, column, "the end of what is in quotes");
        if (c->text[c->at] == '"' && (++c->at >= c->size || c->text[c->at] != '"'))
            return (mf_value){ 0 };
        c->line += c->text[c->at] == '\n';
        if (!put(c, (*n)++, c->text[c->at]))
            return out_of_memory(c);
    }
}

static mf_value read_field(csv *c, int64_t column)
{
    size_t n = 0;
    c->field_at = c->at;
    c->last = false;
    if (!put(c, 0, 0))
        return out_of_memory(c);
    if (c->at < c->size && c->text[c->at] == '"') {
        c->at++;
        mf_value error = read_quoted(c, column, &n);
        if (error.handle)
            return error;
    } else {
        for (; c->at < c->size && c->text[c->at] != c->delimiter && c->text[c->at] != '\n' && c->text[c->at] != '\r'; c->at++)
            if (!put(c, n++, c->text[c->at]))
                return out_of_memory(c);
    }
    if (c->at < c->size && c->text[c->at] == c->delimiter) {
        c->at++;
        return (mf_value){ 0 };
    }
    if (c->at < c->size && c->text[c->at] != '\n' && c->text[c->at] != '\r')
        return wrong(c, c->at, column, "a delimiter or the end of the line behind what is in quotes");
    end_line(c);
    return (mf_value){ 0 };
}

/* ---- lines */

static char *trimmed(char *text)
{
    text += strspn(text, " \t");
    size_t n = strlen(text);
    while (n && strchr(" \t", text[n - 1]))
        text[--n] = 0;
    return text;
}

/* The absolute value of an integer. Float notation is allowed too (3e2, 300.0), up to 2^53, where a double is exact. */
static bool read_magnitude(const csv *c, const char *text, uint64_t *out)
{
    const char *digits = text + (*text == '-' || *text == '+');
    char *rest;
    errno = 0;
    *out = *digits >= '0' && *digits <= '9' ? strtoull(digits, &rest, 10) : 0;
    if (*digits >= '0' && *digits <= '9' && !*rest)
        return errno == 0;
    double number = fabs(strtod_l(text, &rest, c->numbers));
    bool whole = *text && !*rest && number <= 0x1p53;
    *out = whole ? (uint64_t)number : 0;
    return whole && (double)*out == number;
}

static mf_value read_whole(csv *c, int64_t column, const char *text, uint64_t *out)
{
    const csv_range *r = c->range;
    char expected[160];
    bool negative = *text == '-';
    if (read_magnitude(c, text, out) && *out <= (negative ? 0 - (uint64_t)r->least : r->most)) {
        *out = negative ? 0 - *out : *out;
        return (mf_value){ 0 };
    }
    snprintf(expected, sizeof expected, "a whole number from %lld to %llu, found %s%.64s", (long long)r->least, (unsigned long long)r->most,
             *text ? "" : "none", text);
    return wrong(c, c->field_at, column, expected);
}

static mf_value read_number(csv *c, int64_t column, csv_cell *out)
{
    char *text = trimmed(c->field), *rest;
    if (c->range)
        return read_whole(c, column, text, &out->whole);
    out->number = strtod_l(*text ? text : "nan", &rest, c->numbers); /* an empty field is NaN, as in numpy.genfromtxt */
    return *rest ? wrong(c, c->field_at, column, "a number") : (mf_value){ 0 };
}

/* Reads the first line, which determines the number of columns. If named, its fields are the columns' names; else the names are "0", "1",
 * ... and the line is read again as numbers. */
static mf_value read_names(csv *c, csv_table *t, bool named)
{
    size_t begin = c->at;
    int64_t line = c->line;
    for (int64_t i = 0;; i++) {
        mf_value error = read_field(c, i);
        char number[24], **names = error.handle ? NULL : realloc(t->names, ((size_t)i + 1) * sizeof *names);
        if (!names)
            return error.handle ? error : out_of_memory(c);
        t->names = names;
        snprintf(number, sizeof number, "%lld", (long long)i);
        names[i] = strdup(named ? trimmed(c->field) : number);
        if (!names[i])
            return out_of_memory(c);
        t->count = i + 1;
        for (int64_t k = 0; k < i; k++)
            if (strcmp(names[k], names[i]) == 0)
                return wrong(c, c->field_at, i, "a name that no other column has");
        if (c->last)
            break;
    }
    c->line = named ? c->line + 1 : line;
    c->at = named ? c->at : begin;
    t->columns = calloc((size_t)t->count, sizeof *t->columns);
    return t->columns ? (mf_value){ 0 } : out_of_memory(c);
}

static mf_value read_line(csv *c, csv_table *t)
{
    if (t->rows == t->capacity) {
        t->capacity = t->capacity ? t->capacity * 2 : 256;
        for (int64_t i = 0; i < t->count; i++) {
            csv_cell *more = realloc(t->columns[i], (size_t)t->capacity * sizeof *more);
            if (!more)
                return out_of_memory(c);
            t->columns[i] = more;
        }
    }
    char expected[64];
    for (int64_t i = 0; i < t->count; i++) {
        mf_value error = read_field(c, i);
        if (!error.handle && c->last != (i + 1 == t->count)) {
            snprintf(expected, sizeof expected, "%lld fields in each line", (long long)t->count);
            error = wrong(c, c->field_at, i, expected);
        }
        if (!error.handle)
            error = read_number(c, i, &t->columns[i][t->rows]);
        if (error.handle)
            return error;
    }
    c->line++;
    t->rows++;
    return (mf_value){ 0 };
}

static bool blank_line(csv *c)
{
    size_t at = c->at;
    while (at < c->size && (c->text[at] == ' ' || c->text[at] == '\t'))
        at++;
    if (at < c->size && c->text[at] != '\n' && c->text[at] != '\r')
        return false;
    c->at = at;
    end_line(c);
    c->line++;
    return true;
}

static mf_value read_table(csv *c, csv_table *t, bool named)
{
    c->at = c->size >= 3 && memcmp(c->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* skips a UTF-8 byte order mark */
    while (c->at < c->size && blank_line(c)) {
    }
    mf_value error = c->at < c->size ? read_names(c, t, named) : wrong(c, c->at, 0, "a line");
    while (!error.handle && c->at < c->size)
        if (!blank_line(c))
            error = read_line(c, t);
    return error;
}

/* ---- the dict */

static mf_value dict_of(const csv *c, const csv_table *t, mf_dtype dtype)
{
    mf_dtype cells = !c->range ? MF_F64 : dtype == MF_U64 ? MF_U64 : MF_I64;
    mf_value *pairs = malloc(((size_t)t->count * 2 + 1) * sizeof *pairs);
    if (!pairs)
        return out_of_memory(c);
    for (int64_t i = 0; i < t->count; i++) {
        pairs[2 * i] = mf_string(t->names[i]);
        mf_value column = mf_from_host(cells, MF_SHAPE(t->rows), t->columns[i] ? t->columns[i] : &(csv_cell){ 0 });
        pairs[2 * i + 1] = dtype == cells ? column : mf_astype(column, dtype);
    }
    mf_value made = mf_dict_n(pairs, (int)(2 * t->count));
    free(pairs);
    return made;
}

mf_value mf_load_csv_opt(const char *path, const mf_load_csv_options *o)
{
    MF_LAYER;
    MF_SCOPE;
    csv c = { .path = path, .delimiter = o && o->delimiter ? o->delimiter : ',', .line = 1 };
    csv_table t = { 0 };
    mf_dtype dtype = o && o->dtype ? o->dtype : MF_F32;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        c.range = ranges[i].dtype == dtype ? &ranges[i] : c.range;
    mf_mapping file;
    mf_value made = mf_data_map(path, &file);
    if (made.handle)
        return mf_escape(made);
    c.text = (const char *)file.bytes;
    c.size = file.size;
    c.numbers = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    made = c.numbers ? read_table(&c, &t, !(o && o->no_header)) : out_of_memory(&c);
    if (!made.handle)
        made = t.count < INT32_MAX / 4 ? dict_of(&c, &t, dtype) : out_of_memory(&c);
    if (c.numbers)
        freelocale(c.numbers);
    for (int64_t i = 0; i < t.count; i++) {
        free(t.names[i]);
        if (t.columns)
            free(t.columns[i]);
    }
    free(t.names);
    free(t.columns);
    free(c.field);
    mf_unmap(&file);
    return mf_escape(made);
}
