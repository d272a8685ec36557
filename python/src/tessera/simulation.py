# SPDX-License-Identifier: Apache-2.0
"""What a sharded run would take, without the GPUs."""
from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple
from warnings import warn

from ._program import Description, PathLike, flags_of, run_json, written
from .trace import Trace


@dataclass(frozen=True)
class Simulation:
    """A simulated run. Times are seconds, sizes bytes.

    ``report`` has everything that ``tessera report --json`` says (docs/cli.md).
    """

    report: Dict[str, Any] = field(repr=False)
    fits: bool
    """Whether it fits the GPUs' memory; ``diagnostics`` says where it does not."""
    warnings: List[str]
    trace: Optional[Trace]
    """The recorded run, if a file was asked for."""

    @property
    def step_time(self) -> float:
        """The median step, without the first one."""
        return self.report["step_time_steady_ns"] / 1e9

    @property
    def step_time_range(self) -> Optional[Tuple[float, float]]:
        """Where 9 of 10 validated runs like it were. None: nothing near it was ever validated."""
        return self._range(self.step_time, "step_time")

    @property
    def peak_memory(self) -> int:
        """Reserved on the rank that needs most."""
        return self.report["memory"]["peak_reserved_bytes"]

    @property
    def peak_memory_range(self) -> Optional[Tuple[float, float]]:
        """As `step_time_range`."""
        return self._range(self.peak_memory, "memory")

    @property
    def tokens_per_second(self) -> float:
        """Of all ranks together."""
        return self.report["tokens_per_s"]

    @property
    def mfu(self) -> Optional[float]:
        """Model FLOPs over the GPUs' peak; None where the peak is unknown."""
        return self.report.get("mfu")

    @property
    def how_sure(self) -> List[str]:
        """One sentence per prediction: what it was compared with, and how far that was off."""
        return [said["text"] for said in self._validated().values()]

    @property
    def diagnostics(self) -> List[Dict[str, Any]]:
        """What went wrong in the run, such as memory that was short."""
        return self.report.get("diagnostics", [])

    def memory_by_class(self) -> Dict[str, int]:
        """Peak bytes of parameters, gradients, activations, ... on the ranks that need most."""
        groups = self.report["memory"]["groups"]
        most = max(groups, key=lambda group: group["reserved_bytes"])
        return dict(most["by_class_bytes"])

    def _validated(self) -> Dict[str, Any]:
        return self.report.get("validated") or {}

    def _range(self, value: float, name: str) -> Optional[Tuple[float, float]]:
        said = self._validated().get(name)
        if not said or not said["near"]:
            return None
        return value * (1 - said["p90"]), value * (1 + said["p90"])


def simulate(
    model: Description,
    *,
    cluster: Description = "dgx-h100",
    nodes: int = 1,
    scheme: str = "fully_shard",
    trace: Optional[PathLike] = None,
    **options: Any,
) -> Simulation:
    """Simulates training steps of `model` on `nodes` nodes of `cluster`.

    ``model``: a config.json, its path or its content. ``cluster``: a preset, a file, or its
    content.
    ``trace``: where the recorded run is written; without it no operation is recorded.
    ``options``: flags of ``tessera simulate`` with underscores: ``batch=2, sequence_length=4096,
    checkpointing="full", param_dtype="bfloat16", units=["h.0", "h.1"], offload_params=True``.

    A run that does not fit memory is a result: ``fits`` is false.
    Raises `TesseraError` with one sentence: an unknown option, a value that cannot be, ...
    """
    with tempfile.TemporaryDirectory(prefix="tessera-") as folder:
        output = str(Path(folder) / "run.tessera") if trace is None else str(trace)
        arguments = ["simulate", written(model, folder, "config.json")]
        arguments += ["--cluster", written(cluster, folder, "cluster.json"), "--nodes", str(nodes)]
        arguments += ["--scheme", scheme, "--json", "-o", output]
        if trace is None:
            options.setdefault("record_ranks", "none")
        arguments += flags_of("simulate", options)
        report, warnings, code = run_json(arguments, accept=(0, 3))
    return Simulation(report, code == 0, warnings, None if trace is None else Trace(output))


def estimate(
    model: Description, *, cluster: Description = "dgx-h100", nodes: int = 1, **options: Any
) -> Dict[str, Any]:
    """What formulas say of ZeRO's memory beside what a simulated run needs, stage by stage.

    Options are flags of ``tessera estimate``; returns its JSON object.
    """
    return _of("estimate", model, {"nodes": nodes, **options}, cluster)


def plan(model: Description, **options: Any) -> Dict[str, Any]:
    """Which modules become sharding units, and what they weigh on a rank.

    Options are flags of ``tessera wrap``: ``ranks=64, policy="class", class_=["GPT2Block"]``;
    returns its JSON object. What the program warns of is a Python warning, as of `estimate`.
    """
    return _of("wrap", model, options)


def _of(
    command: str, model: Description, options: Dict[str, Any], cluster: Optional[Description] = None
) -> Dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="tessera-") as folder:
        arguments = [command, written(model, folder, "config.json"), "--json"]
        if cluster is not None:
            arguments += ["--cluster", written(cluster, folder, "cluster.json")]
        answer, said, _ = run_json(arguments + flags_of(command, options))
    for warning in said:
        warn(warning, stacklevel=3)
    return answer
