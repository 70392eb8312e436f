"""Compares WordPiece with Hugging Face's tokenizers on awkward Unicode: BERT's normalizer with each of its options, its
pre-tokenizer, the model, the tokens around a text, and decoding. tokenizers reads our files with the same meaning.
Vocabularies that both train are compared. WORD_PIECE_IDS=5000000 in the environment compares so many ids. WORD_PIECE_FILE names a
tokenizer.json that is compared too, and WORD_PIECE_CORPUS a text for training."""

import itertools
import json
import os
import pathlib
import random
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

from tokenizers import BertWordPieceTokenizer, Tokenizer
from transformers import AutoTokenizer

import common
from bpe import SEPARATOR, Ours, awkward, compare_speed, edited, every_character, learn_word_piece, many_tokens, million, same
from bpe import same_tokens, whole_texts


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


SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def train_ours(ours, corpus, vocabulary, min_frequency, limit, cased, specials=()):
    """Returns the tokenizer that tokenizers reads from our file, and the seconds of training."""
    (ours.folder / "corpus").write_bytes(corpus.encode())
    ours.run("word_piece", ours.folder, vocabulary, min_frequency, limit, int(cased), ours.folder / "corpus", *specials)
    return Tokenizer.from_file(str(ours.folder / "tokenizer.json")), ours.seconds


def train_theirs(corpus, vocabulary, min_frequency, limit, cased, specials=()):
    """Returns the tokenizer that the reference trains, and the seconds."""
    tokenizer = BertWordPieceTokenizer(lowercase=not cased)
    options = dict(vocab_size=vocabulary, min_frequency=min_frequency, limit_alphabet=limit, show_progress=False)
    start = time.process_time()
    tokenizer.train_from_iterator(corpus.split("\n"), special_tokens=SPECIALS + list(specials), **options)
    return tokenizer, time.process_time() - start


def same_training(c, ours, title, corpus, *options):
    """Compares the vocabularies and the ids of texts. The reference numbers the characters behind ## by a hash table, so its
    choice among equally frequent pairs differs in each run. If these characters are special tokens, their order is given, and
    the vocabularies must be equal. Without that, they may differ by little more than those of two of its runs."""
    mine, theirs, seconds = [], [], []
    for _ in range(3):
        mine.append(train_ours(ours, corpus, *options))
        theirs.append(train_theirs(corpus, *options))
    tokenizer, vocabulary = mine[0][0], mine[0][0].get_vocab()
    runs = [other.get_vocab() for other, _ in theirs]
    between, from_ours = (max(len(set(a) - set(b)) for a in group for b in runs) for group in (runs, [vocabulary]))
    c.check(f"{title}: tokens that differ", from_ours <= 2 * between + len(vocabulary) // 200, f"{from_ours} of {len(vocabulary)}, between their runs {between}")
    faster = min(taken for _, taken in theirs) / min(taken for _, taken in mine)
    c.check(f"{title}: speed", faster > 1, f"{faster:.1f} times theirs, {min(taken for _, taken in mine):.3f} s")
    inside = sorted((token for token in vocabulary if len(token) == 3 and token[:2] == "##"), key=vocabulary.get)
    given, others = train_ours(ours, corpus, *options, inside)[0].get_vocab(), train_theirs(corpus, *options, inside)[0].get_vocab()
    c.check(f"{title}: ids with a given order", given == others, f"{len(given)}, {len(set(given) - set(others))} differ")
    return tokenizer


def training(c, ours, corpus, texts):
    """Compares the training: English with and without capital letters, and mixed scripts. Equally frequent characters must not
    be at the limit of the alphabet."""
    given = os.environ.get("WORD_PIECE_CORPUS")
    english = pathlib.Path(given).read_text() if given else "".join(path.read_text() for path in sorted((common.ROOT / "docs").rglob("*.md")))
    tokenizer = same_training(c, ours, "training, English", english, 8000, 2, 1000, False)
    same_tokens(c, ours, "trained on English", tokenizer, texts, document=True)
    train_ours(ours, english, 8000, 2, 1000, False)
    opened = AutoTokenizer.from_pretrained(ours.folder)
    names = [opened.pad_token, opened.unk_token, opened.cls_token, opened.sep_token, opened.mask_token]
    c.check("opened by transformers", names == SPECIALS and opened(english)["input_ids"] == tokenizer.encode(english).ids, str(names))
    same_training(c, ours, "training, cased", english, 3000, 5, 40, True)
    tokenizer = same_training(c, ours, "training, mixed scripts", corpus.replace("\0", ""), 8000, 1, 100000, False)
    same_tokens(c, ours, "trained on mixed scripts", tokenizer, texts, document=True)


def compare(c):
    random_numbers = random.Random(int(os.environ.get("WORD_PIECE_SEED", "1")))
    wanted = int(os.environ.get("WORD_PIECE_IDS", "50000"))
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
        many_tokens(c, ours, "mixed scripts", tokenizer, random_numbers, wanted)
        if path := os.environ.get("WORD_PIECE_FILE"):
            published = whole_texts(path)
            many_tokens(c, ours, "the published file", published, random_numbers, wanted)
            compare_speed(c, ours, "the published file", published, million(english), 5)
        training(c, ours, corpus, texts)
        compare_speed(c, ours, "learned", tokenizer, million(english), 5)


if __name__ == "__main__":
    common.main(compare)
