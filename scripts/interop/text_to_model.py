"""Opens models that programs/language_model/language_model.c trained and exported with transformers: the tokens and the loss are the
same. Also fine-tunes a model that transformers saved with the example."""

import pathlib
import re
import tempfile

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel

import common

LENGTH = 16
SHAPE = "--layers 2 --heads 2 --width 32".split()  # for a new model
SMALL = "--recipe nanogpt --batch 4 --warmup 5 --steps 40 --eval-every 20 --quiet --sample-tokens 0".split()


def loss_of(model, ids):
    """Returns the mean loss over windows of LENGTH tokens. Every token except the first is a target once."""
    total = 0.0
    with torch.no_grad():
        for begin in range(0, len(ids) - 1, LENGTH):
            window = torch.tensor(ids[begin : begin + LENGTH + 1])
            logits = model(window[None, :-1]).logits[0]
            total += torch.nn.functional.cross_entropy(logits, window[1:], reduction="sum").item()
    return total / (len(ids) - 1)


def field(run, name):
    return float(re.findall(rf" {name}=(\S+)", run.stdout)[-1])


def compare(c):
    program = c.build / "programs" / "language_model"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        text = (common.ROOT / "README.md").read_text()
        (folder / "text").write_text(text)
        part = text[-2000:]
        (folder / "part").write_text(part)
        for name, options in {
            "characters": [],
            "bytes": ["--tokenizer", "bytes"],
            "bpe, Llama": ["--tokenizer", "bpe", "--vocabulary", "400", "--llama", "--kv-heads", "1"],
        }.items():
            run, exported = folder / name, folder / f"{name} exported"
            c.run(program, "train", folder / "text", run, "--length", LENGTH, *SHAPE, *SMALL, *options)
            c.run(program, "export", run, exported)
            tokenizer = AutoTokenizer.from_pretrained(exported)
            ids = tokenizer(part)["input_ids"]
            c.check("decoding the tokens returns the text", tokenizer.decode(ids) == part, name)
            ours = c.run(program, "eval", run, "--text", folder / "part")
            c.check("the same number of tokens", field(ours, "tokens") == len(ids) - 1, name)
            model = AutoModelForCausalLM.from_pretrained(exported)
            c.close("loss of an exported model", 1e-4, field(ours, "loss"), loss_of(model, ids), name)

        # Save that tokenizer with a new model of transformers. Import it without training, then train it with a frozen
        # part.
        torch.manual_seed(1)
        configuration = GPT2Config(vocab_size=len(AutoTokenizer.from_pretrained(folder / "characters exported")))
        configuration.n_layer, configuration.n_head, configuration.n_embd, configuration.n_positions = 2, 2, 32, 64
        theirs = GPT2LMHeadModel(configuration).eval()
        theirs.save_pretrained(folder / "theirs")
        AutoTokenizer.from_pretrained(folder / "characters exported").save_pretrained(folder / "theirs")
        start = ["train", folder / "text", folder / "tuned", "--from", folder / "theirs", "--length", LENGTH, *SMALL, "--lr", 0.003]
        c.run(program, *start, "--steps", 0)
        ids = AutoTokenizer.from_pretrained(folder / "theirs")(part)["input_ids"]
        ours = c.run(program, "eval", folder / "tuned", "--text", folder / "part")
        before = field(ours, "loss")
        c.close("loss of a model that transformers saved", 1e-4, before, loss_of(theirs, ids))
        c.run(program, *start, "--force", "--freeze", "embedding.*")
        c.run(program, "export", folder / "tuned", folder / "tuned exported")
        tuned = AutoModelForCausalLM.from_pretrained(folder / "tuned exported")
        c.check("fine-tuning helps", loss_of(tuned, ids) < before - 0.1)
        same = torch.equal(tuned.transformer.wte.weight, theirs.transformer.wte.weight)
        c.check("frozen parameters do not change", same)
        c.check("other parameters change", not torch.equal(tuned.transformer.wpe.weight, theirs.transformer.wpe.weight))


if __name__ == "__main__":
    common.main(compare)
