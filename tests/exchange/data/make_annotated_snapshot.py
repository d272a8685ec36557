#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes annotated_snapshot.pickle: annotations, expandable segments, and events that contradict
each other, in the keys of PyTorch 2.9 and later."""

import pickle

BASE = 0x7F0000000000
MEGA = 1 << 20
TIME = 1_700_000_000_000_000  # us
FRAMES = [{"name": "forward", "filename": "/home/u/model.py", "line": 31}]


def event(action, address, size, time, **more):
    fields = {"action": action, "addr": address, "size": size, "stream": 0, "frames": FRAMES}
    return dict(fields, time_us=TIME + time, **more)


def annotation(stage, name, time, device=0):
    return {"stage": stage, "name": name, "device": device, "time_us": TIME + time}


def block(address, asked, state, frames):
    return {
        "address": address,
        "size": 4 * MEGA,
        "requested_size": asked,
        "state": state,
        "frames": frames,
    }


def main():
    segment = {
        "device": 0,
        "address": BASE,
        "total_size": 8 * MEGA,
        "allocated_size": 4 * MEGA,
        "active_size": 4 * MEGA,
        "requested_size": 4 * MEGA,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": True,
        "frames": [],
        "blocks": [
            block(BASE, 4 * MEGA, "active_allocated", FRAMES),
            block(BASE + 4 * MEGA, 0, "inactive", []),
        ],
    }
    events = [
        event("segment_map", BASE, 8 * MEGA, 1),
        event("alloc", BASE, 2 * MEGA, 2, user_metadata="layer 1"),
        event("annotate", BASE, 2 * MEGA, 3, user_metadata="x"),
        event("alloc", BASE + 4 * MEGA, 4 * MEGA, 40),
        event("free_requested", BASE + 4 * MEGA, 4 * MEGA, 30),
        event("free_completed", BASE + 4 * MEGA, 4 * MEGA, 31),
        event("alloc", BASE, 4 * MEGA, 50),
        event("alloc", BASE + 4 * MEGA, 0, 60),
    ]
    annotations = [
        annotation("START", "ProfilerStep#0", 0),
        annotation("START", "forward", 10),
        annotation("START", "elsewhere", 10, 1),
        annotation("END", "forward", 60),
        annotation("END", "elsewhere", 60, 1),
        annotation("END", "ProfilerStep#0", 100),
        annotation("START", "cut off", 110),
    ]
    snapshot = {
        "segments": [segment],
        "device_traces": [events],
        "allocator_settings": {"expandable_segments": True},
        "external_annotations": annotations,
    }
    with open("annotated_snapshot.pickle", "wb") as file:
        pickle.dump(snapshot, file, protocol=2)


if __name__ == "__main__":
    main()
