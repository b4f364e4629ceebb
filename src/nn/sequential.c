/* nnx.Sequential and nnx.List. The members are named "0", "1", ..., as in flax.nnx's paths. */
#include <manyfold.h>

#include <stdio.h>
#include <stdlib.h>

enum { MOST_INPUTS = 16 };

static mf_value list_call(mf_module self, const mf_value *inputs, int count)
{
    (void)inputs;
    return mf_make_error(MF_ERROR_ARGUMENT, "%s of %d modules was called with %d arguments; call what is in it", mf_module_type(self),
                         mf_member_count(self), count);
}

/* A List module of the given modules, or of the functions if modules is NULL. */
static mf_module list_of(const mf_function *functions, const mf_module *modules, int count)
{
    if (count < 0)
        return (mf_module){ mf_make_error(MF_ERROR_ARGUMENT, "a list of %d modules", count).handle };
    mf_node_ *members = malloc((2 * (size_t)count + 1) * sizeof *members);
    if (!members)
        return (mf_module){ mf_make_error(MF_ERROR_MEMORY, "no memory for a list of %d modules", count).handle };
    for (int i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        members[2 * i] = mf_node_name(name);
        members[2 * i + 1] = modules ? mf_node_module(modules[i]) : mf_node_function(functions[i]);
    }
    mf_module list = mf_module_n("List", (mf_fm)list_call, MF_ANY_NUMBER_, members, 2 * count);
    free(members);
    return list;
}

mf_module mf_nn_list_n(const mf_module *modules, int count)
{
    MF_LAYER;
    return list_of(NULL, modules, count);
}

mf_module mf_nn_at(mf_module list, int index)
{
    MF_LAYER;
    const char *name = mf_member_name(list, index);
    if (name)
        return mf_member_module(list, name);
    if (mf_member_count(list) < 0)
        return mf_member_module(list, "0"); /* the list's own error */
    return (mf_module){ mf_make_error(MF_ERROR_ARGUMENT, "a list of %d modules has no number %d", mf_member_count(list), index).handle };
}

/* The output of a layer is the input of the next; a tuple is passed as several inputs. */
static mf_value sequential_call(mf_module self, const mf_value *inputs, int count)
{
    mf_module layers = mf_member_module(self, "layers");
    mf_value now[MOST_INPUTS], out = count == 1 ? inputs[0] : mf_tuple_n(inputs, count);
    for (int i = 0, n = mf_member_count(layers); i < n; i++) {
        out = mf_call_n(mf_member_function(layers, mf_member_name(layers, i)), inputs, count);
        if (mf_kind_of(out) == MF_KIND_ERROR)
            return out;
        count = mf_kind_of(out) == MF_KIND_TUPLE ? mf_len(out) : 1;
        if (count > MOST_INPUTS)
            return mf_make_error(MF_ERROR_ARGUMENT, "Sequential: layer %d gives %d values; a function takes %d", i, count, MOST_INPUTS);
        now[0] = out;
        for (int k = 0; mf_kind_of(out) == MF_KIND_TUPLE && k < count; k++)
            now[k] = mf_get(out, k);
        inputs = now;
    }
    return out;
}

mf_module mf_nn_sequential_n(const mf_function *layers, int count)
{
    MF_LAYER;
    mf_module list = list_of(layers, NULL, count);
    return mf_module_new("Sequential", sequential_call, "layers", list);
}
