#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what torch 2.15 trains where not all ranks train one model alike, on CPUs with gloo.

    python3 groups.py groups.json [COUNT]

Kinds of runs: `ddp`, process groups of DDP; `fully_shard`, divide factors of FSDP2 beside meshes
of units; `summon`, units of FSDP1 that are summoned beside each other; `wrap`, what
_recursive_wrap makes of a function. All but the last end with every rank's parameters.

Rank r finds p * (r + 1) + 0.125 + 0.01 * (i % 5) as gradient of element i, p its value.
"""
import contextlib
import functools
import json
import os
import random
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn

import record

GROUPS = {3: [[[1, 2]], [[0, 2]]], 4: [[[0, 2], [1, 3]], [[0, 1], [2, 3]], [[1, 3]], [[0, 3], [1, 2]]],
          6: [[[0, 1, 2], [3, 4, 5]], [[0, 2, 4], [1, 3, 5]], [[5, 1], [0, 3]]]}


# --- random runs

def training_run(rng, kind):
    tree, units = record.random_tree(rng, "fsdp1")
    ranks = rng.choice([3, 4, 4, 6] if kind == "ddp" else [2, 4, 4, 6])
    run = {"kind": kind, "ranks": ranks, "tree": tree, "passes": []}
    for _ in range(2):
        for k in reversed(range(rng.choice([1, 1, 2, 3]))):
            run["passes"].append(["train", {"sync": k == 0 or rng.random() < 0.3}])
        run["passes"].append(["step", {}])
    if kind == "ddp":
        run["groups"] = rng.choice(GROUPS[ranks])
        run["options"] = {"bucket_cap": rng.choice([40, 300, 1 << 20]),
                          "gradient_as_bucket_view": rng.random() < 0.5,
                          "find_unused_parameters": rng.random() < 0.3}
        return run
    meshes = [0, 0, 1] + [n for n in (2, 3) if ranks % n == 0]
    run["options"] = {"factor": rng.choice([None, 1.0, 2.0, 3.5, float(ranks), 16.0])}
    # With forced sums, which gloo needs, torch divides twice where one rank has all of a unit.
    if run["options"]["factor"] not in (None, 1.0):
        meshes = [n for n in meshes if n != 1]
    run["plan"] = {"tessera_plan": 1, "units": [{"modules": path, "shard_group": rng.choice(meshes)}
                                                for path in units + [""]]}
    return run


def summon_run(rng):
    tree, units = record.random_tree(rng, "fsdp1")
    run = {"kind": "summon", "ranks": 2, "tree": tree, "units": units, "calls": []}
    opened = []
    for _ in range(rng.randint(4, 9)):
        if opened and rng.random() < 0.4:
            run["calls"].append(["close", opened.pop(rng.randrange(len(opened)))])
        else:
            path = rng.choice(units + [""])
            run["calls"].append(["open", path, rng.random() < 0.7, rng.random() < 0.5])
            opened.append(path)
    run["calls"] += [["close", path] for path in reversed(opened)]
    return run


def wrap_run(rng):
    tree, _ = record.random_tree(rng, "fsdp1")
    return {"kind": "wrap", "ranks": 1, "tree": tree, "least": rng.choice([1, 10, 20, 40, 80]),
            "below": rng.choice([2, 3, 5, 100]), "lambda": rng.random() < 0.3}


def random_run(seed):
    kind = ["ddp", "fully_shard", "summon", "wrap"][seed % 4]
    rng = random.Random(f"groups {seed}")
    run = {"summon": summon_run, "wrap": wrap_run}.get(
        kind, functools.partial(training_run, kind=kind))(rng)
    return {"torch": torch.__version__.split("+")[0], "seed": seed, **run}


# --- modules

class Layer(nn.Module):
    def __init__(self, parameters, rank):
        super().__init__()
        self.names, self.rank = [p["name"] for p in parameters], rank
        for p in parameters:
            self.register_parameter(p["name"], nn.Parameter(torch.zeros(p["shape"]),
                                                            p.get("requires_grad", True)))

    def forward(self, x):
        for name in self.names:
            p = getattr(self, name).reshape(-1)
            more = 0.125 + 0.01 * (torch.arange(p.numel()) % 5)
            x = x + (0.5 * (self.rank + 1) * p * p + more * p).sum()
        return x


def build(module, rank):
    if "modules" not in module:
        return Layer(module.get("parameters", []), rank)
    made = record.Block()
    for child in module["modules"]:
        made.add_module(child["name"], build(child, rank))
    return made


def model_of(run, rank):
    root = build(run["tree"]["root"], rank)
    with torch.no_grad():
        for k, p in enumerate(root.parameters()):
            p.copy_((0.01 * (k + 1) + 0.001 * (torch.arange(p.numel()) % 17)).reshape(p.shape))
    return root


def flat(parameters):
    return [float(v) for p in parameters for v in getattr(p, "full_tensor", lambda p=p: p)()
            .detach().reshape(-1)]


def trained(run, model, step_model, sync):
    """Every rank's parameters after the passes; epsilon 1, so that sizes of gradients matter."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 0.01, eps=1,
                                  weight_decay=0)
    for kind, settings in run["passes"]:
        if kind == "step":
            optimizer.step()
            optimizer.zero_grad()
        else:
            with sync(settings["sync"]):
                step_model(torch.ones(1)).sum().backward()
    return flat(model.parameters())


# --- kinds

def ddp(run, rank):
    from torch.nn.parallel import DistributedDataParallel
    groups = [dist.new_group(ranks) for ranks in run["groups"]]
    mine = [g for g, ranks in zip(groups, run["groups"]) if rank in ranks]
    if not mine:
        return None
    options = run["options"]
    root = model_of(run, rank)
    model = DistributedDataParallel(
        root, process_group=mine[0], bucket_cap_mb=options["bucket_cap"] / (1 << 20),
        gradient_as_bucket_view=options["gradient_as_bucket_view"],
        find_unused_parameters=options["find_unused_parameters"])
    return trained(run, root, model, lambda sync: contextlib.nullcontext() if sync else model.no_sync())


def fully_shard(run, rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard as shard
    root, ranks = model_of(run, rank), run["ranks"]
    modules = dict(root.named_modules())
    for own in sorted(run["plan"]["units"], key=lambda u: -len(u["modules"])):
        size = own["shard_group"] or ranks
        mesh = init_device_mesh("cpu", (ranks,)) if size == ranks else init_device_mesh(
            "cpu", (ranks // size, size), mesh_dim_names=("r", "s"))
        shard(modules[own["modules"]], mesh=mesh)
    for module in root.modules():
        if isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)  # gloo has no PREMUL_SUM
            if run["options"]["factor"] is not None:
                module.set_gradient_divide_factor(run["options"]["factor"])

    @contextlib.contextmanager
    def sync(on):
        root.set_requires_gradient_sync(on)
        yield

    return trained(run, root, root, sync)


def summon(run, rank):
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    root = model_of(run, rank)
    modules = dict(root.named_modules())
    modules[""] = root
    for path in sorted(run["units"], key=len, reverse=True):
        parent, _, child = path.rpartition(".")
        modules[path] = FSDP(modules[path], use_orig_params=True, device_id=torch.device("cpu"))
        modules[parent]._modules[child] = modules[path]
    modules[""] = FSDP(root, use_orig_params=True, device_id=torch.device("cpu"))
    with FSDP.summon_full_params(modules[""]):
        pass  # what is summoned first becomes torch's root
    opened, said = {}, []
    for k, (call, path, *rest) in enumerate(run["calls"]):
        if call == "close":
            if opened.get(path):
                opened[path].pop().__exit__(None, None, None)
            continue
        writeback, recurse = rest
        context = FSDP.summon_full_params(modules[path], recurse=recurse, writeback=writeback)
        try:
            context.__enter__()
        except (AssertionError, RuntimeError, ValueError) as error:
            said.append([k, str(error).split("\n", maxsplit=1)[0][:80]])
            continue
        opened.setdefault(path, []).append(context)
        for name, p in root.named_parameters() if writeback else []:
            name = name.replace("_fsdp_wrapped_module.", "")
            units = [u for u in run["units"] + [""] if f"{name}.".startswith(u and f"{u}.")]
            unit = max(units, key=len)
            if unit == path or (recurse and path in units):
                with torch.no_grad():
                    p.add_(k + 1)
    with FSDP.summon_full_params(modules[""]):
        return {"values": flat(modules[""].parameters()), "refused": said}


def wrap(run, rank):
    from torch.distributed.fsdp.wrap import _recursive_wrap, lambda_auto_wrap_policy
    root = model_of(run, rank)
    names = {id(m): name for name, m in root.named_modules()}
    wrapped = []

    class Wrapped(nn.Module):
        def __init__(self, module):
            super().__init__()
            wrapped.append(names[id(module)])
            self.module = module

    def decide(module, recurse, nonwrapped_numel):
        path = names[id(module)]
        if recurse:
            return len(path) % run["below"] != 1
        return nonwrapped_numel >= run["least"]

    policy = decide
    if run["lambda"]:
        policy = functools.partial(lambda_auto_wrap_policy,
                                   lambda_fn=lambda m: len(names[id(m)]) % run["below"] == 1)
    _recursive_wrap(root, policy, Wrapped, set(), set(), only_wrap_children=True)
    return wrapped


def rank_main(rank, ranks, port, runs, out):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank),
                      WORLD_SIZE=str(ranks))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    kinds = {"ddp": ddp, "fully_shard": fully_shard, "summon": summon, "wrap": wrap}
    for run in runs:
        found = [None] * ranks
        try:
            mine = kinds[run["kind"]](run, rank)
        except Exception as error:  # what torch itself refuses, on all ranks alike
            mine = {"error": f"{type(error).__name__} {str(error)[:300]}"}
        dist.all_gather_object(found, mine)
        if rank == 0:
            with open(out, "a", encoding="utf-8") as file:
                file.write(json.dumps({**run, "found": found}) + "\n")
    dist.destroy_process_group()


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 168
    runs = [random_run(seed) for seed in range(count)]
    out = f"/tmp/recorded.{os.getpid()}"
    for ranks in (1, 2, 3, 4, 6):
        mine = [run for run in runs if run["ranks"] == ranks]
        if mine:
            torch.multiprocessing.spawn(
                rank_main, (ranks, 29000 + os.getpid() % 2000 + ranks, mine, out), ranks)
    rows = [json.loads(line) for line in open(out, encoding="utf-8")]
    os.remove(out)
    rows = [compact(run) for run in rows]
    rows.sort(key=lambda run: run["seed"])
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        lines = ",\n".join(json.dumps(run, separators=(",", ":")) for run in rows)
        file.write(f"[\n{lines}\n]\n")


def compact(run):
    """A rank that found what an earlier one did says its number; values have seven digits."""
    found = []
    for mine in run["found"]:
        if isinstance(mine, dict) and "error" in mine:
            sys.exit(f"seed {run['seed']}: {mine['error']}")
        if isinstance(mine, dict):
            mine = {"values": digits(mine["values"]), "refused": [call for call, _ in mine["refused"]]}
        elif mine and run["kind"] != "wrap":
            mine = digits(mine)
        found.append(found.index(mine) if mine in found else mine)
    return {**run, "found": found}


def digits(values):
    return [float(f"{value:.7g}") for value in values]


if __name__ == "__main__":
    main()
