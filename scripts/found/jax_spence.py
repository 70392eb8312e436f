"""JAX 0.10: the gradient of scipy.special.spence above 1, next to its closed form and to a central difference."""

import math

import jax
from jax.scipy.special import spence

jax.config.update("jax_enable_x64", True)
wrong = False
for x in (0.5, 1.0, 1.5, 2.0):
    gradient = float(jax.grad(spence)(x))
    closed = -1.0 if x == 1 else math.log(x) / (1 - x)
    quotient = float(spence(x + 1e-5) - spence(x - 1e-5)) / 2e-5
    print(f"spence at {x}: gradient {gradient}, closed form {closed:.6f}, central difference {quotient:.6f}")
    wrong |= not abs(gradient - quotient) < 1e-6
raise SystemExit(wrong)
