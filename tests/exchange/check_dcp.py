#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch loads what `tessera checkpoint export --format dcp` wrote, bit by bit; needs torch.

    tessera checkpoint import tests/golden/checkpoints/dcp net.json run
    tessera checkpoint export run FOLDER --format dcp
    python3 check_dcp.py FOLDER tests/golden/checkpoints/dcp.json
"""
import json
import sys

import torch
import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict


def main(folder, wanted):
    with open(wanted, encoding="utf-8") as file:
        full = json.load(file)
    model = nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.Linear(7, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    values, states = get_state_dict(model, optimizer)
    both = {"model": values, "optim": states}
    checkpoint.load(both, checkpoint_id=folder, planner=DefaultLoadPlanner(allow_partial_load=True))
    set_state_dict(model, optimizer, model_state_dict=both["model"], optim_state_dict=both["optim"])
    equal = 0
    for name, parameter in model.named_parameters():
        state = optimizer.state[parameter]
        for tensor, end in ((parameter, ""), (state["exp_avg"], ".exp_avg"), (state["exp_avg_sq"], ".exp_avg_sq")):
            if tensor.flatten().tolist() != full[name + end]:
                sys.exit(f"{name}{end} is another")
            equal += 1
    print(f"{equal} tensors are equal, step {int(state['step'])}")


main(*sys.argv[1:])
