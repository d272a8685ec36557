# SPDX-License-Identifier: Apache-2.0
"""DDP: what record.py listens to, and how it sets a run up."""
import contextlib

from lines import DTYPES, LINES


def random_options(rng, tree):
    """Also leaves some layers of `tree` without use, where DDP is told to look for them."""
    options = {"bucket_cap": rng.choice([40, 100, 300, 1 << 20]),
               "gradient_as_bucket_view": rng.random() < 0.5,
               "find_unused_parameters": rng.random() < 0.3}
    options["static_graph"] = not options["find_unused_parameters"] and rng.random() < 0.25
    if options["find_unused_parameters"] or options["static_graph"]:
        tree["forward"] = [layer for layer in tree["forward"]
                           if layer.endswith("end") or rng.random() < 0.8]
    return options


def replicate(run, root, mesh):
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    from torch.nn.parallel import DistributedDataParallel
    options = run["options"]
    names = {id(p): name for name, p in root.named_parameters()}
    for p in root.parameters():
        if p.requires_grad:
            p.register_hook(lambda grad, name=names[id(p)]: LINES.append(f"G {name}"))
    model = DistributedDataParallel(
        root, bucket_cap_mb=options["bucket_cap"] / (1 << 20), static_graph=options["static_graph"],
        find_unused_parameters=options["find_unused_parameters"],
        gradient_as_bucket_view=options["gradient_as_bucket_view"])

    def hook(group, bucket):
        buffer = bucket.buffer()
        LINES.append(" ".join([f"AR {buffer.numel()} {DTYPES[buffer.dtype]}"] +
                              [names[id(p)] for p in bucket.parameters()]))
        return allreduce_hook(group, bucket)

    model.register_comm_hook(None, hook)

    def train(settings, x):
        with contextlib.nullcontext() if settings.get("sync", True) else model.no_sync():
            model(x).sum().backward()

    return model, train
