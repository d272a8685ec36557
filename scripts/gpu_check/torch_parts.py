# SPDX-License-Identifier: Apache-2.0
"""The same GPT-2 in PyTorch, eager and compiled, on the same GPU, batch and length."""
import importlib.util
import json
import os
import sys

from gpu_check.bench_parts import GPT2_VOCABULARY, Shape
from gpu_check.machine import Failed, Skipped

COMPILE_BAR = 1.0
PADDED_VOCABULARY = 50304  # as many train it, for the products' sake: a second figure
# What needs least comes first; the compiler may take minutes.
RUNS = (("eager", GPT2_VOCABULARY), ("products", GPT2_VOCABULARY), ("compile", GPT2_VOCABULARY),
        ("compile", PADDED_VOCABULARY))


def beside(machine):
    if machine.dry or importlib.util.find_spec("torch") is None:
        raise Skipped("PyTorch with a GPU is not here")
    shape = Shape(machine)
    figures, failed = {}, []
    for mode, vocabulary in RUNS:
        name = mode if vocabulary == GPT2_VOCABULARY else f"{mode}, {vocabulary} tokens"
        try:
            step_ms = measure(machine, shape, mode, vocabulary)
        except Failed as why:  # what the others have found is kept
            if vocabulary == PADDED_VOCABULARY:
                figures[name] = f"not measured: {why}"
            else:
                failed.append(f"{name}: {why}")
            continue
        figures[f"{name}, ms"] = step_ms
        if mode != "products":
            figures[f"{name} tokens/s"] = shape.tokens() / step_ms * 1e3
    compare(figures, machine.measured.get("step_ms"))
    if failed:
        raise Failed("; ".join(failed), figures)
    if "to compile" not in figures:
        raise Failed("throughput was not measured", figures)
    if figures["to compile"] < COMPILE_BAR:
        raise Failed("slower than torch.compile", figures)
    return figures


def measure(machine, shape, mode, vocabulary):
    program = str(machine.root / "scripts/gpu_check/torch_gpt2.py")
    # Libraries as PyTorch brings them, and the driver where the caller's variables say.
    output = machine.require([sys.executable, program, mode, str(shape.batch), str(shape.length),
                              str(vocabulary)], env=dict(os.environ))
    return json.loads(output.strip().splitlines()[-1])["step_ms"]


def compare(figures, own):
    """Adds how our step, in milliseconds or None, compares with what was measured."""
    for name, mode in {"to eager": "eager", "to compile": "compile",
                       "to compile, 50304 tokens": "compile, 50304 tokens",
                       "their share of the step": "products"}.items():
        if own is not None and f"{mode}, ms" in figures:
            figures[name] = figures[f"{mode}, ms"] / own
