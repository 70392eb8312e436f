"""Lesson 1: the chain rule."""

import torch


def numbers():
    w = torch.tensor(2.0, requires_grad=True)
    x = torch.tensor(1.5, requires_grad=True)
    u = w * x
    v = u * u
    L = v + u
    for result in u, v:
        result.retain_grad()
    L.backward()
    return {"u": u, "v": v, "L": L, "dv": v.grad, "du": u.grad, "dw": w.grad, "dx": x.grad}
