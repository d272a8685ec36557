# SPDX-License-Identifier: Apache-2.0
"""Sharded training, simulated or real, and what its traces say.

>>> import tessera
>>> run = tessera.simulate("config.json", cluster="dgx-h100", nodes=2, batch=2)
>>> run.step_time, run.peak_memory, run.fits
>>> tessera.open_trace("run.tessera").rank_steps()["compute"]

Whole runs are the ``tessera`` program's: options are its flags with underscores, and what it
refuses is a `TesseraError` with its sentence. Loops of your own drive the engine in this process, through
the C library: see `Runtime` and `Engine`.
"""
from ._errors import TesseraError
from ._program import program, version
from .engine import Engine, Model, Pass, Runtime
from .simulation import Simulation, estimate, plan, simulate
from .trace import Trace, open_trace
from .training import Training, train

__all__ = [
    "Engine",
    "Model",
    "Pass",
    "Runtime",
    "Simulation",
    "TesseraError",
    "Trace",
    "Training",
    "estimate",
    "open_trace",
    "plan",
    "program",
    "simulate",
    "train",
    "version",
]
__version__ = version()
