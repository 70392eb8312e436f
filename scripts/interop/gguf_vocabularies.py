"""Compares the tokens of llama.cpp's test vocabularies with those that llama.cpp wrote beside them (.inp and .out), and, if
llama-cpp-python is installed, with its tokens of a million characters of many scripts. The files are in the sources of that
package, which pip fetches once into ~/.cache/tapehead/interop."""

import ctypes
import random
import unicodedata

import numpy as np
from tokenizers.normalizers import NFC

import common

try:
    import llama_cpp
except ImportError:
    llama_cpp = None

SEPARATOR = "\n__ggml_vocab_test__\n"
NORMALIZED = ["qwen2"]  # we apply NFC, as the tokenizers of Hugging Face do; llama.cpp does not
OTHER_NORMALIZER = ["bert-bge"]  # we normalize as Hugging Face's tokenizers do, and llama.cpp in its own way
# A normal token with such a text is special in llama.cpp. Behind the one of phi-3 llama.cpp removes white space of ASCII only. Texts
# with these tokens are left out.
ENDS = {"qwen2": b"</s>", "qwen35": b"</s>", "aquila": b"<|endoftext|>", "phi-3": b"</s>"}
CHARACTERS, PER_TEXT = 1_000_000, 400

WORDS = ("it's IT'S We'Ll you\u2019re '\u017f 's \u212aelvin na\u00efve caf\u00e9 cafe\u0301 \u1e9e\u00df \u01c5 \ufb01n "
         "HTTPServer camelCase snake_case x86_64 3.14e-10 1,000,000 0xFF $9.99 50% a+b==c->d /*x*/ //y \\n #!/bin <|x|> "
         "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u05e9\u05b8\u05dc\u05d5\u05b9\u05dd \u0928\u092e\u0938\u094d\u0924\u0947 \ud55c\uad6d\uc5b4 "
         "\u1112\u1161\u11ab \u65e5\u672c\u8a9e \u7b80\u4f53 <s> </s> <unk> <|endoftext|> <|im_start|> [INST] <0x41> \u2581").split()
SPACE = "\t\n\r\v\f\x1c\x85\u00a0\u1680\u180e\u2000\u2003\u2009\u200a\u200b\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"
EMOJI = ["\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea",
         "\u2764\ufe0f\u200d\U0001f525", "1\ufe0f\u20e3", "\U0001f3f4\U000e0067\U000e0062\U000e007f", "\u263a\ufe0e", "\U0001fae8"]
# llama.cpp writes U+FFFD for each of these bytes. (It ends the process at code points above U+10FFFF.)
INVALID = [b"\x80", b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98"]


def vocabularies():
    """Returns the files of the vocabularies."""
    folder = common.package_files("llama-cpp-python==0.3.36", "/llama.cpp/models/ggml-vocab-", sources=True)
    return sorted(folder.rglob("ggml-vocab-*.gguf"))


# -- texts of many scripts --


def alphabets():
    """Returns the characters of each script, by the first word of their names, and of each general category."""
    scripts, categories = {}, {}
    for code in range(0x20, 0x110000):
        character = chr(code)
        categories.setdefault(unicodedata.category(character), []).append(character)
        name = unicodedata.name(character, "").split(" ")[0].split("-")[0]
        if name and unicodedata.category(character)[0] in "LMN":
            scripts.setdefault(name, []).append(character)
    del categories["Cs"]
    return [list for list in scripts.values() if len(list) > 9], categories


def piece(r, scripts, categories):
    """Returns a random piece of a text: words of a script, numbers, white space, emoji, a run, or any characters."""
    script, kind = r.choice(scripts), r.randrange(12)
    if kind < 4:
        return " ".join("".join(r.choices(script, k=r.randint(1, 9))) for _ in range(r.randint(1, 6)))
    if kind == 4:
        return "".join(r.choice(categories[r.choice(["Nd", "Nd", "Nl", "No"])]) for _ in range(r.randint(1, 12)))
    if kind == 5:
        return "".join(r.choice([r.choice(SPACE), "  ", "\n\n", "\r\n"]) for _ in range(r.randint(1, 8)))
    if kind == 6:
        return "".join(r.choices(EMOJI, k=r.randint(1, 4)))
    if kind == 7:
        return r.choice(["0", " ", "\n", "\t", "=", "-", "a", "\u3000", "\u00e9", "\u4e00", "\u2581", r.choice(script)]) * r.randint(2, 300)
    if kind < 10:
        return " ".join(r.choices(WORDS, k=r.randint(1, 12)))
    category = [*categories][r.randrange(len(categories))] if kind == 10 else r.choice(["Po", "Sm", "Sc", "Ps", "Pd", "So"])
    return "".join(r.choices(categories[category], k=r.randint(1, 6)))


def texts_of(seed):
    """Returns texts of CHARACTERS in all."""
    r, text, (scripts, categories) = random.Random(seed), [], alphabets()
    count = 0
    while count < CHARACTERS:
        text.append(piece(r, scripts, categories) + r.choice(["", " ", " ", "\n"]))
        count += len(text[-1])
    text = "".join(text)[:CHARACTERS]
    return [text[i:i + PER_TEXT] for i in range(0, CHARACTERS, PER_TEXT)]


def invalid_texts(seed, texts):
    """Returns some of the texts with bytes in them that are not UTF-8, and the same texts with U+FFFD instead."""
    r, invalid, replaced = random.Random(seed), [], []
    for text in texts[::20]:
        parts = [(text[i:i + 20].encode(), r.choice(INVALID)) for i in range(0, len(text), 20)]
        invalid.append(b"".join(part + bytes for part, bytes in parts))
        replaced.append(b"".join(part + "\ufffd".encode() * len(bytes) for part, bytes in parts))
    return invalid, replaced


# -- tokens --


def ids_of(c, path, texts):
    """Returns our tokens of each text, which is bytes; None for a text with a byte that has no token, which we refuse."""
    bytes = np.frombuffer(b"".join(texts), dtype=np.uint8).astype(np.int32)
    result = c.program("gguf", "ids", path, inputs={"bytes": bytes, "lengths": np.array([len(text) for text in texts], dtype=np.int32)})
    counts = result["counts"]
    parts = np.split(result["ids"], np.cumsum(np.maximum(counts, 0))[:-1])
    return [part.tolist() if count >= 0 else None for part, count in zip(parts, counts)]


def their_ids(path):
    """Returns the function that gives llama.cpp's tokens of a text of bytes, and whether it is byte-level BPE."""
    options = llama_cpp.llama_model_default_params()
    options.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
    vocabulary = llama_cpp.llama_model_get_vocab(model)
    buffer = (llama_cpp.llama_token * (16 * PER_TEXT))()

    def ids(text):
        count = llama_cpp.llama_tokenize(vocabulary, text, len(text), buffer, len(buffer), False, True)
        return buffer[:count]

    return ids, llama_cpp.llama_vocab_type(vocabulary) == llama_cpp.LLAMA_VOCAB_TYPE_BPE and "gemma" not in path.name


def compare_files(c, path, name):
    """Compares with the tokens in the file beside the vocabulary."""
    texts = (path.parent / (path.name + ".inp")).read_bytes().decode().split(SEPARATOR)
    lines = (path.parent / (path.name + ".out")).read_text().splitlines()
    texts, lines = zip(*[(text, line) for text, line in zip(texts, lines) if text])
    for text, line, ids in zip(texts, lines, ids_of(c, path, [text.encode() for text in texts])):
        c.check(f"ids of {name}", ids == [int(i) for i in line.split()], repr(text))


def compare_texts(c, path, title, ids, texts, ours):
    """Compares with llama.cpp's tokens of the texts. ours: the texts that we encode."""
    mine, left_out = ids_of(c, path, ours), ENDS.get(path.stem.removeprefix("ggml-vocab-"), b"\xff\xff\xff")
    different = [text for text, list in zip(texts, mine) if list is not None and left_out not in text and list != ids(text)]
    c.check(title, not different, f"{len(texts)} texts, {mine.count(None)} refused, {len(different)} differ {different[:1] or str()}")


def compare(c):
    texts = texts_of(1) if llama_cpp else []
    if llama_cpp:
        llama_cpp.llama_log_set(QUIET, ctypes.c_void_p(0))
    for path in vocabularies():
        name = path.stem.removeprefix("ggml-vocab-")
        c.check("vocabularies load", len(ids_of(c, path, [b"a b"])[0]) > 0, name)
        if (path.parent / (path.name + ".out")).exists():
            compare_files(c, path, name)
        if llama_cpp and name not in OTHER_NORMALIZER:
            ids, byte_level = their_ids(path)
            encoded = [text.encode() for text in texts]
            normal = [NFC().normalize_str(text).encode() for text in texts] if name in NORMALIZED else encoded
            compare_texts(c, path, f"{name}: a million characters", ids, normal, encoded)
            if byte_level and name not in NORMALIZED:
                compare_texts(c, path, f"{name}: invalid UTF-8", ids, *invalid_texts(2, texts))
    c.check("llama.cpp was compared", True, "yes" if llama_cpp else "no: llama-cpp-python is not installed")


if llama_cpp:
    QUIET = llama_cpp.llama_log_callback(lambda level, text, user: None)

if __name__ == "__main__":
    common.main(compare)
