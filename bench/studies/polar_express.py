#!/usr/bin/env python3
"""Computes the coefficients of src/kernels/products/newton_schulz.c, and compares Newton-Schulz iterations.

The procedure of Polar Express (Amsel et al. 2025, "The Polar Express: Optimal Matrix Sign Methods and Their Application
to the Muon Algorithm", arXiv 2505.16932): each step has the odd polynomial of degree 5 that is nearest to 1 on the
interval [low, high] of the singular values after the steps before. Remez's algorithm finds it. If low is below 2.4 % of
high, the polynomial is that of the shorter interval, scaled so that it is as far above 1 as below.

    polar_express.py              prints the coefficients
    polar_express.py quality      prints results for some lists of singular values; needs NumPy
"""
import sys

import numpy as np

CUSHION = 0.02407327424182761
JORDAN = (3.4445, -4.7750, 2.0315)


def nearest_to_one(low, high):
    """Returns a, b, c of the polynomial a s + b s^3 + c s^5 that is nearest to 1 on [low, high]."""
    if low / high > 1 - 5e-6:
        return 15 / 8 / high, -10 / 8 / high**3, 3 / 8 / high**5
    inner, error = [(3 * low + high) / 4, (low + 3 * high) / 4], np.inf
    while True:
        points = np.array([low, *inner, high])
        matrix = np.stack([points, points**3, points**5, [1, -1, 1, -1]], axis=1)
        a, b, c, new_error = np.linalg.solve(matrix, np.ones(4))
        if abs(new_error - error) <= 1e-15:
            return a, b, c
        error = new_error
        root = np.sqrt(max(9 * b * b - 20 * a * c, 0))  # the extrema between low and high
        inner = [np.sqrt((-3 * b - root) / (10 * c)), np.sqrt((-3 * b + root) / (10 * c))]


def polar_express(least, steps):
    """Returns the coefficients of each step for singular values from `least` to 1, and the final distance from 1."""
    low, high, coefficients = least, 1.0, []
    for _ in range(steps):
        a, b, c = nearest_to_one(max(low, CUSHION * high), high)
        ends = [a * s + b * s**3 + c * s**5 for s in (low, high)]
        a, b, c = (2 / sum(ends) * x for x in (a, b, c))
        coefficients.append((a, b, c))
        low = a * low + b * low**3 + c * low**5
        high = 2 - low
    return coefficients, 1 - low


def iterate(values, coefficients, by_gram):
    """Returns the singular values after the iteration."""
    values = values / np.linalg.norm(values)
    if by_gram:
        values = values / np.sqrt(np.linalg.norm(values**2))
    for a, b, c in coefficients:
        values = a * values + b * values**3 + c * values**5
    return values


def print_quality():
    """Prints the cosine of the angle between the result and U V^T, in the space of all matrices: 1 is best."""
    random = np.random.default_rng(1)
    index = np.arange(1, 257)
    lists = {
        "normal 256 x 256": np.linalg.svd(random.standard_normal((256, 256)), compute_uv=False),
        "normal 256 x 1024": np.linalg.svd(random.standard_normal((256, 1024)), compute_uv=False),
        "i^-0.5": index**-0.5,
        "i^-1": 1 / index,
        "i^-1.5": index**-1.5,
        "1 .. 1e-2": np.logspace(0, -2, 256),
        "1 .. 1e-3": np.logspace(0, -3, 256),
    }
    ways = {f"Jordan, {n} steps": ([JORDAN] * n, False) for n in (3, 4, 5)}
    for steps, least in ((3, 0.01), (4, 0.005), (5, 0.001), (6, 0.001)):
        ways[f"Polar Express, {steps} steps"] = (polar_express(least, steps)[0], True)
    ways["Polar Express, 5 steps, without the Gram norm"] = (polar_express(0.001, 5)[0], False)
    print("| singular values |", " | ".join(lists), "|\n|---|" + "---:|" * len(lists))
    for name, way in ways.items():
        results = [iterate(values, *way) for values in lists.values()]
        cosines = [r.sum() / np.sqrt((r**2).sum() * len(r)) for r in results]
        print(f"| {name} |", " | ".join(f"{cosine:.3f}" for cosine in cosines), "|")


if sys.argv[1:] == ["quality"]:
    print_quality()
else:
    for steps, least in ((3, 0.01), (4, 0.005), (6, 0.001)):
        coefficients, error = polar_express(least, steps)
        print(f"{steps} steps from {least}: 1 +- {error:.4g}")
        for step in coefficients:
            print("    {" + ", ".join(f"{x:.17g}" for x in step) + "},")
