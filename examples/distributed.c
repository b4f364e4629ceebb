/* The example of several processes on jax.pmap's reference page. Started by
 *     MF_NUM_CPU_DEVICES=4 mpirun -n 2 distributed
 * each process maps over the rows of its own four devices, and psum is over all eight. Each prints what it gets. */
#include <manyfold.h>

#include <stdio.h>

static mf_value add_total(mf_value x) { return mf_add(x, mf_psum(x, "i")); }

int main(void)
{
    int n = mf_local_device_count();
    mf_value data = mf_add(mf_arange(n, MF_I32), mf_process_index() * n);
    mf_value out = mf_call(mf_pmap(add_total, "i"), data);
    printf("%s # on process %d of %d\n", mf_str(out), mf_process_index(), mf_process_count());
    return mf_is_error(out) ? 1 : mf_exit_status();
}
