"""Paddle: functions of paddle, paddle.linalg, paddle.fft and paddle.nn.functional in float64 on the CPU."""

import sys

import common
import numpy as np
import paddle
import paddle.nn.functional as F
from samples import ABOVE, ANY, DEFINITE, INSIDE, MATRICES, PAIR, POSITIVE, SAME, SQUARE, VECTORS, uniform

paddle.set_device("cpu")

UNIT = lambda: (uniform(0.05, 0.95, 2, 3),)
POSITIVES = lambda: (uniform(0.3, 2.5, 2, 3), uniform(0.3, 2.5, 2, 3))
IMAGE = lambda: (uniform(-2, 2, 1, 2, 5, 6),)
FILTER = lambda: (uniform(-2, 2, 1, 2, 5, 6), uniform(-2, 2, 2, 2, 3, 3))
SIGNAL = lambda: (uniform(-2, 2, 2, 2, 7),)
PROBABILITIES = lambda: (uniform(0.05, 0.95, 2, 3), uniform(0.05, 0.95, 2, 3))

FUNCTIONS = {
    paddle: [
        (ANY, "abs asinh atan cos cosh erf exp expm1 neg sin sinh square stanh tan tanh sinc sum mean max min amax amin prod std var median "
              "nanmedian nanmean nansum logsumexp cumsum logcumsumexp sort transpose flatten squeeze tril triu flip diff nan_to_num rad2deg "
              "deg2rad i0 i0e i1 i1e norm frac t rot90 cov corrcoef trapezoid cumulative_trapezoid vander sgn"),
        (POSITIVE, "log log10 log1p log2 reciprocal rsqrt sqrt lgamma digamma gammaln"),
        (INSIDE, "acos asin atanh erfinv"),
        (UNIT, "logit"),
        (ABOVE, "acosh"),
        (PAIR, "add subtract multiply divide atan2 logaddexp maximum minimum fmax fmin remainder hypot copysign heaviside"),
        (POSITIVES, "pow gammainc gammaincc"),
        (VECTORS, "inner outer dot"),
        (MATRICES, "matmul mm tensordot kron dist cdist"),
        (SQUARE, "diag diagonal trace diagflat diag_embed"),
        (SAME, "cross"),
    ],
    paddle.linalg: [(SQUARE, "inv det slogdet norm svdvals pinv qr lu matrix_exp cond vector_norm matrix_norm"),
                    (MATRICES, "solve triangular_solve lstsq multi_dot")],
    F: [
        (ANY, "celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu log_sigmoid log_softmax mish relu relu6 selu sigmoid silu "
              "softmax softplus softshrink softsign swish tanhshrink thresholded_relu normalize"),
        (SAME, "mse_loss l1_loss smooth_l1_loss square_error_cost cosine_similarity pairwise_distance poisson_nll_loss"),
        (PROBABILITIES, "binary_cross_entropy kl_div log_loss binary_cross_entropy_with_logits"),
    ],
}
INDEX = lambda: paddle.to_tensor([[2, 0], [1, 1]])
MASK = lambda: paddle.to_tensor([[True, False, True], [False, True, True]])
LABELS = lambda: paddle.to_tensor([2, 0])
WITH_ARGUMENTS = {
    "prod of a zero": (lambda x: paddle.prod(x, 1), lambda: (np.array([[0.0, 2.0, 3.0], [1.0, -1.5, 0.5]]),)),
    "cumprod": (lambda x: paddle.cumprod(x, 1), ANY),
    "cumprod of a zero": (lambda x: paddle.cumprod(x, 1), lambda: (np.array([[0.0, 2.0, 3.0], [1.0, 0.0, 0.5]]),)),
    "cummax": (lambda x: paddle.cummax(x, 1)[0], ANY),
    "cummin": (lambda x: paddle.cummin(x, 1)[0], ANY),
    "logcumsumexp axis": (lambda x: paddle.logcumsumexp(x, 1), ANY),
    "var axis": (lambda x: paddle.var(x, 1, unbiased=False), ANY),
    "std axis": (lambda x: paddle.std(x, 0), ANY),
    "quantile": (lambda x: paddle.quantile(x, 0.3, 1), ANY),
    "kthvalue": (lambda x: paddle.kthvalue(x, 2, 1)[0], ANY),
    "mode": (lambda x: paddle.mode(x, 1)[0], ANY),
    "topk": (lambda x: paddle.topk(x, 2, 1)[0], ANY),
    "renorm": (lambda x: paddle.renorm(x, 2.0, 0, 1.0), ANY),
    "renorm of order 1": (lambda x: paddle.renorm(x, 1.0, 1, 1.0), ANY),
    "norm of order 3": (lambda x: paddle.linalg.norm(x, 3, 1), ANY),
    "norm of order 1": (lambda x: paddle.linalg.norm(x, 1, 1), ANY),
    "norm of order infinity": (lambda x: paddle.linalg.norm(x, float("inf"), 1), ANY),
    "nuclear norm": (lambda x: paddle.linalg.norm(x, "nuc", [0, 1]), SQUARE),
    "reshape": (lambda x: paddle.reshape(x, (3, 2)), ANY),
    "expand": (lambda x: paddle.expand(x, (2, 2, 3)), ANY),
    "tile": (lambda x: paddle.tile(x, (2, 2)), ANY),
    "roll": (lambda x: paddle.roll(x, 2, 1), ANY),
    "repeat_interleave": (lambda x: paddle.repeat_interleave(x, 2, 1), ANY),
    "repeat_interleave by counts": (lambda x: paddle.repeat_interleave(x, paddle.to_tensor([1, 0, 2]), 1), ANY),
    "as_strided": (lambda x: paddle.as_strided(x, (2, 2), (1, 2), 8), ANY),
    "as_strided overlapping": (lambda x: paddle.as_strided(x, (3, 3), (1, 1), 0), ANY),
    "unfold": (lambda x: paddle.unfold(x, 1, 2, 1), ANY),
    "gather": (lambda x: paddle.gather(x, paddle.to_tensor([1, 0, 1])), ANY),
    "gather_nd": (lambda x: paddle.gather_nd(x, INDEX()[1:]), ANY),
    "index_select": (lambda x: paddle.index_select(x, paddle.to_tensor([2, 0, 2]), 1), ANY),
    "index_sample": (lambda x: paddle.index_sample(x, INDEX()), ANY),
    "index_add": (lambda x, y: paddle.index_add(x, paddle.to_tensor([1, 1]), 0, y), SAME),
    "index_put": (lambda x, y: paddle.index_put(x, (paddle.to_tensor([1, 0]),), y), SAME),
    "index_put accumulate": (lambda x, y: paddle.index_put(x, (paddle.to_tensor([1, 1]),), y, True), SAME),
    "index_fill": (lambda x: paddle.index_fill(x, paddle.to_tensor([2]), 1, 0.5), ANY),
    "take": (lambda x: paddle.take(x, INDEX()), ANY),
    "take_along_axis": (lambda x: paddle.take_along_axis(x, INDEX(), 1), ANY),
    "put_along_axis": (lambda x, y: paddle.put_along_axis(x, paddle.to_tensor([[2, 0], [1, 0]]), y[:, :2], 1), SAME),
    "put_along_axis add": (lambda x, y: paddle.put_along_axis(x, INDEX(), y[:, :2], 1, "add"), SAME),
    "put_along_axis mul": (lambda x, y: paddle.put_along_axis(x, paddle.to_tensor([[2, 0], [1, 0]]), y[:, :2], 1, "mul"), SAME),
    "put_along_axis mul, repeated": (lambda x, y: paddle.put_along_axis(x, INDEX(), y[:, :2], 1, "mul"), SAME),
    "put_along_axis mean": (lambda x, y: paddle.put_along_axis(x, INDEX(), y[:, :2], 1, "mean"), SAME),
    "put_along_axis amax": (lambda x, y: paddle.put_along_axis(x, INDEX(), y[:, :2], 1, "amax"), SAME),
    "put_along_axis amin": (lambda x, y: paddle.put_along_axis(x, INDEX(), y[:, :2], 1, "amin"), SAME),
    "put_along_axis mul, without self": (
        lambda x, y: paddle.put_along_axis(x, paddle.to_tensor([[2, 0], [1, 0]]), y[:, :2], 1, "mul", include_self=False), SAME),
    "put_along_axis amax, without self": (
        lambda x, y: paddle.put_along_axis(x, INDEX(), y[:, :2], 1, "amax", include_self=False), SAME),
    "put_along_axis mean, without self": (
        lambda x, y: paddle.put_along_axis(x, INDEX(), y[:, :2], 1, "mean", include_self=False), SAME),
    "put_along_axis add, without self": (
        lambda x, y: paddle.put_along_axis(x, INDEX(), y[:, :2], 1, "add", include_self=False), SAME),
    "scatter": (lambda x, y: paddle.scatter(x, paddle.to_tensor([1, 0]), y), SAME),
    "scatter add": (lambda x, y: paddle.scatter(x, paddle.to_tensor([1, 1]), y, overwrite=False), SAME),
    "scatter_nd_add": (lambda x, y: paddle.scatter_nd_add(x, paddle.to_tensor([[1], [1]]), y), SAME),
    "masked_fill": (lambda x: paddle.masked_fill(x, MASK(), 2.0), ANY),
    "masked_scatter": (lambda x, y: paddle.masked_scatter(x, MASK(), y), SAME),
    "where": (lambda x, y: paddle.where(MASK(), x, y), SAME),
    "clip": (lambda x: paddle.clip(x, -0.5, 0.6), ANY),
    "lerp": (lambda x, y: paddle.lerp(x, y, 0.3), SAME),
    "addmm": (lambda x, y: paddle.addmm(x, x, y, 0.7, -1.3), MATRICES),
    "baddbmm": (lambda x, y: paddle.baddbmm(x[None], x[None], y[None], 0.7, -1.3), MATRICES),
    "einsum": (lambda x, y: paddle.einsum("ij,kj->ik", x, y), MATRICES),
    "polygamma": (lambda x: paddle.polygamma(x, 1), POSITIVE),
    "multigammaln": (lambda x: paddle.multigammaln(x + 2, 2), POSITIVE),
    "ldexp": (lambda x: paddle.ldexp(x, paddle.to_tensor([1, 2, 3])), ANY),
    "diagonal_scatter": (lambda x, y: paddle.diagonal_scatter(x, y[0]), MATRICES),
    "select_scatter": (lambda x, y: paddle.select_scatter(x, y[0], 0, 1), SAME),
    "slice_scatter": (lambda x, y: paddle.slice_scatter(x, y[:, :1], [1], [1], [2], [1]), SAME),
    "fill_diagonal_tensor": (lambda x, y: paddle.Tensor.fill_diagonal_tensor(x, y[0]), MATRICES),
    "householder_product": (lambda x, y: paddle.linalg.householder_product(x, y[0]), MATRICES),
    "eigh": (lambda x: paddle.linalg.eigh((x + x.T) / 2)[0], DEFINITE),
    "eigvalsh": (lambda x: paddle.linalg.eigvalsh((x + x.T) / 2), DEFINITE),
    "cholesky of a symmetric part": (lambda x: paddle.linalg.cholesky((x + x.T) / 2), DEFINITE),
    "cholesky, upper": (lambda x: paddle.linalg.cholesky((x + x.T) / 2, upper=True), DEFINITE),
    "cholesky_solve": (lambda x, y: paddle.linalg.cholesky_solve(y, paddle.tril(x)), lambda: (DEFINITE()[0], uniform(-2, 2, 3, 2))),
    "cholesky_inverse": (lambda x: paddle.linalg.cholesky_inverse(paddle.tril(x)), DEFINITE),
    "matrix_power": (lambda x: paddle.linalg.matrix_power(x, 3), SQUARE),
    "matrix_power of -2": (lambda x: paddle.linalg.matrix_power(x, -2), SQUARE),
    "triangular_solve transposed": (lambda x, y: paddle.linalg.triangular_solve(x, y, upper=False, transpose=True), MATRICES),
    "triangular_solve unit": (lambda x, y: paddle.linalg.triangular_solve(x, y, unitriangular=True), MATRICES),
    "svd": (lambda x: paddle.linalg.svd(x)[1], SQUARE),
    "rfft": (lambda x: paddle.real(paddle.fft.rfft(x)), IMAGE),
    "fft": (lambda x: paddle.imag(paddle.fft.fft(x, 4)), ANY),
    "irfft": (lambda x: paddle.fft.irfft(paddle.complex(x, 0 * x), 5), ANY),
    "hfft": (lambda x: paddle.fft.hfft(paddle.complex(x, 0.5 * x)), ANY),
    "ihfft": (lambda x: paddle.imag(paddle.fft.ihfft(x)), ANY),
    "conv2d": (lambda x, w: F.conv2d(x, w), FILTER),
    "conv2d stride, padding, dilation": (lambda x, w: F.conv2d(x, w, None, (2, 1), (1, 0), (1, 2)), FILTER),
    "conv2d_transpose": (lambda x, w: F.conv2d_transpose(x, w, None, 2, 1), FILTER),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), IMAGE),
    "avg_pool2d padded": (lambda x: F.avg_pool2d(x, 3, 2, 1), IMAGE),
    "avg_pool2d padded, inclusive": (lambda x: F.avg_pool2d(x, 3, 2, 1, exclusive=False), IMAGE),
    "avg_pool2d ceil": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), IMAGE),
    "avg_pool2d divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), IMAGE),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), IMAGE),
    "max_pool2d overlapping": (lambda x: F.max_pool2d(x, 3, 1, 1), IMAGE),
    "lp_pool2d": (lambda x: F.lp_pool2d(x, 3.0, 2), lambda: (uniform(0.3, 2, 1, 2, 4, 4),)),
    "lp_pool1d": (lambda x: F.lp_pool1d(x, 3.0, 2), lambda: (uniform(0.3, 2, 2, 2, 7),)),
    "lp_pool2d of negative numbers": (lambda x: F.lp_pool2d(x, 2.0, 2), IMAGE),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (3, 4)), IMAGE),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (3, 4)), IMAGE),
    "interpolate bilinear": (lambda x: F.interpolate(x, (7, 4), mode="bilinear"), IMAGE),
    "interpolate bilinear, corners": (lambda x: F.interpolate(x, (7, 4), mode="bilinear", align_corners=True), IMAGE),
    "interpolate bicubic": (lambda x: F.interpolate(x, (7, 4), mode="bicubic"), IMAGE),
    "interpolate area": (lambda x: F.interpolate(x, (3, 4), mode="area"), IMAGE),
    "interpolate linear": (lambda x: F.interpolate(x, (10,), mode="linear", data_format="NCW"), SIGNAL),
    "pad reflect": (lambda x: F.pad(x, (1, 2, 0, 1), "reflect"), IMAGE),
    "pad replicate": (lambda x: F.pad(x, (1, 2, 0, 1), "replicate"), IMAGE),
    "pad circular": (lambda x: F.pad(x, (1, 2, 0, 1), "circular"), IMAGE),
    "fold": (lambda x: F.fold(x, (3, 3), 2), lambda: (uniform(-2, 2, 1, 8, 4),)),
    "unfold image": (lambda x: F.unfold(x, 2), IMAGE),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), lambda: (uniform(-2, 2, 1, 4, 2, 3),)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), lambda: (uniform(-2, 2, 1, 1, 4, 6),)),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), lambda: (uniform(-2, 2, 1, 4, 2, 3),)),
    "temporal_shift": (lambda x: F.temporal_shift(x, 2, 0.25), lambda: (uniform(-2, 2, 4, 4, 2, 2),)),
    "local_response_norm": (lambda x: F.local_response_norm(x, 3), lambda: (uniform(-2, 2, 1, 4, 2, 3),)),
    "layer_norm": (lambda x, w: F.layer_norm(x, 3, w[0], w[1]), SAME),
    "group_norm": (lambda x: F.group_norm(x, 2), lambda: (uniform(-2, 2, 2, 4, 3, 3),)),
    "instance_norm": (lambda x: F.instance_norm(x), IMAGE),
    "grid_sample": (lambda x, g: F.grid_sample(x, g), lambda: (uniform(-2, 2, 1, 2, 4, 5), uniform(-0.9, 0.9, 1, 3, 3, 2))),
    "grid_sample border": (lambda x, g: F.grid_sample(x, g, padding_mode="border"),
                           lambda: (uniform(-2, 2, 1, 2, 4, 5), uniform(-1.4, 1.4, 1, 3, 3, 2))),
    "grid_sample reflection": (lambda x, g: F.grid_sample(x, g, padding_mode="reflection"),
                               lambda: (uniform(-2, 2, 1, 2, 4, 5), uniform(-1.4, 1.4, 1, 3, 3, 2))),
    "grid_sample reflection, no corners": (lambda x, g: F.grid_sample(x, g, padding_mode="reflection", align_corners=False),
                                           lambda: (uniform(-2, 2, 1, 2, 4, 5), uniform(-1.4, 1.4, 1, 3, 3, 2))),
    "grid_sample zeros, no corners": (lambda x, g: F.grid_sample(x, g, align_corners=False),
                                      lambda: (uniform(-2, 2, 1, 2, 4, 5), uniform(-1.2, 1.2, 1, 3, 3, 2))),
    "affine_grid": (lambda t: F.affine_grid(t, (1, 1, 3, 4)), lambda: (uniform(-1, 1, 1, 2, 3),)),
    "bilinear": (lambda x, y, w: F.bilinear(x, y, w), lambda: (uniform(-2, 2, 2, 3), uniform(-2, 2, 2, 4), uniform(-2, 2, 2, 3, 4))),
    "prelu": (lambda x, w: F.prelu(x, w), lambda: (uniform(-2, 2, 2, 3), uniform(0.1, 0.5, 3))),
    "glu": (lambda x: F.glu(x), lambda: (uniform(-2, 2, 2, 4),)),
    "maxout": (lambda x: F.maxout(x, 2), lambda: (uniform(-2, 2, 1, 4, 2, 2),)),
    "swiglu": (lambda x, y: F.swiglu(x, y), SAME),
    "cross_entropy": (lambda x: F.cross_entropy(x, LABELS()), ANY),
    "cross_entropy, weights": (lambda x, w: F.cross_entropy(x, LABELS(), weight=w[0].detach()), POSITIVES),
    "cross_entropy, smoothing": (lambda x: F.cross_entropy(x, LABELS(), label_smoothing=0.1), ANY),
    "cross_entropy, soft labels": (lambda x: F.cross_entropy(x, paddle.to_tensor([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]], dtype="float64"), soft_label=True), ANY),
    "nll_loss": (lambda x: F.nll_loss(x, LABELS()), ANY),
    "gaussian_nll_loss": (lambda x, y: F.gaussian_nll_loss(x, y, y + 0.5), POSITIVES),
    "multi_margin_loss": (lambda x: F.multi_margin_loss(x, LABELS()), ANY),
    "multi_label_soft_margin_loss": (lambda x: F.multi_label_soft_margin_loss(x, MASK().astype("float64")), ANY),
    "soft_margin_loss": (lambda x: F.soft_margin_loss(x, 2 * MASK().astype("float64") - 1), ANY),
    "hinge_embedding_loss": (lambda x: F.hinge_embedding_loss(x, 2 * MASK().astype("float64") - 1), ANY),
    "margin_ranking_loss": (lambda x, y: F.margin_ranking_loss(x, y, 2 * MASK().astype("float64") - 1, 0.3), SAME),
    "cosine_embedding_loss": (lambda x, y: F.cosine_embedding_loss(x, y, paddle.to_tensor([1, -1])), SAME),
    "triplet_margin_loss": (lambda x, y: F.triplet_margin_loss(x, y, x * y), SAME),
    "dice_loss": (lambda x: F.dice_loss(F.softmax(x), paddle.to_tensor([[2], [0]])), ANY),
    "sigmoid_focal_loss": (lambda x: F.sigmoid_focal_loss(x, MASK().astype("float64")), ANY),
    "npair_loss": (lambda x, y: F.npair_loss(x, y, paddle.to_tensor([0.0, 1.0], dtype="float64")), SAME),
    "ctc_loss": (lambda x: F.ctc_loss(x, paddle.to_tensor([[1, 2]], dtype="int32"), paddle.to_tensor([4]), paddle.to_tensor([2])),
                 lambda: (uniform(-2, 2, 4, 1, 3),)),
    "huber_loss": (lambda x, y: F.smooth_l1_loss(x, y, delta=0.5), SAME),
    "huber_loss of delta 2": (lambda x, y: F.smooth_l1_loss(x, y, delta=2.0), SAME),
    "softmax_with_cross_entropy": (lambda x: F.softmax_with_cross_entropy(x, paddle.to_tensor([[2], [0]])), ANY),
    "segment_max": (lambda x: paddle.geometric.segment_max(x, paddle.to_tensor([0, 0, 1])), SQUARE),
    "segment_mean": (lambda x: paddle.geometric.segment_mean(x, paddle.to_tensor([0, 0, 1])), SQUARE),
    "send_u_recv max": (lambda x: paddle.geometric.send_u_recv(x, paddle.to_tensor([0, 1, 2]), paddle.to_tensor([1, 1, 0]), "max"), SQUARE),
    "send_u_recv mean": (lambda x: paddle.geometric.send_u_recv(x, paddle.to_tensor([0, 1, 2]), paddle.to_tensor([1, 1, 0]), "mean"), SQUARE),
    "send_ue_recv": (lambda x, y: paddle.geometric.send_ue_recv(x, y, paddle.to_tensor([0, 1, 2]), paddle.to_tensor([1, 1, 0]), "mul", "sum"), MATRICES),
    "send_ue_recv mean": (lambda x, y: paddle.geometric.send_ue_recv(x, y, paddle.to_tensor([0, 1, 2]), paddle.to_tensor([1, 1, 0]), "mul", "mean"), MATRICES),
    "send_ue_recv max": (lambda x, y: paddle.geometric.send_ue_recv(x, y, paddle.to_tensor([0, 1, 2]), paddle.to_tensor([1, 1, 0]), "add", "max"), MATRICES),
    "send_uv": (lambda x, y: paddle.geometric.send_uv(x, y, paddle.to_tensor([0, 1, 2]), paddle.to_tensor([1, 1, 0]), "mul"), MATRICES),
}
OF_LISTS = (paddle.linalg.multi_dot,)


def tensors(arrays):
    return [paddle.to_tensor(np.array(x), stop_gradient=False) for x in arrays]


def floating(result):
    results = result if isinstance(result, (tuple, list)) else [result]
    return [y for y in results if isinstance(y, paddle.Tensor) and y.dtype == paddle.float64 and not y.stop_gradient]


def check(name, function, inputs):
    def apply(x):
        return floating(function(x) if function in OF_LISTS else function(*x))

    def forward(*x):
        return tuple(y.numpy() for y in apply(tensors(x)))

    def vjp(x, _, cotangents):
        given = tensors(x)
        gradients = paddle.grad(apply(given), given, tensors(cotangents), allow_unused=True)
        if any(g is None for g in gradients):
            raise ValueError("Paddle has no gradient for an input")
        return tuple(g.numpy() for g in gradients)

    yield common.tapehead.check(forward, inputs(), vjp=vjp, name=name)


if __name__ == "__main__":
    sys.exit(common.main("paddle", paddle.__version__, common.operations_of(FUNCTIONS, WITH_ARGUMENTS, "float64", check)))
