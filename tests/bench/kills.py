#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills recordings at random moments and counts what is lost.

    tests/bench/kills.py --program build/release/tessera --kills 100 [--mpi] [--seed 1]

A third of the kills each is of `simulate`, of `train`, and, with --mpi, of ranks of `mpirun train`.
Unreadable: `trace verify` of what is left does not call it whole, nor says that nothing was recorded
yet, which is counted by itself. Lost: the time between the last
commit and the kill, as the files of the recording tell.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "examples" / "models"


CONFIG = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
    "vocab_size": 256, "n_positions": 32, "n_embd": 16, "n_layer": 1, "n_head": 2,
}


def commands(program, mpi):
    simulate = [program, "simulate", MODELS / "llama-3-8b.json", "--nodes", "2", "--steps", "100000",
                "--jitter", "0.02", "--quiet", "-o"]
    train = [program, "train", "config.json", "--data", "text.txt", "--batch", "2", "--threads",
             "1", "--steps", "1000000", "-q", "--trace"]
    kinds = {"simulate": simulate, "train": train}
    if mpi:
        kinds["mpirun train"] = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"] + train
    return kinds


def processes_of(program, trace):
    """The ids of what records it: mpirun puts its children into groups of their own."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except (OSError, ProcessLookupError):
            continue
        if words[:1] == [program.encode()] and trace.encode() in words:
            found.append(int(entry.name))
    return found


def kill(process):
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        pass


def last_commit(trace):
    """When something was written last, 0: never. A rank that lost another closes its trace."""
    times = [0]
    for name in (trace, trace + ".partial", trace + ".partial-wal"):
        if os.path.exists(name):
            times.append(os.stat(name).st_mtime)
    return max(times)


def kill_once(program, kind, command, folder, rng):
    trace = os.path.join(folder, "run.tessera")
    pathlib.Path(folder, "config.json").write_text(json.dumps(CONFIG))
    pathlib.Path(folder, "text.txt").write_text("what is recorded stays recorded. " * 400)
    run = subprocess.Popen([str(c) for c in command] + [trace], cwd=folder,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           start_new_session=True)
    limit = time.time() + 60
    while last_commit(trace) == 0 and time.time() < limit and run.poll() is None:
        time.sleep(0.005)
    time.sleep(rng.uniform(0, 3 if kind.startswith("mpirun") else 1.5))
    killed = time.time()
    if run.poll() is not None:
        return 0, f"it ended by itself, exit code {run.returncode}"
    victims = processes_of(program, trace)
    if kind.startswith("mpirun") and victims and rng.random() < 0.5:
        kill(rng.choice(victims))
        time.sleep(0.05)
    for victim in victims:
        kill(victim)
    kill(run.pid)
    run.wait()
    for victim in victims:
        while os.path.exists(f"/proc/{victim}"):
            time.sleep(0.01)
    lost = killed - last_commit(trace)
    left = trace + ".partial" if os.path.exists(trace + ".partial") else trace
    if not os.path.exists(left):
        return lost, "there is no file"
    checked = subprocess.run([program, "trace", "verify", left], capture_output=True, text=True)
    return lost, "" if checked.returncode == 0 else (checked.stdout + checked.stderr).strip()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True, type=os.path.abspath)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--mpi", action="store_true")
    parser.add_argument("--only", choices=["simulate", "train", "mpirun train"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so many")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    kinds = commands(arguments.program, arguments.mpi or arguments.only == "mpirun train")
    if arguments.only:
        kinds = {arguments.only: kinds[arguments.only]}
    lost = {kind: [] for kind in kinds}
    unreadable = early = 0
    end = time.time() + arguments.seconds
    for k in range(arguments.kills):
        if time.time() > end:
            break
        kind = list(kinds)[k % len(kinds)]
        folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        try:
            seconds, why = kill_once(arguments.program, kind, kinds[kind], folder, rng)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if "othing is in the recording yet" in why or "nothing was recorded" in why:
            early += 1  # the run had not begun
            continue
        lost[kind].append(seconds)
        if why:
            unreadable += 1
            print(f"kill {k} of {kind}, seed {arguments.seed}: {why}")
    for kind, times in lost.items():
        if times:
            times.sort()
            over = sum(t > 0.25 for t in times)
            print(f"{kind}: {len(times)} kills, lost {times[len(times) // 2] * 1e3:.0f} ms in the "
                  f"middle, {times[-1] * 1e3:.0f} ms at most, {over} over 250 ms")
    print(f"{early} killed before anything was recorded, {unreadable} unreadable")
    return 1 if unreadable else 0


if __name__ == "__main__":
    sys.exit(main())
