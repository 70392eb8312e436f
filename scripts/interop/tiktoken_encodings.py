"""Compares byte-level BPE with tiktoken, on one thread: a tokenizer with the ranks of an encoding gives the same tokens.
Compares the speed for English, where words occur again, and for random characters of all scripts, where almost every
word is new."""

import pathlib
import random
import tempfile
import time

import tiktoken

import bpe
import common

GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
PATTERNS = {name: bpe.PATTERNS[name] or GPT2 for name in ("gpt2", "llama3", "qwen2", "o200k")}
VOCABULARY, REPEATS = 8192, 5


def byte_values():
    """Returns the byte of each character of the byte-level alphabet."""
    direct = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in direct]
    return {chr(byte): byte for byte in direct} | {chr(256 + i): byte for i, byte in enumerate(others)}


def encoding_of(name, tokenizer):
    """Returns tiktoken's encoding with the tokens of a tokenizer; their ids are their ranks."""
    values = byte_values()
    vocabulary = {token: rank for token, rank in tokenizer.get_vocab().items() if not token.startswith("<|")}
    ranks = {bytes(values[character] for character in token): rank for token, rank in vocabulary.items()}
    return tiktoken.Encoding(name, pat_str=PATTERNS[name], mergeable_ranks=ranks, special_tokens={})


def compare_speed(c, ours, path, encoding, title, text, limit):
    """Encodes the text by turns, and compares the shortest times. limit: the smallest ratio."""
    mine, theirs = [], []
    for _ in range(REPEATS):
        start = time.process_time()
        encoding.encode_ordinary(text)
        theirs.append(time.process_time() - start)
        ours.encode(path, [text])
        mine.append(ours.seconds)
    ratio, rate = min(theirs) / min(mine), len(text.encode()) / 1e6 / min(mine)
    c.check(f"speed, {title}", ratio >= limit, f"{ratio:.2f} times tiktoken's speed ({rate:.1f} MB/s)")


def compare(c):
    random_numbers = random.Random(4)
    english = (common.ROOT / "ARCHITECTURE.md").read_text()
    mixed = "".join(bpe.awkward(random_numbers, 4000, bpe.MORE_POOLS) for _ in range(100))
    repeated = (english * (1 + 1000000 // len(english)))[:1000000]
    texts = [bpe.awkward(random_numbers, random_numbers.randrange(1, 60), bpe.MORE_POOLS) for _ in range(2000)]
    texts += ["", " ", "\n", "a" * 300, english, mixed]
    with tempfile.TemporaryDirectory() as folder:
        ours = bpe.Ours(c, folder)
        path = pathlib.Path(folder) / "theirs.json"
        for name in PATTERNS:
            # tiktoken takes a word that is a token without merging
            tokenizer = bpe.edited(bpe.learn(bpe.PATTERNS[name], english + mixed, VOCABULARY), model={"ignore_merges": True})
            tokenizer.save(str(path))
            encoding = encoding_of(name, tokenizer)
            bpe.same(c, f"tokens, {name}", texts, ours.encode(path, texts), [encoding.encode_ordinary(text) for text in texts])
            compare_speed(c, ours, path, encoding, f"{name}, English", repeated, 1.5)
            compare_speed(c, ours, path, encoding, f"{name}, mixed scripts", mixed, 1.2)


common.main(compare)
