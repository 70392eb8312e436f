"""The shared library and its structures (bridge.c)."""

import ctypes
import pathlib

MAX_DIMS, MAX_PORTS, TEXT = 8, 16, 4096
CALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, *[ctypes.POINTER(ctypes.c_void_p)] * 4)
# Name of each type in the order of bridge.c, and the bytes of an element.
DTYPES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int32": 4, "int64": 8, "bool": 1}
FLOATING = ("float64", "float32", "float16", "bfloat16")


class Port(ctypes.Structure):
    _fields_ = [
        ("dtype", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("constant", ctypes.c_int),
        ("size", ctypes.c_int64 * MAX_DIMS),
        ("values", ctypes.c_void_p),
    ]


class Options(ctypes.Structure):
    _fields_ = [
        ("step", ctypes.c_double),
        ("relative_tolerance", ctypes.c_double),
        ("absolute_tolerance", ctypes.c_double),
        ("seed", ctypes.c_int64),
        ("mode", ctypes.c_int),
        ("only_this_point", ctypes.c_int),
    ]


class RawReport(ctypes.Structure):
    _fields_ = (
        [(name, ctypes.c_int) for name in ("status", "verdict", "input", "not_deterministic")]
        + [(name, ctypes.c_int64) for name in ("checked", "forward_calls", "backward_calls")]
        + [(name, ctypes.c_double) for name in ("analytic", "numeric", "error", "uncertainty", "noise")]
        + [("text", ctypes.c_char * TEXT)]
    )


_check = ctypes.CDLL(str(pathlib.Path(__file__).with_name("_check.so"))).tapehead_python_check


def check(name, call, inputs, outputs, options):
    """Runs the check. inputs and outputs are lists of (name, dtype, shape, constant, address or None)."""

    def ports(arrays):
        filled = (Port * max(len(arrays), 1))()
        for port, (_, dtype, shape, constant, address) in zip(filled, arrays):
            port.dtype, port.ndim, port.constant = list(DTYPES).index(dtype), len(shape), constant
            port.size[: len(shape)] = shape
            port.values = address
        names = (ctypes.c_char_p * max(len(arrays), 1))(*[array[0].encode() for array in arrays])
        return len(arrays), filled, names

    report = RawReport()
    _check(name.encode(), CALL(call), *ports(inputs), *ports(outputs), ctypes.byref(options), ctypes.byref(report))
    return report
