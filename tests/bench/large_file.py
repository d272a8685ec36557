#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a file of 10 GB of tokens costs ranks that train on it, beside one of 1 MB.

    python3 tests/bench/large_file.py PROGRAM [--ranks 4] [--bytes 10e9]

Prints the memory of the largest rank and the time to the first step, with either file, and whether
the first batches are the same on 1, 2 and `--ranks` ranks. The file is sparse: no disk is needed.
"""
import argparse
import json
import os
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


def measured(folder, data, ranks, batch):
    """In a process of its own: the peak of its children is that of this run."""
    log = folder / "log.json"
    log.unlink(missing_ok=True)
    start = time.monotonic()
    launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)]
    command = [a.program, "train", folder / "config.json", "--data", data, "--steps", "3"]
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


def apart(*what):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, json.dumps(measured(*what)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        text = said.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else sys.exit("the run failed")


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    for file, size in (("small.bin", 1 << 20), ("large.bin", int(a.bytes))):
        with open(folder / file, "wb") as out:
            out.truncate(size)
            for part in range(256):  # not all tokens are alike
                out.seek(size // 256 // 2 * 2 * part)
                out.write(bytes([part, part % 2]) * 64)
    small = apart(folder, folder / "small.bin", a.ranks, 2)
    large = apart(folder, folder / "large.bin", a.ranks, 2)
    for kind, of in (("1 MB", small), (f"{a.bytes / 1e9:g} GB", large)):
        print(f"{kind:>6}: largest rank {of['MiB']:.1f} MiB, first step at {of['seconds']:.2f} s")
    grown, later = (large[what] - small[what] for what in ("MiB", "seconds"))
    print(f"growth {grown:.1f} MiB (bar 64), {later:.2f} s (bar 1)")
    for ranks in (1, 2):
        other = apart(folder, folder / "large.bin", ranks, 2 * a.ranks // ranks)
        apart_by = max(abs(x - y) for x, y in zip(other["losses"], large["losses"]))
        print(f"{ranks} ranks, same batches: losses {apart_by:.1e} apart")
