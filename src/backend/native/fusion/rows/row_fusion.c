/* Joins steps over the same rows into one: softmax, layer norm and similar functions reduce rows and use the results row by row. Step by
 * step, each pass goes through memory; a few rows at a time, what the steps hand to each other stays in the nearest cache.
 * Invariants: every row is computed as by the single steps, in the same order of operations, so joining changes no bit; a step joins
 * only if it reads of the others' results its own rows only; cutting depends on the shapes alone; nothing moves across a barrier, and
 * what need not move stays in place, otherwise values might live longer than in the program. */
#include "backend/native/fusion/rows/row_fusion.h"

#include "backend/native/fusion/rows/rows_step.h"
#include "passes/passes.h"

#include <stdio.h>
#include <string.h>

enum {
    BLOCK_BYTES = 32 << 10, /* of the current rows, all values together */
    ROW_MOST = 256 << 10,   /* a larger row stays in no cache */
    TASK_BYTES = 512 << 10,
    MOST_TASKS = 32,
    PAYS_BYTES = 64 << 10, /* below this, everything is in the cache anyway */
    PAYS_LONG = 6 << 20,   /* the same, where members work on a row for long: what they hand on comes from the last-level cache in time */
    ALIGN = 64
};

mf_rows_use mf_native_rows_use;

static int64_t own_rows(const mf_native_step *s) { return s->parts->rows ? s->parts->rows(s) : 0; } /* 0: any number */

/* ------------------------------------------------------------------ choosing steps */

/* Where a step goes: before the joined step, into it, or behind it. */
typedef enum position { BEFORE, MEMBER, BEHIND } position;

typedef struct joining {
    mf_build *b;
    mf_steps *steps;
    int64_t rows;
    int *maker;           /* by root: the step that makes it, or -1 */
    position *positions;  /* by step */
    bool *linked;         /* by step: shares rows with the reduction at which the search began */
    bool *feeds_outsider; /* by step: makes one value per row for a step that cannot join */
    bool *tried;          /* by step */
    int *local;           /* by variable: 1 + its number in the joined step */
} joining;

static int64_t elements_of(const joining *j, int var) { return j->steps->bytes[var] / mf_dtype_size(mf_build_type(j->b, var)->dtype); }

/* Whether operand k of a step, a variable, can be read row by row. */
static bool inside(const joining *j, const mf_native_step *s, int k, int var)
{
    int root = j->steps->root[var];
    return j->steps->shift[var] == 0 && j->steps->bytes[var] == j->steps->bytes[root] &&
           s->parts->inside(s, k, j->rows, elements_of(j, var));
}

static bool can_join(const joining *j, const mf_native_step *s) { return s->parts && s->parts->can(s, j->rows); }

/* Finds steps that a step that cannot join needs. They had better stay outside too, or everything that follows from that step could not
 * join either. */
static void find_feeders(joining *j)
{
    memset(j->feeds_outsider, 0, (size_t)j->steps->count * sizeof *j->feeds_outsider);
    for (int i = 0; i < j->steps->count; i++) {
        const mf_native_step *s = j->steps->at[i];
        for (int k = 0; k < s->in_count && !can_join(j, s); k++) {
            int root = j->steps->root[s->in[k]];
            if (j->maker[root] >= 0 && elements_of(j, root) == j->rows)
                j->feeds_outsider[j->maker[root]] = true;
        }
    }
}

static position position_of(const joining *j, int i)
{
    const mf_native_step *s = j->steps->at[i];
    bool can = j->linked[i], after = false;
    for (int k = 0; k < s->in_count; k++) {
        int maker = j->maker[j->steps->root[s->in[k]]];
        if (maker < 0 || j->positions[maker] == BEFORE)
            continue;
        if (j->positions[maker] == BEHIND)
            return BEHIND;
        after = true;
        can = can && !mf_step_gathers(j->steps->at[maker]) && inside(j, s, k, s->in[k]);
    }
    if (!after && can && (mf_step_gathers(s) || (j->feeds_outsider[i] && !own_rows(s))))
        return BEFORE;
    return can ? MEMBER : after ? BEHIND : BEFORE;
}

/* Steps behind all members stay there. */
static void move_trailing_behind(joining *j)
{
    for (int i = j->steps->count - 1; i >= 0 && j->positions[i] != MEMBER; i--)
        j->positions[i] = BEHIND;
}

static bool long_member(const joining *j)
{
    for (int i = 0; i < j->steps->count; i++)
        if (j->positions[i] == MEMBER && j->steps->at[i]->parts->block_bytes)
            return true;
    return false;
}

/* Members that can become one compiled loop are better off without folds over all rows, so these are left out. */
static void find_positions(joining *j)
{
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < j->steps->count; i++)
            j->positions[i] = position_of(j, i);
        bool leave_out = !long_member(j);
        for (int i = 0; i < j->steps->count && leave_out; i++)
            j->linked[i] &= !mf_step_gathers(j->steps->at[i]);
    }
}

static int root_at(const joining *j, const mf_native_step *s, int k)
{
    return j->steps->root[k < s->in_count ? s->in[k] : s->out[k - s->in_count]];
}

/* Whether step i reads or makes a marked memory that has rows; if so, marks all that it reads and makes (a mark is nonzero). */
static bool touches_marked(joining *j, int i)
{
    const mf_native_step *s = j->steps->at[i];
    int count = s->in_count + (mf_step_gathers(s) ? 0 : s->out_count);
    for (int k = 0; k < count && !j->linked[i]; k++)
        j->linked[i] = j->local[root_at(j, s, k)] && elements_of(j, root_at(j, s, k)) % j->rows == 0;
    for (int k = 0; k < count && j->linked[i]; k++)
        j->local[root_at(j, s, k)] = 1;
    return j->linked[i];
}

/* Finds the steps that share rows with the first one, transitively, and are between the same barriers. */
static void find_linked(joining *j, int first)
{
    memset(j->linked, 0, (size_t)j->steps->count * sizeof *j->linked);
    memset(j->local, 0, (size_t)j->steps->var_count * sizeof *j->local);
    j->linked[first] = true;
    touches_marked(j, first);
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < j->steps->count; i++)
            more |= !j->linked[i] && j->steps->barriers[i] == j->steps->barriers[first] && can_join(j, j->steps->at[i]) &&
                    touches_marked(j, i);
    }
}

/* Unlinks steps from which the first one depends through a step that cannot join: they have to run before it. */
static void unlink_sources(joining *j, int first)
{
    enum { REACHES = 1, THROUGH_OTHERS = 2 };
    unsigned char *way = mf_build_alloc(j->b, (size_t)j->steps->count, 1);
    if (!way)
        return;
    way[first] = REACHES;
    for (int i = first; i >= 0; i--) {
        if (!way[i])
            continue;
        unsigned char on = way[i] | (j->linked[i] ? 0 : THROUGH_OTHERS);
        for (int k = 0; k < j->steps->at[i]->in_count; k++) {
            int maker = j->maker[j->steps->root[j->steps->at[i]->in[k]]];
            if (maker >= 0)
                way[maker] |= on;
        }
        j->linked[i] &= !(way[i] & THROUGH_OTHERS);
    }
}

/* ------------------------------------------------------------------ the joined step */

static bool read_outside(const joining *j, int root)
{
    if (j->steps->kept[root])
        return true;
    for (int i = 0; i < j->steps->count; i++)
        for (int k = 0; k < j->steps->at[i]->in_count && j->positions[i] != MEMBER; k++)
            if (j->steps->root[j->steps->at[i]->in[k]] == root)
                return true;
    return false;
}

static int value_of(const joining *j, mf_rows_step *s, int var)
{
    if (j->local[var])
        return j->local[var] - 1;
    int root = j->steps->root[var];
    bool member = j->maker[root] >= 0 && j->positions[j->maker[root]] == MEMBER;
    if (member && root != var) { /* the same bytes under another name */
        j->local[var] = value_of(j, s, root) + 1;
        return j->local[var] - 1;
    }
    mf_rows_value *v = &s->values[s->value_count];
    *v = (mf_rows_value){ .outside = -1, .same = -1, .bytes = j->steps->bytes[var] / j->rows };
    if (!member) {
        v->outside = s->step.in_count;
        s->step.in[s->step.in_count++] = var;
    } else if (read_outside(j, root) || mf_step_gathers(j->steps->at[j->maker[root]])) { /* a fold's, even if nothing reads it */
        v->outside = ~s->step.out_count - 1; /* numbered after the operands, of which more may come */
        s->step.out[s->step.out_count++] = var;
    }
    j->local[var] = ++s->value_count;
    return s->value_count - 1;
}

static void number_values(const joining *j, mf_rows_step *s)
{
    for (int i = 0; i < s->part_count; i++) {
        mf_native_step *part = s->parts[i];
        for (int k = 0; k < part->in_count; k++)
            part->in[k] = value_of(j, s, part->in[k]);
        for (int o = 0; o < part->out_count; o++)
            part->out[o] = value_of(j, s, part->out[o]);
    }
    for (int v = 0; v < s->value_count; v++)
        if (s->values[v].outside < -1)
            s->values[v].outside = s->step.in_count + ~(s->values[v].outside + 1);
}

/* The bytes of rows to keep at hand: if a member works on a row for long, what the second-level cache holds. */
static int64_t block_bytes(const joining *j)
{
    int64_t most = BLOCK_BYTES;
    for (int i = 0; i < j->steps->count; i++)
        if (j->positions[i] == MEMBER && j->steps->at[i]->parts->block_bytes > most)
            most = j->steps->at[i]->parts->block_bytes;
    return most;
}

static bool reads(const mf_native_step *part, int value)
{
    for (int k = 0; k < part->in_count; k++)
        if (part->in[k] == value)
            return true;
    return false;
}

/* Whether no part behind this one reads the value, and this one only as operand k. Parts that gather may read it later than their
 * position. */
static bool read_last(const mf_rows_step *s, int part, int k)
{
    int value = s->parts[part]->in[k], times = 0;
    for (int i = 0; i < s->parts[part]->in_count; i++)
        times += s->parts[part]->in[i] == value;
    for (int i = 0; i < s->part_count; i++)
        times += (i > part || mf_step_gathers(s->parts[i])) && reads(s->parts[i], value);
    return times == 1;
}

/* If group i is the last to read a value of the block, and computes another one from it element by element, the two share memory. names:
 * the group's variables, operands first. */
static void join_in_place(const joining *j, mf_rows_step *s, int i, const int *names)
{
    const mf_native_step *part = s->parts[i];
    const mf_group_plan *plan = part->parts->group ? part->parts->group(part) : NULL;
    const mf_program *p = j->b->program;
    for (int o = 0; plan && o < part->out_count; o++)
        for (int k = 0; k < part->in_count; k++) {
            mf_rows_value *from = &s->values[part->in[k]], *to = &s->values[part->out[o]];
            int size = mf_dtype_size(mf_build_type(j->b, names[part->in_count + o])->dtype);
            if (from->outside >= 0 || from->same >= 0 || to->taken || from->bytes != to->bytes || !read_last(s, i, k) ||
                !mf_group_in_place(plan->group, names[k], size, p))
                continue;
            from->same = to->same >= 0 ? to->same : part->out[o];
            to->taken = true;
        }
}

/* Whether a row of operand `value` is dead when part i writes that row of result o: all readers read row by row, and earlier. */
static bool done_before(const joining *j, const mf_rows_step *s, int value, int i, int o, int *const *names)
{
    const mf_program *p = j->b->program;
    for (int q = 0; q < s->part_count; q++)
        for (int k = 0; k < s->parts[q]->in_count; k++) {
            const mf_native_step *part = s->parts[q];
            if (part->in[k] != value)
                continue;
            const mf_group_plan *plan = q == i && part->parts->group ? part->parts->group(part) : NULL;
            int size = mf_dtype_size(mf_build_type(j->b, names[i][s->parts[i]->in_count + o])->dtype);
            if (q > i || mf_step_gathers(part) || (q == i && !(plan && mf_group_in_place(plan->group, names[q][k], size, p))) ||
                !inside(j, part, k, names[q][k]))
                return false;
        }
    return true;
}

/* Marks results that may take over the memory of operands that die in these parts; buffer_assignment.c decides. */
static void join_with_operands(const joining *j, mf_rows_step *s, int *const *names)
{
    int *over = mf_build_alloc(j->b, (size_t)s->step.out_count + 1, sizeof *over);
    bool *used = mf_build_alloc(j->b, (size_t)s->step.in_count + 1, sizeof *used);
    s->step.overwrites = over;
    for (int i = 0; i < s->part_count && !j->b->error; i++)
        for (int o = 0; o < s->parts[i]->out_count; o++) {
            mf_rows_value *to = &s->values[s->parts[i]->out[o]];
            for (int v = 0; v < s->value_count && to->outside >= s->step.in_count && !to->taken; v++) {
                const mf_rows_value *from = &s->values[v];
                if (from->outside < 0 || from->outside >= s->step.in_count || used[from->outside] || from->bytes != to->bytes ||
                    !done_before(j, s, v, i, o, names))
                    continue;
                over[to->outside - s->step.in_count] = from->outside + 1;
                used[from->outside] = to->taken = true;
            }
        }
}

/* Whether all parts are groups and reductions, which can become one compiled loop. Such a loop reads operands again in later phases. */
static bool can_loop(const mf_rows_step *s)
{
    for (int i = 0; i < s->part_count; i++)
        if (!s->parts[i]->parts->group)
            return false;
    return true;
}

/* Numbers the values, and lets them share memory where possible. */
static void make_values(const joining *j, mf_rows_step *s)
{
    int **names = mf_build_alloc(j->b, (size_t)s->part_count, sizeof *names);
    for (int i = 0; i < s->part_count && !j->b->error; i++) {
        const mf_native_step *part = s->parts[i];
        names[i] = mf_build_alloc(j->b, (size_t)part->in_count + (size_t)part->out_count, sizeof(int));
        if (!names[i])
            return;
        memcpy(names[i], part->in, (size_t)part->in_count * sizeof(int));
        memcpy(names[i] + part->in_count, part->out, (size_t)part->out_count * sizeof(int));
    }
    if (j->b->error)
        return;
    number_values(j, s);
    if (!can_loop(s))
        join_with_operands(j, s, names);
    for (int i = s->part_count - 1; i >= 0; i--)
        join_in_place(j, s, i, names[i]);
}

static size_t rounded(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

/* Adds values for what parts prepare before the rows begin. */
static void keep_prepared(mf_rows_step *s)
{
    for (int i = 0; i < s->part_count; i++) {
        const mf_row_parts *parts = s->parts[i]->parts;
        size_t bytes = parts->prepared_bytes ? parts->prepared_bytes(s->parts[i]) : 0;
        if (!bytes)
            continue;
        s->values[s->value_count] = (mf_rows_value){ .outside = -1, .same = -1, .kept = true, .at = s->shared_bytes };
        s->parts[i]->prepared = s->value_count++;
        s->shared_bytes += rounded(bytes);
    }
}

/* Makes about `tasks` tasks of whole blocks and nearly equal size; if there are too few blocks to divide evenly, of equal numbers of
 * rows. */
static void even_tasks(mf_rows_step *s, int64_t tasks)
{
    const int64_t blocks = (s->rows + s->rows_a_block - 1) / s->rows_a_block;
    int64_t each = (blocks + tasks / 2) / tasks;
    each = each > 1 ? each : 1;
    tasks = (blocks + each / 2) / each;
    tasks = tasks < MOST_TASKS ? tasks : MOST_TASKS;
    s->rows_a_task = blocks % tasks && blocks < 4 * tasks ? (s->rows + tasks - 1) / tasks : (blocks + tasks - 1) / tasks * s->rows_a_block;
}

/* Adjusts blocks to divide what folds take at once, tasks to consist of whole spans of theirs, and buffers to hold the rows that wait
 * for them. */
static void fit_gathering(mf_rows_step *s, int64_t tasks)
{
    int64_t span = 1;
    while (s->gathers && s->rows_a_block & (s->rows_a_block - 1))
        s->rows_a_block &= s->rows_a_block - 1;
    for (int v = 0; v < s->value_count; v++)
        s->values[v].period = s->rows_a_block;
    for (int i = 0; i < s->part_count; i++) {
        const mf_native_step *part = s->parts[i];
        int64_t unit = mf_rows_unit(s, part), own = mf_rows_span(s, part);
        span = own > span ? own : span;
        for (int k = 0; k < part->in_count; k++)
            if (s->values[part->in[k]].period < unit)
                s->values[part->in[k]].period = unit;
    }
    even_tasks(s, tasks);
    s->rows_a_task = (s->rows_a_task + span - 1) / span * span;
}

/* Plans the number of rows per block, the number of tasks, and the layout of a task's memory: pointers, the parts' scratch, the values. */
static void plan_rows(const joining *j, mf_rows_step *s, int64_t bytes_a_row, size_t buffer_bytes)
{
    s->rows = j->rows;
    for (int v = 0; v < s->value_count; v++)
        bytes_a_row -= s->values[v].same >= 0 ? s->values[v].bytes : 0;
    for (int o = 0; o < s->step.out_count && s->step.overwrites; o++)
        bytes_a_row -= s->step.overwrites[o] ? j->steps->bytes[s->step.out[o]] / s->rows : 0;
    int64_t block = block_bytes(j), each = 2 * block > TASK_BYTES ? 2 * block : TASK_BYTES;
    int64_t most = block / (bytes_a_row + 1) + 1, tasks = bytes_a_row * j->rows / each + 1;
    s->rows_a_block = most < j->rows ? most : j->rows;
    tasks = tasks < MOST_TASKS ? tasks : MOST_TASKS;
    tasks = tasks < j->rows ? tasks : j->rows;
    fit_gathering(s, tasks);
    s->tasks = (j->rows + s->rows_a_task - 1) / s->rows_a_task;
    size_t at = rounded(sizeof(void *) * (size_t)s->value_count), scratch = 0;
    for (int i = 0; i < s->part_count; i++) {
        const mf_native_step *part = s->parts[i];
        size_t needed = part->parts->scratch ? part->parts->scratch(part) : part->scratch_bytes;
        s->parts[i]->scratch_offset = at;
        scratch = needed > scratch ? needed : scratch;
        s->step.cost += s->parts[i]->cost;
    }
    at += rounded(scratch);
    for (int v = 0; v < s->value_count; v++)
        if (s->values[v].outside < 0 && s->values[v].same < 0 && !s->values[v].kept) {
            s->values[v].at = at;
            at += rounded((size_t)(s->values[v].bytes * s->values[v].period));
        }
    s->buffers_at = rounded(sizeof(void *) * (size_t)s->value_count);
    s->task_bytes = at > s->buffers_at + rounded(buffer_bytes) ? at : s->buffers_at + rounded(buffer_bytes);
    s->step.scratch_bytes = s->shared_bytes + s->task_bytes * (size_t)s->tasks;
}

/* The bytes per row of all values that have rows. */
static int64_t row_bytes(const joining *j)
{
    int64_t bytes = 0;
    memset(j->local, 0, (size_t)j->steps->var_count * sizeof *j->local);
    for (int i = 0; i < j->steps->count; i++) {
        const mf_native_step *s = j->steps->at[i];
        int count = s->in_count + (mf_step_gathers(s) ? 0 : s->out_count);
        for (int k = 0; k < count && j->positions[i] == MEMBER; k++) {
            int root = root_at(j, s, k);
            if (!j->local[root] && elements_of(j, root) % j->rows == 0)
                bytes += j->steps->bytes[root] / j->rows;
            j->local[root] = 1;
        }
    }
    return bytes;
}

static bool write_loop(const void *plan, mf_loop_text *t) { return mf_loop_write_rows(plan, t); }

/* Makes one compiled loop of all parts, if they allow it. Returns the bytes of its buffers. */
static size_t add_second_tier(const joining *j, mf_rows_step *s)
{
    mf_tier_up_hints hints = { .pays = true, .soon = true };
    for (int i = 0; i < s->part_count; i++)
        hints.cost += s->parts[i]->cost;
    if (!can_loop(s) || !mf_tier_up_wanted(hints))
        return 0;
    bool *outside = mf_build_alloc(j->b, (size_t)s->value_count, sizeof *outside);
    mf_tier_up *up = mf_build_alloc(j->b, 1, sizeof *up);
    for (int v = 0; outside && v < s->value_count; v++)
        outside[v] = s->values[v].outside >= 0;
    const mf_rows_plan *plan = outside ? mf_rows_plan_make(j->b, s->parts, s->part_count, j->rows, s->value_count, outside) : NULL;
    if (!plan || !up || !mf_tier_up_begin(j->b, up, write_loop, plan, hints))
        return 0;
    s->step.up = up;
    for (int i = 0; i < s->part_count; i++)
        if (s->parts[i]->up)
            s->parts[i]->up->each = 0; /* they need no loop of their own */
    return plan->buffer_bytes * (size_t)plan->at_once;
}

static mf_rows_step *make_step(joining *j, int members, int64_t bytes_a_row)
{
    mf_rows_step *s = mf_step_new(j->b, sizeof *s, NULL);
    size_t most = 0;
    for (int i = 0; i < j->steps->count; i++)
        most += j->positions[i] == MEMBER ? (size_t)(j->steps->at[i]->in_count + j->steps->at[i]->out_count) : 0;
    mf_native_step **parts = mf_build_alloc(j->b, (size_t)members, sizeof(mf_native_step *));
    mf_rows_value *values = mf_build_alloc(j->b, 2 * most + (size_t)members, sizeof *values);
    int *names = mf_build_alloc(j->b, 2 * most, sizeof *names);
    if (j->b->error)
        return NULL;
    s->parts = parts;
    s->values = values;
    s->step.in = names;
    s->step.out = names + most;
    s->step.run = mf_rows_step_run;
    for (int i = 0; i < j->steps->count; i++)
        if (j->positions[i] == MEMBER) {
            s->gathers |= mf_step_gathers(j->steps->at[i]);
            s->parts[s->part_count++] = j->steps->at[i];
        }
    memset(j->local, 0, (size_t)j->steps->var_count * sizeof *j->local);
    make_values(j, s);
    size_t buffers = add_second_tier(j, s);
    keep_prepared(s);
    plan_rows(j, s, bytes_a_row, buffers);
    return s;
}

/* Puts the step in place of its members: behind all that it needs, before all that needs it. */
static void replace(joining *j, mf_rows_step *s, int barriers)
{
    mf_steps *steps = j->steps;
    int count = steps->count, made = 0;
    mf_native_step **at = mf_build_alloc(j->b, (size_t)count, sizeof(mf_native_step *));
    int *unit = mf_build_alloc(j->b, (size_t)count, sizeof *unit), *before = mf_build_alloc(j->b, (size_t)count, sizeof *before);
    bool *tried = mf_build_alloc(j->b, (size_t)count, sizeof *tried);
    if (j->b->error)
        return;
    for (position f = BEFORE; f <= BEHIND; f++) {
        if (f == MEMBER) {
            at[made] = &s->step;
            before[made] = barriers;
            unit[made++] = -1;
            continue;
        }
        for (int i = 0; i < count; i++)
            if (j->positions[i] == f) {
                at[made] = steps->at[i];
                tried[made] = j->tried[i];
                before[made] = steps->barriers[i];
                unit[made++] = steps->unit[i];
            }
    }
    memcpy(steps->at, at, (size_t)made * sizeof(mf_native_step *));
    memcpy(steps->unit, unit, (size_t)made * sizeof *unit);
    memcpy(steps->barriers, before, (size_t)made * sizeof *before);
    memcpy(j->tried, tried, (size_t)made * sizeof *tried);
    steps->count = made;
}

static void find_makers(joining *j)
{
    for (int v = 0; v < j->steps->var_count; v++)
        j->maker[v] = -1;
    for (int i = 0; i < j->steps->count; i++)
        for (int o = 0; o < j->steps->at[i]->out_count; o++)
            j->maker[j->steps->at[i]->out[o]] = i;
}

static void print_joined(const mf_rows_step *s)
{
    fprintf(stderr, "%lld rows in blocks of %lld and %lld tasks%s: %d steps\n", (long long)s->rows, (long long)s->rows_a_block,
            (long long)s->tasks, s->step.up ? ", compiled" : "", s->part_count);
}

/* Joins the steps over the rows of reduction `first`. */
static void join_around(joining *j, int first)
{
    int members = 0;
    j->rows = own_rows(j->steps->at[first]);
    find_makers(j);
    find_feeders(j);
    find_linked(j, first);
    unlink_sources(j, first);
    find_positions(j);
    move_trailing_behind(j);
    for (int i = 0; i < j->steps->count; i++)
        members += j->positions[i] == MEMBER;
    int64_t bytes = row_bytes(j);
    bool heavy = block_bytes(j) > BLOCK_BYTES;
    bool pays = bytes * j->rows >= (heavy ? PAYS_LONG : PAYS_BYTES) || mf_native_rows_use == MF_ROWS_ALWAYS;
    mf_rows_step *s = members > 1 && (bytes <= ROW_MOST || heavy) && pays ? make_step(j, members, bytes) : NULL;
    if (!s)
        return;
    replace(j, s, j->steps->barriers[first]);
    if (mf_dump_wants("fuse"))
        print_joined(s);
}

void mf_rows_join(mf_build *b, mf_steps *steps)
{
    size_t count = (size_t)steps->count, vars = (size_t)steps->var_count;
    joining j = { .b = b, .steps = steps };
    if (mf_native_rows_use == MF_ROWS_NEVER || count < 2)
        return;
    j.maker = mf_build_alloc(b, vars, sizeof *j.maker);
    j.positions = mf_build_alloc(b, count, sizeof *j.positions);
    j.linked = mf_build_alloc(b, count, sizeof *j.linked);
    j.feeds_outsider = mf_build_alloc(b, count, sizeof *j.feeds_outsider);
    j.tried = mf_build_alloc(b, count, sizeof *j.tried);
    j.local = mf_build_alloc(b, vars, sizeof *j.local);
    for (int i = 0; i < steps->count && !b->error;) {
        const mf_native_step *s = steps->at[i];
        bool seed = !j.tried[i] && s->parts && own_rows(s) > 1;
        j.tried[i] = true;
        if (seed)
            join_around(&j, i);
        i = seed ? 0 : i + 1;
    }
}
