"""Lesson 7: an attention layer with two heads, a causal mask and dropout. PyTorch draws other random numbers, so M is
copied from the lesson's page."""

import torch


def numbers():
    f = torch.tensor([[1, 0, -1, 0.5], [0.5, 1, 0, -1], [-0.5, 1, 1, 0]], requires_grad=True)
    r = torch.tensor([[1.0, -1, 0, 0], [0, 1, 1, 0], [2, 0, 0, -1]])
    wq = [[1, 0, 0.5, 0], [0, 1, 0, -0.5], [0.5, 0, -1, 0], [0, 0.5, 0, 1]]
    wk = [[0.5, 1, 0, 0], [-1, 1, 0, 0], [0, 0, 1, 0.5], [0, 0.5, -0.5, 1]]
    wv = [[1, 0, 0, 1], [0, 1, 1, 0], [0, -1, 1, 0], [1, 0, 0, -1]]
    w = torch.tensor(wq + wk + wv, requires_grad=True)
    wo = torch.tensor([[1, 0.5, 0, 0], [0, 1, 0.5, 0], [0, 0, 1, 0.5], [0.5, 0, 0, 1]], requires_grad=True)
    kept = [[[1, 1, 0], [1, 0, 1], [1, 1, 1]], [[1, 1, 0], [0, 1, 0], [0, 1, 1]]]
    m = torch.tensor(kept) / 0.75
    q, k, v = (part.reshape(3, 2, 2).transpose(0, 1) for part in (f @ w.T).chunk(3, -1))
    later = torch.ones(3, 3).triu(1).bool()
    a = (q @ k.transpose(-1, -2) / 2**0.5).masked_fill(later, -torch.inf).softmax(-1)
    y = (a * m @ v).transpose(0, 1).reshape(3, 4) @ wo.T
    L = (r * y).sum()
    L.backward()
    return {"A": a, "M": m, "Y": y, "L": L, "dF": f.grad, "dW": w.grad, "dWo": wo.grad}
