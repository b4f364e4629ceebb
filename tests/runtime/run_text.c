#include "run_text.h"
#if MF_HAVE_NATIVE
#include "backend/native/llvm/tier_up.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char run_error[2048];

static bool failed(mf_error_object *e)
{
    snprintf(run_error, sizeof run_error, "%s", e ? mf_error_text(e) : "no error");
    mf_drop(e);
    return false;
}

mf_executable *executable_of(const char *text, const bool *donated, mf_error_object **error)
{
    return executable_for(text, donated, NULL, error);
}

static const char *compiler(void) { return getenv("MF_TEST_BACKEND") ? getenv("MF_TEST_BACKEND") : "reference"; }

mf_executable *executable_for(const char *text, const bool *donated, mf_array *const *in, mf_error_object **error)
{
    mf_program *p = mf_program_parse(text, NULL, error);
    mf_executable *x =
        p ? mf_executable_load(
                &(mf_load_request){ .client = &mf_client_cpu, .program = p, .compiler = compiler(), .donated = donated, .in = in }, error)
          : NULL;
    mf_drop(p);
    return x;
}

mf_array *counting(const char *text, double first)
{
    const mf_type *type = mf_type_parse(&text);
    mf_array *a = mf_array_new(type);
    char *at = mf_array_data(a);
    for (int64_t i = 0; i < type->size; i++)
        mf_store_f64(type->dtype, at + i * mf_dtype_size(type->dtype), first + (double)i);
    return a;
}

mf_array *held_once(const char *text, double first)
{
    const mf_type *type = mf_type_parse(&text), *row = mf_type_without_axis(type, 0);
    mf_buffer *buffer = mf_buffer_new((size_t)row->bytes);
    for (int64_t i = 0; i < row->size; i++)
        mf_store_f64(row->dtype, (char *)buffer->data + i * mf_dtype_size(row->dtype), first + (double)i);
    int64_t strides[MF_RANK];
    mf_contiguous_strides(type, strides);
    strides[0] = 0;
    mf_array *a = mf_array_wrap(type, buffer, 0, strides, mf_sharding_single(&mf_client_cpu, 0));
    mf_drop(buffer);
    return a;
}

bool read_array(mf_array *a, double *out, int64_t count)
{
    if (a->type->size != count) {
        snprintf(run_error, sizeof run_error, "%s has not %lld elements", mf_type_name(a->type), (long long)count);
        return false;
    }
    mf_error_object *e = mf_array_copy_out(a, MF_F64, out);
    return e ? failed(e) : true;
}

bool start(mf_executable *x, mf_array *const *in, mf_array **out)
{
    mf_error_object *e = mf_executable_run(x, in, NULL, out);
    return e ? failed(e) : true;
}

void drop_all(mf_array **arrays, int count)
{
    for (int i = 0; i < count; i++)
        mf_drop(arrays[i]);
}

static bool run_once(mf_executable *x, const mf_program *p, mf_array **in, int which, double *out, int64_t count)
{
    mf_array *results[16] = { 0 };
    if (!start(x, in, results))
        return false;
    bool ok = read_array(results[which], out, count);
    drop_all(results, p->out_count);
    return ok;
}

/* Runs on the calling thread, then on the pool: both must give the same result. */
static bool run_twice(mf_executable *x, const mf_program *p, mf_array **in, int which, double *out, int64_t count)
{
    double *again = malloc((size_t)count * sizeof *again);
    mf_executable_inline_below(1e12);
    bool ok = run_once(x, p, in, which, out, count);
    mf_executable_inline_below(0);
    bool pooled = run_once(x, p, in, which, again, count);
    mf_executable_inline_below(200000);
    if (ok != pooled || (ok && memcmp(out, again, (size_t)count * sizeof *out))) {
        snprintf(run_error, sizeof run_error, "the pool gives other results than the calling thread");
        ok = false;
    }
    free(again);
    return ok;
}

bool run_text(const char *text, int which, double *out, int64_t count)
{
    mf_error_object *error = NULL;
    mf_program *p = mf_program_parse(text, NULL, &error);
    if (!p)
        return failed(error);
    mf_executable *x = mf_executable_load(&(mf_load_request){ .client = &mf_client_cpu, .program = p, .compiler = compiler() }, &error);
    if (!x) {
        mf_drop(p);
        return failed(error);
    }
    mf_array *in[16] = { 0 };
    for (int i = 0; i < p->in_count; i++) {
        mf_text t = { 0 };
        mf_type_print(&t, p->in[i]->type);
        in[i] = counting(t.at, 0);
        mf_text_free(&t);
    }
    bool ok = run_twice(x, p, in, which, out, count);
    drop_all(in, p->in_count);
    mf_drop(x);
    mf_drop(p);
    return ok;
}

void compile_all_loops(bool all)
{
#if MF_HAVE_NATIVE
    mf_native_tiers = all ? MF_TIERS_LOOPS : MF_TIERS_AS_ASKED;
#else
    (void)all;
#endif
}
