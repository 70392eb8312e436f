"""Compares WordPiece with Hugging Face's tokenizers on awkward Unicode: BERT's normalizer with each of its options, its
pre-tokenizer, the model, the tokens around a text, and decoding. tokenizers reads our files with the same meaning.
WORD_PIECE_IDS=5000000 in the environment compares so many ids. WORD_PIECE_FILE names a tokenizer.json that is compared
too."""

import itertools
import json
import os
import pathlib
import random
import tempfile

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

from tokenizers import Tokenizer

import common
from bpe import SEPARATOR, Ours, awkward, compare_speed, edited, every_character, learn_word_piece, million, same, same_tokens


def some_texts(random_numbers, count):
    texts = [awkward(random_numbers, random_numbers.randrange(1, 60)) for _ in range(count)]
    return texts + ["", " ", "\n", "[CLS]a[MASK]b [SEP]", "a" * 100, "a" * 101, "é" * 100, "\u4e00" * 101, "can't . don't"]


def same_texts(c, ours, title, tokenizer, texts):
    """Compares the texts of tokens, with special ones."""
    path, file = ours.folder / "theirs.json", ours.folder / "ids"
    tokenizer.save(str(path))
    ids = [tokenizer.encode(text).ids for text in texts]
    ids += [line[at:] for line in ids for at in (1, 2)]
    file.write_text("".join(" ".join(map(str, line)) + "\n" for line in ids))
    for command in "decode", "stream":
        run = c.run(ours.driver, command, path, file, text=False)
        mine = [text.decode() for text in run.stdout.split(SEPARATOR)[:-1]]
        same(c, f"{title}, {command}", ids, mine, [tokenizer.decode(line, skip_special_tokens=False) for line in ids])


def many(c, ours, title, tokenizer, random_numbers):
    """Compares WORD_PIECE_IDS ids."""
    wanted, count = int(os.environ.get("WORD_PIECE_IDS", "50000")), 0
    while count < wanted:
        texts = [awkward(random_numbers, 400) for _ in range(min(2000, 1 + wanted // 400))]
        count += sum(len(tokenizer.encode(text).ids) for text in texts)
        same_tokens(c, ours, f"{title}, in total", tokenizer, texts)
    c.check(f"{title}: number of ids", True, f"{count} ids")


def compare(c):
    random_numbers = random.Random(int(os.environ.get("WORD_PIECE_SEED", "1")))
    english = (pathlib.Path(__file__).parent.parent.parent / "ARCHITECTURE.md").read_text()
    corpus = awkward(random_numbers, 60000) + english
    texts = some_texts(random_numbers, 500)
    every = every_character()
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(c, folder)
        names = "clean_text", "handle_chinese_chars", "lowercase", "strip_accents"
        for flags in itertools.product((True, False), (True, False), (True, False), (True, False, None)):
            normalizer = dict(zip(names, flags, strict=True))
            tokenizer = learn_word_piece(corpus, 1500, **normalizer)
            # A vocabulary of every character shows what becomes of it. (Our tokens have no NUL.)
            vocabulary = dict(json.loads(tokenizer.to_str())["model"]["vocab"])
            for text in every if normalizer["strip_accents"] is None else []:
                for character in tokenizer.normalizer.normalize_str(text).replace("\0", ""):
                    for piece in character, "##" + character:
                        vocabulary.setdefault(piece, len(vocabulary))
            tokenizer = edited(tokenizer, model={"vocab": vocabulary})
            same_tokens(c, ours, "options of the normalizer", tokenizer, texts)
            same_tokens(c, ours, "all characters", tokenizer, every)
        tokenizer = learn_word_piece(corpus, 3000)
        same_tokens(c, ours, "a document", tokenizer, texts, document=True)
        bert = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
        same_tokens(c, ours, "BertProcessing", edited(tokenizer, post_processor=bert), texts, document=True)
        for model in {"max_input_chars_per_word": 5}, {"continuing_subword_prefix": ""}, {"continuing_subword_prefix": "ab"}:
            same_tokens(c, ours, "options of the model", edited(tokenizer, model=model), texts)
        same_texts(c, ours, "decoded", tokenizer, texts)
        plain = {"type": "WordPiece", "prefix": "##", "cleanup": False}
        same_texts(c, ours, "decoded without cleanup", edited(tokenizer, decoder=plain), texts)
        many(c, ours, "mixed scripts", tokenizer, random_numbers)
        if path := os.environ.get("WORD_PIECE_FILE"):
            published = Tokenizer.from_file(path)
            published.no_truncation()
            published.no_padding()
            many(c, ours, "the published file", published, random_numbers)
            compare_speed(c, ours, "the published file", published, million(english), 5)
        compare_speed(c, ours, "learned", tokenizer, million(english), 5)


if __name__ == "__main__":
    common.main(compare)
