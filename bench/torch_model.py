"""The GPT-2 of train_step.c in PyTorch, for torch_step.py and ddp_step.py."""

import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, c):  # a Configuration
        super().__init__()
        self.heads, self.mlp = c.heads, c.mlp
        self.norm1, self.qkv = nn.LayerNorm(c.width), nn.Linear(c.width, 3 * c.width)
        self.out = nn.Linear(c.width, c.width)
        if c.mlp:
            self.norm2 = nn.LayerNorm(c.width)
            self.linear1, self.linear2 = nn.Linear(c.width, 4 * c.width), nn.Linear(4 * c.width, c.width)

    def forward(self, x):  # (B, T, E) -> (B, T, E)
        q, k, v = (z.unflatten(2, (self.heads, -1)).transpose(1, 2) for z in self.qkv(self.norm1(x)).chunk(3, 2))
        attention = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attention.transpose(1, 2).flatten(2))
        if self.mlp:
            x = x + self.linear2(F.gelu(self.linear1(self.norm2(x)), approximate="tanh"))
        return x


class LanguageModel(nn.Module):
    def __init__(self, c):  # a Configuration
        super().__init__()
        self.embedding, self.position = nn.Embedding(c.vocabulary, c.width), nn.Embedding(c.length, c.width)
        self.layers = nn.Sequential(*(Block(c) for _ in range(c.layers)))
        self.norm = nn.LayerNorm(c.width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0, 0.02)

    def forward(self, tokens, targets):  # (B, T), (B, T) -> scalar
        x = self.layers(self.embedding(tokens) + self.position.weight)
        logits = F.linear(self.norm(x), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
