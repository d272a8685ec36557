#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes profiles small enough to be kept: python3 trim_torch.py PROFILE.json OUT.json.gz

Leaves out flows, and arguments that no import reads; what is left is as torch wrote it.
"""
import gzip
import json
import sys

KEPT = ("External id", "Input Dims", "Input type", "Total Reserved", "Total Allocated", "Bytes",
        "Device Id", "Device Type", "Addr", "labels", "name")


def main(source, out):
    with open(source) as file:
        trace = json.load(file)
    events = []
    for event in trace["traceEvents"]:
        if event.get("cat") == "fwdbwd" or event["ph"] in "sf":
            continue
        shapes = event["name"].startswith("c10d::")
        event["args"] = {key: value for key, value in event.get("args", {}).items()
                         if key in KEPT and (shapes or not key.startswith("Input"))}
        events.append(event)
    trace["traceEvents"] = events
    trace["traceName"] = ""
    trace["host_name"] = "host"
    with open(out, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.write(json.dumps(trace, separators=(",", ":")).encode())


main(sys.argv[1], sys.argv[2])
