/* States that hold random keys: every draw takes a fresh key and moves the state on. */
#include <manyfold.h>

mf_state mf_random_state(uint64_t seed) { return mf_random_state_of_key(mf_random_key(seed)); }

mf_value mf_random_next(mf_state random)
{
    mf_value keys = mf_random_split(mf_state_value(random), 2);
    mf_state_set_value(random, mf_get(keys, 0));
    return mf_get(keys, 1);
}
