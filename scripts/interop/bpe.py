"""Compares tokenizers with Hugging Face's tokenizers on a corpus of awkward Unicode. Reading, training, encoding and
decoding give the same results, and tokenizers reads our files with the same meaning. transformers opens the saved
files. BPE_IDS=5000000 in the environment compares so many ids of each kind of tokenizer of characters."""

import base64
import collections
import itertools
import json
import math
import os
import pathlib
import random
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import common

SEPARATOR = b"\xff\xfe\xff"
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
CAPITAL, SMALL = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
PATTERNS = {  # from published tokenizers
    "gpt2": "",
    "llama3": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES,
    "qwen2": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES,
    "o200k": rf"[^\r\n\p{{L}}\p{{N}}]?[{CAPITAL}]*[{SMALL}]+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?[{CAPITAL}]+[{SMALL}]*"
    + rf"{CONTRACTIONS}?|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|" + SPACES,
    "deepseek": r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
    + r" ?[\p{P}\p{S}]+[\r\n]*|" + SPACES,
    "han": r"\p{Han}+|[^\s]|\s",
}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
POOLS = [
    [chr(c) for c in range(32, 127)],
    list(" \t\n\r\v\f\x85\xa0\u1680\u180e\u2000\u2003\u2009\u2028\u2029\u202f\u205f\u3000\u200b\ufeff\u200d"),
    [chr(c) for c in range(0x300, 0x370)],
    list("👩‍👩‍👧‍👦🏳️‍🌈👍🏽🇩🇪❤️🧑🏿‍🚀"),
    [chr(c) for c in (*range(0x5D0, 0x5EB), *range(0x621, 0x653))],
    [chr(c) for c in (*range(0x4E00, 0x4F00), *range(0x3040, 0x30FF), *range(0xAC00, 0xAC80))],
    [chr(c) for c in (*range(0x660, 0x66A), *range(0x966, 0x970), *range(0x1D7CE, 0x1D800), 0xB2, 0xBD, 0x2160)],
    ["\0", "\1", "\x1f", "\x7f"],
    ["'s", "'S", "'ſ", "'ll", "'LL", "'re", "'Ve", "'m", "'d", "'t", " ", "  ", "\n\n", "   \n", " \r\n"],
    list("abcdefghij ABC  ") * 3,
    list("the and of in to is that it was for  "),
]


def awkward(random_numbers, length, pools=POOLS):
    """Returns random text with unusual Unicode."""
    out = []
    while len(out) < length:
        if random_numbers.random() < 0.08:
            high = random_numbers.choice([0x110000, 0x3000, 0x20000])
            out.append(chr(random_numbers.randrange(high)))
        else:
            pool = random_numbers.choice(pools)
            out += [random_numbers.choice(pool) for _ in range(random_numbers.randrange(1, 6))]
    return "".join(out).encode("utf-8", "ignore").decode()


def blank(pattern):
    """Returns an untrained byte-level BPE."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.decoder = decoders.ByteLevel()
    if pattern:
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
        level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def learn(pattern, corpus, vocabulary, specials=("<|endoftext|>",), **options):
    tokenizer = blank(pattern)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=list(specials), initial_alphabet=alphabet, show_progress=False, **options
    )
    tokenizer.train_from_iterator([corpus], trainer)
    return tokenizer


def learn_characters(corpus):
    """Trains a BPE of characters with an unknown token."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\s+|[^\s]+"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    options = dict(vocab_size=400, special_tokens=["<unk>"], show_progress=False)
    tokenizer.train_from_iterator([corpus[:800].replace("\0", "")], trainers.BpeTrainer(**options))
    return tokenizer


def learn_word_piece(corpus, vocabulary, **normalizer):
    """Trains WordPiece with the parts of BERT's tokenizer.json. The trainer numbers tokens in another order each time, so
    they are sorted."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(**normalizer)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=vocabulary, special_tokens=specials, show_progress=False)
    tokenizer.train_from_iterator([corpus.replace("\0", "")], trainer)
    learned = sorted(set(tokenizer.get_vocab()) - set(specials))
    tokenizer = edited(tokenizer, model={"vocab": {piece: i for i, piece in enumerate(specials + learned)}})
    around = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    pair = "[CLS] $A [SEP] $B:1 [SEP]:1"
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", pair, around)
    return tokenizer


# -- Unigram --


def metaspace(scheme="always", split=True):
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split}


def count_unigram(texts, size, fallback=False, **parts):
    """Returns Unigram of the most frequent parts of words, with the logarithms of their frequencies in float32; parts are
    those of the file. With fallback there are tokens of bytes."""
    words = collections.Counter(word for text in texts for word in ("\u2581" + text.replace(" ", " \u2581")).split(" "))
    counts = collections.Counter()
    for word, count in words.items():
        for begin, end in itertools.combinations(range(len(word) + 1), 2):
            if end - begin <= 6:
                counts[word[begin:end]] += count
    chosen = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:size]
    total = sum(counts.values())
    vocab = [["<unk>", 0.0], ["<s>", 0.0], ["</s>", 0.0]] + [[f"<0x{byte:02X}>", 0.0] for byte in range(256 * fallback)]
    vocab += [[piece, float(np.float32(math.log(count / total)))] for piece, count in chosen]
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0)], 0, False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer = edited(tokenizer, model={"vocab": vocab, "byte_fallback": fallback}, **parts)
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def compiled_map(rules):
    """Returns a map of characters as SentencePiece compiles it: a double array of the strings, and the replacements."""
    units, text, offsets = {0: 0}, b"", {}
    for replacement in rules.values():
        if replacement not in offsets:
            offsets[replacement] = len(text)
            text += replacement.encode() + b"\0"

    def place(node, prefix):
        children = sorted({key[len(prefix)] for key in encoded if key.startswith(prefix) and len(key) > len(prefix)})
        wanted = children + [0] * (prefix in encoded)
        base = next(b for b in range(1, 1 << 20) if all(b ^ c and b ^ c not in units for c in wanted))
        units.update({base ^ byte: byte for byte in children})
        units[node] |= (node ^ base) << 10
        if prefix in encoded:
            units[node] |= 1 << 8
            units[base] = 1 << 31 | offsets[encoded[prefix]]
        for byte in children:
            place(base ^ byte, prefix + bytes([byte]))

    encoded = {key.encode(): replacement for key, replacement in rules.items()}
    place(0, b"")
    array = b"".join(units.get(i, 0).to_bytes(4, "little") for i in range(max(units) + 256))
    return len(array).to_bytes(4, "little") + array + text


def precompiled(compiled):
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(compiled).decode()}


def edited(tokenizer, **parts):
    """Returns a copy with changed parts of its file; model={...} changes members of the model."""
    file = json.loads(tokenizer.to_str())
    file["model"].update(parts.pop("model", {}))
    file.update(parts)
    return Tokenizer.from_str(json.dumps(file))


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def with_added_tokens(tokenizer, random_numbers):
    tokenizer = Tokenizer.from_str(tokenizer.to_str())
    for content in random_numbers.sample(ADDED, 8):
        flags = [random_numbers.random() < 0.4 for _ in range(3)]
        token = AddedToken(content, lstrip=flags[0], rstrip=flags[1], normalized=flags[2])
        add = tokenizer.add_special_tokens if random_numbers.random() < 0.5 else tokenizer.add_tokens
        add([token])
    return tokenizer


ADDED = ["<a>", "<a><b>", "<b>", "<ab>", "<abc>", "foo", "foobar", " lead", "tail ", "the", "ééé", "<|ü|>"]


def text_with_added_tokens(random_numbers):
    parts = []
    for _ in range(random_numbers.randrange(1, 8)):
        token = random_numbers.choice(ADDED)
        spaces = random_numbers.choice([" ", "  ", "\u3000", "\u180e", "\x85", "\n", "\t "])
        parts.append(random_numbers.choice([token, token, token[:3], spaces, awkward(random_numbers, 5)]))
    return "".join(parts)


def template(tokenizer):
    """Returns a copy that adds tokens before and after every text, as in Llama's files."""
    specials = {name: {"id": name, "ids": ids, "tokens": [name] * len(ids)} for name, ids in (("<s>", [0, 3]), ("</s>", [5]))}
    begin, end = ({"SpecialToken": {"id": name, "type_id": 0}} for name in ("<s>", "</s>"))
    text = {"Sequence": {"id": "A", "type_id": 0}}
    single = {"type": "TemplateProcessing", "single": [begin, text, end], "pair": [text, text], "special_tokens": specials}
    return edited(tokenizer, post_processor={"type": "Sequence", "processors": [BYTE_LEVEL, single]})


def variants(tokenizer, random_numbers):
    """Yields (name, tokenizer) with other settings that files can have."""
    merges = [" ".join(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]
    yield "ignore_merges", edited(tokenizer, model={"ignore_merges": True})
    yield "merges as lines", edited(tokenizer, model={"merges": merges})
    yield "a space before", edited(tokenizer, pre_tokenizer=BYTE_LEVEL | {"add_prefix_space": True, "use_regex": True})
    yield "no pattern", edited(tokenizer, pre_tokenizer=BYTE_LEVEL)
    for name, parts in {
        "gaps removed": [split(r"\p{L}+|\p{N}", "Removed", True)],
        "matches removed": [split(r"\s+", "Removed")],
        "strings": [split("a.", kind="String"), split("[", kind="String")],
        "digits": [{"type": "Digits", "individual_digits": True}],
        "numbers": [{"type": "Digits", "individual_digits": False}],
        "three splits": [split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(PATTERNS["deepseek"])],
        "looking around": [split(r"(?<=\p{L})\p{N}+(?=\s|\p{L})|\S+?(?=a)|(?>\s+)x|[\p{Lu}\d_\-]+|\.{2,}?|\u00e9++")],
    }.items():
        yield name, edited(tokenizer, pre_tokenizer=sequence(*parts, BYTE_LEVEL))
    for i in range(3):
        yield f"added tokens {i}", with_added_tokens(tokenizer, random_numbers)


# -- kinds of tokenizers: normalizers, Metaspace, byte fallback --

MORE_POOLS = POOLS + [
    [chr(c) for c in (*range(0xC0, 0x180), *range(0x1E00, 0x1F00))],
    [chr(c) for c in (*range(0x1100, 0x1200), *range(0xAC00, 0xAC60))],
    [chr(c) for c in (*range(0x900, 0x980), *range(0xB80, 0xBFF), *range(0xD00, 0xD7F))],
    [chr(c) for c in (*range(0xFB00, 0xFB50), *range(0xFF00, 0xFFEF), *range(0x2460, 0x2500), *range(0x3300, 0x3400))],
    # the reference and utf8proc have different versions of Unicode
    list("\u1abf\u08d3\u08d4\U00016ff0\U0001e08f\U00011938\U00011930\U00011935\U000105d2\u0307\u32ff\ua7f2\u1cf2")
    + list("\U000111c9\ua7cb\U00016ea0\u0130\u03a3"),
    list("\u2581 \u2581 "),
    list("AÉÀÇÑÖ "),
]
NORMALIZED = ADDED + ["Foo X", "ÉÉ", "e\u0301", "\u2581x", "<0x41>", "\ufb01"]


def learn_kind(normalizer, pre_tokenizer, decoder, texts, fallback=True, size=900, **options):
    """Trains a BPE of characters. With byte fallback 256 of its tokens are bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=options.pop("fuse_unk", True), byte_fallback=fallback))
    tokenizer.decoder = decoder
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256 * fallback)]
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=specials, show_progress=False, **options)
    tokenizer.train_from_iterator(texts, trainer)
    file = json.loads(tokenizer.to_str())
    added = [token for token in file["added_tokens"] if not token["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(file | {"added_tokens": added}))


def kinds(texts, corpus):
    """Yields (name, tokenizer)."""
    n, p = normalizers, pre_tokenizers
    gemma = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    llama = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    llama = decoders.Sequence(llama)
    legacy = n.Sequence([n.Prepend("\u2581"), n.Replace(" ", "\u2581")])
    plain = decoders.Metaspace()
    yield "llama2", learn_kind(legacy, None, llama, texts)
    words = learn_kind(legacy, p.Metaspace(prepend_scheme="never"), llama, texts)
    yield "llama2, no merge across words", edited(words, pre_tokenizer=None)
    yield "gemma", learn_kind(n.Replace(" ", "\u2581"), p.Split(" ", "merged_with_previous"), gemma, texts)
    yield "mistral", learn_kind(None, p.Metaspace(prepend_scheme="first", split=False), llama, texts)
    yield "metaspace", learn_kind(None, p.Metaspace(), plain, texts, False)
    never = decoders.Metaspace(prepend_scheme="never")
    yield "never", learn_kind(None, p.Metaspace(prepend_scheme="never"), never, texts, False, fuse_unk=False)
    lower = n.Sequence([n.NFKC(), n.Lowercase(), n.Strip()])
    first = p.Metaspace(prepend_scheme="first")
    yield "lower case", learn_kind(lower, first, plain, texts, limit_alphabet=200)
    accents = n.Sequence([n.NFD(), n.StripAccents(), n.Lowercase()])
    yield "without accents", learn_kind(accents, first, plain, texts, False, limit_alphabet=300)
    replaced = [n.Replace(Regex(r"\s{2,}"), "\u2581\u2581"), n.Replace("a", "AB"), n.Replace("\u2581\u2581", "x")]
    digits = p.Sequence([p.Digits(True), first])
    yield "replaced", learn_kind(n.Sequence([n.NFKD(), *replaced]), digits, llama, texts)
    for behavior in "contiguous", "merged_with_previous", "merged_with_next", "removed", "isolated":
        for invert in False, True:
            parts = p.Sequence([p.Split(Regex(r"\s|\p{N}|[aeiou]"), behavior, invert), first])
            yield f"{behavior}, {invert}", learn_kind(n.NFC(), parts, gemma, texts, size=700)
    for name, normalizer in ("qwen2", n.NFC()), ("gpt2", n.NFKC()), ("llama3", n.Sequence([n.Lowercase(), n.NFD()])):
        tokenizer = learn(PATTERNS[name], corpus, 1500)
        tokenizer.normalizer = normalizer
        yield f"bytes, {name}", Tokenizer.from_str(tokenizer.to_str())


def with_normalized_tokens(tokenizer, random_numbers):
    """Returns a copy with added tokens; no two are found by the same text."""
    tokenizer, found = Tokenizer.from_str(tokenizer.to_str()), set()
    for content in random_numbers.sample(NORMALIZED, 9):
        flags = [random_numbers.random() < 0.4 for _ in range(4)]
        normal = tokenizer.normalizer.normalize_str(content) if tokenizer.normalizer and flags[2] else content
        if (normal, flags[2]) in found:
            continue
        found.add((normal, flags[2]))
        token = AddedToken(content, lstrip=flags[0], rstrip=flags[1], normalized=flags[2], single_word=flags[3])
        (tokenizer.add_special_tokens if random_numbers.random() < 0.5 else tokenizer.add_tokens)([token])
    return tokenizer


def text_with_normalized_tokens(random_numbers):
    parts = []
    for _ in range(random_numbers.randrange(1, 8)):
        token, between = random_numbers.choice(NORMALIZED), random_numbers.choice(list(" \u3000\na1_\u2581"))
        text = awkward(random_numbers, 5, MORE_POOLS)
        parts.append(random_numbers.choice([token, token, token[:3], between, text]))
    return "".join(parts)


def same_text(c, ours, title, tokenizer, texts, random_numbers):
    """Compares the decoded text of tokens, at once and in a stream. For bytes that are not UTF-8 the reference has
    U+FFFD in its own way."""
    path, file = ours.folder / "theirs.json", ours.folder / "ids"
    tokenizer.save(str(path))
    rows = [ids for text in texts if (ids := tokenizer.encode(text).ids)]
    size = tokenizer.get_vocab_size()
    rows += [[random_numbers.randrange(size) for _ in range(random_numbers.randrange(1, 8))] for _ in range(300)]
    file.write_text("".join(" ".join(map(str, ids)) + "\n" for ids in rows))
    theirs = [tokenizer.decode(ids, skip_special_tokens=False) for ids in rows]
    for command in "decode", "stream":
        mine = c.run(ours.driver, command, path, file, text=False).stdout.split(SEPARATOR)[:-1]
        mine = [text.decode("utf-8", "replace") for text in mine]
        kept = [i for i, text in enumerate(theirs) if "\ufffd" not in text]
        chosen = ([each[i] for i in kept] for each in (rows, mine, theirs))
        same(c, f"{title}, {command}", *chosen)


def compare_kinds(c, ours, random_numbers, english):
    corpus = awkward(random_numbers, 30000, MORE_POOLS) + english
    lines = [english[i : i + 200] for i in range(0, len(english), 200)]
    some = [english, awkward(random_numbers, 20000, MORE_POOLS).replace("\0", "")] + lines
    texts = [awkward(random_numbers, random_numbers.randrange(1, 60), MORE_POOLS) for _ in range(600)]
    texts += ["", " ", "  ", "a", "\u2581", "\u2581\u2581 a", " \u2581a", "\n", "a" * 3000, english.replace(" ", "  ")]
    more = texts[:-2] + [text_with_normalized_tokens(random_numbers) for _ in range(600)]
    wanted = int(os.environ.get("BPE_IDS", "0"))
    for name, tokenizer in kinds(some, corpus):
        same_tokens(c, ours, name, tokenizer, texts)
        same_text(c, ours, name, tokenizer, texts[:300], random_numbers)
        for i in range(2):
            changed = with_normalized_tokens(tokenizer, random_numbers)
            same_tokens(c, ours, f"{name}, added tokens {i}", changed, more)
            if not name.startswith("bytes"):  # there the reference takes characters of added tokens for bytes
                same_text(c, ours, f"{name}, added tokens {i}", changed, more[-300:], random_numbers)
        count = 0
        while count < wanted:
            large = [awkward(random_numbers, 4000, MORE_POOLS) for _ in range(100)]
            count += sum(len(tokenizer.encode(text).ids) for text in large)
            same_tokens(c, ours, f"{name}, {count} ids", tokenizer, large)


class Ours:
    """Our side: runs the program tokenizer in its own folder."""

    def __init__(self, c, folder):
        self.c, self.folder = c, pathlib.Path(folder)
        self.driver = c.build / "scripts" / "interop" / "tokenizer"
        self.seconds = 0.0

    def run(self, *arguments):
        run = self.c.run(self.driver, *arguments, text=False)
        self.seconds = float(run.stderr or 0)
        return run.stdout.decode()

    def encode(self, path, texts, command="encode"):
        file = self.folder / "texts"
        file.write_bytes(SEPARATOR.join(text.encode() for text in texts))
        lines = self.run(command, path, file).split("\n")[:-1]
        return [line if line.startswith("error") else [int(word) for word in line.split()] for line in lines]

    def learn(self, pattern, corpus, vocabulary, specials=("<|endoftext|>",), min_frequency=0, max_token_length=0):
        (self.folder / "corpus").write_bytes(corpus.encode())
        numbers = vocabulary, min_frequency, max_token_length
        self.run("train", self.folder, *numbers, pattern, self.folder / "corpus", *specials)
        return Tokenizer.from_file(str(self.folder / "tokenizer.json"))


def same(c, title, texts, ours, theirs):
    """Checks that the results are equal for every text; shows the first difference."""
    bad = [(text, mine, other) for text, mine, other in zip(texts, ours, theirs, strict=True) if mine != other]
    detail = f"{len(texts)} texts"
    if bad:
        detail = f"{len(bad)} of {detail}, the first {ascii(bad[0][0])}: {bad[0][1]}, theirs {bad[0][2]}"
    c.check(title, not bad, detail)


def same_tokens(c, ours, title, tokenizer, texts, document=False):
    """Compares our tokens, from the reference's file, with the reference's; also the reference's from the file that we
    save."""
    path, again = ours.folder / "theirs.json", ours.folder / "again"
    tokenizer.save(str(path))
    again.mkdir(exist_ok=True)
    ours.run("again", path, again)
    theirs = [tokenizer.encode(text, add_special_tokens=document).ids for text in texts]
    written = Tokenizer.from_file(str(again / "tokenizer.json"))
    same(c, title, texts, ours.encode(path, texts, "document" if document else "encode"), theirs)
    same(c, f"{title}, written", texts, [written.encode(text, add_special_tokens=document).ids for text in texts], theirs)


def many_tokens(c, ours, title, tokenizer, random_numbers, wanted, pools=POOLS):
    """Compares the tokens of awkward texts until there are `wanted` ids."""
    count = 0
    while count < wanted:
        texts = [awkward(random_numbers, 400, pools) for _ in range(min(2000, 1 + wanted // 400))]
        count += sum(len(tokenizer.encode(text).ids) for text in texts)
        same_tokens(c, ours, f"{title}, in total", tokenizer, texts)
    c.check(f"{title}: number of ids", True, f"{count} ids")


def whole_texts(path):
    """Returns the tokenizer of a published file, without its truncation and padding."""
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def same_learning(c, ours, title, pattern, corpus, vocabulary, specials=("<|endoftext|>",), **options):
    made = ours.learn(pattern, corpus, vocabulary, specials, **options)
    expected = learn(pattern, corpus, vocabulary, specials, **options)
    mine, theirs = json.loads(made.to_str()), json.loads(expected.to_str())
    for part in "vocab", "merges":
        c.check(f"{title}: {part}", mine["model"][part] == theirs["model"][part])
    c.check(f"{title}: added tokens", mine["added_tokens"] == theirs["added_tokens"])
    return expected


def plain_ones(c, ours, corpus):
    path = ours.folder / "tokenizer.json"
    (ours.folder / "corpus").write_bytes(corpus.replace("\0", "").encode())
    texts = [corpus.replace("\0", "")[i : i + 50] for i in range(0, 5000, 50)]
    for command in ["characters", ours.folder, ours.folder / "corpus"], ["bytes", ours.folder]:
        ours.run(*command)
        tokenizer = Tokenizer.from_file(str(path))
        tokens = ours.encode(path, texts)
        same(c, command[0], texts, tokens, [tokenizer.encode(text).ids for text in texts])
        same(c, f"{command[0]}, decoded", texts, texts, [tokenizer.decode(ids) for ids in tokens])


def opened_by_transformers(c, ours, corpus):
    from transformers import AutoTokenizer

    texts = [corpus[i : i + 50].replace("\0", "") for i in range(0, 2000, 50)]
    (ours.folder / "corpus").write_bytes("".join(texts).encode())
    (ours.folder / "config.json").write_text('{"model_type": "gpt2"}')
    train = ["train", ours.folder, 600, 0, 0, "", ours.folder / "corpus", "<|endoftext|>"]
    for command in train, ["characters", ours.folder, ours.folder / "corpus"], ["bytes", ours.folder]:
        ours.run(*command)
        tokenizer = AutoTokenizer.from_pretrained(ours.folder)
        tokens, title = ours.encode(ours.folder / "tokenizer.json", texts), f"{command[0]}, opened by transformers"
        same(c, title, texts, tokens, [tokenizer(text)["input_ids"] for text in texts])
        same(c, f"{title}, decoded", texts, texts, [tokenizer.decode(ids) for ids in tokens])


def compare_speed(c, ours, name, tokenizer, corpus, rounds):
    """Compares the speed of encoding a text on one thread. Text that occurs again is faster, in both."""
    path, mine, theirs = ours.folder / "theirs.json", [], []
    tokenizer.save(str(path))
    for _ in range(rounds):
        start = time.process_time()
        tokenizer.encode(corpus)
        theirs.append(time.process_time() - start)
        ours.encode(path, [corpus])
        mine.append(ours.seconds)
    ratio = min(theirs) / min(mine)
    detail = f"{ratio:.1f} times the reference's speed ({1 / min(mine):.1f} MB/s)"
    c.check(f"{name}: encoding at the reference's speed or faster", ratio >= 1, detail)


def million(english):
    """Repeats a text until it has a million characters."""
    return (english * (1 + 1000000 // len(english)))[:1000000]


def speed(c, ours, english):
    """Compares the speed of several tokenizers."""
    lines = [english[i : i + 200] for i in range(0, len(english), 200)]
    made = dict(kinds(lines, english))
    corpus = million(english)
    chosen = {name: made[name] for name in ("llama2", "gemma", "mistral", "metaspace", "bytes, qwen2")}
    for name, tokenizer in {"gpt2": learn("", corpus, 8192), **chosen}.items():
        compare_speed(c, ours, name, tokenizer, corpus, 3)


def every_character():
    """Returns texts that have every character, but few of those that Unicode has not assigned."""
    codes = [*range(0xD800), *range(0xE000, 0x33000), *range(0x33000, 0xE0000, 97), *range(0xE0000, 0xE0200)]
    return ["".join(f"{chr(code)} a{chr(code)}1" for code in codes[i : i + 5000]) for i in range(0, len(codes), 5000)]


def compare(c):
    random_numbers = random.Random(int(os.environ.get("BPE_SEED", "1")))
    english = (pathlib.Path(__file__).parent.parent.parent / "ARCHITECTURE.md").read_text()
    corpus = awkward(random_numbers, 60000) + english
    texts = [awkward(random_numbers, random_numbers.randrange(1, 60)) for _ in range(500)]
    texts += ["", " ", "\n", "a<|endoftext|>b<|endoftext|><|endof", "a" * 3000, corpus]
    every = every_character()
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(c, folder)
        for name, pattern in PATTERNS.items():
            tokenizer = same_learning(c, ours, f"learning, {name}", pattern, corpus, 1500)
            same_tokens(c, ours, f"tokens, {name}", tokenizer, texts)
            same_tokens(c, ours, f"all characters, {name}", tokenizer, every)
        for length in 1, 2, 3, 4, 6, 10:
            options = dict(min_frequency=length // 3, max_token_length=length)
            same_learning(c, ours, "learning short tokens", PATTERNS["llama3"], corpus[:50000], 2500, **options)
        specials = "<pad>", "the", "a", "<|ab cd|>", "<pad>"
        same_learning(c, ours, "learning, odd special tokens", "", "the then them " * 30 + corpus[:5000], 600, specials)
        same_learning(c, ours, "learning all possible merges", "", corpus[:3000], 100000)
        base = learn(PATTERNS["llama3"], corpus, 1500)
        more = texts[:-1] + [text_with_added_tokens(random_numbers) for _ in range(500)]
        for name, tokenizer in variants(base, random_numbers):
            same_tokens(c, ours, name, tokenizer, more)
        same_tokens(c, ours, "a template", template(base), more)
        same_tokens(c, ours, "a template, encoding a document", template(base), more, document=True)
        same_tokens(c, ours, "BPE of characters", learn_characters(corpus), [text.replace("\0", "") for text in texts])
        plain_ones(c, ours, corpus)
        opened_by_transformers(c, ours, corpus)
        compare_kinds(c, ours, random_numbers, english)
        speed(c, ours, english)


def fixtures(folder):
    """Writes small tokenizers that the reference trained on corpus, texts, and their tokens."""
    random_numbers = random.Random(2)
    corpus = awkward(random_numbers, 4000)
    texts = [awkward(random_numbers, random_numbers.randrange(1, 30)) for _ in range(60)]
    texts += [text_with_added_tokens(random_numbers) for _ in range(40)] + ["", "a" * 300, "a<|endoftext|>b"]
    llama = edited(learn(PATTERNS["llama3"], corpus, 360), model={"ignore_merges": True})
    tokenizers = {
        "gpt2": learn("", corpus, 400),
        "llama3": template(with_added_tokens(llama, random_numbers)),
        "o200k": learn(PATTERNS["o200k"], corpus, 330, ("<s>", "</s>")),
        "characters": learn_characters(corpus),
    }
    some = [corpus.replace("\0", "")] + [corpus[i : i + 50].replace("\0", "") for i in range(0, 2000, 50)]
    made = dict(kinds(some, corpus[:2000]))
    for name in "llama2", "gemma", "mistral", "metaspace":
        tokenizers[name] = with_normalized_tokens(made[name], random_numbers)
    tokenizers["bert"] = learn_word_piece(corpus, 400)
    tokenizers["qwen2"] = with_normalized_tokens(made["bytes, qwen2"], random_numbers)
    rules = {"a": "xyz", "ab": "", "\u00e9": "e", "e\u0301": "E", "\n": " ", "\u0301": "", "\u3000": " ", "\ufb01": "fi"}
    parts = dict(normalizer=precompiled(compiled_map(rules)), pre_tokenizer=metaspace("first"))
    tokenizers["unigram"] = with_normalized_tokens(count_unigram(some, 300, **parts), random_numbers)
    (folder / "corpus").write_bytes(corpus.encode())
    (folder / "texts").write_bytes(SEPARATOR.join(text.encode() for text in texts))
    for name, tokenizer in tokenizers.items():
        (folder / f"{name}.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False))
        lines = [" ".join(map(str, tokenizer.encode(text).ids)) for text in texts]
        (folder / f"{name}.tokens").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    common.main(compare, fixtures)
