"""Lesson 0: your own tape."""

import math

import torch


def numbers():
    w, x, b, m = (torch.tensor(number, requires_grad=True) for number in (2.0, 1.5, math.log(2) - 3, -1.0))
    u = w * x
    s = u + b
    y = torch.tanh(s)
    e = y + m
    L = e * e
    for result in u, s, y, e:
        result.retain_grad()
    L.backward()
    return {
        **{"u": u, "s": s, "y": y, "e": e, "L": L, "de": e.grad, "dy": y.grad, "ds": s.grad, "du": u.grad},
        **{"dm": m.grad, "db": b.grad, "dx": x.grad, "dw": w.grad},
    }
