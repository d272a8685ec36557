#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's own load_checkpoint reads what `tessera checkpoint export --format zero2` wrote, and
takes the steps that torch's AdamW takes; needs torch and deepspeed (0.19.8).

    tessera checkpoint import tests/golden/checkpoints/dcp net.json run
    tessera checkpoint export run FOLDER --format zero2 --ranks 2 --lr 0.01
    python3 check_deepspeed.py FOLDER tests/golden/checkpoints/dcp.json 2 2     # stage, ranks

Both must clip alike: without gradient_clipping DeepSpeed 0.19 clips at a norm of 1, and then is
6e-3 off after the first step and 1e-2 after the second.
"""
import json
import os
import sys

import torch
import torch.multiprocessing
from torch import nn

os.environ["DS_ACCELERATOR"] = "cpu"


def net():
    torch.manual_seed(1)  # other values than those of the checkpoint
    return nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.Linear(7, 3))


def batch():
    torch.manual_seed(99)
    return torch.randn(4, 5)


def by_torch(full, steps):
    """Values after each of `steps` further steps of torch's AdamW from the same state."""
    model = net()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.tensor(full[name]).view_as(parameter))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for name, parameter in model.named_parameters():
        optimizer.state[parameter] = {
            "step": torch.tensor(3.0),
            "exp_avg": torch.tensor(full[name + ".exp_avg"]).view_as(parameter),
            "exp_avg_sq": torch.tensor(full[name + ".exp_avg_sq"]).view_as(parameter)}
    values = []
    for _ in range(steps):
        optimizer.zero_grad()
        model(batch()).square().sum().backward()
        optimizer.step()
        values.append({name: parameter.detach().clone()
                       for name, parameter in model.named_parameters()})
    return values


def rank_main(rank, ranks, folder, wanted, stage, universal):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29655", RANK=str(rank), LOCAL_RANK=str(rank),
                      WORLD_SIZE=str(ranks), LOCAL_SIZE=str(ranks))
    import deepspeed
    import deepspeed.comm.torch  # as a name it would be torch itself
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # which would be compiled
    deepspeed.init_distributed("gloo")
    model = net()
    config = {"train_micro_batch_size_per_gpu": 4, "zero_allow_untested_optimizer": True,
              "zero_force_ds_cpu_optimizer": False, "checkpoint": {"load_universal": universal},
              "gradient_clipping": 0.0, "zero_optimization": {"stage": stage}}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    path, _ = engine.load_checkpoint(folder)
    assert path is not None
    with open(wanted, encoding="utf-8") as file:
        full = json.load(file)

    def compare(name, end, found):
        if found.flatten().tolist() != full[name + end]:
            sys.exit(f"{name}{end} is another")

    equal = 0
    for name, parameter in model.named_parameters():
        compare(name, "", safe_get_full_fp32_param(parameter))
        equal += 1
        if stage < 3 and not universal:  # DeepSpeed links states to parameters in the first step
            continue
        compare(name, ".exp_avg", safe_get_full_optimizer_state(parameter, "exp_avg"))
        compare(name, ".exp_avg_sq", safe_get_full_optimizer_state(parameter, "exp_avg_sq"))
        equal += 2
    off = []
    for expected in by_torch(full, steps=3):
        engine.backward(engine(batch()).square().sum())
        engine.step()
        off.append(max((safe_get_full_fp32_param(parameter) - expected[name]).abs().max().item()
                       for name, parameter in model.named_parameters()))
    if rank == 0:
        print(f"{equal} tensors are equal; the next steps are",
              ", ".join(f"{each:.1e}" for each in off), "off torch's")


if __name__ == "__main__":
    FOLDER, WANTED, STAGE, RANKS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.multiprocessing.spawn(rank_main, (RANKS, FOLDER, WANTED, STAGE, "universal" in sys.argv[5:]), RANKS)
