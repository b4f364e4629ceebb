/* manyfold/state.h */
#ifndef MANYFOLD_STATE_H
#define MANYFOLD_STATE_H

#include <manyfold/function.h>

MF_BEGIN_

/* ------------------------------------------------------------------ states, modules, stateful maps */
typedef enum mf_state_type { MF_STATE_ANY = 0, MF_PARAM_STATE, MF_BATCH_STATE, MF_RANDOM_STATE, MF_HIDDEN_STATE } mf_state_type;
mf_state mf_param_state(mf_value initial), mf_batch_state(mf_value initial), mf_hidden_state(mf_value initial);
mf_state mf_random_state(uint64_t seed), mf_random_state_of_key(mf_value key);
mf_value mf_random_next(mf_state random);             /* a fresh key; advances the state */
mf_value mf_state_value(mf_state s);                  /* state.value */
mf_value mf_state_set_value_v(mf_state s, mf_value v);/* state.value = v; returns v */
mf_filter mf_of_type(mf_state_type type), mf_path_contains(const char *text), mf_not(mf_filter f), mf_everything(void);

typedef struct mf_member { const char *name; mf_state state; mf_module module; mf_value value; } mf_member;
typedef struct mf_node_ { int kind; uint64_t handle; } mf_node_;
mf_node_ mf_node_state(mf_state s); mf_node_ mf_node_module(mf_module m); mf_node_ mf_node_name(const char *name);
mf_node_ mf_node_int(int i); mf_node_ mf_node_double(double d);
mf_module mf_module_n1(const char *type, mf_fm1 call, const mf_node_ *members, int count);
mf_module mf_module_n2(const char *type, mf_fm2 call, const mf_node_ *members, int count);
mf_state  mf_member_state(mf_module m, const char *name);
mf_module mf_member_module(mf_module m, const char *name);
double    mf_member_number(mf_module m, const char *name);
mf_value  mf_module_values(mf_module m, mf_filter which);           /* nnx.split: the states' values, a dict of dicts */
void      mf_module_update(mf_module m, mf_value values);           /* nnx.update */
mf_function mf_module_pure(mf_module m);                            /* f(values, inputs...): flax's apply; the states stay untouched */
#ifndef __cplusplus
#define mf_state_set_value(s, x) mf_state_set_value_v(s, mf_v(x))
#define mf_node(x) _Generic((x), mf_state: mf_node_state, mf_module: mf_node_module, char *: mf_node_name, const char *: mf_node_name, int: mf_node_int, double: mf_node_double)(x)
#define mf_module_new(type, call, ...) _Generic((call), mf_fm1: mf_module_n1, mf_fm2: mf_module_n2)(type, call, \
    (const mf_node_[]){ MF_EACH_(mf_node, __VA_ARGS__) }, MF_COUNT_(__VA_ARGS__))
#define mf_apply(m, ...) mf_call(mf_module_pure(m), __VA_ARGS__)
#endif

typedef struct mf_state_axis_rules {              /* flat pairs: MF_STATE_AXES(0, mf_of_type(MF_PARAM_STATE), 1, ...) */
    mf_axis axis; mf_filter states; mf_axis axis_2; mf_filter states_2; mf_axis axis_3; mf_filter states_3; mf_reserved reserved_;
} mf_state_axis_rules;
#ifndef __cplusplus
#define MF_STATE_AXES(...) ((mf_state_axis_rules){ __VA_ARGS__, .reserved_ = 0 })
#endif
/* pmap with rules for the states that the function reads and writes: which axis of a state is mapped. A state that no rule names is
 * broadcast, and then must not come out varying. A random state that holds one key is split: its devices get keys of their own, and the
 * first of the n + 1 keys is what it holds afterwards. */
typedef struct mf_pmap2_options {           /* pmap's, then the states' */
    const char *axis_name; mf_axis in_axes, out_axes; mf_ints static_broadcasted_argnums, donate_argnums; mf_device_list devices;
    const char *backend; int64_t axis_size; const mf_shape *global_arg_shapes;
    mf_state_axis_rules state_in_axes, state_out_axes;
    mf_reserved reserved_;
} mf_pmap2_options;
mf_function mf_pmap2_opt(mf_function f, const mf_pmap2_options *o);
#ifndef __cplusplus
#define mf_pmap2(...) MF_TRANSFORM_(mf_pmap2_opt, mf_pmap2_options, __VA_ARGS__)
#endif

MF_END_

#endif
