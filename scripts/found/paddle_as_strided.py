"""Paddle 3.3: gradients of as_strided and unfold with windows that overlap, next to how often each element is used."""

import numpy as np
import paddle

x = paddle.to_tensor(np.arange(6.0).reshape(2, 3), stop_gradient=False)
strided = paddle.as_strided(x, (3, 3), (1, 1), 0)  # rows x[0:3], x[1:4] and x[2:5] of the flat array
windows = paddle.unfold(x, 1, 2, 1)  # [a, b] and [b, c] of each row
for name, y, uses in (("as_strided", strided, [[1, 2, 3], [2, 1, 0]]), ("unfold", windows, [[1, 2, 1], [1, 2, 1]])):
    print(name, paddle.grad(y.sum(), x)[0].numpy().tolist(), "right is", uses)
