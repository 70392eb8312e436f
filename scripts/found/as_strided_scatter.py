"""PyTorch 2.13: the gradient of as_strided_scatter with respect to its first input, next to its closed form."""

import torch

x = torch.ones(3, 3, dtype=torch.float64, requires_grad=True)
src = torch.zeros(2, 2, dtype=torch.float64)
y = torch.as_strided_scatter(x, src, (2, 2), (1, 2))  # overwrites y[0, 0], y[0, 1], y[0, 2] and y[1, 0]
(gradient,) = torch.autograd.grad(y.sum(), x)
right = (y != 0).double()  # an overwritten element does not depend on x; every other one is an element of x
print(gradient, right, sep="\n")
raise SystemExit(not torch.equal(gradient, right))
