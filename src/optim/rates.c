/* Schedules: functions from the step count, which starts at 0, to a rate. Invariant: they are closures over plain numbers with all bytes
 * set (no padding), so schedules with equal options are the same function. */
#include <manyfold.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct rate {
    double from, to, power, decay;
    int64_t steps, begin, staircase;
} rate;

static mf_value in_f32(mf_value count) { return mf_astype(count, MF_F32); }

static mf_value constant(void *context, mf_value count)
{
    (void)count;
    return mf_f(((const rate *)context)->from);
}

mf_function mf_constant_schedule(double value)
{
    MF_LAYER;
    rate r = { .from = value };
    return mf_closure(constant, &r);
}

/* (from - to) * (1 - (count - begin) / steps)^power + to */
static mf_value polynomial(void *context, mf_value count)
{
    const rate *r = context;
    mf_value at = in_f32(mf_clip(mf_sub(count, r->begin), 0, r->steps)), left = mf_sub(1, mf_div(at, (double)r->steps));
    return mf_add(mf_mul(r->power == 1 ? left : mf_pow(left, r->power), r->from - r->to), r->to);
}

mf_function(mf_polynomial_schedule)(double init_value, double end_value, double power, int64_t transition_steps, int64_t transition_begin)
{
    MF_LAYER;
    rate r = { .from = init_value, .to = end_value, .power = power, .steps = transition_steps };
    r.begin = transition_begin > 0 ? transition_begin : 0;
    return transition_steps > 0 ? mf_closure(polynomial, &r) : mf_constant_schedule(init_value);
}

mf_function(mf_linear_schedule)(double init_value, double end_value, int64_t transition_steps, int64_t transition_begin)
{
    MF_LAYER;
    return mf_polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin);
}

static mf_value never(void *context, mf_value count)
{
    (void)count;
    const rate *r = context;
    return mf_make_error(MF_ERROR_ARGUMENT, "%s: decay_steps is %lld; it must be more than %lld",
                         r->staircase ? "warmup_cosine_decay_schedule" : "cosine_decay_schedule", (long long)r->steps, (long long)r->begin);
}

/* from * ((1 - alpha) * (1/2 * (1 + cos(pi * count / steps)))^power + alpha). alpha is stored in `to`. */
static mf_value cosine(const rate *r, mf_value count)
{
    mf_value at = mf_minimum(in_f32(count), (double)r->steps);
    mf_value half = mf_mul(mf_add(mf_cos(mf_div(mf_mul(at, M_PI), (double)r->steps)), 1), 0.5);
    return mf_mul(mf_add(mf_mul(r->power == 1 ? half : mf_pow(half, r->power), 1 - r->to), r->to), r->from);
}
static mf_value cosine_alone(void *context, mf_value count) { return cosine(context, count); }

mf_function mf_cosine_decay_schedule_opt(double init_value, int64_t decay_steps, const mf_cosine_decay_schedule_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_cosine_decay_schedule(init_value, decay_steps);
    rate r = { .from = init_value, .to = o->alpha, .power = o->exponent, .steps = decay_steps };
    return decay_steps > 0 ? mf_closure(cosine_alone, &r) : mf_closure(never, &r);
}

typedef struct warm_rate {
    rate up, down;
} warm_rate;

static mf_value warm_cosine(void *context, mf_value count)
{
    warm_rate *w = context;
    mf_value up = w->up.steps > 0 ? polynomial(&w->up, count) : mf_f(w->up.from);
    return mf_where(mf_less(count, w->up.steps), up, cosine(&w->down, mf_sub(count, w->up.steps)));
}

mf_function mf_warmup_cosine_decay_schedule_opt(double init_value, double peak_value, int64_t warmup_steps, int64_t decay_steps,
                                                const mf_warmup_cosine_decay_schedule_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_warmup_cosine_decay_schedule(init_value, peak_value, warmup_steps, decay_steps);
    warm_rate w = { { .from = init_value, .to = peak_value, .power = 1, .steps = warmup_steps },
                    { .from = peak_value, .power = o->exponent, .steps = decay_steps - warmup_steps } };
    w.down.to = peak_value == 0 ? 0 : o->end_value / peak_value;
    rate wrong = { .steps = decay_steps, .begin = warmup_steps, .staircase = true };
    return decay_steps > warmup_steps ? mf_closure(warm_cosine, &w) : mf_closure(never, &wrong);
}

/* from * decay^(count / steps), limited by `to` unless that is 0 */
static mf_value exponential(void *context, mf_value count)
{
    const rate *r = context;
    mf_value at = mf_sub(count, r->begin), power = mf_div(in_f32(at), (double)r->steps);
    mf_value decayed = mf_mul(mf_pow(r->decay, r->staircase ? mf_floor(power) : power), r->from);
    mf_value value = mf_where(mf_less_equal(at, 0), r->from, decayed);
    if (r->to == 0)
        return value;
    return r->decay < 1 ? mf_maximum(value, r->to) : mf_minimum(value, r->to);
}

mf_function mf_exponential_decay_opt(double init_value, int64_t transition_steps, double decay_rate, const mf_exponential_decay_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_exponential_decay(init_value, transition_steps, decay_rate);
    rate r = { .from = init_value, .to = o->end_value, .decay = decay_rate, .steps = transition_steps, .staircase = o->staircase };
    r.begin = o->transition_begin > 0 ? o->transition_begin : 0;
    return transition_steps > 0 && decay_rate != 0 ? mf_closure(exponential, &r) : mf_constant_schedule(init_value);
}

enum { PIECES = 32 };

typedef struct piece_rate {
    double from;
    int64_t count;
    double boundary[PIECES], scale[PIECES]; /* sorted by boundary */
} piece_rate;

static mf_value piecewise(void *context, mf_value count)
{
    const piece_rate *r = context;
    mf_value value = mf_scalar(r->from, MF_F32);
    for (int64_t i = 0; i < r->count; i++)
        value = mf_where(mf_less(in_f32(count), r->boundary[i]), value, mf_mul(value, r->scale[i]));
    return value;
}

static mf_value no_pieces(void *count, mf_value unused)
{
    (void)unused;
    return mf_make_error(MF_ERROR_ARGUMENT,
                         "piecewise_constant_schedule: pairs of a boundary and a scale that is not negative are needed, at most %d; %lld "
                         "numbers are given",
                         PIECES, (long long)*(int64_t *)count);
}

static void insert(piece_rate *r, double boundary, double scale)
{
    int64_t at = r->count++;
    for (; at > 0 && r->boundary[at - 1] > boundary; at--) {
        r->boundary[at] = r->boundary[at - 1];
        r->scale[at] = r->scale[at - 1];
    }
    r->boundary[at] = boundary;
    r->scale[at] = scale;
}

mf_function mf_piecewise_constant_schedule_n(double init_value, const double *boundaries_and_scales, int count)
{
    MF_LAYER;
    piece_rate r = { .from = init_value };
    int64_t given = count;
    bool fits = count >= 0 && count % 2 == 0 && count <= 2 * PIECES;
    for (int i = 0; fits && i < count; i += 2) {
        fits = boundaries_and_scales[i + 1] >= 0;
        insert(&r, boundaries_and_scales[i], boundaries_and_scales[i + 1]);
    }
    return fits ? mf_closure(piecewise, &r) : mf_closure(no_pieces, &given);
}

/* ---- one schedule after another */
typedef struct joined {
    mf_function before, after; /* kept */
    int64_t boundary;
} joined;

static mf_value at_join(void *context, mf_value count)
{
    const joined *j = context;
    return mf_where(mf_less(count, j->boundary), mf_call(j->before, count), mf_call(j->after, mf_sub(count, j->boundary)));
}

mf_function(mf_join_schedules)(mf_function before, int64_t boundary, mf_function after)
{
    MF_LAYER;
    joined j = { mf_function_keep(before), mf_function_keep(after), boundary };
    return mf_closure(at_join, &j);
}

mf_function mf_warmup_constant_schedule(double init_value, double peak_value, int64_t warmup_steps)
{
    MF_LAYER;
    return mf_linear_schedule(init_value, peak_value, warmup_steps);
}

mf_function mf_warmup_exponential_decay_schedule_opt(double init_value, double peak_value, int64_t warmup_steps, int64_t transition_steps,
                                                     double decay_rate, const mf_exponential_decay_options *o)
{
    MF_LAYER;
    mf_function up = mf_linear_schedule(init_value, peak_value, warmup_steps);
    return mf_join_schedules(up, warmup_steps, mf_exponential_decay_opt(peak_value, transition_steps, decay_rate, o));
}

/* ---- one cycle: from value[i] at step bound[i] to value[i + 1] at bound[i + 1], along a line or half a cosine */
enum { CORNERS = 4 };

typedef struct cycle {
    double bound[CORNERS], value[CORNERS];
    int64_t corners, is_cosine;
} cycle;

static mf_value around(void *context, mf_value count)
{
    const cycle *c = context;
    mf_value at = in_f32(count), rate = mf_f(c->value[0]);
    for (int64_t i = 0; i + 1 < c->corners; i++) {
        double size = fmax(c->bound[i + 1] - c->bound[i], 1), from = c->value[i], to = c->value[i + 1];
        mf_value share = mf_div(mf_sub(at, c->bound[i]), size);
        share = c->is_cosine ? mf_mul(mf_sub(1, mf_cos(mf_mul(share, M_PI))), 0.5) : share;
        rate = mf_where(mf_less(at, c->bound[i]), rate, mf_add(mf_mul(share, to - from), from));
    }
    return mf_where(mf_less(at, c->bound[c->corners - 1]), rate, c->value[c->corners - 1]);
}

static mf_value no_cycle(void *steps, mf_value unused)
{
    (void)unused;
    return mf_make_error(MF_ERROR_ARGUMENT, "onecycle_schedule: transition_steps is %lld; it must be positive",
                         (long long)*(int64_t *)steps);
}

static const mf_onecycle_schedule_options one_cycle = { .pct_start = 0.3, .pct_final = 0.85, .div_factor = 25, .final_div_factor = 1e4 };

mf_function mf_linear_onecycle_schedule_opt(int64_t transition_steps, double peak_value, const mf_onecycle_schedule_options *o)
{
    MF_LAYER;
    o = o ? o : &one_cycle;
    double steps = (double)transition_steps, low = peak_value / o->div_factor;
    cycle c = { .bound = { 0, trunc(o->pct_start * steps), trunc(o->pct_final * steps), steps },
                .value = { low, peak_value, low, low / o->final_div_factor },
                .corners = 4 };
    return transition_steps > 0 ? mf_closure(around, &c) : mf_closure(no_cycle, &transition_steps);
}

mf_function mf_cosine_onecycle_schedule_opt(int64_t transition_steps, double peak_value, const mf_onecycle_schedule_options *o)
{
    MF_LAYER;
    o = o ? o : &one_cycle;
    double steps = (double)transition_steps, low = peak_value / o->div_factor;
    cycle c = { .bound = { 0, trunc(o->pct_start * steps), steps },
                .value = { low, peak_value, low / o->final_div_factor },
                .corners = 3,
                .is_cosine = true };
    return transition_steps > 0 ? mf_closure(around, &c) : mf_closure(no_cycle, &transition_steps);
}
