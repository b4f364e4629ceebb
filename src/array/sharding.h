/* Shardings: which devices hold an array. Invariant: interned, so equal shardings have one address (shards.c). */
#ifndef MF_ARRAY_SHARDING_H
#define MF_ARRAY_SHARDING_H

#include "array/client.h"
#include "array/types/type.h"

/* The devices that hold an array, in order, and the axes of the array that are mapped over them, outermost first. Interned. A sharding is
 * committed if somebody chose these devices, or if the array was computed from committed ones. An uncommitted array was only made
 * somewhere; it moves to the client of the arrays that it is used with. */
typedef struct mf_sharding {
    const mf_client *client;
    bool committed;
    int device_count;
    int axis_count;
    int axes[MF_RANK]; /* positions in the array's shape, the outermost map's first; zero beyond axis_count */
    int devices[];     /* ids; their number is the product of the mapped sizes, or 1 */
} mf_sharding;
const mf_sharding *mf_sharding_get(const mf_client *client, int axis_count, const int *axes, int device_count, const int *devices);
const mf_sharding *mf_sharding_single(const mf_client *client, int device);
const mf_sharding *mf_sharding_default(const mf_client *client); /* this process's first device, not committed */

/* The index along each mapped axis of the part that device number k holds, in at[axis]. */
void mf_sharding_index(const mf_sharding *p, const mf_type *type, int k, int64_t *at);
/* The strides of an array in a row of buffers, for devices with separate memories: 0 along the mapped axes where `like` has 0.
 * Returns the bytes of each part. */
int64_t mf_sharding_strides(const mf_sharding *p, const mf_type *type, const int64_t *like, int64_t *strides);

#endif
