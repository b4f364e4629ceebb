/* States that hold random keys: every draw takes a fresh key and advances the state. Invariant: no key is drawn twice, neither by two
 * threads nor when the state could not be advanced; in that case the draw is an error. */
#include <manyfold.h>
#include <pthread.h>

static bool failed(mf_value x) { return mf_kind_of(x) == MF_KIND_ERROR; } /* does not wait, unlike mf_is_error */

mf_state mf_random_state(uint64_t seed)
{
    MF_LAYER;
    return mf_random_state_of_key(mf_random_key(seed));
}

mf_value mf_random_next(mf_state random)
{
    MF_LAYER;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    mf_value none = mf_none();
    if (mf_is_error(none)) /* in the child of a fork the lock may be held forever */
        return none;
    pthread_mutex_lock(&lock);
    mf_value keys = mf_random_split(mf_state_value(random), 2), key = mf_get(keys, 1);
    mf_value next = failed(key) ? key : mf_state_set_value(random, mf_get(keys, 0));
    pthread_mutex_unlock(&lock);
    return failed(next) ? next : key;
}

mf_status mf_random_seed(uint64_t seed)
{
    MF_LAYER;
    return mf_error_status(mf_state_set_value(mf_random_default(), mf_random_key(seed)));
}
