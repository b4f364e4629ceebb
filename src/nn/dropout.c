/* flax.nnx's Dropout. Invariant: a call draws no key if the layer is deterministic or its rate is 0. */
#include "nn/layer.h"

/* Sets the broadcast dimensions of *shape, the input's shape, to 1. Returns unset, or an error. */
static mf_value mask_shape(mf_module self, mf_shape *shape)
{
    mf_ints dims = mf_member_ints(self, "broadcast_dims");
    for (int i = 0; i < dims.count; i++) {
        int64_t axis = dims.at[i] < 0 ? dims.at[i] + shape->rank : dims.at[i];
        if (axis < 0 || axis >= shape->rank)
            return mf_make_error(MF_ERROR_AXIS, "Dropout: entry %d of broadcast_dims, %lld, is no dimension of an input of the shape %s", i,
                                 (long long)dims.at[i], mf_str_shape(*shape));
        shape->dims[axis] = 1;
    }
    return (mf_value){ 0 };
}

static mf_value dropout_call(mf_module self, const mf_value *inputs, int count)
{
    if (count < 1 || count > 2)
        return mf_make_error(MF_ERROR_ARGUMENT, "Dropout takes an input and perhaps a key, not %d arguments", count);
    double rate = mf_member_number(self, "rate");
    mf_value x = inputs[0];
    if (rate == 0 || layer_has(self, "deterministic"))
        return x;
    if (rate == 1)
        return mf_zeros_like(x);
    mf_shape shape = mf_shape_of(x);
    mf_value wrong = shape.rank < 0 ? x : mask_shape(self, &shape);
    if (wrong.handle)
        return wrong;
    mf_value key = count == 2 ? inputs[1] : mf_random_next(mf_member_state(self, "rngs"));
    return mf_where(mf_random_bernoulli(key, 1 - rate, shape), mf_div(x, 1 - rate), 0);
}

mf_module mf_nn_dropout_opt(mf_state rngs, double rate, const mf_nn_dropout_options *o)
{
    MF_LAYER;
    static const mf_nn_dropout_options none;
    o = o ? o : &none;
    if (!(rate >= 0 && rate <= 1))
        return layer_error(mf_make_error(MF_ERROR_ARGUMENT, "Dropout: the rate is %g; it must be from 0 to 1", rate));
    return mf_module_new("Dropout", dropout_call, "rate", rate, "broadcast_dims", o->broadcast_dims, "deterministic", o->deterministic,
                         "rngs", mf_random_state_of_key(mf_random_next(rngs)));
}
