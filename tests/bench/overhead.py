#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a training step of about 20 ms costs besides its arithmetic: the engine, and a trace.

    tests/bench/overhead.py PROGRAM [--rounds N] [--steps N] [--shares]

PROGRAM is tessera of a release build, with symbols. Two runs of each kind take turns, a long and a
short one, so that what they do before the first step does not count; CPU time, so that other work
on the machine matters little. Printed are medians over the rounds, with their quartiles and number.
--shares samples one long run each (perf, cpu-clock) instead, and says whose functions were found
running: of one run, so it depends on nothing but the number of samples, which is printed.
"""
import argparse
import collections
import re
import resource
import statistics
import subprocess
import tempfile
from pathlib import Path

MODEL = """{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
  "activation_function": "gelu_new", "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0,
  "layer_norm_epsilon": 1e-05, "n_ctx": 64, "n_embd": 128, "n_head": 4, "n_layer": 4,
  "n_positions": 64, "vocab_size": 256}"""
RUNS = {
    "replicate": ["--scheme", "replicate"],
    "fully_shard": ["--scheme", "fully_shard"],
    "replicate, traced": ["--scheme", "replicate", "--trace", "run.tessera"],
    "fully_shard, traced": ["--scheme", "fully_shard", "--trace", "run.tessera"],
}
# Whose a function is, by its name or its library; the first that fits.
OWNERS = [
    ("trace", r"sqlite|storage::|TraceReplay|TraceWriter|tracing::|TraceSink|Trace[A-Z]|StepAccounts"),
    ("arithmetic", r"\[JIT\]|perf-\d+\.map|dnnl|libgomp|[kK]ernels::|numbers::|language::|"
                   r"Adam|adam|libm\.so|__itt_pt_write|squares|block_sum"),
    ("copies", r"mem(move|set|cpy)|clear_page"),
    ("kernel", r"\[k\]"),
    ("allocation", r"malloc|_int_free|cfree|operator (new|delete)|unlink_chunk|libc\.so"),
    ("engine", r"tessera"),
]


def seconds(program, folder, options, steps):
    command = [program, "train", "model.json", "--data", "text.txt", "--batch", "6", "--quiet",
               "--sequence-length", "64", "--threads", "1", "--peak-flops", "1e12", "--steps",
               str(steps), *options]  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, cwd=folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def milliseconds(program, folder, options, steps):
    short = seconds(program, folder, options, 5)
    return 1e3 * (seconds(program, folder, options, 5 + steps) - short) / steps


def compare(program, folder, rounds, steps):
    rows = [
        {name: milliseconds(program, folder, options, steps) for name, options in RUNS.items()}
        for _ in range(rounds)
    ]
    for name in RUNS:
        print(f"{name}: {statistics.median(row[name] for row in rows):.2f} CPU ms a step")

    def ratio(what, over, under):
        all_of = sorted(100 * (row[over] / row[under] - 1) for row in rows)
        low, middle, high = (all_of[int(q * (len(all_of) - 1) + 0.5)] for q in (0.25, 0.5, 0.75))
        print(f"{what}: {middle:+.2f} % of a step ({low:+.2f} to {high:+.2f}, {rounds} rounds)")

    ratio("fully_shard over replicate", "fully_shard", "replicate")
    ratio("tracing, replicate", "replicate, traced", "replicate")
    ratio("tracing, fully_shard", "fully_shard, traced", "fully_shard")


def shares(program, folder, steps):
    for name, options in RUNS.items():
        command = [program, "train", "model.json", "--data", "text.txt", "--batch", "6", "--quiet",
                   "--sequence-length", "64", "--threads", "1", "--peak-flops", "1e12", "--steps",
                   str(steps), *options]  # fmt: skip
        record = ["perf", "record", "-q", "-F", "1999", "-e", "cpu-clock", "-o", "perf.data"]
        subprocess.run(record + command, check=True, cwd=folder)
        script = ["perf", "script", "-i", "perf.data", "-F", "tid,ip,sym,dso"]
        lines = subprocess.run(script, check=True, cwd=folder, capture_output=True, text=True)
        count, names, main = collections.Counter(), collections.Counter(), None
        for line in lines.stdout.splitlines():
            thread, _, rest = line.strip().partition(" ")
            main = main or thread
            owner = next((o for o, p in OWNERS if re.search(p, rest)), "others")
            # The other thread of a run is the one that writes its trace.
            owner = "trace" if thread != main else owner
            count[owner] += 1
            names[owner, re.sub(r"^\s*[0-9a-f]+ ", "", rest)[:90]] += 1
        all_of = sum(count.values())
        parts = ", ".join(f"{o} {100 * n / all_of:.2f} %" for o, n in count.most_common())
        print(f"{name}, {all_of} samples: {parts}")
        for (owner, function), n in names.most_common(200):
            if owner in ("engine", "others", "trace") and n >= all_of / 1000:
                print(f"    {owner} {100 * n / all_of:.2f} % {function}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--shares", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "model.json").write_text(MODEL)
        (folder / "text.txt").write_text("to train is to see it all again. " * 4000)
        program = str(options.program.resolve())
        if options.shares:
            shares(program, folder, options.steps)
        else:
            compare(program, folder, options.rounds, options.steps)


if __name__ == "__main__":
    main()
