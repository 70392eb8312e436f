"""PyTorch: the operations of op_db, which PyTorch tests itself with, at its own sample inputs."""

import sys
import warnings

import common
import torch
from torch.testing._internal import common_methods_invocations

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
SAMPLES, LARGEST = 2, 40  # sample inputs for an operation; elements of one


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors_of(part)


def with_tensors(value, tensors):
    """Returns value with its tensors replaced by the next ones."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(with_tensors(part, tensors) for part in value)
    return value


def suitable(tensors):
    floating = [t for t in tensors if t.requires_grad]
    return floating and all(t.layout == torch.strided and not t.is_complex() for t in tensors) and all(
        0 < t.numel() <= LARGEST for t in floating
    )


def check_samples(op, dtype):
    done = 0
    torch.manual_seed(0)
    for sample in op.sample_inputs("cpu", dtype, requires_grad=True, small_inputs_only=True):
        given = [sample.input, list(sample.args)]
        tensors = list(tensors_of(given))
        if not suitable(tensors):
            continue

        def function(*values):
            # Batch normalization writes its running mean: only the differentiated inputs are passed as they are.
            own = iter([v if t.requires_grad else v.clone() for t, v in zip(tensors, values)])
            first, rest = with_tensors(given, own)
            torch.manual_seed(0)  # dropout and others draw the same numbers in each call
            # The wrapper makes a matrix symmetric or triangular where the operation needs one.
            result = op.gradcheck_wrapper(op, first, *rest, **sample.kwargs)
            result = sample.output_process_fn_grad(result)
            return tuple(t for t in tensors_of(result) if not t.is_complex())

        outputs = function(*tensors)
        if not any(t.requires_grad for t in outputs) or sum(t.numel() for t in outputs) > 1000:
            continue
        yield common.tapehead.check(function, tensors, name=op.name)
        done += 1
        if done == SAMPLES:
            return


def operations():
    for dtype in (torch.float64, torch.float32):
        for op in common_methods_invocations.op_db:
            if op.supports_autograd and op.supports_dtype(dtype, "cpu"):
                variant = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
                yield variant, str(dtype)[6:], lambda op=op, dtype=dtype: check_samples(op, dtype)


if __name__ == "__main__":
    sys.exit(common.main("torch", torch.__version__, operations()))
