"""Compares multi-head attention with nn.MultiheadAttention, causal and with padded keys: output, weights and
gradients."""

import torch
from torch import nn

import common

LIMIT = {torch.float32: 1e-5, torch.float64: 1e-10}


def compare_one(c, dtype, causal, heads, width, key_width):
    torch.manual_seed(heads)
    batch, queries, keys = 3, 7, 7 if causal else 9
    theirs = nn.MultiheadAttention(width, heads, kdim=key_width, vdim=key_width, batch_first=True, dtype=dtype)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, 0, 0.3)
    query = torch.randn(batch, queries, width, dtype=dtype, requires_grad=True)
    key = torch.randn(batch, keys, key_width, dtype=dtype, requires_grad=True)
    value = torch.randn(batch, keys, key_width, dtype=dtype, requires_grad=True)
    lengths = torch.tensor([9, 1, 4])
    mask = (
        {"attn_mask": torch.ones(queries, keys, dtype=torch.bool).triu(1)}
        if causal
        else {"key_padding_mask": torch.arange(keys) >= lengths[:, None]}
    )
    output, weights = theirs(query, key, value, need_weights=True, average_attn_weights=False, **mask)
    cotangent = torch.randn_like(output)
    output.backward(cotangent)

    inputs = {"query": query, "key": key, "value": value, "cotangent": cotangent} | dict(theirs.named_parameters())
    if not causal:
        inputs["key_lengths"] = lengths
    ours = c.program("multi_head_attention", heads, inputs=inputs)
    expected = {"output": output, "weights": weights}
    for name, tensor in [("query", query), ("key", key), ("value", value), *theirs.named_parameters()]:
        expected[f"gradient.{name}"] = tensor.grad
    c.all_close(f"{str(dtype).removeprefix('torch.')}, outputs and gradients", LIMIT[dtype], ours, expected)


def compare(c):
    for dtype in LIMIT:
        for causal in (True, False):
            for heads, width, key_width in [(1, 8, 8), (4, 32, 32), (3, 24, 10)]:
                compare_one(c, dtype, causal, heads, width, key_width)


common.main(compare)
