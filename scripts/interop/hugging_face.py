"""Compares all families of language models (docs/families.md) with transformers: its saved models give the same logits,
loss and gradients here, and our exported models give the same logits there."""

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
    "gpt2 scores divided by the layer": GPT2 | dict(scale_attn_by_inverse_layer_idx=True),
    "gpt2 scores without a scale": GPT2 | dict(scale_attn_weights=False),
    "llama as SmolLM 2": LLAMA | dict(tie_word_embeddings=True, rope_theta=1e5, rms_norm_eps=1e-5),
}

# -- other families; the models of each are below --

USUAL = LLAMA | dict(pad_token_id=None)  # transformers does not train the embedding of that token
MISTRAL = USUAL | dict(model_type="mistral", sliding_window=5)
SMOLLM3 = USUAL | dict(model_type="smollm3", num_hidden_layers=5)
QWEN2 = USUAL | dict(model_type="qwen2")
QWEN3 = USUAL | dict(model_type="qwen3", head_dim=10)
PHI3 = USUAL | dict(model_type="phi3")
OLMO2 = USUAL | dict(model_type="olmo2")
GEMMA2 = USUAL | dict(model_type="gemma2", head_dim=10, query_pre_attn_scalar=7, sliding_window=5)
GEMMA3 = USUAL | dict(model_type="gemma3_text", head_dim=10, query_pre_attn_scalar=7, sliding_window=5)
GPT_NEOX = {key: value for key, value in USUAL.items() if key != "num_key_value_heads"} | dict(model_type="gpt_neox")
PHI = USUAL | dict(model_type="phi")
GRANITE = USUAL | dict(model_type="granite", embedding_multiplier=12.0, attention_multiplier=0.0625) | dict(
    residual_multiplier=0.22, logits_scaling=8.0)
BERT = {key: value for key, value in USUAL.items() if key != "num_key_value_heads"} | dict(model_type="bert")
ROBERTA = BERT | dict(model_type="roberta", pad_token_id=1)  # positions begin behind that token
DISTILBERT = dict(model_type="distilbert", vocab_size=61, dim=32, hidden_dim=44, n_layers=3, n_heads=4)
DISTILBERT |= dict(max_position_embeddings=24, pad_token_id=None)
MODERNBERT = BERT | dict(model_type="modernbert", num_hidden_layers=4, local_attention=6)
MPNET = BERT | dict(model_type="mpnet", pad_token_id=1, max_position_embeddings=26)
PLAIN = dict(plain=True)  # the model without a classifier
WINDOWS = dict(use_sliding_window=True, sliding_window=5)
TYPES = dict(layer_types=["full_attention", "sliding_attention", "full_attention"])
BY_KIND = dict(
    full_attention=dict(rope_type="linear", factor=8.0, rope_theta=5e3),
    sliding_attention=dict(rope_type="default", rope_theta=50.0),
)
MODELS |= {
    "mistral": MISTRAL,
    "mistral without a window, head_dim": MISTRAL | dict(sliding_window=None, head_dim=10),
    "mistral tied, scaled, no groups": MISTRAL
    | dict(tie_word_embeddings=True, num_key_value_heads=4)
    | dict(rope_parameters=dict(rope_type="linear", factor=2.5, rope_theta=100.0)),
    "smollm3": SMOLLM3,
    "smollm3 biases, untied": SMOLLM3 | dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=False),
    "smollm3 window without rotary positions": SMOLLM3 | WINDOWS | dict(no_rope_layer_interval=2),
    "smollm3 list, yarn": SMOLLM3
    | dict(no_rope_layers=[0, 1, 1, 0, 1], rope_parameters=YARN | {"original_max_position_embeddings": 24}),
    "smollm3 no rotary positions": SMOLLM3 | dict(no_rope_layers=[0] * 5),
    "qwen2": QWEN2,
    "qwen2 tied, no groups": QWEN2 | dict(tie_word_embeddings=True, num_key_value_heads=4),
    "qwen2 head_dim, dropout": QWEN2 | dict(head_dim=10, attention_dropout=0.1),
    "qwen2 windows from a layer on": QWEN2 | WINDOWS | dict(max_window_layers=1),
    "qwen2 windows by layer_types, longrope": QWEN2
    | WINDOWS
    | TYPES
    | dict(rope_parameters=LONGROPE | {"original_max_position_embeddings": 6}),
    "qwen3": QWEN3,
    "qwen3 biases, tied, no groups": QWEN3
    | dict(attention_bias=True, tie_word_embeddings=True, num_key_value_heads=4, rms_norm_eps=1e-3),
    "qwen3 windows, all layers": QWEN3 | WINDOWS | dict(max_window_layers=0),
    "qwen3 packed, yarn": QWEN3
    | dict(head_dim=8, num_key_value_heads=4)
    | dict(rope_parameters=YARN | {"original_max_position_embeddings": 24}),
    "phi3": PHI3,
    "phi3 no groups, window, tied": PHI3
    | dict(num_key_value_heads=4, sliding_window=5, tie_word_embeddings=True, resid_pdrop=0.1),
    "phi3 half of each head": PHI3 | dict(rope_parameters=dict(rope_theta=100.0, partial_rotary_factor=0.5)),
    "phi3 longrope": PHI3
    | dict(original_max_position_embeddings=6, rope_parameters=LONGROPE | dict(partial_rotary_factor=1.0)),
    "phi3 longrope of half of each head": PHI3
    | dict(num_key_value_heads=4, original_max_position_embeddings=6)
    | dict(rope_parameters=LONGROPE | dict(partial_rotary_factor=0.5, short_factor=[1.0, 1.3], long_factor=[2.0, 9.0])),
    "olmo2": OLMO2,
    "olmo2 no groups, biases, eps": OLMO2 | dict(num_key_value_heads=4, attention_bias=True, rms_norm_eps=1e-3),
    "olmo2 tied, scaled": OLMO2
    | dict(tie_word_embeddings=True, rope_parameters=LLAMA3 | {"rope_theta": 5e3}, max_position_embeddings=96),
    "gemma2": GEMMA2,
    "gemma2 no caps, untied, biases": GEMMA2
    | dict(attn_logit_softcapping=None, final_logit_softcapping=None, tie_word_embeddings=False, attention_bias=True),
    "gemma2 small caps, no groups, exact gelu": GEMMA2
    | dict(attn_logit_softcapping=0.5, final_logit_softcapping=0.7, num_key_value_heads=4, head_dim=8)
    | dict(hidden_activation="gelu"),
    "gemma2 layer_types": GEMMA2 | TYPES,
    "gemma3": GEMMA3 | dict(num_hidden_layers=7),
    "gemma3 bases, scaling": GEMMA3 | TYPES | dict(rope_parameters=BY_KIND, final_logit_softcapping=0.7),
    "gemma3 without windows, biases": GEMMA3 | dict(layer_types=["full_attention"] * 3, attention_bias=True),
    "gemma3 all windows, packed": GEMMA3
    | dict(layer_types=["sliding_attention"] * 3, head_dim=8, num_key_value_heads=4, tie_word_embeddings=False),
    "gpt_neox": GPT_NEOX,
    "gpt_neox sequential, tied, tanh": GPT_NEOX
    | dict(use_parallel_residual=False, tie_word_embeddings=True, hidden_act="gelu_new", layer_norm_eps=1e-3),
    "gpt_neox no biases of attention, half": GPT_NEOX
    | dict(attention_bias=False, rope_parameters=dict(rope_theta=100.0, partial_rotary_factor=0.5)),
    "gpt_neox whole heads, scaled": GPT_NEOX
    | dict(rope_parameters=dict(rope_type="linear", factor=2.5, rope_theta=100.0, partial_rotary_factor=1.0)),
    "phi": PHI,
    "phi tied": PHI | dict(tie_word_embeddings=True),
    "phi groups, exact gelu, dropout": PHI
    | dict(num_key_value_heads=2, hidden_act="gelu", resid_pdrop=0.1, embd_pdrop=0.2, attention_dropout=0.1),
    "phi no groups, whole heads, eps": PHI
    | dict(num_key_value_heads=4, layer_norm_eps=1e-3, rope_parameters=dict(rope_theta=100.0, partial_rotary_factor=1.0)),
    "granite": GRANITE,
    "granite no groups, biases, tied": GRANITE
    | dict(num_key_value_heads=4, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, logits_scaling=0.3),
    "granite without multipliers": USUAL | dict(model_type="granite", attention_multiplier=8**-0.5),
    "granite scaled": GRANITE | dict(rope_parameters=dict(rope_type="linear", factor=2.5, rope_theta=100.0)),
    "bert": BERT,
    "bert relu, eps": BERT | dict(hidden_act="relu", layer_norm_eps=1e-3),
    "bert odd sizes, 3 types": BERT
    | dict(vocab_size=257, hidden_size=39, num_attention_heads=3, type_vocab_size=3, hidden_dropout_prob=0.3),
    "bert plain": BERT | PLAIN,
    "roberta": ROBERTA,
    "roberta eps, 1 type, last token is padding": ROBERTA
    | dict(layer_norm_eps=1e-3, type_vocab_size=1, pad_token_id=60, max_position_embeddings=80),
    "roberta plain": ROBERTA | PLAIN,
    "xlm-roberta": ROBERTA | dict(model_type="xlm-roberta"),
    "xlm-roberta plain": ROBERTA | PLAIN | dict(model_type="xlm-roberta"),
    "distilbert": DISTILBERT,
    "distilbert relu": DISTILBERT | dict(activation="relu", dropout=0.3, attention_dropout=0.2),
    "distilbert plain": DISTILBERT | PLAIN,
    "modernbert": MODERNBERT,
    "modernbert bases, eps, no bias": MODERNBERT
    | dict(rope_parameters=BY_KIND, norm_eps=1e-3, decoder_bias=False, embedding_dropout=0.2),
    "modernbert layer_types, odd window": MODERNBERT
    | dict(num_hidden_layers=3, layer_types=["sliding_attention", "full_attention", "sliding_attention"])
    | dict(local_attention=3),
    "modernbert without windows, plain": MODERNBERT | PLAIN | dict(layer_types=["full_attention"] * 4),
    "mpnet": MPNET,
    "mpnet eps, long": MPNET | dict(layer_norm_eps=1e-3, max_position_embeddings=402, hidden_dropout_prob=0.3),
    "mpnet plain": MPNET | PLAIN,
    "qwen3 plain": QWEN3 | PLAIN,
    "gpt_neox odd sizes": GPT_NEOX | dict(vocab_size=257, hidden_size=24, num_attention_heads=3, hidden_dropout=0.1),
}
FAMILIES = sorted({name.split()[0].rstrip(",") for name in MODELS})
# The family that export chooses by itself, if it is another one that has the same options.
CHOSEN = {"phi3": "llama", "gemma3": "gemma3_text", "xlm-roberta": "roberta"}
LIMITS = {"float32": (1e-4, 1e-5, 1e-4), "float64": (1e-10, 1e-10, 1e-10)}  # logits, loss, gradients


def model_type(config):
    return config.get("model_type", "llama" if "hidden_size" in config else "gpt2")


def automatic(kind):
    """Returns transformers' class of language models: a masked language model for an encoder."""
    encoder = kind.endswith(("bert", "roberta", "mpnet"))
    return transformers.AutoModelForMaskedLM if encoder else transformers.AutoModelForCausalLM


def usual_options(kind, plain):
    """Returns options of transformers' models. Only eager attention has soft caps; plain models are without poolers."""
    pooler = dict(add_pooling_layer=False) if plain and kind in ("bert", "mpnet", "roberta", "xlm-roberta") else {}
    return dict(attn_implementation="eager") | pooler


def load(folder, **options):
    """Loads a model with the class that config.json names."""
    config = json.loads((folder / "config.json").read_text())
    name = config["architectures"][0]
    options |= usual_options(config["model_type"], name.endswith("Model"))
    return getattr(transformers, name).from_pretrained(folder, **options)


def output_of(model, tokens):
    """Returns the logits, or the hidden states of a plain model."""
    result = model(tokens)
    return result.logits if "logits" in result else result.last_hidden_state


def make(config):
    """Creates a model with random parameters, including norms and biases."""
    torch.manual_seed(len(str(config)))
    kind = model_type(config)
    fields = {key: value for key, value in config.items() if key not in ("model_type", "plain")}
    plain = "plain" in config
    model = (transformers.AutoModel if plain else automatic(kind)).from_config(
        transformers.AutoConfig.for_model(kind, **fields), **usual_options(kind, plain)
    )
    middle = 0 if kind.startswith("gemma") else 1  # of the weights of norms
    for name, parameter in model.named_parameters():
        is_norm = re.search(r"(norm|ln_\d|ln_f|LayerNorm)\.weight$", name)
        torch.nn.init.normal_(parameter, middle if is_norm else 0, 0.1)
    return model.eval()


def loss_of(logits, targets):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


# -- float64: transformers always computes norms, angles and softmax in float32; this code prevents it --


def rotary_forward(rotary, x, position_ids, layer_type=None):
    """transformers' own formulas, for one kind of layer if there are several."""
    parameters = rotary.config.rope_parameters
    kind = (parameters[layer_type] if layer_type else parameters)["rope_type"]
    formula = ROPE_INIT_FUNCTIONS.get(kind, rotary.compute_default_rope_parameters)
    kinds = dict(layer_type=layer_type) if layer_type else {}
    frequency, factor = formula(rotary.config, seq_len=int(position_ids.max()) + 1, **kinds)
    angle = (position_ids[..., None].to(x.dtype) * frequency).repeat(1, 1, 2)
    return angle.cos() * factor, angle.sin() * factor


@contextlib.contextmanager
def all_in(dtype, model):
    """Within this context, the model computes in float64 only if dtype is float64: its code takes types from torch.float,
    torch.float32 and Tensor.float."""
    if dtype != "float64":
        yield
        return
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            if type(module).__name__.endswith("RotaryEmbedding"):
                stack.enter_context(mock.patch.object(type(module), "forward", rotary_forward))
            if hasattr(module, "scalar_embed_scale"):
                module.embed_scale = torch.tensor(module.scalar_embed_scale, dtype=torch.float64)
        stack.enter_context(mock.patch.multiple(torch, float=torch.float64, float32=torch.float64))
        stack.enter_context(mock.patch.object(torch.Tensor, "float", torch.Tensor.double))
        yield


# -- our names for their tensors --

BERT_NAMES = {
    "word_embeddings": "embedding.",
    "LayerNorm": "input_norm.",
    "position": "position.",
    "token_type": "type_embedding.",
    "transform.dense": "transform.",
    "transform.LayerNorm": "transform_norm.",
    "decoder": "classifier.",
}
OTHER_ENCODER_NAMES = [  # of RoBERTa, DistilBERT, ModernBERT and MPNet
    (r"^lm_head\.decoder\.", "embedding."),
    (r"^(lm_head\.dense|vocab_transform|head\.dense)\.", "transform."),
    (r"^(lm_head\.layer_norm|vocab_layer_norm|head\.norm)\.", "transform_norm."),
    (r"^(distilbert\.transformer\.layer|model\.layers)\.", "layers."),
    (r"^model\.embeddings\.tok_embeddings\.", "embedding."),
    (r"^model\.embeddings\.norm\.", "input_norm."),
    (r"^model\.final_norm\.", "norm."),
    (r"\.attention\.([qkv])_lin\.", r".self_attn.\1_proj."),
    (r"\.(attention\.out_lin|attn\.Wo)\.", ".self_attn.out_proj."),
    (r"\.attn\.Wqkv\.", ".self_attn.in_proj_"),
    (r"\.(sa_layer_norm|attn_norm)\.", ".norm1."),
    (r"\.(output_layer_norm|mlp_norm)\.", ".norm2."),
    (r"\.ffn\.lin([12])\.", r".linear\1."),
    (r"\.mlp\.Wo\.", ".linear2."),
    (r"^mpnet\.encoder\.relative_attention_bias\.weight$", "relative_bias"),
    (r"\.attention\.attn\.([qkv])\.", r".self_attn.\1_proj."),
    (r"\.attention\.attn\.o\.", ".self_attn.out_proj."),
    (r"\.attention\.LayerNorm\.", ".norm1."),
]

RENAMED = [
    (r"^(bert\.pooler\.dense|classifier\.dense|pre_classifier)\.", "head.transform."),
    (r"^(classifier\.out_proj|classifier|qa_outputs)\.", "head.output."),
    *OTHER_ENCODER_NAMES,
    (r"^(bert|roberta|mpnet)\.encoder\.layer\.", "layers."),
    (r"^\w*(?:bert|mpnet)\w*\.embeddings\.(word_embeddings|LayerNorm)\.", lambda found: BERT_NAMES[found[1]]),
    (r"^\w*(?:bert|mpnet)\w*\.embeddings\.(position|token_type)_embeddings\.", lambda found: BERT_NAMES[found[1]]),
    (r"^cls\.predictions\.(transform\.dense|transform\.LayerNorm|decoder)\.", lambda found: BERT_NAMES[found[1]]),
    (r"\.attention\.self\.(.)(uery|ey|alue)\.", r".self_attn.\1_proj."),
    (r"\.attention\.output\.dense\.", ".self_attn.out_proj."),
    (r"\.attention\.output\.LayerNorm\.", ".norm1."),
    (r"\.intermediate\.dense\.", ".linear1."),
    (r"\.output\.dense\.", ".linear2."),
    (r"\.output\.LayerNorm\.", ".norm2."),
    (r"^transformer\.|^model\.|^gpt_neox\.", ""),
    (r"^(wte|embed_tokens|embed_in)\.", "embedding."),
    (r"^wpe\.", "position."),
    (r"^h\.", "layers."),
    (r"^(ln_f|final_layer_norm|final_layernorm)\.", "norm."),
    (r"^(lm_head|embed_out)\.", "classifier."),
    (r"\.(ln_1|input_layernorm)\.", ".norm1."),
    (r"\.(ln_2|post_attention_layernorm)\.", ".norm2."),
    (r"\.attn\.c_attn\.", ".self_attn.in_proj_"),
    (r"\.(attn\.c_proj|self_attn\.o_proj|(attention|self_attn)\.dense)\.", ".self_attn.out_proj."),
    (r"\.mlp\.(c_fc|fc1|up_proj|dense_h_to_4h)\.", ".linear1."),
    (r"\.mlp\.(c_proj|fc2|down_proj|dense_4h_to_h)\.", ".linear2."),
    (r"\.mlp\.gate_proj\.", ".gate."),
]
OUTPUT_NORMS = [  # of the families with norms at the end of branches
    (r"\.post_attention_layernorm\.", ".norm1_out."),
    (r"\.pre_feedforward_layernorm\.", ".norm2."),
    (r"\.post_feedforward_layernorm\.", ".norm2_out."),
]


def unpacked(tensors, config):
    """Splits tensors that have the rows of several matrices."""
    result = {}
    for name, tensor in tensors.items():
        before, _, kind = name.rpartition(".")
        if before.endswith("query_key_value"):  # by head
            heads = tensor.unflatten(0, (config.num_attention_heads, 3, -1))
            parts = dict(zip(("q_proj", "k_proj", "v_proj"), heads.transpose(0, 1).flatten(1, 2)))
            before = before.replace("attention.query_key_value", "self_attn.")
        elif before.endswith("qkv_proj"):
            width = config.hidden_size // config.num_attention_heads
            heads = [config.num_attention_heads, config.num_key_value_heads, config.num_key_value_heads]
            parts = dict(zip(("q_proj", "k_proj", "v_proj"), tensor.split([n * width for n in heads])))
            before = before.removesuffix("qkv_proj")
        elif before.endswith(("gate_up_proj", "mlp.Wi")):
            parts = dict(zip(("gate_proj", "up_proj"), tensor.chunk(2)))
            before = before.removesuffix("gate_up_proj").removesuffix("Wi")
        else:
            result[name] = tensor
            continue
        result |= {f"{before}{part}.{kind}": value for part, value in parts.items()}
    return result


def in_our_names(tensors, model):
    """Converts {their name: tensor} to {our name: tensor}: transposes Conv1D, packs q, k and v unless heads are grouped."""
    ours, config = {}, model.config
    if type(model).__name__.endswith("Model"):  # its names omit the prefix
        tensors = {f"{model.base_model_prefix}.{name}": value for name, value in tensors.items()}
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    grouped = getattr(config, "num_key_value_heads", config.num_attention_heads) != config.num_attention_heads
    grouped = grouped or head_dim != config.hidden_size // config.num_attention_heads
    output_norms = OUTPUT_NORMS if config.model_type in ("gemma2", "gemma3_text", "olmo2") else []
    for name, tensor in unpacked(tensors, config).items():
        renamed = name
        if name in ("cls.predictions.bias", "lm_head.bias", "vocab_projector.bias", "decoder.bias"):
            renamed = "classifier_bias" if config.tie_word_embeddings else "classifier.bias"
        for pattern, replacement in output_norms + RENAMED:
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


def random_tokens(config, *shape):
    """Returns random tokens. None is padding, which has no position in these families."""
    tokens = torch.randint(config.vocab_size, shape)
    if config.model_type.endswith(("roberta", "mpnet")):
        tokens[tokens == config.pad_token_id] = 0
    return tokens


def compare_pretrained(c, folder, model, dtype, title, *export):
    """Compares our results for the model in folder with those of `model`, which has the same values, in dtype. export: a
    folder, and possibly the family."""
    config = model.config
    logits_limit, loss_limit, gradient_limit = LIMITS[dtype]
    dynamic = (getattr(config, "rope_parameters", None) or {}).get("rope_type") == "dynamic"
    most = 300 if config.model_type == "mpnet" else 17  # distances from 128 on have one bias
    tokens = random_tokens(config, 3, 17 if dynamic else min(most, config.max_position_embeddings - 2))
    targets = torch.randint(min(config.vocab_size, config.hidden_size), tokens.shape)
    model = model.to(getattr(torch, dtype))
    model.zero_grad()
    with all_in(dtype, model):
        logits = output_of(model, tokens)
        loss = loss_of(logits, targets)
        loss.backward()
    ours = c.program("pretrained", folder, dtype, *export, inputs={"tokens": tokens, "targets": targets})
    c.close(f"{title} {dtype}: logits", logits_limit, ours.pop("logits"), logits)
    c.close(f"{title} {dtype}: loss", loss_limit, ours.pop("loss"), loss)
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    theirs = {f"gradient.{name}": value for name, value in in_our_names(gradients, model).items()}
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
    model, info = load(folder, output_loading_info=True)
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
        family = model.config.model_type
        tokens, logits = compare_pretrained(c, saved, model, "float32", title, exported, family)
        again = load_exported(c, f"{title} exported", exported)
        c.close(f"{title} exported: logits", 1e-4, output_of(again, tokens), logits)
        same = all(torch.equal(value, model.state_dict()[key]) for key, value in again.state_dict().items())
        c.check(f"{title} exported: the same weights", same and again.config.model_type == family, name)
        compare_pretrained(c, saved, model, "float64", title)


def compare_chosen(c, folder):
    """Exports without naming the family: the chosen family gives the same logits."""
    for name in FAMILIES:
        model = make(MODELS[name])
        model.save_pretrained(folder / "saved")
        tokens, logits = compare_pretrained(c, folder / "saved", model, "float32", name, folder / "chosen")
        again = load_exported(c, f"{name} exported as another family", folder / "chosen")
        c.close(f"{name}, family chosen: logits", 1e-4, again(tokens).logits, logits)
        kind = again.config.model_type
        c.check(f"{name}, family chosen", kind == CHOSEN.get(name, name), kind)


# -- other forms of files --


def compare_file(c, saved, name, dtype, shard_size, title):
    """Compares the model in files of the type with transformers' float32 model of the same files, and its export."""
    make(MODELS[name]).to(getattr(torch, dtype)).save_pretrained(saved, max_shard_size=shard_size)
    files = len(list(saved.glob("*.safetensors")))
    c.check(f"{name}{title}: {'several files' if title else 'one file'}", files > 2 if title else files == 1, files)
    model = load(saved, dtype=torch.float32)
    exported, family = saved.with_name(saved.name + "_exported"), model.config.model_type
    tokens, logits = compare_pretrained(c, saved, model.eval(), "float32", f"{name} in {dtype}{title}", exported, family)
    again = load_exported(c, f"{name} in {dtype}{title}, exported", exported)
    c.close(f"{name} in {dtype}{title}, exported: logits", 1e-4, again(tokens).logits, logits)


def compare_files(c, folder):
    """Compares models with 16-bit weights, with shards, without the name prefix, with buffers and config.json of old
    versions."""
    for name in FAMILIES:
        for dtype in ("bfloat16", "float16"):
            compare_file(c, folder / dtype, name, dtype, "1GB", "")
        for dtype in ("float32", "bfloat16", "float16"):
            compare_file(c, folder / f"{dtype}_shards", name, dtype, "20KB", " in shards")

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

    model = make(BERT)
    model.save_pretrained(old)
    tensors = {re.sub(r"LayerNorm\.weight$", "LayerNorm.gamma", name): value for name, value in tensors_in(old).items()}
    tensors = {re.sub(r"LayerNorm\.bias$", "LayerNorm.beta", name): value for name, value in tensors.items()}
    tensors["cls.seq_relationship.weight"] = torch.ones(2, 32)
    tensors["bert.pooler.dense.bias"] = torch.ones(32)
    save_file(tensors, old / "model.safetensors")
    compare_pretrained(c, old, model, "float32", "bert as first published")

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


# -- several files, stored weights --


def tensors_in(folder):
    """Returns the tensors of all files of weights in a folder."""
    from safetensors.torch import load_file

    return {name: value for path in folder.glob("*.safetensors") for name, value in load_file(path).items()}


def check_index(c, title, exported, saved, limit):
    """Checks our index and files against those of save_pretrained for the same weights."""
    ours, theirs = [json.loads((f / "model.safetensors.index.json").read_text()) for f in (exported, saved)]
    c.check(f"{title}: metadata of the index", ours["metadata"] == theirs["metadata"], ours["metadata"])
    c.check(f"{title}: names in the index", ours["weight_map"].keys() == theirs["weight_map"].keys(), exported)
    files = {path.name for path in exported.glob("*.safetensors")}
    c.check(f"{title}: files of the index", files == set(ours["weight_map"].values()) and len(files) > 2, files)
    largest = max(value.nbytes for value in tensors_in(exported).values())
    c.check(f"{title}: size", all((exported / f).stat().st_size <= max(limit, largest) + 5000 for f in files), files)


def compare_stored(c, folder):
    """Exports models of every family whose weights are stored, in several files. Weights that are written in the type in
    which transformers saved them have the same bits; transformers computes our logits from all."""
    limit = 20000
    for name in FAMILIES:
        widths = dict(n_embd=64) if name == "gpt2" else dict(hidden_size=64, intermediate_size=64)
        config = MODELS[name] | (dict(dim=64, hidden_dim=64) if name == "distilbert" else widths)
        kind = model_type(config)
        for dtype in ("float32", "bfloat16", "float16", "q8_0", "q4_0"):
            written = dtype if dtype.startswith(("b", "f")) else "float32"
            saved, exported = folder / f"stored_{dtype}", folder / f"exported_{dtype}"
            model = make(config | dict(head_dim=32) if "head_dim" in config else config)
            model.to(getattr(torch, written)).save_pretrained(saved, max_shard_size=limit)
            tokens = torch.randint(2, config["vocab_size"], (3, 17))
            title = f"stored as {dtype}, in shards"
            arguments = (saved, dtype, written, exported, kind, limit)
            logits = c.program("export_stored", *arguments, inputs={"tokens": tokens})["logits"]
            check_index(c, title, exported, saved, limit)
            again = load_exported(c, title, exported)
            c.check(f"{title}: type", again.dtype == getattr(torch, written), again.dtype)
            c.close(f"{title}: logits", 1e-4, again.float()(tokens).logits, logits, name)
            if written == dtype:
                ours, theirs = tensors_in(exported), tensors_in(saved)
                same = all(torch.equal(value, theirs[key]) for key, value in ours.items())
                c.check(f"{title}: the same bits", same and ours.keys() == theirs.keys(), name)


def compare_export_roundtrip(c, folder):
    """Exports models that were created here; transformers loads them and generates with them."""
    tokens = torch.randint(37, (3, 20))
    for name in ("gpt2", "llama", "neighbors"):
        ours = c.program("export_roundtrip", name, folder / name, inputs={"tokens": tokens})
        model = load_exported(c, "created here", folder / name)
        c.close(f"created here, {name}: logits", 1e-4, ours["logits"], model(tokens).logits)
        longer = model.generate(tokens[:, :4], max_new_tokens=3, do_sample=False)
        c.check("created here: transformers generates", longer.shape == (3, 7), longer.shape)


def make_with_pictures(text):
    """Creates a Gemma 3 with random parameters that reads pictures, and one with its text part only."""
    small = dict(hidden_size=4, intermediate_size=4, num_hidden_layers=1, num_attention_heads=1, image_size=4, patch_size=2)
    text = {key: value for key, value in text.items() if key != "model_type"}
    torch.manual_seed(7)
    config = transformers.Gemma3Config(text_config=text, vision_config=small, mm_tokens_per_image=1, eos_token_id=[3, 5])
    config.text_config._attn_implementation = "eager"
    model = transformers.Gemma3ForConditionalGeneration(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0, 0.1)
    alone = transformers.AutoModelForCausalLM.from_config(config.text_config, attn_implementation="eager").eval()
    tensors = {"model." + name: value for name, value in model.model.language_model.state_dict().items()}
    alone.load_state_dict(tensors | {"lm_head.weight": model.lm_head.weight})
    return model, alone


def compare_pictures(c, folder):
    """Reads the text part of a model with pictures, as transformers 5 saves it, and with the names of transformers 4. The
    export is a model without pictures."""
    from safetensors.torch import load_file, save_file

    model, alone = make_with_pictures(GEMMA3 | TYPES)
    model.save_pretrained(folder / "pictures")
    path = folder / "pictures" / "model.safetensors"
    tensors = load_file(path)
    for version in (5, 4):
        if version == 4:
            renamed = [("model.language_model.", "language_model.model."), ("model.vision", "vision"), ("model.multi", "multi")]
            for old, new in renamed:
                tensors = {new + name.removeprefix(old) if name.startswith(old) else name: t for name, t in tensors.items()}
            save_file(tensors, path)
        c.check("gemma3 with pictures: names", any("vision" in name for name in tensors), sorted(tensors)[:3])
        title = f"gemma3 with pictures, names of transformers {version}"
        tokens, logits = compare_pretrained(c, folder / "pictures", alone, "float32", title, folder / "text")
        with torch.no_grad():
            c.close(f"{title}: logits of the whole model", 1e-5, model(tokens).logits, logits)
        again = load_exported(c, f"{title}, exported", folder / "text")
        c.close(f"{title}, exported: logits", 1e-4, again(tokens).logits, logits)
        c.check(f"{title}: end tokens", again.config.model_type == "gemma3_text", again.config.model_type)


def compare_minicpm(c, folder):
    """transformers has no MiniCPM. Its formulas are those of Granite, whose config.json has the same numbers in other
    units."""
    layers, width = LLAMA["num_hidden_layers"], LLAMA["hidden_size"]
    for tied in (True, False):
        model = make(GRANITE | dict(embedding_multiplier=12.0, attention_multiplier=8**-0.5, logits_scaling=width / 16)
                     | dict(residual_multiplier=1.4 / layers**0.5, tie_word_embeddings=tied))
        saved = folder / "minicpm"
        model.save_pretrained(saved)
        config = json.loads((saved / "config.json").read_text())
        for key in ("embedding_multiplier", "attention_multiplier", "logits_scaling", "residual_multiplier", "mlp_bias"):
            del config[key]
        config |= dict(model_type="minicpm", architectures=["MiniCPMForCausalLM"], scale_emb=12, scale_depth=1.4)
        config |= dict(dim_model_base=16, tie_word_embeddings=tied)
        (saved / "config.json").write_text(json.dumps(config))
        for dtype in ("float32", "float64"):
            exported = [folder / "minicpm_exported"] if dtype == "float32" else []
            tokens, logits = compare_pretrained(c, saved, model.float(), dtype, "minicpm", *exported)
            if exported:
                again = load_exported(c, "minicpm exported", exported[0])
                c.close("minicpm exported: logits", 1e-4, again(tokens).logits, logits)
                c.check("minicpm exported as granite", again.config.model_type == "granite", again.config.model_type)


# -- heads --

NAMES = {0: "good \"é\"", 1: "bad", 2: "neither"}
HEADS = {  # our kind of head and the names of labels: a class, and its fields
    "sequence": (transformers.AutoModelForSequenceClassification, dict(id2label=NAMES)),
    "several": (transformers.AutoModelForSequenceClassification, dict(id2label=NAMES)
                | dict(problem_type="multi_label_classification", classifier_dropout=0.3)),
    "regression": (transformers.AutoModelForSequenceClassification, dict(num_labels=1)),
    "tokens": (transformers.AutoModelForTokenClassification, dict(id2label=NAMES)),
    "spans": (transformers.AutoModelForQuestionAnswering, {}),
}


def head_targets(kind, tokens, lengths):
    batch = len(tokens)
    return {
        "sequence": torch.randint(3, (batch,)),
        "several": torch.randint(2, (batch, 3)).double(),
        "regression": torch.randn(batch).double(),
        "tokens": torch.randint(3, tokens.shape),
        "spans": (torch.rand(batch, 2) * lengths[:, None]).long(),
    }[kind]


def compare_head(c, folder, kind, model, dtype, automatic):
    """Compares a padded batch with types of tokens, its loss and its gradients, and the export."""
    config = model.config
    logits_limit, loss_limit, gradient_limit = LIMITS[dtype]
    model = model.to(getattr(torch, dtype))
    tokens, lengths = random_tokens(config, 3, 11), torch.tensor([11, 4, 7])
    mask = torch.arange(11) < lengths[:, None]
    types = {}
    if hasattr(config, "type_vocab_size"):
        types = dict(token_type_ids=torch.randint(config.type_vocab_size, tokens.shape))
    targets = head_targets(kind, tokens, lengths)
    if kind == "tokens":
        targets[~mask] = -100
    if targets.is_floating_point():
        targets = targets.to(getattr(torch, dtype))
    labels = dict(labels=targets) if kind != "spans" else {}
    model.zero_grad()
    with all_in(dtype, model):
        outputs = model(tokens, attention_mask=mask.long(), **types, **labels)
        logits, loss = outputs.get("logits"), outputs.get("loss")
        if kind == "spans":  # in ours, padding is no answer
            logits = torch.stack((outputs.start_logits, outputs.end_logits), -1).masked_fill(~mask[..., None], -1e9)
            loss = torch.nn.functional.cross_entropy(logits, targets)
        loss.backward()
    inputs = {"tokens": tokens, "lengths": lengths, "targets": targets} | ({"types": types["token_type_ids"]} if types else {})
    title, exported = f"head, {config.model_type} {kind} {dtype}", folder / "exported"
    ours = c.program("head", folder / "saved", dtype, exported, inputs=inputs)
    rows = mask if kind in ("tokens", "spans") else slice(None)  # our rows of padding are other numbers
    c.close(f"{title}: logits", logits_limit, ours.pop("logits")[rows], logits[rows])
    c.close(f"{title}: loss", loss_limit, ours.pop("loss"), loss)
    gradients = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    theirs = {f"gradient.{name}": value for name, value in in_our_names(gradients, model).items()}
    if config.model_type == "modernbert":  # the masked language model has layers of the same names
        theirs = {name.replace("gradient.transform_norm", "gradient.head.norm")
                  .replace("gradient.transform", "gradient.head.transform"): value for name, value in theirs.items()}
    if kind == "spans":  # a softmax over tokens does not see what is added to all of them: these gradients are 0
        for name in ("head.output.bias", f"layers.{config.num_hidden_layers - 1}.norm2.bias"):
            if f"gradient.{name}" not in theirs:
                continue
            zero = max(abs(ours.pop(f"gradient.{name}")).max(), theirs.pop(f"gradient.{name}").abs().max())
            c.check(f"{title}: the gradients of biases of all tokens are 0", zero < gradient_limit, zero)
    c.all_close(f"{title}: gradients", gradient_limit, ours, theirs)
    again, info = automatic.from_pretrained(exported, output_loading_info=True)
    c.check(f"{title}: transformers loads the export", not any(info.values()), info if any(info.values()) else "")
    same = all(torch.equal(value.to(getattr(torch, dtype)), model.state_dict()[key])
               for key, value in again.state_dict().items())
    c.check(f"{title}: the export has the same weights", same)
    labels = again.config.id2label == config.id2label and again.config.label2id == {
        name: label for label, name in config.id2label.items()}
    c.check(f"{title}: the export has the same labels", labels)
    problem = json.loads((folder / "saved" / "config.json").read_text()).get("problem_type")
    c.check(f"{title}: the export has the same problem", again.config.problem_type == problem)


def compare_heads(c, folder):
    for family in ("bert", "roberta", "xlm-roberta", "distilbert", "modernbert", "mpnet"):
        for kind, (automatic, fields) in HEADS.items():
            config = {key: value for key, value in (MODELS[family] | fields).items() if key != "model_type"}
            torch.manual_seed(len(kind))
            model = automatic.from_config(transformers.AutoConfig.for_model(family, **config))
            for parameter in model.parameters():
                torch.nn.init.normal_(parameter, 0, 0.2)
            model.eval().save_pretrained(folder / "saved")
            for dtype in LIMITS:
                compare_head(c, folder, kind, model, dtype, automatic)
        # a new head on the encoder of a masked language model
        make(MODELS[family]).save_pretrained(folder / "saved")
        c.program("head", folder / "saved", "float32", folder / "exported", 2, *NAMES.values())
        model = transformers.AutoModelForTokenClassification.from_pretrained(folder / "exported")
        c.check(f"head, {family}: a new head has its names", model.config.id2label == NAMES)
        base = transformers.AutoModel.from_pretrained(folder / "saved").state_dict()
        same = all(torch.equal(value, base[key]) for key, value in model.base_model.state_dict().items())
        c.check(f"head, {family}: a new head keeps the encoder", same)


def compare_trained(c, folder):
    """Trains and exports a model with programs/language_model. transformers loads it with its tokenizer and writes the
    same text; the example continues training from the export."""
    program, text = c.build / "programs" / "language_model", folder / "text.txt"
    text.write_text((common.ROOT / "README.md").read_text() + "naïve 🦙\n")
    small = "--layers 2 --width 32 --heads 4 --length 40 --batch 4 --eval-every 150 --sample-tokens 0".split()
    small += "--recipe nanogpt --lr 0.01 --quiet --tokenizer bpe --vocabulary 300".split()
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
        compare_chosen(c, folder)
        compare_files(c, folder)
        compare_stored(c, folder)
        compare_pictures(c, folder)
        compare_minicpm(c, folder)
        compare_export_roundtrip(c, folder)
        compare_heads(c, folder)
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


OTHERS = SMALL["llama"] | dict(pad_token_id=None)
SMALL |= {
    "mistral": OTHERS | dict(model_type="mistral", sliding_window=3),
    "smollm3": OTHERS | dict(model_type="smollm3", no_rope_layers=[1, 0], use_sliding_window=True, sliding_window=3),
    "qwen2": OTHERS | dict(model_type="qwen2"),
    "qwen3": OTHERS | dict(model_type="qwen3", head_dim=4),
    "phi3": OTHERS | dict(model_type="phi3", head_dim=2),
    "olmo2": OTHERS | dict(model_type="olmo2"),
    "gemma2": OTHERS | dict(model_type="gemma2", head_dim=4, query_pre_attn_scalar=3, sliding_window=3),
    "gemma3": OTHERS
    | dict(model_type="gemma3_text", head_dim=4, query_pre_attn_scalar=3, sliding_window=3)
    | dict(layer_types=["sliding_attention", "full_attention"], rope_parameters=BY_KIND),
    "gpt_neox": OTHERS
    | dict(model_type="gpt_neox", num_attention_heads=2)
    | dict(rope_parameters=dict(rope_theta=500.0, partial_rotary_factor=0.5)),
    "phi": OTHERS | dict(model_type="phi", num_attention_heads=2, num_key_value_heads=2),
    "granite": OTHERS
    | dict(model_type="granite", embedding_multiplier=3.0, attention_multiplier=0.25)
    | dict(residual_multiplier=0.5, logits_scaling=4.0),
    "bert": OTHERS | dict(model_type="bert"),
    "roberta": OTHERS
    | dict(model_type="roberta", vocab_size=14, pad_token_id=13, max_position_embeddings=23, type_vocab_size=1),
    "distilbert": dict(model_type="distilbert", vocab_size=13, dim=8, hidden_dim=12, n_layers=2, n_heads=4)
    | dict(max_position_embeddings=9, pad_token_id=None),
    "modernbert": OTHERS | dict(model_type="modernbert", local_attention=4),
    "mpnet": OTHERS | dict(model_type="mpnet", pad_token_id=1, max_position_embeddings=11),
}
for name in ("gpt_neox", "bert", "roberta", "modernbert", "mpnet"):
    for key in ("num_key_value_heads", "rope_theta"):  # fields of Llama only
        del SMALL[name][key]


def fixtures(folder):
    from safetensors.torch import save_file

    for name, config in (SMALL | {"gemma3_pictures": SMALL["gemma3"]}).items():
        for kind in (name, f"{name}_shards") if name in ("gpt2", "llama") else (name,):
            saved = model = make(config)
            if name == "gemma3_pictures":
                saved, model = make_with_pictures(config)
            if kind != name:
                model = model.to(torch.bfloat16)
            saved.save_pretrained(folder / kind, max_shard_size="2KB" if kind != name else "1GB")
            model = model.double()
            tokens = torch.arange(16).view(2, 8) * 5 % 13
            if name == "mpnet":
                tokens[tokens == 1] = 0  # not padding, which has no position
            targets = torch.arange(16).view(2, 8) * 7 % 13
            with all_in("float64", model):
                logits = model(tokens).logits
                loss = loss_of(logits, targets)
                loss.backward()
            values = {"tokens": tokens, "targets": targets, "logits": logits.detach(), "loss": loss.detach()}
            if kind == name:
                gradients = {key: parameter.grad for key, parameter in model.named_parameters()}
                renamed = in_our_names(gradients, model)
                values |= {f"gradient.{key}": value.contiguous() for key, value in renamed.items()}
            save_file(values, folder / kind / "expected.safetensors")


common.main(compare, fixtures)
