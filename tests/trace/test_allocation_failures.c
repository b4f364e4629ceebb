/* Every allocation of a small program fails once: the result is an error value or right, and the next run works. */
#include "base/memory/alloc.h"
#include "check.h"

#include <manyfold.h>

__attribute__((constructor)) static void four_devices(void) { setenv("MF_NUM_CPU_DEVICES", "4", 1); }

static mf_value normalize(mf_value x) { return mf_div(x, mf_psum(x, "i")); }
static mf_value loss(mf_value w, mf_value x) { return mf_sum(mf_mul(mf_mul(w, w), x)); }
static mf_value step(mf_value w, mf_value x) { return mf_sub(w, mf_mul(0.5, mf_pmean(mf_call(mf_grad(loss), w, x), "i"))); }
static mf_value scale(void *w, mf_value v) { return mf_mul(v, *(mf_value *)w); }
static mf_value row(mf_value w) { return mf_call(mf_vmap(mf_closure(scale, &w)), mf_arange(3, MF_F32)); }
static mf_value add_up(mf_value c, mf_value x) { return mf_tuple(mf_add(c, x), c); }
static mf_value below_9(mf_value c) { return mf_less(c, 9); }
static mf_value twice(mf_value c) { return mf_mul(c, 2); }
static mf_value same(mf_value c) { return c; }
static mf_value control(mf_value x)
{
    mf_value sum = mf_get(mf_scan(add_up, mf_scalar(1, MF_F32), x), 0);
    return mf_cond(mf_greater(sum, 3), twice, same, mf_while(below_9, twice, sum));
}
static mf_state cell;
static mf_value bump(mf_value x) { return mf_mul(x, mf_state_set_value(cell, mf_add(mf_state_value(cell), 1))); }

/* 0: an error value; 1: the right number; -1: a wrong number */
static int judge(mf_value v, double expected)
{
    double got = mf_item_f64(v);
    if (isnan(got)) {
        mf_error(v);
        return 0;
    }
    return fabs(got - expected) < 1e-5 ? 1 : -1;
}

static int normalized(void) { return judge(mf_sum(mf_call(mf_pmap(normalize, "i"), mf_arange(4, MF_F32))), 1); }
static int stepped(void)
{
    mf_function f = mf_pmap(step, .axis_name = "i", .in_axes = mf_axes(MF_NONE, 0), .out_axes = MF_NONE);
    return judge(mf_sum(mf_call(f, mf_ones(MF_SHAPE(2), MF_F32), mf_ones(MF_SHAPE(4, 2), MF_F32))), 0);
}
static int rows(void) { return judge(mf_sum(mf_call(mf_jit(row), mf_scalar(2, MF_F32))), 6); }
static int controlled(void) { return judge(mf_call(mf_jit(control), mf_arange(3, MF_F32)), 32); }
static int nested(void) { return judge(mf_sum(mf_call(mf_pmap(mf_pmap(normalize, "i"), "o"), mf_ones(MF_SHAPE(2, 2), MF_F32))), 2); }
static int trees(void)
{
    mf_value t = mf_call(mf_pmap(same), mf_dict("a", mf_arange(2, MF_F32), "b", mf_tuple(mf_arange(2, MF_I32), mf_none())));
    return judge(mf_add(mf_sum(mf_get(t, "a")), mf_sum(mf_get(t, "b", 0))), 2);
}
static mf_value wave(mf_value x) { return mf_checkpoint_name(mf_sin(mf_checkpoint_name(mf_mul(x, x), "square")), "wave"); }
static mf_value wave_loss(mf_value x)
{
    mf_function f = mf_remat(mf_pmap(wave), .policy = mf_save_only_these_names("square"));
    return mf_sum(mf_call(f, x));
}
static int again(void) { return judge(mf_sum(mf_call(mf_jit(mf_grad(wave_loss)), mf_zeros(MF_SHAPE(2), MF_F32))), 0); }
static int ahead(void)
{
    mf_function lowered = mf_lower(mf_pmap(normalize, "i"), mf_struct(MF_SHAPE(4), MF_F32));
    mf_function compiled = mf_lowered_compile(lowered, .compiler_options = mf_dict("cse", mf_b(false)));
    mf_str(mf_args_info(compiled));
    mf_str(mf_out_info(lowered));
    mf_as_text(compiled, MF_TEXT_PLAN);
    return judge(mf_sum(mf_call(compiled, mf_arange(4, MF_F32))), 1);
}
static int text(void)
{
    const char *shown = mf_str(mf_add(mf_arange(4, MF_F32), 1));
    return !strcmp(shown, "[1. 2. 3. 4.]") ? 1 : strstr(shown, "memory") ? 0 : -1;
}
static int cells(void)
{
    mf_value before = mf_state_value(cell);
    double was = mf_item_f64(before);
    int r = judge(mf_sum(mf_call(mf_jit(bump), mf_ones(MF_SHAPE(1), MF_F32))), was + 1);
    mf_alloc_fail_after(0);
    double is = mf_item_f64(mf_state_value(cell));
    return r > 0 && is != was + 1 ? -1 : r == 0 && is != was && is != was + 1 ? -1 : r;
}

static int64_t run_until_it_succeeds(const char *name, int (*program)(void))
{
    int64_t n = 1, failures = 0;
    for (int in_a_row = 0; in_a_row < 200 && n < 20000; n++) { /* after a success later allocations may still fail */
        MF_SCOPE;
        mf_clear_caches();
        mf_alloc_fail_after(n);
        int result = program();
        mf_alloc_fail_after(0);
        if (!CHECK(result >= 0))
            CHECK_NOTE("%s, allocation %d: a wrong number", name, (int)n);
        failures += result == 0;
        in_a_row = result == 1 ? in_a_row + 1 : 0;
        if (result == 0 && !CHECK_EQ_INT(program(), 1))
            CHECK_NOTE("%s after the failure of allocation %d", name, (int)n);
    }
    return failures;
}

static void ignore(mf_status status, const char *message, void *context) { (void)status, (void)message, (void)context; }

TEST(no_allocation_is_too_important_to_fail)
{
#if defined(MF_DEBUG) && MF_DEBUG
    static const struct {
        const char *name;
        int (*program)(void);
    } programs[] = { { "normalized", normalized }, { "stepped", stepped }, { "rows", rows }, { "controlled", controlled },
                     { "nested", nested },         { "trees", trees },     { "text", text }, { "cells", cells },
                     { "again", again },           { "ahead", ahead } };
    mf_set_error_hook(ignore, NULL);
    cell = mf_hidden_state(mf_scalar(0, MF_F32));
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        CHECK_EQ_INT(programs[i].program(), 1);
        int64_t failures = run_until_it_succeeds(programs[i].name, programs[i].program);
        if (!CHECK(failures > 3))
            CHECK_NOTE("%s: only %d failures were injected", programs[i].name, (int)failures);
    }
    mf_set_error_hook(NULL, NULL);
#else
    (void)normalized, (void)stepped, (void)rows, (void)controlled, (void)nested, (void)trees, (void)text, (void)cells, (void)again,
        (void)ahead, (void)ignore;
    (void)run_until_it_succeeds;
    SKIP("only debug builds inject failures");
#endif
}
