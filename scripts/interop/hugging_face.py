"""Compares GPT-2 and Llama with transformers: its saved models give the same logits, loss and gradients here, and our
exported models give the same logits there."""

import contextlib
import json
import logging
import os
import pathlib
import re
import tempfile
from unittest import mock

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama import modeling_llama

import common

transformers.utils.logging.disable_progress_bar()

GPT2 = dict(vocab_size=61, n_positions=24, n_embd=32, n_layer=3, n_head=4, bos_token_id=0, eos_token_id=0)
LLAMA = dict(
    vocab_size=61,
    hidden_size=32,
    intermediate_size=44,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=24,
    bos_token_id=0,
    eos_token_id=0,
)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
LLAMA3["original_max_position_embeddings"] = 24
SHORT_FACTORS, LONG_FACTORS = [1.0, 1.1, 1.5, 2.0], [1.5, 3.0, 7.5, 20.0]
LONGROPE = dict(rope_type="longrope", short_factor=SHORT_FACTORS, long_factor=LONG_FACTORS, rope_theta=1e4)
YARN = dict(rope_type="yarn", factor=4.0, rope_theta=1e4)
MODELS = {
    "gpt2": GPT2,
    "gpt2 inner, relu, eps": GPT2 | dict(n_inner=50, activation_function="relu", layer_norm_epsilon=1e-3),
    "gpt2 untied, gelu, 1 head": GPT2 | dict(tie_word_embeddings=False, activation_function="gelu", n_head=1),
    "gpt2 dropout of the embedding only": GPT2 | dict(resid_pdrop=0.0, attn_pdrop=0.0),
    "gpt2 odd sizes": GPT2 | dict(vocab_size=257, n_positions=19, n_embd=39, n_head=3, n_layer=1),
    "llama": LLAMA,
    "llama no groups, theta, eps": LLAMA | dict(num_key_value_heads=4, rope_theta=500000.0, rms_norm_eps=1e-3),
    "llama one group, tied, gelu": LLAMA | dict(num_key_value_heads=1, tie_word_embeddings=True, hidden_act="gelu"),
    "llama biases, no groups": LLAMA | dict(num_key_value_heads=4, attention_bias=True, mlp_bias=True),
    "llama biases of attention only": LLAMA | dict(attention_bias=True),
    "llama biases of the MLP only, no groups": LLAMA | dict(num_key_value_heads=4, mlp_bias=True),
    "llama biases, groups": LLAMA | dict(attention_bias=True, mlp_bias=True),
    "llama wide heads": LLAMA | dict(head_dim=10),
    "llama linear scaling": LLAMA | dict(rope_parameters=dict(rope_type="linear", factor=2.5, rope_theta=100.0)),
    "llama 3.1's scaling": LLAMA | dict(rope_parameters=LLAMA3 | {"rope_theta": 5e3}, max_position_embeddings=96),
    "llama dynamic scaling, longer": LLAMA
    | dict(rope_parameters=dict(rope_type="dynamic", factor=4.0, rope_theta=1e4), max_position_embeddings=12),
    "llama dynamic scaling, not longer": LLAMA
    | dict(rope_parameters=dict(rope_type="dynamic", factor=4.0, rope_theta=1e4), max_position_embeddings=24),
    "llama yarn": LLAMA | dict(rope_parameters=YARN | {"original_max_position_embeddings": 24}),
    "llama yarn, all members": LLAMA
    | dict(
        head_dim=12,
        rope_parameters=YARN
        | dict(original_max_position_embeddings=6, beta_fast=2.0, beta_slow=0.25, truncate=False)
        | dict(mscale=0.7, mscale_all_dim=1.3),
    ),
    "llama yarn, attention factor": LLAMA
    | dict(rope_parameters=YARN | dict(attention_factor=0.75, rope_theta=50.0), max_position_embeddings=64),
    "llama longrope, long": LLAMA | dict(rope_parameters=LONGROPE | {"original_max_position_embeddings": 6}),
    "llama longrope, short": LLAMA | dict(rope_parameters=LONGROPE | {"original_max_position_embeddings": 17}),
    "llama longrope, attention factor": LLAMA
    | dict(
        rope_parameters=LONGROPE | dict(original_max_position_embeddings=16, attention_factor=1.25, factor=2.0),
    ),
}
LIMITS = {"float32": (1e-4, 1e-5, 1e-4), "float64": (1e-10, 1e-10, 1e-10)}  # logits, loss, gradients


def make(config):
    """Creates a model with random parameters, including norms and biases."""
    torch.manual_seed(len(str(config)))
    llama = "hidden_size" in config
    kind = transformers.LlamaForCausalLM if llama else transformers.GPT2LMHeadModel
    model = kind((transformers.LlamaConfig if llama else transformers.GPT2Config)(**config))
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, 1 if re.search(r"(norm|ln_\d|ln_f)\.weight$", name) else 0, 0.1)
    return model.eval()


def loss_of(logits, targets):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


# -- float64: transformers always computes Llama's norms and angles in float32; these functions replace them --


def norm_forward(norm, x):
    return norm.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)


def rotary_forward(rotary, x, position_ids):
    """transformers' own formulas, which take their types from torch.float, torch.float32 and Tensor.float."""
    kind = rotary.config.rope_parameters["rope_type"]
    formula = ROPE_INIT_FUNCTIONS.get(kind, rotary.compute_default_rope_parameters)
    types = mock.patch.multiple(torch, float=x.dtype, float32=x.dtype)
    with types, mock.patch.object(torch.Tensor, "float", torch.Tensor.double):
        frequency, factor = formula(rotary.config, seq_len=int(position_ids.max()) + 1)
    angle = (position_ids[..., None].to(x.dtype) * frequency).repeat(1, 1, 2)
    return angle.cos() * factor, angle.sin() * factor


@contextlib.contextmanager
def all_in(dtype):
    """Within this context, Llama's norms and angles are computed in float64 if dtype is float64."""
    replaced = [(modeling_llama.LlamaRMSNorm, norm_forward), (modeling_llama.LlamaRotaryEmbedding, rotary_forward)]
    before = [kind.forward for kind, _ in replaced]
    if dtype == "float64":
        for kind, forward in replaced:
            kind.forward = forward
    yield
    for (kind, _), forward in zip(replaced, before):
        kind.forward = forward


# -- our names for their tensors --

RENAMED = [
    (r"^transformer\.|^model\.", ""),
    (r"^(wte|embed_tokens)\.", "embedding."),
    (r"^wpe\.", "position."),
    (r"^h\.", "layers."),
    (r"^ln_f\.", "norm."),
    (r"^lm_head\.", "classifier."),
    (r"\.(ln_1|input_layernorm)\.", ".norm1."),
    (r"\.(ln_2|post_attention_layernorm)\.", ".norm2."),
    (r"\.attn\.c_attn\.", ".self_attn.in_proj_"),
    (r"\.(attn\.c_proj|self_attn\.o_proj)\.", ".self_attn.out_proj."),
    (r"\.mlp\.(c_fc|up_proj)\.", ".linear1."),
    (r"\.mlp\.(c_proj|down_proj)\.", ".linear2."),
    (r"\.mlp\.gate_proj\.", ".gate."),
]


def in_our_names(tensors, grouped):
    """Converts {their name: tensor} to {our name: tensor}: transposes Conv1D, packs q, k and v."""
    ours = {}
    for name, tensor in tensors.items():
        renamed = name
        for pattern, replacement in RENAMED:
            renamed = re.sub(pattern, replacement, renamed)
        packed = re.match(r"(.*self_attn\.)([qkv])_proj\.(weight|bias)$", renamed)
        if packed and (packed[3] == "bias" or not grouped):
            ours.setdefault(f"{packed[1]}in_proj_{packed[3]}", []).append(tensor)
        elif packed:
            ours[f"{packed[1]}{packed[2]}_proj_weight"] = tensor
        else:
            ours[renamed] = tensor.T if re.search(r"\.c_(attn|proj|fc)\.weight$", name) else tensor
    return {name: torch.cat(value) if isinstance(value, list) else value for name, value in ours.items()}


# -- importing from transformers and exporting to it --


def compare_pretrained(c, folder, model, dtype, title, export=None):
    """Compares our results for the model in folder with those of `model`, which has the same values, in dtype."""
    config = model.config
    logits_limit, loss_limit, gradient_limit = LIMITS[dtype]
    dynamic = (getattr(config, "rope_parameters", None) or {}).get("rope_type") == "dynamic"
    tokens = torch.randint(config.vocab_size, (3, 17 if dynamic else min(17, config.max_position_embeddings)))
    targets = torch.randint(config.vocab_size, tokens.shape)
    model = model.to(getattr(torch, dtype))
    model.zero_grad()
    with all_in(dtype):
        logits = model(tokens).logits
        loss = loss_of(logits, targets)
        loss.backward()
    ours = c.program(
        "pretrained", folder, dtype, *([export] if export else []), inputs={"tokens": tokens, "targets": targets}
    )
    c.close(f"{title} {dtype}: logits", logits_limit, ours.pop("logits"), logits)
    c.close(f"{title} {dtype}: loss", loss_limit, ours.pop("loss"), loss)
    packed = getattr(config, "num_key_value_heads", config.num_attention_heads) == config.num_attention_heads
    packed = packed and getattr(config, "head_dim", None) in (None, config.hidden_size // config.num_attention_heads)
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    theirs = {f"gradient.{name}": value for name, value in in_our_names(gradients, grouped=not packed).items()}
    c.all_close(f"{title} {dtype}: gradients", gradient_limit, ours, theirs)
    return tokens, logits


def load_exported(c, title, folder):
    """Loads our exported model with transformers, without missing or unexpected weights and without warnings."""
    warnings = []
    handler = logging.Handler()
    handler.emit = lambda record: warnings.append(record.getMessage())
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    logger.setLevel(level)
    logger.removeHandler(handler)
    trouble = [f"{key}: {sorted(value)}" for key, value in info.items() if value] + warnings
    c.check(f"{title}: transformers loads it without warnings", not trouble, "; ".join(map(str, trouble)))
    return model.eval()


def compare_models(c, folder):
    for name, config in MODELS.items():
        title = name.split()[0]
        model = make(config)
        saved, exported = folder / "saved", folder / "exported"
        model.save_pretrained(saved)
        tokens, logits = compare_pretrained(c, saved, model, "float32", title, exported)
        again = load_exported(c, f"{title} exported", exported)
        c.close(f"{title} exported: logits", 1e-4, again(tokens).logits, logits)
        same = all(torch.equal(value, model.state_dict()[key]) for key, value in again.state_dict().items())
        c.check(f"{title} exported: the same weights", same, name)
        compare_pretrained(c, saved, model, "float64", title)


# -- other forms of files --


def compare_files(c, folder):
    """Compares models with 16-bit weights, with shards, without the name prefix, with buffers and config.json of old
    versions."""
    for name in ("gpt2", "llama"):
        for dtype in ("bfloat16", "float16"):
            make(MODELS[name]).to(getattr(torch, dtype)).save_pretrained(folder / dtype)
            model = transformers.AutoModelForCausalLM.from_pretrained(folder / dtype, dtype=torch.float32)
            compare_pretrained(c, folder / dtype, model.eval(), "float32", f"{name} in {dtype}")
        model = make(MODELS[name])
        model.save_pretrained(folder / "shards", max_shard_size="20KB")
        c.check(f"{name} in shards", len(list((folder / "shards").glob("*.safetensors"))) > 2)
        compare_pretrained(c, folder / "shards", model, "float32", f"{name} in shards")

    from safetensors.torch import save_file

    model = make(GPT2)
    old = folder / "old"
    model.save_pretrained(old)
    tensors = {name.removeprefix("transformer."): value for name, value in model.transformer.state_dict().items()}
    for i in range(3):
        tensors[f"h.{i}.attn.bias"] = torch.ones(24, 24).tril().view(1, 1, 24, 24)
        tensors[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    save_file({name: value.clone() for name, value in tensors.items()}, old / "model.safetensors")
    compare_pretrained(c, old, model, "float32", "gpt2 as first published")
    tensors["lm_head.weight"] = tensors.pop("wte.weight")
    save_file({name: value.clone() for name, value in tensors.items()}, old / "model.safetensors")
    compare_pretrained(c, old, model, "float32", "gpt2 with lm_head instead of wte")

    model = make(LLAMA | dict(rope_theta=77.0))
    model.save_pretrained(old)
    config = json.loads((old / "config.json").read_text())
    del config["rope_parameters"]
    config |= {"rope_theta": 77.0, "rope_scaling": None, "torch_dtype": config.pop("dtype")}
    (old / "config.json").write_text(json.dumps(config))
    compare_pretrained(c, old, model, "float32", "llama of transformers 4")
    for scaling in (dict(type="linear", factor=3.0), LLAMA3):
        model = make(LLAMA | dict(rope_parameters=scaling | dict(rope_theta=77.0)))
        model.save_pretrained(old)
        (old / "config.json").write_text(json.dumps(config | {"rope_scaling": scaling}))
        compare_pretrained(c, old, model, "float32", "llama of transformers 4, scaled")


def compare_export_roundtrip(c, folder):
    """Exports models that were created here; transformers loads them and generates with them."""
    tokens = torch.randint(37, (3, 20))
    for name in ("gpt2", "llama", "neighbors"):
        ours = c.program("export_roundtrip", name, folder / name, inputs={"tokens": tokens})
        model = load_exported(c, "created here", folder / name)
        c.close(f"created here, {name}: logits", 1e-4, ours["logits"], model(tokens).logits)
        longer = model.generate(tokens[:, :4], max_new_tokens=3, do_sample=False)
        c.check("created here: transformers generates", longer.shape == (3, 7), longer.shape)


def compare_trained(c, folder):
    """Trains and exports a model with examples/language_model. transformers loads it with its tokenizer and writes the
    same text; the example continues training from the export."""
    program, text = c.build / "examples" / "language_model", folder / "text.txt"
    text.write_text((common.ROOT / "README.md").read_text() + "naïve 🦙\n")
    small = "--layers 2 --width 32 --heads 4 --length 40 --batch 4 --eval-every 150 --sample-tokens 0".split()
    small += "--lr 0.01 --quiet --tokenizer bpe --vocabulary 300".split()
    for kind in ("gpt2", "llama"):
        run, out = folder / f"run_{kind}", folder / f"out_{kind}"
        c.run(program, "train", text, run, "--steps", 150, *small, *["--llama"] * (kind == "llama"))
        c.run(program, "export", run, out, "--last")
        model = load_exported(c, "trained here", out)
        tokenizer = transformers.AutoTokenizer.from_pretrained(out)
        for prompt in ("The tape is", "naïve 🦙", "\n"):
            greedy = ["--last", "--temperature", 0, "--tokens", 20, "--prompt", prompt]
            ours = c.run(program, "sample", run, *greedy).stdout
            tokens = tokenizer(prompt, return_tensors="pt").input_ids
            theirs = tokenizer.decode(model.generate(tokens, max_new_tokens=20, do_sample=False)[0])
            same = ours.strip("\n") == theirs.strip("\n")
            c.check("trained here: transformers writes the same text", same, f"{kind}: {ours!r} and {theirs!r}")
        tuned = [text, folder / f"tuned_{kind}", "--from", out, "--tokenizer", out, "--steps", 1, "--quiet"]
        again = c.run(program, "train", *tuned, "--length", 40, "--batch", 4, "--sample-tokens", 0, check=False)
        c.check("trained here: training continues from the export", again.returncode == 0, again.stderr)


def compare(c):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        compare_models(c, folder)
        compare_files(c, folder)
        compare_export_roundtrip(c, folder)
        compare_trained(c, folder)


# -- fixtures: small models that transformers saved, and their results in float64 --

SMALL = {
    "gpt2": dict(vocab_size=13, n_positions=9, n_embd=8, n_layer=2, n_head=2, n_inner=20)
    | dict(bos_token_id=0, eos_token_id=0),
    "llama": dict(
        vocab_size=13,
        hidden_size=8,
        intermediate_size=12,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=9,
        rope_theta=500.0,
        bos_token_id=0,
        eos_token_id=0,
    ),
}


def fixtures(folder):
    from safetensors.torch import save_file

    for name, config in SMALL.items():
        for kind in (name, f"{name}_shards"):
            model = make(config)
            if kind != name:
                model = model.to(torch.bfloat16)
            model.save_pretrained(folder / kind, max_shard_size="2KB" if kind != name else "1GB")
            model = model.double()
            tokens = torch.arange(16).view(2, 8) * 5 % 13
            targets = torch.arange(16).view(2, 8) * 7 % 13
            with all_in("float64"):
                logits = model(tokens).logits
                loss = loss_of(logits, targets)
                loss.backward()
            values = {"tokens": tokens, "targets": targets, "logits": logits.detach(), "loss": loss.detach()}
            if kind == name:
                gradients = {key: parameter.grad for key, parameter in model.named_parameters()}
                renamed = in_our_names(gradients, grouped=name == "llama")
                values |= {f"gradient.{key}": value.contiguous() for key, value in renamed.items()}
            save_file(values, folder / kind / "expected.safetensors")


common.main(compare, fixtures)
