"""Compares Unigram with Hugging Face's tokenizers on awkward Unicode: a real vocabulary (XLM-RoBERTa's, from llama.cpp's test
vocabularies), counted ones, maps of characters, normalizers, Metaspace, unknown and added tokens, equal scores, tokens
around texts and pairs of texts. tokenizers reads our files with the same meaning. UNIGRAM_IDS=5000000 in the environment
compares so many ids of the real vocabulary. UNIGRAM_FILES names tokenizer.json files that are compared too, separated by
colons."""

import json
import os
import pathlib
import random
import tempfile

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import gguf
from tokenizers import AddedToken, Tokenizer, models

import common
from bpe import MORE_POOLS, Ours, awkward, compare_speed, compiled_map, count_unigram, edited, every_character, many_tokens, metaspace
from bpe import million, precompiled, same_text, same_tokens, text_with_normalized_tokens, whole_texts, with_normalized_tokens

PACKAGE = "llama-cpp-python==0.3.36", "/llama.cpp/models/ggml-vocab-"
# Each is in the map of XLM-RoBERTa, followed by what may join it to one cluster.
MAPPED = ["\ufb01", "\u00aa", "\u2460", "\r", "a\u0301", "\u00e9", "\u1e9b", "\uff21", "\u00a0", "\u00ad", "\u212b", "\u00a9", "\u3000", "e"]


def sequence(*steps):
    return {"type": "Sequence", "normalizers": list(steps)}


def xlm_roberta():
    """Returns the tokenizer of XLM-RoBERTa: its vocabulary, its scores and its map."""
    path = next(common.package_files(*PACKAGE, sources=True).rglob("ggml-vocab-nomic-bert-moe.gguf"))
    fields = gguf.GGUFReader(path).fields
    tokens, scores, kinds = (fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "scores", "token_type"))
    vocab = [[token, score] for token, score, kind in zip(tokens, scores, kinds) if kind != gguf.TokenType.UNUSED]
    compiled = bytes(number & 255 for number in fields["tokenizer.ggml.precompiled_charsmap"].contents())
    special = lambda name, lstrip=False: {"id": tokens.index(name), "content": name, "single_word": False, "lstrip": lstrip,
                                          "rstrip": False, "normalized": False, "special": True}
    space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    return Tokenizer.from_str(json.dumps({
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [special(name, name == "<mask>") for name in ("<s>", "<pad>", "</s>", "<unk>", "<mask>")],
        "normalizer": precompiled(compiled),
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, space]},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": template("<s>", "$A", "</s>"), "pair": template("<s>", "$A", "</s>", "</s>", "$B", "</s>"),
            "special_tokens": {name: {"id": name, "ids": [tokens.index(name)], "tokens": [name]} for name in ("<s>", "</s>")},
        },
        "decoder": space,
        "model": {"type": "Unigram", "unk_id": tokens.index("<unk>"), "vocab": vocab, "byte_fallback": False},
    })), compiled


def template(*parts):
    """Returns the elements of a template: "$A:1" is a text whose tokens have the type 1."""
    made = []
    for part in parts:
        name, _, kind = part.lstrip("$").partition(":")
        element = {"id": name, "type_id": int(kind or 0)}
        made.append({"Sequence": element} if part[0] == "$" else {"SpecialToken": element})
    return made


def kinds(counted, with_bytes, compiled):
    """Yields (name, tokenizer)."""
    two = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    quotes = [{"type": "Replace", "pattern": {"String": pair}, "content": '"'} for pair in ("``", "''")]
    plain = [{"type": name} for name in ("NFKD", "StripAccents", "Lowercase")]
    yield "no normalizer", counted
    yield "T5", edited(counted, normalizer=sequence(precompiled(compiled), strip, two))
    yield "ALBERT", edited(counted, normalizer=sequence(*quotes, *plain, precompiled(compiled)))
    yield "Nmt", edited(counted, normalizer=sequence({"type": "Nmt"}, {"type": "NFKC"}, two))
    for behavior in "Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext":
        yield f"Punctuation, {behavior}", edited(counted, pre_tokenizer={"type": "Punctuation", "behavior": behavior})
    yield "NFKC", edited(counted, normalizer=sequence({"type": "NFKC"}, {"type": "Lowercase"}, two))
    for scheme in "first", "never":
        yield scheme, edited(counted, pre_tokenizer=metaspace(scheme), normalizer=precompiled(compiled))
    yield "one word", edited(counted, pre_tokenizer=metaspace("first", False), normalizer=precompiled(compiled))
    spaces = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace()]}
    yield "words", edited(counted, pre_tokenizer=spaces, normalizer=precompiled(compiled))
    yield "no pre-tokenizer", edited(counted, pre_tokenizer=None)
    yield "byte fallback", with_bytes
    vocab = json.loads(with_bytes.to_str())["model"]["vocab"]
    yield "bytes that are missing", edited(with_bytes, model={"vocab": [pair for pair in vocab if pair[0] < "<0xE1>" or pair[0] > "<0xE9>"]})
    rules = {"a": "xyz", "ab": "", "\u00e9": "e", "e\u0301": "E", "\r": " ", "\n": " ", "\u0301": "", "i": "", "\u3000": " ", "\ufb01": "fi"}
    for scheme in "always", "first":
        yield f"our map, {scheme}", edited(counted, normalizer=precompiled(compiled_map(rules)), pre_tokenizer=metaspace(scheme))
    yield "user-defined tokens", with_user_tokens(counted)


def with_user_tokens(tokenizer):
    tokenizer = Tokenizer.from_str(tokenizer.to_str())
    tokenizer.add_tokens([AddedToken(f"<extra_{i}>", normalized=i % 2 == 0, rstrip=i == 3) for i in range(9)] + ["the", "\u00e9"])
    return tokenizer


def with_equal_scores(random_numbers):
    """Returns a tokenizer in which many ways to cut a text have equal sums of scores."""
    letters, scores = "ab\u2581", [-1.0, -2.0, -0.1, -3.4635426998138428, 0.0, -2]
    pieces = {"".join(random_numbers.choices(letters, k=random_numbers.randint(1, 5))) for _ in range(60)} | {"<unk>"}
    vocab = [[piece, random_numbers.choice(scores)] for piece in sorted(pieces)]
    model = {"vocab": vocab, "unk_id": [piece for piece, _ in vocab].index("<unk>")}
    return edited(Tokenizer(models.Unigram([("<unk>", 0.0)], 0, False)), model=model, pre_tokenizer=metaspace())


def clusters(random_numbers, count):
    """Returns texts of characters of the map with marks, joiners and other characters behind them."""
    marks = [chr(code) for code in (*range(0x300, 0x370), *range(0x483, 0x48A), *range(0x591, 0x5C8), *range(0x610, 0x61B), *range(0x900, 0x904),
                                    0x200B, 0x200C, 0x200D, 0xFE0F, 0x20E3, 0x897, 0x93E, 0xE31, 0xE33, 0x1160, 0x11A8, 0x3099, 0xFF9E)]
    text = lambda: "".join(random_numbers.choice(MAPPED) + "".join(random_numbers.choices(marks, k=random_numbers.choice([0, 1, 1, 2])))
                           + random_numbers.choice(["", "\n", "\u00a9", " "]) for _ in range(random_numbers.randrange(1, 12)))
    return [text() for _ in range(count)] + ["\r\n", "\n\r", "\r\n\r\n", "\ufb01\r\na", "\u200d", "\u00a9\u200d\u00a9"]


def every_mark():
    """Returns texts in which each character of at most 3 bytes follows one that the map changes."""
    codes = [*range(1, 0xD800), *range(0xE000, 0x10000)]
    return ["".join(f"\u00aa{chr(code)}b\ufb01{chr(code)} " for code in codes[i : i + 5000]) for i in range(0, len(codes), 5000)]


def compare(c):
    random_numbers = random.Random(int(os.environ.get("UNIGRAM_SEED", "1")))
    wanted = int(os.environ.get("UNIGRAM_IDS", "100000"))
    english = (pathlib.Path(__file__).parent.parent.parent / "ARCHITECTURE.md").read_text()
    lines = [english[i : i + 200] for i in range(0, len(english), 200)]
    corpus = [awkward(random_numbers, 200, MORE_POOLS).replace("\0", "") for _ in range(100)] + lines
    texts = [awkward(random_numbers, random_numbers.randrange(1, 60), MORE_POOLS).replace("\0", "") for _ in range(400)]
    texts += ["", " ", "  ", "a", "\u2581", "\u2581\u2581 a", " \u2581a", "\n", "a" * 3000, "<unk>", "x<unk>\u4e00<unk>", english]
    texts += clusters(random_numbers, 400)
    more = texts[:-407] + [text_with_normalized_tokens(random_numbers).replace("\0", "") for _ in range(300)]
    every = every_mark() + [text.replace("\0", "") for text in every_character()]
    real, compiled = xlm_roberta()
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(c, folder)
        for name, tokenizer in kinds(count_unigram(corpus, 3000), count_unigram(corpus, 3000, True), compiled):
            same_tokens(c, ours, name, tokenizer, texts)
            same_text(c, ours, name, tokenizer, texts[:200], random_numbers)
            same_tokens(c, ours, f"{name}, added tokens", with_normalized_tokens(tokenizer, random_numbers), more)
        for _ in range(20):
            strings = ["".join(random_numbers.choices("ab <\u4e00", k=random_numbers.randint(1, 200))) for _ in range(50)]
            same_tokens(c, ours, "equal scores", with_equal_scores(random_numbers), strings + ["a" * 500, "ab" * 300])
        same_tokens(c, ours, "XLM-RoBERTa", real, texts, document=True)
        same_tokens(c, ours, "XLM-RoBERTa, all characters", real, every)
        after = edited(Tokenizer(models.Unigram([("<unk>", 0.0), ("x", -1.0)], 0, False)), normalizer=precompiled(compiled_map({"a": "x"})))
        same_tokens(c, ours, "marks of 4 bytes", after, [f"a{chr(code)}" for code in (*range(0x10000, 0x20000), *range(0xE0000, 0xE0200))])
        same_text(c, ours, "XLM-RoBERTa", real, texts[:300], random_numbers)
        many_tokens(c, ours, "XLM-RoBERTa", real, random_numbers, wanted, MORE_POOLS)
        for path in filter(None, os.environ.get("UNIGRAM_FILES", "").split(":")):
            published = whole_texts(path)
            same_tokens(c, ours, path, published, texts, document=True)
            many_tokens(c, ours, path, published, random_numbers, wanted, MORE_POOLS)
            compare_speed(c, ours, path, published, million(english), 3)
        compare_speed(c, ours, "XLM-RoBERTa", real, million(english), 3)
        mixed = "".join(awkward(random_numbers, 1000, MORE_POOLS) for _ in range(200)).replace("\0", "")
        compare_speed(c, ours, "XLM-RoBERTa, mixed scripts", real, mixed, 3)


if __name__ == "__main__":
    common.main(compare)
