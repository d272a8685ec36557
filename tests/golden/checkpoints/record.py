#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the checkpoints in this folder: torch 2.15 (DCP, FSDP2) and DeepSpeed 0.19.8 on CPUs with gloo.

    python3 record.py FOLDER

Each is of 3 ranks after 3 steps of AdamW; NAME.json has all values and moments, as the original
package gathers them.
"""
import argparse
import json
import os
import sys
import tempfile

import torch
from torch import nn

RANKS = 3
os.environ["DS_ACCELERATOR"] = "cpu"


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.Linear(7, 3))


def batch(step, rank):
    torch.manual_seed(10 + step + rank)
    return torch.randn(4, 5)


def join(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), LOCAL_RANK=str(rank),
                      WORLD_SIZE=str(RANKS), LOCAL_SIZE=str(RANKS))


def note(path, rank, full):
    if rank == 0:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({name: value.flatten().tolist() for name, value in full.items()}, file)


def dcp(rank, folder):
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    join(rank, 29612)
    torch.distributed.init_process_group("gloo")
    model, mesh = net(), init_device_mesh("cpu", (RANKS,))
    for layer in [*model, model]:
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(3):
        model(batch(step, rank)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    values, states = get_state_dict(model, optimizer)
    checkpoint.save({"model": values, "optim": states}, checkpoint_id=f"{folder}/dcp")
    values, states = get_state_dict(model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True))
    full = {name: value.full_tensor() for name, value in values.items()}
    full.update({name.removeprefix("state."): value.full_tensor() for name, value in states.items() if "exp_avg" in name})
    note(f"{folder}/dcp.json", rank, full)


def deepspeed(rank, folder, stage):
    join(rank, 29620 + stage)
    import deepspeed as ds
    import deepspeed.comm.torch as backend
    backend.build_shm_op = lambda: None  # which would be compiled
    ds.init_distributed("gloo")
    model = net()
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices}, {"params": vectors, "weight_decay": 0.0}], lr=0.01)
    config = {"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": True}, "zero_allow_untested_optimizer": True,
              "zero_force_ds_cpu_optimizer": False,
              "zero_optimization": {"stage": stage, "round_robin_gradients": stage == 2}}
    engine, *_ = ds.initialize(model=model, optimizer=optimizer, config=config)
    for step in range(3):
        engine.backward(engine(batch(step, rank).bfloat16()).float().square().sum())
        engine.step()
    engine.save_checkpoint(f"{folder}/zero{stage}", tag="global_step3")


def universal(folder, stage):
    """All values and moments, as DeepSpeed's own conversion puts them together."""
    from deepspeed.checkpoint.ds_to_universal import main
    out = tempfile.mkdtemp()
    main(argparse.Namespace(input_folder=f"{folder}/zero{stage}/global_step3", output_folder=out, num_extract_workers=1,
                            num_merge_workers=1, keep_temp_folder=False, strict=True, inject_missing_state=True))
    full = {}
    for name in sorted(n for n in os.listdir(f"{out}/zero") if os.path.isdir(f"{out}/zero/{n}")):
        for state, end in (("fp32", ""), ("exp_avg", ".exp_avg"), ("exp_avg_sq", ".exp_avg_sq")):
            saved = torch.load(f"{out}/zero/{name}/{state}.pt", weights_only=False)
            full[name + end] = saved["param"] if isinstance(saved, dict) else saved
    note(f"{folder}/zero{stage}.json", 0, full)


if __name__ == "__main__":
    import torch.multiprocessing as processes
    only = sys.argv[2:] or ["dcp", "1", "2", "3"]
    for what in only:
        if what == "dcp":
            processes.spawn(dcp, args=(sys.argv[1],), nprocs=RANKS)
        else:
            processes.spawn(deepspeed, args=(sys.argv[1], int(what)), nprocs=RANKS)
            universal(sys.argv[1], what)
