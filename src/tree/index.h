/* The functions to which indexing a tree delegates when its path reaches an array or a tracer; lax/array/subscript.c defines them. */
#ifndef MF_TREE_INDEX_H
#define MF_TREE_INDEX_H

#include <manyfold/base.h>

/* x[path[0], path[1], ...] for an array or tracer x: integers, slices, None, and arrays of indices. */
mf_value mf_index_array(mf_value x, const mf_value *path, int count);
/* A copy of x with v at that index, like x.at[path].set(v). */
mf_value mf_index_array_set(mf_value x, mf_value v, const mf_value *path, int count);

#endif
