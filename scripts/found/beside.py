"""beside.py CHECKER: six kernels, each with its right gradient and with five wrong ones, in one of three checkers.

CHECKER is tapehead (which needs NumPy), torch (torch.autograd.gradcheck) or jax (jax.test_util.check_grads), each with its
default options. Prints a row for each rule: found or not, seconds of processor time, and the first words of the message."""

import inspect
import sys
import time

import numpy as np

RANDOM = np.random.default_rng(5)
UPPER = np.triu(np.ones((5, 5)))
SHIFT = np.eye(5, 5, 1)
# TAPS[t, k, s] is 1 where output t of the convolution reads input s with tap k.
TAPS = np.stack([np.eye(6, 8, k) for k in range(3)], axis=1)


def uniform(*shape):
    return RANDOM.uniform(-1.7, 1.7, shape)


# Each kernel is (inputs, forward, gradient). xp is the module of arrays, c makes an array of a constant. gradient has the
# name of a mistake: "sign", "last element" and "cotangent" are made by check, the two others by the kernel itself.
def swish(xp, c, x):
    return x / (1 + xp.exp(-x))


def swish_gradient(xp, c, mistake, dy, x):
    s = 1 / (1 + xp.exp(-x))
    if mistake == "term x(1 - s) missing":
        return (dy * s,)
    return (dy * s * (1 + x * (1 if mistake == "factor 1 - s missing" else 1 - s)),)


def cumulative_sum(xp, c, x):
    return x @ c(UPPER)


def cumulative_sum_gradient(xp, c, mistake, dy, x):
    if mistake == "same direction":
        return (dy @ c(UPPER),)
    return (dy @ c(UPPER.T if mistake != "without the element itself" else (UPPER - np.eye(5)).T),)


def huber(xp, c, x):
    a = xp.abs(x)
    return xp.where(a < 1, x * x / 2, a - 0.5).sum() / 15


def huber_gradient(xp, c, mistake, dy, x):
    outside = xp.abs(x) / x if mistake != "slope 1 outside" else x * 0 + 1
    n = 1 if mistake == "sum instead of mean" else 15
    return (dy * xp.where(xp.abs(x) < 1, x, outside) / n,)


def softmax(xp, c, x):
    e = xp.exp(x)
    return e / e.sum(1)[:, None]


def softmax_gradient(xp, c, mistake, dy, x):
    y = softmax(xp, c, x)
    axis = 0 if mistake == "sum over rows" else 1
    total = (y * dy).sum(axis)
    total = total[None, :] if axis == 0 else total[:, None]
    return (y * (dy - (0 if mistake == "sum missing" else total)),)


def product(xp, c, x, w):
    return x @ w


def product_gradient(xp, c, mistake, dy, x, w):
    dx = dy @ (w if mistake == "w not transposed" else w.T)
    dw = x.T @ dy
    return dx, dw.T if mistake == "dw transposed" else dw


def convolution(xp, c, x, w):
    return xp.einsum("ock,bcs,tks->bot", w, x, c(TAPS))


def convolution_gradient(xp, c, mistake, dy, x, w):
    taps = TAPS[:, ::-1].copy() if mistake == "filter reversed in dx" else TAPS
    dw = xp.einsum("bot,bcs,tks->ock", dy, x, c(TAPS))
    return xp.einsum("ock,bot,tks->bcs", w, dy, c(taps)), dw / (2 if mistake == "mean over the batch in dw" else 1)


KERNELS = [
    (swish, swish_gradient, "float64", [uniform(3, 5)], ["term x(1 - s) missing", "factor 1 - s missing"]),
    (cumulative_sum, cumulative_sum_gradient, "float64", [uniform(3, 5)], ["same direction", "without the element itself"]),
    (huber, huber_gradient, "float64", [uniform(3, 5)], ["slope 1 outside", "sum instead of mean"]),
    (softmax, softmax_gradient, "float64", [uniform(5, 5)], ["sum missing", "sum over rows"]),
    (product, product_gradient, "float64", [uniform(4, 4), uniform(4, 4)], ["w not transposed", "dw transposed"]),
    (convolution, convolution_gradient, "float32", [uniform(2, 3, 8), uniform(4, 3, 3)],
     ["filter reversed in dx", "mean over the batch in dw"]),
]
GENERAL = ["", "sign", "last element", "cotangent"]


def wrong(gradient, mistake):
    """Returns gradient with one of the mistakes that fit every kernel, in its first result."""

    def rule(xp, c, dy, *x):
        first, *rest = gradient(xp, c, mistake, dy * 0 + 1 if mistake == "cotangent" else dy, *x)
        if mistake == "sign":
            first = -first
        if mistake == "last element":
            mask = np.ones(tuple(first.shape))
            mask.flat[-1] = 0
            first = first * c(mask)
        return (first, *rest)

    return rule


def with_tapehead(forward, rule, dtype, inputs):
    import tapehead

    c = lambda a: np.asarray(a, dtype)
    tapehead.gradcheck(lambda *x: np.asarray(forward(np, c, *x)), inputs, vjp=lambda x, y, dy: rule(np, c, dy[0], *x))


def with_torch(forward, rule, dtype, inputs):
    import torch

    c = lambda a: torch.tensor(a, dtype=getattr(torch, dtype))

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *x):
            ctx.save_for_backward(*x)
            return forward(torch, c, *x)

        @staticmethod
        def backward(ctx, dy):
            return rule(torch, c, dy, *ctx.saved_tensors)

    torch.autograd.gradcheck(Function.apply, [c(x).requires_grad_() for x in inputs])


def with_jax(forward, rule, dtype, inputs):
    import jax
    import jax.numpy as jnp
    from jax.test_util import check_grads

    jax.config.update("jax_enable_x64", True)
    c = lambda a: jnp.asarray(a, dtype)
    function = jax.custom_vjp(lambda *x: forward(jnp, c, *x))
    function.defvjp(lambda *x: (forward(jnp, c, *x), x), lambda x, dy: tuple(rule(jnp, c, dy, *x)))
    check_grads(function, [c(x) for x in inputs], order=1, modes=["rev"])


def main(checker):
    run = {"tapehead": with_tapehead, "torch": with_torch, "jax": with_jax}[checker]
    print(f"{checker}: {len(inspect.getsource(run).splitlines())} lines of this file")
    run(swish, wrong(swish_gradient, ""), "float64", [uniform(2, 2)])  # imports and first compilations are not timed
    print("kernel,rule,result,seconds,message")
    for forward, gradient, dtype, inputs, own in KERNELS:
        for mistake in GENERAL + own:
            begin, message = time.process_time(), ""
            try:
                run(forward, wrong(gradient, mistake), dtype, [x.astype(dtype) for x in inputs])
            except Exception as error:
                message = " / ".join(line.strip() for line in str(error).splitlines() if line.strip())
            result = "rejected" if message else "accepted"
            print(f'{forward.__name__},{mistake or "right"},{result},{time.process_time() - begin:.3f},"{message[:300]}"', flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
