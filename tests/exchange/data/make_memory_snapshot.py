# SPDX-License-Identifier: Apache-2.0
# Makes memory_snapshot.pickle, as torch.cuda.memory._dump_snapshot writes it after
# torch.cuda.memory._record_memory_history(max_entries=...), from a made-up program:
#
#   python3 make_memory_snapshot.py [STEPS]
#
# Facts: torch/csrc/cuda/Module.cpp (_cuda_memorySnapshot) and docs/source/torch_cuda_memory.md.
import pickle
import sys

BASE = 0x7F2C00000000
MEGA = 1 << 20


def frame(name, filename, line):
    return {"name": name, "filename": filename, "line": line}


LIB = "/usr/lib/python3/dist-packages/torch"
STACKS = {
    "weight": [frame("__init__", f"{LIB}/nn/modules/linear.py", 106),
               frame("build", "train.py", 12), frame("<module>", "train.py", 40)],
    "activation": [frame("forward", f"{LIB}/nn/modules/linear.py", 125),
                   frame("forward", "model.py", 31), frame("<module>", "train.py", 44)],
    "state": [frame("_init_group", f"{LIB}/optim/adamw.py", 144),
              frame("step", f"{LIB}/optim/adamw.py", 220), frame("<module>", "train.py", 46)],
    "gather": [frame("foreach_all_gather",
                     f"{LIB}/distributed/fsdp/_fully_shard/_fsdp_collectives.py", 120),
               frame("<module>", "train.py", 44)],
    "before": [],
}


class Allocator:
    def __init__(self):
        self.events, self.blocks, self.time = [], {}, 1_700_000_000_000_000
        self.recording, self.reserved, self.next = False, 0, BASE

    def event(self, action, addr, size, frames, key="addr"):
        self.time += 7
        if self.recording:
            self.events.append({"action": action, key: addr, "size": size, "stream": 0,
                                "time_us": self.time, "compile_context": "N/A",
                                "user_metadata": "", "frames": frames})

    def alloc(self, size, why):
        address, self.next = self.next, self.next + (size + 511) // 512 * 512
        while self.next - BASE > self.reserved:
            self.event("segment_alloc", BASE + self.reserved, 20 * MEGA, STACKS[why])
            self.reserved += 20 * MEGA
        self.event("alloc", address, size, STACKS[why])
        self.blocks[address] = (size, why)
        return address

    def free(self, address):
        size, why = self.blocks.pop(address)
        self.event("free_requested", address, size, STACKS[why])
        self.event("free_completed", address, size, STACKS[why])
        return address

    def snapshot(self):
        blocks, at = [], BASE
        for address, (size, why) in sorted(self.blocks.items()):
            if address > at:
                blocks.append({"address": at, "size": address - at, "requested_size": 0,
                               "state": "inactive", "frames": []})
            rounded = (size + 511) // 512 * 512
            blocks.append({"address": address, "size": rounded, "requested_size": size,
                           "state": "active_allocated", "frames": STACKS[why]})
            at = address + rounded
        if at < BASE + self.reserved:
            blocks.append({"address": at, "size": BASE + self.reserved - at, "requested_size": 0,
                           "state": "inactive", "frames": []})
        held = sum(size for size, _ in self.blocks.values())
        segment = {"device": 0, "address": BASE, "total_size": self.reserved,
                   "allocated_size": held, "active_size": held, "requested_size": held,
                   "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
                   "is_expandable": False, "frames": [], "blocks": blocks}
        return {"segments": [segment], "device_traces": [self.events],
                "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1}}


def main(steps):
    a = Allocator()
    early = a.alloc(3 * MEGA, "before")  # before the recording; freed in it
    a.alloc(5 * MEGA + 100, "before")  # before the recording; never freed
    a.recording = True
    a.alloc(10 * MEGA, "weight")
    a.alloc(20 * MEGA, "state")
    for step in range(steps):
        begin = a.next
        gathered = a.alloc(4 * MEGA + step, "gather")
        activation = a.alloc(8 * MEGA, "activation")
        a.free(gathered)
        a.free(activation)
        a.next = begin  # the allocator takes the same blocks again
        if step == 0:
            a.free(early)
    a.event("oom", 2 * MEGA, 64 * MEGA, STACKS["activation"], key="device_free")
    a.event("snapshot", 0, 0, [])
    with open("memory_snapshot.pickle", "wb") as out:
        pickle.dump(a.snapshot(), out)


main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
