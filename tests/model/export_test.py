#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/export_torch_model.py writes the recorded trees; 77 (skipped) without torch."""
import importlib.util
import json
import pathlib
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
EXPORTED = SOURCE / "tests/golden/exported"


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def forward_flops(tree, tokens):
    """Of every call, attention included."""
    costs = {}

    def walk(module, path):
        costs[path] = sum(
            value[0] + tokens * (value[1] + tokens * value[2])
            for key in ("flops_per_sample", "attention_flops_per_sample")
            for value in [module.get(key, [0, 0, 0])])
        for child in module.get("modules", []):
            walk(child, f"{path}.{child['name']}" if path else child["name"])
    walk(tree["root"], "")
    return sum(costs[path] for path in tree["forward"])


def counted_flops(exporter, model, inputs, tokens):
    from torch.utils.flop_counter import FlopCounterMode
    with exporter.Shapes(), FlopCounterMode(display=False) as counter:
        model(**inputs(tokens))
    return counter.get_total_flops()


def main():
    if importlib.util.find_spec("torch") is None:
        print("skipped: there is no torch here")
        return 77
    exporter = load(SOURCE / "tools/export_torch_model.py")
    models = {"mixed": exporter.from_file(f"{EXPORTED}/mixed/mixed.py:build")}
    if importlib.util.find_spec("transformers") is not None:
        models["qwen3-small"] = exporter.from_config(f"{EXPORTED}/qwen3-small/config.json", None)
    made = {}
    for name, (model, inputs) in models.items():
        made[name] = exporter.export(model, inputs, name)
        ours = forward_flops(made[name], 96)
        theirs = counted_flops(exporter, model, inputs, 96)
        if ours != theirs:
            print(f"{name}: {ours} FLOPs, torch's counter says {theirs}")
            return 1
    wrong = [name for name, tree in made.items()
             if tree != json.loads((EXPORTED / name / "tree.json").read_text())]
    print(f"exported: {', '.join(made)}; other than recorded: {', '.join(wrong) or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
