"""Random inputs of the operations, in float64: each is a function that returns a new tuple of arrays."""

import numpy as np

RANDOM = np.random.default_rng(3)


def uniform(low, high, *shape):
    return RANDOM.uniform(low, high, shape)


ANY = lambda: (uniform(-2, 2, 2, 3),)
POSITIVE = lambda: (uniform(0.3, 2.5, 2, 3),)
INSIDE = lambda: (uniform(-0.9, 0.9, 2, 3),)
ABOVE = lambda: (uniform(1.1, 3, 2, 3),)
PAIR = lambda: (uniform(-2, 2, 2, 3), uniform(0.3, 2.5, 1, 3))
POSITIVES = lambda: (uniform(0.3, 2.5, 2, 3), uniform(0.3, 2.5, 1, 3))
SAME = lambda: (uniform(-2, 2, 2, 3), uniform(-2, 2, 2, 3))
VECTORS = lambda: (uniform(-2, 2, 4), uniform(-2, 2, 4))
MATRICES = lambda: (uniform(-2, 2, 3, 3), uniform(-2, 2, 3, 3))
SQUARE = lambda: (uniform(-2, 2, 3, 3),)
DEFINITE = lambda: (np.array([[3.0, 0.4, 0.1], [0.4, 2.0, 0.3], [0.1, 0.3, 1.5]]),)
