/* Training and evaluation modes: views of a module with other flags. Invariant: no module is changed in place. */
#include <manyfold.h>

#include <string.h>

/* Whether m or one of its submodules has a number member of that name. */
static bool has_flag(mf_module m, const char *flag)
{
    for (int i = 0, n = mf_member_count(m); i < n; i++) {
        const char *name = mf_member_name(m, i);
        mf_member_type kind = mf_member_kind(m, name);
        if (kind == MF_MEMBER_MODULE ? has_flag(mf_member_module(m, name), flag) : kind == MF_MEMBER_NUMBER && strcmp(name, flag) == 0)
            return true;
    }
    return false;
}

mf_module mf_nn_view_opt(mf_module m, const mf_nn_view_options *o)
{
    MF_LAYER;
    if (o && o->deterministic >= 0)
        m = mf_module_view(m, "deterministic", o->deterministic != 0);
    if (o && o->use_running_average >= 0)
        m = mf_module_view(m, "use_running_average", o->use_running_average != 0);
    if (o && o->decode >= 0)
        m = mf_module_view(m, "decode", o->decode != 0);
    return m;
}

static mf_module with_both(mf_module m, bool truth)
{
    if (has_flag(m, "deterministic"))
        m = mf_module_view(m, "deterministic", truth);
    if (has_flag(m, "use_running_average"))
        m = mf_module_view(m, "use_running_average", truth);
    return m;
}

mf_module mf_nn_train(mf_module m)
{
    MF_LAYER;
    return with_both(m, false);
}

mf_module mf_nn_eval(mf_module m)
{
    MF_LAYER;
    return with_both(m, true);
}
