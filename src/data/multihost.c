/* Host values between the processes of a job, as in JAX's multihost_utils: maps over one device of each process. */
#include <manyfold.h>

#include <stdlib.h>

/* f over a row for each process, whose result is the same in all. */
static mf_value map_processes(mf_value (*f)(mf_value), mf_value rows)
{
    mf_device_list all = mf_devices();
    int processes = mf_process_count(), count = 0;
    mf_device *first = calloc((size_t)processes + 1, sizeof *first);
    for (int i = 0; first && i < all.count; i++)
        if (mf_device_local_ordinal(all.at[i]) == 0)
            first[count++] = all.at[i];
    mf_value result = !first ? mf_make_error(MF_ERROR_MEMORY, "out of memory")
                      : count < processes
                          ? mf_make_error(MF_ERROR_PEER, "%d of %d processes have devices", count, processes)
                          : mf_call(mf_pmap(f, .axis_name = "processes", .out_axes = MF_NONE, .devices = { count, first }), rows);
    free(first);
    return result;
}

static mf_value leading(mf_value x) { return mf_expand_dims(x, 0); }
static mf_value process_allgather(mf_value x) { return mf_all_gather(x, 0, "processes"); }
static mf_value broadcast_one_to_all(mf_value x) { return mf_pbroadcast(x, "processes", 0); }

/* The two leading axes in one. */
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
    mf_value rows = mf_tree_map(leading, tree);
    mf_value all = mf_process_count() == 1 ? rows : map_processes(process_allgather, rows);
    return o && o->tiled ? mf_tree_map(tiled, all) : all;
}

mf_value(mf_broadcast_one_to_all)(mf_value tree)
{
    MF_LAYER;
    return mf_process_count() == 1 ? tree : map_processes(broadcast_one_to_all, mf_tree_map(leading, tree));
}

mf_status mf_sync_global_devices(const char *name)
{
    MF_LAYER;
    uint32_t hash = 2166136261u;
    for (const char *c = name ? name : ""; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    mf_value own = mf_array(MF_U32, MF_SHAPE(1), hash), all = mf_process_allgather(own);
    mf_value same = mf_all(mf_equal(all, own));
    mf_status status = mf_block_until_ready(same);
    return status != MF_OK || mf_item_bool(same)
               ? status
               : mf_block_until_ready(mf_make_error(MF_ERROR_PEER, "sync_global_devices name mismatch ('%s')", name ? name : ""));
}
