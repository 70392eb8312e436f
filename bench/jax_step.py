"""Times whole training steps of a GPT-2 in JAX, with the same model, data and measurement as train_step.c. A step is
one jitted function with donated buffers and optax.adamw; attention has the heads in front. XLA uses one thread for each
processor in the affinity mask.

Variants: default; ynn uses XLA's YNN kernels, which session.py enables through the environment; cast has weights and
activations in bfloat16. Precisions: float32 is JAX's default on a CPU; bfloat16 sets jax_default_matmul_precision, but
XLA may still multiply in float32 on CPUs."""

import functools
import math

import jax
import jax.numpy as jnp
import optax

import peer

options, configuration = peer.parse_options("JAX", ["default", "ynn", "cast"], ["float32", "bfloat16"])
_, layers, width, heads, vocabulary, batch, length, mlp = configuration
if options.precision == "bfloat16":
    jax.config.update("jax_default_matmul_precision", "bfloat16")
key = jax.random.key(1)


def dense_new(key, inputs, outputs):
    return {"weight": 0.02 * jax.random.normal(key, (inputs, outputs)), "bias": jnp.zeros(outputs)}


def norm_new():
    return {"weight": jnp.ones(width), "bias": jnp.zeros(width)}


def block_new(key):
    keys = jax.random.split(key, 4)
    block = {"norm1": norm_new(), "qkv": dense_new(keys[0], width, 3 * width), "out": dense_new(keys[1], width, width)}
    if mlp:
        block |= {"norm2": norm_new(), "linear1": dense_new(keys[2], width, 4 * width)}
        block |= {"linear2": dense_new(keys[3], 4 * width, width)}
    return block


@jax.jit
def model_new(key):
    keys = jax.random.split(key, layers + 2)
    embedding = 0.02 * jax.random.normal(keys[0], (vocabulary, width))
    position = 0.02 * jax.random.normal(keys[1], (length, width))
    blocks = [block_new(k) for k in keys[2:]]
    return {"embedding": embedding, "position": position, "layers": blocks, "norm": norm_new()}


def dense(p, x):
    return x @ p["weight"] + p["bias"]


def norm(p, x):
    centered = x - x.mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt(jnp.square(centered).mean(-1, keepdims=True) + 1e-5) * p["weight"] + p["bias"]


def attention(qkv):  # (B T, 3 E) -> (B T, E)
    q, k, v = qkv.reshape(batch, length, 3, heads, -1).transpose(2, 0, 3, 1, 4)  # (B, H, T, D) each
    scores = q @ k.swapaxes(2, 3) / math.sqrt(width // heads)
    causal = jnp.tril(jnp.ones((length, length), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), -1)
    return (weights @ v).swapaxes(1, 2).reshape(batch * length, width)


def loss_of(model, tokens, targets):
    if options.variant == "cast":
        model = jax.tree.map(lambda p: p.astype(jnp.bfloat16), model)
    x = (model["embedding"][tokens] + model["position"]).reshape(batch * length, width)
    for block in model["layers"]:
        x = x + dense(block["out"], attention(dense(block["qkv"], norm(block["norm1"], x))))
        if mlp:
            x = x + dense(block["linear2"], jax.nn.gelu(dense(block["linear1"], norm(block["norm2"], x))))
    logits = (norm(model["norm"], x) @ model["embedding"].T).astype(jnp.float32)
    return optax.softmax_cross_entropy_with_integer_labels(logits, targets.reshape(-1)).mean()


adam = optax.adamw(3e-4, weight_decay=0.1)


@functools.partial(jax.jit, donate_argnums=(0, 1))
def train(model, state, tokens, targets):
    loss, gradient = jax.value_and_grad(loss_of)(model, tokens, targets)
    update, state = adam.update(gradient, state, model)
    return optax.apply_updates(model, update), state, loss


model = model_new(key)
state = jax.jit(adam.init)(model)
data = jax.random.randint(key, (4, 2, batch, length), 0, vocabulary)
data = [(pair[0], pair[1]) for pair in data]


def step(i):
    global model, state
    model, state, loss = train(model, state, *data[i % 4])
    jax.block_until_ready((model, loss))
    return lambda: float(loss)


peer.measure(step, options, configuration, f"jax {jax.__version__}")
