/* manyfold/device.h - devices and processes, as jax.devices() and its kin.
 *
 * Handles and lists of devices live as long as the process; no values, no shapes. Devices are
 * counted from 0, process by process. Any thread. Errors: MF_ERROR_DEVICE; lists are empty and
 * numbers -1 where a comment says so. */
#ifndef MANYFOLD_DEVICE_H
#define MANYFOLD_DEVICE_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/base.h>

MF_BEGIN_

/* Virtual CPU devices: any number on any number of cores. Before the first use of a device; later
 * it is MF_ERROR_DEVICE.
 * Not called: the environment's MF_NUM_CPU_DEVICES, else the usable cores. */
mf_status mf_set_num_cpu_devices(int count);
int mf_device_count(void);
int mf_local_device_count(void);
int mf_process_index(void);
int mf_process_count(void);
/* Of the default backend, and of any: a platform, whose devices stand beside the others'. An op,
 * call or map runs on one platform: arrays that were put on devices of two, or computed from
 * such, are MF_ERROR_DEVICE; others move to where those are. */
mf_device_list mf_devices(void);
mf_device_list mf_local_devices(void);
mf_device_list mf_devices_of(const char *backend);
/* A vendor's PJRT plugin, a shared object, as the backend and platform of this name: its devices,
 * which stay as long as the process. options: "memory_fraction=0.5,visible_devices=[0,1]", what the
 * plugin knows: numbers, true, false, lists of whole numbers and other words; NULL for none. A
 * number of devices ("cpu_device_count=8") is 1 to 4096. A name that is not registered is looked
 * for where it is first used: MF_PJRT_PLUGIN=path[,name] ("pjrt" where it says none),
 * PJRT_NAMES_AND_LIBRARY_PATHS=name:path,..., and jax_plugins/FOLDER/xla_<name>_plugin.so where pip
 * puts them; its options are MF_PJRT_OPTIONS. MF_ERROR_DEVICE: it cannot be opened, or is older
 * than the C API's version 0.81; in the plugin's words */
mf_status mf_register_plugin(const char *name, const char *path, const char *options);
/* Among all devices of its platform, in all processes; -1 when d is no device */
int mf_device_id(mf_device d);

int mf_device_local_ordinal(mf_device d);    /* among those of its process; -1 likewise */
int mf_device_process(mf_device d);          /* whose it is; -1 likewise */
const char *mf_device_platform(mf_device d); /* "cpu"; NULL when d is no device */
/* The memory of one device as its plugin counts it, in bytes; -1 for what it does not say.
 * MF_ERROR_DEVICE where it counts nothing, in its words, and of the CPU, whose devices share the
 * memory of mf_memory_stats(); then all of *out are -1. Any thread */
typedef struct mf_device_memory_stats_t {
    int64_t bytes_in_use, peak_bytes_in_use, bytes_limit, largest_alloc_size, num_allocs;
} mf_device_memory_stats_t;
mf_status mf_device_memory_stats(mf_device d, mf_device_memory_stats_t *out);
/* The native backend takes the best instruction set of the machine; MF_CPU_ISA in the
 * environment caps it, for this library, LLVM and oneDNN: amx, avx512_bf16, avx512, avx2 or
 * generic (below the native backend's floor: the reference serves). Results have the same bits
 * under all caps, except products and convolutions that oneDNN computes. */
/* "native" or "reference"; MF_ERROR_ARGUMENT lists the present ones. Also MF_BACKEND. Or a
 * platform: where what follows is made and runs, unless its arrays say otherwise; also
 * MF_DEFAULT_BACKEND, which is read when somebody first asks */
mf_status mf_set_default_backend(const char *name);
const char *mf_default_backend(void);
/* Negative counts from the end; MF_END */
mf_device_list mf_device_slice(mf_device_list list, int64_t start, int64_t stop);

MF_END_

#include <manyfold/lift/device.h>

#endif
