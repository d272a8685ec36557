#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what ZeRO-3 of DeepSpeed 0.19.8 does, on CPUs with gloo (torch 2.15), for random trees.

    python3 record.py FOLDER [SEED ...]

SEED.json has the module tree, the options, the passes and the lines, in the notation of
to_deepspeed_notation. What Python's sets leave open is in the order of ids.
"""
import json
import logging
import os
import random
import sys

os.environ["DS_ACCELERATOR"] = "cpu"
import torch
import torch.multiprocessing
from torch import nn


def random_tree(rng):
    """As model-format.md has it: layers, some of them in blocks, run in an order of two passes."""
    layers, top = [], []

    def layer(name, path):
        layers.append(path)
        parameters = []
        for suffix in "wb"[:rng.choice([1, 2])]:
            frozen = rng.random() < 0.15 and len(layers) > 1
            parameters.append({"name": suffix, "shape": [rng.randint(1, 40)],
                               **({"requires_grad": False} if frozen else {})})
        return {"name": name, "class": "Layer", "parameters": parameters}

    for k in range(rng.randint(2, 5)):
        if rng.random() < 0.4:
            inside = [layer(f"l{i}", f"m{k}.l{i}") for i in range(rng.randint(1, 3))]
            top.append({"name": f"m{k}", "class": "Block", "modules": inside})
        else:
            top.append(layer(f"m{k}", f"m{k}"))
    for parameter in top[0].get("parameters", []):
        parameter.pop("requires_grad", None)

    def order(skipped):
        found = []
        for path in layers:
            if found and rng.random() < skipped:
                continue
            found += [path] * (2 if rng.random() < 0.15 else 1)
        return found

    return {"tessera_model": 1, "name": "random", "root": {"class": "Net", "modules": top},
            "forward": order(0.05), "graphs": {"other": order(0.3)},
            "input_requires_grad": rng.random() < 0.3}


def random_run(seed):
    rng = random.Random(seed)
    tree = random_tree(rng)
    options = {"prefetch_bucket": rng.choice([0, 10, 30, 60, 1000]),
               "max_reuse_distance": rng.choice([0, 10, 40, 1000]),
               "max_live_parameters": rng.choice([40, 40, 100, 10**9]),
               "persistence_threshold": rng.choice([0, 0, 4, 12]),
               "reduce_bucket": rng.choice([16, 40, 100, 1000]),
               "sub_group_size": rng.choice([12, 30, 10**12])}
    accumulation = rng.choice([1, 1, 1, 2])
    passes = []
    for _ in range(rng.randint(3, 5)):
        for _ in range(accumulation):
            while rng.random() < 0.2:
                passes.append([rng.choice(["evaluate", "forward"]), ""])
            passes.append(["train", "other" if rng.random() < 0.15 else ""])
        passes.append(["step", ""])
    return {"deepspeed": "0.19.8", "seed": seed, "ranks": rng.choice([1, 2, 2, 3]), "tree": tree,
            "options": options, "accumulation": accumulation, "passes": passes}


class Layer(nn.Module):
    def __init__(self, parameters):
        super().__init__()
        for p in parameters:
            value = torch.full(p["shape"], 0.01)
            self.register_parameter(p["name"], nn.Parameter(value, p.get("requires_grad", True)))

    def forward(self, x):
        for p in self.parameters():
            x = x + p.sum()
        return x


class Block(nn.Module):
    todo = ()

    def forward(self, x):
        todo = self.todo
        while todo:
            head = todo[0].partition(".")[0]
            here = 1  # entries in a row that lie in one child
            while here < len(todo) and "." in todo[0] and todo[here].partition(".")[0] == head:
                here += 1
            child = getattr(self, head)
            if isinstance(child, Block):
                child.todo = [path.partition(".")[2] for path in todo[:here]]
            x = child(x)
            todo = todo[here:]
        return x


def build(module):
    if "modules" not in module:
        return Layer(module["parameters"])
    made = Block()
    for child in module["modules"]:
        made.add_module(child["name"], build(child))
    return made


LINES = []
NAMES = {}  # of parameters, by id(), and modules
CURRENT = {"module": None, "needed": (), "freed": None}


def log(line):
    LINES.append(line)


def names(params):
    return str([NAMES[id(p)] for p in sorted(params, key=lambda p: p.ds_id)])


class ById(set):
    """A set of parameters whose order is that of their ids."""

    def __iter__(self):
        members = list(super().__iter__())
        return iter(sorted(members, key=lambda p: getattr(p, "ds_id", p)))


def wrap(owner, name, before=None, after=None):
    original = getattr(owner, name)

    def called(*args, **kwargs):
        if before:
            before(*args, **kwargs)
        result = original(*args, **kwargs)
        if after:
            after(*args, **kwargs)
        return result

    setattr(owner, name, called)


def listen_to_coordinator():
    from deepspeed.runtime.zero import partitioned_param_coordinator as module
    from deepspeed.runtime.zero.partition_parameters import ZeroParamStatus
    cls, private = module.PartitionedParameterCoordinator, "_PartitionedParameterCoordinator__"
    module.set = ById
    mode = lambda c: getattr(c, private + "trace_mode").name
    step = lambda c: getattr(c, private + "step_id")

    def fetch(c, submodule, forward):
        CURRENT["needed"] = [id(p) for p in submodule.parameters(recurse=False)]
        log(f"FETCH {'F' if forward else 'B'} step={step(c)} mod={NAMES[id(submodule)]} "
            f"trace={mode(c)}")

    def gather(c, params, forward, quantize=False):
        missing = [p for p in params if p.ds_status == ZeroParamStatus.NOT_AVAILABLE]
        if missing:
            kind = "ALLGATHER" if any(id(p) in CURRENT["needed"] for p in missing) else "PREFETCH"
            log(f"  {kind} {names(missing)} numel={sum(p.ds_numel for p in missing)}")

    waited, members = set(), {}

    def noted(registry, param, handle):
        members.setdefault(id(handle), (handle, []))[1].append(param)

    def wait(handle):
        again = " (already complete)" if id(handle) in waited else ""
        waited.add(id(handle))
        log(f"  WAIT {names(members[id(handle)][1])}{again}")

    original_pop = module.InflightParamRegistry.pop

    def pop(registry, param):
        handle = original_pop(registry, param)
        wait(handle)
        return handle

    def clean(c):
        registry = getattr(c, private + "inflight_param_registry")
        for param, handle in registry.items():
            wait(handle)
            handle.wait()
            getattr(c, private + "release_param")(param)
        registry.clear()

    def free(c, param, free_data=True):
        if param.ds_status == ZeroParamStatus.AVAILABLE and not param.ds_active_sub_modules:
            if CURRENT["freed"] is None:
                log(f"  PARTITION {NAMES[id(param)]}")
            else:
                CURRENT["freed"].append(param)

    def release(c, submodule, forward=False):
        log(f"RELEASE {'F' if forward else 'B'} step={step(c)} mod={NAMES[id(submodule)]}")
        CURRENT["freed"] = []

    def released(*args, **kwargs):
        for param in sorted(CURRENT["freed"], key=lambda p: p.ds_id):
            log(f"  PARTITION {NAMES[id(param)]}")
        CURRENT["freed"] = None

    def release_all(c, root):
        log("RELEASE_AND_RESET_ALL")
        registry = getattr(c, private + "inflight_param_registry")
        for param in root.parameters():
            if param in registry:
                registry.pop(param).wait()
            param.ds_active_sub_modules.clear()
            if param.ds_status == ZeroParamStatus.NOT_AVAILABLE:
                log(f"  KEEP {NAMES[id(param)]} status=NOT_AVAILABLE active=[]")
            getattr(c, private + "release_param")(param)

    reset = cls.reset_step

    def reset_step(c):
        before = mode(c)
        reset(c)
        modules = [NAMES[id(m)] for m in getattr(c, private + "submodule_order")]
        uses = [(NAMES[id(p.param)], p.step_id_last_used_at)
                for p in getattr(c, private + "param_order")]
        log(f"RESET_STEP {before}->{mode(c)} modules={modules} params={uses}")

    wrap(cls, "trace_prologue", lambda c, m: CURRENT.update(module=m))
    wrap(cls, "_invalidate_trace", lambda c: CURRENT["module"] is not None and log(
        f"INVALIDATE step={step(c)} mod={NAMES[id(CURRENT['module'])]}"))
    wrap(cls, "fetch_sub_module", fetch)
    wrap(cls, private + "all_gather_params_", gather)
    wrap(module.InflightParamRegistry, "__setitem__", after=noted)
    module.InflightParamRegistry.pop = pop
    cls._clean_inflight_param_registry = clean
    wrap(cls, private + "release_param", free)
    wrap(cls, "release_sub_module", release, released)
    cls.release_and_reset_all = release_all
    cls.reset_step = reset_step
    return lambda: (waited.clear(), members.clear())


def listen_to_optimizer():
    from deepspeed.runtime.zero import stage3
    cls = stage3.DeepSpeedZeroOptimizer_Stage3
    wrap(cls, "reduce_ready_partitions_and_remove_grads",
         lambda o, param: log(f"  GRAD_READY {NAMES[id(param)]}"))
    world = lambda: torch.distributed.get_world_size()
    padded = lambda n: (n + world() - 1) // world() * world()
    wrap(stage3, "reduce_scatter_coalesced", lambda tensors, *rest: log(
        f"  REDUCE_SCATTER numel {sum(padded(t.numel()) for t in tensors)}"))
    wrap(cls, "_overflow_check_and_loss_scale_update",
         lambda o, **kwargs: log("OPT _overflow_check_and_loss_scale_update "))
    for name in ("_prepare_sub_group", "_optimizer_step", "_release_sub_group",
                 "_reassign_or_swap_out_partitioned_parameters"):
        wrap(cls, name, lambda o, group, *rest, name=name: log(f"OPT {name} {group}"))
    wrap(cls, "_post_step", lambda o, *rest: log("OPT _post_step "))
    wrap(cls, "step", lambda o, *rest: log("--- STEP"))


def play(run):
    import deepspeed
    from deepspeed.runtime.zero import parameter_offload
    parameter_offload.FWD_MODULE_STACK.clear()
    NAMES.clear()
    CURRENT.update(module=None, needed=(), freed=None)
    root, o = build(run["tree"]["root"]), run["options"]
    NAMES.update({id(m): name or "root" for name, m in root.named_modules()})
    NAMES.update({id(p): name for name, p in root.named_parameters()})
    trained = [p for p in root.parameters() if p.requires_grad]
    engine, optimizer, *_ = deepspeed.initialize(
        model=root, optimizer=torch.optim.Adam(trained), config={
            "train_micro_batch_size_per_gpu": 1, "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
            "gradient_accumulation_steps": run["accumulation"],
            "zero_optimization": {"stage": 3, "sub_group_size": o["sub_group_size"],
                                  "reduce_bucket_size": o["reduce_bucket"],
                                  **{"stage3_" + key: o[key] for key in
                                     ("prefetch_bucket_size", "max_live_parameters",
                                      "max_reuse_distance", "param_persistence_threshold")
                                     if key in o},
                                  "stage3_prefetch_bucket_size": o["prefetch_bucket"],
                                  "stage3_param_persistence_threshold": o["persistence_threshold"],
                                  }})
    groups = [[NAMES[id(p)] for p in group] for group in optimizer.fp16_groups]
    parameters = [(NAMES[id(p)], p.ds_numel, p.partition_numel(), "persist" if p.ds_persist else "")
                  for p in root.parameters()]
    LINES.clear()
    log(f"PARAMS {parameters} subgroups {groups}")
    between, iteration = True, 0
    for kind, graph in run["passes"]:
        if kind == "step":
            continue  # DeepSpeed steps where an accumulation is complete
        first, between = between, False
        if first:
            iteration += 1
            log(f"===== ITERATION {iteration}")
        if kind != "train" or not first:
            log({"evaluate": "--- EVAL FORWARD (no_grad)", "forward": "--- EXTRA FORWARD",
                 "train": "--- TRAIN FORWARD"}[kind])
        engine.train(kind != "evaluate")
        root.todo = run["tree"]["graphs"]["other"] if graph else run["tree"]["forward"]
        x = torch.ones(1, requires_grad=run["tree"]["input_requires_grad"])
        if kind == "evaluate":
            with torch.no_grad():
                engine(x)
        else:
            y = engine(x)
        if kind == "train":
            log("--- BACKWARD")
            between = True
            engine.backward(y.sum())
            engine.step()
    lines = list(LINES)
    engine.destroy()
    return lines


def rank_main(rank, ranks, port, folder, runs):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank),
                      LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_SIZE=str(ranks))
    torch.set_num_threads(1)
    import deepspeed
    from deepspeed.utils import logger
    logger.setLevel(logging.ERROR)
    deepspeed.init_distributed("gloo")
    forget = listen_to_coordinator()
    listen_to_optimizer()
    for run in runs:
        forget()
        try:
            run["lines"] = play(run)
        except Exception as error:  # says so, and is not kept
            run["error"] = f"{type(error).__name__}: {error}"
        print(rank, run["seed"], "error" in run, flush=True)
        if rank == 0 and "error" in run:
            print(run["seed"], run["error"], file=sys.stderr)
            if os.environ.get("LINES"):
                print("\n".join(LINES), file=sys.stderr)
            break
        if "error" in run:
            break
        if rank == 0:
            with open(f"{folder}/{run['seed']}.json", "w", encoding="utf-8") as file:
                lines = run.pop("lines")
                head = json.dumps(run)
                file.write(head[:-1] + ', "lines": [\n' + ",\n".join(map(json.dumps, lines)) + "]}\n")


def main():
    folder, seeds = sys.argv[1], [int(s) for s in sys.argv[2:]] or range(30)
    runs = [random_run(seed) for seed in seeds]
    for ranks in (1, 2, 3):
        mine = [run for run in runs if run["ranks"] == ranks]
        if mine:
            torch.multiprocessing.spawn(rank_main, (ranks, 29700 + ranks, folder, mine), ranks)


if __name__ == "__main__":
    main()
