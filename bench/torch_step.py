"""Times whole training steps of a GPT-2 in PyTorch, the same model, data and measuring as train_step.c.

Variants: default is what a user writes: nn.Linear, scaled_dot_product_attention, AdamW, eager. The others are the best
that is known: tuned is the fused AdamW (and a malloc that keeps its memory, which sitting.py sets in the environment),
medium lets oneDNN take the products besides, compiled is medium through torch.compile."""

import torch
import torch.nn.functional as F
from torch import nn

import peer

options, configuration = peer.parse_options("PyTorch", ["default", "tuned", "medium", "compiled"])
_, layers, width, heads, vocabulary, batch, length, mlp = configuration
torch.set_num_threads(options.threads)
torch.manual_seed(1)
if options.variant in ("medium", "compiled"):
    torch.set_float32_matmul_precision("medium")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        if mlp:
            self.norm2 = nn.LayerNorm(width)
            self.linear1, self.linear2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):  # (B, T, E) -> (B, T, E)
        q, k, v = (z.unflatten(2, (heads, -1)).transpose(1, 2) for z in self.qkv(self.norm1(x)).chunk(3, 2))
        attention = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attention.transpose(1, 2).flatten(2))
        if mlp:
            x = x + self.linear2(F.gelu(self.linear1(self.norm2(x)), approximate="tanh"))
        return x


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Block() for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0, 0.02)

    def forward(self, tokens, targets):  # (B, T), (B, T) -> scalar
        x = self.layers(self.embedding(tokens) + self.position.weight)
        logits = F.linear(self.norm(x), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


model = LanguageModel()
adam = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=options.variant != "default" or None)
run = torch.compile(model) if options.variant == "compiled" else model
data = [torch.randint(vocabulary, (2, batch, length)) for _ in range(4)]


def step(i):
    tokens, targets = data[i % 4]
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.bfloat16):
        loss = run(tokens, targets)
    adam.zero_grad(set_to_none=True)
    loss.backward()
    adam.step()
    return loss.detach().item


mkl = "MKL" if torch.backends.mkl.is_available() else "no MKL"
build = (
    f"torch {torch.__version__} ({mkl}, {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads)"
)
peer.measure(step, options, configuration, build)
