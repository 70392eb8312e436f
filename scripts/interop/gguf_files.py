"""Compares GGUF files with transformers, with the package gguf and, if it is installed, with llama.cpp (the package
llama-cpp-python): random models of each architecture that transformers saves give the same logits after a way through a
file; the package reads our values and tensors, and we read a file that it writes, and the files that llama.cpp's
convert_hf_to_gguf.py writes; llama.cpp generates the same text."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import gguf
import numpy as np
import tokenizers
import torch
import transformers

import common
import llama

transformers.utils.logging.disable_progress_bar()

VOCABULARY = 300
SIZES = dict(
    vocab_size=VOCABULARY,
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    bos_token_id=0,
    eos_token_id=0,
    pad_token_id=None,
)
LLAMA3 = dict(rope_type="llama3", rope_theta=1e4, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
FACTORS = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0]
LONGROPE = dict(rope_type="longrope", rope_theta=1e4, short_factor=FACTORS, long_factor=[2 * f for f in FACTORS])
GEMMA = dict(head_dim=32, query_pre_attn_scalar=32, sliding_window=16)
GRANITE = dict(embedding_multiplier=6.0, residual_multiplier=0.25, logits_scaling=2.0)
MODELS = {
    "llama": ("llama", "Llama", SIZES),
    "llama tied, wide heads": ("llama", "Llama", SIZES | dict(tie_word_embeddings=True, head_dim=32)),
    "llama biases": ("llama", "Llama", SIZES | dict(attention_bias=True, mlp_bias=True)),
    "llama 3.1": ("llama", "Llama", SIZES | dict(rope_parameters=LLAMA3 | {"original_max_position_embeddings": 32})),
    "llama linear": ("llama", "Llama", SIZES | dict(rope_parameters=dict(rope_type="linear", factor=4.0, rope_theta=1e4))),
    "llama yarn": (
        "llama",
        "Llama",
        SIZES
        | dict(rope_parameters=dict(rope_type="yarn", factor=4.0, rope_theta=1e4, original_max_position_embeddings=16)),
    ),
    "qwen2": ("qwen2", "Qwen2", SIZES),
    "qwen3": ("qwen3", "Qwen3", SIZES | dict(head_dim=16)),
    "qwen3 wide heads": ("qwen3", "Qwen3", SIZES | dict(head_dim=32)),
    "smollm3": ("smollm3", "SmolLM3", SIZES | dict(num_hidden_layers=5)),
    "phi3": ("phi3", "Phi3", SIZES | dict(rope_parameters=LONGROPE, original_max_position_embeddings=8)),
    "olmo2": ("olmo2", "Olmo2", SIZES),
    "gemma2": ("gemma2", "Gemma2", SIZES | GEMMA | dict(num_hidden_layers=4)),
    # llama.cpp's conversion drops rows of the embedding beyond the tokens, and counts the special token twice
    "gemma3": ("gemma3", "Gemma3", SIZES | GEMMA | dict(num_hidden_layers=7, vocab_size=VOCABULARY - 3)),
    "gptneox": ("gptneox", "GPTNeoX", SIZES | dict(rotary_pct=0.25)),
    # llama.cpp's conversion writes 4 times the width for the width of the MLP
    "phi2": ("phi2", "Phi", {k: v for k, v in SIZES.items() if k != "num_key_value_heads"} | dict(intermediate_size=256)),
    "granite": ("granite", "Granite", SIZES | GRANITE | dict(attention_multiplier=0.125)),
    "granite biases": ("granite", "Granite", SIZES | GRANITE | dict(attention_bias=True, mlp_bias=True)),
    "minicpm": ("minicpm", "Granite", SIZES | GRANITE | dict(attention_multiplier=0.25, tie_word_embeddings=True)),
    "gpt2": ("gpt2", "GPT2", dict(vocab_size=VOCABULARY, n_positions=64, n_embd=64, n_layer=2, n_head=4)
             | dict(bos_token_id=0, eos_token_id=0)),
}
# the models that transformers reads from GGUF files with all their values
READABLE = {"llama", "llama tied, wide heads", "qwen2"}
TYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "q8_0": "Q8_0", "q4_0": "Q4_0"}
# llama.cpp's conversion needs keys of config.json that transformers 5 does not write: rotary_pct, n_ctx
NOT_CONVERTED = {"gptneox", "gpt2"}
# llama.cpp computes GELU from a table of float16
APPROXIMATE = {"gemma2", "gemma3", "gptneox", "phi2", "gpt2"}
TEXT = "The 12th model's words, isn't it? Straße, 东京 and\n\n  more: naïve 'RE-runs'  "


def make_tokenizer(folder):
    """Saves a small byte-level BPE tokenizer."""
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY - 4, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator([TEXT * 3], trainer)
    bpe.save(str(folder / "tokenizer.json"))
    return bpe


def make(family, config, folder):
    """Saves a random model."""
    torch.manual_seed(len(str(config)))
    config_name = {"Gemma3": "Gemma3TextConfig"}.get(family, family + "Config")
    kind = {"GPT2": "GPT2LMHeadModel"}.get(family, family + "ForCausalLM")
    model = getattr(transformers, kind)(getattr(transformers, config_name)(**config)).eval()
    for name, parameter in model.named_parameters():
        center = 0 if family.startswith("Gemma") else 1
        norm = "norm" in name or "ln_" in name
        torch.nn.init.normal_(parameter, center if norm and name.endswith("weight") else 0, 0.1)
    model.save_pretrained(folder)
    return model


# -- the package gguf --


def value_of(field):
    return field.contents()


def check_reader(c, path, kind):
    """The package reads every value, and its dequantized tensors are the ones of its own quantization."""
    reader = gguf.GGUFReader(path)
    architecture = reader.get_field("general.architecture").contents()
    names = set(reader.fields)
    c.check("gguf reads our values", {f"{architecture}.context_length", "tokenizer.ggml.model"} <= names, sorted(names))
    matrices = [t for t in reader.tensors if t.name.startswith("blk.") and len(t.shape) == 2]
    types = {t.tensor_type.name for t in matrices}
    c.check("gguf reads the type of our matrices", types == {TYPES[kind]}, f"{path.name}: {types}")
    return reader


def check_quantization(c, wide, narrow):
    """Our blocks are those that the package makes from our F32 file."""
    from gguf import quants

    values = {t.name: t for t in wide.tensors}
    for t in narrow.tensors:
        if t.tensor_type.name not in ("Q8_0", "Q4_0", "F16", "BF16"):
            continue
        expected = quants.quantize(np.array(values[t.name].data, dtype=np.float32), t.tensor_type)
        same = np.array_equal(np.asarray(t.data).view(np.uint8).ravel(), expected.view(np.uint8).ravel())
        c.check(f"{t.tensor_type.name} has the bytes of the package gguf", same, t.name)


def copy(reader, path):
    """Writes the contents of a file with the package."""
    writer = gguf.GGUFWriter(path, reader.get_field("general.architecture").contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        contents = field.contents()
        if kind == gguf.GGUFValueType.ARRAY and not contents:
            continue
        writer.add_key_value(name, contents, kind, sub_type=sub)
    for t in reader.tensors:
        writer.add_tensor(t.name, np.array(t.data), raw_dtype=t.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# -- llama.cpp's conversion --

# Argument: the folder of the sources. Converts the model of each line (a folder, a tab, the file to write), and answers with a line:
# an error, or nothing. All models have our small tokenizer.
CONVERT = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/gguf-py"]
import conversion.base
import convert_hf_to_gguf
conversion.base.TextModel.get_vocab_base_pre = lambda *_: "gpt-2"
find = convert_hf_to_gguf.get_model_class
def with_small_tokenizer(*arguments, **options):
    found = find(*arguments, **options)
    found.set_vocab = conversion.base.TextModel._set_vocab_gpt2
    return found
convert_hf_to_gguf.get_model_class = with_small_tokenizer
for line in sys.stdin:
    model, path = line.rstrip().split("\\t")
    sys.argv = ["convert", model, "--outfile", path, "--outtype", "f32"]
    try:
        convert_hf_to_gguf.main()
        print(flush=True)
    except Exception as error:
        print(repr(error), flush=True)
"""


def start_converter():
    """Starts llama.cpp's convert_hf_to_gguf.py in a process of its own, because it needs its own version of the package gguf."""
    sources = common.package_files("llama-cpp-python==0.3.36", "/llama.cpp/convert_hf_to_gguf.py", "/llama.cpp/conversion/",
                                   "/llama.cpp/gguf-py/gguf/", sources=True) / "vendor" / "llama.cpp"
    return subprocess.Popen([sys.executable, "-c", CONVERT, sources], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True)


def as_minicpm(folder):
    """Makes a saved Granite a MiniCPM, which transformers lacks: the same formulas, with other names for the multipliers."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    layers, width = config["num_hidden_layers"], config["hidden_size"]
    config |= dict(model_type="minicpm", architectures=["MiniCPMForCausalLM"], scale_emb=config.pop("embedding_multiplier"),
                   scale_depth=config.pop("residual_multiplier") * layers**0.5,
                   dim_model_base=width / config.pop("logits_scaling"))
    del config["attention_multiplier"], config["mlp_bias"]
    path.write_text(json.dumps(config))


def add_pictures(model, folder):
    """Saves a Gemma 3 that reads pictures, with the text part of a model."""
    vision = dict(hidden_size=4, intermediate_size=4, num_hidden_layers=1, num_attention_heads=1, image_size=4, patch_size=2)
    config = transformers.Gemma3Config(text_config=model.config.to_dict(), vision_config=vision, mm_tokens_per_image=1)
    whole = transformers.Gemma3ForConditionalGeneration(config)
    whole.model.language_model.load_state_dict(model.model.state_dict())
    whole.lm_head.load_state_dict(model.lm_head.state_dict())
    whole.save_pretrained(folder)


def compare_converted(c, converter, name, architecture, folder, tokens, expected, inputs):
    """We read the file that llama.cpp's conversion makes of a folder of transformers."""
    path = folder / "converted.gguf"
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    converter.stdin.write(f"{folder}\t{path}\n")
    converter.stdin.flush()
    error = converter.stdout.readline().strip()
    c.check("llama.cpp's conversion writes a file", not error, f"{name}: {error}")
    found = gguf.GGUFReader(path).get_field("general.architecture").contents()
    c.check("the architecture of llama.cpp's conversion", found == architecture, f"{name}: {found}")
    ours = c.program("gguf", "read", path, inputs=inputs)
    c.close("a file that llama.cpp's conversion writes", 2e-5, ours["logits"], expected, name)
    if llama.available:
        _, logits, _ = llama_tokens(path, tokens, TEXT)
        approximate = architecture in APPROXIMATE
        c.close(f"llama.cpp's logits of this file{', GELU' if approximate else ''}", 2e-3 if approximate else 1e-5, logits,
                ours["logits"][0], name)


# -- llama.cpp --


def llama_tokens(path, prompt, text):
    """Returns the greedy tokens after a prompt, the logits of the prompt, and the tokens of a text."""
    model = llama.load(path)
    tokens, logits = llama.greedy(model, prompt, 24)
    return tokens, logits[: len(prompt)], model.tokenize(text.encode(), add_bos=False, special=True)


def compare_llama(c, name, architecture, path, prompt, ours, bpe):
    tokens, logits, ids = llama_tokens(path, prompt, TEXT)
    approximate = architecture in APPROXIMATE
    c.close(f"llama.cpp's logits{', GELU' if approximate else ''}", 2e-3 if approximate else 1e-5, logits,
            ours["logits"][0, : len(prompt)], name)
    c.check("llama.cpp generates the same text", tokens == ours["greedy"][0].tolist(), f"{name}: {tokens}")
    c.check("llama.cpp's tokens", ids == bpe.encode(TEXT).ids, name)


def compare_model(c, converter, name, architecture, family, config, folder):
    tokens = np.random.default_rng(len(name)).integers(0, VOCABULARY - 4, (2, 24)).astype(np.int32)
    inputs = dict(tokens=tokens, prompt=tokens[:1], bytes=np.frombuffer(TEXT.encode(), np.uint8).astype(np.int32))
    model = make(family, config, folder)
    bpe = make_tokenizer(folder)
    with torch.no_grad():
        expected = model(torch.tensor(tokens.astype(np.int64))).logits.numpy()
    readers = {}
    for kind in TYPES:
        path = folder / f"{kind}.gguf"
        c.program("gguf", "export", folder, path, kind, architecture)
        ours = c.program("gguf", "read", path, inputs=inputs)
        limit = {"float32": 2e-5, "float16": 5e-3, "bfloat16": 5e-2, "q8_0": 1e-1, "q4_0": 1}[kind]
        c.close(f"logits of a file with {TYPES[kind]}", limit, ours["logits"], expected, name)
        stored = c.program("gguf", "read", path, "stored", inputs=inputs)
        c.close("stored weights give the same logits", 1e-6, stored["logits"], ours["logits"], f"{name} {kind}")
        c.check("the tokens of a text", ours["ids"].tolist() == bpe.encode(TEXT).ids, name)
        readers[kind] = check_reader(c, path, kind)
        if kind in ("float32", "q8_0"):
            copy(readers[kind], folder / "copy.gguf")
            again = c.program("gguf", "read", folder / "copy.gguf", inputs=inputs)
            c.close("a file that the package gguf writes", 0, again["logits"], ours["logits"], f"{name} {kind}")
        if kind == "float32":
            if name in READABLE:
                theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=path.name).eval()
                with torch.no_grad():
                    logits = theirs(torch.tensor(tokens.astype(np.int64))).logits.numpy()
                c.close("transformers reads our file", 1e-4, logits, expected, name)
        if llama.available and kind == "float32":
            compare_llama(c, name, architecture, path, tokens[0].tolist(), ours, bpe)
        elif llama.available and kind != "q4_0":
            _, logits, _ = llama_tokens(path, tokens[0].tolist(), TEXT)
            c.close(f"llama.cpp's logits of {TYPES[kind]}", limit, logits, ours["logits"][0], name)
    for kind, reader in readers.items():
        check_quantization(c, readers["float32"], reader)
    if architecture == "minicpm":
        as_minicpm(folder)
    if architecture not in NOT_CONVERTED:
        compare_converted(c, converter, name, architecture, folder, tokens[0].tolist(), expected, inputs)
    if architecture == "gemma3":
        add_pictures(model, folder)
        compare_converted(c, converter, "gemma3 with pictures", architecture, folder, tokens[0].tolist(), expected, inputs)


def compare(c):
    converter = start_converter()
    for name, (architecture, family, config) in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                compare_model(c, converter, name, architecture, family, config, pathlib.Path(folder))
            except Exception as error:
                c.check("every model is compared", False, f"{name}: {error}")
    converter.stdin.close()
    c.check("llama.cpp's conversion ends", converter.wait() == 0)
    c.check("llama.cpp was compared", True, "yes" if llama.available else "no: llama-cpp-python is not installed")


if __name__ == "__main__":
    common.main(compare)
