"""gradcheck: compares the gradient of a Python function with central differences."""

import ctypes
import dataclasses
import math

from . import library
from .frameworks import as_tuple, framework_of

VERDICTS = ("could not run", "right", "wrong", "cannot tell", "nothing compared")


class GradcheckError(RuntimeError):
    """The gradient is wrong, or the check cannot tell. The attribute report has the numbers."""

    def __init__(self, report):
        super().__init__(report.text or report.verdict)
        self.report = report


@dataclasses.dataclass(frozen=True)
class Report:
    verdict: str  # one of VERDICTS
    text: str  # what is wrong, or ""
    checked: int  # number of comparisons
    input: int  # index of the worst input, or -1
    analytic: float
    numeric: float
    error: float
    uncertainty: float
    noise: float
    not_deterministic: bool
    forward_calls: int
    backward_calls: int


class _Function:
    """The function as the library calls it: addresses of buffers become arrays, and results are copied back."""

    def __init__(self, framework, inputs):
        self.framework, self.inputs, self.error = framework, inputs, None
        self.arrays = [i for i, x in enumerate(inputs) if framework.is_array(x)]
        self.owners, self.ports = [], []
        for i in self.arrays:
            dtype = framework.dtype(inputs[i])
            if dtype not in library.DTYPES:
                raise ValueError(f"input {i} has type {dtype}; the check knows {', '.join(library.DTYPES)}")
            owner, address = framework.host(inputs[i])
            self.owners.append(owner)
            constant = dtype in library.FLOATING and not framework.differentiated(inputs[i])
            self.ports.append((f"input {i}", dtype, tuple(inputs[i].shape), constant, address))
        self.wanted = [i for i, p in zip(self.arrays, self.ports) if p[1] in library.FLOATING and not p[3]]
        outputs = as_tuple(framework.run(list(inputs)))
        self.outputs = [
            k for k, y in enumerate(outputs) if hasattr(y, "dtype") and self._floating(y) and framework.differentiable_output(y)
        ]
        self.output_ports = [
            (f"output {k}", framework.dtype(outputs[k]), tuple(outputs[k].shape), False, None) for k in self.outputs
        ]

    def _floating(self, y):
        return self.framework.dtype(y) in library.FLOATING

    def _read(self, ports, addresses):
        return [self.framework.read(addresses[k], p[1], p[2]) for k, p in enumerate(ports)]

    def __call__(self, which, inputs, outputs, cotangents, gradients):
        try:
            args = list(self.inputs)
            for i, value in zip(self.arrays, self._read(self.ports, inputs)):
                args[i] = value
            if which == 0:
                self._forward(args, outputs)
            else:
                self._backward(args, outputs, cotangents, gradients)
            return 0
        except BaseException as error:  # an exception cannot pass through C: check() raises it again
            self.error = error
            return 1

    def _forward(self, args, outputs):
        results = self.framework.run(args)
        for place, (k, port) in enumerate(zip(self.outputs, self.output_ports)):
            self.framework.write(outputs[place], port[1], port[2], results[k])

    def _backward(self, args, outputs, cotangents, gradients):
        values = self._read(self.output_ports, outputs)
        results = self.framework.gradients(args, self.wanted, values, self._read(self.output_ports, cotangents))
        found = dict(zip(self.wanted, results))
        for place, (i, port) in enumerate(zip(self.arrays, self.ports)):
            if i not in found:
                continue
            if found[i] is None:  # the outputs do not depend on this input
                ctypes.memset(gradients[place], 0, math.prod(port[2]) * library.DTYPES[port[1]])
            else:
                self.framework.write(gradients[place], port[1], port[2], found[i])


def check(fn, inputs, *, vjp=None, eps=0.0, atol=0.0, rtol=0.0, fast_mode=None, seed=0, only_this_point=True, name=None):
    """Checks the gradient of fn at inputs and returns a Report; gradcheck has the arguments' meaning."""
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    function = _Function(framework_of(fn, inputs, vjp), inputs)
    if not function.wanted:
        raise ValueError("no input is differentiated: at least one must be floating (PyTorch: with requires_grad=True)")
    if not function.output_ports:
        raise ValueError("no output is differentiable: at least one must be floating and depend on the inputs")
    for ports, what in ((function.ports, "inputs"), (function.output_ports, "outputs")):
        if len(ports) > library.MAX_PORTS:
            raise ValueError(f"the function has {len(ports)} {what}; at most {library.MAX_PORTS} can be checked")
        for port in ports:
            if len(port[2]) > library.MAX_DIMS:
                raise ValueError(f"{port[0]} has {len(port[2])} dimensions; at most {library.MAX_DIMS} can be checked")
    mode = {None: 0, False: 1, True: 2}[fast_mode]
    options = library.Options(eps, rtol, atol, seed, mode, only_this_point)
    name = name or getattr(fn, "__name__", "the function")
    raw = library.check(name, function, function.ports, function.output_ports, options)
    if function.error is not None:
        raise function.error
    values = {field.name: getattr(raw, field.name) for field in dataclasses.fields(Report)}
    values.update(
        verdict=VERDICTS[raw.verdict],
        text=raw.text.decode("utf-8", "replace"),
        not_deterministic=bool(raw.not_deterministic),
    )
    return Report(**values)


def gradcheck(
    fn,
    inputs,
    *,
    eps=0.0,
    atol=0.0,
    rtol=0.0,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=False,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_batched_forward_grad=False,
    check_forward_ad=False,
    check_backward_ad=True,
    fast_mode=None,
    masked=None,
    vjp=None,
    seed=0,
    only_this_point=True,
):
    """Returns True if the gradient of fn at inputs is right, as torch.autograd.gradcheck does.

    Otherwise it raises GradcheckError with a sentence that says what is wrong; with raise_exception=False it returns False.
    A check that cannot tell counts as failed.

    fn        a function of PyTorch tensors, JAX arrays or NumPy arrays. It returns one or a tuple of them.
    inputs    its arguments. PyTorch tensors with requires_grad=True are differentiated, and floating arrays of JAX and NumPy.
    vjp       for NumPy: vjp(inputs, outputs, douts) returns a gradient for each input, or None. JAX: optional.
    eps, atol, rtol    step and tolerances; 0: chosen from the type and the measured noise. nondet_tol has no effect: the
              noise of a function that is not deterministic is measured.
    fast_mode None: full for small inputs, otherwise random directions and elements; False: full; True: fast.
    only_this_point    False: also other scales of the inputs, and the same array as two inputs.
    """
    unsupported = {
        "check_undefined_grad": check_undefined_grad,
        "check_grad_dtypes": check_grad_dtypes,
        "check_batched_grad": check_batched_grad,
        "check_batched_forward_grad": check_batched_forward_grad,
        "check_forward_ad": check_forward_ad,
        "masked": masked,
        "check_backward_ad=False": not check_backward_ad,
    }
    for argument, given in unsupported.items():
        if given:
            raise ValueError(f"{argument} is not supported: the check compares the reverse-mode gradient of dense arrays only")
    report = check(
        fn, inputs, vjp=vjp, eps=eps, atol=atol, rtol=rtol, fast_mode=fast_mode, seed=seed, only_this_point=only_this_point
    )
    if report.verdict == "right":
        return True
    if raise_exception:
        raise GradcheckError(report)
    return False
