#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records logits, losses and gradients of transformers for configurations with one key or several off their
defaults, of all architectures that Tessera trains.

Writes tests/golden/logits.json, which a test compares with what the kernels compute, without torch:
the configuration that save_pretrained writes, as what differs from its architecture's first one, and
some logits of some places, and of the first one of each architecture and of keys that act together
the product of each gradient with numbers that follow from its name, too. Weights follow from the names of parameters, so nobody stores them.

    python3 tools/logits_truth.py > tests/golden/logits.json

With --program each model is saved by save_pretrained, too, and the program's loss and its greedy text
are compared with transformers': equal, or refused in a sentence, and nothing else.

    python3 tools/logits_truth.py --program build/release/tessera > /dev/null

--seed N takes other keys together than those that are recorded: --mixes of them for each architecture, and
nothing else.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers
from transformers.activations import ACT2FN

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

TOKENS = 24
PLACES = [5, 14, 23]  # of which logits are recorded
EVERY = 7             # of the vocabulary
ROPES = [
    dict(rope_type="linear", factor=2.0),
    dict(rope_type="linear", factor=3.5, rope_theta=500.0),
    dict(rope_type="dynamic", factor=2.0),
    dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16),
    dict(rope_type="yarn", factor=2.0, original_max_position_embeddings=32, beta_fast=16.0, beta_slow=2.0),
    dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, attention_factor=1.3),
    dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, mscale=0.7, mscale_all_dim=1.1),
    dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, truncate=False),
    dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
         original_max_position_embeddings=16),
    dict(rope_type="llama3", factor=4.0, low_freq_factor=2.0, high_freq_factor=8.0,
         original_max_position_embeddings=8),
    dict(rope_type="longrope", factor=2.0, short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[1.0, 2.0, 2.5, 3.0],
         original_max_position_embeddings=16),
    dict(rope_type="default", rope_theta=100.0),
    dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5),
]
ACTIVATIONS = sorted(name for name in ACT2FN if name not in ("prelu", "xielu"))
LLAMA = dict(vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64)
LLAMA_KEYS = dict(
    vocab_size=[57], hidden_size=[64], intermediate_size=[37], num_hidden_layers=[1, 3], num_attention_heads=[2, 8],
    num_key_value_heads=[1, 4], head_dim=[4, 16, 24], max_position_embeddings=[24, 100], rms_norm_eps=[1e-2, 1e-12],
    tie_word_embeddings=[True], rope_parameters=ROPES, hidden_act=ACTIVATIONS, attention_dropout=[0.3],
    initializer_range=[0.5], use_cache=[False])
# architecture -> (class, a small model, keys and what else they may be)
ROWS = {
    "gpt2": ("GPT2LMHeadModel",
             dict(vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=0, eos_token_id=0),
             dict(vocab_size=[57], n_embd=[64], n_layer=[1, 3], n_head=[2, 8], n_positions=[24, 100],
                  n_inner=[37, 200], layer_norm_epsilon=[1e-2, 1e-12], activation_function=ACTIVATIONS,
                  scale_attn_weights=[False], scale_attn_by_inverse_layer_idx=[True], reorder_and_upcast_attn=[True],
                  tie_word_embeddings=[False], resid_pdrop=[0.0, 0.4], embd_pdrop=[0.0, 0.4], attn_pdrop=[0.0, 0.4],
                  summary_type=["mean"], use_cache=[False], initializer_range=[0.5], add_cross_attention=[True])),
    "llama": ("LlamaForCausalLM", LLAMA, dict(LLAMA_KEYS, attention_bias=[True], mlp_bias=[True],
                                              pretraining_tp=[2])),
    "mistral": ("MistralForCausalLM", dict(LLAMA, sliding_window=None),
                dict(LLAMA_KEYS, sliding_window=[1, 7, 23, 4096])),
    "qwen2": ("Qwen2ForCausalLM", LLAMA,
              dict(LLAMA_KEYS, use_sliding_window=[True], sliding_window=[5], max_window_layers=[1],
                   layer_types=[["full_attention", "sliding_attention"]])),
}
FEW = dict(vocab_size=[57], hidden_size=[64], intermediate_size=[37], num_hidden_layers=[1, 3],
           num_attention_heads=[2, 8], max_position_embeddings=[24, 100], tie_word_embeddings=[True, False],
           hidden_act=["relu", "gelu", "gelu_new", "silu", "tanh", "quick_gelu"], attention_dropout=[0.3],
           initializer_range=[0.5], use_cache=[False], attention_bias=[True])
RMS_KEYS = dict(FEW, num_key_value_heads=[1, 4], rms_norm_eps=[1e-2, 1e-12],
                rope_parameters=[ROPES[k] for k in (1, 2, 5, 8, 10, 11, 12)])
HEAD = dict(RMS_KEYS, head_dim=[4, 16, 24])
SLIDING, FULL = "sliding_attention", "full_attention"
GEMMA = dict(LLAMA, head_dim=8)
GEMMA_KEYS = dict({key: value for key, value in HEAD.items() if key != "hidden_act"},
                  hidden_activation=["relu", "gelu", "silu", "gelu_pytorch_tanh", "tanh"],
                  query_pre_attn_scalar=[8, 100, 144], sliding_window=[1, 7, 23, 4096],
                  layer_types=[[FULL, SLIDING], [FULL, FULL], [SLIDING, SLIDING]],
                  final_logit_softcapping=[None, 2.0, 30.0], attn_logit_softcapping=[None, 0.5, 20.0],
                  use_bidirectional_attention=[True])
ROWS |= {
    "qwen3": ("Qwen3ForCausalLM", GEMMA,
              dict(HEAD, use_sliding_window=[True], sliding_window=[5], max_window_layers=[1],
                   layer_types=[[FULL, SLIDING]])),
    "smollm3": ("SmolLM3ForCausalLM", dict(LLAMA, num_hidden_layers=4, pad_token_id=0),
                dict(RMS_KEYS, num_hidden_layers=[1, 3, 5], mlp_bias=[True], use_sliding_window=[True],
                     sliding_window=[5], no_rope_layers=[[1, 0, 0, 1], [0, 1, 1, 1], [1, 1, 1, 1]],
                     no_rope_layer_interval=[2, 1], layer_types=[[FULL, SLIDING, FULL, SLIDING]])),
    "phi3": ("Phi3ForCausalLM", dict(LLAMA, pad_token_id=0, sliding_window=None),
             dict({key: value for key, value in RMS_KEYS.items() if key != "attention_bias"},
                  rope_parameters=[ROPES[3], ROPES[10], ROPES[11], ROPES[12],
                                   dict(rope_type="default", rope_theta=500.0, partial_rotary_factor=0.75)],
                  sliding_window=[1, 7, 23, 4096], resid_pdrop=[0.3], embd_pdrop=[0.2],
                  original_max_position_embeddings=[16])),
    "gemma": ("GemmaForCausalLM", GEMMA, dict(HEAD, use_bidirectional_attention=[True])),
    "gemma2": ("Gemma2ForCausalLM", dict(GEMMA, sliding_window=9, query_pre_attn_scalar=16), GEMMA_KEYS),
    "gemma3_text": ("Gemma3ForCausalLM", dict(GEMMA, sliding_window=9, query_pre_attn_scalar=16, num_hidden_layers=3,
                                              layer_types=[SLIDING, FULL, SLIDING]),
                    dict({key: value for key, value in GEMMA_KEYS.items() if key != "num_hidden_layers"},
                         layer_types=[[FULL, SLIDING, FULL], [FULL] * 3],
                         rope_parameters=[{FULL: dict(rope_type="linear", factor=8.0, rope_theta=5e4),
                                           SLIDING: dict(rope_type="default", rope_theta=300.0)},
                                          {FULL: dict(rope_type="yarn", factor=4.0,
                                                      original_max_position_embeddings=16),
                                           SLIDING: dict(rope_type="linear", factor=2.0)}])),
    "olmo2": ("Olmo2ForCausalLM", dict(LLAMA, pad_token_id=0), RMS_KEYS),
    "gpt_neox": ("GPTNeoXForCausalLM",
                 {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"},
                 dict(FEW, attention_bias=[False], num_attention_heads=[2], layer_norm_eps=[1e-2, 1e-12],
                      use_parallel_residual=[False], hidden_dropout=[0.1], classifier_dropout=[0.4],
                      rope_parameters=[dict(rope_type="default", rope_theta=100.0, partial_rotary_factor=0.5),
                                       dict(rope_type="default", partial_rotary_factor=1.0),
                                       dict(ROPES[1], partial_rotary_factor=0.5),
                                       dict(ROPES[5], partial_rotary_factor=1.0),
                                       dict(ROPES[8], partial_rotary_factor=0.5), ROPES[10]])),
}
# Keys that act only together.
# Tokens of the text; all these embeddings but GPT-2's and GPT-NeoX's are told, and have no gradient there.
PADDING = [("llama", 11), ("gemma2", 35), ("phi3", 1), ("gpt2", 11), ("gpt_neox", 11)]
TOGETHER = [
    ("gpt2", dict(scale_attn_weights=False, scale_attn_by_inverse_layer_idx=True)),
    ("gpt2", dict(scale_attn_by_inverse_layer_idx=True, reorder_and_upcast_attn=True, n_layer=3)),
    ("llama", dict(attention_bias=True, mlp_bias=True, head_dim=24)),
    ("qwen2", dict(use_sliding_window=True, sliding_window=6, max_window_layers=1)),
    ("qwen2", dict(use_sliding_window=True, sliding_window=6, max_window_layers=0)),
    ("qwen2", dict(use_sliding_window=True, sliding_window=6, max_window_layers=5)),
    ("qwen2", dict(use_sliding_window=True, sliding_window=6, layer_types=["sliding_attention", "full_attention"])),
    ("mistral", dict(sliding_window=9, rope_parameters=ROPES[8], num_key_value_heads=1)),
    ("qwen3", dict(use_sliding_window=True, sliding_window=6, max_window_layers=1, attention_bias=True)),
    ("qwen3", dict(use_sliding_window=True, sliding_window=6, layer_types=[SLIDING, FULL], tie_word_embeddings=True)),
    ("smollm3", dict(use_sliding_window=True, sliding_window=6, no_rope_layer_interval=2)),
    ("smollm3", dict(use_sliding_window=True, sliding_window=6, attention_bias=True, mlp_bias=True,
                     layer_types=[SLIDING, FULL, FULL, SLIDING])),
    ("gemma2", dict(attn_logit_softcapping=0.5, final_logit_softcapping=1.5, query_pre_attn_scalar=4,
                    tie_word_embeddings=False)),
    ("gemma2", dict(attn_logit_softcapping=None, final_logit_softcapping=None, attention_bias=True)),
    ("gemma3_text", dict(final_logit_softcapping=2.0, attention_bias=True, tie_word_embeddings=False)),
    ("olmo2", dict(attention_bias=True, num_key_value_heads=4, tie_word_embeddings=True)),
    ("phi3", dict(sliding_window=9, num_key_value_heads=1)),
    ("gpt_neox", dict(use_parallel_residual=False, attention_bias=False)),
    *((kind, dict(pad_token_id=token)) for kind, token in PADDING),
]
MIXES = 12  # of random keys, for each architecture


def mixed(words):
    """SplitMix64's finalizer."""
    words = (words ^ (words >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return words ^ (words >> numpy.uint64(31))


def weights_of(name, shape):
    """24 bits of a hash of name and place, in [-0.25, 0.25); scales of norms lie around 1."""
    seed = 14695981039346656037
    for byte in name.encode():
        seed = (seed ^ byte) * 1099511628211 % 2**64
    with numpy.errstate(over="ignore"):
        words = numpy.uint64(seed) + numpy.arange(1, int(numpy.prod(shape)) + 1, dtype=numpy.uint64) * numpy.uint64(
            0x9E3779B97F4A7C15)
        values = (mixed(words) >> numpy.uint64(40)).astype(numpy.float32) / numpy.float32(2**25) - numpy.float32(0.25)
    norm = len(shape) == 1 and name.endswith("weight")
    return torch.from_numpy((values + numpy.float32(1 if norm else 0)).reshape(shape))


def tokens_of(vocabulary):
    return [(k * k * 7 + k * 3 + 1) % vocabulary for k in range(TOKENS + 1)]


def build(kind, settings):
    name = ROWS[kind][0]
    config = transformers.CONFIG_MAPPING[kind](**settings)
    config._attn_implementation = "eager"
    model = getattr(transformers, name)(config).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(weights_of(key, tuple(parameter.shape)))
    return model


def saved_config(model):
    with tempfile.TemporaryDirectory() as folder:
        model.config.save_pretrained(folder)
        with open(os.path.join(folder, "config.json")) as file:
            config = json.load(file)
    config["architectures"] = [type(model).__name__]
    return config


def mixes(seed, count):
    for kind, (_, base, keys) in ROWS.items():
        yield kind, {}
        rng = random.Random(f"{kind} {seed}")
        for _ in range(count):
            yield kind, {key: rng.choice(keys[key]) for key in rng.sample(sorted(keys), rng.randint(2, 6))}


def cases():
    for kind, (_, base, keys) in ROWS.items():
        yield kind, {}
        for key, values in keys.items():
            for value in values:
                yield kind, {key: value}
        rng = random.Random(kind)
        for _ in range(MIXES):
            chosen = rng.sample(sorted(keys), 4)
            yield kind, {key: rng.choice(keys[key]) for key in chosen}
    yield from TOGETHER


def record(kind, changed, bases):
    model = build(kind, dict(ROWS[kind][1], **changed))
    config = saved_config(model)
    base = bases.setdefault(kind, config)
    ids = tokens_of(config["vocab_size"])
    sloped = base is config or (kind, changed) in TOGETHER
    with torch.set_grad_enabled(sloped):
        logits = model(torch.tensor([ids[:-1]])).logits[0]
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]))
    gradients = {}
    if sloped:
        loss.backward()
        for name, parameter in model.named_parameters():
            probe = weights_of("probe of " + name, tuple(parameter.shape))
            gradients[name] = round((parameter.grad.double() * probe.double()).sum().item(), 7)
    logits, loss = logits.detach(), loss.item()
    row = {"base": kind,
           "config": {key: value for key, value in config.items() if key not in base or base[key] != value},
           "without": [key for key in base if key not in config],
           "loss": round(loss, 6),
           **({"gradients": gradients} if gradients else {}),
           "logits": [[round(x, 6) for x in logits[place][::EVERY].tolist()] for place in PLACES]}
    if not row["without"]:
        del row["without"]
    return row, model, ids


def run(program, arguments):
    done = subprocess.run([program] + arguments, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def compare(program, row, model, ids, folder):
    """-> "equal", "refused: why", or what is wrong."""
    model.save_pretrained(folder)
    data = os.path.join(folder, "ids.bin")
    numpy.array(ids, dtype=numpy.uint16).tofile(data)
    config, weights = os.path.join(folder, "config.json"), os.path.join(folder, "model.safetensors")
    code, out, said = run(program, ["evaluate", config, "--weights", weights, "--data", data, "--json", "--threads",
                                    "1", "--sequence-length", str(TOKENS)])
    if code == 2:
        return "refused: " + said.strip().split("config.json: ")[-1].splitlines()[0]
    if code != 0:
        return f"WRONG: exit code {code}: {said}"
    warned = [line for line in said.splitlines() if "warning" in line]
    off = abs(json.loads(out)["loss"] - row["loss"])
    if off > 2e-6:
        return f"WRONG: the loss is off by {off:.1e}"
    with torch.no_grad():  # without a cache, which for windows of 1 differs from the model's own forward
        greedy = model.generate(torch.tensor([ids[:8]]), max_new_tokens=12, do_sample=False, eos_token_id=None,
                                pad_token_id=0, use_cache=False)[0].tolist()
    code, out, said = run(program, ["generate", config, "--weights", weights, "--prompt-ids",
                                    ",".join(map(str, ids[:8])), "--tokens", "12", "--temperature", "0",
                                    "--end-of-text", "none", "--threads", "1"])
    if code != 0:
        return f"WRONG: generate ends with {code}: {said}"
    found = [int(word) for word in out.split()]
    if found != greedy:
        return f"WRONG: greedy text {found}, of transformers {greedy}"
    return "equal" + (", " + warned[0] if warned else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="")
    parser.add_argument("--seed")
    parser.add_argument("--mixes", type=int, default=16)
    arguments = parser.parse_args()
    program = arguments.program
    chosen = cases() if arguments.seed is None else mixes(arguments.seed, arguments.mixes)
    bases, rows, seen, outcomes = {}, [], set(), {}
    for kind, changed in chosen:
        try:
            row, model, ids = record(kind, changed, bases)
        except Exception as error:  # what transformers itself refuses
            print(f"{kind} {changed}: transformers: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        key = json.dumps([row["base"], row["config"], row.get("without")])
        if key in seen:
            continue
        seen.add(key)
        rows.append(row)
        if not program:
            continue
        with tempfile.TemporaryDirectory() as folder:
            outcome = compare(program, row, model, ids, folder)
        kinds = outcome.split(":")[0].split(",")[0]
        outcomes[kinds] = outcomes.get(kinds, 0) + 1
        print(f"{kind} {row['config']}: {outcome}", file=sys.stderr)
    head = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0], "tokens": TOKENS,
            "places": PLACES, "every": EVERY, "bases": bases}
    lines = ",\n".join(json.dumps(row) for row in rows)
    print(json.dumps(head)[:-1] + ', "models": [\n' + lines + "\n]}")
    if program:
        print(f"{len(rows)} models: {outcomes}", file=sys.stderr)
        sys.exit(1 if "WRONG" in outcomes else 0)


if __name__ == "__main__":
    main()
