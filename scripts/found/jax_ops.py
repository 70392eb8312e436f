"""JAX: functions of jax.numpy, jax.scipy.special, jax.nn, jax.lax and jax.numpy.linalg in float64."""

import sys

import common
import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np

jax.config.update("jax_enable_x64", True)
RANDOM = np.random.default_rng(3)


def uniform(low, high, *shape):
    return jnp.array(RANDOM.uniform(low, high, shape))


ANY = lambda: (uniform(-2, 2, 2, 3),)
POSITIVE = lambda: (uniform(0.3, 2.5, 2, 3),)
UNIT = lambda: (uniform(0.05, 0.95, 2, 3),)
INSIDE = lambda: (uniform(-0.9, 0.9, 2, 3),)
ABOVE = lambda: (uniform(1.1, 3, 2, 3),)
PAIR = lambda: (uniform(-2, 2, 2, 3), uniform(0.3, 2.5, 1, 3))
POSITIVES = lambda: (uniform(0.3, 2.5, 2, 3), uniform(0.3, 2.5, 1, 3))
VECTORS = lambda: (uniform(-2, 2, 4), uniform(-2, 2, 4))
SQUARE = lambda: (uniform(-2, 2, 3, 3),)
MATRICES = lambda: (uniform(-2, 2, 3, 3), uniform(-2, 2, 3, 3))
SOLVE = lambda: (uniform(-2, 2, 3, 3), uniform(-2, 2, 3, 2))
DEFINITE = lambda: (jnp.array([[3.0, 0.4, 0.1], [0.4, 2.0, 0.3], [0.1, 0.3, 1.5]]),)
TRIPLES = lambda: (uniform(-2, 2, 2, 3), uniform(-2, 2, 2, 3))
EVEN = lambda: (uniform(-2, 2, 2, 4),)
LONG = lambda: (uniform(-2, 2, 6),)

# {module: [(kind of inputs, names)]}
FUNCTIONS = {
    jnp: [
        (ANY, "abs absolute arcsinh arctan  atan asinh cbrt cos cosh deg2rad degrees exp exp2 expm1 fabs negative positive "
              "rad2deg radians real sin sinc sinh square tan tanh sum prod mean std var max min amax amin ptp cumsum cumprod "
              "nancumsum nancumprod nanmean nansum nanprod nanstd nanvar nanmax nanmin median nanmedian sort ravel transpose "
              "flip fliplr flipud rot90 diff ediff1d nan_to_num trapezoid squeeze atleast_2d atleast_3d cov corrcoef "
              "unwrap i0 average matrix_transpose conj"),
        (POSITIVE, "log log10 log1p log2 reciprocal sqrt"),
        (INSIDE, "arccos arcsin arctanh acos asin atanh"),
        (ABOVE, "arccosh acosh"),
        (PAIR, "add subtract multiply divide true_divide arctan2 atan2 hypot logaddexp logaddexp2 maximum minimum fmax fmin "
               "fmod mod remainder copysign heaviside divmod"),
        (POSITIVES, "power pow float_power"),
        (VECTORS, "dot vdot inner outer convolve correlate kron vecdot stack hstack append"),
        (SQUARE, "diag diagonal trace tril triu"),
        (MATRICES, "matmul tensordot"),
        (TRIPLES, "cross"),
        (LONG, "polyder polyint diagflat vander cumulative_sum cumulative_prod"),
    ],
    jnp.linalg: [
        (SQUARE, "det inv slogdet norm matrix_norm vector_norm pinv svd svdvals qr cond eigvalsh"),
        (DEFINITE, "cholesky"),
        (SOLVE, "solve"),
        (MATRICES, "multi_dot matmul"),
    ],
    jax.nn: [
        (ANY, "relu relu6 sigmoid softplus soft_sign silu swish log_sigmoid leaky_relu hard_sigmoid hard_silu hard_tanh elu celu selu "
              "gelu logsumexp log_softmax softmax standardize squareplus mish sparse_plus sparse_sigmoid identity "
              "logmeanexp"),
        (POSITIVE, "log1mexp"),
        (EVEN, "glu"),
    ],
    jsp.special: [
        (ANY, "erf erfc expit i0e i1 i1e i0 ndtr log_ndtr sinc spence logsumexp softmax log_softmax"),
        (POSITIVE, "digamma gammaln entr gamma factorial expi exp1 loggamma fresnel sici"),
        (UNIT, "logit ndtri erfinv ellipkm1"),
        (PAIR, "xlog1py xlogy"),
        (POSITIVES, "betaln beta kl_div rel_entr poch gammainc gammaincc zeta hyp1f1"),
    ],
    jsp.linalg: [(SQUARE, "expm det inv lu qr schur sqrtm funm polar"), (SOLVE, "solve"), (DEFINITE, "cholesky")],
    jax.lax: [
        (ANY, "abs asinh atan cbrt cos cosh erf erfc exp exp2 expm1 logistic neg sin sinh square tan tanh bessel_i0e bessel_i1e"),
        (POSITIVE, "digamma lgamma log log1p rsqrt sqrt"),
        (INSIDE, "asin acos atanh erf_inv"),
        (ABOVE, "acosh"),
        (MATRICES, "atan2 add sub mul div max min rem complex batch_matmul dot"),
        (lambda: (uniform(0.3, 2.5, 2, 3), uniform(0.3, 2.5, 2, 3)), "igamma igammac pow random_gamma_grad polygamma"),
    ],
}


def check(function, inputs):
    yield common.tapehead.check(function, inputs)


def operations():
    for module, kinds in FUNCTIONS.items():
        for inputs, names in kinds:
            for name in names.split():
                if hasattr(module, name):
                    yield f"{module.__name__}.{name}", "float64", lambda f=getattr(module, name), i=inputs: check(
                        lambda *x: f(list(x)) if f in (jnp.stack, jnp.hstack, jnp.linalg.multi_dot) else f(*x), i()
                    )


if __name__ == "__main__":
    sys.exit(common.main("jax", jax.__version__, operations()))
