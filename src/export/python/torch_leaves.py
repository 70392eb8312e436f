def given(name):
    """A leaf without a gradient. Floating numbers are float64 from here on, so that only the library rounds to float32."""
    dtype, shape, _ = LEAVES[name]
    kind = torch.float64 if dtype.startswith("float") else getattr(torch, dtype)
    return torch.tensor(numbers_of(LEAVES[name]), dtype=kind).reshape(shape)


def leaf(name):
    """A leaf whose gradient is computed."""
    return given(name).requires_grad_()


def perturbed(x):
    """A result with every floating number changed by a unit in the last place, up or down."""
    if isinstance(x, (list, tuple)):
        return [perturbed(i) for i in x]
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        return x
    return x * (1 + UNIT * (2 * torch.randint(0, 2, x.shape, dtype=torch.float64) - 1))
