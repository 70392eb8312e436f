"""Compares attention options with transformers' formulas: rotary positions in both pairings (Llama, GPT-J), ALiBi
(BLOOM), norms of queries and keys (Qwen 3), soft cap and sliding window (Gemma 2), all with grouped heads. Checks the
output and every gradient, fused and composed."""

import math

import torch
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gptj.modeling_gptj import rotate_every_two
from transformers.models.llama.modeling_llama import rotate_half
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

import common

LIMIT = {torch.float32: 1e-5, torch.float64: 1e-10}

# {title: options of the program}
CASES = {
    "rotary halves": {"rotary": 1},
    "rotary neighbors": {"rotary": 1, "neighbors": 1},
    "part of a head, other base": {"rotary": 1, "base": 500000, "rotary_width": 4},
    "ALiBi": {"alibi": 1},
    "norms, rotary": {"rotary": 1, "qk_norm": 1e-6},
    "soft cap": {"soft_cap": 0.9},
    "window": {"window": 5},
    "soft cap, window, rotary": {"soft_cap": 2, "window": 9, "rotary": 1},
    "all options": {
        "rotary": 1,
        "neighbors": 1,
        "rotary_width": 6,
        "alibi": 1,
        "qk_norm": 1e-5,
        "soft_cap": 3,
        "window": 20,
    },
}


def rotate_positions(x, positions, options):
    """Rotates x (B, H, T, D) by the angles of positions (B, T), computed in float64 as in Tapehead."""
    width = options.get("rotary_width", x.shape[-1])
    frequency = options.get("base", 10000.0) ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = positions[:, None, :, None] * frequency
    if options.get("neighbors"):
        angle, rotate = angle.repeat_interleave(2, -1), rotate_every_two
    else:
        angle, rotate = torch.cat([angle, angle], -1), rotate_half
    rotated, unchanged = x[..., :width], x[..., width:]
    rotated = rotated * angle.cos().to(x.dtype) + rotate(rotated) * angle.sin().to(x.dtype)
    return torch.cat([rotated, unchanged], -1)


def attend(x, weights, heads, kv_heads, options, positions):
    batch, length, width = x.shape
    size = width // heads
    if "in_proj_weight" in weights:
        bias = weights["in_proj_bias"]
        q, k, v = (x @ weights["in_proj_weight"].T + bias).view(batch, length, 3, heads, size).permute(2, 0, 3, 1, 4)
    else:
        biases = weights["in_proj_bias"].split([width, kv_heads * size, kv_heads * size])
        q, k, v = (
            (x @ weights[f"{name}_proj_weight"].T + bias).view(batch, length, count, size).transpose(1, 2)
            for name, count, bias in zip("qkv", (heads, kv_heads, kv_heads), biases)
        )
    if "qk_norm" in options:
        norms = [Qwen3RMSNorm(size, eps=options["qk_norm"]).to(x.dtype) for _ in range(2)]
        q, k = (
            torch.func.functional_call(norm, {"weight": weights[f"{name}_norm.weight"]}, (value,))
            if x.dtype == torch.float32
            else rms_norm(value, weights[f"{name}_norm.weight"], options["qk_norm"])
            for norm, name, value in zip(norms, "qk", (q, k))
        )
    if "rotary" in options:
        q, k = rotate_positions(q, positions, options), rotate_positions(k, positions, options)
    k, v = (value.repeat_interleave(heads // kv_heads, 1) for value in (k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(size)
    if "soft_cap" in options:  # Gemma 2
        scores = torch.tanh(scores / options["soft_cap"]) * options["soft_cap"]
    if "alibi" in options:  # slope * key position; softmax is the same for slope * distance
        scores = scores + torch.tensor(slopes(heads), dtype=x.dtype)[:, None, None] * torch.arange(length)
    position = torch.arange(length)
    distance = position[:, None] - position
    hidden = (distance < 0) | (distance >= options.get("window", length))
    weights_of_keys = scores.masked_fill(hidden, -math.inf).softmax(-1)
    merged = (weights_of_keys @ v).transpose(1, 2).reshape(batch, length, width)
    return merged @ weights["out_proj.weight"].T + weights["out_proj.bias"]


def slopes(heads):
    """Returns the slopes of Press et al.; BLOOM has the same in float32."""
    whole = 2 ** math.floor(math.log2(heads))
    steps = [i + 1 for i in range(whole)] + [i + 0.5 for i in range(heads - whole)]
    return [2 ** (-8 * step / whole) for step in steps]


def rms_norm(x, weight, eps):
    """Computes Qwen3RMSNorm without the conversion to float32."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def parameters(width, heads, kv_heads, options, dtype):
    size = width // heads
    rows = [width, kv_heads * size, kv_heads * size]
    shapes = {"in_proj_bias": (sum(rows),), "out_proj.weight": (width, width), "out_proj.bias": (width,)}
    if kv_heads == heads:
        shapes["in_proj_weight"] = (3 * width, width)
    else:
        shapes |= {f"{name}_proj_weight": (count, width) for name, count in zip("qkv", rows)}
    if "qk_norm" in options:
        shapes |= {"q_norm.weight": (size,), "k_norm.weight": (size,)}
    return {name: (torch.randn(shape, dtype=dtype) * 0.3).requires_grad_() for name, shape in shapes.items()}


def compare_one(c, name, options, dtype, heads, kv_heads, size, length, given):
    torch.manual_seed(length)
    batch, width = 2, heads * size
    weights = parameters(width, heads, kv_heads, options, dtype)
    x = torch.randn(batch, length, width, dtype=dtype, requires_grad=True)
    positions = torch.arange(length).repeat(batch, 1)
    if given:
        positions = positions + torch.tensor([[3], [1000]])
    output = attend(x, weights, heads, kv_heads, options, positions)
    cotangent = torch.randn_like(output)
    output.backward(cotangent)
    expected = {"output": output, "gradient.x": x.grad}
    expected |= {f"gradient.{key}": value.grad for key, value in weights.items()}
    inputs = {"x": x, "cotangent": cotangent} | weights | ({"positions": positions} if given else {})
    arguments = [f"{key}={value}" for key, value in options.items()]
    for composed in ([], ["composed"]):
        ours = c.program("attention_options", heads, kv_heads, *arguments, *composed, inputs=inputs)
        c.all_close(f"{name}, {str(dtype).removeprefix('torch.')}", LIMIT[dtype], ours, expected)


def compare(c):
    for name, options in CASES.items():
        for dtype in LIMIT:
            for heads, kv_heads, size, length, given in [(6, 3, 10, 70, True), (12, 12, 8, 300, False)]:
                compare_one(c, name, options, dtype, heads, kv_heads, size, length, given)
    for heads in (1, 2, 6, 8, 12, 20):
        theirs = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1]
        c.close("slopes of ALiBi, as BLOOM has them", 1e-6, slopes(heads), theirs)


common.main(compare)
