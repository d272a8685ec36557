#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what ZeRO-3 of DeepSpeed 0.19.8 trains in the data-parallel groups of an mpu, on CPUs.

    python3 groups.py groups.json [COUNT]

Runs, gradients and the form of the file are those of ../torch_2_15/groups.py.
"""
import json
import logging
import os
import random
import sys

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "torch_2_15"))
import groups  # noqa: E402
import record  # noqa: E402

LAYOUTS = {4: [([[0, 2], [1, 3]], [[0, 1], [2, 3]]), ([[0, 1], [2, 3]], [[0, 2], [1, 3]])],
           6: [([[0, 1, 2], [3, 4, 5]], [[0, 3], [1, 4], [2, 5]]),
               ([[0, 2, 4], [1, 3, 5]], [[0, 1], [2, 3], [4, 5]])]}


class Mpu:
    """What DeepSpeed asks a model-parallel job."""

    def __init__(self, data, model, rank):
        self.groups = {}
        for kind, layout in (("data", data), ("model", model)):
            made = [dist.new_group(ranks) for ranks in layout]
            self.groups[kind] = next(g for g, ranks in zip(made, layout) if rank in ranks)

    def __getattr__(self, name):  # get_data_parallel_world_size, get_model_parallel_rank, ...
        if not name.startswith("get_") or "parallel" not in name:
            raise AttributeError(name)
        group = self.groups["data" if "data" in name else "model"]
        if name.endswith("world_size"):
            return lambda: dist.get_world_size(group)
        return (lambda: dist.get_rank(group)) if name.endswith("rank") else (lambda: group)


def random_run(seed):
    rng = random.Random(f"mpu {seed}")
    tree, _ = record.random_tree(rng, "fsdp1")
    ranks = rng.choice([4, 4, 6])
    data, model = rng.choice(LAYOUTS[ranks])
    micro = 1  # DeepSpeed divides the loss by it
    passes = ([["train", {}]] * micro + [["step", {}]]) * 2
    return {"torch": "DeepSpeed 0.19.8", "seed": seed, "kind": "zero3", "ranks": ranks,
            "tree": tree, "groups": data, "model_groups": model, "passes": passes,
            "options": {"persistence_threshold": rng.choice([0, 10]), "micro": micro,
                        "reduce_bucket": rng.choice([50, 1000])}}


def zero3(run, rank):
    import deepspeed
    from deepspeed.runtime.zero import parameter_offload
    parameter_offload.FWD_MODULE_STACK.clear()
    root, o = groups.model_of(run, rank), run["options"]
    trained = [p for p in root.parameters() if p.requires_grad]
    engine, *_ = deepspeed.initialize(
        model=root, mpu=Mpu(run["groups"], run["model_groups"], rank),
        optimizer=torch.optim.AdamW(trained, 0.01, eps=1, weight_decay=0), config={
            "train_micro_batch_size_per_gpu": 1, "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False, "gradient_accumulation_steps": o["micro"],
            "gradient_clipping": 0.0,
            "zero_optimization": {"stage": 3, "reduce_bucket_size": o["reduce_bucket"],
                                  "stage3_param_persistence_threshold": o["persistence_threshold"]}})
    for kind, _ in run["passes"]:
        if kind == "train":
            engine.backward(engine(torch.ones(1)).sum())
            engine.step()
    parameters = list(root.parameters())
    with deepspeed.zero.GatheredParameters(parameters):
        values = groups.flat(parameters)
    engine.destroy()
    return values


def rank_main(rank, ranks, port, runs, out):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank),
                      LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_SIZE=str(ranks))
    torch.set_num_threads(1)
    import deepspeed
    from deepspeed.utils import logger
    logger.setLevel(logging.ERROR)
    deepspeed.init_distributed("gloo")
    for run in runs:
        found = [None] * ranks
        dist.all_gather_object(found, zero3(run, rank))
        if rank == 0:
            with open(out, "a", encoding="utf-8") as file:
                file.write(json.dumps(groups.compact({**run, "found": found})) + "\n")
    dist.destroy_process_group()


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    runs = [random_run(seed) for seed in range(count)]
    runs = [run for run in runs if any(p.get("requires_grad", True)
                                       for layer in record.layers_of(run["tree"]["root"])
                                       for p in layer.get("parameters", []))]
    out = f"/tmp/recorded.{os.getpid()}"
    for ranks in (4, 6):
        mine = [run for run in runs if run["ranks"] == ranks]
        if mine:
            torch.multiprocessing.spawn(rank_main, (ranks, 29700 + ranks, mine, out), ranks)
    rows = sorted((json.loads(line) for line in open(out, encoding="utf-8")),
                  key=lambda run: run["seed"])
    os.remove(out)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        lines = ",\n".join(json.dumps(run, separators=(",", ":")) for run in rows)
        file.write(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
