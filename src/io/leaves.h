/* The leaves of a tree by name, as files have them: "conv1/kernel". Public API only. */
#ifndef MF_IO_LEAVES_H
#define MF_IO_LEAVES_H

#include <manyfold.h>

typedef struct mf_named_leaf {
    char *name;
    mf_value value;
} mf_named_leaf;

typedef struct mf_named_leaves {
    mf_named_leaf *at;
    int count, room;
    bool failed; /* there was no memory */
} mf_named_leaves;

/* Children are named by their key or number, a bare array "arr_0". Gives all back with mf_leaves_free. */
mf_named_leaves mf_leaves_of(mf_value tree);
void mf_leaves_free(mf_named_leaves *l);
/* `like` with what the file (a dict by name) has in place of its leaves; an error that names the file and the array where that is missing,
 * or of another shape or dtype, or, unless it is partial, in the file alone. */
mf_value mf_leaves_fit(const char *path, mf_value like, mf_value file, bool partial);

#endif
