#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what FSDP2, FSDP1 and DDP of torch 2.15 do, on CPUs with gloo, for random trees.

    python3 record.py fully_shard|roots|fsdp1|ddp FIRST COUNT > FILE

`roots` is fully_shard of parts alone: the model's root is plain.

fsdp1.py and ddp.py beside it are what differs for these.

A run is the module tree, a plan of its units with settings of their own, the passes, and rank 0's
lines:

    AG unit in out dtype    RS unit in out dtype    AR unit numel dtype    collectives
    +unit  -unit  ~unit     gathered; freed; freed but for the shards of a smaller group
    F module  B module      a layer computes
    L                       FSDP1: its limiter holds the host
    G parameter             DDP: its gradient is ready; AR says the bucket's bytes and parameters
"""
import json
import os
import random
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn

import ddp
import fsdp1
from lines import DTYPES, LINES, wrap


# --- random runs

def random_tree(rng, scheme):
    """Layers in blocks, some of them frozen; `units` are paths that become units."""
    layers, units = [], []
    low = scheme == "ddp" and rng.random() < 0.4

    def layer(name, path):
        layers.append(path)
        frozen_layer = rng.random() < 0.15
        dtype = {"dtype": "bfloat16"} if low and rng.random() < 0.3 else {}
        parameters = []
        for suffix in "wb"[:rng.choice([1, 2])]:
            frozen = frozen_layer or (scheme != "fsdp1" and rng.random() < 0.1)
            shape = [rng.randint(1, 9)] + ([rng.randint(1, 5)] if suffix == "w" else [])
            parameters.append({"name": suffix, "shape": shape, **dtype,
                               **({"requires_grad": False} if frozen else {})})
        if rng.random() < 0.5:
            units.append(path)
        return {"name": name, "class": "Layer", "parameters": parameters}

    def block(name, path, depth):
        made = {"name": name, "class": "Block", "modules": []}
        if rng.random() < 0.6:
            units.append(path)
        for k in range(rng.randint(1, 3)):
            inner = f"l{k}"
            nested = depth < 2 and rng.random() < 0.25
            made["modules"].append((block if nested else layer)(
                inner, f"{path}.{inner}", *([depth + 1] if nested else [])))
        made["modules"].append({"name": "end", "class": "End"})
        layers.append(f"{path}.end")
        return made

    top = []
    for k in range(rng.randint(2, 5)):
        if rng.random() < 0.5:
            top.append(block(f"m{k}", f"m{k}", 1))
        else:
            top.append(layer(f"m{k}", f"m{k}"))
    top.append({"name": "end", "class": "End"})
    layers.append("end")
    return {"tessera_model": 1, "name": "random", "root": {"class": "Net", "modules": top},
            "forward": layers, "input_requires_grad": rng.random() < 0.4}, units


def random_settings(rng, ranks):
    own = {}
    if rng.random() < 0.25:
        own["param_dtype"] = rng.choice(["bfloat16", "float32"])
        own["reduce_dtype"] = rng.choice(["bfloat16", "float32"])
    if rng.random() < 0.3:
        own["reshard_after_forward"] = rng.random() < 0.5
    if rng.random() < 0.15:
        own["offload_params"] = True
    if ranks == 4 and rng.random() < 0.2:
        own["shard_group"] = 2
    elif ranks == 4 and rng.random() < 0.2:
        own.pop("reshard_after_forward", None)
        own["reshard_group"] = 2
    return own


def random_run(seed, scheme):
    rng = random.Random(f"{scheme} {seed}")
    tree, units = random_tree(rng, scheme)
    ranks = rng.choice([2, 2, 3, 4, 4])
    options, passes = {}, []
    if scheme in ("fully_shard", "roots"):
        if not units:
            units.append("m0")
        plan = [{"modules": path, **random_settings(rng, ranks)} for path in units]
        if scheme == "roots":
            options["plain_root"] = True
        else:
            plan.append({"modules": "", **random_settings(rng, ranks)})
        if scheme == "fully_shard" and rng.random() < 0.3 and len(units) > 2:
            for kind in ("forward_prefetch", "backward_prefetch"):
                if rng.random() < 0.6:
                    unit = rng.choice(units)
                    options[kind] = {unit: rng.sample([u for u in units if u != unit],
                                                      rng.randint(1, min(2, len(units) - 1)))}
    else:
        plan = [{"modules": path} for path in units] + [{"modules": ""}]
    if scheme == "fsdp1":
        options = fsdp1.random_options(rng, ranks)
        fsdp1.freeze_whole_units(rng, tree["root"], units)
        plan = [{**own, **fsdp1.random_settings(rng)} for own in plan]
    if scheme == "ddp":
        options = ddp.random_options(rng, tree)
    for _ in range(rng.randint(2, 3)):
        micro = rng.choice([1, 1, 2, 3])
        for k in range(micro):
            before = {}
            if micro > 1:
                before["sync"] = k + 1 == micro or rng.random() < 0.3
                if scheme in ("fully_shard", "roots") and k + 1 < micro and rng.random() < 0.4:
                    before["reshard_after_backward"] = False
                if scheme in ("fully_shard", "roots") and k + 1 < micro and rng.random() < 0.3 and units:
                    before["unit_sync"] = [rng.choice(units), False]
            passes.append(["train", before])
        passes.append(["step", {}])
    return {"torch": torch.__version__.split("+")[0], "seed": seed, "ranks": ranks, "tree": tree,
            "plan": {"tessera_plan": 1, "units": plan}, "options": options, "passes": passes}


# --- modules

class Ran(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, name):
        ctx.name = name
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        LINES.append(f"B {ctx.name}")
        return grad, None


class Layer(nn.Module):
    used = True

    def __init__(self, path, parameters):
        super().__init__()
        self.path = path
        self.names = [p["name"] for p in parameters]
        for p in parameters:
            dtype = getattr(torch, p.get("dtype", "float32"))
            value = torch.full(p["shape"], 0.01, dtype=dtype)
            self.register_parameter(p["name"], nn.Parameter(value, p.get("requires_grad", True)))

    def forward(self, x):
        if not self.used:
            return x
        LINES.append(f"F {self.path}")
        for name in self.names:  # FSDP1 has views instead of parameters
            x = x + getattr(self, name).sum().to(x.dtype)
        return Ran.apply(x, self.path)


class Block(nn.Module):
    def forward(self, x):
        for child in self.children():
            x = child(x)
        return x


def build(module, path=""):
    if "modules" not in module:
        return Layer(path, module.get("parameters", []))
    made = Block()
    for child in module["modules"]:
        inner = f"{path}.{child['name']}" if path else child["name"]
        made.add_module(child["name"], build(child, inner))
    return made


# --- FSDP2

UNITS = {}     # names of units, by id of their module
CURRENT = [""]


def listen_to_fully_shard():
    from torch.distributed.fsdp._fully_shard import _fsdp_collectives as collectives
    from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup as Group
    name = lambda group: UNITS[id(group.modules[0])]

    def enter(group, *rest, **more):
        CURRENT[0] = name(group)

    for method in ("unshard", "post_backward"):
        wrap(Group, method, enter)

    def say(kind, source, result):
        LINES.append(f"{kind} {CURRENT[0]} {source.numel()} {result.numel()} {DTYPES[source.dtype]}")

    wrap(collectives.DefaultAllGather, "__call__",
         lambda self, output_tensor, input_tensor, *rest, **more: say("AG", input_tensor, output_tensor))
    wrap(collectives.DefaultReduceScatter, "__call__",
         lambda self, output_tensor, input_tensor, *rest, **more: say("RS", input_tensor, output_tensor))
    wrap(dist, "all_reduce", lambda tensor, *rest, **more: LINES.append(
        f"AR {CURRENT[0]} {tensor.numel()} {DTYPES[tensor.dtype]}"))
    for method, at, mark in (("_to_unsharded", "is_unsharded", "+"), ("_to_sharded", "is_sharded", "-"),
                             ("_to_sharded_post_forward", "is_sharded_post_forward", "~")):
        wrap(Group, method, lambda group, at=at, mark=mark: getattr(group, at) or LINES.append(
            mark + name(group)))


def meshes(ranks):
    from torch.distributed.device_mesh import init_device_mesh
    return {0: init_device_mesh("cpu", (ranks,)),
            **({2: init_device_mesh("cpu", (2, 2), mesh_dim_names=("r", "s"))} if ranks == 4 else {})}


def shard(run, root, mesh):
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
    modules = dict(root.named_modules())
    UNITS.clear()
    dtype = lambda own, key: getattr(torch, own[key]) if key in own else None
    for own in sorted(run["plan"]["units"], key=lambda u: -len(u["modules"])):
        module = modules[own["modules"]]
        UNITS[id(module)] = own["modules"] or "root"
        reshard = own.get("reshard_group", own.get("reshard_after_forward"))
        fully_shard(module, mesh=mesh[own.get("shard_group", 0)], reshard_after_forward=reshard,
                    mp_policy=MixedPrecisionPolicy(dtype(own, "param_dtype"),
                                                   dtype(own, "reduce_dtype")),
                    offload_policy=CPUOffloadPolicy(pin_memory=False) if own.get("offload_params")
                    else OffloadPolicy())
    for unit, targets in run["options"].get("forward_prefetch", {}).items():
        modules[unit].set_modules_to_forward_prefetch([modules[t] for t in targets])
    for unit, targets in run["options"].get("backward_prefetch", {}).items():
        modules[unit].set_modules_to_backward_prefetch([modules[t] for t in targets])

    units = [own["modules"] for own in run["plan"]["units"]]
    inside = lambda path, unit: unit == "" or path.startswith(unit + ".")
    roots = [path for path in units if not any(inside(path, u) for u in units if u != path)]

    def train(settings, x):
        for path in roots:
            modules[path].set_requires_gradient_sync(settings.get("sync", True))
            modules[path].set_reshard_after_backward(settings.get("reshard_after_backward", True))
        if "unit_sync" in settings:
            modules[settings["unit_sync"][0]].set_requires_gradient_sync(settings["unit_sync"][1])
        root(x).sum().backward()
    return root, train


# --- all

def play(run, scheme, mesh):
    root = build(run["tree"]["root"])
    for path, module in root.named_modules():
        if isinstance(module, Layer):
            module.used = path in run["tree"]["forward"]
    set_up = {"fully_shard": shard, "roots": shard, "fsdp1": fsdp1.shard, "ddp": ddp.replicate}[scheme]
    model, train = set_up(run, root, mesh)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, 0.001)
    LINES.clear()
    for kind, settings in run["passes"]:
        LINES.append(kind)
        if kind == "step":
            optimizer.step()
            optimizer.zero_grad()
            continue
        train(settings, torch.ones(1, requires_grad=run["tree"]["input_requires_grad"]))
    return list(LINES)


def rank_main(rank, ranks, port, scheme, runs, out):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank),
                      WORLD_SIZE=str(ranks))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if scheme != "ddp":
        {"fsdp1": fsdp1.listen}.get(scheme, listen_to_fully_shard)()
    mesh = meshes(ranks)
    for run in runs:
        try:
            run["lines"] = play(run, scheme, mesh)
        except Exception as error:  # what torch itself refuses, on all ranks alike
            run["lines"] = []
            if rank == 0:
                print(run["seed"], type(error).__name__, str(error)[:300], file=sys.stderr)
        if rank == 0 and run["lines"]:
            with open(out, "a", encoding="utf-8") as file:
                file.write(json.dumps(run) + "\n")
        dist.barrier()
    dist.destroy_process_group()


def main():
    scheme, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    runs = [random_run(seed, scheme) for seed in range(first, first + count)]
    runs = [run for run in runs if any(p.get("requires_grad", True) for m in layers_of(run["tree"]["root"])
                                       for p in m.get("parameters", []))]
    out = f"/tmp/recorded.{os.getpid()}"
    for ranks in (2, 3, 4):
        mine = [run for run in runs if run["ranks"] == ranks]
        if mine:
            torch.multiprocessing.spawn(rank_main, (ranks, 29000 + os.getpid() % 2000 + ranks, scheme, mine, out), ranks)
    rows = [json.loads(line) for line in open(out, encoding="utf-8")]
    os.remove(out)
    rows.sort(key=lambda run: run["seed"])
    print("[\n" + ",\n".join(json.dumps(run, separators=(",", ":")) for run in rows) + "\n]")


def layers_of(module):
    yield module
    for child in module.get("modules", []):
        yield from layers_of(child)


if __name__ == "__main__":
    main()
