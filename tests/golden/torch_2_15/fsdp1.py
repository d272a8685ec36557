# SPDX-License-Identifier: Apache-2.0
"""FSDP1 on CPUs: what record.py listens to, and how it sets a run up."""
import contextlib

import torch
import torch.distributed as dist

from lines import DTYPES, LINES, wrap

UNITS = {}
CURRENT = [""]


def random_options(rng, ranks):
    strategies = ["full_shard", "full_shard", "shard_grad_op", "no_shard"]
    return {"strategy": rng.choice(strategies + ["hybrid_shard", "hybrid_shard_zero2"] * (ranks == 4)),
            "backward_prefetch": rng.choice(["pre", "pre", "post", "none"]),
            "limit_all_gathers": rng.random() < 0.7, "use_orig_params": rng.random() < 0.7,
            "param_dtype": rng.choice(["float32", "float32", "bfloat16"]),
            "reduce_dtype": rng.choice(["float32", "bfloat16"])}


def freeze_whole_units(rng, root, units):
    """Flat parameters train or are frozen as a whole: of a mixed one torch computes all gradients."""
    frozen = {unit: rng.random() < 0.2 for unit in sorted(units)}

    def visit(module, path, unit):
        unit = path if path in frozen else unit
        for p in module.get("parameters", []):
            p.pop("requires_grad", None)
            if frozen.get(unit, False):
                p["requires_grad"] = False
        for child in module.get("modules", []):
            visit(child, f"{path}.{child['name']}" if path else child["name"], unit)

    visit(root, "", "")


def random_settings(rng):
    own = {}
    if rng.random() < 0.2:
        own["mixed_precision"] = False
    if rng.random() < 0.2:
        own["reshard_after_forward"] = False
    return own


class Stream:
    """One that does nothing: the CPU has none."""

    def __init__(self, *args, **kwargs):
        pass

    wait_stream = wait_event = synchronize = record_event = __init__


class Event(Stream):
    record = Stream.__init__

    def synchronize(self):
        LINES.append("L")


def name(handle):
    return UNITS[id(handle._fully_sharded_module)]


def listen():
    from torch.distributed.fsdp import _flat_param, _runtime_utils
    torch.cpu.Stream, torch.cpu.Event = Stream, Event
    torch.cpu.current_stream = lambda *rest: Stream()
    torch.cpu.stream = lambda stream: contextlib.nullcontext()
    for module in (_flat_param, _runtime_utils):
        module._no_dispatch_record_stream = lambda tensor, stream: None

    def enter(state, handle, *rest):
        CURRENT[0] = name(handle)

    for function in ("_unshard", "_reduce_grad", "_reduce_grad_no_shard"):
        wrap(_runtime_utils, function, enter)

    def say(kind, source, result):
        LINES.append(f"{kind} {CURRENT[0]} {source.numel()} {result} {DTYPES[source.dtype]}")

    wrap(dist, "all_gather", lambda parts, source, *rest, **more: say(
        "AG", source, sum(p.numel() for p in parts)))
    wrap(dist, "all_gather_single", lambda result, source, *rest, **more: say(
        "AG", source, result.numel()))
    wrap(dist, "reduce_scatter_single", lambda result, source, *rest, **more: say(
        "RS", source, result.numel()))
    wrap(dist, "all_reduce", lambda tensor, *rest, **more: LINES.append(
        f"AR {CURRENT[0]} {tensor.numel()} {DTYPES[tensor.dtype]}"))

    def freed(handle):
        if handle._get_padded_unsharded_flat_param().untyped_storage().size() > 0:
            LINES.append(f"-{name(handle)}")

    wrap(_flat_param.FlatParamHandle, "_free_unsharded_flat_param", freed)


def shard(run, root, mesh):
    from torch.distributed.fsdp import BackwardPrefetch, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp import FullyShardedDataParallel
    options = run["options"]
    strategies = {"full_shard": ShardingStrategy.FULL_SHARD, "no_shard": ShardingStrategy.NO_SHARD,
                  "shard_grad_op": ShardingStrategy.SHARD_GRAD_OP,
                  "hybrid_shard": ShardingStrategy.HYBRID_SHARD,
                  "hybrid_shard_zero2": ShardingStrategy._HYBRID_SHARD_ZERO2}
    kept = {"full_shard": "shard_grad_op", "hybrid_shard": "hybrid_shard_zero2"}
    prefetch = {"pre": BackwardPrefetch.BACKWARD_PRE, "post": BackwardPrefetch.BACKWARD_POST,
                "none": None}
    modules = dict(root.named_modules())
    UNITS.clear()
    for own in sorted(run["plan"]["units"], key=lambda u: -len(u["modules"])):
        path, strategy = own["modules"], options["strategy"]
        if not own.get("reshard_after_forward", True):
            strategy = kept.get(strategy, strategy)
        mixed = own.get("mixed_precision", True)
        UNITS[id(modules[path])] = path or "root"
        wrapped = FullyShardedDataParallel(
            modules[path], device_id=torch.device("cpu"),
            device_mesh=mesh[2 if strategy.startswith("hybrid") else 0],
            sharding_strategy=strategies[strategy],
            backward_prefetch=prefetch[options["backward_prefetch"]],
            limit_all_gathers=options["limit_all_gathers"],
            use_orig_params=options["use_orig_params"],
            mixed_precision=MixedPrecision(getattr(torch, options["param_dtype"]),
                                           getattr(torch, options["reduce_dtype"])) if mixed else None)
        if path:
            parent, _, child = path.rpartition(".")
            modules[parent]._modules[child] = wrapped

    def train(settings, x):
        with contextlib.nullcontext() if settings.get("sync", True) else wrapped.no_sync():
            wrapped(x).float().sum().backward()

    return wrapped, train
