#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `tessera tokenize` with Python's `tokenizers` on tokenizers of random shapes.

    tests/bench/tokenizer_shapes.py PROGRAM [--shapes N] [--texts N] [--seed N]

A shape is a model (BPE, BPE over bytes, Unigram, WordPiece) with random settings, behind random
normalizers, pre-tokenizers and added tokens. Counted are texts: equal; refused by tessera; refused
by both; taken by tessera where Python refuses; different. The last two are printed, and make the
exit code 1. Needs Python's `tokenizers`.
"""
import argparse
import collections
import concurrent.futures
import importlib.machinery
import importlib.util
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

ROOT = Path(__file__).resolve().parent.parent.parent
SPECIAL = ["<unk>", "<s>", "</s>", "[MASK]"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
BEHAVIOURS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
REGEXES = [r"\s+", r"\p{N}{1,3}", r"\p{L}+|\p{N}+", r"[^\s\p{L}\p{N}]+", r" ?[a-z]+", r"\d"]


def script(name):
    """A program of scripts/ as a module, for its random texts."""
    loader = importlib.machinery.SourceFileLoader(name, str(ROOT / "scripts" / "tokenizer-check"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def bases():
    """One trained model of each kind, as JSON."""
    texts = [path.read_text()[:60000] for path in sorted((ROOT / "docs").glob("*.md"))]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    kinds = {
        "bpe": (models.BPE(unk_token="<unk>"), pre_tokenizers.Metaspace(), trainers.BpeTrainer(
            vocab_size=1500, special_tokens=SPECIAL + BYTES, show_progress=False)),
        "bytes": (models.BPE(), pre_tokenizers.ByteLevel(), trainers.BpeTrainer(
            vocab_size=1500, special_tokens=SPECIAL, initial_alphabet=alphabet,
            show_progress=False)),
        "unigram": (models.Unigram(), pre_tokenizers.Metaspace(), trainers.UnigramTrainer(
            vocab_size=1000, special_tokens=SPECIAL + BYTES, unk_token="<unk>",
            show_progress=False)),
        "wordpiece": (models.WordPiece(unk_token="<unk>"), pre_tokenizers.BertPreTokenizer(),
                      trainers.WordPieceTrainer(vocab_size=1500, special_tokens=SPECIAL,
                                                show_progress=False)),
    }  # fmt: skip
    for name, (model, words, trainer) in kinds.items():
        made = Tokenizer(model)
        made.pre_tokenizer = words
        made.train_from_iterator(texts, trainer)
        yield name, json.loads(made.to_str())


def normalizer(rng):
    return rng.choice([
        {"type": "NFC"}, {"type": "NFD"}, {"type": "NFKC"}, {"type": "NFKD"},
        {"type": "Lowercase"}, {"type": "StripAccents"},
        {"type": "Strip", "strip_left": rng.random() < 0.7, "strip_right": rng.random() < 0.7},
        {"type": "Prepend", "prepend": rng.choice(["▁", "x", "▁1"])},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        {"type": "Replace", "pattern": {"Regex": rng.choice(REGEXES)},
         "content": rng.choice(["", " ", "▁", "ab"])},
        {"type": "BertNormalizer", "clean_text": rng.random() < 0.5,
         "handle_chinese_chars": rng.random() < 0.5,
         "strip_accents": rng.choice([None, True, False]), "lowercase": rng.random() < 0.5},
    ])  # fmt: skip


def pre_tokenizer(rng):
    return rng.choice([
        {"type": "Metaspace", "replacement": "▁", "split": rng.random() < 0.7,
         "prepend_scheme": rng.choice(["always", "first", "never"])},
        {"type": "Metaspace", "replacement": "▁", "split": True, "prepend_scheme": "first"},
        {"type": "Digits", "individual_digits": rng.random() < 0.5},
        {"type": "Punctuation", "behavior": rng.choice(BEHAVIOURS)},
        {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "BertPreTokenizer"},
        {"type": "Split", "pattern": {"Regex": rng.choice(REGEXES)},
         "behavior": rng.choice(BEHAVIOURS), "invert": rng.random() < 0.3},
        {"type": "Split", "pattern": {"String": rng.choice([" ", "▁", "e"])},
         "behavior": rng.choice(BEHAVIOURS), "invert": rng.random() < 0.3},
    ])  # fmt: skip


def several(rng, make, key, most):
    made = [make(rng) for _ in range(rng.randint(0, most))]
    if len(made) < 2:
        return made[0] if made else None
    return {"type": "Sequence", key: made}


def shape(rng, base):
    """A tokenizer.json of a random shape."""
    made = json.loads(json.dumps(rng.choice(list(base.values()))))
    model = made["model"]
    made["normalizer"] = several(rng, normalizer, "normalizers", 3)
    made["pre_tokenizer"] = several(rng, pre_tokenizer, "pretokenizers", 3)
    made["post_processor"] = made["decoder"] = None
    if model["type"] == "BPE":
        over_bytes = "Ġ" in model["vocab"]
        if over_bytes and rng.random() < 0.8:
            last = {"type": "ByteLevel", "add_prefix_space": rng.random() < 0.5,
                    "trim_offsets": True, "use_regex": rng.random() < 0.5}  # fmt: skip
            before = made["pre_tokenizer"]
            made["pre_tokenizer"] = {"type": "Sequence",
                                     "pretokenizers": [before, last] if before else [last]}
        model["unk_token"] = rng.choice(["<unk>", "<unk>", None])
        model["fuse_unk"] = rng.random() < 0.5
        model["byte_fallback"] = not over_bytes and rng.random() < 0.6
        model["ignore_merges"] = rng.random() < 0.3
    if model["type"] == "Unigram":
        model["byte_fallback"] = rng.random() < 0.5
        model["unk_id"] = rng.choice([0, 0, None])
    if model["type"] == "WordPiece":
        model["max_input_chars_per_word"] = rng.choice([5, 100])
    kept = [token for token in made["added_tokens"] if not token["content"].startswith("<0x")]
    for token in kept:
        token["lstrip"] = rng.random() < 0.3
        token["rstrip"] = rng.random() < 0.3
        token["normalized"] = rng.random() < 0.3
    made["added_tokens"] = kept
    return made


def theirs(tokenizer, text):
    try:
        return tokenizer.encode(text).ids
    except BaseException as error:  # their panics are not Exceptions
        if isinstance(error, KeyboardInterrupt):
            raise
        return str(error)


def ours(program, folder, name, text):
    file = folder / f"{name}.jsonl"
    file.write_text(json.dumps({"text": text}) + "\n")
    command = [program, "tokenize", str(folder / "tokenizer.json"), str(file), "--print",
               "--end-of-text", "none", "--special", "on"]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode not in (0, 2):
        sys.exit(f"exit code {run.returncode} of {command}: {run.stderr}")
    return [int(n) for n in run.stdout.split()] if run.returncode == 0 else run.stderr.strip()


def verdict(own, other):
    if isinstance(own, str):
        return "refused by both" if isinstance(other, str) else "refused by tessera"
    if isinstance(other, str):
        return "refused by Python alone"
    return "equal" if own == other else "different"


def described(made):
    model = {key: value for key, value in made["model"].items() if key not in ("vocab", "merges")}
    return json.dumps([model, made["normalizer"], made["pre_tokenizer"]], ensure_ascii=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--shapes", type=int, default=40)
    parser.add_argument("--texts", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng, strings = random.Random(options.seed), script("tokenizer_check").Strings(options.seed)
    program, count, base = str(options.program.resolve()), collections.Counter(), dict(bases())
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(2) as pool:
        folder = Path(name)
        for k in range(options.shapes):
            made = shape(rng, base)
            (folder / "tokenizer.json").write_text(json.dumps(made))
            python = Tokenizer.from_str(json.dumps(made))
            texts = [strings.make() for _ in range(options.texts)]
            own = list(pool.map(lambda n: ours(program, folder, n, texts[n]), range(len(texts))))
            found = collections.Counter()
            for text, mine in zip(texts, own):
                other = theirs(python, text)
                what = verdict(mine, other)
                found[what] += 1
                bad = what in ("different", "refused by Python alone")
                if bad and found[what] <= 1:
                    print(f"{k}: {what}: {described(made)}\n  {text!r}\n"
                          f"    tessera {mine}\n    Python  {other}", flush=True)  # fmt: skip
            count += found
    print(", ".join(f"{what}: {n}" for what, n in count.most_common()))
    sys.exit(1 if count["different"] or count["refused by Python alone"] else 0)


if __name__ == "__main__":
    main()
