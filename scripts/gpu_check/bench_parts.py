# SPDX-License-Identifier: Apache-2.0
"""What is measured: tokens per second, what the engine costs, copies, and what was simulated."""
import json
import pathlib
import random
import statistics
import struct

from gpu_check.machine import Failed, Skipped

OVERHEAD_BAR = 1.02
COPIES_BAR = 0.9
SIMULATED_BAR = 0.05
GPT2_VOCABULARY = 50257


class Shape:
    """The model and step that everything here is measured with."""
    def __init__(self, machine):
        self.name = "gpt-tiny.json" if machine.dry else "gpt2.json"
        self.batch, self.length = (2, 16) if machine.dry else (16, 1024)
        self.steps, self.warm = (3, 1) if machine.dry else (25, 5)

    def tokens(self):
        return self.batch * self.length


def tokens_file(machine):
    """Random tokens: nothing that is measured depends on what they are."""
    path = machine.work / "tokens.bin"
    if not path.exists():
        vocabulary = 256 if machine.dry else GPT2_VOCABULARY
        draw = random.Random(1)
        tokens = [draw.randrange(vocabulary) for _ in range(60_000)]
        path.write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
    return path


def steps_of(machine, shape, scheme="fully_shard", batch=None):
    """Milliseconds of the steps after the first ones, and the last line."""
    lines = machine.train([
        machine.model(shape.name), "--data", str(tokens_file(machine)), "--dtype", "bfloat16",
        "--scheme", scheme, "--batch", str(batch or shape.batch), "--sequence-length",
        str(shape.length), "--steps", str(shape.steps)])
    steps = [json.loads(line) for line in lines]
    return [step["ms"] for step in steps[shape.warm:]], steps[-1]


def throughput(machine):
    shape = Shape(machine)
    times, last = steps_of(machine, shape)
    step_ms = statistics.median(times)
    machine.measured["step_ms"] = step_ms
    return {"model": shape.name, "batch": shape.batch, "length": shape.length,
            "dtype": "bfloat16", "step ms": step_ms,
            "tokens/s": shape.tokens() / step_ms * 1e3, "MFU": last["mfu"],
            "memory bytes": last["memory_bytes"]}


def overhead(machine):
    """Turns, so that a GPU that becomes warm and slow is so for both."""
    shape = Shape(machine)
    ratios = []
    for _ in range(2):
        sharded, _ = steps_of(machine, shape)
        plain, _ = steps_of(machine, shape, scheme="no_shard")
        ratios.append(statistics.median(sharded) / statistics.median(plain))
    ratio = min(ratios)
    figures = {"fully_shard to no_shard": ratio, "rounds": len(ratios)}
    if ratio > OVERHEAD_BAR and not machine.dry:
        raise Failed(f"a step takes {ratio:.3f} times as long as without sharding", figures)
    return figures


def copies(machine):
    size = ["4", "3"] if machine.dry else []
    found = json.loads(machine.require([machine.program("bench_device"), *size]).splitlines()[-1])
    figures = {}
    for way in ("to_host", "to_device"):
        figures[f"{way} GB/s"] = found[way]["engine_bytes_per_s"] / 1e9
        figures[f"{way}, of plain"] = found[way]["ratio"]
    slowest = min(found[way]["ratio"] for way in ("to_host", "to_device"))
    if slowest < COPIES_BAR and not machine.dry:
        raise Failed(f"less than {COPIES_BAR} of a plain copy", figures)
    return figures


def simulated_ms(machine, shape, batch, scale):
    """A step on one GPU whose kernels reach `scale` of what its preset says."""
    name = "dgx-h200" if "H200" in machine.gpu else "dgx-h100"
    preset = machine.root / f"sim/cluster/presets/{name}.json"
    cluster = json.loads(pathlib.Path(preset).read_text())
    gpu = cluster["gpu"]
    for key in ("matmul_efficiency", "attention_efficiency", "memory_efficiency"):
        gpu[key] = min(1.0, gpu[key] * scale)
    cluster["gpus_per_node"] = 1
    cluster["name"] = "calibrated"
    description = machine.work / "cluster.json"
    description.write_text(json.dumps(cluster))
    report = machine.require([
        machine.program("tessera"), "simulate", machine.model(shape.name), "--cluster",
        str(description), "--batch", str(batch), "--sequence-length", str(shape.length),
        "--profile", "compile",  # of the kinds of stacks the nearest: few passes over memory
        "-o", str(machine.work / "simulated.tessera"), "--json"])
    return json.loads(report)["step_time_steady_ns"] / 1e6


def simulated(machine):
    """Calibrated by one number at one batch size, held against another."""
    shape = Shape(machine)
    if "step_ms" not in machine.measured:
        raise Skipped("throughput was not measured")
    target, low, high = machine.measured["step_ms"], 0.02, 1.4
    for _ in range(3 if machine.dry else 14):
        middle = (low + high) / 2
        if simulated_ms(machine, shape, shape.batch, middle) > target:
            low = middle
        else:
            high = middle
    scale = (low + high) / 2
    times, _ = steps_of(machine, shape, batch=shape.batch // 2)
    measured = statistics.median(times)
    expected = simulated_ms(machine, shape, shape.batch // 2, scale)
    figures = {"calibration": scale, "measured ms": measured, "simulated ms": expected,
               "of measured": expected / measured}
    if abs(expected / measured - 1) > SIMULATED_BAR and not machine.dry:
        raise Failed("simulated and measured step times differ", figures)
    return figures


def memory(machine):
    """The simulator's peak and the real one, of the same run."""
    options = [machine.model("gpt-tiny.json"), "--data", str(tokens_file(machine)),
               "--data-format", "bytes", "--batch", "2", "--sequence-length", "32", "--steps", "2"]
    real = json.loads(machine.train(options)[-1])["memory_bytes"]
    simulator = ["--runtime", "simulator", "--device", "cuda"]
    lines = machine.work / "simulated.json"
    machine.require([machine.program("tessera"), "train", *options, *simulator, "-q", "--json",
                     str(lines)])
    expected = json.loads(lines.read_text().splitlines()[-1])["memory_bytes"]
    if real != expected:
        raise Failed(f"{real} bytes, simulated {expected}", {"bytes": real})
    return {"bytes": real}
