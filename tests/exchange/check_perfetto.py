#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens an exported trace with Perfetto's own trace processor and compares it with SQL on ours.

    python3 check_perfetto.py TESSERA RUN.tessera      (pip install perfetto)

Fails if Perfetto counts an error, or if spans, their time, or memory samples differ by rank and
stream.
"""
import json
import os
import subprocess
import sys
import tempfile

from perfetto.trace_processor import TraceProcessor


def ours(program, trace, sql):
    out = subprocess.run([program, "query", trace, sql, "--json"], check=True, capture_output=True)
    return [tuple(row.values()) for row in json.loads(out.stdout)]


def main(program, trace):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out.perfetto-trace")
        subprocess.run([program, "trace", "export", trace, "-q", "--format", "perfetto", "-o", path],
                       check=True)
        processor = TraceProcessor(trace=path)
        errors = [(row.name, row.value) for row in processor.query(
            "select name, value from stats where severity in ('error', 'data_loss') and value > 0")]
        theirs = sorted((int(row.process[5:]), row.track, row.n, row.time) for row in processor.query(
            "select p.name as process, t.name as track, count(*) as n, sum(s.dur) as time "
            "from slice s join process_track t on s.track_id = t.id join process p using (upid) "
            "group by 1, 2"))
        counters = [row.n for row in processor.query("select count(*) as n from counter")][0]
        flows = [row.n for row in processor.query("select count(*) as n from flow")][0]
        processor.close()
    mine = sorted(ours(program, trace, "select s.rank, st.name, count(*), sum(s.end - s.begin) "
                       "from span s join op o on o.id = s.op join stream st on st.id = o.stream "
                       "group by 1, 2"))
    samples = ours(program, trace, "select count(*) from memory_sample")[0][0]
    print(f"{sum(row[2] for row in mine)} spans in {len(mine)} lanes, {samples} memory samples, "
          f"{flows} flows; errors: {errors}")
    assert not errors, errors
    assert theirs == mine, [pair for pair in zip(theirs, mine) if pair[0] != pair[1]][:5]
    assert counters == 2 * samples, (counters, samples)
    print("the same on both sides")


main(sys.argv[1], sys.argv[2])
