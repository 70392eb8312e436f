"""Paddle 3.3: the gradient of group_norm without a weight, next to that with a weight of ones and to a central difference."""

import numpy as np
import paddle
import paddle.nn.functional as F

random = np.random.default_rng(0)
values, cotangent = random.normal(size=(2, 4, 3, 3)), paddle.to_tensor(random.normal(size=(2, 4, 3, 3)))
ones, step = paddle.ones([4], "float64"), np.eye(1, 72).reshape(2, 4, 3, 3) * 1e-5
loss = lambda x, weight=None: (F.group_norm(paddle.to_tensor(x), 2, weight=weight) * cotangent).sum()
x = paddle.to_tensor(values, stop_gradient=False)
plain, with_weight = (paddle.grad((F.group_norm(x, 2, weight=w) * cotangent).sum(), x)[0][0, 0, 0, 0].item() for w in (None, ones))
quotient = (loss(values + step) - loss(values - step)).item() / 2e-5
print(f"without weight {plain}, with a weight of ones {with_weight}, central difference {quotient}")
raise SystemExit(abs(plain - quotient) > 1e-6)
