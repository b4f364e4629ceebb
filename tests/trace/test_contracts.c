/* The contracts of tracing: identity, capture, state cells, handles, errors. */
#include "check.h"

#include <manyfold.h>
#include <pthread.h>
#include <stdio.h>

static int traces;
static mf_value counted(mf_value x)
{
    traces++;
    return mf_mul(x, 2);
}

TEST(one_trace_a_signature)
{
    traces = 0;
    mf_function f = mf_jit(counted);
    mf_call(f, mf_arange(4, MF_F32));
    mf_call(f, mf_arange(4, MF_F32));
    mf_call(mf_jit(counted), mf_arange(4, MF_F32));
    CHECK_EQ_INT(traces, 1);
    mf_call(f, mf_arange(5, MF_F32));
    CHECK_EQ_INT(traces, 2);
    mf_call(f, mf_arange(4, MF_I32));
    CHECK_EQ_INT(traces, 3);
    mf_call(f, 1.0);
    mf_call(f, mf_scalar(1, MF_F32)); /* strong: another type */
    CHECK_EQ_INT(traces, 5);
}

typedef struct factor {
    double by;
} factor;
static mf_value scaled(void *context, mf_value x)
{
    traces++;
    return mf_mul(x, ((factor *)context)->by);
}

TEST(a_closure_is_its_bytes)
{
    traces = 0;
    for (int i = 0; i < 3; i++) {
        MF_SCOPE;
        factor f = { 3 };
        CHECK_STR(mf_str(mf_call(mf_jit(mf_closure(scaled, &f)), mf_arange(3, MF_F32))), "[0. 3. 6.]");
    }
    CHECK_EQ_INT(traces, 1);
    factor g = { 4 };
    CHECK_STR(mf_str(mf_call(mf_jit(mf_closure(scaled, &g)), mf_arange(3, MF_F32))), "[0. 4. 8.]");
    CHECK_EQ_INT(traces, 2);
}

static mf_value size_times(mf_value x) { return mf_mul(mf_psum(1, "i"), x); }
static mf_value jitted_size_times(mf_value x) { return mf_call(mf_jit(size_times), x); }

TEST(the_axis_environment_is_part_of_the_key)
{
    CHECK_STR(mf_str(mf_call(mf_vmap(jitted_size_times, .axis_name = "i"), mf_ones(MF_SHAPE(4), MF_F32))), "[4. 4. 4. 4.]");
    CHECK_STR(mf_str(mf_call(mf_vmap(jitted_size_times, .axis_name = "i"), mf_ones(MF_SHAPE(2), MF_F32))), "[2. 2.]");
}

/* ---- capture: an inner function uses a tracer of the outer one */

static mf_value times_outer(void *context, mf_value x) { return mf_mul(x, *(mf_value *)context); }
static mf_value loss_of_outer(void *context, mf_value x) { return mf_sum(mf_mul(mf_mul(x, x), *(mf_value *)context)); }
static mf_value step_outer(void *context, mf_value carry, mf_value x)
{
    mf_value next = mf_add(carry, mf_mul(x, *(mf_value *)context));
    return mf_tuple(next, next);
}
static mf_value by_jit(mf_value y) { return mf_call(mf_jit(mf_closure(times_outer, &y)), mf_arange(3, MF_F32)); }
static mf_value by_vmap(mf_value y) { return mf_call(mf_vmap(mf_closure(times_outer, &y)), mf_arange(3, MF_F32)); }
static mf_value by_grad(mf_value y) { return mf_call(mf_grad(mf_closure(loss_of_outer, &y)), mf_arange(3, MF_F32)); }
static mf_value by_scan(mf_value y) { return mf_get(mf_scan(mf_closure(step_outer, &y), 0.0, mf_arange(3, MF_F32)), 1); }
static mf_value by_cond(mf_value y)
{
    return mf_cond(mf_greater(y, 0), mf_closure(times_outer, &y), mf_closure(times_outer, &y), mf_arange(3, MF_F32));
}
static mf_value summed_by_scan(mf_value y) { return mf_sum(by_scan(y)); }

TEST(capture_through_every_transform)
{
    const char *wanted = "[0. 2. 4.]";
    CHECK_STR(mf_str(mf_call(mf_jit(by_jit), 2.0)), wanted);
    CHECK_STR(mf_str(mf_call(mf_jit(by_vmap), 2.0)), wanted);
    CHECK_STR(mf_str(mf_call(mf_jit(by_grad), 1.0)), wanted);
    CHECK_STR(mf_str(mf_call(mf_jit(by_scan), 1.0)), "[0. 1. 3.]");
    CHECK_STR(mf_str(mf_call(mf_jit(by_cond), 2.0)), wanted);
    CHECK_STR(mf_str(mf_call(mf_grad(summed_by_scan), 1.0)), "4.0");
    CHECK_STR(mf_str(mf_call(mf_vmap(by_jit), mf_arange(2, MF_F32))), "[[0. 0. 0.]\n [0. 1. 2.]]");
}

static mf_value leaked;
static mf_value leak(mf_value x)
{
    leaked = mf_keep(mf_mul(x, 2));
    return x;
}

TEST(an_escaped_tracer_names_its_trace)
{
    mf_call(mf_jit(leak), mf_arange(3, MF_F32));
    mf_value e = mf_add(leaked, 1);
    CHECK(mf_is_error(e));
    CHECK_CONTAINS(mf_error(e), "leak");
    CHECK_EQ_INT(mf_error_status(e), MF_ERROR_TRACER);
    mf_release(leaked);
}

static mf_value store(mf_value x)
{
    leaked = mf_mul(x, 2);
    return x;
}

TEST(a_value_that_outlives_its_trace_says_what_to_do)
{
    mf_call(mf_jit(store), mf_arange(3, MF_F32));
    mf_value e = mf_add(leaked, 1);
    CHECK_EQ_INT(mf_error_status(e), MF_ERROR_SCOPE);
    CHECK_CONTAINS(mf_error(e), "was used after its trace had ended: return it from the function");
}

/* ---- state cells */

static mf_state counter;
static mf_value bump(mf_value x)
{
    mf_state_set_value(counter, mf_add(mf_state_value(counter), 1));
    return mf_mul(x, mf_state_value(counter));
}
static mf_value bump_sum(mf_value x) { return mf_sum(bump(x)); }
static mf_value bump_step(mf_value carry, mf_value x) { return mf_tuple(mf_add(carry, bump(x)), x); }

TEST(cells_move_through_transforms)
{
    counter = mf_hidden_state(mf_scalar(0, MF_F32));
    CHECK_STR(mf_str(mf_call(mf_jit(bump), mf_ones(MF_SHAPE(2), MF_F32))), "[1. 1.]");
    CHECK_STR(mf_str(mf_call(mf_jit(bump), mf_ones(MF_SHAPE(2), MF_F32))), "[2. 2.]");
    CHECK_STR(mf_str(mf_state_value(counter)), "2.0");
    CHECK_STR(mf_str(mf_call(mf_grad(bump_sum), mf_ones(MF_SHAPE(2), MF_F32))), "[3. 3.]");
    CHECK_STR(mf_str(mf_state_value(counter)), "3.0");
    mf_call(mf_jit(mf_fn(bump)), mf_make_error(MF_ERROR_IO, "nothing happens"));
    CHECK_STR(mf_str(mf_state_value(counter)), "3.0");
    mf_value r = mf_scan(bump_step, mf_scalar(0, MF_F32), mf_ones(MF_SHAPE(3), MF_F32));
    CHECK_STR(mf_str(mf_get(r, 0)), "15.0");
    CHECK_STR(mf_str(mf_state_value(counter)), "6.0");
}

static mf_value affine_call(mf_module self, mf_value delta)
{
    mf_state weight = mf_member_state(self, "weight");
    return mf_state_set_value(weight, mf_add(mf_state_value(weight), delta));
}

TEST(a_stateful_module_through_pmap)
{
    int n = mf_local_device_count();
    mf_module model = mf_module_new("Affine", affine_call, "weight", mf_param_state(mf_ones(MF_SHAPE(n), MF_F32)));
    mf_state_axis_rules over_0 = MF_STATE_AXES(0, mf_of_type(MF_PARAM_STATE));
    mf_function f = mf_pmap2(model, .axis_name = "devices", .state_in_axes = over_0, .state_out_axes = over_0);
    mf_value updated = mf_call(f, mf_reshape(mf_arange(n * 4, MF_F32), MF_SHAPE(n, 4)));
    CHECK_EQ_INT(mf_ndim(updated), 2);
    mf_value weights = mf_state_value(mf_member_state(model, "weight"));
    CHECK_EQ_INT(mf_dim(weights, 1), 4);
    CHECK_NEAR(mf_item_f64(mf_get(weights, n - 1, 3)), n * 4, 0);
    mf_value e = mf_call(mf_pmap(model), mf_ones(MF_SHAPE(n, 4), MF_F32)); /* no rule: the varying write is refused */
    CHECK(mf_is_error(e));
    CHECK_CONTAINS(mf_error(e), "weight");
    CHECK_NEAR(mf_item_f64(mf_get(mf_state_value(mf_member_state(model, "weight")), n - 1, 3)), n * 4, 0);
}

/* ---- handles */

TEST(a_handle_used_after_its_scope_says_so)
{
    mf_value inner;
    {
        MF_SCOPE;
        inner = mf_add(mf_arange(3, MF_F32), 1);
    }
    mf_value e = mf_add(inner, 1);
    CHECK(mf_is_error(e));
    CHECK_EQ_INT(mf_error_status(e), MF_ERROR_SCOPE);
    mf_error(e);
}

TEST(assign_outlives_the_scope)
{
    mf_value v = mf_scalar(1, MF_F32);
    for (int i = 0; i < 100; i++) {
        MF_SCOPE;
        mf_assign(&v, mf_add(v, 1));
    }
    CHECK_STR(mf_str(v), "101.0");
}

static void *add_in_thread(void *p)
{
    mf_value kept = *(mf_value *)p;
    MF_SCOPE;
    double got = mf_item_f64(mf_sum(mf_call(mf_jit(counted), kept)));
    return got == 12 ? p : NULL;
}

TEST(kept_values_cross_threads_and_cold_functions_trace_once)
{
    mf_clear_caches();
    traces = 0;
    mf_value x = mf_keep(mf_arange(4, MF_F32));
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, add_in_thread, &x);
    for (int i = 0; i < 4; i++) {
        void *r;
        pthread_join(t[i], &r);
        CHECK(r != NULL);
    }
    CHECK_EQ_INT(traces, 1);
    mf_release(x);
}

/* ---- programs as text */

static mf_value affine_loss(mf_value w, mf_value x) { return mf_sum(mf_mul(w, x)); }

TEST(program_text)
{
    const char *text = mf_program_text(mf_grad(affine_loss), mf_arange(3, MF_F32), mf_arange(3, MF_F32));
    CHECK_CONTAINS(text, "f32[3]");
    CHECK_CONTAINS(text, "return");
}
