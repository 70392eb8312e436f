"""Compares with nn.MultiheadAttention, nn.TransformerEncoderLayer and DecoderLayer, their stacks and nn.Transformer:
outputs and every gradient, with the same weights, for random sizes, options and masks, in float32 and float64. The
fixtures are a few small cases, which tests/nn/test_torch_fixtures.c checks without PyTorch."""

import random
import warnings

import numpy as np
import torch
from torch import nn

import common

LIMIT = {torch.float32: 1e-5, torch.float64: 1e-10}
CASES = 30  # for each module and type
warnings.filterwarnings("ignore")  # PyTorch warns about its fast paths


# -- masks: True means hidden in PyTorch's masks and visible in ours --


def random_mask(r, kind, batch, heads, queries, keys, dtype):
    """Returns PyTorch's attn_mask and key_padding_mask of this kind, and ours. Two keys are visible to every query:
    without any key PyTorch returns NaN, and with one key the gradient of its score is 0, so a relative error is
    meaningless."""
    theirs, ours = {}, {}
    if "additive" in kind:
        additive = torch.randn(queries, keys, dtype=dtype)
        if "hidden" in kind:
            additive[:, 2:] = additive[:, 2:].masked_fill(torch.rand(queries, keys - 2) < 0.3, -torch.inf)
        additive.requires_grad_()
        theirs["attn_mask"] = ours["additive"] = additive
    elif "ahead" in kind:
        theirs["attn_mask"] = torch.ones(queries, keys, dtype=torch.bool).triu(2)
    elif "each" in kind and batch:
        hidden = torch.rand(batch * heads, queries, keys) < 0.4
        hidden[..., :2] = False
        theirs["attn_mask"] = hidden
    elif "some" in kind:
        hidden = torch.rand(queries, keys) < 0.4
        hidden[:, :2] = False
        theirs["attn_mask"] = hidden
    if "additive" not in kind and "attn_mask" in theirs:
        keep = ~theirs["attn_mask"]
        ours["keep"] = keep.view(batch, heads, queries, keys) if keep.dim() == 3 else keep
    if "padded" in kind and batch:
        lengths = torch.tensor([r.randint(2, keys) for _ in range(batch)])
        hidden = torch.arange(keys) >= lengths[:, None]
        keep = ~hidden[:, None, None, :]
        # a float attn_mask requires a float key_padding_mask
        theirs["key_padding_mask"] = (
            torch.zeros(batch, keys, dtype=dtype).masked_fill(hidden, -torch.inf) if "additive" in kind else hidden
        )
        ours["keep"] = ours["keep"] & keep if "keep" in ours else keep
    return theirs, ours


MASKS = ["", "ahead", "some", "each", "padded", "ahead padded", "some padded", "additive", "additive hidden", "additive padded"]


# -- the modules: each function returns a kind, PyTorch's module and a function that calls it --


class Case:
    def __init__(self, r, dtype, small=False):
        self.r, self.dtype = r, dtype
        self.batch = r.choice([0, 1, 3])
        self.heads = r.choice([1, 2, 3])
        self.width = self.heads * r.choice([4] if small else [8, 9, 12])
        # With few keys, the gradients of scores are small differences of large numbers, in PyTorch and here. Then
        # float32 does not give them to a relative error of 1e-5.
        self.queries, self.keys = (r.randint(2, 4) if small else r.randint(5, 11) for _ in range(2))
        self.settings = {"heads": self.heads}
        self.leaves, self.masks = {}, {}

    def tensor(self, name, *shape):
        shape = (self.batch, *shape) if self.batch else shape
        self.leaves[name] = torch.randn(*shape, dtype=self.dtype, requires_grad=True)
        return self.leaves[name]

    def mask(self, prefix, queries, keys, heads=True):
        """Returns PyTorch's two masks; stores ours under the prefix."""
        kind = self.r.choice([kind for kind in MASKS if heads or kind != "each"])
        theirs, ours = random_mask(self.r, kind, self.batch, self.heads, queries, keys, self.dtype)
        for name, tensor in ours.items():
            (self.leaves if tensor.requires_grad else self.masks)[prefix + name] = tensor
        return theirs.get("attn_mask"), theirs.get("key_padding_mask")

    def settings_text(self):
        return " ".join(f"{name}={value}" for name, value in self.settings.items())

    def layer_options(self):
        r = self.r
        options = {
            "dim_feedforward": r.choice([3, 8, 20]),
            "activation": r.choice(["relu", "gelu"]),
            "norm_first": r.choice([True, False]),
            "bias": r.choice([True, True, False]),
            "layer_norm_eps": r.choice([1e-5, 1e-3]),
            "dropout": r.choice([0.0, 0.3]),
        }
        self.training = options["dropout"] == 0
        self.settings |= {
            "mlp_width": options["dim_feedforward"],
            "relu": int(options["activation"] == "relu"),
            "norm_first": int(options["norm_first"]),
            "bias": int(options["bias"]),
            "eps": options["layer_norm_eps"],
            "dropout": options["dropout"],
            "training": int(self.training),
            "fusion": r.choice([0, 1]),
            "recompute": r.choice([0, 1]),
        }
        return options | {"batch_first": True, "dtype": self.dtype}


def attention(case):
    r = case.r
    inputs = [case.width, case.width] if r.random() < 0.5 else [r.randint(1, 12), r.randint(1, 12)]
    bias = r.choice([True, False])
    module = nn.MultiheadAttention(
        case.width, case.heads, kdim=inputs[0], vdim=inputs[1], bias=bias, batch_first=True, dtype=case.dtype
    )
    x, key, value = (
        case.tensor("x", case.queries, case.width),
        case.tensor("key", case.keys, inputs[0]),
        case.tensor("value", case.keys, inputs[1]),
    )
    attn_mask, padding = case.mask("", case.queries, case.keys)
    case.settings |= {"bias": int(bias), "weights": r.choice([0, 1])}

    def call():
        output, weights = module(
            x, key, value, attn_mask=attn_mask, key_padding_mask=padding, average_attn_weights=False,
            need_weights=bool(case.settings["weights"]),
        )
        return output, weights

    return "attention", module, call


def one_stack(case, decoder, layers):
    """Returns a layer of PyTorch (layers None) or a stack, and a function that calls it."""
    options = case.layer_options()
    layer = (nn.TransformerDecoderLayer if decoder else nn.TransformerEncoderLayer)(case.width, case.heads, **options)
    module = layer
    if layers:
        norm = (
            nn.LayerNorm(case.width, options["layer_norm_eps"], bias=options["bias"], dtype=case.dtype)
            if case.r.random() < 0.5
            else None
        )
        case.settings |= {"final_norm": int(norm is not None), "encoder_layers": layers, "decoder_layers": layers}
        module = (nn.TransformerDecoder if decoder else nn.TransformerEncoder)(layer, layers, norm)
    x = case.tensor("x", case.queries, case.width)
    attn_mask, padding = case.mask("", case.queries, case.queries)
    if not decoder:
        name = "mask" if layers else "src_mask"
        return module, lambda: (module(x, **{name: attn_mask}, src_key_padding_mask=padding), None)
    memory = case.tensor("memory", case.keys, case.width)
    memory_mask, memory_padding = case.mask("memory_", case.queries, case.keys)
    return module, lambda: (
        module(
            x, memory, tgt_mask=attn_mask, memory_mask=memory_mask, tgt_key_padding_mask=padding,
            memory_key_padding_mask=memory_padding,
        ),
        None,
    )


def block(case):
    return "block", *one_stack(case, case.r.random() < 0.5, None)


def stack(case):
    decoder = case.r.random() < 0.5
    return "decoder" if decoder else "encoder", *one_stack(case, decoder, case.r.randint(1, 3))


def transformer(case):
    options = case.layer_options()
    encoder_layers, decoder_layers = case.r.randint(1, 2), case.r.randint(1, 2)
    module = nn.Transformer(case.width, case.heads, encoder_layers, decoder_layers, **options)
    case.settings |= {"encoder_layers": encoder_layers, "decoder_layers": decoder_layers, "final_norm": 1}
    x, source = case.tensor("x", case.queries, case.width), case.tensor("memory", case.keys, case.width)
    mask, padding = case.mask("", case.queries, case.queries)
    source_mask, source_padding = case.mask("source_", case.keys, case.keys)
    memory_mask, memory_padding = case.mask("memory_", case.queries, case.keys)
    return "transformer", module, lambda: (
        module(
            source, x, src_mask=source_mask, tgt_mask=mask, memory_mask=memory_mask,
            src_key_padding_mask=source_padding, tgt_key_padding_mask=padding, memory_key_padding_mask=memory_padding,
        ),
        None,
    )


MODULES = [attention, block, stack, transformer]


def run_theirs(make, seed, dtype, small=False):
    """Returns the case, its kind, the inputs and PyTorch's results."""
    r = random.Random(seed)
    torch.manual_seed(seed)
    case = Case(r, dtype, small)
    kind, module, call = make(case)
    with torch.no_grad():
        for parameter in module.parameters():  # so that biases are not 0 and norms are not 1
            if parameter.dim() == 1:
                parameter += 0.2 * torch.randn_like(parameter)
        for tensor in [*module.parameters(), *case.leaves.values()]:  # round to values that float32 represents
            tensor.copy_(tensor.float())
    module.train(getattr(case, "training", True))
    output, weights = call()
    cotangent = torch.randn_like(output)
    output.backward(cotangent)
    inputs = {"cotangent": cotangent, **case.leaves, **case.masks, **dict(module.named_parameters())}
    expected = {"output": output} | ({"weights": weights} if weights is not None else {})
    for name, tensor in [*case.leaves.items(), *module.named_parameters()]:
        expected[f"gradient.{name}"] = tensor.grad if tensor.grad is not None else torch.zeros_like(tensor)
    return case, kind, inputs, expected


def compare(c):
    for make in MODULES:
        for dtype in LIMIT:
            title = f"{make.__name__}, {str(dtype).removeprefix('torch.')}, outputs and gradients"
            for seed in range(CASES):
                case, kind, inputs, expected = run_theirs(make, seed, dtype)
                settings = case.settings_text()
                ours = c.program("torch_transformer", kind, settings, inputs=inputs)
                for name in expected:
                    c.close(title, LIMIT[dtype], ours[name], expected[name], f"{name} of seed {seed}, {settings}")


# -- fixtures: NAME-SEED.safetensors has the inputs, the results as expected.NAME, and the kind and settings --

FIXTURES = [(attention, 24), (block, 34), (block, 36), (stack, 10), (transformer, 6), (transformer, 32)]


def fixtures(folder):
    from safetensors.numpy import save_file

    for make, seed in FIXTURES:
        case, kind, inputs, expected = run_theirs(make, seed, torch.float64, small=True)
        arrays = inputs | {f"expected.{name}": tensor for name, tensor in expected.items()}
        arrays = {name: np.ascontiguousarray(common.as_array(tensor)) for name, tensor in arrays.items()}
        path = folder / f"{make.__name__}-{seed}.safetensors"
        save_file(arrays, path, {"kind": kind, "settings": case.settings_text()})


common.main(compare, fixtures)
