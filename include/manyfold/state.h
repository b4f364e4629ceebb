/* manyfold/state.h - cells that functions read and write, modules of named cells, and maps with
 * rules for them: flax.nnx's and brainstate's.
 *
 * A state holds a tree of arrays of any shapes and dtypes. Functions read and write it, also inside
 * jit, grad, vmap, pmap and control flow, where it becomes a hidden argument and result. Handles
 * belong to the innermost scope; the cell lives as long as a handle, module or function that names
 * it. Reading and writing are safe from any thread, each by itself. Errors: MF_ERROR_ARGUMENT for a
 * handle that is none; a call that ends in an error leaves its states as they were. */
#ifndef MANYFOLD_STATE_H
#define MANYFOLD_STATE_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/transforms.h>

MF_BEGIN_

/* ---- states. A call that cannot fail (without checks, callbacks, prints and factorisations)
 * computes in the memory of values that nobody else holds: read a state in a scope that ends, and
 * its next value costs no copy. Should memory run out in the middle of it, those states are that
 * error until they are set again. An error in place of a value goes into nothing: it comes back
 * from mf_state_set_value, and a call that is being traced becomes it. */
typedef enum mf_state_type {
    MF_STATE_ANY = 0,
    MF_PARAM_STATE,
    MF_BATCH_STATE,
    MF_RANDOM_STATE,
    MF_HIDDEN_STATE
} mf_state_type;
/* tree -> state */
mf_state mf_param_state(mf_value initial);
mf_state mf_batch_state(mf_value initial);
mf_state mf_hidden_state(mf_value initial);
/* -> tree: state.value */
mf_value mf_state_value(mf_state s);
/* tree -> tree: state.value = v; returns v. The new value may have another tree and other shapes */
mf_value mf_state_set_value_v(mf_state s, mf_value v);
/* A random state holds a key, u32 of shape (2). */
mf_state mf_random_state(uint64_t seed);
/* (2) -> state */
mf_state mf_random_state_of_key(mf_value key);
mf_state mf_random_default(void); /* the process's own; its seed is 0 until mf_random_seed */
mf_status mf_random_seed(uint64_t seed);
/* -> (2): a fresh key; advances the state. No two threads get the same one */
mf_value mf_random_next(mf_state random);

/* Which states: all; all of a type (MF_STATE_ANY: all); those whose path through the modules has
 * the name, or names one after the other ("encoder", "encoder/kernel"); all but those; those
 * that every one accepts; those that one of them accepts. A state's path goes from the outermost
 * module to the state, by the first module that took it; in mf_module_values from the module
 * that is asked. */
mf_filter mf_everything(void);
mf_filter mf_of_type(mf_state_type type);
mf_filter mf_path_contains(const char *names);
mf_filter mf_filter_not(mf_filter f);
mf_filter mf_filter_all_n(const mf_filter *filters, int count);
mf_filter mf_filter_any_n(const mf_filter *filters, int count);
/* C -> C: whether it accepts a leaf of a tree at a path like "encoder/kernel", which has no type:
 * what mf_of_type(MF_STATE_ANY) alone accepts */
bool mf_filter_accepts_path(mf_filter f, const char *path);
/* The same filter by a handle that no scope owns, each time the same one. Lives as long as the
 * process */
mf_filter mf_filter_keep(mf_filter f);
#ifndef __cplusplus
#define mf_filter_all(...) mf_filter_all_n(MF_STRUCTS_(mf_filter, __VA_ARGS__))
#define mf_filter_any(...) mf_filter_any_n(MF_STRUCTS_(mf_filter, __VA_ARGS__))
#endif

/* ---- modules. Named members, with a C function that gets the module first, then its inputs:
 *     static mf_value call(mf_module self, mf_value x, mf_value y)
 *     mf_module_new("Affine", call, "weight", state, "head", module, "rate", 0.5, ...)
 * The function takes up to 16 inputs, one a parameter, or any number of them:
 *     static mf_value call(mf_module self, const mf_value *inputs, int count)
 * A member is a state, a module, a number or truth, a text, a list MF_INTS(...), a function (no C
 * function: mf_fn(f)), or a value: an array, a tree, None. A module can be called and transformed
 * as a function. mf_str prints it with the types of its states' values. */
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
/* inputs: how many the function takes, -1 where it gets them as an array. members: pairs of a name
 * and what is called so; count counts both. */
mf_module mf_module_n(const char *type, mf_fm call, int inputs, const mf_node_ *members, int count);
/* Members by their names, also of modules inside: "encoder/kernel" */
mf_state mf_member_state(mf_module m, const char *name);
mf_module mf_member_module(mf_module m, const char *name);
double mf_member_number(mf_module m, const char *name);        /* NaN on an error */
const char *mf_member_text(mf_module m, const char *name);     /* NULL on an error; never freed */
mf_ints mf_member_ints(mf_module m, const char *name);         /* empty on an error */
mf_function mf_member_function(mf_module m, const char *name); /* a module is one, too */
/* -> any */
mf_value mf_member_value(mf_module m, const char *name);
/* All of them, in their order: how many, each one's name and what it is; -1, NULL and
 * MF_MEMBER_NONE on an error or beyond. Of a name that is no member mf_member_kind is
 * MF_MEMBER_NONE. Names and types live as long as the process. */
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
const char *mf_module_type(mf_module m);    /* "Affine"; NULL: no module */
mf_state_type mf_state_type_of(mf_state s); /* MF_STATE_ANY: no state */
bool mf_state_same(mf_state a, mf_state b); /* whether both name one cell */
/* nnx.view: a module over the same states, in which those members of it, and of every module in it,
 * that are no states and no modules have other values; nothing changes in m. The pairs are a name
 * and a value of the member's kind: mf_module_view(m, "deterministic", true). Equal views are one
 * module, and share what was traced of them; a view that changes nothing is m itself.
 * MF_ERROR_ARGUMENT where no module has a member of the name. */
mf_module mf_module_view_n(mf_module m, const mf_node_ *members, int count);
/* -> dict: nnx.split: the states' values, a dict of dicts */
mf_value mf_module_values(mf_module m, mf_filter which);
/* dict -> states: nnx.update, all or nothing; a state keeps its tree (MF_ERROR_TREE) and its shapes
 * (MF_ERROR_SHAPE) */
mf_status mf_module_update(mf_module m, mf_value values);
/* -> tuple of dicts: nnx.split with several filters: one for each, a state in that of the first
 * filter that accepts it; MF_ERROR_ARGUMENT where none does */
mf_value mf_module_split_n(mf_module m, const mf_filter *filters, int count);
/* dicts -> module: nnx.merge: of m's structure, with states of its own that hold the values, of any
 * shapes, traced ones too: mf_module_merge(m, params, rest). Together they have each state of m
 * (MF_ERROR_TREE); what m holds twice is one state again. Called inside a transform it belongs to
 * that call, as does every state that is made there: what it holds in the end is
 * mf_module_values(merged, ...), so models go through mf_pmap as trees. */
mf_module mf_module_merge_n(mf_module m, const mf_value *values, int count);
/* f(values, inputs...): flax's apply; the states stay untouched */
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

/* ---- stateful maps. pmap and vmap with rules for the states that the function reads and writes
 * (brainstate's pmap2, vmap2 and StatefulMapping): along which axis each is mapped on the way in
 * and out. The first rule whose filter accepts a state counts. A state that no rule of
 * state_in_axes names is the same for all; one that no rule of state_out_axes names must come out
 * the same for all. Where no argument is mapped, the mapped states say the size of the axis. A
 * random state that holds one key needs no rule: it is split, its devices draw from keys of their
 * own, and the first of the n + 1 keys is what it holds afterwards, so a call with the same seed
 * gives the same numbers, however the devices are spread over processes. One that holds a key a
 * device is mapped by the rules. */
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
/* pairs of an axis and its states, any number */
mf_state_axis_rules mf_state_axes_n(const mf_axis_part_ *parts, int count);
#ifndef __cplusplus
/* clang-format off */
#define mf_axis_part(x) \
    _Generic((x), mf_filter: mf_axis_part_states, default: mf_axis_part_axis)(x)
/* clang-format on */
#define MF_STATE_AXES(...) mf_state_axes_n(MF_ITEMS_(mf_axis_part_, mf_axis_part, __VA_ARGS__))
#endif
/* A state that comes out different along the mapped axis, but no rule of state_out_axes names
 * it: an error (MF_ERROR_AXIS) that leaves it as it was; or it is stacked along axis 0, with a
 * warning or without. */
typedef enum mf_unexpected {
    MF_UNEXPECTED_RAISE = 0,
    MF_UNEXPECTED_WARN,
    MF_UNEXPECTED_IGNORE
} mf_unexpected;
/* Maps f by these options with mf_pmap_opt, mf_vmap_opt or both; f carries its rules. */
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
    mf_mapping_fn mapping_fn; /* of mf_stateful_mapping alone; NULL: vmap */
    mf_reserved reserved_;
} mf_pmap2_options;
/* Each makes a StatefulMapping. vmap takes of pmap's options the axes, their name and size; the
 * others are an error (MF_ERROR_ARGUMENT). */
mf_function mf_pmap2_opt(mf_function f, const mf_pmap2_options *o);
mf_function mf_vmap2_opt(mf_function f, const mf_pmap2_options *o);
mf_function mf_stateful_mapping_opt(mf_function f, const mf_pmap2_options *o);
/* "StatefulMapping", "pmap", "jit", "module", of a C function "function"; NULL: no function */
const char *mf_function_type(mf_function f);
/* What it was made of; a function that was made of none gives itself */
mf_function mf_function_origin(mf_function f);
/* Of a StatefulMapping */
mf_state_axis_rules mf_function_state_in_axes(mf_function f);
mf_state_axis_rules mf_function_state_out_axes(mf_function f);
/* "{0: OfType(ParamState)}"; lives as long as the scope */
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
