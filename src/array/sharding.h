/* Shardings: which devices hold an array. Invariant: interned, so equal ones have one address (shards.c). */
#ifndef MF_ARRAY_SHARDING_H
#define MF_ARRAY_SHARDING_H

#include "array/client.h"
#include "array/types/type.h"

/* Whose devices hold an array: the devices in order, and which axes of the array are mapped over them (outermost first). Interned.
 * Committed: somebody chose these devices, or it was computed from what lies there. What is not committed was only made somewhere, and
 * moves to the client of the arrays that it meets. */
typedef struct mf_sharding {
    const mf_client *client;
    bool committed;
    int device_count;
    int axis_count;
    int axes[MF_RANK]; /* positions in the array's shape, the outermost map's first; zero beyond axis_count */
    int devices[];     /* ids; product of the mapped sizes, or 1 */
} mf_sharding;
const mf_sharding *mf_sharding_get(const mf_client *client, int axis_count, const int *axes, int device_count, const int *devices);
const mf_sharding *mf_sharding_single(const mf_client *client, int device);
const mf_sharding *mf_sharding_default(const mf_client *client); /* this process's first device, not committed */

/* Of what device number k holds, the index along each mapped axis of the array: at[axis]. */
void mf_sharding_index(const mf_sharding *p, const mf_type *type, int k, int64_t *at);
/* How an array lies on devices that have memory apart: its strides in a row of buffers, held once along the mapped axes where `like` is.
 * The bytes of each part. */
int64_t mf_sharding_strides(const mf_sharding *p, const mf_type *type, const int64_t *like, int64_t *strides);

#endif
