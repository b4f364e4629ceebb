/* C functions and closures. The identity of a C function is its address; that of a closure also the copied bytes of its context. */
#include "base/text/symbol.h"
#include "trace/checks/check_list.h"
#include "trace/checks/key_reuse.h"
#include "trace/function.h"

#include <manyfold/function.h>

#include <string.h>

/* The options of the function object: the address, how to call it, and for a closure the copied bytes of its context. */
typedef struct c_function {
    void (*address)(void);
    int arity;
    bool closure;
    char context[]; /* 16-byte aligned by the struct's size */
} c_function;

#define CONTEXT_OFFSET 32

static mf_value invoke(const c_function *c, void *context, const mf_value *a)
{
#define X(n) \
    case n: return c->closure ? ((mf_fc##n)c->address)(context, MF_A##n) : ((mf_fn##n)c->address)(MF_A##n);
    switch (c->arity) {
        MF_ARITIES(X)
    default: return c->closure ? ((mf_fc0)c->address)(context) : ((mf_fn0)c->address)();
    }
#undef X
}

mf_value mf_function_arity_error(const mf_function_object *f, int wanted, int count)
{
    return mf_fail(MF_ERROR_ARGUMENT, "%s takes %d argument%s but was called with %d", f->name, wanted, wanted == 1 ? "" : "s", count);
}

static mf_value c_function_call(mf_function_object *f, const mf_value *arguments, int count)
{
    const c_function *c = f->options;
    if (count != c->arity)
        return mf_function_arity_error(f, c->arity, count);
    /* Pass a copy of the context: the function may write to it, but the identity must not change. */
    _Alignas(16) char small[512];
    size_t size = f->options_size > CONTEXT_OFFSET ? f->options_size - CONTEXT_OFFSET : 0;
    char *context = size <= sizeof small ? small : mf_alloc(size);
    if (!context)
        return mf_value_new(mf_error_out_of_memory());
    if (size)
        memcpy(context, (const char *)f->options + CONTEXT_OFFSET, size);
    /* Operations inside the function report their own line, not that of this call. */
    mf_callee callee;
    mf_callee_begin(&callee, c->address, __builtin_return_address(0));
    mf_value result = invoke(c, context, arguments);
    mf_callee_end(&callee);
    if (context != small)
        mf_free(context);
    return result;
}

static const char *c_function_name(const void *options)
{
    const void *p;
    memcpy(&p, &((const c_function *)options)->address, sizeof p);
    return mf_symbol_of(p);
}

static mf_traced *c_function_trace(mf_function_object *f, const mf_signature *s, mf_error_object **error)
{
    mf_traced *t = mf_trace_by_calling(f, s, error);
    const void *p;
    memcpy(&p, &((const c_function *)f->options)->address, sizeof p);
    if (t)
        t->own = mf_is_own_function(p);
    if (t && !t->own && mf_check_is_on(MF_CHECK_KEYS) && (*error = mf_keys_check(t->program))) {
        mf_drop(t);
        return NULL;
    }
    return t;
}

static const mf_function_class c_function_class = {
    .name = "function", .trace = c_function_trace, .call = c_function_call, .name_of = c_function_name
};

static mf_function c_function_make(void (*address)(void), int arity, const void *context, size_t size, bool closure)
{
    MF_PARENT_ONLY((mf_function){ MF_FORK_HANDLE });
    if (!address)
        return (mf_function){ mf_handle_new(mf_error_new(MF_ERROR_ARGUMENT, "a NULL function")) };
    _Alignas(16) char small[1024];
    char *bytes = CONTEXT_OFFSET + size <= sizeof small ? small : mf_alloc(CONTEXT_OFFSET + size);
    if (!bytes)
        return (mf_function){ mf_handle_new(mf_error_out_of_memory()) };
    memset(bytes, 0, CONTEXT_OFFSET);
    c_function *c = (c_function *)(void *)bytes;
    c->address = address;
    c->arity = arity;
    c->closure = closure;
    if (size)
        memcpy(bytes + CONTEXT_OFFSET, context, size);
    mf_function f = mf_function_make(&c_function_class, NULL, bytes, CONTEXT_OFFSET + size);
    if (bytes != small)
        mf_free(bytes);
    return f;
}

#define X(n)                                                                                            \
    mf_function mf_fn_##n(mf_fn##n f) { return c_function_make((void (*)(void))f, n, NULL, 0, false); } \
    mf_function mf_closure_##n(mf_fc##n f, const void *context, size_t size)                            \
    {                                                                                                   \
        return c_function_make((void (*)(void))f, n, context, size, true);                              \
    }
X(0)
MF_ARITIES(X)
#undef X

mf_function mf_fn_same(mf_function f) { return f; }
