/* Choosing among several arrays: select. */
#include <manyfold.h>

mf_value(mf_select)(mf_value conditions, mf_value choices, mf_value otherwise)
{
    MF_LAYER;
    int count = mf_len(conditions);
    if (mf_is_error(conditions) || mf_is_error(choices))
        return mf_is_error(conditions) ? conditions : choices;
    if (count < 1 || mf_len(choices) != count)
        return mf_make_error(MF_ERROR_ARGUMENT, "select: as many conditions as choices are needed, at least one, not %d and %d", count,
                             mf_len(choices));
    mf_value chosen = otherwise;
    for (int i = count - 1; i >= 0; i--)
        chosen = mf_where(mf_get(conditions, i), mf_get(choices, i), chosen);
    return chosen;
}
