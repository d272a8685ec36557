# SPDX-License-Identifier: Apache-2.0
"""Measured collectives beside what shipped clusters say."""
from .figures import groups, mean, p90
from .tables import read

LEAST = 32 << 10  # below, a time is the host's
HALF_DIGIT = 0.005  # GB/s, of what nccl-tests print
COARSEST = 0.05  # what rounding may change of a time
# One call at a time through torch.distributed, on an idle device: "PyTorch's per-call host overhead
# of some 20-30us", as all_reduce_bench.py of stas00/ml-engineering says of its own numbers.
TORCH_CALL_US = 25
# Of a system's name, which cluster it is; the first that occurs.
SYSTEMS = (("64xH100 IB", "dgx-h100"), ("Azure ND H100", "nd-h100-v5"), ("DGX H100", "dgx-h100"),
           ("H100 SXM HGX", "dgx-h100"), ("Azure ND H200", "nd-h200-v5"), ("8xH200", "dgx-h200"),
           ("p5.48", "p5.48xlarge"), ("Azure ND A100", "nd-a100-v4"), ("p4de", "p4de.24xlarge"),
           ("8xA100 NVSwitch", "dgx-a100"), ("A100 SXM4 80GB HGX", "dgx-a100"),
           ("B200 P6", "p6-b200.48xlarge"), ("8xB200", "p6-b200.48xlarge"),
           ("B200 SXM HGX", "dgx-b200"), ("A3 Mega", "a3-megagpu-8g"),
           ("GB200", "gb200-nvl72"), ("GB300", "gb300-nvl72"), ("L40S", "l40s"))


class Measured:
    def __init__(self, line, cluster):
        self.system, self.cluster = line["system"], cluster
        self.operation = line["op"].split()[0].replace("alltoall", "all_to_all")
        self.nodes, self.per_node = int(line["nodes"]), int(line["gpus_per_node"])
        self.bytes = int(line["bytes"])
        self.us = float(line["time_us"] or 0)
        self.host_us = TORCH_CALL_US if " torch " in line["source"] else 0
        ranks = self.nodes * self.per_node
        busbw = float(line["busbw_GBps"] or 0)
        self.coarse = False
        if busbw > 0 and ranks > 1:
            factor = 2 if self.operation == "all_reduce" else 1
            by_busbw = self.bytes * factor * (ranks - 1) / ranks / (busbw * 1e3)
            self.us = self.us or by_busbw
            # The table was made from bandwidths in hundredths of GB/s.
            self.coarse = abs(self.us / by_busbw - 1) < 1e-6 and HALF_DIGIT / busbw > COARSEST
        # A rack is one node of the cluster's file.
        if "NVL72" in self.system or "racks" in self.system:
            self.nodes, self.per_node = (1, ranks) if ranks <= 72 else (ranks // 64, 64)
        self.error = None

    def where(self):
        return "one node" if self.nodes == 1 else "several nodes"


def read_collectives(folder):
    rows, refused = [], {}

    def refuse(table, why):
        refused[table, why] = refused.get((table, why), 0) + 1

    for table in ("nccl_tests_measured.csv", "nccl_collectives.csv"):
        for line in read(folder, table):
            cluster = next((c for key, c in SYSTEMS if key in line["system"]), None)
            if cluster is None or line["nodes"] in ("", "0"):
                refuse(table, f"no cluster, or no number of nodes: {line['system']}")
                continue
            row = Measured(line, cluster)
            if not row.us:
                refuse(table, "no time")
            elif row.bytes < LEAST:
                refuse(table, "below 32 KiB")
            elif row.coarse:
                refuse(table, "a time by a bandwidth of one digit")
            else:
                rows.append(row)
    return rows, refused


def predict(rows, simulator):
    key = lambda r: (r.operation, r.cluster, r.nodes, r.per_node)
    for (operation, cluster, nodes, per_node), same in groups(rows, key).items():
        sizes = sorted({row.bytes for row in same})  # several systems may have measured one
        times = {}
        for begin in range(0, len(sizes), 32):
            part = sizes[begin:begin + 32]
            got = simulator.collective(operation, cluster, nodes, per_node, part)
            times.update(zip(part, got if isinstance(got, list) else ()))
        for row in same:
            if row.bytes in times:
                row.predicted = times[row.bytes] + row.host_us
                row.error = row.predicted / row.us - 1


def page(rows):
    done = [r for r in rows if r.error is not None]
    out = ["## Collectives", "",
           "Of `tessera collective`, from 32 KiB on; clusters are the shipped ones, whose numbers "
           "were fitted on the rows of the same name. Rows of `8xH200 NVSwitch` were measured "
           "through torch.distributed, a call at a time on an idle device: to them "
           f"{TORCH_CALL_US} us are added, in the middle of what their source says that takes.", "",
           "| system | cluster | ranks | operation | rows | mean | bias | 9 in 10 | worst |",
           "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    key = lambda r: (r.where(), r.system, r.cluster, r.nodes * r.per_node, r.operation)
    for where in ("one node", "several nodes"):
        inside = [r for r in done if r.where() == where]
        for (_, system, cluster, ranks, operation), same in groups(inside, key).items():
            out.append(line_of([system, cluster, ranks, operation], same))
        if inside:
            out.append(line_of([f"**all on {where}**", "", "", ""], inside))
    falling = [f"{system}, {operation} ({count})" for (system, operation), same in
               groups(done, lambda r: (r.system, r.operation)).items() if (count := falls(same))]
    if falling:
        out += ["", "Rates that fall by a quarter or more from one size to the next larger one "
                "cannot be told from the size. How often that was measured: "
                + "; ".join(falling) + "."]
    return out + [""]


def falls(rows):
    """Of one system and operation: how often more bytes were moved at three quarters of the rate."""
    rates = [row.bytes / row.us for row in sorted(rows, key=lambda row: row.bytes)]
    return sum(after < 0.75 * before for before, after in zip(rates, rates[1:]))


def line_of(cells, rows):
    errors = [r.error for r in rows]
    cells = [*cells, len(rows), f"{mean(list(map(abs, errors))):.1%}", f"{mean(errors):+.1%}",
             f"{p90(errors):.1%}", f"{max(map(abs, errors)):.0%}"]
    return "| " + " | ".join(map(str, cells)) + " |"


def families(rows):
    done = [r for r in rows if r.error is not None]
    key = lambda r: (r.cluster, r.operation, r.where())
    return [{"cluster": cluster, "operation": operation,
             "nodes": [min(r.nodes for r in same), max(r.nodes for r in same)],
             "bytes": [min(r.bytes for r in same), max(r.bytes for r in same)],
             "rows": len(same), "p90": round(p90([r.error for r in same]), 3)}
            for (cluster, operation, _), same in groups(done, key).items()]
