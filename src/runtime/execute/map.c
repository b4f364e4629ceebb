/* Running maps: operands are sliced; a fiber runs for every device, and one for the uniform block; results are stacked in one
 * allocation, or held once. Invariants: the parent is suspended at its instruction until every fiber of the map has ended; registers of
 * the uniform block are contiguous, and are read only after they were published, under the lock. */
#include "runtime/execute/run.h"

#include <string.h>

/* ------------------------------------------------------------------ slices */

/* The strides of a slice of r along an axis, and the step from one slice to the next. True if slices are contiguous. */
static bool slice_strides(const mf_register *r, const mf_type *type, const mf_type *shard, int64_t axis, int64_t *strides, int64_t *step)
{
    int64_t all[MF_RANK], expected[MF_RANK];
    bool contiguous = true;
    if (!r->strides)
        mf_contiguous_strides(type, all);
    const int64_t *from = r->strides ? r->strides : all;
    mf_contiguous_strides(shard, expected);
    for (int i = 0, k = 0; i < type->rank; i++) {
        if (i == axis)
            continue;
        contiguous &= from[i] == expected[k] || shard->dims[k] == 1 || !shard->size;
        strides[k++] = from[i];
    }
    *step = from[axis];
    return contiguous;
}

bool mf_map_slices(const mf_register *r, const mf_type *type, const mf_type *shard, int64_t axis, int64_t *step)
{
    int64_t strides[MF_RANK];
    if (r->strides || axis)
        return slice_strides(r, type, shard, axis, strides, step);
    *step = shard->bytes;
    return true;
}

/* ------------------------------------------------------------------ beginning */

/* Allocates all memory of a map; the lock is held. */
static mf_map *new_map(mf_run_state *s, const mf_map_plan *plan)
{
    mf_map *m = mf_run_state_get(s, sizeof *m);
    if (!m)
        return NULL;
    m->plan = plan;
    m->live_after = s->maps;
    if (s->maps)
        s->maps->live_before = m;
    s->maps = m;
    m->fiber_count = plan->size + (plan->uniform->instr_count > 0);
    m->remaining = m->fiber_count;
    m->in = mf_run_state_get(s, (size_t)plan->in_count * sizeof *m->in);
    m->out = mf_run_state_get(s, (size_t)plan->out_count * sizeof *m->out);
    m->slicings = mf_run_state_get(s, (size_t)plan->in_count * sizeof *m->slicings);
    m->published = mf_run_state_get(s, (size_t)plan->uniform->register_count);
    m->uniform = mf_frame_new(s, plan->uniform, false);
    m->fibers = mf_run_state_get(s, (size_t)m->fiber_count * sizeof *m->fibers);
    if (!m->in || !m->out || !m->slicings || !m->published || !m->uniform || !m->fibers)
        return NULL;
    return m;
}

static bool take_operands(mf_fiber *f, const mf_instr *in, mf_map *m)
{
    const mf_map_plan *plan = m->plan;
    for (int i = 0; i < in->in_count; i++) {
        mf_register *from = mf_operand(f, in->in[i]), *to = &m->in[i];
        int shared = plan->uniform->in[i];
        if (shared < 0 && plan->device->in[i] < 0)
            continue;
        if (in->moves[i])
            mf_register_move(to, from);
        else
            mf_register_copy(to, from);
        if (shared < 0)
            continue;
        if (plan->axes[i] != INT64_MIN)
            to->strides = NULL; /* held once: a slice is contiguous */
        if (!mf_register_pack(to, plan->shards[i]))
            return false;
        mf_register_move(&m->uniform->registers[shared], to);
        m->uniform->registers[shared].sharding = NULL;
        m->published[shared] = true;
    }
    for (int c = 0; c < plan->uniform->constant_count; c++)
        m->published[plan->uniform->constants[c]] = true;
    return true;
}

/* Results that have a row for each device. */
static bool is_stacked(const mf_map_output *out) { return !out->uniform && out->forward < 0; }

bool mf_map_donate(const mf_map_plan *plan, const mf_instr *in, int o, const mf_register *from, mf_register *to)
{
    int i = plan->out[o].donor;
    int64_t step, bytes = plan->out[o].shard->bytes;
    if (!in->moves[i] || !mf_register_unique(from) || !mf_map_slices(from, plan->types[i], plan->shards[i], plan->axes[i], &step) ||
        (step != bytes && plan->size > 1))
        return false;
    size_t offset = (size_t)(from->data - (unsigned char *)from->buffer->data);
    if (offset + (size_t)(plan->size * bytes) > from->buffer->bytes)
        return false;
    to->buffer = mf_retain(from->buffer);
    to->data = from->data;
    return true;
}

static bool reserve_results(mf_map *m, const mf_instr *in)
{
    for (int o = 0; o < m->plan->out_count; o++)
        if (is_stacked(&m->plan->out[o]) && m->plan->out[o].donor < 0 &&
            !mf_register_new(&m->out[o], m->plan->size * m->plan->out[o].shard->bytes))
            return false;
    for (int o = 0; o < m->plan->out_count; o++) /* last, when nothing else can fail, because this takes over donated memory */
        if (is_stacked(&m->plan->out[o]) && m->plan->out[o].donor >= 0 &&
            !mf_map_donate(m->plan, in, o, &m->in[m->plan->out[o].donor], &m->out[o]) &&
            !mf_register_new(&m->out[o], m->plan->size * m->plan->out[o].shard->bytes))
            return false;
    return true;
}

int mf_map_device_at(const mf_map *m, int64_t position)
{
    for (; m->parent && m->parent->map; m = m->parent->map)
        position += mf_map_index(m->parent->map->plan, m->parent->index < 0 ? 0 : m->parent->index) * m->parent->map->plan->device->span;
    const mf_intlist *named = m->plan->devices;
    return named && position < named->count ? (int)named->at[position] : m->device + (int)position;
}

static int device_of(const mf_map *m, int64_t index)
{
    const mf_map_plan *p = m->plan;
    return index < 0 ? m->device : mf_map_device_at(m, mf_map_index(p, index) * p->device->span);
}

/* Makes the fibers, linked; the one of the uniform block is the first. The lock is held. */
static mf_fiber *spawn(mf_fiber *parent, mf_map *m)
{
    mf_run_state *s = parent->run_state;
    int64_t first = m->plan->size - m->fiber_count;
    for (int64_t i = 0; i < m->fiber_count; i++) {
        mf_fiber *f = &m->fibers[i];
        *f = (mf_fiber){ .run_state = s, .map = m, .index = first + i, .device = device_of(m, first + i) };
        f->next = i + 1 < m->fiber_count ? f + 1 : NULL;
        f->top = f->index < 0 ? m->uniform : NULL;
        f->live_after = s->live;
        if (s->live)
            s->live->live_before = f;
        s->live = f;
    }
    return m->fibers;
}

static void find_slicings(mf_map *m)
{
    const mf_map_plan *plan = m->plan;
    for (int i = 0; i < plan->in_count; i++)
        if (plan->device->in[i] >= 0)
            m->slicings[i].contiguous = mf_map_slices(&m->in[i], plan->types[i], plan->shards[i], plan->axes[i], &m->slicings[i].step);
}

mf_step mf_map_begin(mf_fiber *f, const mf_instr *in)
{
    mf_run_state *s = f->run_state;
    const mf_map_plan *plan = in->map;
    bool alone = !s->shared || (mf_run_state_attended(s) && plan->axis_size != plan->size);
    if (f->lockstep || (plan->lockstep && alone && !atomic_load_explicit(&mf_profile_on, memory_order_relaxed))) {
        mf_step step;
        if (mf_lockstep_run(f, in, plan, &step))
            return step;
    }
    mf_run_state_lock(s);
    mf_map *m = new_map(s, plan);
    mf_run_state_unlock(s);
    if (!m)
        return mf_step_fail(f->run_state, NULL, mf_error_out_of_memory());
    m->parent = f;
    m->device = f->map ? f->device : 0;
    if (!take_operands(f, in, m) || !reserve_results(m, in))
        return mf_step_fail(f->run_state, NULL, mf_error_out_of_memory());
    find_slicings(m);
    f->waiting = in;
    mf_run_state_lock(s);
    mf_fiber *list = spawn(f, m);
    s->active += m->fiber_count - 1;
    mf_run_state_unlock(s);
    mf_ready(s, list);
    return MF_STEP_SUSPENDED;
}

/* Sets an input to the device's slice of an operand, borrowed from the map. */
static bool set_input(mf_fiber *f, mf_frame *frame, int i)
{
    const mf_map_plan *plan = f->map->plan;
    const mf_register *all = &f->map->in[i];
    mf_register *to = &frame->registers[frame->block->in[i]];
    mf_register slice = { .data = all->data + f->index * f->map->slicings[i].step };
    if (f->map->slicings[i].contiguous) {
        *to = slice;
        return true;
    }
    int64_t strides[MF_RANK], step;
    slice_strides(all, plan->types[i], plan->shards[i], plan->axes[i], strides, &step);
    slice.strides = strides;
    return mf_register_packed_copy(to, &slice, plan->shards[i]);
}

bool mf_map_enter(mf_fiber *f)
{
    mf_map *m = f->map;
    mf_frame *frame = mf_push(f, m->plan->device, m->plan->out_count > 0);
    bool made = frame;
    for (int i = 0; made && i < m->plan->in_count; i++)
        if (frame->block->in[i] >= 0)
            made = set_input(f, frame, i);
    for (int o = 0; made && o < m->plan->out_count; o++)
        if (is_stacked(&m->plan->out[o]))
            frame->destinations[o] = (mf_destination){ NULL, m->out[o].data + f->index * m->plan->out[o].shard->bytes, m->out[o].buffer };
    if (!made)
        mf_run_state_fail(f->run_state, mf_error_out_of_memory());
    return made;
}

/* ------------------------------------------------------------------ the uniform block and its readers */

static bool all_published(const mf_map *m, const mf_instr *in)
{
    for (int i = 0; i < in->in_count; i++)
        if (!m->published[in->in[i]])
            return false;
    return true;
}

mf_step mf_await(mf_fiber *f, const mf_instr *in)
{
    mf_run_state *s = f->run_state;
    mf_run_state_lock(s);
    if (all_published(f->map, in)) {
        mf_run_state_unlock(s);
        return MF_STEP_NEXT;
    }
    f->waiting = in;
    f->next = f->map->waiters;
    f->map->waiters = f;
    int64_t left = --s->active;
    mf_run_state_unlock(s);
    if (!left)
        mf_run_state_over(s);
    return MF_STEP_SUSPENDED;
}

void mf_map_wake(mf_map *map, mf_fiber **list)
{
    const mf_instr *seen = NULL;
    bool answer = false;
    mf_fiber *still = NULL;
    for (mf_fiber *f = map->waiters, *next; f; f = next) {
        next = f->next;
        if (f->waiting != seen) {
            seen = f->waiting;
            answer = all_published(map, seen);
        }
        mf_fiber **to = answer ? list : &still;
        map->parent->run_state->active += answer;
        f->next = *to;
        *to = f;
    }
    map->waiters = still;
}

void mf_map_publish(mf_fiber *f, const mf_instr *in)
{
    mf_map *m = f->map;
    mf_run_state *s = f->run_state;
    mf_fiber *list = NULL;
    for (int o = 0; o < in->out_count; o++)
        if (!mf_register_pack(&m->uniform->registers[in->out[o]], m->uniform->block->types[in->out[o]])) {
            mf_run_state_fail(s, mf_error_out_of_memory());
            return;
        }
    mf_run_state_lock(s);
    for (int o = 0; o < in->out_count; o++)
        m->published[in->out[o]] = true;
    mf_map_wake(m, &list);
    mf_run_state_unlock(s);
    if (list)
        mf_ready(s, list);
}

/* ------------------------------------------------------------------ the end */

static void free_map(mf_run_state *s, mf_map *m)
{
    const mf_map_plan *p = m->plan;
    for (int i = 0; i < p->in_count; i++)
        mf_register_release(&m->in[i]);
    if (m->live_before)
        m->live_before->live_after = m->live_after;
    else
        s->maps = m->live_after;
    if (m->live_after)
        m->live_after->live_before = m->live_before;
    mf_frame_free(s, m->uniform);
    mf_run_state_put(s, m->in, (size_t)p->in_count * sizeof *m->in);
    mf_run_state_put(s, m->out, (size_t)p->out_count * sizeof *m->out);
    mf_run_state_put(s, m->slicings, (size_t)p->in_count * sizeof *m->slicings);
    mf_run_state_put(s, m->published, (size_t)p->uniform->register_count);
    mf_run_state_put(s, m->fibers, (size_t)m->fiber_count * sizeof *m->fibers);
    mf_run_state_put(s, m, sizeof *m);
}

/* A result that is an operand shares its memory and layout. Memory that is borrowed from an outer map is copied. */
static void forward(mf_run_state *s, mf_map *m, const mf_map_output *out, mf_register *to)
{
    mf_register_copy(to, &m->in[out->forward]);
    if (m->parent->map && !to->buffer && !mf_register_own(to, out->type))
        mf_run_state_fail(s, mf_error_out_of_memory());
    to->sharding = m->parent->map ? NULL : out->sharding;
}

/* All fibers have ended: hands the results to the parent, and continues it. */
static void finish(mf_run_state *s, mf_map *m)
{
    mf_fiber *parent = m->parent;
    const mf_instr *in = parent->top->block->instrs[parent->top->pc];
    for (int o = 0; o < m->plan->out_count; o++) {
        const mf_map_output *out = &m->plan->out[o];
        int ref = m->plan->device->out[o];
        mf_register *to = mf_operand(parent, in->out[o]);
        if (out->forward >= 0) {
            forward(s, m, out, to);
            continue;
        }
        if (ref >= 0)
            mf_register_move(to, &m->out[o]);
        else
            mf_register_copy(to, &m->uniform->registers[~ref]);
        if (ref < 0 && !mf_register_own(to, m->uniform->block->types[~ref])) /* a collective may hand on an operand */
            mf_run_state_fail(s, mf_error_out_of_memory());
        to->strides = out->contiguous ? NULL : out->strides;
        to->sharding = parent->map ? NULL : out->sharding;
    }
    mf_run_state_lock(s);
    free_map(s, m);
    mf_run_state_unlock(s);
    mf_advance(parent);
    parent->next = NULL;
    mf_ready(s, parent);
}

/* Stores results that were not computed in place in the stack, and uniform results from index 0. */
static bool give_results(mf_fiber *f, mf_frame *done)
{
    mf_map *m = f->map;
    for (int o = 0; o < m->plan->out_count && f->index >= 0; o++) {
        if ((done->block->out[o] < 0 && m->plan->out[o].uniform) || m->plan->out[o].forward >= 0)
            continue;
        if (!m->plan->out[o].uniform) {
            mf_register unused = { 0 };
            mf_frame_result(f, done, o, &unused); /* goes to its destination */
        } else if (f->index == 0) {
            mf_frame_result(f, done, o, &m->out[o]);
            if (!mf_register_own(&m->out[o], m->plan->out[o].shard))
                return false;
        }
    }
    return true;
}

void mf_map_leave(mf_run_state *s, mf_map *m)
{
    bool last = --m->remaining == 0;
    int64_t left = last ? 1 : --s->active; /* the last one leaves its place in the count to the parent */
    mf_run_state_unlock(s);
    if (last)
        finish(s, m);
    else if (!left)
        mf_run_state_over(s);
}

mf_step mf_map_end(mf_fiber *f)
{
    mf_run_state *s = f->run_state;
    mf_map *m = f->map;
    if (!give_results(f, f->top))
        return mf_step_fail(f->run_state, NULL, mf_error_out_of_memory());
    mf_run_state_lock(s);
    if (f->index >= 0)
        mf_frame_free(s, f->top);
    f->top = NULL;
    if (f->live_before)
        f->live_before->live_after = f->live_after;
    else
        s->live = f->live_after;
    if (f->live_after)
        f->live_after->live_before = f->live_before;
    mf_map_leave(s, m);
    return MF_STEP_SUSPENDED;
}
