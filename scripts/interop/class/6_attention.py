"""Lesson 6: one attention head."""

import torch


def numbers():
    q = torch.tensor([[1.0, 0], [0, 2], [1, 1]], requires_grad=True)
    k = torch.tensor([[1, 0.5], [-1, 1.5], [0.5, -1]], requires_grad=True)
    v = torch.tensor([[1, 2], [3, -1], [-2, 0.5]], requires_grad=True)
    target = torch.tensor([[0, 1], [1, 0], [0.5, 0.5]])
    s = q @ k.T / 2**0.5
    a = s.softmax(-1)
    o = a @ v
    for result in s, a, o:
        result.retain_grad()
    L = ((o - target) ** 2).sum() / 2
    L.backward()
    return {
        **{"S": s, "A": a, "O": o, "L": L, "dO": o.grad, "dA": a.grad, "dS": s.grad},
        **{"dQ": q.grad, "dK": k.grad, "dV": v.grad},
    }
