# SPDX-License-Identifier: Apache-2.0
"""The C library by ctypes: its structs and functions as tessera.h declares them."""
from __future__ import annotations

import ctypes as c
import functools
import os
from pathlib import Path

from ._errors import TesseraError
from ._program import program


class RuntimeOptions(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("kind", c.c_int32),
        ("ranks", c.c_int32),
        ("deadline_seconds", c.c_double),
        ("modules", c.c_char_p),
        ("trace", c.c_char_p),
    ]


class Tensor(c.Structure):
    _fields_ = [
        ("parameter", c.c_int32),
        ("dtype", c.c_int32),
        ("numel", c.c_int64),
        ("value", c.c_void_p),
        ("gradient", c.c_void_p),
    ]


class PassData(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("kind", c.c_int32),
        ("rank", c.c_int32),
        ("micro_batch", c.c_int32),
        ("module", c.c_char_p),
        ("tensor_count", c.c_int32),
        ("tensors", c.POINTER(Tensor)),
    ]


class StepOptions(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("accumulation", c.c_int32),
        ("learning_rate", c.c_float),
        ("beta1", c.c_float),
        ("beta2", c.c_float),
        ("epsilon", c.c_float),
        ("weight_decay", c.c_float),
        ("max_grad_norm", c.c_float),
        ("checkpoint", c.c_int32),
        ("reduce_last_only", c.c_int32),
        ("grad_norm", c.c_int32),
    ]


class Group(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("count", c.c_int32),
        ("parameters", c.POINTER(c.c_int32)),
        ("given", c.c_uint32),
        ("learning_rate", c.c_float),
        ("beta1", c.c_float),
        ("beta2", c.c_float),
        ("epsilon", c.c_float),
        ("weight_decay", c.c_float),
    ]


class SaveOptions(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("keep", c.c_int32), ("state", c.c_char_p)]


class Column(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("type", c.c_int32),
        ("name", c.c_char_p),
        ("integers", c.POINTER(c.c_int64)),
        ("reals", c.POINTER(c.c_double)),
        ("codes", c.POINTER(c.c_int32)),
        ("texts", c.POINTER(c.c_char_p)),
        ("text_count", c.c_int32),
        ("nulls", c.POINTER(c.c_uint8)),
    ]


ComputeFunction = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(PassData))

_p, _s, _i, _l, _f = c.c_void_p, c.c_char_p, c.c_int32, c.c_int64, c.c_float
_SIGNATURES = {
    "tessera_last_error": (_s, []),
    "tessera_model_load": (_i, [_s, c.POINTER(_p)]),
    "tessera_model_from_json": (_i, [_s, c.POINTER(_p)]),
    "tessera_model_destroy": (None, [_p]),
    "tessera_model_parameter_count": (_i, [_p]),
    "tessera_model_parameter_name": (_s, [_p, _i]),
    "tessera_model_parameter_numel": (_l, [_p, _i]),
    "tessera_model_parameter_shape": (_i, [_p, _i, c.POINTER(_l), _i]),
    "tessera_runtime_create": (_i, [c.POINTER(RuntimeOptions), c.POINTER(_p)]),
    "tessera_runtime_destroy": (None, [_p]),
    "tessera_runtime_ranks": (_i, [_p]),
    "tessera_runtime_first_rank": (_i, [_p]),
    "tessera_runtime_local_ranks": (_i, [_p]),
    "tessera_runtime_wait": (_i, [_p]),
    "tessera_runtime_mean": (_i, [_p, c.POINTER(_f), c.POINTER(_f)]),
    "tessera_runtime_finish": (_i, [_p]),
    "tessera_runtime_give_up": (None, [_p, _s]),
    "tessera_engine_create": (_i, [_p, _p, _s, _s, c.POINTER(_p)]),
    "tessera_engine_destroy": (None, [_p]),
    "tessera_engine_initialise_from": (_i, [_p, c.POINTER(c.POINTER(_f))]),
    "tessera_engine_step": (_i, [_p, c.POINTER(StepOptions), ComputeFunction, _p]),
    "tessera_engine_begin": (_i, [_p, _i]),
    "tessera_engine_enter": (_i, [_p, _s]),
    "tessera_engine_compute": (_i, [_p, _s, ComputeFunction, _p]),
    "tessera_engine_leave": (_i, [_p, _s]),
    "tessera_engine_end": (_i, [_p]),
    "tessera_engine_update": (_i, [_p, c.POINTER(StepOptions)]),
    "tessera_engine_grad_norm": (_i, [_p, c.POINTER(_f)]),
    "tessera_engine_set_groups": (_i, [_p, c.POINTER(Group), _i]),
    "tessera_export_weights": (_i, [_p, _s, _i]),
    "tessera_import_weights": (_i, [_p, _s]),
    "tessera_engine_get_parameter": (_i, [_p, _i, c.POINTER(_f), _l]),
    "tessera_engine_set_parameter": (_i, [_p, _i, c.POINTER(_f), _l]),
    "tessera_save": (_i, [_p, _s, _l, c.POINTER(SaveOptions)]),
    "tessera_load": (_i, [_p, _s, c.POINTER(_l), c.POINTER(_s)]),
    "tessera_query": (_i, [_s, _s, c.POINTER(_p)]),
    "tessera_table_destroy": (None, [_p]),
    "tessera_table_row_count": (_l, [_p]),
    "tessera_table_column_count": (_i, [_p]),
    "tessera_table_column": (_i, [_p, _i, c.POINTER(Column)]),
}


@functools.lru_cache(maxsize=None)
def library() -> c.CDLL:
    """$TESSERA_LIBRARY, the one in this package, or the system's."""
    own = Path(__file__).parent / "lib" / "libtessera_c.so"
    path = os.environ.get("TESSERA_LIBRARY") or (str(own) if own.exists() else "libtessera_c.so")
    try:
        loaded = c.CDLL(path)
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise TesseraError(
            f"the library libtessera_c.so cannot be used: {error}; install this package with pip, "
            "or set TESSERA_LIBRARY"
        ) from None
    return loaded


def call(name: str, *arguments: object) -> None:
    """Calls a function that returns a code, and raises what it says."""
    code = getattr(library(), name)(*arguments)
    if code != 0:
        raise TesseraError(library().tessera_last_error().decode(errors="replace"), code)


def modules_folder() -> bytes:
    """Where the modules lie that are opened at run time: beside the program."""
    return str(Path(program()).resolve().parent).encode()
