# SPDX-License-Identifier: Apache-2.0
# Makes chakra.0.et, execution_trace_102.json and inspector.0.log, inspector.1.log from made-up
# programs:
#
#   python3 make_traces.py
#
# Formats: github.com/mlcommons/chakra (schema/protobuf/et_def.proto), pytorch
# (execution_trace_observer.cpp, schema 1.0.2-chakra.0.0.4), github.com/NVIDIA/nccl
# (plugins/profiler/inspector).
import json


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def attribute(name, value):
    number = 27 if isinstance(value, bool) else 9 if isinstance(value, int) else 29
    return field(10, field(1, name) + field(number, int(value) if number != 29 else value))


def node(number, name, kind, after=(), duration=0, **attributes):
    message = field(1, number) + field(2, name) + field(3, kind)
    if after:
        message += field(5, b"".join(varint(a) for a in after))
    if duration:
        message += field(7, duration)
    return message + b"".join(attribute(k, v) for k, v in attributes.items())


def chakra():
    nodes = [node(1, "forward layer 0", 4, duration=30, is_cpu_op=False),
             node(2, "all_gather layer 1", 7, comm_type=2, comm_size=4096, pg_name="fsdp"),
             node(3, "forward layer 1", 4, (1, 2), 40, is_cpu_op=False),
             node(4, "reduce_scatter layer 1", 7, (3,), 20, comm_type=7, comm_size=8192,
                  pg_name="fsdp"),
             node(5, "store", 3, (3,), 5, tensor_size=1024)]
    with open("chakra.0.et", "wb") as out:
        for message in [field(1, "0.0.4")] + nodes:
            out.write(varint(len(message)) + message)


def observed(number, name, parent, order, **attributes):
    attrs = [{"name": "rf_id", "type": "uint64", "value": order},
             {"name": "tid", "type": "uint64", "value": 1}]
    attrs += [{"name": k, "type": "string", "value": v} for k, v in attributes.items()]
    values = {"values": [], "shapes": [], "types": []}
    return {"id": number, "name": name, "ctrl_deps": parent, "inputs": values, "outputs": values,
            "attrs": attrs}


def execution_trace():
    nodes = [observed(4, "aten::mm", 3, 3), observed(3, "aten::linear", 2, 2),
             observed(6, "record_param_comms", 5, 5, collective_name="allreduce",
                      in_msg_nelems=1024, out_msg_nelems=1024, dtype="Float", pg_name="0",
                      pg_desc="default_pg", pg_size=8),
             observed(5, "c10d::allreduce_", 2, 4),
             observed(2, "[pytorch|profiler|execution_trace|thread]", 1, 0)]
    with open("execution_trace_102.json", "w") as out:
        json.dump({"schema": "1.0.2-chakra.0.0.4", "pid": 7, "time": "2026-01-01 00:00:00",
                   "start_ts": 1, "nodes": nodes, "finish_ts": 2}, out, indent=1)


def inspector(rank):
    with open(f"inspector.{rank}.log", "w") as out:
        for number in range(1, 5):
            begin = 1_752_867_229_000_000 + number * 1000 + rank * 10
            kernels = [{"channel_id": c, "kernel_start_ts": begin + c, "kernel_stop_ts":
                        begin + 400 - rank * 10, "kernel_record_ts": begin} for c in range(2)]
            perf = {"coll": "AllGather" if number % 2 else "ReduceScatter", "coll_sn": number,
                    "coll_msg_size_bytes": 1 << 20, "coll_exec_time_us": 400,
                    "coll_timing_source": "kernel_gpu", "coll_algobw_gbs": 10.5,
                    "coll_busbw_gbs": 5.25}
            if number > 2:
                perf["event_trace_sn"] = {"coll_start_sn": 1, "kernel_events": []}
                perf["event_trace_ts"] = {"coll_start_ts": begin - 50, "coll_stop_ts": begin,
                                          "kernel_events": kernels}
            record = {"header": {"id": "0x7f8c496ae9f661" if number > 2 else "0x11",
                                 "comm_name": "fsdp" if number > 2 else "unknown", "rank": rank,
                                 "n_ranks": 2, "nnodes": 1},
                      "metadata": {"inspector_output_format_version": "v4.0", "git_rev": "",
                                   "rec_mechanism": "nccl_profiler_interface",
                                   "dump_timestamp_us": 1_752_867_230_000_000,
                                   "hostname": "node7", "pid": 100 + rank},
                      "coll_perf": perf}
            out.write(json.dumps(record) + "\n")


chakra()
execution_trace()
inspector(0)
inspector(1)
