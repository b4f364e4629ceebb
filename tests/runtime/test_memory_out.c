/* Running out of memory at any point of compiling and running is an error: nothing crashes, nothing leaks, and a later run works. */
#include "check.h"
#include "run_text.h"

static const char *const texts[] = {
    "program (w: f32[4,16], x: f32[4,16]) { v: f32[4,16], y: f32[4,4] = pmap[axis_name=i, axis_size=4, in_axes=(0,0), out_axes=(0,1), program=(w: f32[16], x: f32[16]) {"
    " u: f32[16] = exp w\n z: f32[16] = mul u x\n g: f32[16] = psum[axes=(i)] z\n v: f32[16] = add w g\n h: f32[4] = psum_scatter[axes=(i), axis=0, tiled=true] z\n"
    " y: f32[4] = neg h\n return v, y }] w x\n return v, y }",
    "program (a: f32[2,3]) { b: f32[2,3] = pmap[axis_name=i, axis_size=2, in_axes=(0), out_axes=(0), program=(x: f32[3]) {"
    " c: f32[3] = scan[length=4, carry=1, body=(x: f32[3]) {"
    " y: f32[3] = pmap[axis_name=j, axis_size=3, in_axes=(0), out_axes=(0), program=(z: f32[]) { s: f32[] = psum[axes=(i)] z\n t: f32[] = pmax[axes=(j)] z\n"
    " u: f32[] = sub s t\n return u }] x\n return y }] x\n return c }] a\n return b }",
};

#if defined(MF_DEBUG) && MF_DEBUG
static bool attempt(const mf_program *p, mf_array **in, int64_t n, double inline_below)
{
    mf_error_object *error = NULL;
    mf_array *out[4] = { 0 };
    double got[64];
    mf_executable_inline_below(inline_below);
    mf_alloc_fail_after(n);
    mf_executable *x = mf_executable_compile(p, mf_backend_find("reference"), NULL, &error);
    bool ok = x && !(error = mf_executable_run(x, in, out));
    if (ok) {
        for (int o = 0; o < p->out_count; o++)
            ok &= read_array(out[o], got, out[o]->type->size);
        mf_alloc_fail_after(0);
        drop_all(out, p->out_count);
    }
    mf_alloc_fail_after(0);
    if (!x || error)
        CHECK(error);
    if (error)
        mf_error_ignore(error);
    mf_drop(x);
    return ok;
}
#endif

TEST(every_allocation_may_fail)
{
#if defined(MF_DEBUG) && MF_DEBUG
    for (int t = 0; t < 2; t++)
        for (int pooled = 0; pooled < 2; pooled++) {
            mf_error_object *error = NULL;
            mf_program *p = mf_program_parse(texts[t], NULL, &error);
            REQUIRE(p);
            mf_array *in[2] = { counting(t ? "f32[2,3]" : "f32[4,16]", 0), counting("f32[4,16]", 0) };
            int64_t n = 1;
            while (!attempt(p, in, n, pooled ? 0 : 1e12) && n < 5000)
                n++;
            CHECK(n > 10 && n < 5000);
            CHECK(attempt(p, in, 0, 1e12));
            drop_all(in, 2);
            mf_drop(p);
        }
    mf_executable_inline_below(200000);
#else
    (void)texts;
    SKIP("allocations fail on demand in debug builds only");
#endif
}
