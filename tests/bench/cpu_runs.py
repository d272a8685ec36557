#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far simulated runs are from real ones of `tessera train` on this machine's CPUs.

    tests/bench/cpu_runs.py [--program build/release/tessera] [--ranks 2] [--steps 24]

Trains two configurations with MPI, calibrates a machine and a profile on them, trains twelve
others and simulates them: step time by its error, memory by the byte. Times mean something on a
quiet machine with a core a rank; memory does everywhere. Standard library only."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

LLAMA, GPT2 = "LlamaForCausalLM", "GPT2LMHeadModel"
# Architecture, width, layers, tokens of a sequence, batch, options.
CALIBRATED = [(LLAMA, 128, 2, 64, 2, "--scheme fully_shard"),
              (LLAMA, 256, 4, 128, 4, "--scheme fully_shard")]
MEASURED = [(LLAMA, 192, 3, 96, 3, "--scheme fully_shard"),
            (LLAMA, 256, 6, 64, 2, "--scheme fully_shard"),
            (LLAMA, 128, 8, 128, 4, "--scheme fully_shard"),
            (GPT2, 256, 4, 128, 2, "--scheme fully_shard"),
            (LLAMA, 256, 4, 128, 4, "--scheme fully_shard --checkpointing full"),
            (LLAMA, 256, 4, 128, 2, "--scheme fully_shard --accumulation 2"),
            (LLAMA, 256, 4, 128, 4, "--scheme full_shard"),
            (LLAMA, 256, 4, 128, 4, "--scheme replicate"),
            (LLAMA, 192, 4, 128, 4, "--scheme zero3"),
            (LLAMA, 192, 4, 128, 4, "--scheme zero1"),
            (LLAMA, 256, 4, 256, 2, "--scheme fully_shard"),
            (LLAMA, 384, 2, 64, 4, "--scheme fully_shard --reshard-after-forward never")]


def model_of(architecture, width, layers, length):
    heads = width // 32
    if architecture == GPT2:
        return {"architectures": [GPT2], "vocab_size": 512, "n_positions": length,
                "n_embd": width, "n_layer": layers, "n_head": heads}
    return {"architectures": [LLAMA], "vocab_size": 512, "hidden_size": width,
            "intermediate_size": 2 * width + width // 64 * 32, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": heads,
            "max_position_embeddings": length}


class Bench:
    def __init__(self, a, folder):
        self.a, self.folder = a, pathlib.Path(folder)
        self.program = str(pathlib.Path(a.program).resolve())
        (self.folder / "data.txt").write_bytes(os.urandom(1 << 20))

    def run(self, *command):
        words = [str(word) for word in command]
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}\n{done.stderr}")
        return done.stdout

    def options(self, name, row):
        architecture, width, layers, length, batch, more = row
        model = model_of(architecture, width, layers, length)
        (self.folder / f"{name}.json").write_text(json.dumps(model))
        return [f"{name}.json", "--sequence-length", length, "--batch", batch, *more.split()]

    def train(self, name, row):
        self.run("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", self.a.ranks,
                 self.program, "train", *self.options(name, row), "--data", "data.txt",
                 "--data-format", "bytes", "--steps", self.a.steps, "--seed", 1, "-q", "--trace",
                 f"{name}.tessera")

    def simulate(self, name, row):
        self.run(self.program, "simulate", *self.options(name, row), "--cluster",
                 "machine.json", "--profile", "stack.json", "--steps", 4, "-q", "-o",
                 f"{name}-simulated.tessera")

    def figures(self, trace):
        report = json.loads(self.run(self.program, "report", trace, "--json"))
        held = [(g["allocated_bytes"], g["reserved_bytes"]) for g in report["memory"]["groups"]]
        return report["step_time_steady_ns"], max(held)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/tessera")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=24)
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(a, folder)
        names = [f"calibrated{k}" for k in range(len(CALIBRATED))]
        for name, row in zip(names, CALIBRATED):
            bench.train(name, row)
        print(bench.run(bench.program, "calibrate", *[f"{name}.tessera" for name in names], "-o",
                        "machine.json", "--profile-output", "stack.json"), flush=True)
        errors, unequal = [], 0
        for k, row in enumerate(MEASURED):
            bench.train(f"run{k}", row)
            bench.simulate(f"run{k}", row)
            real, held = bench.figures(f"run{k}.tessera")
            said, planned = bench.figures(f"run{k}-simulated.tessera")
            errors.append(said / real - 1)
            unequal += held != planned
            memory = "equal" if held == planned else f"{held} in reality, {planned} simulated"
            print(f"{row}: {real / 1e6:.2f} ms, simulated {said / 1e6:.2f} ({errors[-1]:+.1%}); "
                  f"memory {memory}", flush=True)
        print(f"step time: mean of |error| {statistics.mean(map(abs, errors)):.1%}, bias "
              f"{statistics.mean(errors):+.1%}; memory differs in {unequal} of {len(errors)}")


if __name__ == "__main__":
    main()
