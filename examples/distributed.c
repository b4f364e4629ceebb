/* The multi-process example of jax.pmap's reference page. Started by
 *     MF_NUM_CPU_DEVICES=4 mpirun -n 2 distributed
 * each process passes the rows for its own four devices, psum runs over all eight, and each process prints its own rows of the result. */
#include <manyfold.h>

#include <stdio.h>

static mf_value add_total(mf_value x) { return mf_add(x, mf_psum(x, "i")); }

int main(void)
{
    int n = mf_local_device_count();
    mf_value data = mf_add(mf_arange(n), mf_process_index() * n);
    mf_value out = mf_call(mf_pmap(add_total, "i"), data);
    printf("%s # on process %d of %d\n", mf_str(out), mf_process_index(), mf_process_count());
    return mf_is_error(out) ? 1 : mf_exit_status();
}
