/* The leaves of a tree with names, as files store them: "conv1/kernel". Uses the public API only. */
#ifndef MF_IO_LEAVES_H
#define MF_IO_LEAVES_H

#include <manyfold.h>

typedef struct mf_named_leaf {
    char *name;
    mf_value value;
} mf_named_leaf;

typedef struct mf_named_leaves {
    mf_named_leaf *at;
    int count, capacity;
    bool failed; /* out of memory */
} mf_named_leaves;

/* Children are named by their key or index, a bare array "arr_0". Free the result with mf_leaves_free. */
mf_named_leaves mf_leaves_of(mf_value tree);
void mf_leaves_free(mf_named_leaves *l);
/* `like` with its leaves replaced by those of the file, a dict by name. An error, which names the file and the array, if an array is
 * missing or has another shape or dtype, or, unless partial, if the file has an array that `like` does not have. */
mf_value mf_leaves_fit(const char *path, mf_value like, mf_value file, bool partial);

#endif
