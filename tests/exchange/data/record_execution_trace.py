# SPDX-License-Identifier: Apache-2.0
# Records execution_trace_rank_1.json: one step of a linear layer on two ranks with gloo, by
# PyTorch's ExecutionTraceObserver, as rank 1 sees it:
#
#   pip install torch; python3 record_execution_trace.py
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.profiler import ExecutionTraceObserver


def work(rank):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29541")
    dist.init_process_group("gloo", rank=rank, world_size=2)
    layer = torch.nn.Linear(4, 8, bias=False)
    x = torch.randn(2, 4)
    observer = ExecutionTraceObserver()
    if rank == 1:
        observer.register_callback("execution_trace_rank_1.json")
        observer.start()
    layer(x).sum().backward()
    dist.all_reduce(layer.weight.grad)
    if rank == 1:
        observer.stop()
        observer.unregister_callback()
    dist.barrier()


if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
