/* Stepping a fiber: one instruction after the other, until it has to wait or has ended. Control flow pushes and pops frames, so no state
 * of a device is on a thread's stack. Invariant: between instructions a register of the block holds a value exactly if it is still read. */
#include "runtime/collectives/collectives.h"

#include <string.h>

mf_register *mf_operand(const mf_fiber *f, int ref) { return ref >= 0 ? &f->top->registers[ref] : &f->map->uniform->registers[~ref]; }

const mf_type *mf_operand_type(const mf_fiber *f, int ref)
{
    return ref >= 0 ? f->top->block->types[ref] : f->map->uniform->block->types[~ref];
}

void mf_advance(mf_fiber *f)
{
    const mf_instr *in = f->top->block->instrs[f->top->pc++];
    if (f->index < 0 && f->top == f->map->uniform)
        mf_map_publish(f, in);
    for (int i = 0; i < in->last_use_count; i++)
        mf_register_release(&f->top->registers[in->last_uses[i]]);
}

mf_frame *mf_push(mf_fiber *f, const mf_block *b, bool destinations)
{
    mf_run_state_lock(f->run_state);
    mf_frame *made = mf_frame_new(f->run_state, b, destinations);
    mf_run_state_unlock(f->run_state);
    if (!made)
        return NULL;
    made->below = f->top;
    f->top = made;
    return made;
}

mf_step mf_step_fail(mf_run_state *s, const mf_instr *in, mf_error_object *e)
{
    if (in && in->eqn && in->eqn->address)
        mf_error_set_address(e, in->eqn->address);
    mf_run_state_fail(s, e);
    return MF_STEP_FAILED;
}

static mf_step fail(mf_fiber *f, mf_error_object *e)
{
    const mf_instr *in = f->top->pc < f->top->block->instr_count ? f->top->block->instrs[f->top->pc] : NULL;
    return mf_step_fail(f->run_state, in, e);
}

/* ------------------------------------------------------------------ segments */

/* Gets memory for a result: where the frame's caller wants it, that of an operand that dies here, or new memory. */
static bool make_result(mf_fiber *f, const mf_instr *in, int o)
{
    mf_frame *frame = f->top;
    mf_register *r = &frame->registers[in->out[o]];
    int destination = frame->destinations ? frame->block->destination[in->out[o]] : -1,
        donor = in->kernel->alias ? in->kernel->alias[o] : -1;
    if (destination >= 0 && (frame->destinations[destination].buffer ||
                             frame->destinations[destination].borrowed)) { /* small results are copied there at the end */
        r->buffer = mf_retain(frame->destinations[destination].buffer);
        r->data = frame->destinations[destination].data;
        return true;
    }
    if (donor >= 0 && in->moves[donor]) {
        mf_register *from = &frame->registers[in->in[donor]];
        if (mf_register_unique(from)) {
            r->buffer = mf_retain(from->buffer); /* the operand's reference ends when it dies, right after this */
            r->data = from->data;
            return true;
        }
    }
    return mf_register_new(r, frame->block->types[in->out[o]]->bytes);
}

static mf_step run_segment(mf_fiber *f, const mf_instr *in)
{
    void **pointers = mf_pointers(in->in_count + in->out_count);
    void *scratch = in->kernel->scratch_bytes ? mf_scratch(in->kernel->scratch_bytes) : NULL;
    if (!pointers || (!scratch && in->kernel->scratch_bytes))
        return fail(f, mf_error_out_of_memory());
    for (int i = 0; i < in->in_count; i++) {
        mf_register *r = mf_operand(f, in->in[i]);
        if (r->strides && !mf_register_pack(r, mf_operand_type(f, in->in[i])))
            return fail(f, mf_error_out_of_memory());
        pointers[i] = r->data;
    }
    for (int o = 0; o < in->out_count; o++) {
        if (!make_result(f, in, o))
            return fail(f, mf_error_out_of_memory());
        pointers[in->in_count + o] = f->top->registers[in->out[o]].data;
    }
    int64_t start = mf_profile_begin();
    mf_error_object *e = in->kernel->compiler->run(in->kernel, (const void *const *)pointers, pointers + in->in_count, scratch);
    mf_scratch_done();
    if (start)
        mf_run_state_record(f->run_state, start, f->index < 0 && f->map ? MF_TRACK_ONCE : MF_TRACK_DEVICE, f->device, in->source, 0);
    return e ? fail(f, e) : MF_STEP_NEXT;
}

static mf_step run_alias(mf_fiber *f, const mf_instr *in)
{
    mf_register *from = mf_operand(f, in->in[0]);
    for (int o = 0; o < in->out_count; o++) {
        mf_register *to = &f->top->registers[in->out[o]];
        if (!mf_register_packed_copy(to, from, mf_operand_type(f, in->in[0])))
            return fail(f, mf_error_out_of_memory());
        to->sharding = NULL;
    }
    return MF_STEP_NEXT;
}

/* ------------------------------------------------------------------ results of blocks */

static bool written_to_destination(mf_frame *done, int output, const mf_register *from, const mf_type *type)
{
    const mf_destination *destination = done->destinations ? &done->destinations[output] : NULL;
    if (!destination || !destination->data)
        return false;
    if (from->strides) {
        int64_t strides[MF_RANK];
        mf_contiguous_strides(type, strides);
        mf_copy_strided(type->rank, type->dims, mf_dtype_size(type->dtype), destination->data, strides, from->data, from->strides);
    } else if (from->data != destination->data) {
        memcpy(destination->data, from->data, (size_t)type->bytes);
    }
    return true;
}

void mf_frame_result(mf_fiber *f, mf_frame *done, int output, mf_register *to)
{
    const mf_block *b = done->block;
    int ref = b->out[output];
    mf_register *from = ref >= 0 ? &done->registers[ref] : &f->map->uniform->registers[~ref];
    const mf_type *type = ref >= 0 ? b->types[ref] : f->map->uniform->block->types[~ref];
    if (written_to_destination(done, output, from, type))
        return;
    if (b->out_moves[output])
        mf_register_move(to, from);
    else
        mf_register_copy(to, from);
}

/* ------------------------------------------------------------------ the loop */

static mf_step execute(mf_fiber *f, const mf_instr *in)
{
    switch (in->kind) {
    case MF_DO_SEGMENT: return run_segment(f, in);
    case MF_DO_ALIAS: return run_alias(f, in);
    case MF_DO_AXIS_INDEX: return mf_axis_index_value(f, in);
    case MF_DO_COLLECTIVE: return mf_collective(f, in);
    case MF_DO_MAP: return mf_map_begin(f, in);
    case MF_DO_AWAIT: return mf_await(f, in);
    default: return mf_control_begin(f, in);
    }
}

void mf_run_state_leave(mf_run_state *s)
{
    mf_run_state_lock(s);
    int64_t left = --s->active;
    mf_run_state_unlock(s);
    if (!left)
        mf_run_state_over(s);
}

static mf_step end_of_frame(mf_fiber *f)
{
    mf_frame *done = f->top;
    if (done->below) {
        f->top = done->below;
        return mf_control_return(f, done);
    }
    if (f->map)
        return mf_map_end(f);
    for (int o = 0; o < done->block->out_count; o++)
        mf_frame_result(f, done, o, &f->run_state->out[o]);
    mf_run_state_lock(f->run_state);
    f->run_state->done = true;
    mf_frame_free(f->run_state, done);
    f->top = NULL;
    f->run_state->live = NULL;
    mf_run_state_unlock(f->run_state);
    return MF_STEP_FAILED; /* nothing more to do: the caller leaves */
}

void mf_fiber_step(mf_fiber *f)
{
    mf_run_state *s = f->run_state;
    mf_step step = MF_STEP_STAY;
    if (f->exchange) {
        mf_exchange_end(f->exchange);
        return;
    }
    if (!f->top && !mf_map_enter(f))
        step = MF_STEP_FAILED;
    while (step != MF_STEP_FAILED && step != MF_STEP_SUSPENDED && step != MF_STEP_YIELD) {
        if (atomic_load_explicit(&s->failed, memory_order_relaxed)) {
            step = MF_STEP_FAILED;
        } else if (f->top->pc == f->top->block->instr_count) {
            step = end_of_frame(f);
        } else {
            step = execute(f, f->top->block->instrs[f->top->pc]);
            if (step == MF_STEP_NEXT || step == MF_STEP_YIELD)
                mf_advance(f);
        }
    }
    if (step == MF_STEP_FAILED) {
        mf_run_state_leave(s);
    } else if (step == MF_STEP_YIELD) {
        f->next = NULL;
        mf_ready(s, f);
    }
}
