/* Optimisers with optax's formulas. An optimiser is a number for its options' bytes; its state is a plain tree, so init and update run
 * inside every transform. */
#include <manyfold.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct optimizer {
    enum { ADAM = 1, SGD } kind;
    bool nesterov, scheduled;
    double learning_rate, b1, b2, eps, momentum;
    mf_function schedule;
} optimizer;

/* Equal options are one optimizer, whose handle is its number here: closures over it compare equal too, and so find what was traced. */
#define TAG ((uint64_t)0x6d666f7074ull << 24) /* marks optimizer handles, so that other numbers are none */
static struct {
    pthread_mutex_t lock;
    const optimizer **at; /* interned bytes, which last */
    uint64_t count, room;
} known = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool make_room(void)
{
    if (known.count < known.room)
        return true;
    uint64_t room = known.room ? known.room * 2 : 16;
    const optimizer **more = room < 1u << 24 ? realloc(known.at, room * sizeof *more) : NULL;
    if (!more)
        return false;
    known.at = more;
    known.room = room;
    return true;
}

/* All zero when memory is out: no optimizer. */
static mf_optimizer handle_of(const optimizer *o)
{
    MF_SCOPE;
    size_t size = 0;
    const optimizer *bytes = mf_static_data(mf_static_bytes(o, sizeof *o), &size);
    mf_optimizer handle = { 0 };
    if (!bytes)
        return handle;
    pthread_mutex_lock(&known.lock);
    uint64_t i = 0;
    while (i < known.count && known.at[i] != bytes)
        i++;
    if (i < known.count || make_room()) {
        known.at[i] = bytes;
        known.count += i == known.count;
        handle.handle = TAG | i;
    }
    pthread_mutex_unlock(&known.lock);
    return handle;
}

mf_optimizer mf_adam_opt(const mf_adam_options *o)
{
    if (!o)
        return mf_adam();
    optimizer adam;
    memset(&adam, 0, sizeof adam); /* equal options are equal bytes */
    adam.kind = ADAM;
    adam.learning_rate = o->learning_rate;
    adam.b1 = o->b1;
    adam.b2 = o->b2;
    adam.eps = o->eps;
    adam.schedule = o->schedule;
    adam.scheduled = o->schedule.handle != 0;
    return handle_of(&adam);
}

mf_optimizer mf_sgd_opt(const mf_sgd_options *o)
{
    if (!o)
        return mf_sgd();
    optimizer sgd;
    memset(&sgd, 0, sizeof sgd);
    sgd.kind = SGD;
    sgd.learning_rate = o->learning_rate;
    sgd.momentum = o->momentum;
    sgd.nesterov = o->nesterov;
    return handle_of(&sgd);
}

static const optimizer *options_of(mf_optimizer handle)
{
    uint64_t i = handle.handle & ((1u << 24) - 1);
    if (mf_is_error(mf_none())) /* the child of a fork, where another thread's lock is held for good */
        return NULL;
    pthread_mutex_lock(&known.lock);
    const optimizer *o = (handle.handle ^ i) == TAG && i < known.count ? known.at[i] : NULL;
    pthread_mutex_unlock(&known.lock);
    return o;
}

static mf_value no_optimizer(void) { return mf_make_error(MF_ERROR_ARGUMENT, "this is not an optimizer"); }
static mf_value zeros(mf_value x) { return mf_zeros_like(x); }

mf_value(mf_optim_init)(mf_optimizer handle, mf_value params)
{
    MF_LAYER;
    const optimizer *o = options_of(handle);
    if (!o)
        return no_optimizer();
    mf_value count = mf_zeros(MF_SHAPE0, MF_I32);
    if (o->kind == ADAM)
        return mf_dict("count", count, "mu", mf_tree_map(zeros, params), "nu", mf_tree_map(zeros, params));
    if (o->momentum != 0)
        return mf_dict("count", count, "trace", mf_tree_map(zeros, params));
    return mf_dict("count", count);
}

/* ---- one leaf at a time */

static mf_value first_moment(void *o, mf_value mu, mf_value g)
{
    double b1 = ((optimizer *)o)->b1;
    return mf_add(mf_mul(g, 1 - b1), mf_mul(mu, b1));
}

static mf_value second_moment(void *o, mf_value nu, mf_value g)
{
    double b2 = ((optimizer *)o)->b2;
    return mf_add(mf_mul(mf_square(g), 1 - b2), mf_mul(nu, b2));
}

typedef struct step {
    optimizer o;
    mf_value rate, correction1, correction2; /* 1 - b^count */
} step;

static mf_value adam_leaf(void *context, mf_value p, mf_value mu, mf_value nu)
{
    step *s = context;
    mf_value update = mf_div(mf_div(mu, s->correction1), mf_add(mf_sqrt(mf_div(nu, s->correction2)), s->o.eps));
    return mf_sub(p, mf_astype(mf_mul(update, s->rate), mf_dtype_of(p)));
}

static mf_value trace_leaf(void *o, mf_value trace, mf_value g) { return mf_add(g, mf_mul(trace, ((optimizer *)o)->momentum)); }

static mf_value descend_leaf(void *context, mf_value p, mf_value update)
{
    step *s = context;
    return mf_sub(p, mf_astype(mf_mul(update, s->rate), mf_dtype_of(p)));
}

/* ---- updates */

static mf_value rate_at(const optimizer *o, mf_value count) { return o->scheduled ? mf_call(o->schedule, count) : mf_f(o->learning_rate); }

static mf_value adam_update(const optimizer *o, mf_value grads, mf_value *state, mf_value params)
{
    mf_value before = mf_get(*state, "count"), count = mf_add(before, 1);
    mf_value mu = mf_tree_map(mf_closure(first_moment, o), mf_get(*state, "mu"), grads);
    mf_value nu = mf_tree_map(mf_closure(second_moment, o), mf_get(*state, "nu"), grads);
    step s;
    memset(&s, 0, sizeof s);
    s.o = *o;
    s.rate = rate_at(o, before);
    s.correction1 = mf_sub(1, mf_pow(mf_scalar(o->b1, MF_F32), mf_astype(count, MF_F32)));
    s.correction2 = mf_sub(1, mf_pow(mf_scalar(o->b2, MF_F32), mf_astype(count, MF_F32)));
    *state = mf_dict("count", count, "mu", mu, "nu", nu);
    return mf_tree_map(mf_closure(adam_leaf, &s), params, mu, nu);
}

static mf_value sgd_update(const optimizer *o, mf_value grads, mf_value *state, mf_value params)
{
    mf_value before = mf_get(*state, "count"), count = mf_add(before, 1), update = grads;
    step s;
    memset(&s, 0, sizeof s);
    s.o = *o;
    s.rate = rate_at(o, before);
    if (o->momentum != 0) {
        mf_value trace = mf_tree_map(mf_closure(trace_leaf, o), mf_get(*state, "trace"), grads);
        update = o->nesterov ? mf_tree_map(mf_closure(trace_leaf, o), trace, grads) : trace;
        *state = mf_dict("count", count, "trace", trace);
    } else {
        *state = mf_dict("count", count);
    }
    return mf_tree_map(mf_closure(descend_leaf, &s), params, update);
}

/* The keys of o's state, in the order of dicts. */
static const char *keys_of(const optimizer *o) { return o->kind == ADAM ? "count, mu, nu" : o->momentum != 0 ? "count, trace" : "count"; }

/* Unset, or the error that says that this optimiser has not made the state. An error has no keys: it travels on. */
static mf_value check_state(const optimizer *o, mf_value state)
{
    char keys[256] = "";
    int count = mf_len(state);
    for (int i = 0, n = 0; i < count && n < (int)sizeof keys && mf_key(state, i); i++)
        n += snprintf(keys + n, sizeof keys - (size_t)n, i ? ", %s" : "%s", mf_key(state, i));
    if (count < 0 || strcmp(keys, keys_of(o)) == 0)
        return (mf_value){ 0 };
    return mf_make_error(MF_ERROR_TREE,
                         "mf_optim_update: the state of %s is a dict of %s, but this one has %s: mf_optim_init of another "
                         "optimizer made it",
                         o->kind == ADAM    ? "adam"
                         : o->momentum != 0 ? "sgd with momentum"
                                            : "sgd",
                         keys_of(o), *keys ? keys : "no keys");
}

mf_value(mf_optim_update)(mf_optimizer handle, mf_value grads, mf_value *opt_state, mf_value params)
{
    MF_LAYER;
    const optimizer *o = options_of(handle);
    if (!o)
        return no_optimizer();
    mf_value foreign = check_state(o, *opt_state);
    if (foreign.handle)
        return foreign;
    return o->kind == ADAM ? adam_update(o, grads, opt_state, params) : sgd_update(o, grads, opt_state, params);
}
