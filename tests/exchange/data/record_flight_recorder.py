# SPDX-License-Identifier: Apache-2.0
# Records dumps of PyTorch's Flight Recorder with gloo on three ranks, of which the last leaves
# before the fifth collective; and dumps of a mismatch, where rank 1 broadcasts instead:
#
#   pip install torch; python3 record_flight_recorder.py
#
# Writes flight_missing_rank_{0,1,2}.pickle and .json, and flight_mismatch_rank_{0,1,2}.pickle.
import datetime
import os
import time

os.environ["TORCH_FR_BUFFER_SIZE"] = "2000"

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json

WORLD = 3


def anonymous(dump):
    """Folders of this machine become others of the same length."""
    folders = [os.path.dirname(torch.__path__[0]), os.path.dirname(os.path.abspath(__file__)),
               os.path.dirname(os.__file__)]
    for folder in folders:
        other = ("/lib" + "/python" * 20)[:len(folder) - 1] + "3"
        dump = dump.replace(folder.encode(), other.encode())
    return dump


def train(rank, scenario):
    x = torch.ones(1024)
    pair = dist.new_group([0, 1], group_desc="pair")
    gathered = torch.empty(1024 * WORLD)
    for _ in range(3):
        dist.all_reduce(x)
        if rank < 2:
            dist.broadcast(x, 0, group=pair)
    dist.all_gather_into_tensor(gathered, x)
    if scenario == "missing" and rank == 2:
        return
    if scenario == "mismatch" and rank == 1:
        dist.broadcast(x, 0, async_op=True)
    else:
        dist.all_reduce(x, async_op=True)


def work(rank, scenario, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=WORLD,
                            timeout=datetime.timedelta(seconds=60))
    train(rank, scenario)
    with open(f"flight_{scenario}_rank_{rank}.pickle", "wb") as out:
        out.write(anonymous(_dump_fr_trace()))
    if scenario == "missing":
        with open(f"flight_{scenario}_rank_{rank}.json", "wb") as out:
            out.write(_dump_fr_trace_json())
    time.sleep(5)  # the others may still be writing
    os._exit(0)


if __name__ == "__main__":
    for index, scenario in enumerate(["missing", "mismatch"]):
        mp.spawn(work, args=(scenario, 29531 + index), nprocs=WORLD)
