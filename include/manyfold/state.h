/* manyfold/state.h - states (mutable cells), modules of named states, and maps with rules for
 * states: after flax.nnx and brainstate.
 *
 * A state holds a tree of arrays of any shapes and dtypes. Functions may read and write it, also
 * inside jit, grad, vmap, pmap and control flow, where it becomes a hidden argument and result.
 * Handles belong to the innermost scope; the cell itself lives as long as a handle, module or
 * function refers to it. Each read and each write is safe from any thread. Errors:
 * MF_ERROR_ARGUMENT for a handle that is none. A call that ends in an error leaves its states
 * unchanged. */
#ifndef MANYFOLD_STATE_H
#define MANYFOLD_STATE_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/transforms.h>

MF_BEGIN_

/* ---- states
 * Memory: a call that cannot fail (one without checks, callbacks, prints and factorisations)
 * computes a state's new value in the memory of the old one if nobody else holds that. So read
 * states in a scope that ends, and their updates copy nothing. If such a call then runs out of
 * memory, the states hold that error until they are set again.
 * An error is never stored as a value: mf_state_set_value returns it, and a call that is being
 * traced becomes that error. */
typedef enum mf_state_type {
    MF_STATE_ANY = 0,
    MF_PARAM_STATE,
    MF_BATCH_STATE,
    MF_RANDOM_STATE,
    MF_HIDDEN_STATE
} mf_state_type;
/* tree -> state: of the type in the name, with the initial value */
mf_state mf_param_state(mf_value initial);
mf_state mf_batch_state(mf_value initial);
mf_state mf_hidden_state(mf_value initial);
/* -> tree: the current value */
mf_value mf_state_value(mf_state s);
/* tree -> tree: sets the value and returns it. The new value may have another structure, other
 * shapes and dtypes */
mf_value mf_state_set_value_v(mf_state s, mf_value v);
/* Random states hold a key (manyfold/random.h). A seed makes the key of mf_random_key(seed). */
mf_state mf_random_state(uint64_t seed);
/* (2) -> state */
mf_state mf_random_state_of_key(mf_value key);
mf_state mf_random_default(void);        /* the process's own; with seed 0 at first */
mf_status mf_random_seed(uint64_t seed); /* sets the seed of mf_random_default() */
/* -> (2): a new key, split off the state, which advances. Two threads never get the same one. In
 * mf_pmap and mf_vmap all rows get the same keys; mf_pmap2 and mf_vmap2 below give each row its
 * own */
mf_value mf_random_next(mf_state random);

/* ---- filters: which states. In this order: all; those of a type (MF_STATE_ANY: all); those whose
 * path contains the name, or the adjacent names "encoder/kernel", as whole names; those that f
 * rejects; those that every filter accepts; those that some filter accepts. The path of a state
 * leads from the outermost module to the state, through the first module that holds it; in
 * mf_module_values it begins at the module given. */
mf_filter mf_everything(void);
mf_filter mf_of_type(mf_state_type type);
mf_filter mf_path_contains(const char *names);
mf_filter mf_filter_not(mf_filter f);
mf_filter mf_filter_all_n(const mf_filter *filters, int count);
mf_filter mf_filter_any_n(const mf_filter *filters, int count);
/* C -> C: whether the filter accepts a leaf of a tree (which has no type, so of the types only
 * MF_STATE_ANY accepts it) with this path, "encoder/kernel" */
bool mf_filter_accepts_path(mf_filter f, const char *path);
/* The same filter by a handle that no scope owns and that lives as long as the process */
mf_filter mf_filter_keep(mf_filter f);
#ifndef __cplusplus
#define mf_filter_all(...) mf_filter_all_n(MF_STRUCTS_(mf_filter, __VA_ARGS__))
#define mf_filter_any(...) mf_filter_any_n(MF_STRUCTS_(mf_filter, __VA_ARGS__))
#endif

/* ---- modules: named members and a C function that takes the module, then its inputs:
 *     static mf_value call(mf_module self, mf_value x)
 *     {
 *         mf_value w = mf_state_value(mf_member_state(self, "weight"));
 *         return mf_mul(mf_dot(x, w), mf_member_number(self, "rate"));
 *     }
 *     mf_module m = mf_module_new("Scaled", call, "weight", mf_param_state(w), "rate", 0.5);
 *     mf_value y = mf_call(m, x);
 * The function takes up to 16 inputs, or any number of them as (mf_module self, const mf_value
 * *inputs, int count). A member is a state, a module, a number or bool, a string, a list
 * MF_INTS(...), a function (wrap a C function: mf_fn(f)), or a value: an array, a tree, None. A
 * module can be called and transformed like a function. mf_str shows it with the types of its
 * states' values. */
typedef struct mf_node_ {
    int kind;
    uint64_t handle;
} mf_node_;
mf_node_ mf_node_state(mf_state s);
mf_node_ mf_node_module(mf_module m);
mf_node_ mf_node_name(const char *name);
mf_node_ mf_node_int(int i);
mf_node_ mf_node_double(double d);
mf_node_ mf_node_ints(mf_ints list);
mf_node_ mf_node_function(mf_function f);
/* any -> C */
mf_node_ mf_node_value(mf_value v);
/* inputs: how many the function takes, or -1 if it takes an array. members: alternating names and
 * members; count counts both. */
mf_module mf_module_n(const char *type, mf_fm call, int inputs, const mf_node_ *members, int count);
/* A member by its name, also of a submodule: "encoder/kernel". MF_ERROR_ARGUMENT where there is
 * none of that name and kind */
mf_state mf_member_state(mf_module m, const char *name);
mf_module mf_member_module(mf_module m, const char *name);
double mf_member_number(mf_module m, const char *name);        /* NaN on an error */
const char *mf_member_text(mf_module m, const char *name);     /* NULL on an error; never freed */
mf_ints mf_member_ints(mf_module m, const char *name);         /* empty on an error */
mf_function mf_member_function(mf_module m, const char *name); /* a module is one, too */
/* -> any */
mf_value mf_member_value(mf_module m, const char *name);
/* All members, in their order: their number (-1 on an error), and the name of each (NULL when out
 * of range). mf_member_kind is MF_MEMBER_NONE for a name that is no member. Names and types live as
 * long as the process. */
typedef enum mf_member_type {
    MF_MEMBER_NONE = 0,
    MF_MEMBER_STATE,
    MF_MEMBER_MODULE,
    MF_MEMBER_NUMBER,
    MF_MEMBER_TEXT,
    MF_MEMBER_INTS,
    MF_MEMBER_FUNCTION,
    MF_MEMBER_VALUE
} mf_member_type;
int mf_member_count(mf_module m);
const char *mf_member_name(mf_module m, int index);
mf_member_type mf_member_kind(mf_module m, const char *name);
const char *mf_module_type(mf_module m);    /* "Scaled"; NULL when m is no module */
mf_state_type mf_state_type_of(mf_state s); /* MF_STATE_ANY when s is no state */
bool mf_state_same(mf_state a, mf_state b); /* whether both are the same cell */
/* nnx.view: a module over the same states, in which the members of the given names, in it and in
 * all its submodules, have other values: mf_module_view(m, "deterministic", true). Only members
 * that are no states and no modules can be replaced, by values of the same kind. m does not change.
 * Equal views are one module, and share traces; a view that changes nothing is m. MF_ERROR_ARGUMENT
 * where no module has such a member. */
mf_module mf_module_view_n(mf_module m, const mf_node_ *members, int count);
/* -> dict: nnx.split: the values of the states that the filter accepts, a dict of dicts */
mf_value mf_module_values(mf_module m, mf_filter which);
/* dict -> states: nnx.update: sets the values of the states in the dict, all or none. The structure
 * of a state's value must stay (MF_ERROR_TREE), and so must its shapes (MF_ERROR_SHAPE) */
mf_status mf_module_update(mf_module m, mf_value values);
/* -> tuple of dicts: nnx.split with several filters, a dict for each; a state goes to the first
 * filter that accepts it. MF_ERROR_ARGUMENT where none does */
mf_value mf_module_split_n(mf_module m, const mf_filter *filters, int count);
/* dicts -> module: nnx.merge: a module with m's structure and new states that hold these values, of
 * any shapes, also traced: mf_module_merge(m, params, rest). Together the dicts have every state of
 * m (MF_ERROR_TREE); a state that m holds twice is one state again. Made inside a transform, the
 * module and its states belong to that call. Return mf_module_values(merged, ...) to get their
 * final values out; so models pass through mf_pmap as trees. */
mf_module mf_module_merge_n(mf_module m, const mf_value *values, int count);
/* f(values, inputs...), where values is a dict of mf_module_values: flax's apply. The module's own
 * states stay unchanged. mf_apply(m, values, inputs...) calls it */
mf_function mf_module_pure(mf_module m);
#ifndef __cplusplus
#define mf_state_set_value(s, x) mf_state_set_value_v(s, MF_V_(x, "mf_state_set_value: v"))
/* clang-format off */
#define mf_node(x) \
    _Generic((x), mf_state: mf_node_state, mf_module: mf_node_module, char *: mf_node_name, \
             const char *: mf_node_name, bool: mf_node_int, int: mf_node_int, \
             unsigned: mf_node_double, long: mf_node_double, long long: mf_node_double, \
             float: mf_node_double, double: mf_node_double, mf_ints: mf_node_ints, \
             mf_function: mf_node_function, mf_value: mf_node_value)(x)
#define mf_module_new(type, call, ...) \
    mf_module_n(type, (mf_fm)(call), _Generic((call), MF_INPUTS_), \
                MF_ITEMS_(mf_node_, mf_node, __VA_ARGS__))
#define mf_module_view(m, ...) \
    mf_module_view_n(m, MF_ITEMS_(mf_node_, mf_node, __VA_ARGS__))
/* clang-format on */
#define mf_module_split(m, ...) mf_module_split_n(m, MF_STRUCTS_(mf_filter, __VA_ARGS__))
#define mf_apply(m, ...) mf_call(mf_module_pure(m), __VA_ARGS__)
#endif

/* ---- stateful maps: pmap and vmap with rules for the states that the function reads and writes,
 * as brainstate's pmap2, vmap2 and StatefulMapping:
 *     mf_pmap2(step, "i", .state_in_axes = MF_STATE_AXES(0, mf_of_type(MF_HIDDEN_STATE)),
 *              .state_out_axes = MF_STATE_AXES(0, mf_of_type(MF_HIDDEN_STATE)))
 * The rules give the axis along which a state is mapped on the way in, and on the way out; the
 * first rule whose filter accepts a state counts. A state without a rule in state_in_axes is the
 * same for all rows; one without a rule in state_out_axes must come out the same for all. If no
 * argument is mapped, the mapped states give the axis size.
 * A random state with a single key needs no rule: it is split into n + 1 keys, of which the first
 * is its next value and the others go to the n rows. So one seed always gives the same numbers,
 * however the devices are spread over processes. A random state that holds a key for each row is
 * mapped by the rules. In mf_pmap and mf_vmap, which split nothing, all rows draw the same
 * numbers. */
typedef struct mf_state_axis_rules {
    uint64_t handle;
} mf_state_axis_rules; /* unset: no rules */
typedef struct mf_axis_part_ {
    bool is_filter;
    mf_axis axis;
    mf_filter states;
} mf_axis_part_;
mf_axis_part_ mf_axis_part_axis(mf_axis axis);
mf_axis_part_ mf_axis_part_states(mf_filter states);
/* Pairs of an axis and the filter of its states, any number: MF_STATE_AXES(0, f, 1, g) */
mf_state_axis_rules mf_state_axes_n(const mf_axis_part_ *parts, int count);
#ifndef __cplusplus
/* clang-format off */
#define mf_axis_part(x) \
    _Generic((x), mf_filter: mf_axis_part_states, default: mf_axis_part_axis)(x)
/* clang-format on */
#define MF_STATE_AXES(...) mf_state_axes_n(MF_ITEMS_(mf_axis_part_, mf_axis_part, __VA_ARGS__))
#endif
/* What happens to a state that varies along the mapped axis but has no rule in state_out_axes:
 * MF_ERROR_AXIS, and the state stays unchanged (raise); or it is stacked along axis 0, with a
 * warning on stderr (warn) or without (ignore). */
typedef enum mf_unexpected {
    MF_UNEXPECTED_RAISE = 0,
    MF_UNEXPECTED_WARN,
    MF_UNEXPECTED_IGNORE
} mf_unexpected;
/* Maps f with these options by mf_pmap_opt, mf_vmap_opt or both; f carries its rules. */
typedef mf_function (*mf_mapping_fn)(mf_function f, const mf_pmap_options *options);
typedef struct mf_pmap2_options { /* pmap's, then the states' */
    const char *axis_name;
    mf_axis in_axes, out_axes;
    mf_ints static_broadcasted_argnums, donate_argnums;
    mf_device_list devices;
    const char *backend;
    int64_t axis_size;
    mf_ints replicated_argnums;
    mf_state_axis_rules state_in_axes, state_out_axes;
    mf_unexpected unexpected_out_state_mapping;
    mf_mapping_fn mapping_fn; /* for mf_stateful_mapping only; NULL: vmap */
    mf_reserved reserved_;
} mf_pmap2_options;
/* Each returns a StatefulMapping. mf_vmap2 takes of pmap's options the axes, their name and their
 * size only (else MF_ERROR_ARGUMENT). */
mf_function mf_pmap2_opt(mf_function f, const mf_pmap2_options *o);
mf_function mf_vmap2_opt(mf_function f, const mf_pmap2_options *o);
mf_function mf_stateful_mapping_opt(mf_function f, const mf_pmap2_options *o);
/* What a function is: "StatefulMapping", "pmap", "jit", "module", "function" (a C function), ...;
 * NULL: no function */
const char *mf_function_type(mf_function f);
/* The function that a transform was applied to; for any other function, itself */
mf_function mf_function_origin(mf_function f);
/* The rules of a StatefulMapping; of another function, none */
mf_state_axis_rules mf_function_state_in_axes(mf_function f);
mf_state_axis_rules mf_function_state_out_axes(mf_function f);
/* As text, "{0: OfType(ParamState)}"; valid as long as the innermost scope */
const char *mf_str_state_axis_rules(mf_state_axis_rules rules);

MF_END_

#ifdef __cplusplus
inline mf_value mf_state_set_value(mf_state s, mf_value v) { return mf_state_set_value_v(s, v); }
template <class... F> inline mf_filter mf_filter_all(F... f)
{
    const mf_filter v[] = { f... };
    return mf_filter_all_n(v, (int)sizeof...(F));
}
template <class... F> inline mf_filter mf_filter_any(F... f)
{
    const mf_filter v[] = { f... };
    return mf_filter_any_n(v, (int)sizeof...(F));
}
template <class... F> inline mf_value mf_module_split(mf_module m, F... f)
{
    const mf_filter v[] = { f... };
    return mf_module_split_n(m, v, (int)sizeof...(F));
}
inline mf_node_ mf_node(mf_state s) { return mf_node_state(s); }
inline mf_node_ mf_node(mf_module m) { return mf_node_module(m); }
inline mf_node_ mf_node(const char *name) { return mf_node_name(name); }
inline mf_node_ mf_node(bool b) { return mf_node_int(b); }
inline mf_node_ mf_node(int i) { return mf_node_int(i); }
inline mf_node_ mf_node(unsigned u) { return mf_node_double(u); }
inline mf_node_ mf_node(long l) { return mf_node_double((double)l); }
inline mf_node_ mf_node(long long l) { return mf_node_double((double)l); }
inline mf_node_ mf_node(float f) { return mf_node_double(f); }
inline mf_node_ mf_node(double d) { return mf_node_double(d); }
inline mf_node_ mf_node(mf_ints list) { return mf_node_ints(list); }
inline mf_node_ mf_node(mf_function f) { return mf_node_function(f); }
inline mf_node_ mf_node(mf_value v) { return mf_node_value(v); }
template <class... V, class... N>
inline mf_module mf_module_new(const char *type, mf_value (*call)(mf_module, V...), N... n)
{
    const mf_node_ members[] = { mf_node(n)... };
    return mf_module_n(type, (mf_fm)call, (int)sizeof...(V), members, (int)sizeof...(N));
}
template <class... N> inline mf_module mf_module_new(const char *type, mf_fma call, N... n)
{
    const mf_node_ members[] = { mf_node(n)... };
    return mf_module_n(type, (mf_fm)call, -1, members, (int)sizeof...(N));
}
template <class... N> inline mf_module mf_module_view(mf_module m, N... n)
{
    const mf_node_ members[] = { mf_node(n)... };
    return mf_module_view_n(m, members, (int)sizeof...(N));
}
template <class... V> inline mf_value mf_apply(mf_module m, V... v)
{
    const mf_value values[] = { mf_value(v)... };
    return mf_call_n(mf_module_pure(m), values, (int)sizeof...(V));
}
inline mf_axis_part_ mf_axis_part(mf_filter states) { return mf_axis_part_states(states); }
inline mf_axis_part_ mf_axis_part(mf_axis axis) { return mf_axis_part_axis(axis); }
template <class... P> inline mf_state_axis_rules MF_STATE_AXES(P... pairs)
{
    const mf_axis_part_ parts[] = { mf_axis_part(pairs)... };
    return mf_state_axes_n(parts, (int)sizeof...(P));
}
#endif

#include <manyfold/lift/state.h>

#endif
