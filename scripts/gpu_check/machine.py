# SPDX-License-Identifier: Apache-2.0
"""The machine that is checked: its programs, its libraries, and how long they may take."""
import glob
import os
import pathlib
import platform
import shutil
import signal
import site
import subprocess
import time

from gpu_check import pack

ALL_SECONDS = 525  # of everything together


class Failed(Exception):
    """What was to hold does not. `figures`: what was found nevertheless."""
    def __init__(self, why, figures=None):
        super().__init__(why)
        self.figures = figures or {}


class Skipped(Exception):
    """It could not be tried, and why."""


class Machine:
    def __init__(self, root, arguments, work):
        self.root, self.work = root, work
        self.dry = arguments.dry_run
        self.build = arguments.build
        self.programs = self.on_the_stand_in() if self.dry else arguments.packed
        self.libraries = [] if self.dry else self.carried_along()
        self.end = time.monotonic() + ALL_SECONDS
        self.part_end = self.end
        self.measured = {}  # what one part has found and another one needs

    def on_the_stand_in(self):
        """What would be packed, with a module that needs no GPU."""
        folder = self.work / "programs"
        folder.mkdir()
        for name, place in pack.PROGRAMS.items():
            if not name.endswith(".so"):
                shutil.copy2(self.build / place / name, folder / name)
        stand_in = self.build / "tests/backends/cuda/stand_in/libtessera_cuda.so"
        (folder / stand_in.name).symlink_to(stand_in.resolve())
        return folder

    def carried_along(self):
        """Folders of libraries; the C++ runtime only where the machine has none that does."""
        libraries = [str(self.programs / "lib")]
        own = subprocess.run([self.program("tessera"), "--version"], check=False,
                             env={**os.environ, "LD_LIBRARY_PATH": libraries[0]},
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return libraries if own.returncode == 0 else [*libraries, str(self.programs / "lib/cxx")]

    def program(self, name):
        return str(self.programs / name)

    def model(self, name):
        return str(self.root / "examples/models" / name)

    def train(self, options, on_gpu=True):
        """Its lines of JSON."""
        lines = self.work / "lines.json"
        lines.unlink(missing_ok=True)
        device = ["--device", "cuda" if on_gpu else "cpu"]
        self.require([self.program("tessera"), "train", *options, *device, "-q", "--json",
                      str(lines)])
        return lines.read_text().splitlines()

    def environment(self, extra=None):
        """Ours before the machine's, which has CUDA and NCCL, perhaps only inside of PyTorch."""
        env = dict(os.environ)
        if not self.dry:
            folders = [*self.libraries, *cuda_folders()]
            env["LD_LIBRARY_PATH"] = ":".join(folders + [env.get("LD_LIBRARY_PATH", "")])
        env.update(extra or {})
        return env

    def seconds_left(self):
        return max(0.1, min(self.part_end, self.end) - time.monotonic())

    def start(self, command, env=None):
        return subprocess.Popen(
            command, env=env or self.environment(), cwd=self.root, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def finish(self, process):
        """Its output and exit code; nothing that it started is left."""
        try:
            output, _ = process.communicate(timeout=self.seconds_left())
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            raise Failed(f"out of time: {tail(output)}") from None
        return output, process.returncode

    def run(self, command, env=None):
        return self.finish(self.start(command, env))

    def require(self, command, env=None):
        output, code = self.run(command, env)
        if code != 0:
            raise Failed(f"{pathlib.Path(command[0]).name} ended with {code}: {tail(output)}")
        return output

    def attempt(self, name, limit, part):
        begin = time.monotonic()
        self.part_end = begin + limit
        result = {"name": name, "state": "passed"}
        try:
            if begin >= self.end:
                raise Skipped("no time is left")
            result["figures"] = part(self) or {}
        except Skipped as why:
            result.update(state="skipped", why=str(why))
        except Failed as why:
            result.update(state="failed", why=str(why), figures=why.figures)
        except (OSError, ValueError, KeyError, IndexError) as why:
            result.update(state="failed", why=f"{type(why).__name__}: {why}")
        result["seconds"] = round(time.monotonic() - begin, 1)
        return result

    def describe(self):
        figures = {"host": platform.machine(), "cores": os.cpu_count()}
        query = "name,driver_version,memory.total,clocks.max.sm,power.limit"
        if shutil.which("nvidia-smi") and not self.dry:
            output, _ = self.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"])
            figures.update(zip(query.split(","), output.strip().split(", ")))
        else:
            figures["name"] = "no GPU: the stand-in" if self.dry else "unknown"
        output, _ = self.run([self.program("tessera"), "--version"])
        figures["tessera"] = output.strip()
        return {"name": "machine", "state": "passed", "seconds": 0, "figures": figures}


def cuda_folders():
    """Where libcudart, libcublasLt and libnccl may be."""
    found = glob.glob("/usr/local/cuda*/lib64") + glob.glob("/usr/local/cuda*/lib")
    for folder in [*site.getsitepackages(), site.getusersitepackages()]:
        found += glob.glob(f"{folder}/nvidia/*/lib")
    return found


def tail(output, lines=6):
    return " | ".join(line.strip() for line in output.strip().splitlines()[-lines:])
