"""Compares the tokens of llama.cpp's test vocabularies with those that llama.cpp wrote beside them (.inp and .out). The files
are in the sources of the Python package llama-cpp-python, which pip fetches once into ~/.cache/tapehead/interop."""

import os
import pathlib
import subprocess
import sys
import tarfile

import numpy as np

import common

SEPARATOR = "\n__ggml_vocab_test__\n"
OTHER_KINDS = ["nomic-bert-moe"]  # T5


def models():
    """Returns the folder with the vocabularies."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "tapehead" / "interop"
    folder = cache / "llama_cpp_vocabularies"
    if not list(folder.glob("*.gguf")):
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "llama-cpp-python", "--dest", folder,
                        "llama-cpp-python==0.3.36"], check=True)
        archive = next(folder.glob("*.tar.gz"))
        with tarfile.open(archive) as tar:
            for member in tar:
                if "/llama.cpp/models/ggml-vocab-" in member.name:
                    (folder / pathlib.Path(member.name).name).write_bytes(tar.extractfile(member).read())
        archive.unlink()
    return folder


def ids_of(c, path, text):
    text = np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int32)
    return c.program("gguf", "ids", path, inputs={"bytes": text})["ids"].tolist() if len(text) else []


def compare(c):
    for path in sorted(models().glob("ggml-vocab-*.gguf")):
        name = path.stem.removeprefix("ggml-vocab-")
        if name in OTHER_KINDS:
            run = c.program("gguf", "ids", path, inputs={"bytes": np.array([97], dtype=np.int32)}, check=False)
            c.check("T5 is refused by name", run.returncode != 0 and "is of the kind" in run.stderr, name)
            continue
        c.check("vocabularies load", len(ids_of(c, path, "a b")) > 0, name)
        if not (path.parent / (path.name + ".out")).exists():
            continue
        texts = (path.parent / (path.name + ".inp")).read_text(newline="").split(SEPARATOR)
        lines = (path.parent / (path.name + ".out")).read_text().splitlines()
        for text, line in zip(texts, lines):
            c.check(f"ids of {name}", ids_of(c, path, text) == [int(i) for i in line.split()], repr(text))


if __name__ == "__main__":
    common.main(compare)
