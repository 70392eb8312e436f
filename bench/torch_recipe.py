"""Trains a model as language_model does, in PyTorch: the same architecture, initial values, optimizer, schedule and split of
the text, given by the same options. AdamW is torch.optim.AdamW, Muon is torch.optim.Muon. Evaluates once, at the end, on
the whole last tenth of the text. race.py runs it; other options of language_model are refused.

Only these differ: windows are drawn with replacement, as in nanoGPT; GELU is exact, as in nanoGPT, instead of its tanh form."""

import argparse
import math

import numpy
import torch
import torch.nn.functional as F
from torch import nn

WHOLE = "layers heads width length steps batch warmup bigram newton-schulz seed threads"
REAL = "dropout lr min-lr weight-decay beta1 beta2 clip embedding-std adam-lr momentum decay"
FLAGS = "llama no-bias qk-norm uniform-init zero-init value-residual"
DEFAULTS = {"bigram": 0, "newton_schulz": 5, "embedding_std": 0.02, "adam_lr": 0.003, "momentum": 0.95, "decay": 0.2}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("text")
for names, kind in ((WHOLE, int), (REAL, float)):
    for name in names.split():
        default = DEFAULTS.get(name.replace("-", "_"))
        parser.add_argument(f"--{name}", type=kind, default=default, required=default is None)
for name in FLAGS.split():
    parser.add_argument(f"--{name}", action="store_true")
parser.add_argument("--optimizer", choices=["adamw", "muon"], default="adamw")
parser.add_argument("--schedule", choices=["cosine", "wsd"], default="cosine")
o = parser.parse_args()
muon, bias = o.optimizer == "muon", not (o.llama or o.no_bias)
torch.set_num_threads(o.threads)
torch.manual_seed(o.seed)

text = open(o.text, encoding="utf-8", newline="").read()
characters = {character: i for i, character in enumerate(sorted(set(text)))}
tokens = torch.from_numpy(numpy.fromiter((characters[c] for c in text), dtype=numpy.int64))
split = len(tokens) - math.ceil(0.1 * len(tokens))
training, validation = tokens[:split], tokens[split:]
vocabulary = len(characters)


def norm():
    return nn.RMSNorm(o.width, eps=1e-5) if o.llama else nn.LayerNorm(o.width, bias=bias)


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=bias)


angles = torch.arange(o.length)[:, None] / 10000 ** (torch.arange(0, o.width // o.heads, 2) / (o.width // o.heads))
cosine, sine = angles.cos(), angles.sin()


def rotate(x):  # (B, H, T, D) -> (B, H, T, D)
    first, second = x.chunk(2, -1)
    length = x.shape[2]
    c, s = cosine[:length], sine[:length]
    return torch.cat((first * c - second * s, first * s + second * c), -1)


class Attention(nn.Module):
    def __init__(self, mixes_values):
        super().__init__()
        # Muon orthogonalizes the projections of queries, keys and values as three matrices.
        self.qkv = nn.ModuleList(linear(o.width, o.width) for _ in range(3)) if muon else linear(o.width, 3 * o.width)
        self.out = linear(o.width, o.width)
        self.mix = nn.Parameter(torch.tensor([0.5, 0.5])) if mixes_values else None

    def forward(self, x, first_values):  # (B, T, E), (B, H, T, D) -> (B, T, E), (B, H, T, D)
        parts = [projection(x) for projection in self.qkv] if muon else self.qkv(x).chunk(3, 2)
        q, k, v = (part.unflatten(2, (o.heads, -1)).transpose(1, 2) for part in parts)
        if o.qk_norm:
            q, k = (F.rms_norm(part, part.shape[-1:], eps=1e-5) for part in (q, k))
        if o.llama:
            q, k = rotate(q), rotate(k)
        first_values = v if first_values is None else first_values
        if self.mix is not None:
            v = self.mix[0] * v + self.mix[1] * first_values
        dropout = o.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
        return self.out(y.transpose(1, 2).flatten(2)), first_values


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        inner = (8 * o.width // 3 + 15) // 16 * 16 if o.llama else 4 * o.width
        self.gate = linear(o.width, inner) if o.llama else None
        self.up, self.down = linear(o.width, inner), linear(inner, o.width)

    def forward(self, x):  # (B, T, E) -> (B, T, E)
        return self.down(F.silu(self.gate(x)) * self.up(x) if o.llama else F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.norm1, self.norm2 = norm(), norm()
        self.attention, self.mlp = Attention(o.value_residual and index > 0), MLP()
        self.drop = nn.Dropout(o.dropout)

    def forward(self, x, first_values):
        y, first_values = self.attention(self.norm1(x), first_values)
        x = x + self.drop(y)
        return x + self.drop(self.mlp(self.norm2(x))), first_values


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, o.width)
        self.position = None if o.llama else nn.Embedding(o.length, o.width)
        self.bigram = nn.Embedding(o.bigram, o.width) if o.bigram else None
        self.layers = nn.ModuleList(Block(i) for i in range(o.layers))
        self.norm = norm()
        self.classifier = nn.Linear(o.width, vocabulary, bias=False)
        if not o.llama:
            self.classifier.weight = self.embedding.weight
        self.drop = nn.Dropout(o.dropout)
        self.initialize()

    def initialize(self):
        """(nn.Linear's own initial values are those of --uniform-init.)"""
        for name, parameter in self.named_parameters():
            ends_branch = name.endswith(("out.weight", "down.weight"))
            if name.startswith(("embedding", "position")):
                nn.init.normal_(parameter, 0, o.embedding_std)
            elif name.startswith("bigram") or (o.zero_init and (ends_branch or name.startswith("classifier"))):
                nn.init.zeros_(parameter)
            elif parameter.dim() > 1 and not o.uniform_init:
                nn.init.normal_(parameter, 0, 0.02 / math.sqrt(2 * o.layers) if ends_branch else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def pairs(self, x):  # the rows of the bigram embedding, as th_language_model_new has them: (B, T) -> (B, T)
        previous, token = x[:, :-1], x[:, 1:]
        if vocabulary**2 < o.bigram:
            rows = previous * vocabulary + token
        else:
            rows = (36313 * token ^ 27191 * previous) % (o.bigram - 1)
        return F.pad(rows, (1, 0), value=o.bigram - 1)

    def forward(self, tokens, targets, reduction="mean"):  # (B, T), (B, T) -> scalar
        x, first_values = self.embedding(tokens), None
        if self.position is not None:
            x = x + self.position.weight[: tokens.shape[1]]
        if self.bigram is not None:
            x = x + self.bigram(self.pairs(tokens))
        x = self.drop(x)
        for layer in self.layers:
            x, first_values = layer(x, first_values)
        return F.cross_entropy(self.classifier(self.norm(x)).flatten(0, 1), targets.flatten(), reduction=reduction)


def make_optimizers(model):
    hidden = [p for p in model.layers.parameters() if p.dim() > 1] if muon else []
    taken = {id(p) for p in hidden}
    others = [p for p in model.parameters() if id(p) not in taken]
    groups = [
        {"params": [p for p in others if p.dim() > 1], "weight_decay": o.weight_decay},
        {"params": [p for p in others if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizers = [torch.optim.AdamW(groups, lr=o.adam_lr if muon else o.lr, betas=(o.beta1, o.beta2))]
    if muon:
        settings = {"lr": o.lr, "weight_decay": o.weight_decay, "momentum": o.momentum, "ns_steps": o.newton_schulz}
        optimizers.append(torch.optim.Muon(hidden, **settings))
    return optimizers


def share_of_rate(step):
    """Returns the learning rate of a step, divided by the highest."""
    final = o.min_lr / o.lr
    begin = o.warmup
    if step < o.warmup:
        return (step + 1) / o.warmup
    if o.schedule == "wsd":
        begin = max(o.warmup, o.steps - math.ceil(o.decay * o.steps))
    passed = max(0.0, (step - begin) / (o.steps - begin))
    return final + (1 - final) * (1 - passed if o.schedule == "wsd" else 0.5 * (1 + math.cos(math.pi * passed)))


def train(model):
    optimizers = make_optimizers(model)
    groups = [(group, group["lr"]) for optimizer in optimizers for group in optimizer.param_groups]
    for step in range(o.steps):
        starts = torch.randint(len(training) - o.length, (o.batch,)).tolist()
        windows = torch.stack([training[start : start + o.length + 1] for start in starts])
        loss = model(windows[:, :-1], windows[:, 1:])
        model.zero_grad(set_to_none=True)
        loss.backward()
        if o.clip > 0:
            nn.utils.clip_grad_norm_(model.parameters(), o.clip)
        for group, highest in groups:
            group["lr"] = highest * share_of_rate(step)
        for optimizer in optimizers:
            optimizer.step()


@torch.no_grad()
def evaluate(model):
    """Returns the mean loss of all targets of the last tenth, in windows that do not overlap, and their number."""
    model.eval()
    targets = len(validation) - 1
    whole = targets // o.length * o.length
    inputs, outputs = validation[:whole].view(-1, o.length), validation[1 : whole + 1].view(-1, o.length)
    batches = list(zip(inputs.split(64), outputs.split(64)))
    if whole < targets:
        batches.append((validation[None, whole:targets], validation[None, whole + 1 :]))
    return sum(model(x, y, "sum").item() for x, y in batches) / targets, targets


model = LanguageModel()
train(model)
loss, targets = evaluate(model)
print(f"torch: steps={o.steps} parameters={sum(p.numel() for p in model.parameters())}")
print(f"torch: loss={loss:.4f} tokens={targets}")
