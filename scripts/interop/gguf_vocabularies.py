"""Compares the tokens of llama.cpp's test vocabularies with those that llama.cpp wrote beside them (.inp and .out). If the
package llama-cpp-python is installed, also compares the tokens of a million characters of many scripts with those of
llama.cpp, for every vocabulary and for our copy of it. The files are in the sources of that package, which pip fetches
once into ~/.cache/tapehead/interop; VOCABULARIES names another folder."""

import os
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile

import numpy as np

import common

try:
    import llama_cpp
except ImportError:
    llama_cpp = None

SEPARATOR = "\n__ggml_vocab_test__\n"
OTHER_KINDS = ["bert-bge", "nomic-bert-moe"]  # BERT and T5
CHARACTERS, TEXTS = 1_000_000, 4
# The first and last letters of scripts, and how many letters a word has.
SCRIPTS = [(0x61, 0x7A, 9), (0x41, 0x5A, 3), (0xC0, 0x17F, 6), (0x391, 0x3C9, 7), (0x410, 0x44F, 8), (0x531, 0x556, 6),
           (0x5D0, 0x5EA, 5), (0x621, 0x64A, 6), (0x905, 0x939, 5), (0x985, 0x9B9, 5), (0xE01, 0xE3A, 12),
           (0x10D0, 0x10F0, 7), (0x1200, 0x1248, 5), (0x3041, 0x3096, 6), (0x30A1, 0x30FA, 5), (0x4E00, 0x9FA5, 4),
           (0xAC00, 0xD7A3, 4), (0x30, 0x39, 6), (0x660, 0x669, 3), (0x300, 0x30F, 2), (0x2190, 0x21FF, 2),
           (0x1F300, 0x1F5FF, 2), (0x20000, 0x200FF, 2)]
MARKS = [" "] * 12 + [", ", ". ", "\n", "\n\n", "  ", "\t", "'s ", "-", "_", "(", ") ", "!", "?\n", " = ", ";\n    ", "\u00a0",
                     "\u3000", "\u2028", "://", " 'll", "\r\n", "      "]


def models():
    """Returns the folder with the vocabularies."""
    if os.environ.get("VOCABULARIES"):
        return pathlib.Path(os.environ["VOCABULARIES"])
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "tapehead" / "interop"
    folder = cache / "llama_cpp_vocabularies"
    if not list(folder.glob("*.gguf")):
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", folder,
                        "llama-cpp-python==0.3.36"], check=True)
        archive = next(folder.glob("*.tar.gz"))
        with tarfile.open(archive) as tar:
            for member in tar:
                if "/llama.cpp/models/ggml-vocab-" in member.name:
                    (folder / pathlib.Path(member.name).name).write_bytes(tar.extractfile(member).read())
        archive.unlink()
    return folder


def text_of_many_scripts(seed):
    """Returns words of random letters, half of them from this repository's pages."""
    draw = random.Random(seed)
    words = " ".join((common.ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md", "docs/gguf.md")).split()
    parts, count = [], 0
    while count < CHARACTERS // TEXTS:
        low, high, longest = draw.choice(SCRIPTS)
        word = "".join(chr(draw.randint(low, high)) for _ in range(draw.randint(1, longest)))
        parts += [draw.choice([word, draw.choice(words)]), draw.choice(MARKS)]
        count += len(parts[-1]) + len(parts[-2])
    return "".join(parts)


def ids_of(c, path, text):
    text = np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int32)
    return c.program("gguf", "ids", path, inputs={"bytes": text})["ids"].tolist() if len(text) else []


def compare_long_texts(c, path, name, copy):
    """Compares the tokens of long texts with llama.cpp's, here and for a copy that we write."""
    written = c.program("gguf", "rewrite", path, copy, check=False)
    c.check("vocabularies that are written again", written.returncode == 0, f"{name}: {written.stderr}")
    theirs = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
    again = llama_cpp.Llama(str(copy), vocab_only=True, verbose=False) if written.returncode == 0 else None
    equal = total = 0
    for i in range(TEXTS):
        text = text_of_many_scripts(i)
        ours, expected = ids_of(c, path, text), theirs.tokenize(text.encode(), add_bos=True, special=True)
        equal, total = equal + (ours == expected), total + len(expected)
        if again:
            same = again.tokenize(text.encode(), add_bos=True, special=True) == expected
            c.check("llama.cpp has the same tokens with our copy", same, name)
    c.check(f"llama.cpp's tokens of {CHARACTERS} characters: {name}", equal == TEXTS, f"{total} tokens")


def compare(c):
    folder = models()
    for path in sorted(folder.glob("ggml-vocab-*.gguf")):
        name = path.stem.removeprefix("ggml-vocab-")
        if name in OTHER_KINDS:
            run = c.program("gguf", "ids", path, inputs={"bytes": np.array([97], dtype=np.int32)}, check=False)
            c.check("BERT and T5 are refused by name", run.returncode != 0 and "is of the kind" in run.stderr, name)
            continue
        c.check("vocabularies load", len(ids_of(c, path, "a b")) > 0, name)
        if llama_cpp:
            with tempfile.TemporaryDirectory() as temporary:
                compare_long_texts(c, path, name, pathlib.Path(temporary) / "copy.gguf")
        if not (path.parent / (path.name + ".out")).exists():
            continue
        texts = (path.parent / (path.name + ".inp")).read_text(newline="").split(SEPARATOR)
        lines = (path.parent / (path.name + ".out")).read_text().splitlines()
        for text, line in zip(texts, lines):
            c.check(f"ids of {name}", ids_of(c, path, text) == [int(i) for i in line.split()], repr(text))
    c.check("llama.cpp was compared", True, "yes" if llama_cpp else "no: llama-cpp-python is not installed")


if __name__ == "__main__":
    common.main(compare)
