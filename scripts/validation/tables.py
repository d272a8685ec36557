# SPDX-License-Identifier: Apache-2.0
"""Published tables, a function each: a line becomes a Row, or the reason why it cannot be said."""
import csv
import pathlib

from .row import Row, gpt

MPT = {"125m": (768, 12), "350m": (1024, 24), "760m": (1536, 24), "1b": (2048, 24),
       "3b": (2560, 32), "7b": (4096, 32), "13b": (5120, 40), "30b": (7168, 48), "70b": (8192, 80)}
MPT_SCHEMES = {"FULL_SHARD": "full_shard", "SHARD_GRAD_OP": "shard_grad_op",
               "NO_SHARD": "no_shard"}
MPT_CLUSTERS = {"h100_80gb": "dgx-h100", "a100_80gb": "dgx-a100", "a100_40gb": "a100-40gb"}
SCHEMES = {"fsdp2 full shard": ["fully_shard"], "fsdp1": ["full_shard"],
           "zero1": ["zero1"], "zero2": ["zero2"],
           "zero2 over 8": ["zero2"],
           "zero3": ["zero3", "--policy", "compatible"],
           "ds zero3": ["zero3", "--policy", "compatible"],
           "ddp": ["replicate", "--param-dtype", "bf16"], "single": ["no_shard"]}
# InternEvo gives whole parameters to ranks, and broadcasts what they have stepped.
SCHEMES["zero1 over all ranks"] = ["sharded_data_parallel", "--param-dtype", "bf16", "--no-sync"]
CLUSTERS = {"H100-SXM": "dgx-h100", "A100-SXM4-80GB": "dgx-a100", "A100-SXM4-40GB": "a100-40gb",
            "H200-SXM": "dgx-h200", "B200-SXM": "dgx-b200", "RTX-4090": "rtx-4090",
            "RTX-PRO-6000": "rtx-pro-6000", "RTX-5060Ti-16G": "rtx-5060-ti",
            "RTX-3090 x8/x8 PCIe": "rtx-3090", "RTX-4090 x16 PCIe4": "rtx-4090",
            "A5000-24GB": "rtx-a5000", "A6000-Ada-48GB": "rtx-6000-ada"}
CHECKPOINTING = {"none": [], "": [], "full": ["--checkpointing", "full"],
                 "selective per op": ["--checkpointing", "operators"],
                 "every 2nd layer": ["--checkpointing", "full", "--checkpoint-every", 2]}
# LLM.Q's --recompute-*, and ours.
RECOMPUTE = {"norm": "norm", "swiglu": "activation", "ffn": "ffn", "qkv": "qkv",
             "att": "attention"}
# hidden, layers, inner, heads, key-value heads, vocabulary: config.json of meta-llama and 01-ai.
ADAPTED = {"Llama-2-7B": (4096, 32, 11008, 32, 32, 32000),
           "Yi-34B": (7168, 60, 20480, 56, 8, 64000),
           "Llama-2-70B": (8192, 80, 28672, 64, 8, 32000)}
PARALLEL = ("tp", "pp", "cp", "ep", "ring")
LLAMA3 = {"8B": {"hidden": 4096, "layers": 32, "ffn": 14336, "heads": 32},
          "70B": {"hidden": 8192, "layers": 80, "ffn": 28672, "heads": 64}}
OFFLOADED_LAYERS = {"gb200-nvl72": 40, "gb300-nvl72": 20}
BRIDGE_CLUSTERS = {"DGX-H100": ("dgx-h100", 8), "DGX-B200": ("dgx-b200", 8),
                   "DGX-B300": ("dgx-b300", 8), "DGX-GB200": ("gb200-nvl72", 64),
                   "DGX-GB300": ("gb300-nvl72", 64)}


def numbers(line, *keys):
    return [int(float(line[key])) for key in keys]


def mosaic(line):
    if "fp8" in line["Precision"]:
        return "fp8 matmuls under FSDP1"
    if line["Activation CPUOffload"] == "True":
        return "offloaded activations"
    gpus, length, batch, parts, whole = numbers(line, "# GPUs", "SeqLen (T)", "MicroBatchSize",
                                                "GradAccum", "GlobalBatchSize")
    hidden, layers = MPT[line["Model"]]
    checkpointed = line["Activation Checkpointing"] == "True"
    options = ["--scheme", MPT_SCHEMES[line["Sharding Strategy"]], "--batch", batch,
               "--sequence-length", length, "--accumulation", parts,
               "--reduce-dtype", "bf16" if line["MP Mode"] == "PURE" else "fp32"]
    return Row(family="LLM Foundry (FSDP1, MPT)", system=f"{line['GPU']}, {line['Model']}",
               name=f"{line['Model']}, {length} tokens, {gpus} {line['GPU']}, batch {batch} x "
                    f"{parts}{', checkpointed' if checkpointed else ''}",
               profile="mosaic", cluster=(MPT_CLUSTERS[line["GPU"]], {}), ranks=gpus,
               model=gpt(hidden, layers, length, 50368, hidden // 128),
               options=options + (["--checkpointing", "full"] if checkpointed else []),
               seconds=whole * length / (float(line["Throughput (T/s/GPU)"]) * gpus))


def azure(line):
    layers, hidden, heads, length, gpus, batch = numbers(
        line, "layers", "hidden", "heads", "seq", "gpus_A100_80G", "micro_batch_per_gpu")
    rate = float(line["tflops_per_gpu(HW incl recompute, digitised +-2)"]) * 1e12
    # Narayanan et al. 2021, with full recomputation: what the published rate counts.
    flops = 96 * batch * length * layers * hidden**2 * (
        1 + length / (6 * hidden) + 51200 / (16 * layers * hidden))
    return Row(family="DeepSpeed ZeRO-3 on Azure", system=line["model"],
               name=f"{line['model']}, {length} tokens, {gpus} A100, batch {batch}",
               profile="deepspeed", cluster=("dgx-a100", {}), ranks=gpus,
               model=gpt(hidden, layers, length, 51200, heads), seconds=flops / rate,
               options=["--scheme", "zero3", "--policy", "compatible", "--param-dtype", "fp16",
                        "--batch", batch, "--sequence-length", length, "--checkpointing", "full",
                        "--offload-optimizer", "cpu"])


def vtrain(line):
    if line["tensor parallelism"] != "1" or line["pipeline parallelism"] != "1":
        return "tensor or pipeline parallel"
    gpus, whole, batch, hidden, heads, layers, length = numbers(
        line, "# GPUs", "global batch", "micro batch", "hidden size", "attention heads",
        "# layers", "sequence length")
    parts = whole // gpus // batch
    return Row(family="Megatron-LM, data parallel (vTrain)", system=f"hidden size {hidden}",
               name=f"{layers} layers of {hidden}, {length} tokens, {gpus} A100, batch {batch} x "
                    f"{parts}",
               profile="megatron", cluster=("dgx-a100", {}), ranks=gpus,
               model=gpt(hidden, layers, length, 51200, heads),
               seconds=float(line["iteration time (ms)"]) / 1e3,
               options=["--scheme", "replicate", "--param-dtype", "fp16", "--batch", batch,
                        "--sequence-length", length, "--accumulation", parts, "--no-sync"]
               + (["--checkpointing", "full"] if gpus > 8 else []))


def why_not(line):
    """The reason why a line of runs.csv cannot be said, or nothing."""
    parallel = [p for p in PARALLEL if p in line["scheme"]]
    if parallel:
        return "tensor, pipeline, context or expert parallel"
    if "modded-nanogpt" in line["source"]:
        return "optimizer Muon"
    if line["scheme"] not in SCHEMES:
        return f"scheme {line['scheme']}"
    if line["gpu"] not in CLUSTERS:
        return f"no cluster of {line['gpu']}"
    if line["precision"] not in ("bf16", "bf16-true", "") and "fp8" not in line["precision"]:
        return f"precision {line['precision']}"
    if checkpointing(line) is None:
        return f"checkpointing of {line['act_ckpt']}"
    if line["offload"]:
        return f"offload of {line['offload']}"
    if not all(line[k] for k in ("layers", "hidden", "heads", "seq", "micro_batch", "vocab")):
        return "dimensions are not published"
    if not (line["step_time_s"] or line["tokens_per_s_per_gpu"]):
        return "no time"
    return ""


def checkpointing(line):
    """The options that say it, or None."""
    kinds = line["act_ckpt"].split("+")
    if all(kind in RECOMPUTE for kind in kinds):
        return ["--recompute", ",".join(RECOMPUTE[kind] for kind in kinds)]
    return CHECKPOINTING.get(line["act_ckpt"])


def llama(line, length):
    hidden, layers, heads, vocabulary = numbers(line, "hidden", "layers", "heads", "vocab")
    return {"architectures": ["LlamaForCausalLM"], "hidden_size": hidden,
            "num_hidden_layers": layers, "intermediate_size": int(line["ffn"] or 4 * hidden),
            "vocab_size": vocabulary, "num_attention_heads": heads,
            "num_key_value_heads": int(line["kv_heads"] or heads),
            "max_position_embeddings": length, "torch_dtype": "bfloat16",
            "tie_word_embeddings": "Qwen2.5" in line["model"] and hidden < 3000}


def in_memory(line):
    """What decides how much memory a framework takes, beside its profile."""
    fp8 = ["--matmul-dtype", "fp8"] if "fp8" in line["precision"] else []
    # LLM.Q keeps parameters in bf16 alone, rounded stochastically; zero1 has fp32 masters.
    if line["framework"].startswith("LLM.Q") and line["scheme"] == "single":
        return fp8 + ["--sharded-dtype", "bf16"]
    # LLaMA-Factory checkpoints unless it is told not to; its table was measured with Liger's loss.
    if line["framework"].startswith("LLaMA-Factory"):
        return fp8 + ["--checkpointing", "full", "--loss", "chunked"]
    return fp8


def profile_of(line):
    if line["framework"].startswith("LLM.Q"):
        return "fused"
    liger = line["framework"].startswith("LLaMA-Factory")
    compiled = line["compile"].startswith("torch.compile") or liger
    if line["framework"].startswith("torchtitan"):
        return "torchtitan-compile" if compiled else "torchtitan"
    return "compile" if compiled else "eager"


def adapted(line):
    """A line of fsdp_qlora: frozen weights in bf16 or nf4, adapters of rank 64 beside all linear
    layers but the attention's last (train.py)."""
    if not line["framework"].startswith("fsdp_qlora"):
        return "LoRA on sequences of any length"
    gpus, length, batch = numbers(line, "gpus", "seq", "micro_batch")
    hidden, layers, inner, heads, kv_heads, vocabulary = ADAPTED[line["model"]]
    dims = {"hidden": hidden, "layers": layers, "ffn": inner, "heads": heads, "vocab": vocabulary,
            "kv_heads": kv_heads, "model": line["model"]}
    base = ",base=nf4" if "QLoRA" in line["scheme"] else ""
    whole = line["scheme"].startswith("ddp")
    scheme = "replicate" if whole else "fully_shard"
    dtypes = (["--param-dtype", "bf16"] if whole
              else ["--sharded-dtype", "bf16", "--reduce-dtype", "bf16"])
    cluster = (CLUSTERS[line["gpu"]], {"gpus_per_node": gpus})
    if "x8/x8" in line["gpu"]:  # "an older motherboard and slow PCI lanes": 8 of PCIe 3
        cluster[1].update(intra_node={"bytes_per_s": 8e9, "shared_bytes_per_s": 5e9},
                          host={"bytes_per_s": 8e9},
                          # "power limited to 280W each", which leaves 95 % (Puget Systems, 2020)
                          gpu={"matmul_efficiency": 0.95 * 0.98, "attention_efficiency": 0.95})
    # Of these the table says "CPU+Activation Offload".
    moved = ["--offload-activations", layers] if "A5000" in line["gpu"] and line["offload"] else []
    return Row(family=f"fsdp_qlora, {line['scheme'].split()[-1]}", system=line["gpu"],
               name=f"{line['model']}, {length} tokens, {gpus} {line['gpu']}, batch {batch}, "
                    f"{scheme}, {line['precision']}"
                    f"{', offloaded parameters' if line['offload'] else ''}",
               profile="eager", cluster=cluster, ranks=gpus, model=llama(dims, length),
               seconds=float(line["step_time_s"]),
               options=["--scheme", scheme, *dtypes, "--lora",
                        "rank=64,alpha=16,target=q_proj,k_proj,v_proj,gate_proj,up_proj,down_proj,"
                        "dropout=0.1" + base, "--max-grad-norm", 0.3, "--batch", batch, "--sequence-length", length,
                        "--checkpointing", "full"]
               + (["--offload-params"] if line["offload"] else []) + moved)


def run(line):
    if "LoRA" in line["scheme"]:
        return adapted(line)
    why = why_not(line)
    if why:
        return why
    gpus, length, batch, hidden, layers, heads, vocabulary = numbers(
        line, "gpus", "seq", "micro_batch", "hidden", "layers", "heads", "vocab")
    parts = int(float(line["grad_accum"] or 1))
    seconds = float(line["step_time_s"] or 0)
    plain = "GPT-2" in line["model"] or "Falcon" in line["model"]
    changes = {"inter_node": {"bytes_per_s": 6.25e9}} if "4x100G" in line["network"] else {}
    return Row(family=f"{line['framework']}, {line['scheme']}", system=line["gpu"],
               name=f"{line['model']}, {length} tokens, {gpus} {line['gpu']}, batch {batch} x "
                    f"{parts}, checkpointing {line['act_ckpt'] or 'none'}, "
                    f"{line['compile'] or 'eager'}{', fp8' if 'fp8' in line['precision'] else ''}",
               profile=profile_of(line), cluster=(CLUSTERS[line["gpu"]], changes), ranks=gpus,
               model=gpt(hidden, layers, length, vocabulary, heads) if plain
               else llama(line, length),
               options=["--scheme", *SCHEMES[line["scheme"]], "--batch", batch,
                        "--sequence-length", length, "--accumulation", parts,
                        *checkpointing(line), *in_memory(line)],
               seconds=seconds or batch * parts * length / float(line["tokens_per_s_per_gpu"]))


def bridge(line):
    if any(line[p] not in ("1", "", "n/a") for p in ("tp", "pp", "cp", "ep")):
        return "tensor, pipeline, context or expert parallel"
    model = LLAMA3.get(line["model"].rpartition("_")[2])
    place = BRIDGE_CLUSTERS.get(line["system"].rpartition(" ")[2])
    if "LLAMA3_" not in line["model"] or place is None or "LoRA" in line["section"]:
        return "model, cluster or LoRA"
    # Megatron-Bridge, perf_recipes/llama/gb[23]00/llama3.py: cpu_offloading_num_layers.
    moved = OFFLOADED_LAYERS.get(place[0], 0) if line["model"].endswith("70B") else 0
    gpus, batch, length, whole, sharded = numbers(line, "gpus", "mbs", "seq", "gbs", "fsdp")
    rate = float(line["tokens_per_s_per_gpu"].split()[0])
    dims = dict(model, vocab=128256, kv_heads=8, model=line["model"])
    return Row(family="Megatron-Bridge, data parallel", system=line["system"].rpartition(" ")[2],
               name=f"{line['model']}, {length} tokens, {gpus} {line['system']}, batch {batch} x "
                    f"{whole // gpus // batch}, {line['precision']}, {line['container']}",
               profile="graphs", cluster=(place[0], {}), ranks=gpus, per_node=place[1],
               model=llama(dims, length), seconds=whole * length / (rate * gpus),
               options=["--scheme", "fully_shard" if sharded > 1 else "zero1", "--batch", batch,
                        "--sequence-length", length, "--accumulation", whole // gpus // batch]
               + (["--matmul-dtype", "fp8"] if "FP8" in line["precision"] else [])
               + (["--offload-activations", moved] if moved else []))


TABLES = {"mosaic_mpt.csv": mosaic, "deepspeed_zero3_azure.csv": azure,
          "vtrain_ground_truth_single.csv": vtrain, "vtrain_ground_truth_multi.csv": vtrain,
          "runs.csv": run, "megatron_bridge_perf.csv": bridge}


def read(folder, name):
    path = pathlib.Path(folder) / name
    if not path.exists():
        return []
    with open(path, encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def read_runs(folder, every=1):
    """All rows that can be said, or some of each table, and how many cannot by table and reason."""
    rows, refused = [], {}
    for table, say in TABLES.items():
        said = []
        for line in read(folder, table):
            row = say(line)
            if isinstance(row, Row):
                said.append(row)
            else:
                refused[table, row] = refused.get((table, row), 0) + 1
        rows += said[::every]
    return rows, refused
