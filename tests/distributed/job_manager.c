/* A job's checkpoints by step, written while its processes continue with maps over all of them; loaded again, and removed.
 * Jobs: 4+4 2+1+3 */
#include <manyfold.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 8, KEPT = 2 };

static mf_value work(mf_value x) { return mf_psum(mf_sin(x), "i"); }
static mf_value number(mf_value x) { return mf_add(x, mf_axis_index("i")); }

static int complain(const char *what)
{
    fprintf(stderr, "job_manager: process %d: %s\n", mf_process_index(), what);
    return 1;
}

static int save(const char *folder, mf_value rows)
{
    mf_checkpoint_manager *m = mf_checkpoint_manager_open(folder, .max_to_keep = KEPT);
    if (mf_checkpoint_manager_latest_step(m) != -1)
        return complain("a step is there already");
    for (int i = 1; i <= STEPS; i++) {
        MF_SCOPE;
        mf_value x = mf_call(mf_pmap(work, "i"), mf_ones(MF_SHAPE(mf_local_device_count(), 1000), MF_F32));
        if (mf_checkpoint_manager_save(m, i, mf_dict("x", mf_get(x, 0), "i", i), .rows = mf_add(rows, i)) != MF_OK)
            return complain("a step cannot be saved");
    }
    return mf_checkpoint_manager_close(m) != MF_OK ? complain("the last step cannot be saved") : 0;
}

static int load(const char *folder, mf_value rows)
{
    mf_checkpoint_manager *m = mf_checkpoint_manager_open(folder);
    mf_value like = mf_dict("x", mf_struct(MF_SHAPE(1000), MF_F32), "i", mf_i(0));
    for (int i = STEPS; i > STEPS - KEPT; i--) {
        mf_value found = mf_checkpoint_manager_restore(m, i, like, .rows = rows);
        if (mf_is_error(found))
            return complain(mf_error(found));
        if (mf_item_i64(mf_get(found, 0, "i")) != i || !mf_item_bool(mf_array_equal(mf_get(found, 1), mf_add(rows, i))))
            return complain("another checkpoint than was saved");
    }
    if (mf_checkpoint_manager_latest_step(m) != STEPS)
        return complain("another step is the newest");
    return mf_checkpoint_manager_close(m) != MF_OK ? complain("closing fails") : 0;
}

int main(void)
{
    char folder[64], command[80];
    long long name = mf_item_i64(mf_broadcast_one_to_all(mf_scalar((double)getpid(), MF_I64)));
    snprintf(folder, sizeof folder, "/tmp/mf_job_manager_%lld", name);
    mf_value rows = mf_call(mf_pmap(number, "i"), mf_zeros(MF_SHAPE(mf_local_device_count(), 3), MF_F32));
    int status = save(folder, rows);
    status = status ? status : load(folder, rows);
    mf_status met = mf_sync_global_devices("read");
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    if (mf_process_index() == 0 && system(command) != 0)
        status = complain("the folder cannot be removed");
    return status ? status : met ? 2 : mf_exit_status();
}
