# SPDX-License-Identifier: Apache-2.0
"""Runs the ``tessera`` program: options become flags, complaints become exceptions."""
from __future__ import annotations

import functools
import json
import numbers
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ._errors import TesseraError

PathLike = Union[str, "os.PathLike[str]"]
Description = Union[PathLike, Mapping[str, Any]]
"""A file, the name of a preset, or what the file would say."""


@functools.lru_cache(maxsize=None)
def program() -> str:
    """The path of the program: $TESSERA_PROGRAM, the one in this package, or that of $PATH."""
    own = Path(__file__).parent / "bin" / "tessera"
    for path in (os.environ.get("TESSERA_PROGRAM"), str(own), shutil.which("tessera")):
        if path and os.access(path, os.X_OK):
            return path
    raise TesseraError(
        "the program tessera is not there: install this package with pip, or set TESSERA_PROGRAM"
    )


@functools.lru_cache(maxsize=None)
def version() -> str:
    """The version of the program, "0.2.0"."""
    said = subprocess.run([program(), "--version"], capture_output=True, text=True, check=True)
    return said.stdout.split()[-1]


@functools.lru_cache(maxsize=None)
def known_flags(command: str) -> Mapping[str, bool]:
    """The options of a sub-command, and whether each takes a value."""
    arguments = [program(), command, "--help"]
    said = subprocess.run(arguments, capture_output=True, text=True, check=True)
    flags = {}
    for line in said.stdout.splitlines():
        found = re.match(r"  (?:-\w,)?(--[\w-]+)(.*)", line)
        if found:
            flags[found[1]] = bool(re.match(r" (TEXT|INT|UINT|FLOAT|A,B|\{)", found[2]))
    return flags


def flags_of(command: str, options: Mapping[str, Any]) -> List[str]:
    """``batch=4, offload_params=True, units=["h.0"]`` as flags; None is what is not given."""
    flags: List[str] = []
    known = known_flags(command)
    for name, value in options.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        off = "--no-" + flag[2:]
        if value is None:
            continue
        if isinstance(value, bool) and not known.get(flag, False):
            # Of --flag and --no-flag, the program has the one that changes something.
            if flag in known or off not in known:
                flags += [flag] if value else []
            elif not value:
                flags.append(off)
            if flag not in known and off not in known:
                raise TesseraError(f"{command} has no option {name}", 2)
        elif isinstance(value, (list, tuple)):
            flags += [flag, joined(name, value)]
        elif isinstance(value, (str, os.PathLike, numbers.Number)):
            flags += [flag, str(value)]
        else:
            raise TesseraError(f"{name}: a text, a number or a list, found {value!r}", 2)
    return flags


def joined(name: str, values: Sequence[object]) -> str:
    """With commas between, as the program takes lists."""
    for value in values:
        if not isinstance(value, (str, os.PathLike, numbers.Number)):
            raise TesseraError(f"{name}: a list of texts or numbers, found {value!r}", 2)
        if "," in str(value):
            raise TesseraError(f"{name}: {value} has a comma, which would end it: leave it out", 2)
    return ",".join(str(value) for value in values)


def written(value: Description, folder: str, name: str) -> str:
    """A path as it is; a description as a file of `folder`."""
    if isinstance(value, Mapping):
        path = Path(folder) / name
        path.write_text(json.dumps(value))
        return str(path)
    return os.fspath(value)


def run(
    arguments: Sequence[str],
    *,
    launcher: Sequence[str] = (),
    accept: Iterable[int] = (0,),
    environment: Optional[Mapping[str, str]] = None,
) -> Tuple[str, List[str], int]:
    """Standard output, the warnings, and the exit code, if it is one of `accept`."""
    done = subprocess.run(
        [*launcher, program(), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    warnings = [
        line[len("tessera: warning: ") :]
        for line in done.stderr.splitlines()
        if line.startswith("tessera: warning: ")
    ]
    if done.returncode in accept:
        return done.stdout, warnings, done.returncode
    sentences = [
        line[len("tessera: ") :]
        for line in done.stderr.splitlines()
        if line.startswith("tessera: ") and not line.startswith("tessera: warning: ")
    ]
    message = sentences[0] if sentences else done.stderr.strip() or "the program failed"
    raise TesseraError(message, done.returncode)


def run_json(arguments: Sequence[str], **how: Any) -> Tuple[Dict[str, Any], List[str], int]:
    """As `run`, of a command that prints one JSON object."""
    text, warnings, code = run(arguments, **how)
    return json.loads(text), warnings, code
