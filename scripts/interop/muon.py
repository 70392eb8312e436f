"""Compares Muon and AdamW together with PyTorch's: 50 steps of torch.optim.Muon without its cast to bfloat16, and with the
cast within the cast's error. The fixtures are two runs in float64 without the cast, which tests/training/test_torch_muon.c
checks without PyTorch."""

import inspect

import numpy as np
import torch
from torch.optim import _muon

import common

STEPS = 50

# {title: settings of muon_training.h}
CASES = {
    "default": {"lr": 0.02, "weight_decay": 0.1, "nesterov": 1, "adam_lr": 0.003, "adam_weight_decay": 0.01},
    "match_rms_adamw": {
        "lr": 0.01,
        "weight_decay": 0.5,
        "nesterov": 0,
        "momentum": 0.8,
        "a": 3,
        "b": -3.2,
        "c": 1.2,
        "steps": 3,
        "match_rms_adamw": 1,
    },
}
# Limits of the largest difference, divided by the largest parameter. An element of an orthogonal matrix has about
# 8 bits in bfloat16, and 50 steps move it by up to 50 learning rates.
LIMIT = {torch.float64: 1e-12, torch.float32: 1e-5}
LIMIT_OF_CAST = 0.01

SHAPES = {
    "embedding.weight": (5, 3),
    "attention.in_proj_weight": (12, 4),
    "attention.in_proj_bias": (12,),
    "attention.out_proj.weight": (4, 4),
    "attention.out_proj.bias": (4,),
    "wide.weight": (3, 6),
    "wide.bias": (3,),
    "tall.weight": (7, 3),
    "tall.bias": (7,),
    "norm.weight": (3,),
}


def without_cast(original):
    """Returns PyTorch's iteration without the cast."""
    source = inspect.getsource(original)
    assert source.count("grad.bfloat16()") == 1
    names = dict(vars(_muon))
    exec(source.replace("grad.bfloat16()", "grad.clone()"), names)
    return names[original.__name__]


def is_matrix(name):
    return len(SHAPES[name]) == 2 and name != "embedding.weight"


def inputs(dtype):
    """Returns the initial parameters, the targets and the curvatures, by name."""
    generator = torch.Generator().manual_seed(37)
    arrays = {}
    for name, shape in SHAPES.items():
        for kind in ("initial", "target", "curvature"):
            values = torch.randn(shape, dtype=torch.float64, generator=generator)
            arrays[f"{kind}.{name}"] = (values.abs() if kind == "curvature" else values).to(dtype)
    return arrays


def train(settings, arrays):
    """Takes all steps with PyTorch. Returns the parameters by name."""
    parts = {}  # a fused weight is three parameters
    for name in SHAPES:
        initial = arrays[f"initial.{name}"].clone()
        pieces = initial.chunk(3) if name == "attention.in_proj_weight" else [initial]
        parts[name] = [torch.nn.Parameter(piece.clone()) for piece in pieces]
    options = {"lr": settings["lr"], "weight_decay": settings["weight_decay"], "nesterov": settings["nesterov"] == 1}
    if "momentum" in settings:
        options["momentum"] = settings["momentum"]
    if "a" in settings:
        options |= {"ns_coefficients": tuple(settings[key] for key in "abc"), "ns_steps": settings["steps"]}
    if "match_rms_adamw" in settings:
        options["adjust_lr_fn"] = "match_rms_adamw"
    adam_rate = settings.get("adam_lr", settings["lr"])
    muon = torch.optim.Muon([p for name in SHAPES if is_matrix(name) for p in parts[name]], **options)
    adam = torch.optim.AdamW(
        [p for name in SHAPES if not is_matrix(name) for p in parts[name]],
        lr=adam_rate,
        weight_decay=settings.get("adam_weight_decay", 0),
    )
    for step in range(STEPS):
        loss = sum(
            (arrays[f"curvature.{name}"] * (torch.cat(pieces) - arrays[f"target.{name}"]) ** 2).sum() / 2
            for name, pieces in parts.items()
        )
        for optimizer, rate in ((muon, settings["lr"]), (adam, adam_rate)):
            optimizer.zero_grad()
            optimizer.param_groups[0]["lr"] = rate * (1 - step / 64)
        loss.backward()
        muon.step()
        adam.step()
    return {name: torch.cat(pieces).detach() for name, pieces in parts.items()}


def train_without_cast(settings, arrays):
    original = _muon._zeropower_via_newtonschulz
    _muon._zeropower_via_newtonschulz = without_cast(original)
    try:
        return train(settings, arrays)
    finally:
        _muon._zeropower_via_newtonschulz = original


def text(settings, dtype):
    words = [f"{key}={value}" for key, value in settings.items()]
    return " ".join(words + (["float64=1"] if dtype == torch.float64 else []))


def compare(c):
    for title, settings in CASES.items():
        for dtype, limit in LIMIT.items():
            arrays = inputs(dtype)
            ours = c.program("muon", text(settings, dtype), inputs=arrays)
            name = f"{title}, {str(dtype).removeprefix('torch.')}"
            c.all_close(f"{name}, without the cast", limit, ours, train_without_cast(settings, arrays))
            c.all_close(f"{name}, with the cast", LIMIT_OF_CAST, ours, train(settings, arrays))


def fixtures(folder):
    from safetensors.numpy import save_file

    for title, settings in CASES.items():
        arrays = inputs(torch.float64)
        expected = {f"expected.{name}": value for name, value in train_without_cast(settings, arrays).items()}
        arrays = {name: np.ascontiguousarray(common.as_array(value)) for name, value in (arrays | expected).items()}
        save_file(arrays, folder / f"{title}.safetensors", {"settings": text(settings, torch.float64)})


common.main(compare, fixtures)
