/* Devices: the table of all clients' devices, how many there are, and whose they are. See device/devices.c. */
#ifndef MF_RUNTIME_DEVICE_H
#define MF_RUNTIME_DEVICE_H

#include "array/client.h"
#include "base/text/string.h"

#include <manyfold/device.h>

int mf_device_total(const mf_client *client);   /* in all processes; ids are 0 .. total-1 */
const mf_client *mf_device_client(mf_device d); /* NULL: d is not a device */
mf_device mf_device_of(const mf_client *client, int id);
/* The client that a user means by the name of a backend: the platform of a client, or one of the CPU's compilers. A plugin is opened
 * when its name is first used. NULL: there is none; with *error if opening it failed. */
const mf_client *mf_client_named(const char *name, mf_error_object **error);
/* Opens the plugin of that name, if the environment says where it is. NULL and *error as above. Set by wire.c. */
extern const mf_client *(*const mf_client_open)(const char *name, mf_error_object **error);
/* "x, y": the names that can be given. */
void mf_client_names(mf_text *t);

/* The virtual CPU devices. */
int mf_cpu_device_count(const mf_client *c); /* in all processes */
int mf_own_cpu_device_count(void);           /* MF_NUM_CPU_DEVICES, a call before first use, or the usable cores */
mf_error_object *mf_device_set_total(int n); /* an error once devices have been used, or if n < 1 */
int mf_bound_core_count(void);               /* cores that this process's affinity mask allows */
int mf_machine_share(void);                  /* the machine's cores divided by the launcher's processes on it */
int mf_core_count(void);                     /* cores that this process should use */
int mf_worker_count(void);                   /* MF_NUM_THREADS, else mf_core_count */

#endif
