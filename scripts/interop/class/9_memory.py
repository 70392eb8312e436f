"""Lesson 9: a chain with recomputed segments."""

import torch
from torch.utils.checkpoint import checkpoint


def segment(x):
    for _ in range(4):
        x = x.tanh()
    return x


def numbers():
    start = (torch.arange(128) / 128).requires_grad_()
    x = start
    for _ in range(4):
        x = checkpoint(segment, x, use_reentrant=False)
    x.sum().backward()
    return {"the end of dx": start.grad[-4:]}
