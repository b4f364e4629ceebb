"""Attention and recurrent layers of Flax NNX, forward and backward, from parameters that sequences.h fills in C. Run with jax 0.10.2, flax 0.12.8.

Arrays come from the generator of cnn_inputs.h: fill(seed, shape, scale) is uniform in [-scale, scale). The parameters of a module are
filled leaf by leaf in the order of jax.tree.leaves: leaf i from the seed 1000 + i, with the scale 0.5. Gradients are those of
sum(out * fill(900, out's shape, 1)) by parameters and inputs.
"""
import flax
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from flax.nnx.nn.attention import dot_product_attention_weights
from known import Corpus, array_line

corpus = Corpus(__file__, f"known answers from jax {jax.__version__}, flax {flax.__version__} on the CPU")


def fill(seed, shape, scale):
    state, out = seed, np.empty(int(np.prod(shape)), np.int64)
    for i in range(out.size):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out[i] = state >> 8
    return ((out - 2**23) / 2**23 * scale).astype(np.float32).reshape(shape)


def case(name, answers):
    corpus.cases += 1
    corpus.add("", f"case {name}", *(array_line(word, np.asarray(a)) for word, a in answers.items()))


def weighted(out):
    return sum(jnp.sum(leaf * fill(900, leaf.shape, 1)) for leaf in jax.tree.leaves(out))


def function_case(name, f, *inputs):
    """A function of arrays: its result, and its gradient with respect to each array."""
    grads = jax.grad(lambda *a: weighted(f(*a)), argnums=tuple(range(len(inputs))))(*inputs)
    case(name, {"out": f(*inputs), **{f"grad{i}": g for i, g in enumerate(grads)}})


def filled(module):
    """The module with its parameters filled, and a function that makes it from other parameters."""
    graph, params, rest = nnx.split(module, nnx.Param, ...)
    leaves, tree = jax.tree.flatten(params)
    params = jax.tree.unflatten(tree, [jnp.asarray(fill(1000 + i, a.shape, 0.5)) for i, a in enumerate(leaves)])
    return params, lambda p: nnx.merge(graph, p, rest)


def module_case(name, module, call, *inputs, params_too=True):
    """call(module, inputs...): the leaves of its result, and the gradients with respect to parameters (in the order of their leaves) and inputs."""
    params, make = filled(module)
    run = lambda p, *a: call(make(p), *a)  # noqa: E731
    out = jax.tree.leaves(run(params, *inputs))
    by_params, *by_inputs = jax.grad(lambda p, *a: weighted(run(p, *a)), argnums=tuple(range(len(inputs) + 1)))(params, *inputs)
    named = {f"param{i}": g for i, g in enumerate(jax.tree.leaves(by_params))} if params_too else {}
    case(name, {**{f"out{i}": o for i, o in enumerate(out)}, **named,
                **{f"grad{i}": g for i, g in enumerate(by_inputs)}})


def rope(x, positions, max_wavelength=10_000, scale_factor=1.0):
    """apply_rope of Flax's examples/gemma/positional_embeddings.py."""
    depth = x.shape[-1]
    fraction = 2 * jnp.arange(0, depth // 2) / depth
    angle = positions[..., None] / max_wavelength**fraction
    angle = angle[..., None, :] / scale_factor
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1).astype(x.dtype)


def attention_cases():
    q, k, v = fill(1, (2, 3, 4, 6), 2), fill(2, (2, 5, 4, 6), 2), fill(3, (2, 5, 4, 6), 2)
    short_k, short_v = fill(4, (2, 5, 2, 6), 2), fill(5, (2, 5, 2, 6), 2)
    bias, mask = fill(6, (2, 4, 3, 5), 1), fill(7, (2, 1, 3, 5), 1) > 0
    mask[1, 0, 2] = False  # a query that attends to nothing
    attend, key = nnx.dot_product_attention, jax.random.PRNGKey(7)
    own = {"dropout_rate": 0.5, "deterministic": True}  # by Flax's formula, which has dropout; without a rate Flax calls jax.nn's
    function_case("attention", attend, q, k, v)
    function_case("attention_own", lambda q, k, v: attend(q, k, v, **own), q, k, v[..., :2])
    function_case("attention_causal", lambda q, k, v: attend(q, k, v, is_causal=True), q, k, v)
    function_case("attention_masked", lambda q, k, v: attend(q, k, v, bias=bias, mask=mask), q, k, v)
    function_case("attention_masked_causal", lambda q, k, v: attend(q, k, v, mask=jnp.broadcast_to(mask, bias.shape), is_causal=True), q, k, v)
    function_case("attention_grouped", attend, q, short_k, short_v)
    function_case("attention_dropout", lambda q, k, v: attend(q, k, v, dropout_rng=key, dropout_rate=0.4), q, k, v)
    function_case("attention_dropout_each", lambda q, k, v: attend(q, k, v, dropout_rng=key, dropout_rate=0.4, broadcast_dropout=False), q, k, v)
    function_case("attention_one", attend, q[0], k[0], v[0])
    function_case("attention_batches", lambda q, k, v: attend(q[None], k[None], v[None], **own), q, k, v)
    function_case("attention_weights", lambda q, k: dot_product_attention_weights(q, k, deterministic=True), q, k)
    tokens = (fill(8, (2, 4), 1) > 0).astype(np.float32)
    case("masks", {"attention": nnx.make_attention_mask(tokens, tokens), "causal": nnx.make_causal_mask(tokens)})
    positions = np.array([[0, 1, 2], [7, 100, 3]], np.int32)
    function_case("rope", lambda x: rope(x, positions), q)
    function_case("rope_scaled", lambda x: rope(x, positions, 100, 4.0), q)


def turned(query, key, value, **options):
    """An attention_fn: dot_product_attention of queries and keys that are rotated by their positions."""
    at = lambda x: rope(x, jnp.arange(x.shape[-3]))  # noqa: E731
    return nnx.dot_product_attention(at(query), at(key), value, **options)


def multi_head_cases():
    make = lambda **o: nnx.MultiHeadAttention(**{"num_heads": 2, "in_features": 6, "decode": False, "rngs": nnx.Rngs(0), **o})  # noqa: E731
    x, y, z = fill(1, (2, 4, 6), 1), fill(2, (2, 3, 5), 1), fill(3, (2, 3, 5), 1)
    mask = fill(4, (2, 1, 4, 4), 1) > 0
    plain = lambda m, *a: m(*a)  # noqa: E731
    module_case("mha", make(), plain, x)
    module_case("mha_no_bias", make(use_bias=False), plain, x, params_too=False)
    module_case("mha_causal", make(), lambda m, x: m(x, is_causal=True), x, params_too=False)
    module_case("mha_masked", make(qkv_features=8, out_features=3), lambda m, x: m(x, mask=mask), x, params_too=False)
    module_case("mha_cross", make(in_kv_features=5), plain, x, y, z)
    module_case("mha_grouped", make(num_heads=4, qkv_features=8, num_kv_heads=2), plain, x)
    module_case("mha_normalized", make(qkv_features=8, attention_fn=turned, normalize_qk=True), plain, x)
    module_case("mha_rope", make(qkv_features=8, attention_fn=turned), lambda m, x: m(x, is_causal=True), x, params_too=False)
    params, merge = filled(make(decode=True))
    decoding, steps = merge(params), []
    decoding.init_cache((2, 4, 6))
    for i in range(4):
        steps.append(decoding(x[:, i:i + 1]))
    case("mha_decode", {"out0": jnp.concatenate(steps, 1), "cached_key": decoding.cached_key[...], "index": decoding.cache_index[...]})


def recurrent_cases():
    x, lengths = fill(1, (2, 5, 3), 1), np.array([3, 5], np.int32)
    cells = {"simple": nnx.SimpleCell, "gru": nnx.GRUCell, "lstm": nnx.LSTMCell, "optimized_lstm": nnx.OptimizedLSTMCell}
    make = lambda name, **o: cells[name](3, 4, rngs=nnx.Rngs(0), **o)  # noqa: E731
    h, c = fill(2, (2, 4), 1), fill(3, (2, 4), 1)
    whole = lambda **o: lambda m, x: m(x, rngs=nnx.Rngs(0), **o)  # noqa: E731
    for name in cells:
        carry = (c, h) if "lstm" in name else h
        module_case(f"{name}_cell", make(name), lambda m, x: m(carry, x), x[:, 0])
        module_case(f"{name}_rnn", nnx.RNN(make(name)), whole(return_carry=True), x)
        module_case(f"{name}_rnn_lengths", nnx.RNN(make(name)), whole(return_carry=True, seq_lengths=lengths), x, params_too=False)
    gru = nnx.RNN(make("gru"))
    module_case("rnn_reverse", gru, whole(reverse=True), x, params_too=False)
    module_case("rnn_keep_order", gru, whole(reverse=True, keep_order=True), x, params_too=False)
    module_case("rnn_reverse_lengths", gru, whole(reverse=True, seq_lengths=lengths), x, params_too=False)
    module_case("rnn_keep_order_lengths", gru, whole(reverse=True, keep_order=True, seq_lengths=lengths), x, params_too=False)
    module_case("rnn_time_major", gru, whole(time_major=True, reverse=True, seq_lengths=np.array([1, 2, 2, 1, 2], np.int32)), x, params_too=False)
    module_case("rnn_initial", gru, whole(initial_carry=h), x, params_too=False)
    residual = make("simple", residual=True, activation_fn=nnx.relu)
    module_case("rnn_residual", nnx.RNN(residual), whole(), x, params_too=False)
    both = nnx.Bidirectional(gru, nnx.RNN(make("optimized_lstm")))
    module_case("bidirectional", both, whole(), x, params_too=False)
    module_case("bidirectional_lengths", both, whole(return_carry=True, seq_lengths=lengths), x, params_too=False)


if __name__ == "__main__":
    attention_cases()
    multi_head_cases()
    recurrent_cases()
    corpus.save()
