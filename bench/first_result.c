/* The smallest program that shows a result: prints x * 2, computed on 8 devices, and then the process's peak memory as the kernel reports
 * it. compare.py measures the time from the start of the process to the first line. */
#include <manyfold.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mf_value twice(mf_value x) { return mf_mul(x, 2); }

int main(int argc, char **argv)
{
    int devices = argc > 1 ? atoi(argv[1]) : 8;
    mf_set_num_cpu_devices(devices);
    mf_print(mf_call(mf_pmap(twice), mf_arange(devices, MF_F32)));
    fflush(stdout);
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "VmHWM:", 6) == 0)
            fputs(line, stdout);
    if (status)
        fclose(status);
    return mf_exit_status();
}
