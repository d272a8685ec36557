#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a torch model as a module tree (docs/model-format.md), with what torch says that it costs.

The model is built and run on the meta device: no weights, no memory. Its forward pass runs at three
lengths; per module the FLOPs of torch's own formulas (torch.utils.flop_counter), the bytes that
autograd saves (saved_tensors_hooks) and the bytes that kernels read and write become polynomials of
the sequence length.

    python3 tools/export_torch_model.py --config Qwen3-8B/config.json > qwen3-8b.json
    python3 tools/export_torch_model.py --from my_model.py:build > mine.json

`build()` returns the model and a function that gives the keyword arguments of its forward for so
many tokens: `return Net(), lambda tokens: dict(x=torch.zeros(1, tokens, 64))`. It is called within
`torch.device("meta")`. A model that returns its loss first has logits and the loss counted.

Attention by scaled_dot_product_attention, norms and rotations count as fused kernels, as stacks for
training have them; --eager counts norms and rotations as they are written. What runs as a whole
are the parts of blocks (attention, MLP, norms), as in models from config.json; with --leaves it is
every module.
"""
import argparse
import importlib.util
import json
import math
import os
import sys
from collections import defaultdict

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

LENGTHS = (64, 128, 256)
GATHERS = {"embedding", "index_select", "gather", "index", "nll_loss_forward"}  # which read no more than they return
# Returns a view, or computes nothing.
FREE = {"detach", "empty", "empty_like", "new_empty", "empty_strided", "alias", "lift_fresh", "arange",
        "zeros", "ones", "full", "scalar_tensor", "_unsafe_view", "_reshape_alias", "resolve_conj", "resolve_neg"}


class Sizes:
    """What one module has done in one forward pass."""

    def __init__(self):
        self.flops = self.attention_flops = self.moved = self.saved = self.kernels = 0
        self.linears, self.attention = [], None


def nbytes(value):
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    return sum(nbytes(v) for v in value) if isinstance(value, (list, tuple)) else 0


class Shapes(TorchDispatchMode):
    """Answers what programs ask of values, which tensors on the meta device have none of."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._local_scalar_dense.default:
            return args[0].dtype == torch.bool or 1
        return func(*args, **(kwargs or {}))


class Meter(Shapes):
    """Gives every operation to a leaf: the one that runs, or the next in the container that runs."""

    def __init__(self, model):
        super().__init__()
        self.names = {m: name for name, m in model.named_modules(remove_duplicate=True)}
        self.sizes, self.order, self.pending = defaultdict(Sizes), [], Sizes()
        self.begun = []  # place in the order and container: where each of its calls begins
        self.leaf, self.fused, self.kept, self.weights = None, 0, {}, set()
        for tensor in [*model.parameters(), *model.buffers()]:
            self.weights.add(tensor.untyped_storage()._cdata)

    def enter(self, module):
        """A leaf does what its container has done since the leaf before, too."""
        self.leaf = self.names[module]
        self.order.append(self.leaf)
        self.flush()

    def leave(self):
        self.leaf = None

    def flush(self):
        """Behind the last leaf of a container what is left is that leaf's."""
        waiting, self.pending = self.pending, Sizes()
        self.add(self.sizes[self.order[-1]], waiting)

    @property
    def now(self):
        return self.pending if self.leaf is None else self.sizes[self.leaf]

    def add(self, into, other):
        for key in ("flops", "attention_flops", "moved", "saved", "kernels"):
            setattr(into, key, getattr(into, key) + getattr(other, key))
        into.linears += other.linears
        into.attention = other.attention or into.attention

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = super().__torch_dispatch__(func, types, args, kwargs)
        if self.fused or not isinstance(out, (torch.Tensor, tuple, list)):
            return out
        packet, name = func._overloadpacket, func._overloadpacket.__name__
        now = self.now
        shapes = [a.shape for a in args if isinstance(a, torch.Tensor)]
        if name == "_grouped_mm" and len(shapes[1]) == 3:  # unknown to torch's counter
            (rows, inner), (count, _, columns) = shapes[0], shapes[1]
            now.flops += 2 * rows * inner * columns
            now.kernels += 1
            now.linears.append((rows / count, inner, columns, count))
        elif packet in flop_registry:
            now.flops += flop_registry[packet](*args, **(kwargs or {}), out_val=out)
            now.kernels += 1
            a, b = shapes[-2:]
            now.linears.append((a[0], a[1], b[1], 1) if name in ("mm", "addmm") else None)
        elif not func.is_view and name not in FREE:
            read = nbytes(out) if name in GATHERS else sum(nbytes(a) for a in args)
            now.moved += nbytes(out) + read
            now.kernels += 1
        return out

    def pack(self, tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in self.weights and storage._cdata not in self.kept:
            self.kept[storage._cdata] = storage  # views count once
            self.now.saved += storage.nbytes()
        return tensor


class Fused(torch.autograd.Function):
    """A kernel of its own: `compute` without its steps, with what such a kernel keeps."""

    @staticmethod
    def forward(ctx, compute, keep, *tensors):
        out = compute(*tensors)
        ctx.save_for_backward(*keep(out))
        return out if isinstance(out, torch.Tensor) else tuple(out)

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("a model on the meta device has no backward pass here")


def fused(meter, compute, keep, tensors):
    meter.fused += 1
    try:
        out = Fused.apply(compute, keep, *tensors)
    finally:
        meter.fused -= 1
    meter.now.kernels += 1
    return out


def attend(meter, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
           enable_gqa=False):
    """scaled_dot_product_attention, as the kernels of flash attention do it (arXiv 2307.08691)."""
    heads, rows, width = query.shape[-3:]
    columns, out_width = key.shape[-2], value.shape[-1]
    batch = math.prod(query.shape[:-3])
    now = meter.now
    now.attention_flops += 2 * batch * heads * rows * columns * (width + out_width)
    causal = bool(is_causal or attn_mask is not None)
    now.attention = dict(heads=heads, key_value_heads=key.shape[-3], head_dim=(width + out_width) // 2,
                         causal=causal)

    def compute(q, k, v):  # heads are next to each other, as models want them afterwards
        return q.new_empty(*q.shape[:-3], rows, heads, out_width).transpose(-3, -2)

    def keep(out):
        return query, key, value, out, query.new_empty(query.shape[:-1], dtype=torch.float32)
    return fused(meter, compute, keep, (query, key, value))


def is_norm(module):
    return type(module).__name__.endswith(("RMSNorm", "LayerNorm")) and not list(module.children())


def patch_gelu(meter, module):
    def forward(x):
        meter.now.moved += 2 * nbytes(x)
        return fused(meter, torch.empty_like, lambda out: (x,), (x,))
    module.forward = forward


def patch_norm(meter, module):
    rows = 1 if "RMS" in type(module).__name__ else 2

    def forward(x, *unused, **unused_too):
        meter.now.moved += 2 * nbytes(x)
        statistics = x.new_empty((rows, *x.shape[:-1]), dtype=torch.float32)
        tensors = (x, *module.parameters(recurse=False))
        return fused(meter, lambda x, *w: torch.empty_like(x), lambda out: (x, statistics), tensors)
    module.forward = forward


def patch_rotation(meter, model):
    """Rotary embeddings of transformers are functions of a model's module."""
    undo = []
    for place in {sys.modules[type(m).__module__] for m in model.modules()}:
        if not hasattr(place, "apply_rotary_pos_emb"):
            continue

        def rotate(q, k, cos, sin, *args, **kwargs):
            meter.now.moved += 2 * (nbytes(q) + nbytes(k))
            meter.now.kernels += 1
            return fused(meter, lambda q, k: (torch.empty_like(q), torch.empty_like(k)),
                         lambda out: (cos, sin), (q, k))
        undo.append((place, place.apply_rotary_pos_emb))
        place.apply_rotary_pos_emb = rotate
    return undo


def leaves_of(model, inputs):
    """The modules that cost something as a whole: no module in them runs, or none has parameters."""
    stack, parents, ran = [], set(), set()

    def before(module, *unused):
        parents.update(stack[-1:])
        ran.add(module)
        stack.append(module)
    hooks = [h for m in model.modules() for h in (
        m.register_forward_pre_hook(before), m.register_forward_hook(lambda *unused: stack.pop() and None))]
    model(**inputs)
    for hook in hooks:
        hook.remove()

    def whole(module):
        own = list(module.parameters(recurse=False))
        return module not in parents or len(own) > 0 and len(own) == len(list(module.parameters()))
    leaves = {m for m in ran if whole(m)}
    inside = {below for m in leaves for below in m.modules() if below is not m}
    return leaves - inside, ran - leaves - inside


def measure(model, inputs, eager):
    """One forward pass: per leaf its sizes, and the order of leaves."""
    with Shapes():
        leaves, containers = leaves_of(model, inputs)
    meter = Meter(model)
    hooks, patched = [], []
    for module in leaves:
        hooks.append(module.register_forward_pre_hook(lambda m, *unused: meter.enter(m)))
        hooks.append(module.register_forward_hook(lambda *unused: meter.leave()))
    for module in containers:
        entered = []

        def begin(m, a, entered=entered):
            entered.append(len(meter.order))
            meter.begun.append((len(meter.order), meter.names[m]))
        hooks.append(module.register_forward_pre_hook(begin))
        hooks.append(module.register_forward_hook(
            lambda *unused, entered=entered: meter.flush() if len(meter.order) > entered.pop() else None))
    for module in [] if eager else leaves:
        if is_norm(module) or "GELU" in type(module).__name__:
            patched.append(module)
            (patch_norm if is_norm(module) else patch_gelu)(meter, module)
    rotations = [] if eager else patch_rotation(meter, model)
    attention = torch.nn.functional.scaled_dot_product_attention
    torch.nn.functional.scaled_dot_product_attention = lambda *a, **k: attend(meter, *a, **k)
    try:
        with torch.autograd.graph.saved_tensors_hooks(meter.pack, lambda t: t), meter:
            out = model(**inputs)
    finally:
        torch.nn.functional.scaled_dot_product_attention = attention
        for place, function in rotations:
            place.apply_rotary_pos_emb = function
        for module in patched:
            del module.forward
        for hook in hooks:
            hook.remove()
    if not meter.order:
        sys.exit("error: no module of the model has run")
    for tensor in tensors_of(out):  # alive as long as the caller has them
        meter.pack(tensor)
    meter.flush()
    return meter, out


def polynomial(values):
    """[constant, linear, quadratic] through the values at LENGTHS, with the terms that are there."""
    (a, b, c), (x, y, z) = LENGTHS, values
    quadratic = ((z - x) / (c - a) - (y - x) / (b - a)) / (c - b)
    linear = (y - x) / (b - a) - quadratic * (a + b)
    constant = x - linear * a - quadratic * a * a
    largest = max(abs(v) for v in values) or 1
    terms = [0 if abs(t) * s < 1e-9 * largest else round(t, 6) for t, s in
             zip((constant, linear, quadratic), (1, c, c * c))]
    if min(terms) < 0:  # pieces that do not grow evenly: what the longest has, per token
        terms = [0, z / c, 0]
    return [int(t) if t == int(t) else t for t in terms]


def linears_of(sizes):
    """Matmuls whose rows are tokens, and experts alike; None if any is another."""
    out = []
    for place, one in enumerate(sizes[-1].linears):
        per_length = [s.linears[place] if place < len(s.linears) else None for s in sizes]
        if None in per_length or len({len(s.linears) for s in sizes}) > 1:
            return None
        rows = [each[0] / tokens for each, tokens in zip(per_length, LENGTHS)]
        if max(rows) != min(rows):
            return None
        entry = {"in": one[1], "out": one[2]}
        if one[3] != 1:
            entry["count"] = one[3]
        if rows[0] != 1:
            entry["rows_per_token"] = rows[0]
        out.append(entry)
    return out


def costs_of(sizes, logits):
    flops = polynomial([s.flops for s in sizes])
    out = {"flops_per_sample": flops,
           "activation_bytes_per_sample": polynomial([s.saved for s in sizes]),
           "elementwise_bytes_per_sample": polynomial([s.moved for s in sizes]),
           "kernels": sizes[-1].kernels}
    linears = linears_of(sizes)
    if linears and flops[0] == flops[2] == 0:
        out["linears"] = linears
    if sizes[-1].attention_flops:
        out["attention_flops_per_sample"] = polynomial([s.attention_flops for s in sizes])
        out["attention"] = sizes[-1].attention
    if logits:
        out["logits"] = logits
    return out


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


def tree_of(model, passes, logits):
    """Every parameter and module under its first name."""
    seen, known = {}, {}
    ties, aliases = [], []

    def tensors(module, path, kind):
        out = []
        for name, tensor in getattr(module, kind)(recurse=False, remove_duplicate=False):
            full = f"{path}.{name}" if path else name
            entry = {"name": name, "shape": list(tensor.shape), "dtype": name_of(tensor.dtype)}
            if kind == "named_parameters":
                if not tensor.requires_grad:
                    entry["requires_grad"] = False
                if id(tensor) in seen:
                    ties.append([seen[id(tensor)], full])
                seen.setdefault(id(tensor), full)
            elif name in module._non_persistent_buffers_set and not tensor.is_floating_point():
                continue
            out.append(entry)
        return out

    def walk(module, path, name):
        known[id(module)] = path
        out = {"name": name} if path else {}
        out["class"] = type(module).__name__
        for key, kind in (("parameters", "named_parameters"), ("buffers", "named_buffers")):
            if found := tensors(module, path, kind):
                out[key] = found
        children = []
        for child_name, child in module._modules.items():
            if child is None:
                continue
            full = f"{path}.{child_name}" if path else child_name
            if id(child) in known:
                aliases.append([known[id(child)], full])
            else:
                children.append(walk(child, full, child_name))
        if children:
            out["modules"] = children
        if path in passes[0].sizes:
            calls = passes[0].order.count(path)
            sizes = [per_call(p.sizes[path], calls) for p in passes]
            out.update(costs_of(sizes, logits if path == passes[0].order[-1] else 0))
        return out
    return walk(model, "", ""), ties, aliases


def bases_of(model):
    """Of each class of a module the classes of modules that it derives from, but Module itself."""
    classes = {type(m) for m in model.modules()}
    bases = {c.__name__: [b.__name__ for b in c.__mro__[1:]
                          if issubclass(b, torch.nn.Module) and b is not torch.nn.Module] for c in classes}
    return {name: bases[name] for name in sorted(bases) if bases[name]}


def per_call(sizes, calls):
    out = Sizes()
    for key in ("flops", "attention_flops", "moved", "saved", "kernels"):
        setattr(out, key, getattr(sizes, key) / calls)
    out.kernels = round(out.kernels)
    out.linears = sizes.linears[:len(sizes.linears) // calls]
    out.attention = sizes.attention
    return out


def blocks_of(model):
    """Members of the lists of modules that hold the most parameters: transformer blocks."""
    blocks = []
    for path, module in model.named_modules():
        if not isinstance(module, torch.nn.ModuleList) or any(path.startswith(b + ".") for b in blocks):
            continue
        if len(module) > 1 and all(len(list(m.children())) > 1 for m in module):
            blocks += [f"{path}.{name}" for name, _ in module.named_children()]
    return blocks


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in tensors_of(v)] if isinstance(value, (list, tuple)) else []


def logits_of(out):
    """The width of the logits, if a loss has been computed of them."""
    loss = getattr(out, "loss", None)
    logits = getattr(out, "logits", None)
    return 0 if loss is None or logits is None else logits.shape[-1]


def parts_of(model, order, blocks):
    """Leaf -> the part of a block that it lies in: what runs, and is timed, as a whole."""
    modules = dict(model.named_modules())
    out = {}
    for leaf in set(order):
        block = next((b for b in blocks if leaf.startswith(b + ".")), None)
        steps = leaf.split(".")
        depth = len(block.split(".")) + 1 if block is not None else len(steps)
        while depth < len(steps) and isinstance(modules[".".join(steps[:depth])],
                                                (torch.nn.ModuleList, torch.nn.ModuleDict)):
            depth += 1
        out[leaf] = ".".join(steps[:depth])
    return out


def lies_in(path, container):
    return path != container and (container == "" or path.startswith(container + "."))


def with_revisits(meter):
    """The order, and where a container ends and begins again between two of its own entries."""
    out = []
    for place, path in enumerate(meter.order):
        again = [c for at, c in meter.begun if at == place > 0
                 and lies_in(path, c) and lies_in(meter.order[place - 1], c)]
        out += [{"again": min(again, key=len)}] if again else []
        out.append(path)
    return out


def coarser(meter, parts):
    """The order of parts, each with what its leaves have done."""
    order, before, begun = [], None, []
    for place, leaf in enumerate(meter.order):
        part = parts[leaf]
        calls = [path for at, path in meter.begun if at == place]
        again = any(part == path or lies_in(part, path) for path in calls)
        if part == leaf or part != before or again:
            order.append(part)
        before = part
        begun += [(len(order) - 1, path) for path in calls]
    meter.begun = begun
    sizes = defaultdict(Sizes)
    for leaf in dict.fromkeys(meter.order):
        meter.add(sizes[parts[leaf]], meter.sizes[leaf])
    meter.order, meter.sizes = order, sizes


def export(model, inputs_of, name, eager=False, leaves=False):
    """The module tree of `model`, as a dict. `inputs_of(tokens)` gives the arguments of forward."""
    model.train()
    passes = []
    for tokens in LENGTHS:
        meter, out = measure(model, inputs_of(tokens), eager)
        passes.append(meter)
    if any(p.order != passes[0].order for p in passes):
        sys.exit("error: modules run in another order at another length, which no tree can say")
    blocks = blocks_of(model)
    if not leaves:
        parts = parts_of(model, passes[0].order, blocks)
        for meter in passes:
            coarser(meter, parts)
    root, ties, aliases = tree_of(model, passes, logits_of(out))
    tree = {"tessera_model": 1, "name": name, "dtype": name_of(next(model.parameters()).dtype),
            "root": root, "forward": with_revisits(passes[0])}
    tree.update({key: value for key, value in (("ties", ties), ("module_aliases", aliases),
                                               ("units", blocks),
                                               ("class_bases", bases_of(model))) if value})
    return tree


def from_config(path, dtype):
    import transformers
    with open(path, encoding="utf-8") as file:
        settings = json.load(file)
    kind = settings.get("model_type")
    config = transformers.CONFIG_MAPPING[kind].from_dict(settings)
    config._attn_implementation = "sdpa"
    config.use_cache = False
    names = settings.get("architectures")
    cls = getattr(transformers, names[0]) if names else \
        transformers.AutoModelForCausalLM._model_mapping[type(config)]
    if not getattr(cls, "_supports_sdpa", True):
        print(f"{cls.__name__} has no fused attention: counted as it is written", file=sys.stderr)
        config._attn_implementation = "eager"
    with torch.device("meta"):
        model = cls(config).to(dtype or getattr(config, "dtype", None) or torch.bfloat16)

    def inputs(tokens):
        ids = torch.zeros(1, tokens, dtype=torch.long, device="meta")
        heads = ("ForCausalLM", "LMHeadModel", "ForMaskedLM")
        return dict(input_ids=ids, **(dict(labels=ids) if cls.__name__.endswith(heads) else {}))
    return model, inputs


def from_file(place):
    path, _, name = place.partition(":")
    spec = importlib.util.spec_from_file_location("exported_model", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["exported_model"] = module
    spec.loader.exec_module(module)
    with torch.device("meta"):
        model, inputs = getattr(module, name or "build")()

    def on_meta(tokens):
        with torch.device("meta"):
            return inputs(tokens)
    return model, on_meta


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--config", help="config.json of a model of transformers")
    source.add_argument("--from", dest="place", help="FILE.py:FUNCTION that builds a model")
    parser.add_argument("--name", help="of the model; that of its folder or file without")
    parser.add_argument("--dtype", help="of the parameters, such as bfloat16")
    parser.add_argument("--leaves", action="store_true",
                        help="list every module that runs, not the parts of blocks")
    parser.add_argument("--eager", action="store_true", help="no fused norms and rotations")
    arguments = parser.parse_args()
    dtype = getattr(torch, arguments.dtype) if arguments.dtype else None
    if arguments.config:
        model, inputs = from_config(arguments.config, dtype)
        name = os.path.basename(os.path.dirname(os.path.abspath(arguments.config)))
    else:
        model, inputs = from_file(arguments.place)
        model = model.to(dtype) if dtype else model
        name = os.path.splitext(os.path.basename(arguments.place.partition(":")[0]))[0]
    tree = export(model, inputs, arguments.name or name, arguments.eager, arguments.leaves)
    json.dump(tree, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
