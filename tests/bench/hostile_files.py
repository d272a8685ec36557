#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Damages models, DeepSpeed configurations and plans in seeded ways and hands them to the program.

    python3 tests/bench/hostile_files.py build/release/tessera [COUNT [SEED]]

Good is: exit code 2, one line that begins with "tessera: ", no new file; or exit code 0. What is
neither is printed, with the seed that makes it again.
"""
import copy
import json
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INTERNAL = ("buffer -1", "Assertion", "assertion", "terminate", "what():", "never allocated",
            "is released", "std::", "nlohmann", "[json.exception", "Sanitizer")
SUBJECTS = [  # a file, and how the program is called with a damaged copy
    *[(f"examples/models/{name}.json", ("ops", "{}", "--ranks", "2", "--scheme", scheme))
      for name, scheme in (("gpt-tiny", "fully_shard"), ("llama-tiny", "zero3"), ("g3", "zero2"),
                           ("net3", "full_shard"), ("tiny", "sharded_data_parallel"),
                           ("lora", "replicate"))],
    *[(f"examples/models/{name}.json", ("estimate", "{}")) for name in ("gpt-tiny", "net3")],
    *[(f"examples/models/{name}.json", ("simulate", "{}", "--nodes", "1", "--batch", "1"))
      for name in ("llama-tiny", "g3")],
    *[(f"examples/deepspeed/{name}.json",
       ("ops", "examples/models/gpt-tiny.json", "--ranks", "2", "--deepspeed", "{}"))
      for name in ("zero2", "zero3")],
    ("PLAN", ("ops", "examples/models/gpt-tiny.json", "--ranks", "2", "--scheme", "fully_shard",
              "--plan", "{}")),
]
VALUES = [None, True, -1, 0, 1, 3, 2**31, 2**63 - 1, 2**70, 1e308, -0.5, "", "x", "auto", [], {},
          [[]], [0], ["", ""], {"a": 1}, "\u0000", "../../x", [-1, 3], [2**40, 2**40]]


def places(value, path=()):
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], path + (key,))
    elif isinstance(value, list):
        for i, one in enumerate(value[:8]):
            yield from places(one, path + (i,))


def damaged(rng, text):
    kind = rng.randrange(10)
    if kind == 0:
        return text[:rng.randrange(len(text))]
    if kind == 1:
        at = rng.randrange(len(text))
        return text[:at] + rng.choice('{}[]",:0e\\\n\x00é') + text[at + 1:]
    if kind == 2:
        depth = rng.choice([50, 5000, 100000])
        return '{"a":' * depth + "1" + "}" * depth
    value = json.loads(text)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        path = rng.choice([p for p in places(value) if p] or [()])
        if not path:
            break
        around = value
        for step in path[:-1]:
            around = around[step]
        key = path[-1]
        how = rng.randrange(5)
        if how == 0:
            del around[key]
        elif how == 1 and isinstance(around, dict):
            name = key[:1] + key[2:] if rng.random() < 0.5 else key + rng.choice("sx_")
            around[name] = around.pop(key)
        elif how == 2 and isinstance(around, list):
            around.insert(rng.randrange(len(around) + 1), copy.deepcopy(rng.choice(around)))
        elif how == 3 and isinstance(around[key], (int, float)):
            around[key] = rng.choice([-around[key], around[key] * 1000003, around[key] + 0.5])
        else:
            around[key] = rng.choice(VALUES)
    out = json.dumps(value)
    if kind == 3 and isinstance(value, dict) and value:
        key = rng.choice(list(value))  # twice
        out = out[:-1] + f", {json.dumps(key)}: {json.dumps(rng.choice(VALUES))}}}"
    return out


def main():
    program, count = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 300
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    refused = accepted = bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in ("examples",):
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
        plan = os.path.join(folder, "plan.json")
        subprocess.run([program, "wrap", "examples/models/gpt-tiny.json", "--write-plan", plan],
                       cwd=folder, check=True, capture_output=True)
        before = sorted(os.listdir(folder) + ["hostile.json"])
        for seed in range(first, first + count):
            rng = random.Random(seed)
            source, call = SUBJECTS[seed % len(SUBJECTS)]
            path = plan if source == "PLAN" else os.path.join(ROOT, source)
            with open(path, encoding="utf-8") as file:
                text = damaged(rng, file.read())
            with open(os.path.join(folder, "hostile.json"), "w", encoding="utf-8") as file:
                file.write(text)
            command = [program, *(part.format("hostile.json") for part in call)]
            try:
                run = subprocess.run(command, cwd=folder, capture_output=True, timeout=60)
                code, said = run.returncode, run.stderr.decode(errors="replace")
            except subprocess.TimeoutExpired:
                code, said = "60 s", ""
            lines = said.splitlines()
            wrong = []
            if code not in (0, 2):
                wrong.append(f"exit {code}")
            if code == 2 and (len([l for l in lines if l.startswith("tessera: ")]) != 1
                              or not lines[-1].startswith("tessera: ")):
                wrong.append("not one sentence")
            wrong += [f"says {word!r}" for word in INTERNAL if word in said]
            if sorted(os.listdir(folder)) != before:
                wrong.append(f"left {set(os.listdir(folder)) - set(before)}")
            refused, accepted, bad = refused + (code == 2), accepted + (code == 0), bad + bool(wrong)
            if wrong:
                print(f"seed {seed} {source} {call[0]}: {', '.join(wrong)}: {said[-300:]}")
    print(f"{count} files: {refused} refused, {accepted} accepted, {bad} bad")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
