/* Transfers between host and device memory: 64 MiB from the host that a tiny program reads, and 64 MiB of a program's result to the host.
 * If the default device uses the host's memory, they are copies. */
#include "workload.h"

#include <stdlib.h>

static mf_value next(mf_value x) { return mf_add(x, 1); }
static mf_value first(mf_value x) { return mf_get(x, 0); }

static float *numbers; /* host memory that belongs to no array */

/* size: MiB */
static void prepare_transfer(const workload *w)
{
    int64_t count = w->size << 18;
    free(numbers);
    numbers = malloc((size_t)count * sizeof *numbers);
    if (!numbers)
        abort();
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (float)(i & 1023);
    mf_assign(&held[0], mf_device_put(mf_from_host(MF_F32, MF_SHAPE(count), numbers), mf_devices().at[0]));
}

static void call_to_device(void)
{
    mf_value there = mf_device_put(mf_from_host(MF_F32, MF_SHAPE(mf_dim(held[0], 0)), numbers), mf_devices().at[0]);
    finish(mf_call(mf_jit(first), there));
}

static void call_to_host(void)
{
    mf_value there = mf_call(mf_jit(next), held[0]);
    if (mf_to_host(there, MF_F32, numbers, mf_dim(there, 0)) != MF_OK)
        finish(there);
}

static const workload rows[] = {
    { .name = "to_device_64MiB", prepare_transfer, call_to_device, 2, .size = 64 },
    { .name = "to_host_64MiB", prepare_transfer, call_to_host, 2, .size = 64 },
};

const workload_list transfer_workloads = { rows, sizeof rows / sizeof *rows };
