"""tinygrad: methods of Tensor in float64."""

import importlib.metadata
import sys

import common
import numpy as np
from samples import ABOVE, ANY, INSIDE, MATRICES, PAIR, POSITIVE, POSITIVES, uniform
from tinygrad import Tensor

IMAGE = lambda: (uniform(-2, 2, 1, 2, 4, 4),)
FILTER = lambda: (uniform(-2, 2, 1, 2, 4, 4), uniform(-2, 2, 2, 2, 3, 3))

PLAIN = [
    (ANY, "abs neg sin cos tan exp exp2 sinh cosh tanh asinh atan square sigmoid relu relu6 elu celu selu silu swish gelu quick_gelu mish "
          "softplus softsign hardswish hardsigmoid hardtanh leaky_relu logsigmoid sum mean std var max min prod softmax log_softmax "
          "logsumexp logcumsumexp cumsum cumprod transpose flatten contiguous erf std_mean var_mean triu tril layernorm rms_norm "
          "sort cummax normalize diag"),
    (POSITIVE, "log log2 log10 log1p sqrt rsqrt reciprocal"),
    (INSIDE, "asin acos atanh"),
    (ABOVE, "acosh"),
    (PAIR, "add sub mul div maximum minimum copysign logaddexp mod fmod"),
    (POSITIVES, "pow"),
    (MATRICES, "matmul dot"),
    (IMAGE, "avg_pool2d max_pool2d"),
    (FILTER, "conv2d conv_transpose2d"),
]
# {name: (function of tensors, inputs)}
WITH_ARGUMENTS = {
    "reshape": (lambda x: x.reshape(3, 2), ANY),
    "permute": (lambda x: x.permute(1, 0), ANY),
    "expand": (lambda x: x.reshape(1, 2, 3).expand(2, 2, 3), ANY),
    "pad": (lambda x: x.pad(((1, 0), (0, 2))), ANY),
    "pad reflect": (lambda x: x.pad((2, 1, 1, 2), mode="reflect"), IMAGE),
    "pad replicate": (lambda x: x.pad((2, 1, 1, 2), mode="replicate"), IMAGE),
    "pad circular": (lambda x: x.pad((2, 1, 1, 2), mode="circular"), IMAGE),
    "shrink": (lambda x: x.shrink(((0, 2), (1, 3))), ANY),
    "flip": (lambda x: x.flip(1), ANY),
    "repeat": (lambda x: x.repeat(2, 3), ANY),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, dim=1), ANY),
    "roll": (lambda x: x.roll(2, 1), ANY),
    "unfold": (lambda x: x.unfold(1, 2, 1), ANY),
    "index": (lambda x: x[:, 1:], ANY),
    "gather": (lambda x: x.gather(1, Tensor([[2, 0], [1, 1]])), ANY),
    "where": (lambda x, y: (x > 0).where(x, y), PAIR),
    "clamp": (lambda x: x.clamp(-0.5, 0.6), ANY),
    "cat": (lambda x, y: x.cat(y, dim=0), PAIR),
    "stack": (lambda x, y: x.stack(y), MATRICES),
    "einsum": (lambda x, y: Tensor.einsum("ij,kj->ik", x, y), MATRICES),
    "lerp": (lambda x, y: x.lerp(y, 0.3), PAIR),
    "mean over an axis": (lambda x: x.mean(1), ANY),
    "max over an axis": (lambda x: x.max(1), ANY),
    "topk": (lambda x: x.topk(2)[0], ANY),
    "interpolate": (lambda x: x.interpolate((6, 5), mode="linear"), IMAGE),
    "scaled_dot_product_attention": (lambda x, y: x.scaled_dot_product_attention(y, y), MATRICES),
    "binary_crossentropy": (lambda x: x.sigmoid().binary_crossentropy(Tensor([[0.0, 1, 1], [1, 0, 1]])), ANY),
    "sparse_categorical_crossentropy": (lambda x: x.sparse_categorical_crossentropy(Tensor([2, 0])), ANY),
    "cross_entropy": (lambda x: x.cross_entropy(Tensor([2, 0]), label_smoothing=0.1), ANY),
    "masked_fill": (lambda x: x.masked_fill(Tensor([[True, False, True], [False, True, True]]), 2.0), ANY),
    "scatter": (lambda x, y: x.scatter(1, Tensor([[2], [0], [1]]), y), MATRICES),
    "scatter_reduce sum": (lambda x, y: x.scatter_reduce(1, Tensor([[2, 2, 0], [0, 1, 1], [1, 0, 0]]), y, "sum"), MATRICES),
    "scatter_reduce prod": (lambda x, y: x.scatter_reduce(1, Tensor([[2, 2, 0], [0, 1, 1], [1, 0, 0]]), y, "prod"), MATRICES),
    "scatter_reduce mean": (lambda x, y: x.scatter_reduce(1, Tensor([[2, 2, 0], [0, 1, 1], [1, 0, 0]]), y, "mean"), MATRICES),
}


def tensors(arrays):
    return [Tensor(np.array(x)) for x in arrays]


def first(result):
    return result[0] if isinstance(result, tuple) else result


def check(name, function, inputs):
    def forward(*x):
        return first(function(*tensors(x))).numpy()

    def vjp(x, _, cotangents):
        given = tensors(x)
        result = first(function(*given))
        return tuple(g.numpy() for g in result.gradient(*given, gradient=Tensor(np.array(cotangents[0]))))

    yield common.tapehead.check(forward, inputs(), vjp=vjp, name=name)


def operations():
    cases = {n: (lambda *x, n=n: getattr(Tensor, n)(*x), inputs) for inputs, names in PLAIN for n in names.split() if hasattr(Tensor, n)}
    for name, (function, inputs) in {**cases, **WITH_ARGUMENTS}.items():
        yield name, "float64", lambda n=name, f=function, i=inputs: check(n, f, i)


if __name__ == "__main__":
    sys.exit(common.main("tinygrad", importlib.metadata.version("tinygrad"), operations()))
