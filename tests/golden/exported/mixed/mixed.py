# SPDX-License-Identifier: Apache-2.0
"""A model of the kinds of modules that an exporter meets: shared, fused, bare parameters, a loss."""
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.scale = nn.Parameter(torch.ones(width))
        self.up = nn.Linear(width, 4 * width)
        self.function = nn.GELU()
        self.down = nn.Linear(4 * width, width)
        self.down.requires_grad_(False)

    def forward(self, x):
        y = self.norm(x)
        y, _ = self.attention(y, y, y, need_weights=False)
        x = x + y * self.scale
        return x + self.down(self.function(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(100, 64)
        self.blocks = nn.ModuleList([Block(64), Block(64)])
        self.again = self.blocks[0]
        self.head = nn.Linear(64, 100, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.again(x))


def build():
    return Net(), lambda tokens: dict(ids=torch.zeros(1, tokens, dtype=torch.long))
