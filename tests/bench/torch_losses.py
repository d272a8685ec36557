#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Losses of `tessera train` beside the same loop in PyTorch, for published architectures.

    python3 tests/bench/torch_losses.py PROGRAM [--steps 50] [--only gpt2] [--float64] [--seeds N]
                                        [--fp8]

transformers makes each model, torch and the program begin with its weights and see one sample, so
that no order matters; float32, AdamW, a constant rate. Prints the largest difference of
the losses. Where one is above the bar of 1e-6, torch runs again from weights of which each is
moved by a rounding: how far that takes torch from itself is what float32 can tell for this model.
Exit code 1: one is above the bar and above that. Needs torch, transformers and numpy.

With --float64 torch runs the loop a third time in float64, what its models compute in float32
whatever their type included: how far each of the two is from that says whose rounding it is. One
run says little where steps make a rounding grow, so --seeds N takes N models of each kind, with
other weights and tokens, and prints medians, too.

With --fp8 models are three times as wide, linear layers of blocks multiply what torch.float8_e4m3fn
makes of their operands, with scales of 128 numbers and of 128 x 128 of a weight, and the program has
--matmul-dtype fp8. A rounding then moves numbers to another code now and then.
"""
import argparse
import contextlib
import copy
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import torch
import transformers as t

t.logging.set_verbosity_error()
t.logging.disable_progress_bar()

arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
arguments.add_argument("program", type=Path)
arguments.add_argument("--steps", type=int, default=50)
arguments.add_argument("--only", default="")
arguments.add_argument("--float64", action="store_true")
arguments.add_argument("--seeds", type=int, default=1)
arguments.add_argument("--fp8", action="store_true")
a = arguments.parse_args()
torch.set_num_threads(1)
LENGTH, RATE, BAR = 64, 1e-4, 1e-6
common = dict(vocab_size=256, max_position_embeddings=64, tie_word_embeddings=False)
llama = dict(
    common,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
)
gpt2 = dict(
    vocab_size=256, n_positions=64, n_embd=64, n_layer=3, n_head=4,
    bos_token_id=0, eos_token_id=0, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
)
stretched = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0)
MODELS = {
    "gpt2": lambda: t.GPT2Config(**gpt2),
    "gpt2, exact gelu, untied": lambda: t.GPT2Config(
        **gpt2, activation_function="gelu", tie_word_embeddings=False
    ),
    "llama": lambda: t.LlamaConfig(**llama),
    "llama, biases, gelu": lambda: t.LlamaConfig(
        **llama, attention_bias=True, mlp_bias=True, hidden_act="gelu"
    ),
    "llama, rope of 3.1": lambda: t.LlamaConfig(
        **llama, rope_scaling=dict(stretched, original_max_position_embeddings=32)
    ),
    "mistral, window 16": lambda: t.MistralConfig(**llama, sliding_window=16),
    "qwen2, tied": lambda: t.Qwen2Config(**dict(llama, tie_word_embeddings=True)),
    "qwen3": lambda: t.Qwen3Config(**llama, head_dim=24),
    "smollm3": lambda: t.SmolLM3Config(**llama, no_rope_layer_interval=2, pad_token_id=0),
    "phi3": lambda: t.Phi3Config(
        **llama, pad_token_id=0, rope_parameters=dict(rope_type="default", partial_rotary_factor=0.5)
    ),
    "gemma, tied": lambda: t.GemmaConfig(**dict(llama, tie_word_embeddings=True), head_dim=24),
    "gemma2": lambda: t.Gemma2Config(
        **llama, head_dim=24, sliding_window=16, query_pre_attn_scalar=24
    ),
    "gemma3": lambda: t.Gemma3TextConfig(
        **llama, head_dim=24, sliding_window=16, query_pre_attn_scalar=24,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    ),
    "olmo2": lambda: t.Olmo2Config(**llama, pad_token_id=0),
    "gpt_neox": lambda: t.GPTNeoXConfig(
        **{key: value for key, value in llama.items() if key != "num_key_value_heads"}
    ),
}


if a.fp8:
    for sizes in (llama, gpt2):
        for key in ("hidden_size", "intermediate_size", "n_embd"):
            if key in sizes:
                sizes[key] *= 3


def rounded(x, rows, columns):
    """Each tile by its own scale: the smallest power of two that leaves at most 448."""
    padded = torch.nn.functional.pad(x, (0, -x.shape[1] % columns, 0, -x.shape[0] % rows))
    tiles = padded.unflatten(1, (-1, columns)).unflatten(0, (-1, rows))
    largest = tiles.abs().amax((1, 3), keepdim=True).double()
    scale = torch.exp2(torch.ceil(torch.log2(largest / 448))).where(largest > 0, 1).float()
    codes = (tiles / scale).to(torch.float8_e4m3fn)
    return (codes.float() * scale).flatten(2, 3).flatten(0, 1)[: x.shape[0], : x.shape[1]]


class InFp8(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return rounded(x, 1, 128) @ rounded(weight, 128, 128)

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        dx = rounded(dy, 1, 128) @ rounded(weight, 128, 128).T
        return dx, rounded(x.T, 1, 128) @ rounded(dy, 128, 1)


def in_fp8(model):
    """Linear layers of blocks, of which each matrix is [in, out] for the product."""
    for name, module in model.named_modules():
        turned = isinstance(module, torch.nn.Linear)
        if not (turned or type(module).__name__ == "Conv1D") or name in ("lm_head", "embed_out"):
            continue

        def forward(x, module=module, turned=turned):
            weight = module.weight.T if turned else module.weight
            y = InFp8.apply(x.flatten(0, -2), weight).unflatten(0, x.shape[:-1])
            return y if module.bias is None else y + module.bias

        module.forward = forward
    return model


@contextlib.contextmanager
def everything_in_float64():
    """Norms, rotations and softmax of transformers ask for float32 by name."""
    wide = torch.float64
    to, softmax = torch.Tensor.to, torch.nn.functional.softmax

    def widened(value):
        return wide if value is torch.float32 else value

    def to_wide(tensor, *positions, **names):
        names = {key: widened(value) for key, value in names.items()}
        return to(tensor, *map(widened, positions), **names)

    def softmax_wide(tensor, dim=None, _stacklevel=3, dtype=None):
        return softmax(tensor, dim=dim, dtype=widened(dtype))

    float_ = torch.Tensor.float
    torch.Tensor.to, torch.Tensor.float = to_wide, torch.Tensor.double
    torch.nn.functional.softmax = softmax_wide
    torch.set_default_dtype(wide)
    try:
        yield
    finally:
        torch.Tensor.to, torch.Tensor.float, torch.nn.functional.softmax = to, float_, softmax
        torch.set_default_dtype(torch.float32)


def in_torch(model, tokens):
    model.train()
    if a.fp8:
        in_fp8(model)
    adam = torch.optim.AdamW(
        model.parameters(), lr=RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=0
    )
    inputs = torch.from_numpy(tokens[None, :-1].astype(numpy.int64))
    wanted = torch.from_numpy(tokens[None, 1:].astype(numpy.int64))
    losses = []
    for _ in range(a.steps):
        logits = model(inputs).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return losses


def nudged(model, seed):
    """The model with each weight one rounding larger or smaller."""
    moved, rng = copy.deepcopy(model), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in moved.parameters():
            there = torch.where(torch.rand(weight.shape, generator=rng) < 0.5, -1.0, 1.0) * 1e30
            weight.copy_(torch.nextafter(weight, there))
    return moved


def in_tessera(folder):
    command = [a.program.resolve(), "train", "config.json", "--load", "model.safetensors"]
    command += ["--data", "tokens.bin", "--data-format", "uint16", "--batch", 1]
    command += ["--sequence-length", LENGTH, "--steps", a.steps, "--learning-rate", RATE]
    command += ["--schedule", "constant", "--threads", 1, "-q", "--json", "log.json"]
    command += ["--matmul-dtype", "fp8"] if a.fp8 else []
    subprocess.run([str(word) for word in command], cwd=folder, check=True)
    rows = (folder / "log.json").read_text().splitlines()
    return [row["loss"] for row in map(json.loads, rows) if "loss" in row]


def distance(some, others):
    return max(abs(x - y) for x, y in zip(some, others))


def compared(name, config, seed):
    """Distances of one model: ours from torch, then of both from float64."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        torch.manual_seed(seed)
        model = t.AutoModelForCausalLM.from_config(config(), attn_implementation="eager").float()
        model.save_pretrained(folder)
        # As many as one sample has: every step sees the same.
        rng = numpy.random.default_rng(seed + 1)
        tokens = rng.integers(0, 256, LENGTH + 1).astype("uint16")
        tokens.tofile(folder / "tokens.bin")
        exact = None
        if a.float64:
            with everything_in_float64():
                exact = in_torch(copy.deepcopy(model).double(), tokens)
        ours, theirs = in_tessera(folder), in_torch(copy.deepcopy(model), tokens)
        apart = distance(ours, theirs)
        first = distance(ours[:10], theirs[:10])
        print(
            f"{name:25} {len(ours)} steps, loss {ours[0]:.4f} to {ours[-1]:.4f}: at most "
            f"{apart:.1e} apart ({first:.1e} in the first ten)",
            flush=True,
        )
        within = True
        if apart > BAR:
            spread = [distance(theirs, in_torch(nudged(model, n), tokens)) for n in range(5)]
            within = apart <= max(spread)
            print(
                f"{'':25} above the bar; torch from itself, weights a rounding apart: "
                f"{min(spread):.1e} to {max(spread):.1e} in {len(spread)} runs",
                flush=True,
            )
        if not exact:
            return within, []
        of = [distance(x[:n], exact[:n]) for n in (a.steps, 10) for x in (ours, theirs)]
        print(
            f"{'':25} from float64: ours at most {of[0]:.1e} ({of[2]:.1e}), torch's "
            f"{of[1]:.1e} ({of[3]:.1e})",
            flush=True,
        )
        return within, of


failed = False
for name, config in MODELS.items():
    if a.only and not name.startswith(a.only):
        continue
    rows = []
    for seed in range(1, a.seeds + 1):
        within, of = compared(name, config, seed)
        failed |= not within
        rows.append(of)
    if a.float64 and a.seeds > 1:
        middle = [statistics.median(column) for column in zip(*rows)]
        print(
            f"{name:25} medians of {a.seeds}, from float64: ours {middle[0]:.1e} "
            f"({middle[2]:.1e} in the first ten), torch's {middle[1]:.1e} ({middle[3]:.1e})",
            flush=True,
        )
sys.exit(failed)
