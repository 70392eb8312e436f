"""Lesson 11: GELU and the two-layer network."""

import torch
from torch.nn import functional


def numbers():
    x = torch.tensor([[1.0, 0], [-1, 1]], requires_grad=True)
    w1 = torch.tensor([[1.0, 0], [0, 1], [-1, 1], [1, 1]], requires_grad=True)
    b1 = torch.tensor([0.0, 1, 0, -1], requires_grad=True)
    w2 = torch.tensor([[1.0, 0, 2, -1], [0, 1, -1, 1]], requires_grad=True)
    b2 = torch.tensor([0.5, -0.5], requires_grad=True)
    h = functional.linear(x, w1, b1)
    a = functional.gelu(h)
    z = x + functional.linear(a, w2, b2)
    L = (torch.tensor([[1.0, -1], [0.5, 2]]) * z).sum()
    for result in h, a:
        result.retain_grad()
    L.backward()
    return {
        **{"h": h, "a": a, "z": z, "L": L, "dW2": w2.grad, "db2": b2.grad, "da": a.grad, "dh": h.grad},
        **{"dW1": w1.grad, "db1": b1.grad, "dx": x.grad},
    }
