def given(name):
    """A leaf without a gradient. Floating numbers are float64 from here on, so that only the library rounds to float32."""
    dtype, shape, _ = LEAVES[name]
    kind = torch.float64 if dtype.startswith("float") else getattr(torch, dtype)
    return torch.tensor(numbers_of(LEAVES[name]), dtype=kind).reshape(shape)


def leaf(name):
    """A leaf whose gradient is computed."""
    return given(name).requires_grad_()
