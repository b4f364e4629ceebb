/* JAX's multihost_utils: exchange of host values between the processes of a job, by a pmap over one CPU device in each process, whatever
 * the default backend is. */
#include <manyfold.h>

#include <stdlib.h>

static mf_value row_of(void *device, mf_value x) { return mf_expand_dims(mf_device_put(x, *(const mf_device *)device), 0); }

/* A copy that is not committed to a device, so that it can be used on any backend. */
static mf_value on_host(mf_value x)
{
    if (mf_size(x) < 0 || mf_dtype_of(x) == MF_KEY)
        return x;
    size_t count = (size_t)mf_size(x);
    void *numbers = malloc((count + 1) * 16); /* complex128 is the widest */
    mf_value copy = !numbers                                                 ? mf_make_error(MF_ERROR_MEMORY, "out of memory")
                    : mf_to_host(x, mf_dtype_of(x), numbers, count) == MF_OK ? mf_from_host(mf_dtype_of(x), mf_shape_of(x), numbers)
                                                                             : x;
    free(numbers);
    return copy;
}

/* pmap of f with one row for each process; the result is the same in all processes. */
static mf_value map_processes(mf_value (*f)(mf_value), mf_value tree)
{
    mf_device_list all = mf_devices_of("cpu");
    int processes = mf_process_count(), count = 0;
    mf_device own = { 0 };
    mf_device *first = calloc((size_t)processes + 1, sizeof *first);
    for (int i = 0; first && i < all.count; i++)
        if (mf_device_local_ordinal(all.at[i]) == 0)
            own = mf_device_process(first[count++] = all.at[i]) == mf_process_index() ? all.at[i] : own;
    mf_value result = !first              ? mf_make_error(MF_ERROR_MEMORY, "out of memory")
                      : count < processes ? mf_make_error(MF_ERROR_PEER, "%d of %d processes have devices", count, processes)
                                          : mf_call(mf_pmap(f, .axis_name = "processes", .out_axes = MF_NONE, .devices = { count, first }),
                                                    mf_tree_map(mf_closure(row_of, &own), tree));
    free(first);
    return mf_tree_map(on_host, result);
}

static mf_value leading(mf_value x) { return mf_expand_dims(x, 0); }
static mf_value process_allgather(mf_value x) { return mf_all_gather(x, 0, "processes"); }
static mf_value broadcast_one_to_all(mf_value x) { return mf_pbroadcast(x, "processes", 0); }

/* Merges the two leading axes. */
static mf_value tiled(mf_value x)
{
    mf_shape s = mf_shape_of(x);
    if (s.rank < 2)
        return s.rank < 0 ? x : mf_make_error(MF_ERROR_SHAPE, "mf_process_allgather: a scalar cannot be tiled");
    s.dims[0] *= s.dims[1];
    for (int i = 1; i + 1 < s.rank; i++)
        s.dims[i] = s.dims[i + 1];
    s.rank--;
    return mf_reshape(x, s);
}

mf_value mf_process_allgather_opt(mf_value tree, const mf_process_allgather_options *o)
{
    MF_LAYER;
    mf_value all = mf_process_count() == 1 ? mf_tree_map(leading, tree) : map_processes(process_allgather, tree);
    return o && o->tiled ? mf_tree_map(tiled, all) : all;
}

mf_value(mf_broadcast_one_to_all)(mf_value tree)
{
    MF_LAYER;
    return mf_process_count() == 1 ? tree : map_processes(broadcast_one_to_all, tree);
}

mf_status mf_sync_global_devices(const char *name)
{
    MF_LAYER;
    uint32_t hash = 2166136261u;
    for (const char *c = name ? name : ""; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    size_t count = (size_t)mf_process_count();
    uint32_t *all = malloc(count * sizeof *all);
    mf_status status = all ? mf_to_host(mf_process_allgather(mf_array(MF_U32, MF_SHAPE(1), hash), .tiled = true), MF_U32, all, count)
                           : mf_block_until_ready(mf_make_error(MF_ERROR_MEMORY, "out of memory"));
    bool same = true;
    for (size_t i = 0; i < count && status == MF_OK; i++)
        same = same && all[i] == hash;
    free(all);
    return same ? status : mf_block_until_ready(mf_make_error(MF_ERROR_PEER, "sync_global_devices name mismatch ('%s')", name ? name : ""));
}
