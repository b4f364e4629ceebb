/* What indexing a tree hands on to when its path reaches an array or a tracer; lax/array/subscript.c implements it. */
#ifndef MF_TREE_INDEX_H
#define MF_TREE_INDEX_H

#include <manyfold/base.h>

/* x[path[0], path[1], ...] for an array or tracer x: integers, slices, None, and arrays of indices. */
mf_value mf_index_array(mf_value x, const mf_value *path, int count);
/* x with v in that place, as x.at[path].set(v): x itself stays. */
mf_value mf_index_array_set(mf_value x, mf_value v, const mf_value *path, int count);

#endif
