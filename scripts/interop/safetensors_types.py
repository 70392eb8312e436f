"""Reads our safetensors files with the safetensors library, and its files with ours, in every type."""

import pathlib
import tempfile

import numpy as np
import safetensors
import torch
from safetensors.torch import save_file

import common


def compare_written(c, folder):
    """Reads our file with their library."""
    values = np.random.default_rng(1)
    arrays = {
        "float32": values.standard_normal((3, 5)).astype(np.float32),
        "float64": np.array([[np.inf, np.nan, -0.0, 1e-310]]),
        "int32": values.integers(-9, 9, (2, 3, 4), dtype=np.int32),
        "int64": np.array([2**62, -(2**63)]),
        "bool": np.array([True, False, True]),
        "scalar": np.float32(2.5).reshape(()),
        "empty": np.zeros((3, 0, 2), np.float32),
        "matrix": values.standard_normal((4, 7)),
    }
    path = folder / "ours.safetensors"
    c.program("safetensors_types", "write", path, inputs=arrays)
    arrays['a "matrix".€'] = arrays.pop("matrix").T
    with safetensors.safe_open(path, "np") as file:
        c.check("ours in theirs: names", set(file.keys()) == set(arrays))
        c.check("ours in theirs: metadata", file.metadata() == {"format": "pt", "said": '"quotes", \\ and ä\n'})
        for name, array in arrays.items():
            read = file.get_tensor(name)
            same = read.dtype == array.dtype and np.array_equal(read, array, equal_nan=array.dtype.kind == "f")
            c.check("ours in theirs: types, shapes and numbers", same, name)


TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8]
TYPES += [torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool]


def compare_read(c, folder):
    """Reads their file with our library: every bit pattern of the short types."""
    tensors = {}
    for dtype in TYPES:
        size = min(torch.empty(0, dtype=dtype).element_size(), 2)
        patterns = torch.arange(256**size, dtype=torch.int32)
        if dtype == torch.bool:
            tensors["bool"] = patterns % 3 == 0
        elif size == 1 or dtype in (torch.float16, torch.bfloat16, torch.int16, torch.uint16):
            short = patterns.to(torch.int16) if size == 2 else patterns.to(torch.uint8)
            tensors[str(dtype)] = short.view(dtype).view(-1, 2)
        elif dtype.is_floating_point:
            tensors[str(dtype)] = torch.randn(3, 4, 5, dtype=dtype)
        else:
            tensors[str(dtype)] = torch.tensor([0, 1, 2**31 - 1]).to(dtype)
    path = folder / "theirs.safetensors"
    save_file(tensors, path, {"format": "pt"})
    with tempfile.TemporaryDirectory() as out:
        out = pathlib.Path(out)
        names = c.run(c.build / "scripts" / "interop" / "safetensors_types", out, "read", path).stdout.splitlines()
        c.check("theirs in ours: names", set(names) == set(tensors))
        for i, name in enumerate(names):
            ours, theirs = np.load(out / f"tensor.{i}.npy"), tensors[name]
            theirs = theirs.double().numpy() if theirs.dtype.is_floating_point else theirs.numpy()
            same = ours.shape == theirs.shape and np.array_equal(ours, theirs, equal_nan=theirs.dtype.kind == "f")
            c.check("theirs in ours: types, shapes and numbers", same, name)


def compare(c):
    with tempfile.TemporaryDirectory() as folder:
        compare_written(c, pathlib.Path(folder))
        compare_read(c, pathlib.Path(folder))


common.main(compare)
