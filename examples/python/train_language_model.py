# SPDX-License-Identifier: Apache-2.0
"""Trains a small GPT-2 on a text by the program, and looks at its log and its trace."""
import sys
import tempfile
from pathlib import Path

import tessera

models = Path(__file__).resolve().parent.parent / "models"
config = sys.argv[1] if len(sys.argv) > 1 else models / "gpt-tiny.json"

with tempfile.TemporaryDirectory() as folder:
    text = Path(folder) / "text.txt"
    text.write_text("the ranks gather what they need, and free it when they have used it. " * 200)
    run = tessera.train(
        config,
        text,
        steps=12,
        batch=2,
        sequence_length=32,
        learning_rate=3e-3,
        threads=1,
        trace=Path(folder) / "run.tessera",
    )
    print(f"loss {run.losses[0]:.3f} to {run.losses[-1]:.3f}")
    steps = run.trace.rank_steps()
    for number, begin, end in zip(steps["step"], steps["begin"], steps["end"]):
        print(f"step {number}: {(end - begin) / 1e6:.1f} ms")
