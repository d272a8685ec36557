# SPDX-License-Identifier: Apache-2.0
"""Training of language models by the program, on one process or on several."""
from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Union

from ._arguments import whole
from ._errors import TesseraError
from ._program import Description, PathLike, flags_of, joined, run, written
from .trace import Trace

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Training:
    """A finished run."""

    steps: List[Dict[str, Any]] = field(repr=False)
    """The log: one dictionary per step (docs/training.md says what is in it)."""
    warnings: List[str]
    trace: Optional[Trace]

    def column(self, name: str) -> "np.ndarray[Any, Any]":
        """One number of every step; NaN in steps without it (``validation`` is not in all)."""
        import numpy as np

        if not any(name in step for step in self.steps):
            known = sorted({key for step in self.steps for key in step})
            raise KeyError(f"no step has {name!r}; there are {', '.join(known)}")
        return np.array([step.get(name, float("nan")) for step in self.steps], dtype=np.float64)

    @property
    def losses(self) -> "np.ndarray[Any, Any]":
        """The mean loss of every step, over all ranks."""
        return self.column("loss")


def train(
    model: Description,
    data: Union[PathLike, Sequence[PathLike]],
    *,
    processes: int = 1,
    launcher: Optional[Sequence[str]] = None,
    trace: Optional[PathLike] = None,
    **options: Any,
) -> Training:
    """Trains and returns when the run has ended.

    ``data``: a file of tokens or text, or several. ``processes``: ranks on this machine, by mpirun;
    ``launcher`` is used instead, if given (``["srun", "-n", "8"]``). ``options``: flags of
    ``tessera train`` with underscores: ``steps=100, batch=8, learning_rate=3e-4, save="run",
    export="out", scheme="zero3"``.
    """
    if launcher is not None and processes != 1:
        raise TesseraError("processes and launcher both say how many: leave one out", 1)
    whole("processes", processes, 1)
    files = [data] if isinstance(data, (str, os.PathLike)) else list(data)
    if launcher is None:
        launcher = [] if processes == 1 else ["mpirun", "-n", str(processes), "--oversubscribe"]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    with tempfile.TemporaryDirectory(prefix="tessera-") as folder:
        log = Path(folder) / "log.json"
        arguments = ["train", written(model, folder, "config.json")]
        arguments += ["--data", joined("data", files)]
        arguments += ["--json", str(log), "--quiet"]
        if trace is not None:
            arguments += ["--trace", os.fspath(trace)]
        arguments += flags_of("train", options)
        _, warnings, _ = run(arguments, launcher=launcher, environment=root if launcher else None)
        rows = [json.loads(line) for line in log.read_text().splitlines() if line.strip()]
    steps = [row for row in rows if "loss" in row]
    return Training(steps, warnings, None if trace is None else Trace(trace))
