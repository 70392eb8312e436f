"""MLX: functions of mlx.core, its linalg, fft and fast modules, and mlx.nn, in float32 and float64 on the CPU. Its float64 has the precision of float32 in many
functions."""

import importlib.metadata
import itertools
import sys

import common
import mlx.core as mx
import mlx.nn as nn
import numpy as np
from samples import ABOVE, ANY, DEFINITE, INSIDE, MATRICES, PAIR, POSITIVE, POSITIVES, SAME, SQUARE, VECTORS, uniform

mx.set_default_device(mx.cpu)
mx.disable_compile()  # the activations would call a C++ compiler for each shape

SIGNAL = lambda: (uniform(-2, 2, 2, 7, 2), uniform(-2, 2, 3, 3, 2))
GROUPED = lambda: (uniform(-2, 2, 2, 7, 4), uniform(-2, 2, 6, 3, 2))
IMAGE = lambda: (uniform(-2, 2, 1, 5, 6, 2), uniform(-2, 2, 3, 3, 2, 2))
VOLUME = lambda: (uniform(-2, 2, 1, 3, 4, 3, 1), uniform(-2, 2, 2, 2, 2, 2, 1))
HEADS = lambda: (uniform(-2, 2, 1, 2, 3, 4), uniform(-2, 2, 1, 2, 3, 4), uniform(-2, 2, 1, 2, 3, 4))
LAYER = lambda: (uniform(-2, 2, 2, 5), uniform(0.3, 2, 5), uniform(-2, 2, 5))
LINEAR = lambda: (uniform(-2, 2, 2, 5), uniform(-2, 2, 5, 3), uniform(-2, 2, 2, 3))

FUNCTIONS = {
    mx: [
        (ANY, "abs arctan atan arcsinh asinh cos cosh degrees radians erf exp expm1 negative sigmoid sin sinh square tan tanh sum mean "
              "prod max min std var median logsumexp logcumsumexp softmax cumsum cumprod cummax cummin sort transpose flatten squeeze "
              "tril triu flip diff nan_to_num minmax contiguous real conj permute_dims atleast_3d"),
        (POSITIVE, "log log10 log1p log2 reciprocal rsqrt sqrt"),
        (INSIDE, "arccos acos arcsin asin arctanh atanh erfinv"),
        (ABOVE, "arccosh acosh"),
        (PAIR, "add subtract multiply divide arctan2 atan2 logaddexp maximum minimum remainder"),
        (POSITIVES, "power pow"),
        (VECTORS, "inner outer convolve kron vecdot"),
        (MATRICES, "matmul tensordot kron"),
        (SQUARE, "diag diagonal trace matrix_transpose"),
    ],
    mx.linalg: [(SQUARE, "inv norm svd qr pinv det slogdet lu"), (DEFINITE, "cholesky eigvalsh tri_inv cholesky_inv"), (MATRICES, "solve"),
                (SAME, "cross")],
    nn: [(ANY, "celu elu gelu gelu_approx gelu_fast_approx hard_shrink hard_tanh hardswish leaky_relu log_sigmoid log_softmax mish relu "
               "relu2 relu6 selu silu softmax softmin softplus softshrink softsign sigmoid tanh")],
    nn.losses: [(SAME, "mse_loss l1_loss smooth_l1_loss huber_loss log_cosh_loss hinge_loss cosine_similarity_loss kl_div_loss "
                       "binary_cross_entropy")],
}
INDEX = lambda: mx.array([[2, 0], [1, 1]])
MASK = lambda: mx.array([[True, False, True], [False, True, True]])
# {name: (function of arrays, inputs)}
WITH_ARGUMENTS = {
    "sum over an axis": (lambda x: mx.sum(x, axis=1), ANY),
    "prod over an axis": (lambda x: mx.prod(x, axis=1), ANY),
    "prod of a zero": (lambda x: mx.prod(x, axis=1), lambda: (np.array([[0.0, 2.0, 3.0], [1.0, -1.5, 0.5]]),)),
    "prod of two zeros": (lambda x: mx.prod(x, axis=1), lambda: (np.array([[0.0, 0.0, 3.0], [1.0, -1.5, 0.5]]),)),
    "max over an axis": (lambda x: mx.max(x, axis=1), ANY),
    "var with ddof": (lambda x: mx.var(x, axis=1, ddof=1), ANY),
    "std with ddof": (lambda x: mx.std(x, axis=0, ddof=1), ANY),
    "cumsum reverse": (lambda x: mx.cumsum(x, axis=1, reverse=True), ANY),
    "cumsum exclusive": (lambda x: mx.cumsum(x, axis=1, inclusive=False), ANY),
    "cumsum reverse exclusive": (lambda x: mx.cumsum(x, axis=0, reverse=True, inclusive=False), ANY),
    "cumprod axis": (lambda x: mx.cumprod(x, axis=1), ANY),
    "cumprod reverse": (lambda x: mx.cumprod(x, axis=1, reverse=True), ANY),
    "cumprod exclusive": (lambda x: mx.cumprod(x, axis=1, inclusive=False), ANY),
    "cumprod reverse exclusive": (lambda x: mx.cumprod(x, axis=1, reverse=True, inclusive=False), ANY),
    "cummax reverse": (lambda x: mx.cummax(x, axis=1, reverse=True), ANY),
    "cummax exclusive": (lambda x: mx.cummax(x, axis=1, inclusive=False)[:, 1:], ANY),
    "cummin reverse": (lambda x: mx.cummin(x, axis=1, reverse=True), ANY),
    "logcumsumexp axis": (lambda x: mx.logcumsumexp(x, axis=1), ANY),
    "logcumsumexp reverse": (lambda x: mx.logcumsumexp(x, axis=1, reverse=True), ANY),
    "logcumsumexp exclusive": (lambda x: mx.logcumsumexp(x, axis=1, inclusive=False)[:, 1:], ANY),
    "softmax over an axis": (lambda x: mx.softmax(x, axis=0), ANY),
    "reshape": (lambda x: mx.reshape(x, (3, 2)), ANY),
    "broadcast_to": (lambda x: mx.broadcast_to(x, (2, 2, 3)), ANY),
    "as_strided": (lambda x: mx.as_strided(x, (2, 2), (1, 2), 1), ANY),
    "as_strided overlapping": (lambda x: mx.as_strided(x, (3, 3), (1, 1), 0), ANY),
    "pad": (lambda x: mx.pad(x, ((1, 0), (0, 2))), ANY),
    "pad edge": (lambda x: mx.pad(x, ((1, 0), (0, 2)), mode="edge"), ANY),
    "repeat": (lambda x: mx.repeat(x, 2, axis=1), ANY),
    "tile": (lambda x: mx.tile(x, (2, 2)), ANY),
    "roll": (lambda x: mx.roll(x, 2, axis=1), ANY),
    "moveaxis": (lambda x: mx.moveaxis(x, 0, 1), ANY),
    "swapaxes": (lambda x: mx.swapaxes(x, 0, 1), ANY),
    "expand_dims": (lambda x: mx.expand_dims(x, 1), ANY),
    "unflatten": (lambda x: mx.unflatten(x, 1, (3, 1)), ANY),
    "split": (lambda x: mx.split(x, 3, axis=1)[1], ANY),
    "unstack": (lambda x: mx.unstack(x)[1], ANY),
    "concatenate": (lambda x, y: mx.concatenate([x, y], axis=0), SAME),
    "stack": (lambda x, y: mx.stack([x, y], axis=1), SAME),
    "meshgrid": (lambda x, y: mx.meshgrid(x, y)[1], VECTORS),
    "where": (lambda x, y: mx.where(MASK(), x, y), SAME),
    "clip": (lambda x: mx.clip(x, -0.5, 0.6), ANY),
    "clip by arrays": (lambda x, y: mx.clip(x, y, 1.5), SAME),
    "take": (lambda x: mx.take(x, mx.array([2, 0, 2]), axis=1), ANY),
    "take_along_axis": (lambda x: mx.take_along_axis(x, INDEX(), axis=1), ANY),
    "put_along_axis": (lambda x, y: mx.put_along_axis(x, mx.array([[2], [0]]), y[:, :1], axis=1), SAME),
    "index": (lambda x: x[:, 1:], ANY),
    "index with a step": (lambda x: x[::-1, ::2], ANY),
    "index by arrays": (lambda x: x[mx.array([1, 0, 1]), mx.array([2, 2, 2])], ANY),
    "slice": (lambda x: mx.slice(x, mx.array([1]), (1,), (1, 2)), ANY),
    "slice_update": (lambda x, y: mx.slice_update(x, y[:1, :2], mx.array([1, 1]), (0, 1)), SAME),
    "at add": (lambda x, y: x.at[mx.array([1, 1])].add(y), SAME),
    "at subtract": (lambda x, y: x.at[mx.array([1, 1])].subtract(y), SAME),
    "at multiply": (lambda x, y: x.at[mx.array([1, 0])].multiply(y), SAME),
    "at multiply, repeated": (lambda x, y: x.at[mx.array([1, 1])].multiply(y), SAME),
    "at divide": (lambda x, y: x.at[mx.array([1, 0])].divide(y), POSITIVES),
    "at maximum": (lambda x, y: x.at[mx.array([1, 0])].maximum(y), SAME),
    "at minimum": (lambda x, y: x.at[mx.array([1, 0])].minimum(y), SAME),
    "at maximum, repeated": (lambda x, y: x.at[mx.array([1, 1])].maximum(y), SAME),
    "partition": (lambda x: mx.partition(x, 1, axis=1), ANY),
    "topk": (lambda x: mx.topk(x, 2, axis=1), ANY),
    "sort over an axis": (lambda x: mx.sort(x, axis=0), ANY),
    "einsum": (lambda x, y: mx.einsum("ij,kj->ik", x, y), MATRICES),
    "addmm": (lambda x, y, z: mx.addmm(z, x, y, 0.7, -1.3), LINEAR),
    "addmm of a row": (lambda x, y, z: mx.addmm(z[0], x, y, 0.7, -1.3), LINEAR),
    "addmm of a column": (lambda x, y, z: mx.addmm(z[:, :1], x, y, 0.7, -1.3), LINEAR),
    "matmul of a batch and a matrix": (lambda x, y: x @ y, lambda: (uniform(-2, 2, 2, 2, 3), uniform(-2, 2, 3, 2))),
    "matmul of a vector": (lambda x, y: x @ y, lambda: (uniform(-2, 2, 3), uniform(-2, 2, 2, 3, 2))),
    "gather_mm": (lambda x, y: mx.gather_mm(x, y, rhs_indices=mx.array([1, 0, 1])),
                  lambda: (uniform(-2, 2, 3, 1, 2), uniform(-2, 2, 2, 2, 2))),
    "block_masked_mm": (lambda x, y: mx.block_masked_mm(x, y, 32), lambda: (uniform(-1, 1, 2, 3), uniform(-1, 1, 3, 2))),
    "hadamard_transform": (lambda x: mx.hadamard_transform(x), lambda: (uniform(-2, 2, 2, 4),)),
    "hadamard_transform, scaled": (lambda x: mx.hadamard_transform(x, 0.3), lambda: (uniform(-2, 2, 2, 4),)),
    "conv1d": (lambda x, w: mx.conv1d(x, w), SIGNAL),
    "conv1d stride, padding": (lambda x, w: mx.conv1d(x, w, stride=2, padding=1), SIGNAL),
    "conv1d stride that leaves a rest": (lambda x, w: mx.conv1d(x, w, stride=3, padding=0), SIGNAL),
    "conv1d dilation": (lambda x, w: mx.conv1d(x, w, dilation=2), SIGNAL),
    "conv1d groups": (lambda x, w: mx.conv1d(x, w, groups=2), GROUPED),
    "conv1d groups, stride": (lambda x, w: mx.conv1d(x, w, groups=2, stride=2, padding=1), GROUPED),
    "conv2d": (lambda x, w: mx.conv2d(x, w), IMAGE),
    "conv2d stride, padding, dilation": (lambda x, w: mx.conv2d(x, w, (2, 1), (1, 0), (1, 2)), IMAGE),
    "conv3d": (lambda x, w: mx.conv3d(x, w, (1, 2, 1)), VOLUME),
    "conv_general": (lambda x, w: mx.conv_general(x, w, 1, ([1], [2]), 1, 2), SIGNAL),
    "conv_general flipped": (lambda x, w: mx.conv_general(x, w, 2, ([1], [0]), 1, 1, 1, True), SIGNAL),
    "conv_transpose1d": (lambda x, w: mx.conv_transpose1d(x, w, stride=2, padding=1), SIGNAL),
    "conv_transpose1d output padding": (lambda x, w: mx.conv_transpose1d(x, w, stride=2, padding=1, output_padding=1), SIGNAL),
    "conv_transpose2d": (lambda x, w: mx.conv_transpose2d(x, w, (2, 1), (1, 0)), IMAGE),
    "conv_transpose3d": (lambda x, w: mx.conv_transpose3d(x, w), VOLUME),
    "fft": (lambda x: mx.real(mx.fft.fft(x)), ANY),
    "fft padded": (lambda x: mx.imag(mx.fft.fft(x, 5)), ANY),
    "fft truncated": (lambda x: mx.real(mx.fft.fft(x, 2)), ANY),
    "ifft": (lambda x: mx.imag(mx.fft.ifft(x)), ANY),
    "fft2": (lambda x: mx.real(mx.fft.fft2(x)), ANY),
    "fftn": (lambda x: mx.imag(mx.fft.fftn(x)), ANY),
    "rfft, even": (lambda x: mx.real(mx.fft.rfft(x)), lambda: (uniform(-2, 2, 2, 4),)),
    "rfft, odd": (lambda x: mx.imag(mx.fft.rfft(x)), lambda: (uniform(-2, 2, 2, 5),)),
    "rfft padded": (lambda x: mx.real(mx.fft.rfft(x, 6)), lambda: (uniform(-2, 2, 2, 5),)),
    "rfft2": (lambda x: mx.real(mx.fft.rfft2(x)), lambda: (uniform(-2, 2, 3, 4),)),
    "rfftn": (lambda x: mx.imag(mx.fft.rfftn(x)), lambda: (uniform(-2, 2, 3, 5),)),
    "irfft, even": (lambda x: mx.fft.irfft(x + 0j), ANY),
    "irfft, odd": (lambda x: mx.fft.irfft(x + 0j, 5), lambda: (uniform(-2, 2, 2, 3),)),
    "irfft2": (lambda x: mx.fft.irfft2(x + 0j), ANY),
    "fftshift": (lambda x: mx.fft.fftshift(x), ANY),
    "ifftshift": (lambda x: mx.fft.ifftshift(x), ANY),
    "abs of a complex number": (lambda x, y: mx.abs(x + y * mx.array(1j)), SAME),
    "norm of order 1": (lambda x: mx.linalg.norm(x, 1, axis=1), ANY),
    "norm of order 3": (lambda x: mx.linalg.norm(x, 3, axis=1), ANY),
    "norm of order infinity": (lambda x: mx.linalg.norm(x, float("inf"), axis=1), ANY),
    "eigh": (lambda x: mx.linalg.eigh((x + x.T) / 2)[0], DEFINITE),
    "solve_triangular": (lambda x, y: mx.linalg.solve_triangular(x, y, upper=True), MATRICES),
    "fast.layer_norm": (lambda x, w, b: mx.fast.layer_norm(x, w, b, 1e-5), LAYER),
    "fast.layer_norm, plain": (lambda x: mx.fast.layer_norm(x, None, None, 1e-5), ANY),
    "fast.rms_norm": (lambda x, w: mx.fast.rms_norm(x, w, 1e-5), lambda: LAYER()[:2]),
    "fast.rms_norm, plain": (lambda x: mx.fast.rms_norm(x, None, 1e-5), ANY),
    "fast.rope": (lambda x: mx.fast.rope(x, 4, traditional=False, base=10000.0, scale=0.5, offset=2), lambda: HEADS()[:1]),
    "fast.rope traditional": (lambda x: mx.fast.rope(x, 2, traditional=True, base=10000.0, scale=1.0, offset=1), lambda: HEADS()[:1]),
    "fast.rope frequencies": (lambda x, f: mx.fast.rope(x, 4, traditional=False, base=None, scale=1.0, offset=1, freqs=f),
                              lambda: (uniform(-2, 2, 1, 2, 3, 4), uniform(1, 3, 2))),
    "fast.scaled_dot_product_attention": (lambda q, k, v: mx.fast.scaled_dot_product_attention(q, k, v, scale=0.6), HEADS),
    "fast.scaled_dot_product_attention causal": (
        lambda q, k, v: mx.fast.scaled_dot_product_attention(q, k, v, scale=0.6, mask="causal"), HEADS),
    "fast.cross_entropy": (lambda x: mx.fast.cross_entropy(x, mx.array([2, 0])), ANY),
    "losses.cross_entropy": (lambda x: nn.losses.cross_entropy(x, mx.array([2, 0]), label_smoothing=0.1), ANY),
    "losses.nll_loss": (lambda x: nn.losses.nll_loss(x, mx.array([2, 0])), ANY),
    "losses.gaussian_nll_loss": (lambda x, y, z: nn.losses.gaussian_nll_loss(x, y, mx.abs(z) + 0.2),
                                 lambda: (uniform(-2, 2, 4), uniform(-2, 2, 4), uniform(-2, 2, 4))),
    "losses.margin_ranking_loss": (lambda x, y: nn.losses.margin_ranking_loss(x, y, mx.array([1.0, -1, 1, 1]), 0.5), VECTORS),
    "losses.triplet_loss": (lambda x, y, z: nn.losses.triplet_loss(x, y, z),
                            lambda: (uniform(-2, 2, 2, 3), uniform(-2, 2, 2, 3), uniform(-2, 2, 2, 3))),
    "glu": (lambda x: nn.glu(x), lambda: (uniform(-2, 2, 2, 4),)),
    "prelu": (lambda x, a: nn.prelu(x, a), PAIR),
    "GroupNorm": (lambda x: nn.GroupNorm(2, 4, affine=False)(x), lambda: (uniform(-2, 2, 2, 3, 4),)),
    "InstanceNorm": (lambda x: nn.InstanceNorm(4)(x), lambda: (uniform(-2, 2, 2, 3, 4),)),
    "BatchNorm": (lambda x: nn.BatchNorm(4, affine=False)(x), lambda: (uniform(-2, 2, 3, 4),)),
    "MaxPool2d": (lambda x: nn.MaxPool2d(2)(x), lambda: IMAGE()[:1]),
    "MaxPool2d overlapping": (lambda x: nn.MaxPool2d(3, stride=1, padding=1)(x), lambda: IMAGE()[:1]),
    "AvgPool2d": (lambda x: nn.AvgPool2d(2)(x), lambda: IMAGE()[:1]),
    "AvgPool1d overlapping": (lambda x: nn.AvgPool1d(3, stride=2, padding=1)(x), lambda: SIGNAL()[:1]),
    "Upsample nearest": (lambda x: nn.Upsample(2)(x), lambda: IMAGE()[:1]),
    "Upsample linear": (lambda x: nn.Upsample(1.5, "linear")(x), lambda: IMAGE()[:1]),
    "Upsample cubic": (lambda x: nn.Upsample(1.5, "cubic")(x), lambda: IMAGE()[:1]),
    "checkpoint": (lambda x, y: mx.checkpoint(lambda a, b: mx.sin(a) * b)(x, y), SAME),
    "log of a sum, checkpointed twice": (lambda x: mx.checkpoint(mx.logsumexp)(mx.checkpoint(mx.square)(x)), ANY),
}


def operations(name, dtype):
    def arrays(values):
        return [mx.array(np.asarray(x), dtype=dtype) for x in values]

    def floating(result):
        results = result if isinstance(result, (tuple, list)) else [result]
        return [y for y in results if y.dtype == dtype]

    def check(operation, function, inputs):
        def forward(*x):
            return tuple(np.array(y) for y in floating(function(*arrays(x))))

        def vjp(x, _, cotangents):
            _, gradients = mx.vjp(lambda *a: floating(function(*a)), arrays(x), arrays(cotangents))
            return tuple(np.array(g) for g in gradients)

        yield common.tapehead.check(forward, inputs(), vjp=vjp, name=operation)

    return common.operations_of(FUNCTIONS, WITH_ARGUMENTS, name, check)


if __name__ == "__main__":
    both = itertools.chain(operations("float32", mx.float32), operations("float64", mx.float64))
    sys.exit(common.main("mlx", importlib.metadata.version("mlx"), both))
