/* manyfold/device.h - devices, backends and plugins; the processes of a job: jax.devices() and its
 * relatives.
 *
 * Handles and lists of devices live as long as the process; no values and no shapes are involved.
 * Devices are numbered from 0, process by process. Any thread. Errors: MF_ERROR_DEVICE; on an error
 * lists are empty and numbers are -1. */
#ifndef MANYFOLD_DEVICE_H
#define MANYFOLD_DEVICE_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/base.h>

MF_BEGIN_

/* ---- devices and processes
 * Sets the number of virtual CPU devices of this process, 1 to 65536 (else MF_ERROR_ARGUMENT),
 * whatever the number of cores. Call it before the first use of a device; later it is
 * MF_ERROR_DEVICE. The default is MF_NUM_CPU_DEVICES of the environment, or else the number of
 * usable cores. */
mf_status mf_set_num_cpu_devices(int count);
int mf_device_count(void);       /* of the default backend, in all processes */
int mf_local_device_count(void); /* in this process */
int mf_process_index(void);      /* of this process, from 0 */
int mf_process_count(void);
/* The devices of the default backend: all, and those of this process; and all of any backend or
 * platform, by name (NULL: the default backend). Devices of several platforms exist side by side,
 * but an op, call or map runs on one: arrays committed to devices of different platforms, or
 * computed from such arrays, are MF_ERROR_DEVICE in one call; uncommitted arrays move to where the
 * others are. */
mf_device_list mf_devices(void);
mf_device_list mf_local_devices(void);
mf_device_list mf_devices_of(const char *backend);
/* Opens a vendor's PJRT plugin, the shared object at `path`, as the backend and platform `name`;
 * its devices exist until the process ends. options, or NULL, are the plugin's own:
 * "memory_fraction=0.5,visible_devices=[0,1]"; a value is a number, true, false, a list of whole
 * numbers, or any other word. An option that is a number of devices ("cpu_device_count=8") is from
 * 1 to 4096. MF_ERROR_DEVICE, with the plugin's message, when it cannot be opened, or implements a
 * version of the C API below 0.81.
 * A name that is not registered is searched for at its first use: MF_PJRT_PLUGIN=path[,name] (name:
 * "pjrt"), PJRT_NAMES_AND_LIBRARY_PATHS=name:path,..., and pip's
 * jax_plugins/FOLDER/xla_<name>_plugin.so; its options are MF_PJRT_OPTIONS of the environment. */
mf_status mf_register_plugin(const char *name, const char *path, const char *options);
/* The number of a device among all devices of its platform, in all processes; -1 when d is no
 * device */
int mf_device_id(mf_device d);
int mf_device_local_ordinal(mf_device d);    /* among the devices of its process; likewise -1 */
int mf_device_process(mf_device d);          /* the process that owns it; likewise -1 */
const char *mf_device_platform(mf_device d); /* "cpu"; NULL when d is no device */
/* Negative numbers count from the end of the list; stop may be MF_END */
mf_device_list mf_device_slice(mf_device_list list, int64_t start, int64_t stop);
/* The memory of a device as its plugin counts it, in bytes; -1 for a number that the plugin does
 * not report. MF_ERROR_DEVICE, with all of *out -1, where the plugin counts nothing, and for CPU
 * devices, which share the memory of mf_memory_stats() (manyfold/array.h) */
typedef struct mf_device_memory_stats_t {
    int64_t bytes_in_use, peak_bytes_in_use, bytes_limit, largest_alloc_size, num_allocs;
} mf_device_memory_stats_t;
mf_status mf_device_memory_stats(mf_device d, mf_device_memory_stats_t *out);

/* ---- the default backend: where arrays are made and functions run, unless their arrays are
 * committed elsewhere. A name is a platform ("cpu", or a plugin's), or one of the CPU's two
 * engines: "native", which compiles, or "reference", which is simple and slow. MF_ERROR_ARGUMENT
 * for another one, with the names that exist. Before the first call it is MF_DEFAULT_BACKEND of the
 * environment, a platform, or MF_BACKEND, an engine; both are read at the first use.
 * The native engine uses the best instruction set that the machine has. MF_CPU_ISA of the
 * environment lowers it, for this library, LLVM and oneDNN: amx, avx512_bf16, avx512, avx2 or
 * generic (too low for the native engine, so the reference engine serves). Results have the same
 * bits with each, except products and convolutions that oneDNN computes. */
mf_status mf_set_default_backend(const char *name);
const char *mf_default_backend(void); /* of the CPU the engine's name, else the platform's */

MF_END_

#include <manyfold/lift/device.h>

#endif
