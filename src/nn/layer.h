/* What layers share: parameters made by initialisers, and what a layer computes in. Written on the public header. */
#ifndef MF_NN_LAYER_H
#define MF_NN_LAYER_H

#include <manyfold.h>

enum { LAYER_MEMBERS = 24 };

/* Members of a layer in the making. */
typedef struct layer_members {
    int count;
    mf_node_ at[2 * LAYER_MEMBERS];
} layer_members;

void layer_add(layer_members *m, const char *name, mf_node_ value);
/* A parameter that init makes, or `otherwise` where that is unset; only one that is random takes a key of rngs. */
void layer_add_param(layer_members *m, const char *name, mf_state rngs, mf_initializer init, mf_initializer otherwise, mf_shape shape,
                     mf_dtype dtype);
mf_module layer_error(mf_value error);
/* Unset, or an error in the layer's name: a number of features below 1. */
mf_value layer_check_count(const char *layer, const char *what, int64_t count);

mf_dtype layer_param_dtype(mf_dtype dtype);       /* f32 unless said */
mf_value layer_input(mf_module self, mf_value x); /* x in the layer's dtype, if it has one; an integer or truth is a float then */
/* The parameter in x's dtype. */
mf_value layer_param(mf_module self, const char *name, mf_value x);
bool layer_has(mf_module self, const char *flag);
/* Unset, or an error in the layer's name: x has another last dimension than the parameters are made for. */
mf_value layer_check_features(mf_module self, mf_value x, int64_t features);

#endif
