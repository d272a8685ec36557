# SPDX-License-Identifier: Apache-2.0
"""The same GPT-2 in PyTorch, eager and compiled, on the same GPU, batch and length."""
import importlib.util
import json
import sys

from gpu_check.bench_parts import Shape
from gpu_check.machine import Failed, Skipped

COMPILE_BAR = 1.0


def beside(machine):
    if machine.dry or importlib.util.find_spec("torch") is None:
        raise Skipped("PyTorch with a GPU is not here")
    shape = Shape(machine)
    program = str(machine.root / "scripts/gpu_check/torch_gpt2.py")
    figures, last = {}, {}
    for mode in ("eager", "compile", "products"):
        output = machine.require(
            [sys.executable, program, mode, str(shape.batch), str(shape.length)],
            env=machine.environment({"LD_LIBRARY_PATH": ""}))
        last[mode] = json.loads(output.strip().splitlines()[-1])["step_ms"]
        if mode != "products":
            figures[f"{mode} tokens/s"] = shape.tokens() / last[mode] * 1e3
    if "step_ms" not in machine.measured:
        raise Skipped(f"throughput was not measured; PyTorch: {figures}")
    own = machine.measured["step_ms"]
    figures["to eager"] = last["eager"] / own
    figures["to compile"] = last["compile"] / own
    figures["matrix products alone, ms"] = last["products"]
    figures["their share of the step"] = last["products"] / own
    if figures["to compile"] < COMPILE_BAR:
        raise Failed("slower than torch.compile", figures)
    return figures
