"""Paddle 3.3: the gradient of the variance in gaussian_nll_loss, next to that of the same formula and to a central difference."""

import paddle
import paddle.nn.functional as F

mean, label = paddle.to_tensor([0.5], dtype="float64"), paddle.to_tensor([1.5], dtype="float64")
variance = paddle.to_tensor([2.0], dtype="float64", stop_gradient=False)
formula = 0.5 * (paddle.log(variance) + paddle.square(mean - label) / variance)
loss = F.gaussian_nll_loss(mean, label, variance)
gradient = 0.0 if loss.stop_gradient else paddle.grad(loss, variance)[0].item()
of_formula = paddle.grad(formula, variance)[0].item()
quotient = (F.gaussian_nll_loss(mean, label, variance + 1e-5) - F.gaussian_nll_loss(mean, label, variance - 1e-5)).item() / 2e-5
print(f"gaussian_nll_loss {gradient}, formula {of_formula}, central difference {quotient}")
raise SystemExit(abs(gradient - quotient) > 1e-6)
