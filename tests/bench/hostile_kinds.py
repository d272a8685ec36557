#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hands the program models, DeepSpeed configurations and plans that are wrong in ways of their own:
encodings, numbers that JSON has not, cycles, sizes beyond all memory, names of a megabyte.

    python3 tests/bench/hostile_kinds.py build/release/tessera

Good is: exit code 2, one line of at most 2,000 characters that begins with "tessera: ", no new file,
within 20 s. What is accepted is listed, to be judged by a reader. hostile_files.py mutates instead.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

from hostile_files import INTERNAL, ROOT

TREE = {"tessera_model": 1, "name": "n", "root": {"class": "Net", "modules": [
    {"name": "a", "class": "Linear", "parameters": [{"name": "w", "shape": [4, 4]}]},
    {"name": "b", "class": "Block", "modules": [
        {"name": "c", "class": "Linear", "parameters": [{"name": "w", "shape": [4, 4]}]}]}]},
    "forward": ["a", "b.c"]}
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
         "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 96}
ZERO = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3, "reduce_bucket_size": 1000}}
PLAN = {"tessera_plan": 1, "units": [{"modules": "h.*"}]}
CALLS = {"tree": ("ops", "{}", "--ranks", "2"), "llama": ("estimate", "{}"),
         "zero": ("ops", "examples/models/gpt-tiny.json", "--ranks", "2", "--deepspeed", "{}"),
         "plan": ("ops", "examples/models/gpt-tiny.json", "--ranks", "4", "--plan", "{}")}
FILES = {"tree": TREE, "llama": LLAMA, "zero": ZERO, "plan": PLAN}
WHERE = {"tree": '[4, 4]', "llama": "64", "zero": "1000", "plan": '"h.*"'}  # a value to replace


def encodings():
    for kind, value in FILES.items():
        text = json.dumps(value)
        yield kind, "utf-16", text.encode("utf-16")
        yield kind, "utf-16-be", b"\xfe\xff" + text.encode("utf-16-be")
        yield kind, "utf-32", text.encode("utf-32")
        yield kind, "latin-1", text.replace("n", "\xe9").encode("latin-1")
        yield kind, "nul", text.replace(":", ":\0", 1).encode()
        yield kind, "empty", b""
        yield kind, "blank", b" \n\t "
        yield kind, "bom alone", b"\xef\xbb\xbf"
        yield kind, "random", bytes(range(256)) * 16
        yield kind, "two documents", (text + text).encode()
        yield kind, "list around", f"[{text}]".encode()
        yield kind, "text around", json.dumps(text).encode()


def numbers():
    for kind, value in FILES.items():
        for bad in ("NaN", "Infinity", "-Infinity", "1e400", "-1e400", "0x10", "01", "+1", "1.", ".5",
                    "- 1", "1_000", "'1'", "true1", "[1e400]", "9" * 400, "1e-400000"):
            yield kind, bad[:12], json.dumps(value).replace(WHERE[kind], bad, 1).encode()


def nesting():
    for kind, value in FILES.items():
        for opened, closed in (("[", "]"), ('{"a":', "}")):
            deep = opened * 200_000 + "1" + closed * 200_000
            yield kind, "deep " + opened, json.dumps(value).replace(WHERE[kind], deep, 1).encode()
        twice = json.dumps(value)
        key = list(value)[-1]
        yield kind, "twice", (twice[:-1] + f', "{key}": 1}}').encode()


def with_tree(**more):
    return json.dumps({**json.loads(json.dumps(TREE)), **more}).encode()


def with_shape(shape):
    tree = json.loads(json.dumps(TREE))
    tree["root"]["modules"][0]["parameters"][0]["shape"] = shape
    return json.dumps(tree).encode()


def cycles():
    for name, more in {
            "ties both ways": {"ties": [["a.w", "b.c.w"], ["b.c.w", "a.w"]]},
            "tie with itself": {"ties": [["a.w", "a.w"]]},
            "tie to nothing": {"ties": [["a.w", "x.w"]]},
            "tie from nothing": {"ties": [["x.w", "a.w"]]},
            "tie of three": {"ties": [["a.w", "b.c.w", "a.w"]]},
            "alias in itself": {"module_aliases": [["b", "b.c.d"]]},
            "alias of root": {"module_aliases": [["", "a.r"]]},
            "alias cycle": {"module_aliases": [["b", "a.x"], ["a", "b.y"]]},
            "alias over a module": {"module_aliases": [["a", "b.c"]]},
            "alias of nothing": {"module_aliases": [["z", "b.z"]]},
            "forward of nothing": {"forward": ["a", "z"]},
            "forward in another": {"forward": ["a", "b", "b.c"]},
            "forward of root and more": {"forward": ["", "a"]},
            "again first": {"forward": [{"again": "b"}, "b.c"]},
            "again of nothing": {"forward": ["a", {"again": "z"}, "b.c"]},
            "reads itself": {"reads": [["a", "a.w"]]},
            "reads nothing": {"reads": [["a", "z.w"]]},
            "returns nothing": {"returns": [["a", "z.w"]]},
            "unit of nothing": {"units": ["z"]},
            "unit twice": {"units": ["a", "a"]},
            "graph of nothing": {"graphs": {"g": ["z"]}}}.items():
        yield "tree", name, with_tree(**more)


def sizes():
    for shape in ([-1, 4], [2**62, 4], [2**32, 2**32], [1] * 100_000, [], [2**63], [4.5], ["4"], [[4]],
                  [-2**63], [2**64]):
        yield "tree", f"shape {str(shape)[:20]}", with_shape(shape)
    for key, value in [("num_hidden_layers", 10**9), ("num_hidden_layers", 2**63 - 1), ("vocab_size", 2**62),
                       ("vocab_size", 2**63), ("hidden_size", 2**62), ("hidden_size", 63),
                       ("intermediate_size", 2**62), ("num_attention_heads", 0),
                       ("num_attention_heads", 2**40), ("num_key_value_heads", 3), ("head_dim", 2**40),
                       ("head_dim", 0), ("max_position_embeddings", 2**62), ("rms_norm_eps", 0),
                       ("hidden_act", "x" * 10**6), ("torch_dtype", "int8"), ("num_hidden_layers", 0),
                       ("tie_word_embeddings", 2), ("architectures", ["x" * 10**6]), ("architectures", []),
                       ("architectures", {}), ("model_type", "gpt2"), ("layer_types", ["x"] * 10**5)]:
        yield "llama", f"{key} {str(value)[:12]}", json.dumps({**LLAMA, key: value}).encode()
    for family, key in (("Qwen3MoeForCausalLM", "num_experts"), ("Glm4MoeForCausalLM", "n_routed_experts"),
                        ("Ernie4_5_MoeForCausalLM", "moe_num_experts"), ("GptOssForCausalLM", "num_local_experts"),
                        ("DeepseekV3ForCausalLM", "kv_lora_rank"), ("Exaone4ForCausalLM", "sliding_window_pattern")):
        for value in (10**9, -1, "many", 2**62):
            yield "llama", f"{family} {value}", json.dumps({"architectures": [family], key: value}).encode()


def names():
    long = "x" * 10**6
    tree = json.loads(json.dumps(TREE))
    tree["units"] = [long]
    yield "tree", "unit of a megabyte", json.dumps(tree).encode()
    for key in ("name", "class"):
        tree = json.loads(json.dumps(TREE))
        tree["root"]["modules"][0][key] = long if key == "class" else "x.y"
        yield "tree", f"{key} odd", json.dumps(tree).encode()
    for kind, value in FILES.items():
        yield kind, "key of a megabyte", json.dumps({**value, long: 1}).encode()
        yield kind, "100,000 keys", json.dumps({**value, **{f"k{i}": i for i in range(10**5)}}).encode()
    for unit in ({"modules": long}, {"modules": "*" * 10**5}, {"modules": "**" * 50 + "x"}, {"class": "Nothing"},
                 {"modules": "h.9"}, {"modules": 3}, {}, {"modules": "h.0", "class": "Block"},
                 {"modules": "h.0", "shard_group": 3}, {"modules": "h.0", "shard_group": -1},
                 {"modules": "h.0", "reshard_group": 3}, {"modules": "h.0", "param_dtype": "int32"},
                 {"modules": "h.0", "reshard_after_forward": 1}, {"modules": "h.0", "offload": True}):
        yield "plan", str(unit)[:40], json.dumps({"tessera_plan": 1, "units": [unit]}).encode()
    for more in ({"tessera_plan": 2}, {"units": {}}, {"ignored_parameters": ["z"]}, {"ignored_modules": ["z"]},
                 {"units": [{"modules": "h.0"}] * 10**5}, {"ignored_modules": [""]}):
        yield "plan", str(more)[:40], json.dumps({**PLAN, **more}).encode()


def lists():
    """Keys of single families, and what a tree says of classes."""
    for value in (3, {}, [], [[]], [["global", 24]], [[["global"], 10**9]], [[["local"] * 10**5, 10**5]], [[[], 24]],
                  [[["x"], 24]], [[["global", "local"], -1]], [[["global", "local"], 12.5]], [[["global"] * 24, 2]],
                  [[["global", "local"], 2**64]], "global", [[[["global"]], 24]]):
        yield "llama", f"attention_types {str(value)[:30]}", json.dumps(
            {"model_type": "gpt_neo", "attention_types": value}).encode()
    for family in ("glm4_moe_lite", "mellum", "exaone_moe"):
        for value in (["sparse"], ["dense"] * 10**5, ["x"] * 47, "sparse", {}, [1] * 28, [], [["dense"]] * 32, True):
            yield "llama", f"{family} mlp_layer_types {str(value)[:20]}", json.dumps(
                {"model_type": family, "mlp_layer_types": value}).encode()
        for key in ("num_experts_per_tok", "moe_intermediate_size", "num_hidden_layers"):
            for value in (0, -1, 2**62, "8", [8], 1e9, 2**64):
                yield "llama", f"{family} {key} {value}", json.dumps({"model_type": family, key: value}).encode()
    for family, key in (("helium", "hidden_size"), ("olmoe", "head_dim"), ("minicpm3", "v_head_dim"),
                        ("youtu", "q_lora_rank"), ("jais2", "num_attention_heads"), ("mt5", "num_heads"),
                        ("umt5", "d_kv"), ("xlm-roberta", "num_attention_heads"), ("vit", "head_dim"),
                        ("persimmon", "num_attention_heads"), ("codegen", "n_head"), ("internlm3", "bias")):
        for value in (7, -1, 2**62, 2**70, "64", [64], {}, 0.5):
            yield "llama", f"{family} {key} {value}", json.dumps({"model_type": family, key: value}).encode()
    for act in ("xielu", "prelu", "", "x" * 10**6, 3, ["gelu"], "gated-"):
        for family, key in (("llama", "hidden_act"), ("mt5", "feed_forward_proj"), ("gpt_neo", "activation_function")):
            yield "llama", f"{family} {key} {str(act)[:9]}", json.dumps({"model_type": family, key: act}).encode()
    for bases in (3, [], {"Net": 3}, {"Net": [1]}, {"Nothing": ["Linear"]}, {"Net": ["x" * 10**6, 1]}, {"": []},
                  {"Linear": {}}, {"Linear": [["Module"]]}, {"x" * 10**6: ["Net"]}, {"Linear": None}):
        yield "tree", f"class_bases {str(bases)[:30]}", with_tree(class_bases=bases)
    for name in ("x" * 10**6, "", "linear", "Net,Linear", "*"):
        yield "plan", f"class {name[:9]}", json.dumps({"tessera_plan": 1, "units": [{"class": name}]}).encode()


def judge(program, folder, kind, data):
    with open(os.path.join(folder, "hostile.json"), "wb") as file:
        file.write(data)
    before = set(os.listdir(folder))
    begun = time.monotonic()
    try:
        run = subprocess.run([program, *(part.format("hostile.json") for part in CALLS[kind])], cwd=folder,
                             capture_output=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "", ["60 s"]
    said = run.stderr.decode(errors="replace")
    wrong = [f"says {word!r}" for word in INTERNAL if word in said]
    if run.returncode not in (0, 2):
        wrong.append(f"exit {run.returncode}")
    if run.returncode == 2 and (len(said.splitlines()) != 1 or not said.startswith("tessera: ")):
        wrong.append("not one sentence")
    if len(said) > 2000:
        wrong.append(f"{len(said)} characters")
    if time.monotonic() - begun > 20:
        wrong.append("slow")
    if set(os.listdir(folder)) != before:
        wrong.append(f"left {set(os.listdir(folder)) - before}")
    return ("accepted" if run.returncode == 0 else "refused"), wrong or ([said[:200]] if "-v" in sys.argv else [])


def main():
    program = os.path.abspath(sys.argv[1])
    counts, bad = {"accepted": 0, "refused": 0, "": 0}, 0
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.join(ROOT, "examples"), os.path.join(folder, "examples"))
        for kind, value in FILES.items():  # what is damaged was whole
            assert judge(program, folder, kind, json.dumps(value).encode())[0] == "accepted", kind
        for make in (encodings, numbers, nesting, cycles, sizes, names, lists):
            for kind, name, data in make():
                outcome, wrong = judge(program, folder, kind, data)
                counts[outcome] += 1
                bad += bool(wrong) and "-v" not in sys.argv
                if wrong or outcome == "accepted":
                    print(f"{make.__name__}, {kind}, {name}: {outcome} {', '.join(wrong)}", flush=True)
    print(f"{sum(counts.values())} files: {counts['refused']} refused, {counts['accepted']} accepted, {bad} bad")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
