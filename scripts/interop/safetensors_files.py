"""safetensors files: what is written here its own library reads, what that writes is read here, and of damaged files
nothing is taken here that it refuses."""

import pathlib
import random
import struct
import tempfile

import numpy as np
import safetensors
import torch
from safetensors.torch import save_file

import common


def compare_written(c, folder):
    """Files of ours through theirs."""
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
    c.program("safetensors_files", "write", path, inputs=arrays)
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
    """Files of theirs through ours: every bit pattern of the short types."""
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
        names = c.run(c.build / "scripts" / "interop" / "safetensors_files", out, "read", path).stdout.splitlines()
        c.check("theirs in ours: names", set(names) == set(tensors))
        for i, name in enumerate(names):
            ours, theirs = np.load(out / f"tensor.{i}.npy"), tensors[name]
            theirs = theirs.double().numpy() if theirs.dtype.is_floating_point else theirs.numpy()
            same = ours.shape == theirs.shape and np.array_equal(ours, theirs, equal_nan=theirs.dtype.kind == "f")
            c.check("theirs in ours: types, shapes and numbers", same, name)


# -- damage --

HOSTILE = [
    '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
    '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
    '{"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}}',
    '{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}',
    '{"a":{"dtype":"F32","shape":[4611686018427387905,4],"data_offsets":[0,8]}}',
    '{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
    '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
    '{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}',
    '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}}',
    '{"a":{"dtype":"f32","shape":[2],"data_offsets":[0,8]}}',
    '{"__metadata__":{"a":1}}',
    '{"__metadata__":{"a":"b"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
    '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}    ',
    ' {"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
    '{"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},}',
    '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}\x00',
    '{"a\\ud800":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
    '{"a":{"dtype":"F4","shape":[2,8],"data_offsets":[0,8]}}',
    '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8e0]}}',
    '{"a":' + "[" * 5000 + "]" * 5000 + "}",
    "[]",
    "{}",
    "",
]


def damaged(sound):
    """Files with one thing or another wrong, and some with nothing wrong."""
    draw = random.Random(7)
    for header in HOSTILE:
        text = header.encode("utf-8", "surrogatepass")
        yield struct.pack("<Q", len(text)) + text + bytes(8)
    for length in (0, 7, 8, 9, len(sound) - 1):
        yield sound[:length]
    yield sound + b"\0"
    yield struct.pack("<Q", 2**63) + sound[8:]
    header = struct.unpack("<Q", sound[:8])[0]
    pieces = [b'"', b"{", b"}", b"[", b"]", b",", b":", b" ", b"0", b"-1", b"1e1", b"null"]
    pieces += [b"\\u0041", b"\xff", b"\xc3\xa4"]
    for _ in range(3000):
        bytes_ = bytearray(sound)
        for _ in range(draw.choice([1, 1, 1, 2, 5])):
            at = draw.randrange(8 + header)
            kind = draw.randrange(4)
            if kind == 0:
                bytes_[at] ^= 1 << draw.randrange(8)
            elif kind == 1:
                bytes_[at] = draw.randrange(32, 127)
            else:
                piece = draw.choice(pieces)
                at = max(at, 8)
                bytes_[at : at + (len(piece) if kind == 2 else 0)] = piece
        if draw.randrange(2):  # with a length of the header that fits again
            bytes_[:8] = struct.pack("<Q", max(0, len(bytes_) - (len(sound) - 8 - header) - 8))
        yield bytes(bytes_)


def they_take(path):
    try:
        with safetensors.safe_open(path, "pt") as file:
            for name in file.keys():
                file.get_tensor(name)
        return True
    except Exception:  # whatever it raises, it does not take the file
        return False


def compare_damaged(c, folder):
    tensors = {"a": torch.arange(3, dtype=torch.float32), "b.weight": torch.ones(2, 2, dtype=torch.float16)}
    save_file(tensors | {"é": torch.tensor(True)}, folder / "sound", {"format": "pt", "x": "y"})
    sound = (folder / "sound").read_bytes()
    count = 0
    for count, bytes_ in enumerate([sound, *damaged(sound)], 1):
        (folder / f"damaged{count - 1}").write_bytes(bytes_)
    theirs = [they_take(folder / f"damaged{i}") for i in range(count)]
    said = c.run(c.build / "scripts" / "interop" / "safetensors_files", folder, "accept", folder / "damaged", count)
    ours = [line == "1" for line in said.stdout.splitlines()]
    c.check("damaged: the sound one is taken", len(ours) == count and ours[0] and theirs[0])
    wrong = [i for i in range(count) if ours[i] and not theirs[i]]
    example = (folder / f"damaged{wrong[0]}").read_bytes()[:300] if wrong else b""
    taken = f"of {count} files they take {sum(theirs)}, we {sum(ours)}"
    c.check("damaged: none is taken that they refuse", not wrong, f"{len(wrong)} are: {example!r}" if wrong else taken)
    stricter = [i for i in range(count) if theirs[i] and not ours[i]]
    few = len(stricter) <= 0.1 * sum(theirs)
    example = (folder / f"damaged{stricter[0]}").read_bytes()[:300] if stricter else b""
    c.check("damaged: few of theirs are refused", few, f"{len(stricter)} are" + ("" if few else f": {example!r}"))


def compare(c):
    with tempfile.TemporaryDirectory() as folder:
        compare_written(c, pathlib.Path(folder))
        compare_read(c, pathlib.Path(folder))
        compare_damaged(c, pathlib.Path(folder))


common.main(compare)
