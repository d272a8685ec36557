# SPDX-License-Identifier: Apache-2.0
"""How long does a step of GPT-2 take on one node, and what does its memory go to?"""
import sys
from pathlib import Path

import tessera

models = Path(__file__).resolve().parent.parent / "models"
model = sys.argv[1] if len(sys.argv) > 1 else models / "gpt2.json"
trace = sys.argv[2] if len(sys.argv) > 2 else "gpt2.tessera"

run = tessera.simulate(model, cluster="dgx-h100", nodes=1, batch=4, trace=trace)
print(f"{run.step_time * 1e3:.2f} ms a step, {run.tokens_per_second:,.0f} tokens/s")
for sentence in run.how_sure:
    print("how sure:", sentence)
for name, size in run.memory_by_class().items():
    if size:
        print(f"{size / 2**30:6.2f} GiB  {name}")

# The three collectives of a step that computing hides least.
worst = run.trace.query(
    "SELECT unit, kind, sum(exposed) / 1e6 AS ms FROM op_rank WHERE rank = 0 AND step = 1 "
    "AND exposed > 0 GROUP BY unit, kind ORDER BY ms DESC, unit LIMIT 3"
)
for unit, kind, ms in zip(worst["unit"], worst["kind"], worst["ms"]):
    print(f"{ms:6.3f} ms exposed  {kind} of {unit}")
