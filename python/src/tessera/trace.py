# SPDX-License-Identifier: Apache-2.0
"""Traces as NumPy arrays and pandas data frames."""
from __future__ import annotations

import ctypes as c
import os
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from ._arguments import did_you_mean, whole
from ._errors import TesseraError
from ._library import Column, call, library
from ._program import PathLike, run_json

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    Columns = Dict[str, "np.ndarray[Any, Any]"]

_INTEGER, _REAL = 0, 1


class Trace:
    """A trace file, which is asked in SQL: docs/query.md has the tables and questions to them.

    Times are ns since the run's start, sizes bytes. Integers are int64 arrays, numbers float64 (as
    are integers where some are missing: NaN), texts arrays of str (missing: None).
    """

    def __init__(self, path: PathLike) -> None:
        self.path = os.fspath(path)
        self.query("SELECT 1")  # a file that is no trace is refused here

    def __repr__(self) -> str:
        return f"Trace({self.path!r})"

    def query(self, sql: str) -> "Columns":
        """One SELECT, as arrays by column name."""
        table = c.c_void_p()
        call("tessera_query", self.path.encode(), sql.encode(), c.byref(table))
        try:
            rows = library().tessera_table_row_count(table)
            found = {}
            for number in range(library().tessera_table_column_count(table)):
                column = Column(struct_size=c.sizeof(Column))
                call("tessera_table_column", table, number, c.byref(column))
                found[column.name.decode()] = _array(column, rows)
            return found
        finally:
            library().tessera_table_destroy(table)

    def pandas(self, sql: str) -> "pd.DataFrame":
        """The same as a data frame."""
        import pandas

        return pandas.DataFrame(self.query(sql))

    def spans(
        self, *, rank: Optional[int] = None, step: Optional[int] = None, kind: Optional[str] = None
    ) -> "Columns":
        """Operations on recorded ranks, with what is known about each: ``op_rank``."""
        return self._of("op_rank", rank=rank, step=step, kind=kind)

    def memory(self, *, rank: Optional[int] = None) -> "Columns":
        """Every change of the memory of recorded ranks: ``memory_sample``."""
        return self._of("memory_sample", rank=rank)

    def rank_steps(self, *, rank: Optional[int] = None, step: Optional[int] = None) -> "Columns":
        """Steps of all ranks, recorded or not: ``rank_step``."""
        return self._of("rank_step", rank=rank, step=step)

    def critical_path(self, *, step: Optional[int] = None) -> "Columns":
        """What the end of the typical step depends on: ``critical_path``."""
        found = self._of("critical_path", step=step)
        if step is not None and len(found["step"]) == 0:
            raise TesseraError(f"{self.path}: the critical path is not that of step {step}", 1)
        return found

    def report(self) -> Dict[str, Any]:
        """Everything that ``tessera report --json`` says."""
        return run_json(["report", self.path, "--json"])[0]

    # What a trace cannot have would be an empty answer.
    def _check(self, name: str, value: object, recorded: bool) -> str:
        if name == "kind":
            if not isinstance(value, str):
                raise TesseraError(f"kind: a text, found {value!r}", 1)
            known = list(self.query("SELECT name FROM op_kind ORDER BY name")["name"])
            if value not in known:
                near = did_you_mean(value, known) or f": there are {', '.join(known)}"
                raise TesseraError(f"there is no kind {value!r}{near}", 1)
            return f"'{value}'"
        number = whole(name, value, 0, 2**62)
        where = "rank" if name == "rank" else "rank_step"
        rows = self.query(f"SELECT * FROM {where} WHERE {name} = {number} LIMIT 1")
        if len(rows[name]) == 0:
            raise TesseraError(f"{self.path}: has no {name} {number}", 1)
        if name == "rank" and recorded and rows["recorded"][0] == 0:
            raise TesseraError(f"{self.path}: rank {number} was not recorded, but in rank_steps", 1)
        return str(number)

    def _of(self, table: str, **conditions: object) -> "Columns":
        given: List[str] = []
        for name, value in conditions.items():
            if value is None:
                continue
            given.append(f"{name} = {self._check(name, value, table != 'rank_step')}")
        where = " WHERE " + " AND ".join(given) if given else ""
        return self.query(f"SELECT * FROM {table}{where}")


def open_trace(path: PathLike) -> Trace:
    """Opens a trace. Raises `TesseraError`, if the file is none."""
    return Trace(path)


def _array(column: Column, rows: int) -> "np.ndarray[Any, Any]":
    import numpy as np

    def of(pointer: Any, dtype: Any) -> "np.ndarray[Any, Any]":
        return np.ctypeslib.as_array(pointer, (rows,)).copy() if rows else np.empty(0, dtype)

    missing = of(column.nulls, np.uint8).astype(bool) if column.nulls else None
    if column.type == _INTEGER:
        integers = of(column.integers, np.int64)
        if missing is None:
            return integers
        return np.where(missing, np.nan, integers.astype(np.float64))
    if column.type == _REAL:
        reals = of(column.reals, np.float64)
        return reals if missing is None else np.where(missing, np.nan, reals)
    texts = np.array(
        [column.texts[k].decode(errors="replace") for k in range(column.text_count)] or [""],
        dtype=object,
    )
    array = texts[of(column.codes, np.int32)]
    if missing is not None:
        array[missing] = None
    return array
