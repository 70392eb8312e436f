"""autograd: every function of autograd.numpy, autograd.numpy.linalg and autograd.scipy.special with a VJP, in float64."""

import sys
import warnings

import autograd.numpy as anp
import autograd.scipy.special as special
import common
import numpy as np
from autograd.core import make_vjp, primitive_vjps

warnings.filterwarnings("ignore")
RANDOM = np.random.default_rng(3)
VERSION = __import__("importlib.metadata").metadata.version("autograd")


def candidates():
    """Inputs to try, one after another, until a function accepts them and its values are finite."""
    yield (RANDOM.uniform(-2, 2, (2, 3)),)
    yield (RANDOM.uniform(0.05, 0.95, (2, 3)),)
    yield (RANDOM.uniform(1.1, 3, (2, 3)),)
    yield (RANDOM.uniform(-2, 2, (3, 3)),)
    yield RANDOM.uniform(-2, 2, (2, 3)), RANDOM.uniform(0.3, 2.5, (1, 3))
    yield RANDOM.uniform(0.3, 2.5, (2, 3)), RANDOM.uniform(0.3, 2.5, (1, 3))
    yield RANDOM.uniform(-2, 2, (3, 3)), RANDOM.uniform(-2, 2, (3, 3))
    yield RANDOM.uniform(-2, 2, 4), RANDOM.uniform(-2, 2, 4)


X = RANDOM.uniform(-2, 2, (2, 3))
POSITIVE_DEFINITE = np.array([[3.0, 0.4, 0.1], [0.4, 2.0, 0.3], [0.1, 0.3, 1.5]])
# Functions that need other arguments, or that return several arrays: {name: (function of arrays, inputs)}.
WITH_ARGUMENTS = {
    "reshape": (lambda x: anp.reshape(x, (3, 2)), (X,)),
    "repeat": (lambda x: anp.repeat(x, 2, axis=1), (X,)),
    "tile": (lambda x: anp.tile(x, (2, 1)), (X,)),
    "pad": (lambda x: anp.pad(x, ((1, 0), (0, 2)), "constant"), (X,)),
    "roll": (lambda x: anp.roll(x, 2, axis=1), (X,)),
    "moveaxis": (lambda x: anp.moveaxis(x, 0, 1), (X,)),
    "swapaxes": (lambda x: anp.swapaxes(x, 0, 1), (X,)),
    "rollaxis": (lambda x: anp.rollaxis(x, 1), (X,)),
    "expand_dims": (lambda x: anp.expand_dims(x, 1), (X,)),
    "einsum": (lambda x, y: anp.einsum("ij,kj->ik", x, y), (X, 1 + X)),
    "split": (lambda x: anp.split(x, 3, axis=1)[1], (X,)),
    "hsplit": (lambda x: anp.hsplit(x, 3)[1], (X,)),
    "vsplit": (lambda x: anp.vsplit(x, 2)[1], (X,)),
    "array_split": (lambda x: anp.array_split(x, 2, axis=1)[0], (X,)),
    "broadcast_to": (lambda x: anp.broadcast_to(x, (2, 2, 3)), (X,)),
    "linspace": (lambda x, y: anp.linspace(x, y, 4), (X, 1 + X)),
    "partition": (lambda x: anp.partition(x, 1, axis=1), (X,)),
    "astype": (lambda x: x.astype(float), (X,)),
    "full": (lambda x: anp.full((2, 3), x), (np.array(0.7),)),
    "concatenate_args": (lambda x, y: anp.concatenate((x, y), axis=1), (X, 1 + X)),
    "clip": (lambda x: anp.clip(x, -0.5, 0.6), (X,)),
    "cholesky": (lambda x: anp.linalg.cholesky((x + x.T) / 2), (POSITIVE_DEFINITE,)),
    "slogdet": (lambda x: anp.linalg.slogdet(x)[1], (POSITIVE_DEFINITE,)),
    "eigh": (lambda x: anp.linalg.eigh((x + x.T) / 2)[0], (POSITIVE_DEFINITE,)),
    "svd": (lambda x: anp.linalg.svd(x)[1], (POSITIVE_DEFINITE,)),
    "fft": (lambda x: anp.real(anp.fft.fft(x)), (X,)),
    "fft2": (lambda x: anp.real(anp.fft.fft2(x)), (X,)),
    "fftn": (lambda x: anp.real(anp.fft.fftn(x)), (X,)),
    "ifft": (lambda x: anp.imag(anp.fft.ifft(x)), (X,)),
    "ifft2": (lambda x: anp.imag(anp.fft.ifft2(x)), (X,)),
    "ifftn": (lambda x: anp.imag(anp.fft.ifftn(x)), (X,)),
    "rfft": (lambda x: anp.real(anp.fft.rfft(x)), (RANDOM.uniform(-2, 2, (2, 4)),)),
    "rfft2": (lambda x: anp.real(anp.fft.rfft2(x)), (RANDOM.uniform(-2, 2, (2, 4)),)),
    "rfftn": (lambda x: anp.real(anp.fft.rfftn(x)), (RANDOM.uniform(-2, 2, (2, 4)),)),
    "polygamma": (lambda x: special.polygamma(1, x), (X**2 + 0.5,)),
    "multigammaln": (lambda x: special.multigammaln(x, 2), (X**2 + 2,)),
    "jn": (lambda x: special.jn(2, x), (X**2 + 0.5,)),
    "yn": (lambda x: special.yn(2, x), (X**2 + 0.5,)),
    "iv": (lambda x: special.iv(1.5, x), (X**2 + 0.5,)),
    "ive": (lambda x: special.ive(1.5, x), (X**2 + 0.5,)),
    "gammainc": (lambda x: special.gammainc(1.5, x), (X**2 + 0.5,)),
    "gammaincc": (lambda x: special.gammaincc(1.5, x), (X**2 + 0.5,)),
    "betainc": (lambda x: special.betainc(1.5, 2.5, x), (RANDOM.uniform(0.1, 0.9, 4),)),
}


def vjp_of(function):
    def vjp(inputs, outputs, cotangents):
        pull, _ = make_vjp(lambda x: function(*x), tuple(inputs))
        return tuple(pull(cotangents[0]))

    return vjp


def check(name, function):
    if name in WITH_ARGUMENTS:
        function, inputs = WITH_ARGUMENTS[name]
        yield common.tapehead.check(function, inputs, vjp=vjp_of(function), name=name)
        return
    for inputs in candidates():
        try:
            value = function(*inputs)
        except Exception:
            continue
        if not isinstance(value, (np.ndarray, np.floating)) or value.dtype != float or not np.all(np.isfinite(value)):
            continue
        plain = lambda *x: np.asarray(function(*x))
        yield common.tapehead.check(plain, inputs, vjp=vjp_of(function))
        return


def operations():
    for module in (anp, anp.linalg, anp.fft, special):
        for name in sorted(dir(module)):
            function = getattr(module, name)
            if callable(function) and function in primitive_vjps:
                yield f"{module.__name__}.{name}", "float64", lambda n=name, f=function: check(n, f)


if __name__ == "__main__":
    sys.exit(common.main("autograd", VERSION, operations()))
