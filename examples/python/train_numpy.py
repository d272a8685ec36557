# SPDX-License-Identifier: Apache-2.0
"""Two linear layers in NumPy on four ranks: the engine shards, this program computes.

    python3 train_numpy.py [fully_shard | full_shard | zero1 | ...] [simulator | local | mpi]
"""
import sys

import numpy as np

import tessera

scheme = sys.argv[1] if len(sys.argv) > 1 else "fully_shard"
kind = sys.argv[2] if len(sys.argv) > 2 else "simulator"


def linear(name, outputs, inputs):
    weight = {"name": "weight", "shape": [outputs, inputs]}
    return {"name": name, "class": "Linear", "parameters": [weight]}


model = tessera.Model(
    {
        "tessera_model": 1,
        "name": "two layers",
        "root": {"class": "Net", "modules": [linear("first", 16, 4), linear("second", 1, 16)]},
    }
)
kept = {}  # by rank: what forward leaves for backward
losses = {}


def compute(p):
    own = kept.setdefault(p.rank, {})
    if p.module == "first" and p.kind == "forward":
        own["x"] = np.random.default_rng(p.rank).standard_normal((64, 4)).astype(np.float32)
        own["h"] = np.maximum(own["x"] @ p.values["first.weight"].T, 0)
    elif p.module == "second" and p.kind == "forward":
        wanted = own["x"].sum(axis=1, keepdims=True)
        own["error"] = own["h"] @ p.values["second.weight"].T - wanted
        losses[p.rank] = float((own["error"] ** 2).mean())
    elif p.module == "second":
        out = 2 * own["error"] / len(own["error"])
        p.gradients["second.weight"] += out.T @ own["h"]
        own["grad_h"] = (out @ p.values["second.weight"]) * (own["h"] > 0)
    else:
        p.gradients["first.weight"] += own["grad_h"].T @ own["x"]


with tessera.Runtime(kind, **({"ranks": 4} if kind == "simulator" else {})) as runtime:
    engine = tessera.Engine(runtime, model, scheme)
    generator = np.random.default_rng(0)
    engine.initialise(lambda name, shape: generator.standard_normal(shape) / 4)
    for step in range(60):
        engine.step(compute, learning_rate=0.02)
        loss = runtime.mean(losses)
        if step % 10 == 9:
            print(f"step {step + 1} loss {loss:.4f}")
    print("largest weight", round(float(np.abs(engine["first.weight"]).max()), 4))
