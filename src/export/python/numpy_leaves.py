def given(name):
    """A leaf. Floating numbers are float64 from here on, so that only the library rounds to float32."""
    dtype, shape, _ = LEAVES[name]
    kind = np.float64 if dtype.startswith("float") else dtype
    return np.array(numbers_of(LEAVES[name]), dtype=kind).reshape(shape)


def perturbed(x):
    """A result with every floating number changed by a unit in the last place, up or down."""
    if isinstance(x, (list, tuple)):
        return [perturbed(i) for i in x]
    if getattr(x, "dtype", np.dtype(bool)).kind != "f":
        return x
    return x * (1 + UNIT * (2.0 * RANDOM.integers(0, 2, x.shape) - 1))
