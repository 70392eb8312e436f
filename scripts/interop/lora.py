"""Compares LoRA adapters with PEFT: its folders give the same logits here, ours the same logits there, and training with
AdamW has the same losses."""

import json
import os
import pathlib
import tempfile
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import peft
import torch
import transformers

import common

transformers.utils.logging.disable_progress_bar()

TOKENS = dict(vocab_size=61, bos_token_id=0, eos_token_id=0, pad_token_id=0)
LLAMA = TOKENS | dict(
    hidden_size=32,
    intermediate_size=44,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=24,
)
BASES = {
    "gpt2": transformers.GPT2Config(
        **TOKENS, n_positions=24, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    ),
    "llama": transformers.LlamaConfig(**LLAMA),
    "llama without groups": transformers.LlamaConfig(**LLAMA | dict(num_key_value_heads=4)),
    "qwen2": transformers.Qwen2Config(**LLAMA),
    "gemma2": transformers.Gemma2Config(**LLAMA | dict(head_dim=8), hidden_activation="gelu_pytorch_tanh"),
    "phi3": transformers.Phi3Config(**LLAMA, sliding_window=5),
    "mistral": transformers.MistralConfig(**LLAMA, sliding_window=5),
    "smollm3": transformers.SmolLM3Config(**LLAMA | dict(num_hidden_layers=4)),
    "qwen3": transformers.Qwen3Config(**LLAMA | dict(head_dim=10)),
    "olmo2": transformers.Olmo2Config(**LLAMA),
    "gemma3": transformers.Gemma3TextConfig(
        **LLAMA | dict(num_hidden_layers=7, head_dim=8), hidden_activation="gelu_pytorch_tanh", sliding_window=5
    ),
    "gpt_neox": transformers.GPTNeoXConfig(
        **{name: value for name, value in LLAMA.items() if name != "num_key_value_heads"}
    ),
}
PATTERNS = [  # the modules of transformers, and PEFT's other settings
    (["q_proj", "v_proj"], dict()),
    ("all-linear", dict(use_rslora=True)),
    (["k_proj", "up_proj", "lm_head"], dict()),
    (["layers.1.self_attn.o_proj", "down_proj"], dict(rank_pattern={"down_proj": 5}, alpha_pattern={"o_proj": 11})),
    (["c_attn"], dict(lora_dropout=0.1)),
    (["c_attn", "mlp.c_proj"], dict(rank_pattern={"h.1.mlp.c_proj": 1})),
    (["qkv_proj", "gate_up_proj"], dict()),
    (["query_key_value", "dense"], dict(use_rslora=True)),
    ([".*1.*(q_proj|c_fc|down_proj|dense_4h_to_h)"], dict(layers_to_transform=None)),
]
OURS = ["all", "q_proj,v_proj", "in_proj", "in_proj,out_proj", "k_proj,linear1,gate", "linear2", "classifier,q_proj"]
STEPS = 150
LIMIT = 1e-5  # of logits and losses, relative


def make(name, folder):
    """Saves a random base model."""
    torch.manual_seed(len(name))
    model = transformers.AutoModelForCausalLM.from_config(BASES[name], attn_implementation="eager")
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, 0, 0.1)
    model.save_pretrained(folder)


def base_of(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32
    ).eval()


def targets_exist(model, targets):
    """PEFT accepts a target that matches nothing if another one matches. We have no adapter of a tied classifier."""
    if targets == "all-linear":
        return True
    if model.config.tie_word_embeddings and "lm_head" in targets:
        return False
    names = [name for name, _ in model.named_modules()]
    if len(targets) == 1 and targets[0].startswith(".*"):
        return True
    return all(any(name == target or name.endswith("." + target) for name in names) for target in targets)


def attach(folder, targets, settings, random):
    """Returns the base with a new adapter of PEFT; None if it has no such modules."""
    model = base_of(folder)
    if not targets_exist(model, targets):
        return None
    expression = targets[0] if targets[0].startswith(".*") else targets
    torch.manual_seed(7)
    config = peft.LoraConfig(**dict(r=4, lora_alpha=6, target_modules=expression, task_type="CAUSAL_LM") | settings)
    model = peft.get_peft_model(model, config)
    for name, parameter in model.named_parameters():
        if random and "lora_B" in name:
            torch.nn.init.normal_(parameter, 0, 0.2)
    return model


def logits_of(model, tokens):
    with torch.no_grad():
        return model.eval()(tokens).logits


def from_peft(c, name, base, tokens, work):
    """PEFT's folders are read here; what we save again is read there."""
    for i, (targets, settings) in enumerate(PATTERNS):
        model = attach(base, targets, settings, random=True)
        if model is None:
            continue
        adapter, again = work / f"peft{i}", work / f"again{i}"
        model.save_pretrained(adapter)
        results = c.program("lora", base, "load", adapter, again, inputs={"tokens": tokens})
        theirs = logits_of(model, tokens)
        where = f"{name}, {targets}"
        c.close("PEFT's folder: logits here", LIMIT, results["logits"], theirs, where)
        c.close("PEFT's folder, merged: logits here", LIMIT, results["merged"], theirs, where)
        c.check("the adapter changes the logits", not torch.allclose(theirs, logits_of(base_of(base), tokens), 1e-2))
        ours = logits_of(peft.PeftModel.from_pretrained(base_of(base), again), tokens)
        c.close("PEFT's folder, saved again here: logits there", LIMIT, ours, theirs, where)


def to_peft(c, name, base, tokens, work):
    """Folders that we save are read there."""
    for i, patterns in enumerate(OURS):
        adapter = work / f"ours{i}"
        gated, tied = hasattr(BASES[name], "intermediate_size") and name != "gpt_neox", BASES[name].tie_word_embeddings
        if ("gate" in patterns and not gated) or ("classifier" in patterns and tied):
            continue
        results = c.program("lora", base, "attach", patterns, adapter, inputs={"tokens": tokens})
        model = peft.PeftModel.from_pretrained(base_of(base), adapter)
        where = f"{name}, {patterns}"
        c.close("our folder: logits there", LIMIT, results["logits"], logits_of(model, tokens), where)
        c.close("our folder, merged here", LIMIT, results["merged"], results["logits"], where)


def train(c, name, base, tokens, work):
    """Both train the same new adapter on the same batches."""
    model = attach(base, "all-linear", dict(), random=False)
    if model is None:
        return
    model.save_pretrained(work / "new")
    generator = torch.Generator().manual_seed(3)
    text = torch.randint(61, (24,), generator=generator).repeat(40)  # can be learned
    starts = torch.randint(len(text) - 20, (STEPS, 4), generator=generator)
    batches = text[starts[..., None] + torch.arange(17)]
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3, weight_decay=0.01)
    losses = []
    for batch in batches:
        loss = torch.nn.functional.cross_entropy(model(batch[:, :-1]).logits.flatten(0, 1), batch[:, 1:].flatten())
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    results = c.program(
        "lora", base, "train", work / "new", work / "trained", inputs={"tokens": tokens, "batches": batches}
    )
    c.check("training learns", losses[-1] < 0.9 * losses[0], f"{losses[0]:.3f} to {losses[-1]:.3f}")
    c.close(f"losses of {STEPS} steps of AdamW", LIMIT, results["losses"], torch.tensor(losses), name)
    ours = logits_of(peft.PeftModel.from_pretrained(base_of(base), work / "trained"), tokens)
    c.close("trained here: logits there", LIMIT, ours, results["logits"], name)


def compare(c):
    warnings.filterwarnings("ignore")
    for name in BASES:
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder)
            make(name, work / "base")
            tokens = torch.randint(61, (2, 11), generator=torch.Generator().manual_seed(1))
            from_peft(c, name, work / "base", tokens, work)
            to_peft(c, name, work / "base", tokens, work)
            if name in ("gpt2", "llama"):
                train(c, name, work / "base", tokens, work)


ADAPTERS = {  # the base among the fixtures of hugging_face, and an adapter of it
    "gpt2": (["c_attn", "c_fc"], dict(use_rslora=True)),
    "llama": (["q_proj", "down_proj"], dict(rank_pattern={"down_proj": 3}, lora_dropout=0.25)),
    "phi3": (["qkv_proj", "gate_up_proj"], dict(alpha_pattern={"qkv_proj": 3.5})),
    "gpt_neox": (["query_key_value"], dict()),
}


def fixtures(folder):
    from safetensors.torch import save_file

    warnings.filterwarnings("ignore")
    for name, (targets, settings) in ADAPTERS.items():
        model = attach(common.ROOT / "tests" / "fixtures" / "hugging_face" / name, targets, settings, random=True)
        model.peft_config["default"].base_model_name_or_path = "base"  # not a path of this machine
        model.save_pretrained(folder / name)
        (folder / name / "README.md").unlink()
        path = folder / name / "adapter_config.json"
        config = json.loads(path.read_text())
        config["target_modules"].sort()  # PEFT has a set, whose order changes from run to run
        path.write_text(json.dumps(config, indent=2, sort_keys=True))
        tokens = torch.arange(16).view(2, 8) * 5 % 13
        save_file({"tokens": tokens, "logits": logits_of(model, tokens)}, folder / name / "expected.safetensors")


common.main(compare, fixtures)
