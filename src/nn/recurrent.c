/* Recurrent cells as in Flax NNX, and the layers that run them over sequences: RNN and Bidirectional. A cell is a module (carry, input) ->
 * (carry, output). For cells with a dense_i map, RNN applies it to the inputs of all steps in one product before the scan; any other cell
 * is called at each step. Both give the same result. */
#include <manyfold.h>

typedef enum cell_kind { OTHER_CELL = 0, SIMPLE_CELL, GRU_CELL, OPTIMIZED_LSTM_CELL } cell_kind;

static bool failed(mf_value x) { return mf_kind_of(x) == MF_KIND_ERROR; }
static mf_value module_error(mf_module m) { return (mf_value){ m.handle }; }

/* ---- construction of cells */

typedef mf_nn_cell_options cell_options;

static mf_module dense_i(mf_state rngs, int in_features, int out_features, bool bias, const cell_options *o)
{
    return mf_nn_linear(rngs, in_features, out_features, .no_bias = !bias, .dtype = o->dtype, .param_dtype = o->param_dtype,
                        .kernel_init = o->kernel_init, .bias_init = o->bias_init);
}

static mf_module dense_h(mf_state rngs, int features, int out_features, bool bias, const cell_options *o)
{
    return mf_nn_linear(rngs, features, out_features, .no_bias = !bias, .dtype = o->dtype, .param_dtype = o->param_dtype,
                        .kernel_init = o->recurrent_kernel_init.make ? o->recurrent_kernel_init : mf_init_orthogonal(1),
                        .bias_init = o->bias_init);
}

/* None, or an error about the numbers of features. */
static mf_value check_features(const char *type, int in_features, int hidden_features)
{
    if (in_features < 1 || hidden_features < 1 || hidden_features > INT32_MAX / 4)
        return mf_make_error(MF_ERROR_ARGUMENT, "%s: in_features is %d and hidden_features %d; they must be above 0", type, in_features,
                             hidden_features);
    return mf_none();
}

enum { COMMON_MEMBERS = 12 };

/* The members of all cells besides their maps. */
static void put_common(mf_node_ *at, cell_kind kind, int in_features, int hidden_features, const cell_options *o)
{
    const mf_node_ common[COMMON_MEMBERS] = {
        mf_node("in_features"),     mf_node(in_features),
        mf_node("hidden_features"), mf_node(hidden_features),
        mf_node("carry_dtype"),     mf_node((int)(o->param_dtype == MF_DTYPE_DEFAULT ? MF_F32 : o->param_dtype)),
        mf_node("cell_kind"),       mf_node((int)kind),
        mf_node("gate_fn"),         mf_node(o->gate_fn.handle ? o->gate_fn : mf_fn(mf_sigmoid)),
        mf_node("activation_fn"),   mf_node(o->activation_fn.handle ? o->activation_fn : mf_fn(mf_tanh))
    };
    for (int i = 0; i < COMMON_MEMBERS; i++)
        at[i] = common[i];
}

static mf_value gate(mf_module self, mf_value x) { return mf_call(mf_member_function(self, "gate_fn"), x); }
static mf_value activation(mf_module self, mf_value x) { return mf_call(mf_member_function(self, "activation_fn"), x); }
static mf_value map_of(mf_module self, const char *name, mf_value x) { return mf_call(mf_member_module(self, name), x); }

/* None, or an error: x is not (..., in_features). */
static mf_value check_input(mf_module self, mf_value x)
{
    int features = (int)mf_member_number(self, "in_features");
    if (failed(x))
        return x;
    if (mf_ndim(x) < 1 || mf_dim(x, -1) != features)
        return mf_make_error(MF_ERROR_SHAPE, "%s: the input is %s; it must be (..., %d)", mf_module_type(self),
                             mf_str_shape(mf_shape_of(x)), features);
    return mf_none();
}

/* ---- one step. x is the input after dense_i. */

static mf_value simple_step(mf_module self, mf_value h, mf_value x)
{
    mf_value next = mf_add(x, map_of(self, "dense_h", h));
    if (mf_member_number(self, "residual") != 0)
        next = mf_add(next, h);
    next = mf_astype(activation(self, next), mf_dtype_of(h));
    return mf_tuple(next, next);
}

static mf_value gru_step(mf_module self, mf_value h, mf_value x)
{
    mf_value xs = mf_split(x, 3, -1), hs = mf_split(map_of(self, "dense_h", h), 3, -1);
    mf_value r = gate(self, mf_add(mf_get(xs, 0), mf_get(hs, 0))), z = gate(self, mf_add(mf_get(xs, 1), mf_get(hs, 1)));
    mf_value n = activation(self, mf_add(mf_get(xs, 2), mf_mul(r, mf_get(hs, 2))));
    mf_value next = mf_astype(mf_add(mf_mul(mf_sub(1, z), n), mf_mul(z, h)), mf_dtype_of(h));
    return mf_tuple(next, next);
}

/* gates: i, f, g, o, before their activation. */
static mf_value lstm_next(mf_module self, mf_value c, const mf_value gates[4])
{
    mf_value i = gate(self, gates[0]), f = gate(self, gates[1]), g = activation(self, gates[2]), o = gate(self, gates[3]);
    mf_value next = mf_astype(mf_add(mf_mul(f, c), mf_mul(i, g)), mf_dtype_of(c));
    mf_value h = mf_astype(mf_mul(o, activation(self, next)), mf_dtype_of(c));
    return mf_tuple(mf_tuple(next, h), h);
}

static mf_value optimized_lstm_step(mf_module self, mf_value carry, mf_value x)
{
    mf_value c, h, parts;
    mf_unpack(carry, &c, &h);
    parts = mf_split(mf_add(x, map_of(self, "dense_h", h)), 4, -1);
    return lstm_next(self, c, (mf_value[]){ mf_get(parts, 0), mf_get(parts, 1), mf_get(parts, 2), mf_get(parts, 3) });
}

static mf_value step_of(mf_module self, cell_kind kind, mf_value carry, mf_value x)
{
    switch (kind) {
    case SIMPLE_CELL: return simple_step(self, carry, x);
    case GRU_CELL: return gru_step(self, carry, x);
    case OPTIMIZED_LSTM_CELL: return optimized_lstm_step(self, carry, x);
    case OTHER_CELL: break;
    }
    return mf_call(self, carry, x);
}

static mf_value cell_call(mf_module self, mf_value carry, mf_value x)
{
    mf_value wrong = check_input(self, x);
    if (failed(wrong))
        return wrong;
    return step_of(self, (cell_kind)mf_member_number(self, "cell_kind"), carry, map_of(self, "dense_i", x));
}

static mf_value lstm_call(mf_module self, mf_value carry, mf_value x)
{
    static const char *const inputs[] = { "ii", "if_", "ig", "io" }, *const recurrent[] = { "hi", "hf", "hg", "ho" };
    mf_value c, h, gates[4], wrong = check_input(self, x);
    if (failed(wrong))
        return wrong;
    mf_unpack(carry, &c, &h);
    for (int i = 0; i < 4; i++)
        gates[i] = mf_add(map_of(self, inputs[i], x), map_of(self, recurrent[i], h));
    return lstm_next(self, c, gates);
}

/* ---- the cells */

mf_module mf_nn_simple_cell_opt(mf_state rngs, int in_features, int hidden_features, const mf_nn_cell_options *o)
{
    MF_LAYER;
    cell_options own = o ? *o : (cell_options){ 0 };
    mf_value wrong = check_features("SimpleCell", in_features, hidden_features);
    if (failed(wrong))
        return (mf_module){ wrong.handle };
    own.dtype = own.dtype == MF_DTYPE_DEFAULT ? MF_F32 : own.dtype; /* only this cell defaults to f32, as in Flax */
    mf_node_ members[6 + COMMON_MEMBERS] = { mf_node("dense_h"),  mf_node(dense_h(rngs, hidden_features, hidden_features, false, &own)),
                                             mf_node("dense_i"),  mf_node(dense_i(rngs, in_features, hidden_features, true, &own)),
                                             mf_node("residual"), mf_node((int)own.residual) };
    put_common(members + 6, SIMPLE_CELL, in_features, hidden_features, &own);
    return mf_module_n("SimpleCell", (mf_fm)cell_call, 2, members, 6 + COMMON_MEMBERS);
}

/* A cell of two maps, each to gates * hidden_features; dense_h has the bias if bias_h, else dense_i. */
static mf_module gated(const char *type, cell_kind kind, int gates, bool bias_h, mf_state rngs, int in_features, int hidden_features,
                       const cell_options *o)
{
    cell_options none = { 0 };
    mf_value wrong = check_features(type, in_features, hidden_features);
    o = o ? o : &none;
    if (failed(wrong))
        return (mf_module){ wrong.handle };
    mf_node_ members[4 + COMMON_MEMBERS] = { mf_node("dense_i"), mf_node(dense_i(rngs, in_features, gates * hidden_features, !bias_h, o)),
                                             mf_node("dense_h"),
                                             mf_node(dense_h(rngs, hidden_features, gates * hidden_features, bias_h, o)) };
    put_common(members + 4, kind, in_features, hidden_features, o);
    return mf_module_n(type, (mf_fm)cell_call, 2, members, 4 + COMMON_MEMBERS);
}

mf_module mf_nn_gru_cell_opt(mf_state rngs, int in_features, int hidden_features, const mf_nn_cell_options *o)
{
    MF_LAYER;
    return gated("GRUCell", GRU_CELL, 3, false, rngs, in_features, hidden_features, o);
}

mf_module mf_nn_optimized_lstm_cell_opt(mf_state rngs, int in_features, int hidden_features, const mf_nn_cell_options *o)
{
    MF_LAYER;
    return gated("OptimizedLSTMCell", OPTIMIZED_LSTM_CELL, 4, true, rngs, in_features, hidden_features, o);
}

mf_module mf_nn_lstm_cell_opt(mf_state rngs, int in_features, int hidden_features, const mf_nn_cell_options *o)
{
    MF_LAYER;
    static const char *const names[] = { "ii", "if_", "ig", "io", "hi", "hf", "hg", "ho" };
    cell_options none = { 0 };
    mf_node_ members[16 + COMMON_MEMBERS];
    mf_value wrong = check_features("LSTMCell", in_features, hidden_features);
    o = o ? o : &none;
    if (failed(wrong))
        return (mf_module){ wrong.handle };
    for (int i = 0; i < 8; i++) {
        members[2 * i] = mf_node(names[i]);
        members[2 * i + 1] = mf_node(i < 4 ? dense_i(rngs, in_features, hidden_features, false, o)
                                           : dense_h(rngs, hidden_features, hidden_features, true, o));
    }
    put_common(members + 16, OTHER_CELL, in_features, hidden_features, o);
    return mf_module_n("LSTMCell", (mf_fm)lstm_call, 2, members, 16 + COMMON_MEMBERS);
}

mf_value mf_nn_initialize_carry(mf_module cell, mf_shape input_shape)
{
    MF_LAYER;
    if (failed(module_error(cell)))
        return module_error(cell);
    if (mf_member_kind(cell, "hidden_features") != MF_MEMBER_NUMBER || mf_member_kind(cell, "carry_dtype") != MF_MEMBER_NUMBER)
        return mf_make_error(MF_ERROR_ARGUMENT, "mf_nn_initialize_carry: %s is no cell of this library; its first carry has to be given",
                             mf_module_type(cell) ? mf_module_type(cell) : "this");
    mf_value shape = mf_struct(input_shape, MF_F32); /* an error if the shape is invalid */
    if (failed(shape))
        return shape;
    if (input_shape.rank < 1)
        return mf_make_error(MF_ERROR_SHAPE, "mf_nn_initialize_carry: the input is a scalar; it must be (..., features)");
    input_shape.dims[input_shape.rank - 1] = (int64_t)mf_member_number(cell, "hidden_features");
    mf_value h = mf_zeros(input_shape, (mf_dtype)mf_member_number(cell, "carry_dtype"));
    bool lstm = mf_member_kind(cell, "ii") == MF_MEMBER_MODULE || mf_member_number(cell, "cell_kind") == OPTIMIZED_LSTM_CELL;
    return lstm && !failed(h) ? mf_tuple(h, h) : h;
}

/* ---- sequences */

mf_value mf_flip_sequences_opt(mf_value x, const mf_flip_sequences_options *o)
{
    MF_LAYER;
    mf_flip_sequences_options none = { 0 };
    o = o ? o : &none;
    int batch = o->num_batch_dims ? o->num_batch_dims : 1, axis = o->time_major ? 0 : batch, rank = mf_ndim(x);
    if (failed(x))
        return x;
    if (batch < 0 || batch >= MF_MAX_RANK || rank < batch + 1)
        return mf_make_error(MF_ERROR_SHAPE, "mf_flip_sequences: %s has no %d batch dimensions and one of time",
                             mf_str_shape(mf_shape_of(x)), batch);
    if (!o->seq_lengths.handle)
        return mf_flip(x, axis);
    mf_shape shape = mf_shape_of(x), steps = { .rank = batch + 1 };
    for (int i = 0; i <= batch; i++)
        steps.dims[i] = shape.dims[i];
    int64_t count = shape.dims[axis];
    mf_value back = mf_sub(count - 1, mf_iota(MF_I32, steps, axis));
    mf_value at = mf_remainder(mf_add(back, mf_expand_dims(o->seq_lengths, axis)), count);
    for (int i = batch + 1; i < rank; i++)
        at = mf_expand_dims(at, -1);
    return mf_take_along_axis(x, mf_broadcast_to(at, shape), axis);
}

/* The arguments of one run over a sequence. */
typedef struct sequence_run {
    mf_module cell;
    bool time_major, return_carry, reverse, keep_order;
    int64_t unroll;
    mf_value initial_carry, seq_lengths; /* unset if not given */
} sequence_run;

typedef struct scan_body {
    mf_module cell;
    int64_t kind;
    int64_t keeps_carries;
} scan_body;

static mf_value body_step(void *context, mf_value carry, mf_value x)
{
    const scan_body *b = context;
    mf_value next, y;
    mf_unpack(step_of(b->cell, (cell_kind)b->kind, carry, x), &next, &y);
    return mf_tuple(next, b->keeps_carries ? mf_tuple(next, y) : y);
}

/* (time, batch, ...), (batch) -> (batch, ...): the carry after each sequence's last step. */
static mf_value at_last_step(void *lengths, mf_value carries)
{
    mf_value last = mf_sub(*(mf_value *)lengths, 1);
    mf_shape shape = mf_shape_of(carries);
    int64_t count = shape.dims[0];
    last = mf_where(mf_less(last, 0), mf_add(last, count), last);
    for (int i = mf_ndim(last) + 1; i < shape.rank; i++)
        last = mf_expand_dims(last, -1);
    shape.dims[0] = 1;
    return mf_squeeze(mf_take_along_axis(carries, mf_broadcast_to(mf_expand_dims(last, 0), shape), 0), 0);
}

static mf_value last_carries(mf_value carries, mf_value lengths)
{
    mf_value leaves = mf_tree_leaves(carries), last[2];
    int count = mf_len(leaves);
    if (count < 1 || count > 2)
        return mf_make_error(MF_ERROR_TREE, "RNN: seq_lengths with return_carry needs a carry of one or two arrays, and this has %d",
                             count);
    for (int i = 0; i < count; i++)
        last[i] = at_last_step(&lengths, mf_get(leaves, i));
    return mf_tree_unflatten(carries, mf_list_n(last, count));
}

/* None, or an error about the inputs of an RNN. */
static mf_value check_sequences(const sequence_run *r, mf_value inputs)
{
    mf_shape shape = mf_shape_of(inputs);
    if (failed(inputs) || failed(module_error(r->cell)))
        return failed(inputs) ? inputs : module_error(r->cell);
    if (shape.rank < 2)
        return mf_make_error(MF_ERROR_SHAPE, "RNN: the inputs are %s; they must be %s", mf_str_shape(shape),
                             r->time_major ? "(time, ..., features)" : "(..., time, features)");
    if (!r->seq_lengths.handle)
        return mf_none();
    mf_shape lengths = mf_shape_of(r->seq_lengths);
    bool same = lengths.rank == shape.rank - 2;
    for (int i = 0; same && i < lengths.rank; i++)
        same = lengths.dims[i] == shape.dims[r->time_major ? i + 1 : i];
    if (!same && !failed(r->seq_lengths))
        return mf_make_error(MF_ERROR_SHAPE, "RNN: seq_lengths is %s; it must have one number for each sequence of the inputs, %s",
                             mf_str_shape(lengths), mf_str_shape(shape));
    return failed(r->seq_lengths) ? r->seq_lengths : mf_none();
}

static mf_value flipped(const sequence_run *r, mf_value x, int batch)
{
    return mf_flip_sequences(x, .seq_lengths = r->seq_lengths, .num_batch_dims = batch, .time_major = r->time_major);
}

/* (carry, outputs) */
static mf_value run_cell(const sequence_run *r, mf_value inputs)
{
    mf_value wrong = check_sequences(r, inputs), carry, out;
    if (failed(wrong))
        return wrong;
    int rank = mf_ndim(inputs), axis = r->time_major ? 0 : rank - 2, batch = rank - 2;
    bool slices = r->seq_lengths.handle && r->return_carry;
    cell_kind kind = mf_member_kind(r->cell, "cell_kind") == MF_MEMBER_NUMBER ? (cell_kind)mf_member_number(r->cell, "cell_kind")
                                                                              : OTHER_CELL;
    scan_body b = { r->cell, kind, slices };
    mf_shape one = mf_shape_of(inputs);
    for (int i = axis; i + 1 < rank; i++)
        one.dims[i] = one.dims[i + 1];
    one.rank--;
    mf_value first = r->initial_carry.handle ? r->initial_carry : mf_nn_initialize_carry(r->cell, one);
    if (kind != OTHER_CELL && failed(wrong = check_input(r->cell, inputs)))
        return wrong;
    if (r->reverse)
        inputs = flipped(r, inputs, batch);
    inputs = mf_moveaxis(inputs, axis, 0);
    if (kind != OTHER_CELL)
        inputs = map_of(r->cell, "dense_i", inputs); /* all steps at once; after the moveaxis, which so moves less */
    mf_unpack(mf_scan(mf_closure(body_step, &b), first, inputs, .unroll = r->unroll), &carry, &out);
    if (slices) {
        mf_value carries = mf_get(out, 0);
        out = mf_get(out, 1);
        carry = last_carries(carries, r->seq_lengths);
    }
    out = mf_moveaxis(out, 0, axis);
    if (r->reverse && r->keep_order)
        out = flipped(r, out, batch);
    return mf_tuple(carry, out);
}

/* ---- RNN: called with inputs, then optionally initial_carry and seq_lengths */

/* Argument i; unset if it is None or not given. */
static mf_value given(const mf_value *inputs, int count, int i)
{
    return i < count && mf_kind_of(inputs[i]) != MF_KIND_NONE ? inputs[i] : (mf_value){ 0 };
}

static mf_value check_count(const char *type, int count)
{
    if (count < 1 || count > 3)
        return mf_make_error(MF_ERROR_ARGUMENT, "%s: takes inputs, an initial_carry and seq_lengths, but was called with %d", type, count);
    return mf_none();
}

static mf_value rnn_call(mf_module self, const mf_value *inputs, int count)
{
    mf_value wrong = check_count("RNN", count);
    if (failed(wrong))
        return wrong;
    sequence_run r = { .cell = mf_member_module(self, "cell"),
                       .time_major = mf_member_number(self, "time_major") != 0,
                       .return_carry = mf_member_number(self, "return_carry") != 0,
                       .reverse = mf_member_number(self, "reverse") != 0,
                       .keep_order = mf_member_number(self, "keep_order") != 0,
                       .unroll = (int64_t)mf_member_number(self, "unroll"),
                       .initial_carry = given(inputs, count, 1),
                       .seq_lengths = given(inputs, count, 2) };
    mf_value result = run_cell(&r, inputs[0]);
    return r.return_carry || failed(result) ? result : mf_get(result, 1);
}

mf_module mf_nn_rnn_opt(mf_module cell, const mf_nn_rnn_options *o)
{
    MF_LAYER;
    mf_nn_rnn_options none = { 0 };
    o = o ? o : &none;
    const mf_node_ members[] = { mf_node("cell"),         mf_node(cell),
                                 mf_node("time_major"),   mf_node((int)o->time_major),
                                 mf_node("return_carry"), mf_node((int)o->return_carry),
                                 mf_node("reverse"),      mf_node((int)o->reverse),
                                 mf_node("keep_order"),   mf_node((int)o->keep_order),
                                 mf_node("unroll"),       mf_node(o->unroll) };
    return mf_module_n("RNN", (mf_fm)rnn_call, -1, members, (int)(sizeof members / sizeof *members));
}

/* ---- Bidirectional */

static mf_value joined(mf_module self, mf_value forward, mf_value backward)
{
    if (mf_member_kind(self, "merge_fn") == MF_MEMBER_FUNCTION)
        return mf_call(mf_member_function(self, "merge_fn"), forward, backward);
    return mf_concatenate(mf_list(forward, backward), -1);
}

static mf_value bidirectional_call(mf_module self, const mf_value *inputs, int count)
{
    mf_value wrong = check_count("Bidirectional", count), carries[2], outputs[2];
    if (failed(wrong))
        return wrong;
    bool return_carry = mf_member_number(self, "return_carry") != 0;
    mf_value first = given(inputs, count, 1);
    for (int i = 0; i < 2; i++) {
        mf_module rnn = mf_member_module(self, i ? "backward_rnn" : "forward_rnn");
        sequence_run r = { .cell = mf_member_module(rnn, "cell"),
                           .time_major = mf_member_number(self, "time_major") != 0,
                           .return_carry = return_carry,
                           .reverse = i == 1,
                           .keep_order = i == 1,
                           .unroll = (int64_t)mf_member_number(rnn, "unroll"),
                           .initial_carry = first.handle ? mf_get(first, i) : first,
                           .seq_lengths = given(inputs, count, 2) };
        mf_value result = run_cell(&r, inputs[0]);
        if (failed(result))
            return result;
        mf_unpack(result, &carries[i], &outputs[i]);
    }
    mf_value out = joined(self, outputs[0], outputs[1]);
    return return_carry ? mf_tuple(mf_tuple(carries[0], carries[1]), out) : out;
}

mf_module mf_nn_bidirectional_opt(mf_module forward_rnn, mf_module backward_rnn, const mf_nn_bidirectional_options *o)
{
    MF_LAYER;
    mf_nn_bidirectional_options none = { 0 };
    o = o ? o : &none;
    const mf_node_ members[] = { mf_node("forward_rnn"),  mf_node(forward_rnn),          mf_node("backward_rnn"),
                                 mf_node(backward_rnn),   mf_node("time_major"),         mf_node((int)o->time_major),
                                 mf_node("return_carry"), mf_node((int)o->return_carry), mf_node("merge_fn"),
                                 mf_node(o->merge_fn) };
    int count = (int)(sizeof members / sizeof *members) - (o->merge_fn.handle ? 0 : 2);
    return mf_module_n("Bidirectional", (mf_fm)bidirectional_call, -1, members, count);
}
