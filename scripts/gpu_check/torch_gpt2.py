#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Milliseconds of a training step of GPT-2 124M in PyTorch: forward and backward in bfloat16 with
float32 masters (autocast), AdamW. Prints one JSON object.

    torch_gpt2.py eager|compile|products BATCH LENGTH [VOCABULARY]

`products`: only the matrix products of that step, one after another.
"""
import json
import statistics
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

WIDTH, HEADS, LAYERS = 768, 12, 12
VOCABULARY = int(sys.argv[4]) if len(sys.argv) > 4 else 50257


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, HEADS, c // HEADS).transpose(1, 2)
                   for y in self.qkv(self.ln_1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(length, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        nn.init.normal_(self.wte.weight, std=0.02)

    def forward(self, ids, targets):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.float().view(-1, VOCABULARY), targets.reshape(-1))


def median_ms(step, warm, rounds):
    for _ in range(warm):
        step()
    times = []
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def training_step(mode, batch, length):
    torch.manual_seed(1)
    model = Gpt2(length).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    run = torch.compile(model) if mode == "compile" else model
    data = torch.randint(VOCABULARY, (batch, length + 1), device="cuda")

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = run(data[:, :-1], data[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step


def products_step(batch, length):
    """Each weight's product and, for its gradient and its input's, two of the same size."""
    rows = batch * length
    shapes = LAYERS * [(WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)]
    shapes.append((WIDTH, VOCABULARY))
    sizes = sorted(set(shapes))

    def random(*size):
        return torch.randn(*size, device="cuda", dtype=torch.bfloat16)
    inputs = {k: random(rows, k) for k in {n for size in sizes for n in size}}
    weights = {size: random(*size) for size in sizes}

    def step():
        for k, n in shapes:
            inputs[k] @ weights[k, n]
            inputs[n] @ weights[k, n].t()
            inputs[k].t() @ inputs[n]
    return step


def main():
    mode, batch, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    products = mode == "products"
    step = products_step(batch, length) if products else training_step(mode, batch, length)
    print(json.dumps({"mode": mode, "torch": torch.__version__,
                      "device": torch.cuda.get_device_name(),
                      "step_ms": median_ms(step, warm=8, rounds=20)}))


if __name__ == "__main__":
    main()
