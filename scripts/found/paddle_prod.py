"""Paddle 3.3: the gradient of prod where an element is 0, next to that of the same product with operators."""

import paddle

x = paddle.to_tensor([0.0, 2.0, 3.0], dtype="float64", stop_gradient=False)
print(paddle.grad(paddle.prod(x), x)[0].numpy(), "right is", paddle.grad(x[0] * x[1] * x[2], x)[0].numpy())
