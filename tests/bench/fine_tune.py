#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fine-tune of models with more than 100 million parameters, from JSON lines to transformers.

    python3 tests/bench/fine_tune.py PROGRAM [--only qwen3] [--folder FOLDER] [--dtype bfloat16]

transformers makes a model of each family, with random weights and a tokenizer of its own class. Two
processes train adapters and are killed with SIGKILL; three go on from the checkpoint and export.
Then loss and perplexity are the same for one, two and three processes, transformers and PEFT
load what was exported, and both greedy texts are the program's. Needs torch, transformers, peft,
tokenizers and mpirun; about three minutes and 3 GB of memory a family. Exit code 1: something
differs.
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import peft
import torch
import transformers as t
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

t.logging.set_verbosity_error()
t.logging.disable_progress_bar()
ROOT = Path(__file__).resolve().parent.parent.parent
VOCABULARY = 32000
dense = dict(
    vocab_size=VOCABULARY,
    hidden_size=768,
    intermediate_size=2304,
    num_hidden_layers=12,
    num_attention_heads=12,
    num_key_value_heads=4,
    max_position_embeddings=512,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)
FAMILIES = {
    "qwen3": (lambda: t.Qwen3Config(**dense, head_dim=64, tie_word_embeddings=True), "all-linear"),
    "gemma3": (
        lambda: t.Gemma3TextConfig(
            **dense, head_dim=64, sliding_window=16, query_pre_attn_scalar=64
        ),
        "q_proj,v_proj",
    ),
    "phi3": (
        lambda: t.Phi3Config(**dense, tie_word_embeddings=False, original_max_position_embeddings=512),
        "qkv_proj,down_proj",
    ),
}


def texts():
    for pattern in ("docs/**/*.md", "engine/**/*.h", "training/**/*.cpp", "cli/**/*.cpp"):
        for path in sorted(ROOT.glob(pattern)):
            yield path.read_text(errors="ignore")


def tokenizer(family):
    """Byte-level BPE as Qwen has it, or BPE of SentencePiece with bytes to fall back on."""
    made = Tokenizer(models.BPE(byte_fallback=family != "qwen3", unk_token=None))
    special = ["<pad>", "<bos>", "<eos>", "<unk>"]
    if family == "qwen3":
        made.normalizer = normalizers.NFC()
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        alphabet, special = pre_tokenizers.ByteLevel.alphabet(), special + ["<|im_start|>", "<|im_end|>"]
    else:
        made.normalizer = normalizers.Replace(" ", "\u2581")
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
        made.decoder = decoders.Sequence(
            [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
        )
        alphabet, special = [], special + [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(texts(), trainer)
    if family != "qwen3":  # published ones have no words, which takes long to train
        made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    kind = {"qwen3": t.Qwen2TokenizerFast, "gemma3": t.GemmaTokenizerFast}.get(
        family, t.LlamaTokenizerFast
    )
    names = dict(pad_token="<pad>", bos_token="<bos>", eos_token="<eos>", unk_token="<unk>")
    return kind(tokenizer_object=made, **names)


def documents(family, count, seed):
    rng = random.Random(seed)
    for _ in range(count):
        colour = rng.choice(["red", "green", "blue", "white", "black", "yellow"])
        thing = rng.choice(["stone", "river", "house", "bird", "tree", "letter", "window"])
        question, answer = f"What colour is the {colour} {thing}?", f"The {thing} is {colour}."
        if family == "qwen3":
            turns = [("user", question), ("assistant", answer)]
            yield {"messages": [{"role": role, "content": text} for role, text in turns]}
        else:
            yield {"prompt": question, "completion": " " + answer}


class Trial:
    def __init__(self, program, family, folder, dtype):
        self.program, self.family, self.folder, self.dtype = program, family, folder, dtype
        self.config, self.targets = FAMILIES[family]
        self.failures = []
        self.read = ["--tokenizer", "model", "--sequence-length", 64]
        self.read += ["--chat-template", "chatml"] if family == "qwen3" else ["--end-of-text", "<eos>"]

    def check(self, what, is_so):
        print(f"{self.family}: {what}: {'yes' if is_so else 'NO'}", flush=True)
        if not is_so:
            self.failures.append(what)

    def make(self):
        torch.manual_seed(1)
        model = t.AutoModelForCausalLM.from_config(self.config())
        model.to(getattr(torch, self.dtype))
        count = sum(p.numel() for p in model.parameters())
        self.check(f"{count / 1e6:.0f} million parameters", count >= 100e6)
        model.save_pretrained(self.folder / "model")
        tokenizer(self.family).save_pretrained(self.folder / "model")
        for name, number, seed in (("train", 400, 1), ("held", 40, 2)):
            rows = (json.dumps(row) for row in documents(self.family, number, seed))
            (self.folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")

    def command(self, processes, *words):
        launch = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", processes]
        return [str(w) for w in [*(launch if processes > 1 else []), self.program, *words]]

    def run(self, processes, *words):
        done = subprocess.run(
            self.command(processes, *words), cwd=self.folder, capture_output=True, text=True
        )
        if done.returncode != 0:
            sys.exit(f"{self.family}: {words}: exit code {done.returncode}\n{done.stderr[-2000:]}")
        return done.stdout

    def train(self, accumulation):
        lora = f"rank=8,alpha=16,target={self.targets}"
        return [
            "train", "model/config.json", "--data", "train.jsonl", *self.read, "--lora", lora,
            "--learning-rate", 3e-3, "--schedule", "constant", "--steps", 8, "--batch", 1,
            "--accumulation", accumulation, "--threads", 1, "--save", "run",
        ]  # fmt: skip

    def killed(self):
        words = [*self.train(3), "--load", "model/model.safetensors", "--save-every", 2]
        process = subprocess.Popen(
            self.command(2, *words), cwd=self.folder, stdout=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        while process.poll() is None and not list(self.folder.glob("run/step-*4/manifest.json")):
            time.sleep(0.05)
        if process.poll() is not None:
            sys.exit(f"{self.family}: it ended before it was killed")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.check("a checkpoint is left", any(self.folder.glob("run/step-*/manifest.json")))

    def resumed(self):
        out = ["--export", "tuned/", "--export-adapter", "adapter", "--json", "log.json"]
        self.run(3, *self.train(2), "--resume", "run", *out)
        rows = map(json.loads, (self.folder / "log.json").read_text().splitlines())
        losses = [row["loss"] for row in rows if "loss" in row]
        print(f"{self.family}: losses since: {' '.join(f'{x:.3f}' for x in losses)}")
        self.check("it went on", 0 < len(losses) < 8)

    def evaluated(self):
        words = ["evaluate", "tuned/config.json", "--weights", "tuned/model.safetensors"]
        words += ["--data", "held.jsonl", *self.read, "--threads", 1, "--json"]
        said = [self.run(processes, *words) for processes in (1, 2, 3)]
        print(f"{self.family}: {json.loads(said[0])['files'][0]}")
        self.check("one, two and three processes evaluate alike", len(set(said)) == 1)

    def generate(self, *words):
        weights = ["tuned/config.json", "--weights", "tuned/model.safetensors", "--threads", 1]
        return self.run(1, "generate", *weights, "--tokens", 24, "--temperature", 0, *words)

    def compared(self):
        prompt = "What colour is the red stone?"
        read = t.AutoTokenizer.from_pretrained(self.folder / "tuned")
        ids = read(prompt, return_tensors="pt").input_ids
        ours = self.generate("--prompt-ids", ",".join(map(str, ids[0].tolist())))
        ours = [int(word) for word in ours.split()][ids.shape[1] :]
        end = dense["eos_token_id"]  # without a tokenizer it goes on behind the end
        ours = ours[: ours.index(end) + 1] if end in ours else ours
        text = self.generate("--prompt", prompt, "--tokenizer", "tuned").strip()
        base = peft.PeftModel.from_pretrained(self.loaded("model"), self.folder / "adapter")
        for name, model in (("transformers, merged", self.loaded("tuned")), ("PEFT, adapter", base)):
            with torch.no_grad():
                out = model.generate(
                    input_ids=ids, max_new_tokens=24, do_sample=False, pad_token_id=0,
                    attention_mask=torch.ones_like(ids),
                )[0].tolist()  # fmt: skip
            said = read.decode(out, skip_special_tokens=True).strip()
            print(f"{self.family}: {name}: {said!r}, ours {text!r}")
            self.check(f"{name}: the same {len(ours)} tokens", out[ids.shape[1] :][: len(ours)] == ours)
            self.check(f"{name}: the same text", said == text)
        stored = t.AutoModelForCausalLM.from_pretrained(self.folder / "tuned", dtype="auto")
        kept = {p.dtype for p in stored.parameters()}
        self.check(f"weights of {self.dtype}", kept == {getattr(torch, self.dtype)})

    def loaded(self, name):
        return t.AutoModelForCausalLM.from_pretrained(self.folder / name, dtype=torch.float32).eval()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("program", type=Path)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--folder", type=Path)
    arguments.add_argument("--dtype", default="float32")
    a = arguments.parse_args()
    failures = []
    for family in FAMILIES:
        if not family.startswith(a.only):
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = (a.folder or Path(temporary)) / family
            folder.mkdir(parents=True)
            trial = Trial(a.program.resolve(), family, folder, a.dtype)
            for part in (trial.make, trial.killed, trial.resumed, trial.evaluated, trial.compared):
                begin = time.time()
                part()
                print(f"{family}: {part.__name__}: {time.time() - begin:.0f} s", flush=True)
            failures += trial.failures
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
