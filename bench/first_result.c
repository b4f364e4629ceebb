/* The smallest program that shows a result: x * 2 on 8 devices, printed. bench/ measures it from the start of the process. */
#include <manyfold.h>

#include <stdlib.h>

static mf_value twice(mf_value x) { return mf_mul(x, 2); }

int main(int argc, char **argv)
{
    int devices = argc > 1 ? atoi(argv[1]) : 8;
    mf_set_num_cpu_devices(devices);
    mf_print(mf_call(mf_pmap(twice), mf_arange(devices, MF_F32)));
    return mf_exit_status();
}
