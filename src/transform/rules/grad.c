/* Reverse mode: forward mode, then partial evaluation with the primal inputs known, then transposition of the unknown half, which is linear
 * in the tangents. Invariant: primal results and residuals are computed by the known half alone. */
#include "transform/rules/sweep.h"
#include "transform/rules/tangent.h"

/* The two halves of a program's derivative. known: takes the inputs; gives p's outputs, then residuals. linear: takes residuals, then
 * tangents of the inputs that have one; gives tangents of the outputs with gives[o]. */
typedef struct halves {
    mf_partial_result parts;
    bool *has, *gives;
    mf_arena arena;
} halves;

static void halves_drop(halves *h)
{
    mf_drop(h->parts.known);
    mf_drop(h->parts.unknown);
    mf_arena_free(&h->arena);
}

/* The derivative j without the unwanted tangents. */
static mf_program *wanted_tangents(mf_program *j, int primal_count, const bool *want, bool *gives, mf_error_object **error)
{
    int *out = mf_alloc(((size_t)j->out_count + 1) * sizeof *out), count = 0;
    for (int o = 0; out && o < primal_count; o++)
        out[count++] = o;
    for (int o = 0, at = primal_count; out && o < primal_count; o++) {
        if (gives[o] && want[o])
            out[count++] = at;
        at += gives[o];
        gives[o] = gives[o] && want[o];
    }
    mf_program *result = out ? mf_program_select(j, NULL, j->in_count, out, count, error) : NULL;
    if (!out)
        *error = mf_error_out_of_memory();
    mf_free(out);
    mf_drop(j);
    return result;
}

static bool check_primals_known(const bool *known_out, int count, mf_error_object **error)
{
    for (int o = 0; o < count; o++)
        if (!known_out[o]) {
            *error = mf_error_new(MF_ERROR_ARGUMENT, "reverse-mode differentiation: result %d can't be computed apart from its tangent", o);
            return false;
        }
    return true;
}

static bool split_derivative(halves *h, mf_program *j, int in_count, int out_count, const mf_axis_env *env, mf_error_object **error)
{
    bool *known_in = mf_arena_alloc(&h->arena, (size_t)j->in_count + 1), *known_out = mf_arena_alloc(&h->arena, (size_t)j->out_count + 1);
    bool *force = mf_arena_alloc(&h->arena, (size_t)j->out_count + 1);
    if (!known_in || !known_out || !force) {
        *error = mf_error_out_of_memory();
        return false;
    }
    for (int i = 0; i < j->in_count; i++)
        known_in[i] = i < in_count;
    for (int o = out_count; o < j->out_count; o++)
        force[o] = true; /* a tangent that depends on no input tangent is a constant zero, but must be an output of the linear half */
    return mf_partial_eval_program(j, env, known_in, force, known_out, &h->parts, error) &&
           check_primals_known(known_out, out_count, error);
}

/* want[o]: the outputs whose tangents are needed. On failure h holds nothing. */
static bool differentiate(halves *h, const mf_program *p, const mf_axis_env *env, const bool *wrt, const bool *want,
                          mf_error_object **error)
{
    *h = (halves){ 0 };
    h->has = mf_arena_alloc(&h->arena, (size_t)p->in_count + 1);
    h->gives = mf_arena_alloc(&h->arena, (size_t)p->out_count + 1);
    mf_program *j = NULL;
    if (h->has && h->gives) {
        for (int i = 0; i < p->in_count; i++)
            h->has[i] = wrt[i] && mf_tangent_type(p->in[i]->type);
        j = mf_jvp_program(p, env, h->has, h->gives, error);
        j = j ? wanted_tangents(j, p->out_count, want, h->gives, error) : NULL;
    } else {
        *error = mf_error_out_of_memory();
    }
    bool good = j && split_derivative(h, j, p->in_count, p->out_count, env, error);
    mf_drop(j);
    if (!good)
        halves_drop(h);
    return good;
}

/* Transposes the linear half. gives_ct: by its inputs; with all_zeros, zeros are instantiated for all tangents. */
static mf_program *transposed(halves *h, const mf_axis_env *env, bool *gives_ct, bool all_zeros, mf_error_object **error)
{
    const mf_program *u = h->parts.unknown;
    bool *linear = mf_arena_alloc(&h->arena, (size_t)u->in_count + 1), *has = mf_arena_alloc(&h->arena, (size_t)u->out_count + 1);
    if (!linear || !has) {
        *error = mf_error_out_of_memory();
        return NULL;
    }
    for (int i = 0; i < u->in_count; i++) {
        linear[i] = i >= h->parts.residual_count;
        gives_ct[i] = linear[i] && all_zeros;
    }
    for (int o = 0; o < u->out_count; o++)
        has[o] = true;
    return mf_transpose_program(u, env, linear, has, gives_ct, error);
}

/* ---- value and gradients */

static mf_error_object *check_scalar(const mf_program *p)
{
    const mf_type *t = p->out_count ? p->out[0]->type : NULL;
    if (!t)
        return mf_error_new(MF_ERROR_ARGUMENT, "grad: the function gives no result to differentiate");
    if (t->rank)
        return mf_error_new(MF_ERROR_SHAPE, "Gradient only defined for scalar-output functions. Output was %s.", mf_type_name(t));
    if (!mf_dtype_is_inexact(t->dtype)) /* complex results are holomorphic, or the caller has refused them */
        return mf_error_new(MF_ERROR_DTYPE, "grad requires real-valued outputs (a floating type), but got %s.", mf_dtype_name(t->dtype));
    return NULL;
}

/* The result takes p's inputs and gives p's outputs, then the gradients. */
static mf_program *join(halves *h, const mf_program *p, const mf_program *t, const bool *gives_ct, const bool *wrt, const mf_axis_env *env,
                        mf_error_object **error)
{
    mf_builder b;
    mf_builder_init(&b, env);
    const mf_program *k = h->parts.known;
    mf_variable **in = mf_arena_alloc(&h->arena, ((size_t)p->in_count + 1) * sizeof *in);
    mf_variable **out = mf_arena_alloc(&h->arena, (size_t)(k->out_count + p->in_count + 1) * sizeof *out);
    mf_variable **ct_in = mf_arena_alloc(&h->arena, ((size_t)t->in_count + 1) * sizeof *ct_in);
    mf_variable **ct = mf_arena_alloc(&h->arena, ((size_t)t->out_count + 1) * sizeof *ct);
    int count = p->out_count, residuals = h->parts.residual_count;
    if (!in || !out || !ct_in || !ct) {
        mf_builder_fail_memory(&b);
        return mf_builder_finish(&b, NULL, 0, error);
    }
    for (int i = 0; i < p->in_count; i++)
        in[i] = mf_builder_input(&b, p->in[i]->type);
    mf_inline(&b, k, in, out);
    for (int r = 0; r < residuals; r++)
        ct_in[r] = out[p->out_count + r];
    b.address = NULL;
    if (h->gives[0])
        ct_in[residuals] = mf_tangent_ones(&b, p->out[0]->type);
    mf_inline(&b, t, ct_in, ct);
    for (int i = 0, tangent = residuals, made = 0; i < p->in_count; i++) {
        if (!wrt[i])
            continue;
        bool given = h->has[i] && gives_ct[tangent++];
        out[count++] = given ? ct[made++] : mf_cotangent_zeros(&b, p->in[i]->type);
    }
    return mf_builder_finish(&b, out, count, error);
}

mf_program *mf_grad_program(const mf_program *p, const mf_axis_env *env, const bool *wrt, mf_error_object **error)
{
    halves h;
    mf_program *result = NULL;
    if ((*error = check_scalar(p)))
        return NULL;
    bool *want = mf_calloc((size_t)p->out_count + 1, sizeof *want);
    if (!want) {
        *error = mf_error_out_of_memory();
        return NULL;
    }
    want[0] = true;
    if (differentiate(&h, p, env, wrt, want, error)) {
        bool *gives_ct = mf_arena_alloc(&h.arena, (size_t)h.parts.unknown->in_count + 1);
        mf_program *t = gives_ct ? transposed(&h, env, gives_ct, false, error) : NULL;
        if (!gives_ct)
            *error = mf_error_out_of_memory();
        if (t)
            result = join(&h, p, t, gives_ct, wrt, env, error);
        mf_drop(t);
        halves_drop(&h);
    }
    mf_free(want);
    return result;
}

/* ---- vjp */

/* Takes a cotangent for every inexact output and passes on those that the transposed program t needs. */
static mf_program *backward_of(halves *h, const mf_program *p, const mf_program *t, const mf_axis_env *env, mf_error_object **error)
{
    mf_builder b;
    mf_builder_init(&b, env);
    mf_variable **in = mf_arena_alloc(&h->arena, ((size_t)t->in_count + 1) * sizeof *in);
    mf_variable **out = mf_arena_alloc(&h->arena, ((size_t)t->out_count + 1) * sizeof *out);
    int count = h->parts.residual_count;
    if (!in || !out) {
        mf_builder_fail_memory(&b);
        return mf_builder_finish(&b, NULL, 0, error);
    }
    for (int r = 0; r < count; r++)
        in[r] = mf_builder_input(&b, t->in[r]->type);
    for (int o = 0; o < p->out_count; o++) {
        const mf_type *type = mf_tangent_type(p->out[o]->type);
        mf_variable *ct = type ? mf_builder_input(&b, type) : NULL;
        if (ct && h->gives[o])
            in[count++] = ct;
    }
    mf_inline(&b, t, in, out);
    return mf_builder_finish(&b, out, t->out_count, error);
}

bool mf_vjp_program(const mf_program *p, const mf_axis_env *env, int arguments, const bool *auxiliary, mf_program **forward,
                    mf_program **backward, int *residuals, mf_error_object **error)
{
    halves h;
    bool *wrt = mf_calloc((size_t)p->in_count + (size_t)p->out_count + 1, sizeof *wrt), *want = wrt ? wrt + p->in_count : NULL;
    *forward = *backward = NULL;
    if (!wrt) {
        *error = mf_error_out_of_memory();
        return false;
    }
    for (int i = 0; i < arguments; i++)
        wrt[i] = mf_tangent_type(p->in[i]->type);
    for (int o = 0; o < p->out_count; o++)
        want[o] = !auxiliary || !auxiliary[o];
    if (differentiate(&h, p, env, wrt, want, error)) {
        bool *gives_ct = mf_arena_alloc(&h.arena, (size_t)h.parts.unknown->in_count + 1);
        mf_program *t = gives_ct ? transposed(&h, env, gives_ct, true, error) : NULL;
        if (!gives_ct)
            *error = mf_error_out_of_memory();
        *backward = t ? backward_of(&h, p, t, env, error) : NULL;
        *forward = *backward ? mf_retain(h.parts.known) : NULL;
        *residuals = h.parts.residual_count;
        mf_drop(t);
        halves_drop(&h);
    }
    mf_free(wrt);
    return *forward;
}

bool mf_linearize_program(const mf_program *p, const mf_axis_env *env, const bool *wrt, bool *gives, mf_program **forward,
                          mf_program **linear, int *residuals, mf_error_object **error)
{
    halves h;
    if (!differentiate(&h, p, env, wrt, gives, error))
        return false;
    for (int o = 0; o < p->out_count; o++)
        gives[o] = h.gives[o];
    *forward = mf_retain(h.parts.known);
    *linear = mf_retain(h.parts.unknown);
    *residuals = h.parts.residual_count;
    halves_drop(&h);
    return true;
}
