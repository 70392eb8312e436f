"""Compares sentence embeddings with sentence-transformers: folders with each kind of pooling, with and without
normalization, with a dense layer, a prompt and fewer dimensions, and texts that are longer than the model. Folders that
are exported here have equal embeddings there. SENTENCE_FOLDER in the environment names a published folder that is compared
too, with 1,000 texts, and tuned and exported."""

import json
import os
import pathlib
import random
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tokenizers
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer

import common
import llama
from bpe import edited, learn_word_piece

KINDS = "cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"
WORDS = "the tape records each call and backward computes gradients of a loss in order from end to begin".split()


def make(folder, kind="mean", normalize=True, width=32, length=24, dense=None, prompt=None):
    """Saves a random encoder as a folder of sentence-transformers, and returns it."""
    # (The vocabulary that tokenizers learns is another one in each run.)
    letters = sorted(set("".join(WORDS) + "."))
    pieces = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters), *WORDS
    vocabulary = {text: i for i, text in enumerate(dict.fromkeys(pieces))}
    tokenizer = edited(learn_word_piece(" ".join(WORDS), 60), model={"vocab": vocabulary})
    names = {name: f"[{name[:-6].upper()}]" for name in ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=length, **names)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=width, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=length,
    )
    torch.manual_seed(1)
    model = transformers.BertModel(config)
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, 1 if name.endswith("LayerNorm.weight") else 0, 0.1)
    model.save_pretrained(folder / "encoder")
    tokenizer.save_pretrained(folder / "encoder")
    modules = [Transformer(str(folder / "encoder")), Pooling(width, kind)]
    modules += ([Dense(width, 20, **dense)] if dense else []) + [Normalize()] * normalize
    prompts = dict(prompts={"query": prompt}, default_prompt_name="query") if prompt else {}
    whole = SentenceTransformer(modules=modules, device="cpu", **prompts)
    whole.save(str(folder / "whole"))
    return SentenceTransformer(str(folder / "whole"), device="cpu")


def make_roberta(folder):
    """Saves a random RoBERTa with its tokenizer, and returns it."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    bpe = tokenizers.ByteLevelBPETokenizer()
    bpe.train_from_iterator(WORDS, 300, show_progress=False, special_tokens=special)
    bpe.add_special_tokens([tokenizers.AddedToken("<mask>", lstrip=True)])
    bpe.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    names = dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>", sep_token="</s>", pad_token="<pad>", cls_token="<s>")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=bpe._tokenizer, model_max_length=128, mask_token="<mask>", **names)
    torch.manual_seed(1)
    config = transformers.RobertaConfig(vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                        intermediate_size=48, max_position_embeddings=130, type_vocab_size=1)
    model = transformers.RobertaModel(config)
    model.save_pretrained(folder / "encoder")
    tokenizer.save_pretrained(folder / "encoder")
    whole = SentenceTransformer(modules=[Transformer(str(folder / "encoder")), Pooling(32, "cls"), Normalize()], device="cpu")
    whole.save(str(folder / "whole"))
    return SentenceTransformer(str(folder / "whole"), device="cpu")


def some_texts(count, longest=12):
    random_numbers = random.Random(3)
    return [" ".join(random_numbers.choices(WORDS, k=random_numbers.randrange(1, longest))) + "." for _ in range(count)]


def compare_folder(c, title, limit, model, folder, texts, dimensions=0, export=None, steps=0):
    """Compares embeddings. With export, also those of the folder that is exported here, perhaps after some steps of
    training: then only these are compared."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(texts) + "\n")
        file.flush()
        more = ([export] if export else []) + ([steps] if steps else [])
        ours = c.program("sentence_embeddings", folder, file.name, dimensions, *more)["embeddings"]
    options = dict(truncate_dim=dimensions, normalize_embeddings=True) if dimensions else {}
    theirs = model.encode(texts, batch_size=32, convert_to_numpy=True, **options)
    if steps:
        c.check(f"{title}, {steps} steps: embeddings change", abs(ours - theirs).max() > 1e-3, abs(ours - theirs).max())
    else:
        c.close(title, limit, ours, theirs)
    if export:
        again = SentenceTransformer(str(export), device="cpu").encode(texts, batch_size=32, convert_to_numpy=True, **options)
        c.close(f"{title}, {steps} steps, exported" if steps else f"{title}, exported", limit, ours, again)


def compare_gguf(c, title, model, folder, texts, made):
    """Embeddings of a GGUF file that is exported here, in sentence-transformers, here and in llama.cpp."""
    path = made / "exported.gguf"
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(texts) + "\n")
        file.flush()
        c.program("sentence_embeddings", folder, file.name, 0, path)
        ours = c.program("sentence_embeddings", path, file.name, 0)["embeddings"]
    c.close(f"{title}, GGUF", 5e-6, ours, model.encode(texts, batch_size=32, convert_to_numpy=True))
    if llama.available:  # (it takes GELU from a table of float16)
        c.close(f"{title}, GGUF in llama.cpp", 5e-3, llama.embeddings(path, texts), ours)


def compare(c):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for kind in KINDS:
            for normalize in (True, False):
                model = make(folder / f"{kind} {normalize}", kind, normalize)
                texts = some_texts(100, 40)
                whole = folder / f"{kind} {normalize}" / "whole"
                compare_folder(c, f"pooling {kind}", 1e-6, model, whole, texts, 0, whole.with_name("exported"))
                if normalize and kind in ("cls", "mean", "lasttoken"):
                    compare_gguf(c, f"pooling {kind}", model, whole, some_texts(20), whole.parent)
        model = make_roberta(folder / "roberta")
        compare_folder(c, "RoBERTa", 1e-6, model, folder / "roberta" / "whole", some_texts(50))
        compare_gguf(c, "RoBERTa", model, folder / "roberta" / "whole", some_texts(20), folder / "roberta")
        others = {
            "dense": dict(dense={}),
            "dense without activation and bias": dict(dense=dict(bias=False, activation_function=torch.nn.Identity())),
            "prompt": dict(prompt="the tape: "),
        }
        for title, options in others.items():
            model = make(folder / title, **options)
            whole = folder / title / "whole"
            compare_folder(c, title, 1e-6, model, whole, some_texts(100, 40), 0, whole.with_name("exported"))
        compare_folder(c, "dimensions", 1e-6, model, whole, some_texts(100, 40), 5)
    if path := os.environ.get("SENTENCE_FOLDER"):
        lines = [line.strip() for page in common.ROOT.glob("docs/*.md") for line in page.read_text().splitlines()]
        texts = [line for line in lines if line][:1000]
        # (The limit is relative to the largest number, which is 0.27.)
        model, title = SentenceTransformer(path, device="cpu"), f"a published folder, {len(texts)} texts"
        compare_folder(c, title, 5e-6, model, path, texts)
        with tempfile.TemporaryDirectory() as exported:
            compare_folder(c, title, 5e-6, model, path, texts, 0, pathlib.Path(exported), 20)
            compare_gguf(c, title, model, path, texts[:100], pathlib.Path(exported))


def fixtures(folder):
    """Writes a small folder, texts and their embeddings."""
    with tempfile.TemporaryDirectory() as made:
        model = make(pathlib.Path(made), "mean", True, width=8, length=12)
        whole = pathlib.Path(made) / "whole"
        for name in ("config.json", "model.safetensors", "tokenizer.json", "modules.json", "sentence_bert_config.json"):
            (folder / name).write_bytes((whole / name).read_bytes())
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_bytes((whole / "1_Pooling" / "config.json").read_bytes())
        texts = some_texts(6, 20)
        (folder / "texts").write_text("\n".join(texts) + "\n")
        from safetensors.numpy import save_file

        save_file({"embeddings": model.encode(texts, convert_to_numpy=True)}, folder / "expected.safetensors")


if __name__ == "__main__":
    common.main(compare, fixtures)
