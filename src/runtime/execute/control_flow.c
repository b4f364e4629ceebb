/* Control flow on a fiber: calls and cond push one frame; while and scan keep a loop at the frame whose instruction they are, and push
 * its condition or body again and again. Invariant: the carry is moved into the body and out of it, so memory that nothing else holds is
 * reused from one iteration to the next. */
#include "runtime/execute/run.h"

#include <string.h>

/* Passes an operand to an input of a frame. */
static void give(mf_fiber *f, mf_frame *caller, const mf_instr *in, int operand, mf_frame *callee, int input, bool may_take)
{
    int to = callee->block->in[input], ref = in->in[operand];
    if (to < 0)
        return;
    mf_register *from = ref >= 0 ? &caller->registers[ref] : &f->map->uniform->registers[~ref];
    if (may_take && in->moves[operand])
        mf_register_move(&callee->registers[to], from);
    else
        mf_register_copy(&callee->registers[to], from);
}

/* ------------------------------------------------------------------ calls */

static mf_step begin_call(mf_fiber *f, const mf_instr *in)
{
    mf_frame *caller = f->top;
    int first = in->eqn->op == &mf_op_cond;
    int64_t branch = 0;
    if (first) {
        branch = mf_load_i64(mf_operand_type(f, in->in[0])->dtype, mf_operand(f, in->in[0])->data);
        branch = branch < 0 ? 0 : branch >= in->block_count ? in->block_count - 1 : branch;
    }
    mf_frame *callee = mf_push(f, in->blocks[branch], false);
    if (!callee)
        return mf_step_fail(f->run_state, NULL, mf_error_out_of_memory());
    for (int i = first; i < in->in_count; i++)
        give(f, caller, in, i, callee, i - first, true);
    return MF_STEP_STAY;
}

static mf_step end_call(mf_fiber *f, const mf_instr *in, mf_frame *done)
{
    for (int o = 0; o < in->out_count; o++)
        mf_frame_result(f, done, o, mf_operand(f, in->out[o]));
    mf_run_state_lock(f->run_state);
    mf_frame_free(f->run_state, done);
    mf_run_state_unlock(f->run_state);
    return MF_STEP_NEXT;
}

/* ------------------------------------------------------------------ loops */

static mf_loop *new_loop(mf_fiber *f, const mf_instr *in, int carry_count, int stacked_count)
{
    size_t bytes = (size_t)(carry_count + stacked_count) * sizeof(mf_register);
    mf_run_state_lock(f->run_state);
    mf_loop *l = mf_run_state_get(f->run_state, sizeof *l);
    mf_register *carry = l ? mf_run_state_get(f->run_state, bytes) : NULL;
    mf_run_state_unlock(f->run_state);
    if (!carry)
        return NULL;
    *l = (mf_loop){ .instr = in, .carry_count = carry_count, .stacked_count = stacked_count, .carry = carry };
    f->top->loop = l;
    return l;
}

static void free_loop(mf_fiber *f, mf_loop *l)
{
    mf_run_state_lock(f->run_state);
    for (int i = 0; i < 2; i++)
        if (l->frames[i])
            mf_frame_free(f->run_state, l->frames[i]);
    mf_run_state_put(f->run_state, l->carry, (size_t)(l->carry_count + l->stacked_count) * sizeof(mf_register));
    mf_run_state_put(f->run_state, l, sizeof *l);
    f->top->loop = NULL;
    mf_run_state_unlock(f->run_state);
}

static void take_carry(mf_fiber *f, mf_loop *l, int first_operand)
{
    for (int i = 0; i < l->carry_count; i++) {
        mf_register *from = mf_operand(f, l->instr->in[first_operand + i]);
        if (l->instr->moves[first_operand + i])
            mf_register_move(&l->carry[i], from);
        else
            mf_register_copy(&l->carry[i], from);
    }
}

/* Makes the loop's frame for its body (0) or condition (1) the top frame, at its first instruction. */
static mf_frame *enter(mf_fiber *f, mf_loop *l, int which, const mf_block *b, bool destinations)
{
    mf_frame *caller = f->top, *frame = l->frames[which];
    if (frame) {
        frame->pc = 0;
        f->top = frame;
    } else {
        l->frames[which] = frame = mf_push(f, b, destinations);
    }
    if (!frame)
        return NULL;
    frame->below = caller;
    frame->iteration = 2 * l->iteration + which;
    return frame;
}

static mf_step finish_loop(mf_fiber *f, mf_loop *l)
{
    const mf_instr *in = l->instr;
    for (int o = 0; o < in->out_count; o++)
        mf_register_move(mf_operand(f, in->out[o]), &l->carry[o]);
    free_loop(f, l);
    return MF_STEP_NEXT;
}

/* ------------------------------------------------------------------ while */

static mf_step test_condition(mf_fiber *f, mf_loop *l)
{
    const mf_while_params *w = l->instr->eqn->params;
    mf_frame *caller = f->top, *frame = enter(f, l, 1, l->instr->blocks[0], false);
    if (!frame)
        return mf_step_fail(f->run_state, NULL, mf_error_out_of_memory());
    l->in_condition = true;
    for (int i = 0; i < w->cond_consts; i++)
        give(f, caller, l->instr, i, frame, i, false);
    for (int i = 0; i < l->carry_count; i++) {
        int to = frame->block->in[w->cond_consts + i];
        if (to >= 0)
            mf_register_copy(&frame->registers[to], &l->carry[i]);
    }
    return MF_STEP_STAY;
}

static void move_carry(mf_loop *l, mf_frame *frame, int first)
{
    for (int i = 0; i < l->carry_count; i++) {
        int to = frame->block->in[first + i];
        if (to >= 0)
            mf_register_move(&frame->registers[to], &l->carry[i]);
        else
            mf_register_release(&l->carry[i]);
    }
}

static mf_step while_body(mf_fiber *f, mf_loop *l)
{
    const mf_while_params *w = l->instr->eqn->params;
    mf_frame *caller = f->top, *frame = enter(f, l, 0, l->instr->blocks[1], false);
    if (!frame)
        return mf_step_fail(f->run_state, NULL, mf_error_out_of_memory());
    l->in_condition = false;
    for (int i = 0; i < w->body_consts; i++)
        give(f, caller, l->instr, (int)w->cond_consts + i, frame, i, false);
    move_carry(l, frame, (int)w->body_consts);
    return MF_STEP_STAY;
}

static mf_step after_while(mf_fiber *f, mf_loop *l, mf_frame *done)
{
    if (l->in_condition) {
        mf_register answer = { 0 };
        const mf_type *type = ((const mf_while_params *)l->instr->eqn->params)->cond->out[0]->type;
        mf_frame_result(f, done, 0, &answer);
        bool go_on = mf_load_i64(type->dtype, answer.data) != 0;
        mf_register_release(&answer);
        mf_frame_release(done);
        return go_on ? while_body(f, l) : finish_loop(f, l);
    }
    for (int i = 0; i < l->carry_count; i++)
        mf_frame_result(f, done, i, &l->carry[i]);
    mf_frame_release(done);
    l->iteration++;
    return test_condition(f, l);
}

/* ------------------------------------------------------------------ scan */

static int64_t scan_index(const mf_loop *l)
{
    const mf_scan_params *s = l->instr->eqn->params;
    return s->reverse ? l->length - 1 - l->iteration : l->iteration;
}

static void set_destinations(mf_loop *l, mf_frame *frame)
{
    const mf_scan_params *s = l->instr->eqn->params;
    for (int i = 0; i < l->stacked_count; i++) {
        const mf_register *all = &l->carry[l->carry_count + i];
        int64_t bytes = s->body->out[l->carry_count + i]->type->bytes;
        frame->destinations[l->carry_count + i] = (mf_destination){ all->buffer, all->data + scan_index(l) * bytes, false };
    }
}

static mf_step scan_body(mf_fiber *f, mf_loop *l)
{
    const mf_scan_params *s = l->instr->eqn->params;
    if (l->iteration == l->length)
        return finish_loop(f, l);
    mf_frame *caller = f->top, *frame = enter(f, l, 0, l->instr->blocks[0], true);
    if (!frame)
        return mf_step_fail(f->run_state, NULL, mf_error_out_of_memory());
    int first = (int)(s->consts + s->carry);
    for (int i = 0; i < s->consts; i++)
        give(f, caller, l->instr, i, frame, i, false);
    move_carry(l, frame, (int)s->consts);
    for (int i = first; i < l->instr->in_count; i++) {
        int to = frame->block->in[i], ref = l->instr->in[i];
        const mf_register *all = ref >= 0 ? &caller->registers[ref] : &f->map->uniform->registers[~ref];
        if (to >= 0)
            mf_register_view(&frame->registers[to], all, scan_index(l) * s->body->in[i]->type->bytes);
    }
    set_destinations(l, frame);
    return MF_STEP_STAY;
}

static mf_step begin_scan(mf_fiber *f, const mf_instr *in)
{
    const mf_scan_params *s = in->eqn->params;
    int carry = (int)s->carry, stacked = in->out_count - carry, first = (int)(s->consts + s->carry);
    mf_loop *l = new_loop(f, in, carry, stacked);
    if (!l)
        return mf_step_fail(f->run_state, NULL, mf_error_out_of_memory());
    l->length = s->length;
    for (int i = first; i < in->in_count; i++) /* those of the uniform block are contiguous already */
        if (in->in[i] >= 0 && !mf_register_pack(mf_operand(f, in->in[i]), mf_operand_type(f, in->in[i])))
            return mf_step_fail(f->run_state, NULL, mf_error_out_of_memory());
    for (int i = 0; i < stacked; i++)
        if (!mf_register_new(&l->carry[carry + i], in->eqn->out[carry + i]->type->bytes))
            return mf_step_fail(f->run_state, NULL, mf_error_out_of_memory());
    take_carry(f, l, (int)s->consts);
    return scan_body(f, l);
}

static mf_step after_scan(mf_fiber *f, mf_loop *l, mf_frame *done)
{
    for (int i = 0; i < l->carry_count; i++)
        mf_frame_result(f, done, i, &l->carry[i]);
    for (int i = 0; i < l->stacked_count; i++) {
        mf_register unused = { 0 };
        mf_frame_result(f, done, l->carry_count + i, &unused); /* goes to its destination */
    }
    mf_frame_release(done);
    l->iteration++;
    return scan_body(f, l);
}

/* ------------------------------------------------------------------ */

mf_step mf_control_begin(mf_fiber *f, const mf_instr *in)
{
    if (in->kind == MF_DO_CALL)
        return begin_call(f, in);
    if (in->kind == MF_DO_SCAN)
        return begin_scan(f, in);
    const mf_while_params *w = in->eqn->params;
    int consts = (int)(w->cond_consts + w->body_consts);
    mf_loop *l = new_loop(f, in, in->in_count - consts, 0);
    if (!l)
        return mf_step_fail(f->run_state, NULL, mf_error_out_of_memory());
    take_carry(f, l, consts);
    return test_condition(f, l);
}

mf_step mf_control_return(mf_fiber *f, mf_frame *done)
{
    const mf_instr *in = f->top->block->instrs[f->top->pc];
    mf_step step = MF_STEP_FAILED;
    switch (in->kind) {
    case MF_DO_CALL: step = end_call(f, in, done); break;
    case MF_DO_SCAN: step = after_scan(f, f->top->loop, done); break;
    default: step = after_while(f, f->top->loop, done); break;
    }
    if (step == MF_STEP_NEXT)
        mf_advance(f);
    return step;
}
