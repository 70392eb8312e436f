"""Lesson 3: slice, broadcast, transpose, reshape."""

import torch


def numbers():
    a = torch.arange(1.0, 10).reshape(3, 3).requires_grad_()
    r = torch.tensor([1.0, -1, 0], requires_grad=True)
    c = torch.tensor([[2.0], [-1]], requires_grad=True)
    y = a[:2] + r
    z = y * c
    t, s = z.T, z.reshape(3, 2)
    L = (t * s).sum()
    for result in y, z:
        result.retain_grad()
    L.backward()
    return {
        **{"y": y, "z": z, "t": t, "s": s, "L": L},
        **{"dz": z.grad, "dc": c.grad, "dy": y.grad, "dr": r.grad, "da": a.grad},
    }
