"""Times whole training steps of a GPT-2 in PyTorch, with the same model, data and measurement as train_step.c.

Variants: default is usual eager code with nn.Linear, scaled_dot_product_attention and AdamW. tuned has the fused AdamW,
and session.py sets the environment so that malloc keeps freed memory. compiled is tuned with torch.compile.
Precisions: float32; medium lets oneDNN multiply float32 operands as bfloat16, which it does on processors with AMX;
autocast has operands and results of products in bfloat16."""

import torch
import torch.nn.functional as F
from torch import nn

import peer

options, configuration = peer.parse_options(
    "PyTorch", ["default", "tuned", "compiled"], ["float32", "medium", "autocast"]
)
_, layers, width, heads, vocabulary, batch, length, mlp = configuration
torch.set_num_threads(options.threads)
torch.manual_seed(1)
torch.set_float32_matmul_precision("medium" if options.precision == "medium" else "highest")


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
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.precision == "autocast"):
        loss = run(tokens, targets)
    adam.zero_grad(set_to_none=True)
    loss.backward()
    adam.step()
    return loss.detach().item


peer.measure(step, options, configuration, peer.torch_build(torch))
