/* Arguments for pmap: replicas of a tree, or its shards, one for each device. Invariant: virtual CPU devices share memory, so replicas are
 * broadcast views of one array, and shards are rows of one array; only mf_device_put_sharded copies, because its parts are separate
 * arrays. */
#include <manyfold.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mf_shape with_leading(mf_shape from, int64_t size)
{
    mf_shape to = { .rank = from.rank + 1, .dims = { size } };
    for (int i = 0; i < from.rank; i++)
        to.dims[i + 1] = from.dims[i];
    return to;
}

/* The host can read every array where it is, so this only waits. */
mf_value(mf_device_get)(mf_value v)
{
    MF_LAYER;
    (void)mf_block_until_ready(v);
    return v;
}

/* ---- replicas */

static mf_value replicate_leaf(void *count, mf_value leaf)
{
    mf_shape shape = mf_shape_of(leaf);
    if (shape.rank == MF_MAX_RANK)
        return mf_make_error(MF_ERROR_SHAPE, "mf_replicate: an array of %d dimensions leaves no room for the devices'", MF_MAX_RANK);
    return mf_broadcast_to(leaf, with_leading(shape, *(const int *)count));
}

mf_value(mf_replicate)(mf_value tree, mf_device_list devices)
{
    MF_LAYER;
    if (devices.count < 1)
        return mf_make_error(MF_ERROR_DEVICE, "mf_replicate: the list of devices is empty");
    (void)mf_block_until_ready(tree); /* mf_broadcast_to gives a view of an array that is ready, but copies one that is being computed */
    return mf_place(mf_tree_map(mf_closure(replicate_leaf, &devices.count), tree), devices);
}

static mf_value first_copy(mf_value leaf)
{
    if (mf_ndim(leaf) == 0)
        return mf_make_error(MF_ERROR_SHAPE, "mf_unreplicate: a scalar has no axis of devices");
    return mf_get(leaf, 0);
}

mf_value(mf_unreplicate)(mf_value tree)
{
    MF_LAYER;
    return mf_tree_map(first_copy, tree);
}

/* ---- shards */

/* What each leaf of a batch must have: a batch axis with `rows` rows (-1: any number), a multiple of `devices`. Paths are made only for the
 * message about a leaf that has none. */
typedef struct batch_axis {
    int64_t devices, rows, padded; /* padded: the number of rows after padding */
    bool *wrong;                   /* set when a leaf does not fit */
} batch_axis;

static bool fits(const batch_axis *b, mf_shape s)
{
    bool fit = s.rank > 0 && s.rank < MF_MAX_RANK && (b->rows < 0 || s.dims[0] == b->rows) && s.dims[0] % b->devices == 0;
    *b->wrong |= !fit;
    return fit;
}

/* A leaf's name for error messages: "leaf ['image']", or `whole` if the batch is one array. */
static const char *leaf_name(mf_value path, const char *whole, char *buffer, size_t size)
{
    const char *at = mf_static_data(path, NULL);
    if (!at || !*at)
        return whole;
    snprintf(buffer, size, "leaf %s", at);
    return buffer;
}

static mf_value uneven(int64_t n, int64_t devices, mf_value path)
{
    char buffer[200], nearest[64];
    int64_t below = n / devices * devices, above = below + devices;
    const char *name = leaf_name(path, "", buffer, sizeof buffer);
    if (below == 0)
        snprintf(nearest, sizeof nearest, "size that is: %lld", (long long)above);
    else
        snprintf(nearest, sizeof nearest, "sizes that are: %lld and %lld", (long long)below, (long long)above);
    return mf_make_error(MF_ERROR_SHAPE, "Batch size %lld must be divisible by num_devices %lld; the nearest %s%s%s", (long long)n,
                         (long long)devices, nearest, *name ? "; " : "", name);
}

/* The error of a leaf that does not fit. */
static mf_value misfit(void *context, mf_value path, mf_value leaf)
{
    const batch_axis *b = context;
    mf_shape s = mf_shape_of(leaf);
    char buffer[200];
    const char *name = leaf_name(path, "the batch", buffer, sizeof buffer);
    if (s.rank < 0 || fits(b, s))
        return leaf;
    if (s.rank == 0)
        return mf_make_error(MF_ERROR_SHAPE, "mf_shard_batch: %s is a scalar, which has no batch axis", name);
    if (s.rank == MF_MAX_RANK)
        return mf_make_error(MF_ERROR_SHAPE, "mf_shard_batch: an array of %d dimensions leaves no room for the devices'", MF_MAX_RANK);
    if (b->rows >= 0 && s.dims[0] != b->rows)
        return mf_make_error(MF_ERROR_SHAPE, "mf_shard_batch: %s has %lld rows, the first leaf has %lld", name, (long long)s.dims[0],
                             (long long)b->rows);
    return uneven(s.dims[0], b->devices, path);
}

static mf_value each_leaf(mf_value tree, mf_value (*f)(void *, mf_value), const batch_axis *b)
{
    mf_value made = mf_tree_map(mf_closure(f, b), tree);
    return *b->wrong ? mf_tree_map_with_path(mf_closure(misfit, b), tree) : made;
}

static mf_value shard_leaf(void *context, mf_value leaf)
{
    const batch_axis *b = context;
    mf_shape from = mf_shape_of(leaf);
    if (from.rank < 0 || !fits(b, from))
        return leaf;
    mf_shape to = with_leading(from, b->devices);
    to.dims[1] = from.dims[0] / b->devices;
    return mf_reshape(leaf, to);
}

/* ---- padding */

static mf_value padded_leaf(void *context, mf_value leaf)
{
    const batch_axis *b = context;
    mf_shape rest = mf_shape_of(leaf);
    if (rest.rank < 0 || !fits(b, rest))
        return leaf;
    rest.dims[0] = b->padded - b->rows;
    return rest.dims[0] ? mf_concatenate(mf_list(leaf, mf_zeros(rest, mf_dtype_of(leaf))), 0) : leaf;
}

/* The number of rows of the batch's first leaf; -1 if it has none. */
static int64_t rows_of(mf_value batch)
{
    mf_value leaves = mf_tree_leaves(batch), first = mf_len(leaves) > 0 ? mf_get(leaves, 0) : mf_none();
    return mf_ndim(first) > 0 ? mf_dim(first, 0) : -1;
}

/* The batch padded with zeros to a multiple of `devices` rows; unless it has a "mask", it gets one: 1 for real rows, 0 for padding. */
static mf_value filled(mf_value batch, int devices)
{
    int64_t rows = mf_kind_of(batch) == MF_KIND_DICT ? rows_of(batch) : -1;
    if (mf_kind_of(batch) == MF_KIND_ERROR)
        return batch;
    if (rows < 0)
        return mf_make_error(MF_ERROR_TREE, "mf_shard_batch: .pad_last takes a dict of arrays, which gets a \"mask\"");
    bool masked = false, wrong = false;
    batch_axis b = { 1, rows, (rows + devices - 1) / devices * devices, &wrong };
    for (int i = 0; i < mf_len(batch); i++)
        masked |= strcmp(mf_key(batch, i), "mask") == 0;
    mf_value whole = masked ? batch : mf_set(batch, mf_ones(MF_SHAPE(rows), MF_F32), "mask");
    return each_leaf(whole, padded_leaf, &b);
}

/* Places shards on the default backend's devices, unless the array is on another platform. Called only for devices with their own memory:
 * CPU shards are rows of one array and stay uncommitted, so a map may run them on any of its devices. */
static mf_value upload(void *devices, mf_value parts)
{
    const mf_device_list *to = devices;
    mf_device_list from = mf_devices_of_array(parts);
    if (from.count < 1 || strcmp(mf_device_platform(from.at[0]), mf_device_platform(to->at[0])) != 0)
        return parts;
    return mf_place(parts, *to);
}

mf_value mf_shard_batch_opt(mf_value tree, int device_count, const mf_shard_batch_options *o)
{
    MF_LAYER;
    if (device_count < 1)
        return mf_make_error(MF_ERROR_ARGUMENT, "mf_shard_batch: %d devices", device_count);
    if (o && o->pad_last)
        tree = filled(tree, device_count);
    bool wrong = false;
    mf_value parts = each_leaf(tree, shard_leaf, &(batch_axis){ .devices = device_count, .rows = -1, .wrong = &wrong });
    mf_device_list devices = mf_local_devices();
    if (device_count > devices.count || strcmp(mf_device_platform(devices.at[0]), "cpu") == 0)
        return parts;
    devices = mf_device_slice(devices, 0, device_count);
    return mf_tree_map(mf_closure(upload, &devices), parts);
}

mf_value(mf_shard_batch)(mf_value tree, int device_count)
{
    MF_LAYER;
    return mf_shard_batch_opt(tree, device_count, NULL);
}

/* Leaf number `leaf` of all parts, stacked. */
static mf_value stacked_leaf(mf_value parts, int leaf)
{
    mf_value row, *leaves = malloc((size_t)mf_len(parts) * sizeof *leaves);
    for (int i = 0; leaves && i < mf_len(parts); i++) {
        mf_value of_part = mf_tree_leaves(mf_get(parts, i));
        leaves[i] = mf_is_error(of_part)     ? of_part
                    : leaf < mf_len(of_part) ? mf_get(of_part, leaf)
                                             : mf_make_error(MF_ERROR_TREE, "mf_device_put_sharded: part %d has fewer leaves", i);
    }
    row = leaves ? mf_list_n(leaves, mf_len(parts)) : mf_make_error(MF_ERROR_MEMORY, "mf_device_put_sharded: out of memory");
    free(leaves);
    return mf_stack(row, 0);
}

mf_value(mf_device_put_sharded)(mf_value parts, mf_device_list devices)
{
    MF_LAYER;
    if (mf_is_error(parts))
        return parts;
    if (mf_len(parts) != devices.count || devices.count < 1)
        return mf_make_error(MF_ERROR_DEVICE, "mf_device_put_sharded: %d parts for %d devices", mf_len(parts), devices.count);
    mf_value first = mf_get(parts, 0), found = mf_tree_leaves(first);
    if (mf_is_error(found))
        return found;
    int count = mf_len(found);
    mf_value *leaves = malloc(((size_t)count + 1) * sizeof *leaves);
    for (int i = 0; leaves && i < count; i++)
        leaves[i] = stacked_leaf(parts, i);
    mf_value all = leaves ? mf_list_n(leaves, count) : mf_make_error(MF_ERROR_MEMORY, "mf_device_put_sharded: out of memory");
    free(leaves);
    return mf_place(mf_tree_unflatten(first, all), devices);
}
