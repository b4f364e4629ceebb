/* An axis over several processes, by jax.pmap's rule: mapped arguments and results have a row for each index that is in this process; all
 * else is global. The devices, in their order along the axis, determine which process an index belongs to: each index takes as many
 * consecutive devices as the maps inside need. Invariant: the part of a process is a grid. All its indices of an outer axis have the same
 * indices of the inner ones, since it runs one program for all of them. */
#include "transform/functions/mapped/mapped_call.h"

#include "runtime/comm.h"

#include <string.h>

/* By device, whether this process has it. NULL when it has all, or with *error. */
static const mf_intlist *flags_of(const mf_comm *c, const mf_intlist *devices, mf_error_object **error)
{
    int64_t count = devices ? devices->count : c->first_device[c->size], here = 0, *flags = mf_alloc((size_t)(count + 1) * sizeof *flags);
    for (int64_t k = 0; flags && k < count; k++)
        here += flags[k] = mf_comm_owner(c, devices ? (int)devices->at[k] : (int)k) == c->rank;
    const mf_intlist *list = flags && here < count ? mf_ints_intern(flags, (int)count) : NULL;
    if (!flags || (here < count && !list))
        *error = mf_error_out_of_memory();
    mf_free(flags);
    return list;
}

const mf_intlist *mf_devices_here(const mf_axis_env *env, const mf_intlist *devices, mf_error_object **error)
{
    const mf_comm *c = mf_comm_current();
    while (env && !env->is_pmap)
        env = env->outer;
    if (env)
        return env->inside;
    return c && c->size > 1 ? flags_of(c, devices, error) : NULL;
}

static int64_t count_flags(const int64_t *at, int64_t count)
{
    int64_t n = 0;
    for (int64_t k = 0; k < count; k++)
        n += at[k];
    return n;
}

static bool divides(int64_t size, int64_t count) { return size > 0 && count % size == 0; }

/* How many indices of an axis of this size are in this process. */
static int64_t rows_of(const mf_intlist *here, int64_t size)
{
    int64_t span = here->count / size, n = 0;
    for (int64_t k = 0; k < size; k++)
        n += count_flags(here->at + k * span, span) > 0;
    return n;
}

/* The greatest axis size for which this process has that many rows, so that a map inside takes no more devices than it must. -1: none. */
static int64_t size_of_rows(const mf_intlist *here, int64_t rows)
{
    for (int64_t size = here->count; size > 0; size--)
        if (divides(size, here->count) && rows_of(here, size) == rows)
            return size;
    return -1;
}

mf_error_object *mf_global_axis_wrong_rows(const mf_intlist *here, int64_t size, int64_t devices)
{
    const mf_comm *c = mf_comm_current();
    return mf_error_new(MF_ERROR_SHAPE,
                        "Leading axis size of input to pmapped function must equal the number of local devices passed to pmap. "
                        "Got axis_size=%lld, num_local_devices=%lld (process %d of %d; the map has %d devices in all).",
                        (long long)size, (long long)devices, c ? c->rank : 0, c ? c->size : 1, here->count);
}

/* The flags of the devices of the first index that is in this process. */
static const int64_t *first_inside(const mf_intlist *here, int64_t span)
{
    const int64_t *at = here->at;
    while (!count_flags(at, span))
        at += span;
    return at;
}

/* Finds the rows of this process, and which devices of each it has. */
static mf_error_object *find_grid(const mf_intlist *here, mf_mapped_call *m)
{
    int64_t span = here->count / m->axis_size, *rows = mf_alloc((size_t)m->axis_size * sizeof *rows);
    const int64_t *inside = first_inside(here, span);
    int count = 0, unlike = -1;
    for (int64_t k = 0; rows && k < m->axis_size; k++) {
        const int64_t *at = here->at + k * span;
        if (!count_flags(at, span))
            continue;
        rows[count++] = k;
        unlike = memcmp(at, inside, (size_t)span * sizeof *at) != 0 && unlike < 0 ? (int)k : unlike;
    }
    int64_t first = rows ? rows[0] : 0;
    m->size = count;
    m->local = rows ? mf_ints_intern(rows, count) : NULL;
    bool all = count_flags(inside, span) == span;
    m->inside = all ? NULL : mf_ints_intern(inside, (int)span);
    mf_free(rows);
    if (!m->local || (!all && !m->inside))
        return mf_error_out_of_memory();
    if (unlike < 0)
        return NULL;
    return mf_error_new(
        MF_ERROR_DEVICE,
        "pmap: this process has other devices of index %d of the outer axis than of index %lld; what a process has of nested "
        "maps must be a grid, which an order of devices=, or another axis_size, makes it",
        unlike, (long long)first);
}

mf_error_object *mf_global_axis_find(const mf_intlist *here, int64_t axis_size, mf_mapped_call *m)
{
    int64_t devices = count_flags(here->at, here->count);
    if (!devices)
        return mf_error_new(MF_ERROR_DEVICE, "pmap: this process has none of the map's %d devices, so it takes no part", here->count);
    int64_t rows = m->size, received = rows < 0 ? here->count : size_of_rows(here, rows), size = axis_size ? axis_size : received;
    if (size <= 0)
        return mf_global_axis_wrong_rows(here, rows, devices);
    m->axis_size = size;
    if (!divides(size, here->count))
        return mf_error_new(MF_ERROR_SHAPE, "pmap: axis_size=%lld, but the map has %d devices, in all processes", (long long)axis_size,
                            here->count);
    mf_error_object *error = find_grid(here, m);
    if (error || rows < 0 || rows == m->size)
        return error;
    if (received < 0)
        return mf_global_axis_wrong_rows(here, rows, m->size);
    return mf_error_new(MF_ERROR_SHAPE,
                        "pmap: specified axis_size %lld doesn't match received axis_size %lld: process %d has %lld rows of its own",
                        (long long)axis_size, (long long)received, mf_comm_current()->rank, (long long)rows);
}
