/* job_checkpoint save|load FOLDER: writes what eight devices hold after a map as a checkpoint, or reads it and compares.
 * job_checkpoint again FOLDER PROCESS MILLISECONDS: writes it again and again until that process is killed. See test_checkpoints.sh. */
#include <manyfold.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEVICES = 8 };

static mf_value step(mf_value x, mf_value w)
{
    mf_value y = mf_add(mf_mul(x, w), mf_axis_index("i"));
    return mf_dict("x", y, "momentum", mf_astype(mf_sin(y), MF_BF16), "loss", mf_psum(mf_sum(y), "i"));
}

/* This process's rows of a map's result over all devices. */
static mf_value rows(void)
{
    double numbers[DEVICES * 6];
    int first = 0, count = mf_local_device_count();
    while (mf_device_process(mf_devices().at[first]) != mf_process_index())
        first++;
    for (int i = 0; i < count * 6; i++)
        numbers[i] = 0.3 * (first * 6 + i);
    return mf_call(mf_pmap(step, "i", .in_axes = mf_axes(0, MF_NONE)), mf_array_n(MF_F32, MF_SHAPE(count, 6), numbers, count * 6), 1.7);
}

static void *kill_after(void *milliseconds)
{
    usleep(1000 * (useconds_t)atoi(milliseconds));
    kill(getpid(), SIGKILL);
    return NULL;
}

static int save_again(char **argv, mf_value whole)
{
    pthread_t killer;
    if (mf_save_checkpoint(argv[0], whole, rows()) != MF_OK ||
        (mf_process_index() == atoi(argv[1]) && pthread_create(&killer, NULL, kill_after, argv[2])))
        return 2;
    for (;;) {
        MF_SCOPE;
        if (mf_save_checkpoint(argv[0], whole, rows()) != MF_OK)
            return 3;
    }
}

static mf_value differs(mf_value a, mf_value b) { return mf_any(mf_not_equal(a, b)); }

int main(int argc, char **argv)
{
    if (argc < 3 || mf_device_count() != DEVICES)
        return 2;
    mf_value whole = mf_dict("step", mf_i(17), "w", mf_full(MF_SHAPE(1000), mf_f(2.5)));
    if (strcmp(argv[1], "save") == 0)
        return mf_save_checkpoint(argv[2], whole, rows()) != MF_OK;
    if (strcmp(argv[1], "again") == 0 && argc == 5)
        return save_again(argv + 2, whole);
    mf_value made = mf_load_checkpoint(argv[2], whole, rows());
    mf_value leaves = mf_is_error(made) ? made : mf_tree_leaves(mf_tree_map(differs, made, mf_tuple(whole, rows())));
    bool same = !mf_is_error(leaves);
    for (int i = 0; same && i < mf_len(leaves); i++)
        same = !mf_item_bool(mf_get(leaves, i));
    printf("process %d: %s\n", mf_process_index(), mf_is_error(made) ? mf_error(made) : same ? "the same" : "something else");
    fflush(stdout);
    (void)mf_sync_global_devices("told"); /* so that the launcher does not end the others before they are done */
    return !same;
}
