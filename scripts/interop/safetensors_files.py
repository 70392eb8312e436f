"""Reads thousands of broken and unusual safetensors files: ours must reject every file that the reference reader
rejects. Also loads and saves weights in every floating-point type."""

import json
import pathlib
import random
import struct
import subprocess
import tempfile

import numpy as np
import torch
from safetensors import deserialize
from safetensors.numpy import save
from safetensors.torch import load_file, save_file

import common

BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U64": 64, "U32": 32}
BITS |= {"U16": 16, "U8": 8, "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F8_E4M3": 8, "F8_E8M0": 8, "C64": 64, "F7": 8, "f32": 32}
PIECES = """{ } [ ] , : " 0 1 2 - 8 9 1e3 1.0 -0 null true "a" "b" "dtype" "shape" "data_offsets" "F32" "F64" "U8" "F4"
    \\u0061 \\u0000 \\ud800 "__metadata__" 99999999999999999999 [0,24] [0,0] [24,56] [2,3] [] {} "x":1 \x01 \xff""".split(" ")


def file_of(header, data):
    header = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<Q", len(header)) + header + data


def valid_file():
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.arange(4), 'c\u00e9"': np.array([True, False])}
    return save(arrays | {"z": np.zeros((0, 3), np.float16)}, metadata={"k": "v", "format": "pt"})


def with_other_pieces(draw, valid):
    length = struct.unpack("<Q", valid[:8])[0]
    header, data = valid[8 : 8 + length].decode(), valid[8 + length :]
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        at = draw.randrange(len(header) + 1)
        header = header[:at] + draw.choice(PIECES) + header[at + draw.choice([0, 0, 1, 1, 2, 5, 10]) :]
    return file_of(header, data)


def with_other_bits(draw, valid):
    changed = bytearray(valid)
    for _ in range(draw.choice([1, 1, 2, 4])):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def with_other_length(draw, valid):
    return valid[: draw.randrange(len(valid))] if draw.random() < 0.5 else valid + bytes(draw.randrange(1, 9))


def random_header(draw, _):
    members, end = [], 0
    for i in range(draw.randrange(5)):
        kind = draw.choice(list(BITS))
        shape = [draw.randrange(5) for _ in range(draw.randrange(4))]
        if draw.random() < 0.1:
            shape.append(draw.choice([0, 2**31, 2**62, 2**63]))
        size = int(np.prod([float(n) for n in shape])) * BITS[kind] // 8 + draw.choice([0] * 20 + [1, -1])
        size = size if 0 <= size < 10000 else draw.randrange(10)
        begin = end + draw.choice([0] * 30 + [1])
        end += size
        info = {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
        if draw.random() < 0.04:
            info.pop(draw.choice(list(info)))
        name = draw.choice(["a", "b", "", "\u00e9", "__metadata__"]) if draw.random() < 0.2 else f"t{i}"
        members.append((name, info))
    if draw.random() < 0.3:
        members.append(("__metadata__", draw.choice([{"a": "b"}, {}, {"a": 1}, [], {"a": None}, "x"])))
    draw.shuffle(members)
    text = ",".join(f"{json.dumps(name, ensure_ascii=draw.random() < 0.5)}:{json.dumps(value)}" for name, value in members)
    return file_of("{" + text + "}" + " " * draw.choice([0, 0, 3]), bytes(end))


def accepted_by_reference(data):
    try:
        deserialize(data)
        return True
    except Exception:
        return False


def compare_verdicts(c, files=5000):
    draw, valid = random.Random(1), valid_file()
    program = [str(c.build / "scripts" / "interop" / "safetensors_verdict")]
    both = neither = 0
    too_lenient = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "file.safetensors"
        with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as ours:
            for _ in range(files):
                data = draw.choice([with_other_pieces, with_other_bits, with_other_length, random_header])(draw, valid)
                path.write_bytes(data)
                ours.stdin.write(f"{path}\n")
                ours.stdin.flush()
                accepted = ours.stdout.readline() == "ok\n"
                expected = accepted_by_reference(data)
                both += accepted and expected
                neither += not accepted and not expected
                if accepted and not expected:
                    too_lenient.append(data)
            ours.stdin.close()
    detail = f"{too_lenient[:1]}" if too_lenient else f"both accept {both} of {files}, both reject {neither}"
    c.check("ours rejects everything that the reference rejects", not too_lenient, detail)
    c.check("both accept some and reject some", both > files / 20 and neither > files / 20)


def compare_weights(c, dtype):
    torch.manual_seed(1)
    shapes = {"single.weight": (7, 5), "single.bias": (7,), "double.weight": (7, 5), "double.bias": (7,)}
    given = {name: torch.randn(shape, dtype=torch.float64).to(dtype) for name, shape in shapes.items()}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        save_file(given, folder / "given.safetensors")
        c.run(c.build / "scripts" / "interop" / "safetensors_weights", folder)
        returned = load_file(folder / "returned.safetensors")
    wanted = {name: t.to(torch.float32 if name.startswith("single") else torch.float64) for name, t in given.items()}
    same = returned.keys() == wanted.keys() and all(torch.equal(returned[name], wanted[name]) for name in wanted)
    c.check(f"{str(dtype).removeprefix('torch.')} weights are bitwise the same after loading and saving", same)


def compare(c):
    compare_verdicts(c)
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        compare_weights(c, dtype)


common.main(compare)
