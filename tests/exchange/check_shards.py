#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""transformers and safetensors read what `tessera checkpoint export --format shards` wrote, bit by
bit; needs torch, transformers and safetensors.

    tessera checkpoint import tests/golden/checkpoints/dcp net.json run
    tessera checkpoint export run FOLDER --format shards --shard-size 1e-6
    python3 check_shards.py FOLDER tests/golden/checkpoints/dcp.json
"""
import json
import sys

from safetensors import safe_open
from torch import nn
from transformers.trainer_utils import load_sharded_checkpoint


def main(folder, wanted):
    with open(wanted, encoding="utf-8") as file:
        full = json.load(file)
    model = nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.Linear(7, 3))
    load_sharded_checkpoint(model, folder, strict=True)
    found = {name: parameter.flatten().tolist() for name, parameter in model.named_parameters()}
    with open(f"{folder}/optimizer.safetensors.index.json", encoding="utf-8") as file:
        places = json.load(file)["weight_map"]
    for name, shard in places.items():
        with safe_open(f"{folder}/{shard}", "pt") as tensors:
            found[name.removeprefix("state.")] = tensors.get_tensor(name).flatten().tolist()
    different = [name for name, values in full.items() if found[name] != values]
    if different:
        sys.exit(f"{different} are others")
    print(f"{len(full)} tensors in {len(set(places.values()))} files of states are equal")


main(*sys.argv[1:])
