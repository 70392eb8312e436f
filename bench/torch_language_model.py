"""Trains the default model of programs/language_model/language_model.c in PyTorch, with the same text, tokens, sizes, schedule, number
of steps and evaluations. language_model.sh runs both.

Variants: default is usual eager code with nn.Linear, scaled_dot_product_attention and AdamW. fused has the fused AdamW
and lets oneDNN multiply with bfloat16 (precision "medium"). compiled is fused with torch.compile."""

import argparse
import math
import time

import numpy
import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("text")
parser.add_argument("--variant", choices=["default", "fused", "compiled"], default="default")
parser.add_argument("--threads", type=int, default=0)
parser.add_argument("--steps", type=int, default=2000)
parser.add_argument("--seed", type=int, default=1)
options = parser.parse_args()

begin = time.perf_counter()
layers, heads, width, length, batch = 4, 4, 128, 64, 12
steps, warmup, peak, final, eval_every, eval_batches = options.steps, 100, 3e-3, 3e-4, 250, 20
if options.threads:
    torch.set_num_threads(options.threads)
torch.manual_seed(options.seed)
if options.variant != "default":
    torch.set_float32_matmul_precision("medium")

text = open(options.text, encoding="utf-8", newline="").read()
characters = {character: i for i, character in enumerate(sorted(set(text)))}
tokens = torch.from_numpy(numpy.fromiter((characters[c] for c in text), dtype=numpy.int64))
training, validation = tokens[: int(0.9 * len(tokens))], tokens[int(0.9 * len(tokens)) :]
vocabulary = len(characters)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.linear1, self.linear2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):  # (B, T, E) -> (B, T, E)
        q, k, v = (z.unflatten(2, (heads, -1)).transpose(1, 2) for z in self.qkv(self.norm1(x)).chunk(3, 2))
        attention = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attention.transpose(1, 2).flatten(2))
        return x + self.linear2(F.gelu(self.linear1(self.norm2(x)), approximate="tanh"))


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Block() for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                last = name.endswith(("out.weight", "linear2.weight"))
                nn.init.normal_(parameter, 0, 0.02 / math.sqrt(2 * layers) if last else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, x, targets):  # (B, T), (B, T) -> scalar
        x = self.layers(self.embedding(x) + self.position.weight)
        logits = F.linear(self.norm(x), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def windows(part, starts):
    rows = torch.stack([part[start : start + length + 1] for start in starts])
    return rows[:, :-1], rows[:, 1:]


def learning_rate(step):
    if step < warmup:
        return peak * (step + 1) / warmup
    return final + (peak - final) * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


model = LanguageModel()
groups = [
    {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
    {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
]
adam = torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.99), fused=options.variant != "default" or None)
run = torch.compile(model) if options.variant == "compiled" else model
held_out = torch.randint(len(validation) - length, (eval_batches, batch))


@torch.no_grad()
def evaluate():
    model.eval()
    losses = [run(*windows(validation, starts)).item() for starts in held_out]
    model.train()
    return sum(losses) / len(losses)


def step(i):
    loss = run(*windows(training, torch.randint(len(training) - length, (batch,))))
    adam.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for group in adam.param_groups:
        group["lr"] = learning_rate(i)
    adam.step()
    return loss.item()


evaluate()
first = step(0)
ready = time.perf_counter()  # excludes the time of torch.compile
for i in range(1, steps):
    step(i)
    if (i + 1) % eval_every == 0 or i + 1 == steps:
        loss = evaluate()
seconds = time.perf_counter() - ready
print(f"{options.variant}  seconds={seconds:.2f} last={loss:.4f} with_start={time.perf_counter() - begin:.2f}")
