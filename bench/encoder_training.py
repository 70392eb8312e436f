"""encoder_training.py PROGRAM MODEL [--steps N] [--rounds N] [--threads N]: tunes a sentence-transformer on pairs with scores, by the program
`encoder` and by sentence-transformers with PyTorch, and compares the losses of all steps and the times. Both have the same examples in the
same order, CosineSimilarityLoss, AdamW with a linear schedule, and no dropout. The rounds of both alternate.

The pairs are runs of words of a text, with random scores. Their lengths are those of the STS benchmark: 14 tokens on average.

--classify: instead, classifies texts of 128 tokens, beside transformers. New heads have other numbers, so only the times are compared.
--shape FOLDER: before that, writes a BERT with the shape of bert-base-uncased and random weights, and MODEL's tokenizer, to this folder.
Needs torch, transformers 5 and sentence-transformers 5 or later."""

import argparse
import csv
import json
import math
import pathlib
import random
import statistics
import subprocess
import tempfile
import time

BATCH, RATE = 16, 2e-5


def make_pairs(count):
    """Returns pairs of texts with scores."""
    generator = random.Random(1)
    words = [word for word in (pathlib.Path(__file__).parent.parent / "README.md").read_text().split() if word.isalpha()]

    def text():
        length = max(4, round(generator.gauss(10.5, 3.5)))
        return " ".join(generator.choices(words, k=length))

    return [(text(), text(), round(generator.random(), 2)) for _ in range(count)]


def make_texts(count):
    """Returns texts of more than 128 tokens with labels."""
    generator = random.Random(1)
    words = [word for word in (pathlib.Path(__file__).parent.parent / "README.md").read_text().split() if word.isalpha()]
    return [(" ".join(generator.choices(words, k=130)), generator.choice(["red", "blue"])) for _ in range(count)]


def make_shape(model, folder):
    """Writes a BERT-base with random weights."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    BertModel(BertConfig()).save_pretrained(folder)
    AutoTokenizer.from_pretrained(model).save_pretrained(folder)


def run_program(program, model, examples, folder, options):
    """Returns the losses and the seconds of the steps."""
    data = pathlib.Path(folder) / "examples.csv"
    with open(data, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"] if options.classify else ["sentence1", "sentence2", "score"])
        writer.writerows(examples)
    run = pathlib.Path(folder) / "run"
    task = ["--task", "classify", "--length", "128"] if options.classify else ["--task", "embed", "--loss", "cosine"]
    said = subprocess.run([program, "train", model, data, run, *task, "--epochs", "1", "--batch", str(BATCH), "--lr", str(RATE), "--warmup", "0.1",
                           "--dropout", "0", "--validation", "0", "--log-every", "1", "--in-order", "--force", "--quiet", "--threads", str(options.threads)],
                          check=True, capture_output=True, text=True).stdout
    losses = [json.loads(line)["loss/train"] for line in open(run / "log.jsonl")]
    return losses, float(said.split("step_seconds=")[1].split()[0])


def train_with_torch(parameters, examples, compute_loss):
    """Returns the losses and the seconds of the same steps in PyTorch."""
    import torch

    parameters = list(parameters)
    optimizer = torch.optim.AdamW(parameters, lr=RATE, weight_decay=0.0)
    steps = math.ceil(len(examples) / BATCH)
    warmup = int(0.1 * steps)
    results, seconds = [], 0.0
    for step in range(steps):
        batch = examples[step * BATCH:(step + 1) * BATCH]
        factor = (step + 1) / warmup if step < warmup else (steps - step) / (steps - warmup)
        begin = time.monotonic()
        for group in optimizer.param_groups:
            group["lr"] = RATE * factor
        loss = compute_loss(batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        results.append(loss.item())
        seconds += time.monotonic() - begin
    return results, seconds


def run_sentence_transformers(model, pairs):
    import torch
    from sentence_transformers import SentenceTransformer, losses

    encoder = SentenceTransformer(model, device="cpu")
    encoder.train()
    for module in encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    encoder[0].auto_model.config.attention_probs_dropout_prob = 0.0
    loss_function = losses.CosineSimilarityLoss(encoder)
    tokenize = getattr(encoder, "preprocess", encoder.tokenize)

    def compute_loss(batch):
        return loss_function([tokenize([pair[i] for pair in batch]) for i in range(2)], torch.tensor([pair[2] for pair in batch]))

    return train_with_torch(encoder.parameters(), pairs, compute_loss)


def run_transformers(model, texts):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    classifier = AutoModelForSequenceClassification.from_pretrained(model, num_labels=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    classifier.train()

    def compute_loss(batch):
        tokens = tokenizer([text for text, _ in batch], padding=True, truncation=True, max_length=128, return_tensors="pt")
        return classifier(**tokens, labels=torch.tensor([int(label == "red") for _, label in batch])).loss

    return train_with_torch(classifier.parameters(), texts, compute_loss)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--classify", action="store_true")
    parser.add_argument("--shape", metavar="FOLDER")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(options.threads)
    model = options.model
    if options.shape:
        make_shape(model, options.shape)
        model = options.shape
    examples = (make_texts if options.classify else make_pairs)(options.steps * BATCH)
    run_peer = run_transformers if options.classify else run_sentence_transformers
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            losses, seconds = run_program(options.program, model, examples, folder, options)
            ours.append(seconds)
            their_losses, seconds = run_peer(model, examples)
            theirs.append(seconds)
            print(f"encoder {ours[-1]:.2f} s, {run_peer.__name__[4:]} {theirs[-1]:.2f} s", flush=True)
    print(f"{options.steps} steps of {BATCH} examples: encoder {statistics.median(ours):.2f} s, {run_peer.__name__[4:]} {statistics.median(theirs):.2f} s, "
          f"ratio {statistics.median(theirs) / statistics.median(ours):.2f}")
    if not options.classify:
        print(f"the largest difference of the losses is {max(abs(a - b) for a, b in zip(losses, their_losses)):.2g}")


if __name__ == "__main__":
    main()
