#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares many random configurations of all architectures with what transformers builds.

Sizes are those of architecture_truth.py; with --perturb one to three further keys of the
configuration class have other values than its defaults. Prints counts per class and every
configuration that differs or that the program alone refuses; exits 1 if a count differs.

    python3 tools/architecture_sweep.py --tessera build/dev/tessera --perturb --count 8
"""
import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile

import transformers

import architecture_truth

# What no class computes with, or what other keys say.
IDLE = {"model_type", "architectures", "transformers_version", "dtype", "id2label", "label2id", "return_dict",
        "output_hidden_states", "torchscript", "output_attentions", "problem_type", "chunk_size_feed_forward",
        "is_encoder_decoder", "_name_or_path", "use_cache"}


def counted(tessera, config):
    """The program's number of parameters, or why it refuses."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
        json.dump(config, file)
    run = subprocess.run([tessera, "wrap", file.name, "--ranks", "1", "--json"], capture_output=True, text=True)
    os.unlink(file.name)
    if run.returncode:
        return None, run.stderr.strip()
    return sum(unit["numel"] for unit in json.loads(run.stdout)["units"]), run.stderr.strip()


def other_value(rng, value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return max(1, rng.choice([value // 2, value + 1, value * 2, 2, 4])) if value <= 4096 else value
    if isinstance(value, float):
        return rng.choice([0.0, 0.1, 0.5, value * 2])
    return rng.choice([None, 16, True]) if value is None else value


def perturbed(rng, kind, sizes):
    defaults = transformers.CONFIG_MAPPING[kind]().to_dict()
    keys = [key for key in defaults if key not in sizes and key not in IDLE and not key.endswith("_token_id")]
    chosen = rng.sample(keys, min(len(keys), rng.choice([1, 1, 2, 3])))
    return {key: other_value(rng, defaults[key]) for key in chosen if not isinstance(defaults[key], (list, dict))}


def compare(options, kind, name, settings, rng):
    config = {"architectures": [name], "model_type": kind, **settings}
    if rng.random() < 0.5:
        config["transformers_version"] = rng.choice(["5.24.0", "4.40.0"])
    try:
        model, _ = architecture_truth.build(kind, name, settings, "meta")
        true = sum(parameter.numel() for parameter in model.parameters())
    except Exception:
        true = None
    ours, message = counted(options.tessera, config)
    if true is None:
        return "neither builds it" if ours is None else "only we build it", None
    if ours is None:
        return "refused", (message, config)
    return ("equal", None) if ours == true else ("WRONG", (true, ours, message, config))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", required=True)
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--only", default="")
    parser.add_argument("--perturb", action="store_true")
    parser.add_argument("--seed", type=int, default=0, help="other seeds are other configurations")
    options = parser.parse_args()
    only = [word for word in options.only.split(",") if word]
    total = collections.Counter()
    for kind, name, _, choices in architecture_truth.ROWS:
        if only and kind not in only:
            continue
        rng = random.Random(f"{kind} {name} {options.perturb} {options.seed}")
        results = collections.Counter()
        for _ in range(4 * options.count):
            if sum(results[word] for word in ("equal", "refused", "WRONG")) == options.count:
                break
            settings = {key: rng.choice(values) for key, values in choices.items()}
            if options.perturb:
                settings.update(perturbed(rng, kind, settings))
            result, what = compare(options, kind, name, settings, rng)
            results[result] += 1
            if what:
                print(result, *map(json.dumps, what), flush=True)
        print(kind, name, dict(results), flush=True)
        total += results
    print(dict(total))
    return 1 if total["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
