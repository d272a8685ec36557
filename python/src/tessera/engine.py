# SPDX-License-Identifier: Apache-2.0
"""Loops of your own: the engine shards and reduces, Python computes with NumPy arrays.

>>> model = tessera.Model({"tessera_model": 1, "name": "one", "root": {...}})
>>> with tessera.Runtime() as runtime:
...     engine = tessera.Engine(runtime, model, "zero3")
...     engine.initialise(lambda parameter, shape: 0.1 * rng.standard_normal(shape))
...     for step in range(100):
...         engine.step(compute, learning_rate=1e-3)
...         print(step, runtime.mean(loss))
"""
from __future__ import annotations

import ctypes as c
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple
from typing import Union

from . import _library as lib
from ._arguments import did_you_mean, number, whole, yes_or_no
from ._errors import TesseraError
from ._program import Description, PathLike

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_KINDS = {"local": 0, "mpi": 1, "simulator": 2}
_PASSES = ("forward", "backward", "recompute", "evaluate")
_DTYPES = {"float32": 0, "bfloat16": 1, "float16": 2}
_NUMPY = ("float32", "uint16", "float16")  # NumPy has no bfloat16: its bits
_GIVEN = {"learning_rate": 1, "beta1": 2, "beta2": 4, "epsilon": 8, "weight_decay": 16}


class Model:
    """Modules, names, shapes and an order: a config.json, or a module tree
    (docs/model-format.md), as a path or as its content."""

    def __init__(self, model: Description) -> None:
        self._handle = c.c_void_p()
        if isinstance(model, Mapping):
            lib.call("tessera_model_from_json", json.dumps(model).encode(), c.byref(self._handle))
        else:
            lib.call("tessera_model_load", os.fspath(model).encode(), c.byref(self._handle))
        self._shapes = [self._shape(k) for k in range(self._count())]
        self.parameters: Dict[str, Tuple[int, ...]] = {
            self._name(k): self._shapes[k] for k in range(self._count())
        }
        """Shapes by name, in the order of the modules."""

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            lib.library().tessera_model_destroy(self._handle)

    def number(self, name: str) -> int:
        """The place of a parameter in the order of the modules."""
        try:
            return list(self.parameters).index(name)
        except ValueError:
            near = did_you_mean(name, self.parameters)
            raise TesseraError(f"the model has no parameter {name!r}{near}", 1) from None

    def _count(self) -> int:
        return int(lib.library().tessera_model_parameter_count(self._handle))

    def _name(self, number: int) -> str:
        return str(lib.library().tessera_model_parameter_name(self._handle, number).decode())

    def _shape(self, number: int) -> Tuple[int, ...]:
        shape = (c.c_int64 * 16)()
        count = lib.library().tessera_model_parameter_shape(self._handle, number, shape, 16)
        return tuple(shape[:count])


@dataclass(frozen=True)
class Pass:
    """One module of one pass on one rank. The arrays are valid during the call only.

    They are views of the engine's memory: gradients are zero before the first call of a backward
    pass, and are added to. ``gradients`` is empty in forward, and lacks frozen parameters.
    bfloat16 comes as the uint16 of its bits.
    """

    kind: str
    """"forward", "backward", "recompute" or "evaluate"."""
    rank: int
    micro_batch: int
    module: str
    values: Dict[str, "Array"]
    gradients: Dict[str, "Array"]


Compute = Callable[[Pass], None]


class Runtime:
    """Carries out what engines decide. Use it in a ``with`` block, which finishes the run.

    kind: "local" (one rank), "mpi" (this process's rank of what mpirun started), "simulator"
    (`ranks` ranks in this process). ``trace``: a file that records the run.
    """

    def __init__(
        self,
        kind: str = "local",
        *,
        ranks: int = 1,
        deadline: float = 0,
        trace: Optional[PathLike] = None,
    ) -> None:
        if kind not in _KINDS:
            raise TesseraError(f"kind {kind!r}: must be one of {', '.join(_KINDS)}", 1)
        whole("ranks", ranks, 1)
        if kind != "simulator" and ranks != 1:
            raise TesseraError("ranks are the simulator's to choose: leave it out", 1)
        number("deadline", deadline, zero=True)
        options = lib.RuntimeOptions(
            struct_size=c.sizeof(lib.RuntimeOptions),
            kind=_KINDS[kind],
            ranks=ranks if kind == "simulator" else 0,
            deadline_seconds=deadline,
            modules=lib.modules_folder() if kind == "mpi" else None,
            trace=None if trace is None else os.fspath(trace).encode(),
        )
        self._handle = c.c_void_p()
        lib.call("tessera_runtime_create", c.byref(options), c.byref(self._handle))
        self._engines: List[Engine] = []
        self._alive: List[object] = []  # callbacks that may still be called
        self._failure: Optional[BaseException] = None
        library = lib.library()
        self.ranks: int = library.tessera_runtime_ranks(self._handle)
        first = library.tessera_runtime_first_rank(self._handle)
        self.local_ranks = range(first, first + library.tessera_runtime_local_ranks(self._handle))

    def __enter__(self) -> "Runtime":
        return self

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        try:
            if error is None:
                self._call("tessera_runtime_finish")
            else:
                why = f"{type(error).__name__}: {error}".encode()
                lib.library().tessera_runtime_give_up(self._handle, why)
        finally:
            self.close()

    def wait(self) -> None:
        """Waits for all work: every `compute` so far has been called."""
        self._call("tessera_runtime_wait")
        self._alive.clear()

    def mean(self, values: Union[float, Mapping[int, float], Sequence[float]]) -> float:
        """The mean over all ranks of one value per local rank, after all work so far.

        `values`: the value, where one rank is local; by rank; or a sequence in their order. For
        values that ``compute`` finds, pass the container that it fills, or call `wait` before.
        """
        self.wait()
        if isinstance(values, Mapping):
            others = [rank for rank in values if rank not in self.local_ranks]
            missing = [rank for rank in self.local_ranks if rank not in values]
            if others or missing:
                which = f"of rank {others[0]!r}" if others else f"missing of rank {missing[0]}"
                ranks = f"{self.local_ranks[0]} to {self.local_ranks[-1]}"
                raise TesseraError(f"a value {which}, but local are the ranks {ranks}", 1)
            own = [float(values[rank]) for rank in self.local_ranks]
        elif isinstance(values, Sequence):
            own = [float(value) for value in values]
        else:
            own = [float(values)]
        if len(own) != len(self.local_ranks):
            raise TesseraError(f"{len(own)} values for {len(self.local_ranks)} local ranks", 1)
        result = c.c_float()
        given = (c.c_float * len(own))(*own)
        self._call("tessera_runtime_mean", given, c.byref(result))
        return float(result.value)

    def close(self) -> None:
        """Destroys the engines, then the runtime. A ``with`` block does it."""
        for engine in self._engines:
            engine.close()
        self._engines.clear()
        if self._handle:
            lib.library().tessera_runtime_destroy(self._handle)
            self._handle = c.c_void_p()
        self._alive.clear()

    def _call(self, name: str, *arguments: object) -> None:
        lib.call(name, self._handle, *arguments)
        self._reraise()

    # What a callback raised goes on where Python called the library.
    def _reraise(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _guarded(self, function: Callable[..., Any], otherwise: Any = None) -> Callable[..., Any]:
        def guarded(*arguments: Any) -> Any:
            if self._failure is not None:
                return otherwise
            try:
                return function(*arguments)
            except BaseException as failure:  # noqa: BLE001: C must not see it
                self._failure = failure
                return otherwise

        return guarded


class Engine:
    """A model under a sharding scheme. ``options``: those of the scheme (docs/embedding.md)."""

    def __init__(
        self, runtime: Runtime, model: Model, scheme: str = "fully_shard", **options: Any
    ) -> None:
        self._handle = c.c_void_p()
        self._runtime = runtime
        self._names = list(model.parameters)
        self._shapes = list(model.parameters.values())
        self._model = model
        lib.call(
            "tessera_engine_create",
            runtime._handle,
            model._handle,
            scheme.encode(),
            json.dumps(options).encode(),
            c.byref(self._handle),
        )
        runtime._engines.append(self)

    def initialise(self, value: Callable[[str, Tuple[int, ...]], Any]) -> None:
        """Sets every parameter to ``value(name, shape)``, an array or a number; the same on all
        ranks."""
        import numpy as np

        arrays = []
        for name, shape in zip(self._names, self._shapes):
            array = np.broadcast_to(np.asarray(value(name, shape), dtype=np.float32), shape)
            arrays.append(np.ascontiguousarray(array))
        pointers = (c.POINTER(c.c_float) * len(arrays))(
            *[array.ctypes.data_as(c.POINTER(c.c_float)) for array in arrays]
        )
        self._call("tessera_engine_initialise_from", pointers)

    def step(
        self,
        compute: Compute,
        *,
        accumulation: int = 1,
        checkpoint: bool = False,
        reduce_last_only: bool = False,
        **numbers: float,
    ) -> None:
        """Forward, backward and AdamW. ``compute`` is called for every module of every pass, at the
        latest when `Runtime.wait` or `Runtime.mean` returns.

        numbers: learning_rate (1e-3), beta1, beta2, epsilon, weight_decay, max_grad_norm.
        """
        options = self._step_options(numbers)
        options.accumulation = whole("accumulation", accumulation, 1)
        options.checkpoint = yes_or_no("checkpoint", checkpoint)
        options.reduce_last_only = yes_or_no("reduce_last_only", reduce_last_only)
        self._call("tessera_engine_step", c.byref(options), self._callback(compute), None)

    # A step in an order of the program's own (tessera.h says how).
    def begin(self, kind: str) -> None:
        """Begins a pass: "forward", "backward" or "evaluate"."""
        if kind not in _PASSES:
            raise TesseraError(f"pass {kind!r}: must be one of {', '.join(_PASSES)}", 1)
        self._call("tessera_engine_begin", _PASSES.index(kind))

    def enter(self, module: str) -> None:
        """Gathers what a module needs."""
        self._call("tessera_engine_enter", module.encode())

    def compute(self, module: str, compute: Compute) -> None:
        """Calls `compute` for every local rank before it returns."""
        self._call("tessera_engine_compute", module.encode(), self._callback(compute), None)

    def leave(self, module: str) -> None:
        """Frees it, if the scheme does."""
        self._call("tessera_engine_leave", module.encode())

    def end(self) -> None:
        """Ends the pass."""
        self._call("tessera_engine_end")

    def update(self, **numbers: float) -> None:
        """Steps the optimizer; numbers as in `step`."""
        self._call("tessera_engine_update", c.byref(self._step_options(numbers)))

    def grad_norm(self) -> float:
        """The norm of the last step's gradients, before clipping; of a step with max_grad_norm."""
        norm = c.c_float()
        self._call("tessera_engine_grad_norm", c.byref(norm))
        return float(norm.value)

    def set_groups(self, groups: Sequence[Mapping[str, Any]]) -> None:
        """What the optimizer steps: [{"parameters": names, "weight_decay": 0.1}, ...], each with
        the numbers that differ from those of a step. Before the first one."""
        made = (lib.Group * len(groups))()
        kept = []
        for group, given in zip(made, groups):
            if "parameters" not in given or isinstance(given["parameters"], str):
                raise TesseraError("a group: parameters are a list of names", 1)
            names = given["parameters"]
            numbers = (c.c_int32 * len(names))(*[self._model.number(name) for name in names])
            kept.append(numbers)
            group.struct_size, group.count = c.sizeof(lib.Group), len(names)
            group.parameters = c.cast(numbers, c.POINTER(c.c_int32))
            for name, value in given.items():
                if name == "parameters":
                    continue
                if name not in _GIVEN:
                    raise TesseraError(f"a group has no {name}: {', '.join(_GIVEN)}", 1)
                group.given |= _GIVEN[name]
                setattr(group, name, number(f"{name} of a group", value, zero=True))
        self._call("tessera_engine_set_groups", made, len(groups))

    def __getitem__(self, parameter: str) -> "Array":
        """A parameter, gathered from all ranks. All ranks ask at the same time."""
        import numpy as np

        number = self._model.number(parameter)
        values = np.empty(self._shapes[number], dtype=np.float32)
        pointer = values.ctypes.data_as(c.POINTER(c.c_float))
        self._call("tessera_engine_get_parameter", number, pointer, values.size)
        return values

    def __setitem__(self, parameter: str, values: Any) -> None:
        """Sets a parameter; all ranks set the same."""
        import numpy as np

        number = self._model.number(parameter)
        shape = self._shapes[number]
        whole = np.ascontiguousarray(np.broadcast_to(values, shape), dtype=np.float32)
        pointer = whole.ctypes.data_as(c.POINTER(c.c_float))
        self._call("tessera_engine_set_parameter", number, pointer, whole.size)

    def export_weights(self, file: PathLike, dtype: str = "float32") -> None:
        """Writes all parameters into one safetensors file."""
        if dtype not in _DTYPES:
            raise TesseraError(f"dtype {dtype!r}: must be one of {', '.join(_DTYPES)}", 1)
        self._call("tessera_export_weights", os.fspath(file).encode(), _DTYPES[dtype])

    def import_weights(self, file: PathLike) -> None:
        """Reads all parameters from one."""
        self._call("tessera_import_weights", os.fspath(file).encode())

    def save(self, folder: PathLike, step: int, *, keep: int = 2, state: str = "") -> None:
        """Writes a checkpoint, which `load` reads into any scheme and number of ranks."""
        if "\0" in state:
            raise TesseraError("state: a text without zero bytes", 1)
        kept = keep if keep == -1 else whole("keep (-1: all)", keep, 1)
        options = lib.SaveOptions(c.sizeof(lib.SaveOptions), kept, state.encode())
        at = whole("step", step, 0, 2**62)
        self._call("tessera_save", os.fspath(folder).encode(), at, c.byref(options))

    def load(self, path: PathLike) -> Tuple[int, str]:
        """Loads a checkpoint, or the newest of a folder; returns its step and state."""
        step, state = c.c_int64(), c.c_char_p()
        self._call("tessera_load", os.fspath(path).encode(), c.byref(step), c.byref(state))
        return int(step.value), (state.value or b"").decode()

    def close(self) -> None:
        """Destroys the engine. After `Runtime.wait` its memory is the runtime's again."""
        if self._handle:
            lib.library().tessera_engine_destroy(self._handle)
            self._handle = c.c_void_p()

    def _call(self, name: str, *arguments: object) -> None:
        lib.call(name, self._handle, *arguments)
        self._runtime._reraise()

    def _step_options(self, numbers: Mapping[str, float]) -> lib.StepOptions:
        options = lib.StepOptions(struct_size=c.sizeof(lib.StepOptions))
        for name, value in numbers.items():
            if name not in {*_GIVEN, "max_grad_norm"}:
                known = ", ".join([*_GIVEN, "max_grad_norm"])
                raise TesseraError(f"a step has no {name}: {known}", 1)
            setattr(options, name, number(name, value, zero=name == "weight_decay"))
        return options

    def _callback(self, compute: Compute) -> Any:
        def called(user: object, data: Any) -> None:
            compute(self._pass(data.contents))

        function = lib.ComputeFunction(self._runtime._guarded(called))
        self._runtime._alive.append(function)
        return function

    def _pass(self, data: lib.PassData) -> Pass:
        values, gradients = {}, {}
        for k in range(data.tensor_count):
            tensor = data.tensors[k]
            name, shape = self._names[tensor.parameter], self._shapes[tensor.parameter]
            values[name] = _view(tensor.value, tensor, shape)
            values[name].flags.writeable = False
            if tensor.gradient:
                gradients[name] = _view(tensor.gradient, tensor, shape)
        kind, module = _PASSES[data.kind], data.module.decode()
        return Pass(kind, data.rank, data.micro_batch, module, values, gradients)


def _view(address: int, tensor: lib.Tensor, shape: Tuple[int, ...]) -> "Array":
    import numpy as np

    dtype = np.dtype(_NUMPY[tensor.dtype])
    memory = (c.c_char * (tensor.numel * dtype.itemsize)).from_address(address)
    return np.frombuffer(memory, dtype=dtype).reshape(shape)
