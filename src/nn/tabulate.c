/* A summary table of a model, as Flax's tabulate prints it: one row for each module, one column for each type of state. Invariant: a state
 * that several modules share is counted in the first only. */
#include <manyfold.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TYPES = 4, COLUMNS = 2 + TYPES };
static const mf_state_type types[TYPES] = { MF_BATCH_STATE, MF_HIDDEN_STATE, MF_PARAM_STATE, MF_RANDOM_STATE };
static const char *const titles[COLUMNS] = { "path", "type", "BatchState", "HiddenState", "ParamState", "RandomState" };

/* ---- growing text */

typedef struct text {
    char *at;
    size_t length, capacity;
    bool failed;
} text;

__attribute__((format(printf, 2, 3))) static void add(text *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (t->failed || n < 0)
        return;
    if (t->length + (size_t)n + 1 > t->capacity) {
        size_t capacity = 2 * (t->length + (size_t)n) + 64;
        char *at = realloc(t->at, capacity);
        t->failed = !at;
        if (!at)
            return;
        t->at = at;
        t->capacity = capacity;
    }
    va_start(arguments, format);
    vsnprintf(t->at + t->length, t->capacity - t->length, format, arguments);
    va_end(arguments);
    t->length += (size_t)n;
}

/* ---- counts of elements and bytes */

typedef struct amount {
    int64_t count, bytes;
} amount;

typedef struct row {
    text cell[COLUMNS];
    amount sum[TYPES];
    bool own[TYPES]; /* the module itself has states of that type */
} row;

typedef struct table {
    row *rows;
    int count, capacity;
    mf_state *seen;
    int seen_count, seen_capacity;
    bool failed;
} table;

static int64_t width_of(mf_dtype d)
{
    static const int8_t widths[] = { 0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 8 };
    return (size_t)d < sizeof widths ? widths[d] : 0;
}

static amount amount_of(mf_value tree)
{
    amount a = { 0 };
    mf_value leaves = mf_tree_leaves(tree);
    for (int i = 0, n = mf_len(leaves); i < n; i++) {
        mf_value leaf = mf_get(leaves, i);
        int64_t size = mf_size(leaf);
        if (size < 0)
            continue;
        a.count += size;
        a.bytes += size * width_of(mf_dtype_of(leaf));
    }
    return a;
}

static void add_shape(text *t, mf_value leaf)
{
    mf_shape shape = mf_shape_of(leaf);
    if (shape.rank < 0) {
        add(t, "?");
        return;
    }
    add(t, "%s[", mf_str_dtype(mf_dtype_of(leaf)));
    for (int i = 0; i < shape.rank; i++)
        add(t, "%s%lld", i ? "," : "", (long long)shape.dims[i]);
    add(t, "]");
}

static void add_with_commas(text *t, int64_t n)
{
    if (n >= 1000)
        add_with_commas(t, n / 1000);
    add(t, n >= 1000 ? ",%03d" : "%d", (int)(n % 1000));
}

/* "1,056 (4.2 KB)" */
static void add_amount(text *t, amount a)
{
    add_with_commas(t, a.count);
    if (a.bytes > 1000000000)
        add(t, " (%.1f GB)", (double)a.bytes / 1e9);
    else if (a.bytes > 1000000)
        add(t, " (%.1f MB)", (double)a.bytes / 1e6);
    else if (a.bytes > 1000)
        add(t, " (%.1f KB)", (double)a.bytes / 1e3);
    else
        add(t, " (%d B)", (int)a.bytes);
}

/* ---- rows */

static row *new_row(table *t)
{
    if (t->count == t->capacity) {
        int capacity = 2 * t->capacity + 16;
        row *rows = realloc(t->rows, (size_t)capacity * sizeof *rows);
        t->failed |= !rows;
        if (!rows)
            return NULL;
        t->rows = rows;
        t->capacity = capacity;
    }
    memset(&t->rows[t->count], 0, sizeof *t->rows);
    return &t->rows[t->count++];
}

/* Whether the state has not been seen before; marks it as seen. */
static bool is_new(table *t, mf_state s)
{
    for (int i = 0; i < t->seen_count; i++)
        if (mf_state_same(t->seen[i], s))
            return false;
    if (t->seen_count == t->seen_capacity) {
        int capacity = 2 * t->seen_capacity + 64;
        mf_state *seen = realloc(t->seen, (size_t)capacity * sizeof *seen);
        t->failed |= !seen;
        if (!seen)
            return false;
        t->seen = seen;
        t->seen_capacity = capacity;
    }
    t->seen[t->seen_count++] = s;
    return true;
}

static void add_state(row *r, const char *name, mf_state s)
{
    for (int k = 0; k < TYPES; k++) {
        if (types[k] != mf_state_type_of(s))
            continue;
        mf_value value = mf_state_value(s);
        amount a = amount_of(value);
        text *cell = &r->cell[2 + k];
        add(cell, "%s: ", name);
        if (mf_size(value) >= 0)
            add_shape(cell, value);
        else
            add(cell, "%d arrays", mf_len(mf_tree_leaves(value)));
        add(cell, "\n");
        r->sum[k] = (amount){ r->sum[k].count + a.count, r->sum[k].bytes + a.bytes };
        r->own[k] = true;
    }
}

/* Adds rows for m and its submodules, and their amounts to `sum`. A List gets no row of its own. */
static void add_rows(table *t, mf_module m, const char *path, amount *sum)
{
    bool is_list = strcmp(mf_module_type(m), "List") == 0;
    int at = t->count, n = mf_member_count(m);
    row scratch = { 0 }, *r = is_list ? &scratch : new_row(t);
    if (!r)
        return;
    add(&r->cell[0], "%s", path);
    add(&r->cell[1], "%s", mf_module_type(m));
    for (int i = 0; i < n; i++) {
        const char *name = mf_member_name(m, i);
        if (mf_member_kind(m, name) == MF_MEMBER_STATE && is_new(t, mf_member_state(m, name)))
            add_state(r, name, mf_member_state(m, name));
    }
    amount all[TYPES];
    memcpy(all, r->sum, sizeof all);
    for (int i = 0; i < n; i++) { /* adding rows may move them: r is invalid from here on */
        const char *name = mf_member_name(m, i);
        text below = { 0 };
        if (mf_member_kind(m, name) != MF_MEMBER_MODULE)
            continue;
        add(&below, "%s%s%s", path, *path ? "/" : "", name);
        t->failed |= below.failed;
        if (!below.failed)
            add_rows(t, mf_member_module(m, name), below.at, all);
        free(below.at);
    }
    if (!is_list && at < t->count)
        memcpy(t->rows[at].sum, all, sizeof all);
    for (int k = 0; k < COLUMNS && is_list; k++)
        free(scratch.cell[k].at);
    for (int k = 0; k < TYPES; k++)
        sum[k] = (amount){ sum[k].count + all[k].count, sum[k].bytes + all[k].bytes };
}

static void finish_cells(row *r)
{
    for (int k = 0; k < TYPES; k++) {
        text *cell = &r->cell[2 + k];
        if (r->own[k])
            add(cell, "\n");
        if (r->sum[k].count)
            add_amount(cell, r->sum[k]);
    }
}

/* ---- drawing */

typedef struct columns {
    int widths[COLUMNS];
    bool shown[COLUMNS];
} columns;

static const char *cell_text(const row *r, int column) { return r->cell[column].at ? r->cell[column].at : ""; }

/* The start of line number n of a cell, and its length. */
static const char *cell_line(const char *cell, int n, int *length)
{
    while (n > 0 && *cell) {
        n -= *cell == '\n';
        cell++;
    }
    *length = n > 0 ? 0 : (int)strcspn(cell, "\n");
    return cell;
}

static int line_count(const row *r)
{
    int most = 1;
    for (int c = 0; c < COLUMNS; c++) {
        int lines = 1;
        for (const char *p = cell_text(r, c); *p; p++)
            lines += *p == '\n';
        most = lines > most ? lines : most;
    }
    return most;
}

static void measure(columns *l, const row *r)
{
    for (int c = 0; c < COLUMNS; c++)
        for (int k = 0, n = line_count(r); k < n; k++) {
            int length;
            cell_line(cell_text(r, c), k, &length);
            l->widths[c] = length > l->widths[c] ? length : l->widths[c];
            l->shown[c] |= length > 0;
        }
}

static void rule(text *out, const columns *l, const char *left, const char *line, const char *between, const char *right)
{
    add(out, "%s", left);
    for (int c = 0, first = 1; c < COLUMNS; c++) {
        if (!l->shown[c])
            continue;
        add(out, "%s", first ? "" : between);
        for (int i = 0; i < l->widths[c] + 2; i++)
            add(out, "%s", line);
        first = 0;
    }
    add(out, "%s\n", right);
}

static void draw_row(text *out, const columns *l, const row *r, const char *bar)
{
    for (int k = 0, n = line_count(r); k < n; k++) {
        for (int c = 0; c < COLUMNS; c++) {
            int length;
            const char *at = cell_line(cell_text(r, c), k, &length);
            if (l->shown[c])
                add(out, "%s %.*s%*s ", bar, length, at, l->widths[c] - length, "");
        }
        add(out, "%s\n", bar);
    }
}

static void draw(text *out, table *t, const row *head)
{
    columns l = { .shown = { true, true } };
    for (int i = 0; i < t->count; i++)
        measure(&l, &t->rows[i]);
    columns titled = l;
    measure(&titled, head);
    memcpy(l.widths, titled.widths, sizeof l.widths);
    rule(out, &l, "┏", "━", "┳", "┓");
    draw_row(out, &l, head, "┃");
    rule(out, &l, "┡", "━", "╇", "┩");
    for (int i = 0; i < t->count; i++) {
        draw_row(out, &l, &t->rows[i], "│");
        if (i + 1 < t->count)
            rule(out, &l, "├", "─", "┼", "┤");
    }
    rule(out, &l, "└", "─", "┴", "┘");
}

static void free_row(row *r)
{
    for (int c = 0; c < COLUMNS; c++)
        free(r->cell[c].at);
}

/* The last row of the table. */
static void add_total(table *t, const amount *sum)
{
    row *r = new_row(t);
    if (!r)
        return;
    add(&r->cell[1], "Total");
    memcpy(r->sum, sum, sizeof r->sum);
}

const char *mf_nn_tabulate(mf_module model)
{
    MF_LAYER;
    if (!mf_module_type(model))
        return mf_str_module(model); /* the error's message */
    table t = { 0 };
    text out = { 0 };
    row head = { 0 };
    amount sum[TYPES] = { { 0 } }, total = { 0 };
    add_rows(&t, model, "", sum);
    add_total(&t, sum);
    for (int c = 0; c < COLUMNS; c++)
        add(&head.cell[c], "%s", titles[c]);
    for (int i = 0; i < t.count; i++)
        finish_cells(&t.rows[i]);
    for (int k = 0; k < TYPES; k++)
        total = (amount){ total.count + sum[k].count, total.bytes + sum[k].bytes };
    add(&out, "%s Summary\n", mf_module_type(model));
    draw(&out, &t, &head);
    add(&out, "Total Parameters: ");
    add_amount(&out, total);
    mf_value kept = t.failed || out.failed ? mf_make_error(MF_ERROR_MEMORY, "no memory for the table") : mf_string(out.at);
    for (int i = 0; i < t.count; i++)
        free_row(&t.rows[i]);
    free_row(&head);
    free(t.rows);
    free(t.seen);
    free(out.at);
    return mf_is_error(kept) ? mf_error(kept) : mf_static_data(kept, NULL);
}
