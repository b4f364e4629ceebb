/* The model of states.c and its training step: leaky integrate-and-fire neurons that read an image row by row, as spikes. Everything that
 * changes is a state of a module: the neurons' voltages and spikes, the key that draws input spikes, the parameters and the optimiser's
 * moments. Functions read and write states by name; mf_pmap2 has a rule for each kind of state. */
#ifndef EXAMPLES_STATES_MODEL_H
#define EXAMPLES_STATES_MODEL_H

#include <manyfold.h>

typedef struct snn_size {
    int inputs, neurons, classes;
    double decay; /* the factor by which a voltage leaks in a step */
} snn_size;

static inline mf_value snn_value(mf_module m, const char *state) { return mf_state_value(mf_member_state(m, state)); }
static inline mf_value snn_set(mf_module m, const char *state, mf_value v) { return mf_state_set_value(mf_member_state(m, state), v); }
static inline mf_value snn_part(mf_module m, const char *name, mf_value x) { return mf_call(mf_member_module(m, name), x); }

/* ---- spikes: 1 where a voltage is above its threshold, else 0. The derivative of that step function is 0, so a custom JVP rule gives a
 * surrogate gradient: the derivative of arctan(pi x) / pi. */

static inline mf_value snn_spike(mf_value above) { return mf_astype(mf_greater(above, 0), MF_F32); }

static inline mf_value snn_spike_rule(mf_value primals, mf_value tangents)
{
    mf_value above = mf_get(primals, 0), steep = mf_mul(above, 3.14159265358979323846);
    return mf_tuple(snn_spike(above), mf_div(mf_get(tangents, 0), mf_add(mf_square(steep), 1)));
}

/* ---- the modules; a call is one time step */

/* (n, inputs) -> (n, inputs): each input spikes with probability x, drawn from the module's own random state; if deterministic, x itself */
static inline mf_value snn_poisson_call(mf_module self, mf_value x)
{
    if (mf_member_number(self, "deterministic") != 0)
        return x;
    return mf_astype(mf_random_bernoulli(mf_random_next(mf_member_state(self, "rngs")), x, mf_shape_of(x)), MF_F32);
}

/* (n, inputs) -> (n, neurons): leaky voltages integrate the currents of the input and of the neurons' last spikes; a voltage that spiked is
 * reset to 0 */
static inline mf_value snn_lif_call(mf_module self, mf_value x)
{
    mf_value last = snn_value(self, "spikes");
    mf_value current = mf_add(snn_part(self, "input", x), snn_part(self, "recurrent", last));
    mf_value left = mf_mul(mf_mul(snn_value(self, "voltage"), mf_member_number(self, "decay")), mf_sub(1, last));
    mf_value voltage = snn_set(self, "voltage", mf_add(left, current));
    return snn_set(self, "spikes", mf_call(mf_custom_jvp(snn_spike, snn_spike_rule), mf_sub(voltage, 1)));
}

/* (n, neurons) -> (n, classes): a leaky voltage for each class, which never spikes */
static inline mf_value snn_readout_call(mf_module self, mf_value x)
{
    mf_value left = mf_mul(snn_value(self, "voltage"), mf_member_number(self, "decay"));
    return snn_set(self, "voltage", mf_add(left, snn_part(self, "dense", x)));
}

static inline mf_value snn_call(mf_module self, mf_value x)
{
    return snn_part(self, "readout", snn_part(self, "lif", snn_part(self, "encoder", x)));
}

/* A state of zeros, one for each neuron and image. rows: (images), or (devices, images) for a state that mf_pmap2 maps. */
static inline mf_state snn_quiet(mf_shape rows, int neurons)
{
    rows.dims[rows.rank++] = neurons;
    return mf_hidden_state(mf_zeros(rows));
}

static inline mf_module snn(mf_state rngs, const snn_size *s, mf_shape rows)
{
    mf_module input = mf_nn_linear(rngs, s->inputs, s->neurons), recurrent = mf_nn_linear(rngs, s->neurons, s->neurons, .no_bias = true);
    mf_module lif = mf_module_new("LIF", snn_lif_call, "input", input, "recurrent", recurrent, "voltage", snn_quiet(rows, s->neurons),
                                  "spikes", snn_quiet(rows, s->neurons), "decay", s->decay);
    mf_module readout = mf_module_new("Readout", snn_readout_call, "dense", mf_nn_linear(rngs, s->neurons, s->classes), "voltage",
                                      snn_quiet(rows, s->classes), "decay", s->decay);
    mf_module encoder = mf_module_new("Poisson", snn_poisson_call, "rngs", mf_random_state_of_key(mf_random_next(rngs)), "deterministic",
                                      false);
    return mf_module_new("SNN", snn_call, "encoder", encoder, "lif", lif, "readout", readout);
}

/* Sets all voltages and spikes to 0. */
static inline mf_status snn_reset(mf_module m)
{
    mf_value hidden = mf_module_values(m, mf_of_type(MF_HIDDEN_STATE));
    return mf_module_update(m, mf_tree_map(mf_fn(mf_zeros_like), hidden));
}

/* ---- what each device does */

typedef struct snn_trainer {
    mf_module model, optimizer; /* the optimiser contains the model and updates the states that `trained` selects */
    mf_filter trained;
    int64_t repeats; /* time steps for which each row of an image is shown */
} snn_trainer;       /* the context of the closures below */

/* (n, height, width) -> (time, n, width): time = height * repeats */
static inline mf_value snn_rows(mf_value images, int64_t repeats) { return mf_repeat(mf_transpose(images, MF_INTS(1, 0, 2)), repeats, 0); }

static inline mf_value snn_tick(void *trainer, mf_value nothing, mf_value x)
{
    mf_value voltage = mf_call(((snn_trainer *)trainer)->model, x);
    return mf_tuple(nothing, mf_tuple(voltage, mf_mean(snn_value(((snn_trainer *)trainer)->model, "lif/spikes"))));
}

/* images (n, height, width), labels (n) -> (loss, {"loss", "accuracy", "spikes"}). The logits are the readout voltages averaged over
 * time. */
static inline mf_value snn_loss(void *trainer, mf_value images, mf_value labels)
{
    snn_trainer *t = trainer;
    mf_value voltages, rates, loss, correct;
    snn_reset(t->model);
    mf_unpack(mf_get(mf_scan(mf_closure(snn_tick, t), mf_none(), snn_rows(images, t->repeats)), 1), &voltages, &rates);
    mf_value logits = mf_mean(voltages, 0);
    loss = mf_mean(mf_softmax_cross_entropy_with_integer_labels(logits, labels));
    correct = mf_mean(mf_equal(mf_argmax(logits, -1), labels));
    return mf_tuple(loss, mf_dict("loss", loss, "accuracy", correct, "spikes", mf_mean(rates)));
}

/* images, labels -> {"loss", "accuracy", "spikes"}: means over all devices. Updates the states. */
static inline mf_value snn_train_step(void *trainer, mf_value images, mf_value labels)
{
    snn_trainer *t = trainer;
    mf_value loss_and_metrics, grads;
    mf_function grad_fn = mf_value_and_grad(mf_closure(snn_loss, t), .has_aux = true, .states = t->trained);
    mf_unpack(mf_call(grad_fn, images, labels), &loss_and_metrics, &grads);
    mf_nn_optimizer_update(t->optimizer, mf_pmean(grads, "devices"));
    return mf_pmean(mf_get(loss_and_metrics, 1), "devices");
}

/* Voltages and spikes are mapped along axis 0. States without a rule, parameters and optimiser, are broadcast and must stay the same on all
 * devices; a random state with one key is split. */
static inline mf_function snn_map(mf_function f)
{
    mf_filter neurons = mf_filter_any(mf_path_contains("lif"), mf_path_contains("readout"));
    mf_state_axis_rules own = MF_STATE_AXES(0, mf_filter_all(neurons, mf_of_type(MF_HIDDEN_STATE)));
    return mf_pmap2(f, "devices", .state_in_axes = own, .state_out_axes = own);
}

/* A trainer with Adam for all parameters except those that `frozen` selects. */
static inline snn_trainer snn_train(mf_module model, mf_filter frozen, double learning_rate, int64_t repeats)
{
    mf_filter trained = mf_filter_all(mf_of_type(MF_PARAM_STATE), mf_filter_not(frozen));
    mf_module optimizer = mf_nn_optimizer(model, mf_adam(.learning_rate = learning_rate), .wrt = trained);
    return (snn_trainer){ model, optimizer, trained, repeats };
}

#endif
