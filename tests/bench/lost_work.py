#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Thirty ways of losing work, tried: what each ends with, and whether anything was lost.

    python3 tests/bench/lost_work.py PROGRAM [--markdown]

Each case is a short run of `tessera train` that goes wrong in one way. Something is lost where a
run ends without a sentence, where a checkpoint, export or log that was promised is not there or
not whole, or where steps were done that nothing kept. Exit code 1 if any case loses something.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
arguments.add_argument("program")
arguments.add_argument("--markdown", action="store_true")
a = arguments.parse_args()
CONFIG = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "activation_function": "gelu_new",
    "vocab_size": 256,
    "n_positions": 32,
    "n_embd": 16,
    "n_layer": 1,
    "n_head": 2,
    "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0,
}
# Shells start what is in the background with SIGINT ignored, and so would be every run.
signal.signal(signal.SIGINT, signal.default_int_handler)
folder = Path(tempfile.mkdtemp(prefix="lost-work-"))
os.chdir(folder)
Path("config.json").write_text(json.dumps(CONFIG))
Path("text.txt").write_text("what is done stays done. " * 400)
Path("other.txt").write_text("other data than those before. " * 400)
Path("file").write_text("a file")
os.makedirs("taken", exist_ok=True)
rows = []


def tessera(*words):
    done = subprocess.run(
        [a.program, *[str(word) for word in words]], capture_output=True, text=True, timeout=120
    )
    said = [line for line in done.stderr.splitlines() if line.startswith("tessera")]
    return done.returncode, said[-1] if said else "", done.stdout


def train(*words, steps=6):
    common = ["config.json", "--batch", 2, "--threads", 1, "--steps", steps]
    common += [] if "--data" in words else ["--data", "text.txt"]
    return tessera("train", *common, "-q", *words)


def whole(save):
    return tessera("checkpoint", "verify", save)[0] == 0


def steps_in(log):
    lines = Path(log).read_text().splitlines() if Path(log).exists() else []
    return sum("loss" in line for line in lines)


def case(what, code, said, kept):
    rows.append((what, code, said.replace(str(folder), "FOLDER"), kept))
    if not a.markdown:
        print(f"{'kept' if kept else 'LOST':5} {code:4} {what}: {said[:150]}", flush=True)


def refused(what, *words, least=(2,)):
    """Refused before the first step: nothing can be lost."""
    Path("log.json").unlink(missing_ok=True)
    code, said, _ = train("--json", "log.json", *words)
    case(what, code, said, code in least and bool(said) and steps_in("log.json") == 0)


def signalled(what, number, *words):
    """Stopped in the middle: the steps that were done are in a checkpoint that is whole."""
    save = f"run-{number}-{len(rows)}"
    run = subprocess.Popen(
        [a.program, "train", "config.json", "--data", "text.txt", "--batch", "2", "--threads", "1",
         "--steps", "1000000", "-q", "--save", save, "--json", "signal.json",
         "--trace", "signal.tessera", *words],
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 60
    Path("signal.json").unlink(missing_ok=True)
    while steps_in("signal.json") < 3 and time.monotonic() < end:
        time.sleep(0.02)
    run.send_signal(number)
    _, said = run.communicate(timeout=60)
    last = [line for line in said.splitlines() if line.startswith("tessera")]
    kept = whole(save) and tessera("report", "signal.tessera")[0] == 0
    case(what, run.returncode, last[-1] if last else "", kept)


# Paths: tried before the first step.
refused("--save below a file", "--save", "file/run")
refused("--save in a folder that cannot be made", "--save", "/proc/run")
refused("--save-every without --save", "--save-every", 2)
refused("--export into a folder that is not there", "--export", "nowhere/w.safetensors")
refused("--export into the folder of the model", "--export", ".")
refused("--export onto the data", "--export", "text.txt")
refused("--export-adapter without --lora", "--export-adapter", "adapter")
refused("--trace into a folder that is not there", "--trace", "nowhere/run.tessera")
refused("--csv into a folder that is not there", "--csv", "nowhere/log.csv")
refused("--tensorboard below a file", "--tensorboard", "file/events")
case_words = ["--json", "nowhere/log.json"]
code, said, _ = train(*case_words)
case("--json into a folder that is not there", code, said, code == 2 and bool(said))
refused("--resume of what is no checkpoint", "--resume", "taken")
refused("--load of a file that is none", "--load", "file")
refused("--load of a file that is not there", "--load", "nowhere.safetensors")
refused("--data that is not there", "--data", "nowhere.txt")

# What goes on from where.
code, said, _ = train("--save", "run", "--save-every", 2, steps=4)
case("a run that ends well", code, said, code == 0 and whole("run"))
refused("--resume with other data", "--resume", "run", "--data", "other.txt")
refused("--resume with another sequence length", "--resume", "run", "--sequence-length", 16)
refused("--resume with another seed", "--resume", "run", "--seed", 9)
Path("wider.json").write_text(json.dumps({**CONFIG, "n_embd": 32}))
code, said, _ = tessera("train", "wider.json", "--data", "text.txt", "--resume", "run", "-q")
case("--resume with another model", code, said, code == 2 and whole("run"))
code, said, _ = train("--resume", "auto", "--save", "fresh", steps=2)
case("--resume auto at the first start", code, said, code == 0 and whole("fresh"))
code, said, _ = train("--resume", "auto", "--save", "run", steps=6)
case("--resume auto after a stop", code, said, code == 0 and whole("run"))
refused("--save behind a later checkpoint", "--save", "run", "--save-every", 1)
newest = sorted(Path("run").glob("step-*"))[-1]
data = max((p for p in newest.iterdir() if p.is_file()), key=lambda p: p.stat().st_size)
content = bytearray(data.read_bytes())
content[len(content) // 2] ^= 1
data.write_bytes(content)
code, said, _ = train("--resume", newest, steps=8)
case("a checkpoint with a changed byte", code, said, code == 2 and bool(said))
half = Path("run/step-000099.partial")
half.mkdir(exist_ok=True)
code, said, _ = train("--resume", "auto", "--save", "fresh", steps=4)
case("a checkpoint that was not finished beside a whole one", code, said, code == 0)

# Numbers.
code, said, _ = train("--learning-rate", 900, "--schedule", "constant", "--save", "hot",
                      "--save-every", 1, "--json", "hot.json", steps=40)
case("losses or norms that are no numbers", code, said,
     code == 0 or (code == 2 and bool(said) and whole("hot")))

# Signals.
signalled("SIGTERM", signal.SIGTERM)
signalled("SIGINT", signal.SIGINT)
signalled("SIGUSR1", signal.SIGUSR1)
run = subprocess.Popen(
    [a.program, "train", "config.json", "--data", "text.txt", "--batch", "2", "--threads", "1",
     "--steps", "1000000", "-q", "--save", "killed", "--save-every", "2", "--json", "killed.json"]
)
while steps_in("killed.json") < 9:
    time.sleep(0.02)
run.kill()
run.wait()
case("SIGKILL, with --save-every", run.returncode, "", whole("killed"))

# Disks.
code, said, _ = train("--json", "/dev/full", steps=4)
case("a log on a full disk", code, said, code in (0, 2) and bool(said))
limit = f"ulimit -f 40; '{a.program}' train config.json --data text.txt --batch 2 --threads 1 -q"
done = subprocess.run(["sh", "-c", f"trap '' XFSZ; {limit} --steps 6 --save full --export big.st"],
                      capture_output=True, text=True)
said = [line for line in done.stderr.splitlines() if line.startswith("tessera")]
case("a checkpoint and an export on a full disk", done.returncode, said[0] if said else "",
     bool(said) and not Path("big.st").exists())

if a.markdown:
    print("| what goes wrong | exit code | what it says | nothing lost |")
    print("| --- | --- | --- | --- |")
    for what, code, said, kept in rows:
        print(f"| {what} | {code} | {said.replace('|', '/')} | {'yes' if kept else '**no**'} |")
lost = sum(not kept for _, _, _, kept in rows)
print(f"{len(rows)} cases, {lost} lose something", file=sys.stderr)
sys.exit(lost > 0)
