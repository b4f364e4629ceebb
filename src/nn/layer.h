/* What layers share: parameters made by initialisers, and the dtype of the computation. Uses the public API only. */
#ifndef MF_NN_LAYER_H
#define MF_NN_LAYER_H

#include <manyfold.h>

enum { LAYER_MEMBERS = 24 };

/* The members of a layer under construction. */
typedef struct layer_members {
    int count;
    mf_node_ at[2 * LAYER_MEMBERS];
} layer_members;

void layer_add(layer_members *m, const char *name, mf_node_ value);
/* Adds a parameter made by init, or by `otherwise` if init is unset. Only a random initialiser takes a key from rngs. */
void layer_add_param(layer_members *m, const char *name, mf_state rngs, mf_initializer init, mf_initializer otherwise, mf_shape shape,
                     mf_dtype dtype);
mf_module layer_error(mf_value error);
/* Unset, or an error that names the layer: count is below 1. */
mf_value layer_check_count(const char *layer, const char *what, int64_t count);

mf_dtype layer_param_dtype(mf_dtype dtype);       /* the default is f32 */
mf_value layer_input(mf_module self, mf_value x); /* x in the layer's dtype; if it has none, integers and booleans become f32 */
/* The parameter, converted to x's dtype. */
mf_value layer_param(mf_module self, const char *name, mf_value x);
bool layer_has(mf_module self, const char *flag);
/* Unset, or an error that names the layer: the last dimension of x is not `features`. */
mf_value layer_check_features(mf_module self, mf_value x, int64_t features);

#endif
