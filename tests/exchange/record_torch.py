#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what PyTorch's profiler writes of small runs on CPUs: the inputs of these tests.

    python3 record_torch.py OUT --scheme fsdp2|ddp --ranks 2 [--steps 3] [--memory] [--full]

Needs torch (CPU). One file per rank, OUT/<scheme>-<rank>.json; --full adds what no import reads.
trim_torch.py makes them small enough to be kept.
"""
import argparse
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Model(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.embed = nn.Linear(width, width, bias=False)
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, width, bias=False)

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def shard(model, scheme):
    if scheme == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    from torch.distributed.fsdp import fully_shard
    for layer in model.layers:
        fully_shard(layer)
    return fully_shard(model)


def run(rank, args, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank),
                      WORLD_SIZE=str(args.ranks))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", rank=rank, world_size=args.ranks)
    model = shard(Model(args.width, args.layers), args.scheme)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    path = os.path.join(args.out, f"{args.scheme}-{rank}.json")
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, record_shapes=True,
                                profile_memory=args.memory, with_stack=args.full,
                                with_flops=args.full,
                                on_trace_ready=lambda p: p.export_chrome_trace(path),
                                schedule=torch.profiler.schedule(wait=0, warmup=1,
                                                                 active=args.steps)) as profiler:
        for _ in range(args.steps + 1):
            x = torch.randn(args.batch, args.width)
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--scheme", choices=["fsdp2", "ddp"], default="fsdp2")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--full", action="store_true")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(run, (args, port), nprocs=args.ranks)


if __name__ == "__main__":
    main()
