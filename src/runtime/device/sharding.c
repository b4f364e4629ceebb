/* Where arrays are: which devices hold them, which part each device holds, and how to move them. Invariant: looking at shards copies
 * nothing, nor does placing arrays on devices that share memory, as the virtual CPU devices do. Only mf_copy, a move to another memory,
 * and mf_place of a row that all devices hold and that is not contiguous allocate memory. */
#include "array/array.h"
#include "base/memory/intern.h"
#include "lax/wrap.h"
#include "runtime/device.h"
#include "tree/tree.h"

#include <manyfold/array.h>

#include <string.h>

static mf_array *array_in(mf_value v)
{
    mf_object *o = mf_object_of(v);
    return mf_object_is(o, &mf_array_class) ? (mf_array *)o : NULL;
}

/* The error for v, which is no array. */
static mf_value no_array(const char *what, mf_value v)
{
    mf_object *o = mf_object_of(v);
    if (mf_object_is(o, &mf_error_class))
        return v;
    return mf_fail(MF_ERROR_ARGUMENT, "%s: %s is no array", what, mf_object_words(o));
}

/* ---- looking */

static _Atomic(mf_interner *) lists;

mf_device_list(mf_devices_of_array)(mf_value v)
{
    MF_ENTER((mf_device_list){ 0 });
    mf_array *a = array_in(v);
    mf_device_list none = { 0 };
    if (!a)
        return none;
    mf_error_object *error = a->future ? mf_array_wait(a) : NULL; /* the sharding is known only with the result */
    mf_error_ignore(error);
    int n = error ? 0 : a->sharding->device_count;
    size_t bytes = (size_t)n * sizeof(mf_device);
    mf_device *at = n ? mf_alloc(bytes) : NULL;
    for (int i = 0; at && i < n; i++)
        at[i] = mf_device_of(mf_array_client(a), a->sharding->devices[i]);
    const mf_device *kept = at ? mf_interner_get(mf_interner_static(&lists), at, bytes) : NULL;
    mf_free(at);
    return kept ? (mf_device_list){ n, kept } : none;
}

/* The view that device number `index` of a's sharding holds: one index of each mapped axis. */
static mf_value shard_of(const mf_array *a, int index)
{
    const mf_sharding *p = a->sharding;
    const mf_type *type = a->type;
    int64_t at[MF_RANK], strides[MF_RANK], offset = 0;
    int where[MF_RANK], kept = 0;
    for (int i = 0; i < type->rank; i++)
        at[i] = -1;
    mf_sharding_index(p, type, index, at);
    for (int i = 0; i < a->type->rank; i++) {
        where[i] = at[i] < 0 ? kept : -2 - (int)at[i];
        if (at[i] < 0) {
            strides[kept++] = a->strides[i];
            continue;
        }
        offset += at[i] * a->strides[i];
        type = type ? mf_type_without_axis(type, kept) : NULL;
    }
    return mf_view_value(a, type, offset, strides, where);
}

mf_value(mf_shard)(mf_value v, int index)
{
    MF_ENTER(MF_FORKED);
    mf_array *a = array_in(v);
    if (!a)
        return no_array("mf_shard", v);
    mf_error_object *error = mf_array_wait(a);
    if (error)
        return mf_value_new(error);
    if (index < 0 || index >= a->sharding->device_count)
        return mf_fail(MF_ERROR_DEVICE, "mf_shard: shard %d of an array on %d devices", index, a->sharding->device_count);
    return shard_of(a, index);
}

const void *(mf_unsafe_buffer_pointer)(mf_value v)
{
    MF_ENTER(NULL);
    mf_error_object *error = NULL;
    const mf_array *a = mf_readable(v, "mf_unsafe_buffer_pointer", &error);
    const void *data = a ? mf_array_host_data(a, &error) : NULL;
    (void)mf_error_remember(error);
    return data;
}

/* ---- moving */

/* Whether an array sharded by one needs no copy to be sharded by the other. */
static bool share_memory(const mf_sharding *a, const mf_sharding *b)
{
    if (a->client != b->client || !a->client->separate_memory)
        return a->client == b->client;
    return a->axis_count == b->axis_count && a->device_count == b->device_count && !memcmp(a->axes, b->axes, sizeof a->axes) &&
           !memcmp(a->devices, b->devices, (size_t)a->device_count * sizeof *a->devices);
}

/* v with another sharding; a copy if that needs other memory. */
static mf_value placed(mf_value v, const mf_sharding *p)
{
    mf_array *a = array_in(v);
    if (!a || !p)
        return a ? mf_value_new(mf_error_out_of_memory()) : v; /* a tracer is placed by the map that it is traced for */
    mf_error_object *error = mf_array_wait(a);
    if (error)
        return mf_value_new(error);
    mf_array *there = a->sharding == p               ? mf_retain(a)
                      : share_memory(a->sharding, p) ? mf_array_view(a, a->type, 0, a->strides, p)
                                                     : mf_array_copy_to(p, a, &error);
    return mf_value_new(there ? (void *)there : error ? (void *)error : (void *)mf_error_out_of_memory());
}

static mf_value put_leaf(void *device, mf_value leaf)
{
    mf_device d = *(const mf_device *)device;
    return placed(leaf, mf_sharding_single(mf_device_client(d), mf_device_id(d)));
}

static mf_value elsewhere(const char *what, mf_device d)
{
    return mf_fail(MF_ERROR_DEVICE, "%s: this is process %d, and device %d is one which process %d has", what, mf_process_index(),
                   mf_device_id(d), mf_device_process(d));
}

mf_value(mf_device_put)(mf_value v, mf_device device)
{
    MF_ENTER(MF_FORKED);
    if (mf_device_id(device) < 0)
        return mf_fail(MF_ERROR_DEVICE, "mf_device_put: this is no device");
    if (mf_device_process(device) != mf_process_index())
        return elsewhere("mf_device_put", device);
    return mf_tree_map(mf_closure(put_leaf, &device), v);
}

static const mf_sharding *rows_on(mf_device_list devices)
{
    int axis = 0, *ids = mf_alloc(((size_t)devices.count + 1) * sizeof *ids);
    for (int i = 0; ids && i < devices.count; i++)
        ids[i] = mf_device_id(devices.at[i]);
    const mf_sharding *p = ids ? mf_sharding_get(mf_device_client(devices.at[0]), 1, &axis, devices.count, ids) : NULL;
    mf_free(ids);
    return p;
}

/* The same array, with its broadcast row made contiguous. */
static mf_value packed_row(const mf_array *a, const mf_sharding *p)
{
    const mf_type *type = mf_type_without_axis(a->type, 0);
    int64_t strides[MF_RANK] = { 0 };
    mf_error_object *error = NULL;
    mf_array *scattered = type ? mf_array_view(a, type, 0, a->strides + 1, p) : NULL;
    mf_array *row = scattered ? mf_array_copy(scattered, &error) : NULL, *view = NULL;
    if (row) {
        memcpy(strides + 1, row->strides, (size_t)type->rank * sizeof *strides);
        view = mf_array_view(row, a->type, 0, strides, p);
    }
    mf_drop(scattered);
    mf_drop(row);
    return mf_value_new(view ? (void *)view : error ? (void *)error : (void *)mf_error_out_of_memory());
}

/* Whether the array is one row that all devices hold (stride 0) but that is not contiguous, such as broadcast zeros. A map computes
 * uniform values once for all devices only if their rows are contiguous. */
static bool is_scattered_row(const mf_array *a)
{
    int64_t expected[MF_RANK];
    mf_contiguous_strides(a->type, expected);
    bool scattered = false;
    for (int i = 1; i < a->type->rank; i++)
        scattered |= a->strides[i] != expected[i] && a->type->dims[i] > 1;
    return scattered && a->strides[0] == 0 && a->type->dims[0] > 1 && a->type->size;
}

static mf_value place_leaf(void *devices, mf_value leaf)
{
    mf_device_list list = *(const mf_device_list *)devices;
    const mf_type *t = mf_value_type(leaf);
    if (t && (t->rank == 0 || t->dims[0] != list.count))
        return mf_fail(MF_ERROR_SHAPE, "mf_place: %s has not one row for each of %d devices", mf_type_name(t), list.count);
    const mf_array *a = array_in(leaf);
    const mf_sharding *p = rows_on(list);
    mf_error_object *error = a ? mf_array_wait(a) : NULL;
    if (error)
        return mf_value_new(error);
    return a && p && mf_array_client(a) == p->client && !p->client->separate_memory && is_scattered_row(a) ? packed_row(a, p)
                                                                                                           : placed(leaf, p);
}

mf_value(mf_place)(mf_value tree, mf_device_list devices)
{
    MF_ENTER(MF_FORKED);
    if (devices.count < 1 || !devices.at)
        return mf_fail(MF_ERROR_DEVICE, "mf_place: the list of devices is empty");
    for (int i = 0; i < devices.count; i++) {
        if (mf_device_id(devices.at[i]) < 0)
            return mf_fail(MF_ERROR_DEVICE, "mf_place: devices[%d] is no device", i);
        if (mf_device_process(devices.at[i]) != mf_process_index())
            return elsewhere("mf_place", devices.at[i]);
        if (mf_device_client(devices.at[i]) != mf_device_client(devices.at[0]))
            return mf_fail(MF_ERROR_DEVICE, "mf_place: devices[0] is a device of %s, and devices[%d] one of %s",
                           mf_device_platform(devices.at[0]), i, mf_device_platform(devices.at[i]));
    }
    return mf_tree_map(mf_closure(place_leaf, &devices), tree);
}

static mf_value copy_leaf(mf_value leaf)
{
    mf_array *a = array_in(leaf);
    mf_error_object *error = NULL;
    mf_array *copy = a ? mf_array_copy(a, &error) : NULL;
    return !a ? leaf : mf_value_new(copy ? (void *)copy : (void *)error);
}

mf_value(mf_copy)(mf_value tree)
{
    MF_ENTER(MF_FORKED);
    return mf_tree_map(copy_leaf, tree);
}
