#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stops what writes files at random moments, and looks at what lies there then.

    tests/bench/stopped_files.py PROGRAM [--count 100] [--seed 1] [--only export]

Each kind is stopped --count times by each of SIGKILL, SIGTERM and SIGINT: runs that save after every
step (one process; one of two), one that exports merged weights into a folder and an adapter into
another, both in place of older ones, and `tokenize` in place of older tokens. Wrong is: a
checkpoint, weights, a configuration or tokens under their final name that are not whole, or not of
one run; a resumed run whose losses are not those of one that was never stopped; what a run that was
asked to stop has done and not saved; a .partial of a command that could have removed it. Also
printed: how often something unfinished lay there, so that the moment was one of writing. The kind
of two processes needs mpirun. Exit code 1: something was wrong.
"""
import argparse
import collections
import filecmp
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
arguments.add_argument("program", type=Path)
arguments.add_argument("--count", type=int, default=100)
arguments.add_argument("--seed", type=int, default=1)
arguments.add_argument("--only", default="")
a = arguments.parse_args()
PROGRAM = str(a.program.resolve())
# Shells start what is in the background with SIGINT ignored, and so would be every run.
signal.signal(signal.SIGINT, signal.default_int_handler)
rng = random.Random(a.seed)
counts = collections.Counter()


def wrong(kind, number, what):
    counts[kind, "wrong"] += 1
    print(f"{kind}, {signal.Signals(number).name}: {what}", flush=True)


def model(name, width, **more):
    own = dict(architectures=["GPT2LMHeadModel"], model_type="gpt2", vocab_size=256,
               activation_function="gelu_new", n_positions=32, n_embd=width, n_layer=2, n_head=2,
               attn_pdrop=0, embd_pdrop=0, resid_pdrop=0)  # fmt: skip
    Path(name).write_text(json.dumps({**own, **more}))


def command(*words):
    return [str(word) for word in [PROGRAM, *words]]


def train(config, *words):
    common = ["--data", "text.txt", "--batch", 2, "--sequence-length", 16, "--threads", 1, "-q"]
    return command("train", config, *common, *words)


def run(words):
    return subprocess.run(words, capture_output=True, text=True)


def start(words):
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def losses(log):
    rows = []
    for line in Path(log).read_text().splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue  # SIGKILL may cut the last one
        rows.append((row["step"], row["loss"]))
    return rows


class Saving:
    """Runs that save after every step."""

    def __init__(self, kind, launch):
        self.kind, self.launch = kind, launch
        model("small.json", 64)
        whole = ["--schedule", "constant", "--steps", 2000, "--json", "unbroken.json"]
        run([*launch, *train("small.json", *whole)])
        self.known = dict(losses("unbroken.json"))

    def words(self, steps, *more):
        save = ["--save", "run", "--save-every", 1, "--keep", 3, "--json", "log.json"]
        run_of = ["--schedule", "constant", "--steps", steps, *save]
        return [*self.launch, *train("small.json", *run_of, *more)]

    def victim(self, started):
        if not self.launch:
            return started.pid
        ranks = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
        return int(rng.choice(ranks))

    def stop(self, number):
        shutil.rmtree("run", ignore_errors=True)
        Path("log.json").write_text("")
        started = start(self.words(100000))
        while not list(Path("run").glob("step-*/manifest.json")) and started.poll() is None:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.3))
        os.kill(self.victim(started), number)
        code = started.wait(timeout=120)
        # Of what begins and of what goes: the manifest comes last and goes first.
        folders = sorted(Path("run").glob("step-*[0-9]"))
        saved = [one for one in folders if (one / "manifest.json").exists()]
        counts[self.kind, "unfinished"] += len(saved) < len(folders)
        for one in saved:
            if run(command("checkpoint", "verify", one)).returncode != 0:
                wrong(self.kind, number, f"{one} is not whole")
        newest, done = int(saved[-1].name[5:]), losses("log.json")[-1][0]
        if number != signal.SIGKILL and newest != done:
            wrong(self.kind, number, f"{done} steps were done, {newest} are saved")
        if number != signal.SIGKILL and not self.launch and code != 128 + number:
            wrong(self.kind, number, f"exit code {code}")
        most = (self.kind, "most steps lost by SIGKILL")
        counts[most] = max(counts[most], done - newest)
        self.resume(number, newest)

    def resume(self, number, newest):
        again = run(self.words(newest + 2, "--resume", "auto"))
        if again.returncode != 0:
            wrong(self.kind, number, f"resuming after {newest}: {again.stderr.strip()}")
        for step, loss in losses("log.json"):
            if self.known.get(step, loss) != loss:
                wrong(self.kind, number, f"step {step} has another loss")
                return


class Exporting:
    """Merged weights in a folder, and an adapter, in place of those of another run."""

    # What is read together, by the file that names the rest.
    TOGETHER = {
        "out/config.json": ["out/model.safetensors", "out/tokenizer.json"],
        "adapter/adapter_config.json": ["adapter/adapter_model.safetensors"],
    }

    def __init__(self, kind):
        self.kind = kind
        for k in (0, 1):
            Path(f"base{k}").mkdir()
            model(f"base{k}/config.json", 384, layer_norm_epsilon=(1e-5, 1e-4)[k])
            words = {chr(97 + n): n + k for n in range(26)}
            tokenizer = {"model": {"type": "BPE", "merges": [], "vocab": words}}
            Path(f"base{k}/tokenizer.json").write_text(json.dumps(tokenizer))
        run(train("base0/config.json", "--steps", 1, "--export", "base.safetensors"))
        self.seconds = []
        for k in (0, 1):
            begin = time.monotonic()
            done = run(self.words(k))
            self.seconds.append(time.monotonic() - begin)
            if done.returncode != 0:
                sys.exit(f"{kind}: {done.stderr}")
            for name in ("out", "adapter"):
                shutil.move(name, f"{name}{k}")

    def words(self, k):
        lora = ["--lora", f"rank=4,alpha={(8, 32)[k]}", "--load", "base.safetensors", "--seed", k]
        to = ["--export", "out/", "--export-adapter", "adapter", "--steps", 1]
        return train(f"base{k}/config.json", *lora, *to)

    def run_of(self, file):
        """0 or 1; None: it is of neither."""
        folder, name = file.split("/")
        alike = [k for k in (0, 1) if filecmp.cmp(file, f"{folder}{k}/{name}", shallow=False)]
        return alike[0] if alike else None

    def stop(self, number):
        before = rng.choice((0, 1))
        for name in ("out", "adapter"):
            shutil.rmtree(name, ignore_errors=True)
            shutil.copytree(f"{name}{before}", name)
        started = start(self.words(1 - before))
        time.sleep(rng.uniform(0.2, 1.1) * self.seconds[0])
        started.send_signal(number)
        started.wait(timeout=120)
        files = [f"{one.parent}/{one.name}" for name in ("out", "adapter")
                 for one in Path(name).iterdir()]  # fmt: skip
        unfinished = [one for one in files if one.endswith((".partial", ".all"))]
        counts[self.kind, "unfinished"] += bool(unfinished) or Path("adapter.all").exists()
        owners = {one: self.run_of(one) for one in files if one not in unfinished}
        for one, owner in owners.items():
            if owner is None:
                wrong(self.kind, number, f"{one} is of neither run")
        for head, rest in self.TOGETHER.items():
            mixed = [one for one in rest if owners.get(one) != owners.get(head)]
            if head in owners and mixed:
                wrong(self.kind, number, f"{head} names {', '.join(mixed)} of another run")


class Tokenizing:
    """Tokens in place of older ones."""

    def __init__(self, kind):
        self.kind = kind
        words = {chr(97 + n): n for n in range(26)} | {" ": 26}
        Path("letters.json").write_text(
            json.dumps({"model": {"type": "BPE", "merges": [], "vocab": words}}))  # fmt: skip
        for k in (0, 1):
            text = json.dumps({"text": "what is done stays done " * (40 + k)})
            Path(f"text{k}.jsonl").write_text(f"{text}\n" * 4000)
            begin = time.monotonic()
            run(self.words(k, f"tokens{k}.bin"))
            self.seconds = time.monotonic() - begin
        size = Path("tokens0.bin").stat().st_size
        assert struct.unpack("<H", Path("tokens0.bin").read_bytes()[:2]) == (22,) and size > 1e6

    def words(self, k, out):
        return command("tokenize", "letters.json", f"text{k}.jsonl", "-o", out, "--end-of-text",
                       "none")  # fmt: skip

    def stop(self, number):
        before = rng.choice((0, 1))
        Path("tokens.bin.partial").unlink(missing_ok=True)
        shutil.copy(f"tokens{before}.bin", "tokens.bin")
        started = start(self.words(1 - before, "tokens.bin"))
        time.sleep(rng.uniform(0, 1.05) * self.seconds)
        partial = Path("tokens.bin.partial")
        counts[self.kind, "unfinished"] += partial.exists()
        started.send_signal(number)
        code = started.wait(timeout=120)
        if code not in (0, -number):
            wrong(self.kind, number, f"exit code {code}")
        if number != signal.SIGKILL and partial.exists():
            wrong(self.kind, number, "a .partial stays")
        if not any(filecmp.cmp("tokens.bin", f"tokens{k}.bin", shallow=False) for k in (0, 1)):
            wrong(self.kind, number, "tokens.bin is neither")


def main():
    kinds = {
        "saving": lambda kind: Saving(kind, []),
        "one of two saving": lambda kind: Saving(
            kind, ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"]),
        "exporting": Exporting,
        "tokenizing": Tokenizing,
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="stopped-files-") as folder:
        for kind, make in kinds.items():
            if a.only not in kind:
                continue
            os.makedirs(f"{folder}/{kind}")
            os.chdir(f"{folder}/{kind}")
            Path("text.txt").write_text("what is done stays done. " * 400)
            trial = make(kind)
            for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
                for _ in range(a.count):
                    trial.stop(number)
            said = {what: n for (of, what), n in counts.items() if of == kind}
            print(f"{kind}: {3 * a.count} stops, {said}", flush=True)
    return 1 if any(what == "wrong" for _, what in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
