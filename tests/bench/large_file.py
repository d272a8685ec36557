#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a file of 10 GB of tokens costs ranks that train on it, beside one of 1 MB.

    python3 tests/bench/large_file.py PROGRAM [--ranks 4] [--bytes 10e9] [--sparse] [--folder FOLDER]

Prints the memory of the largest rank and the time to the first step, with either file, whether 1, 2
and 3 ranks take the batches that `--ranks` ranks take, and whether a run that goes on in the
middle, and so begins with a seek, takes those of one that was never stopped. FOLDER, else a
temporary one, needs the file's room; --sparse needs none, but nearly all of its batches are alike,
so that equal losses say little.
"""
import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
arguments.add_argument("program")
arguments.add_argument("--ranks", type=int, default=4)
arguments.add_argument("--bytes", type=float, default=10e9)
arguments.add_argument("--sparse", action="store_true")
arguments.add_argument("--folder")
a = arguments.parse_args()
CONFIG = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "activation_function": "gelu_new",
    "vocab_size": 512,
    "n_positions": 64,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 2,
}


def measured(folder, data, ranks, batch, *more, steps=3):
    """In a process of its own: the peak of its children is that of this run."""
    log = folder / "log.json"
    log.unlink(missing_ok=True)
    start = time.monotonic()
    launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)]
    command = [a.program, "train", folder / "config.json", "--data", data]
    command += ["--steps", str(steps), "--dropout", "0", "--schedule", "constant", *more]
    command += ["--batch", str(batch), "--threads", "1", "-q", "--json", log]
    command += ["--data-format", "uint16"]
    run = subprocess.Popen([*(launcher if ranks > 1 else []), *command])
    first = None
    while run.poll() is None:
        if first is None and log.exists() and "loss" in log.read_text():
            first = time.monotonic() - start
        time.sleep(0.01)
    if run.returncode != 0:
        sys.exit(run.returncode)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    return {"MiB": peak, "seconds": first, "losses": [r["loss"] for r in rows if "loss" in r]}


def apart(*what, **named):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, json.dumps(measured(*what, **named)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        text = said.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else sys.exit("the run failed")


def fill(path, size):
    """Tokens below 512, again after a prime number of them: no window of 64 comes twice in 64 GB."""
    rng = random.Random(1)
    block = b"".join(bytes([rng.randrange(256), rng.randrange(2)]) for _ in range(524287))
    with open(path, "wb") as out:
        if not a.sparse:
            for _ in range(size // len(block) + 1):
                out.write(block)
        else:
            out.write(block[:2048])
        out.truncate(size)


def distance(some, others):
    return max(abs(x - y) for x, y in zip(some, others, strict=True))


with tempfile.TemporaryDirectory(dir=a.folder) as name:
    folder = Path(name)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    small_file, large_file = folder / "small.bin", folder / "large.bin"
    fill(small_file, 1 << 20)
    fill(large_file, int(a.bytes) // 2 * 2)
    batch = 12 // a.ranks  # of 12 samples a step, which 1, 2, 3 and 4 ranks can share
    small = apart(folder, small_file, a.ranks, batch)
    large = apart(folder, large_file, a.ranks, batch)
    for kind, of in (("1 MB", small), (f"{a.bytes / 1e9:g} GB", large)):
        print(f"{kind:>6}: largest rank {of['MiB']:.1f} MiB, first step at {of['seconds']:.2f} s")
    grown, later = (large[what] - small[what] for what in ("MiB", "seconds"))
    print(f"growth {grown:.1f} MiB (bar 64), {later:.2f} s (bar 1)")
    spread = max(large["losses"]) - min(large["losses"])
    print(f"losses of other batches: {spread:.1e} apart")
    for ranks in (1, 2, 3):
        other = apart(folder, large_file, ranks, 12 // ranks)
        by = distance(other["losses"], large["losses"])
        print(f"{ranks} ranks, same batches: losses {by:.1e} apart")
    save = ("--save", folder / "run")
    whole = apart(folder, large_file, a.ranks, batch, steps=6)
    first = apart(folder, large_file, a.ranks, batch, *save, steps=3)
    later = apart(folder, large_file, 3, 4, "--resume", folder / "run", steps=6)
    by = distance(first["losses"] + later["losses"][-3:], whole["losses"])
    print(f"stopped after 3 of 6 steps, gone on by 3 ranks: losses {by:.1e} apart, ", end="")
    print(f"first step at {later['seconds']:.2f} s")
