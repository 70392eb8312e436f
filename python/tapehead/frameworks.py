"""PyTorch, JAX and NumPy: how a buffer in memory becomes an array, and how each computes gradients."""

import ctypes
import math
import sys

from .library import DTYPES


def raw(address, dtype, shape):
    """Returns the bytes of a buffer, without a copy."""
    return (ctypes.c_char * max(math.prod(shape) * DTYPES[dtype], 1)).from_address(address)


def as_tuple(outputs):
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)


class NumPy:
    """NumPy arrays, and other libraries' arrays through NumPy. vjp(inputs, outputs, douts) returns a gradient for each input."""

    def __init__(self, fn, vjp):
        if vjp is None:
            raise ValueError("a NumPy function has no derivative of its own: pass vjp=, a function of (inputs, outputs, douts)")
        import numpy

        self.numpy, self.fn, self.vjp = numpy, fn, vjp

    def is_array(self, x):
        return isinstance(x, self.numpy.ndarray)

    def dtype(self, x):
        return str(x.dtype)

    def differentiated(self, x):
        return True

    def differentiable_output(self, y):
        return True

    def host(self, x):
        """Returns (owner of the memory, its address)."""
        array = self.numpy.array(x, order="C")
        return array, array.ctypes.data

    def _numpy_dtype(self, dtype):
        if dtype == "bfloat16":
            import ml_dtypes

            return ml_dtypes.bfloat16
        return dtype

    def read(self, address, dtype, shape):
        count = math.prod(shape)
        kind = self._numpy_dtype(dtype)
        return self.numpy.frombuffer(raw(address, dtype, shape), dtype=kind, count=count).reshape(shape)

    def write(self, address, dtype, shape, array):
        array = self.numpy.asarray(array)
        if array.shape != tuple(shape):
            raise ValueError(f"an array of shape {tuple(array.shape)} was returned where {tuple(shape)} is right")
        self.read(address, dtype, shape)[...] = array

    def run(self, args):
        return as_tuple(self.fn(*args))

    def gradients(self, args, wanted, outputs, cotangents):
        gradients = as_tuple(self.vjp(tuple(args), outputs, cotangents))
        if len(gradients) != len(args):
            raise ValueError(f"vjp returned {len(gradients)} gradients for {len(args)} inputs; return None where there is none")
        return [gradients[i] for i in wanted]


class JAX(NumPy):
    def __init__(self, fn, vjp):
        import jax
        import numpy

        self.jax, self.numpy, self.fn, self.given = jax, numpy, fn, vjp

    def is_array(self, x):
        return isinstance(x, (self.jax.Array, self.numpy.ndarray))

    def read(self, address, dtype, shape):
        return self.jax.numpy.array(super().read(address, dtype, shape))

    def write(self, address, dtype, shape, array):
        array = self.numpy.asarray(array)
        if array.shape != tuple(shape):
            raise ValueError(f"an array of shape {tuple(array.shape)} was returned where {tuple(shape)} is right")
        NumPy.read(self, address, dtype, shape)[...] = array

    def differentiable_output(self, y):
        return self.jax.numpy.issubdtype(y.dtype, self.jax.numpy.floating)

    def gradients(self, args, wanted, outputs, cotangents):
        if self.given is not None:
            gradients = as_tuple(self.given(tuple(args), outputs, cotangents))
            return [gradients[i] for i in wanted]

        def of_wanted(*values):
            full = list(args)
            for i, value in zip(wanted, values):
                full[i] = value
            results = as_tuple(self.fn(*full))
            return tuple(y for y in results if self.differentiable_output(y))

        _, pull = self.jax.vjp(of_wanted, *[args[i] for i in wanted])
        return pull(tuple(cotangents))


class Torch:
    def __init__(self, fn, vjp):
        import torch

        if vjp is not None:
            raise ValueError("vjp= is for NumPy and JAX functions; PyTorch has the gradient of this function itself")
        self.torch, self.fn = torch, fn

    def is_array(self, x):
        return isinstance(x, self.torch.Tensor)

    def dtype(self, x):
        return str(x.dtype).replace("torch.", "")

    def differentiated(self, x):
        return x.requires_grad

    def differentiable_output(self, y):
        return y.requires_grad and y.dtype.is_floating_point

    def host(self, x):
        tensor = x.detach().cpu().contiguous().clone(memory_format=self.torch.contiguous_format)
        return tensor, tensor.data_ptr()

    def read(self, address, dtype, shape):
        kind = getattr(self.torch, dtype)
        if math.prod(shape) == 0:
            return self.torch.empty(shape, dtype=kind)
        return self.torch.frombuffer(raw(address, dtype, shape), dtype=kind, count=math.prod(shape)).reshape(shape)

    def write(self, address, dtype, shape, array):
        if tuple(array.shape) != tuple(shape):
            raise ValueError(f"a tensor of shape {tuple(array.shape)} was returned where {tuple(shape)} is right")
        self.read(address, dtype, shape).copy_(array.detach())

    def run(self, args):
        return as_tuple(self.fn(*args))

    def gradients(self, args, wanted, outputs, cotangents):
        leaves = [a.clone().requires_grad_(i in wanted) if self.is_array(a) else a for i, a in enumerate(args)]
        # In-place functions must not change a leaf.
        passed = [a.view_as(a) if i in wanted else a for i, a in enumerate(leaves)]
        results = [y for y in self.run(passed) if self.is_array(y) and self.differentiable_output(y)]
        return self.torch.autograd.grad(results, [leaves[i] for i in wanted], cotangents, allow_unused=True)


def framework_of(fn, inputs, vjp):
    """Returns the framework that the inputs belong to."""
    for name, framework, kind in (("torch", Torch, "Tensor"), ("jax", JAX, "Array")):
        module = sys.modules.get(name)
        if module is not None and any(isinstance(x, getattr(module, kind)) for x in inputs):
            return framework(fn, vjp)
    return NumPy(fn, vjp)
