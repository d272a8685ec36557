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
import sys
import tarfile
import time
import traceback

from gpu_check import pack

ALL_SECONDS = 540  # of everything together
TOLD_BYTES = 1 << 20  # of a program's output, from its end, are looked at


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
        self.logs = arguments.out / "gpu-check.logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.part, self.started = "machine", 0
        self.gpu = ""  # its name
        self.programs = self.on_the_stand_in() if self.dry else self.unpacked(arguments.packed)
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

    def unpacked(self, packed):
        """The folder of programs, which may have come as an archive or without its modes."""
        if not packed.exists():
            sys.exit(f"gpu-check: {packed} is not there: run scripts/gpu-check --pack where CUDA's "
                     "compiler is, and carry its archive here (--packed)")
        if packed.is_file():
            with tarfile.open(packed) as archive:
                archive.extractall(self.work)
            packed = self.work / "gpu-check"
        for program in packed.iterdir():
            if program.is_file():
                program.chmod(program.stat().st_mode | 0o111)
        return packed

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
        env.setdefault("NCCL_DEBUG", "WARN")
        env.setdefault("NCCL_DEBUG_FILE", str(self.logs / f"{self.part}-nccl.%h.%p.log"))
        env.update(extra or {})
        return env

    def seconds_left(self):
        return max(0.1, min(self.part_end, self.end) - time.monotonic())

    def start(self, command, env=None):
        """Its output goes to a file of OUT, and is there whatever happens to us."""
        self.started += 1
        name = f"{self.part}-{self.started:03}-{pathlib.Path(command[0]).name}.log"
        log = self.logs / name
        with log.open("wb") as file:
            file.write((" ".join(map(str, command)) + "\n").encode())
            file.flush()
            process = subprocess.Popen(command, env=env or self.environment(), cwd=self.root,
                                       stdout=file, stderr=subprocess.STDOUT,
                                       start_new_session=True)
        process.log = log
        return process

    def output(self, process):
        with process.log.open("rb") as file:
            first = file.readline()
            file.seek(max(len(first), os.fstat(file.fileno()).st_size - TOLD_BYTES))
            return file.read().decode(errors="replace")

    def end_now(self, process):
        """Ends it and all that it has started."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=5)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass  # over already; or a driver holds it, and nobody can end it

    def finish(self, process):
        """Its output and exit code; nothing that it started is left."""
        try:
            process.wait(timeout=self.seconds_left())
        except subprocess.TimeoutExpired:
            self.end_now(process)
            raise Failed(f"out of time: {tail(self.output(process))}") from None
        return self.output(process), process.returncode

    def finish_all(self, processes):
        """Outputs and exit codes of programs that need each other: when the first one fails, the
        others have a moment to say what they saw, and are ended."""
        patience, failed_at = 3.0, None
        while any(process.poll() is None for process in processes):
            now = time.monotonic()
            if failed_at is None and any(process.poll() for process in processes):
                failed_at = now
            if self.seconds_left() <= 0.1 or (failed_at and now - failed_at > patience):
                break
            time.sleep(0.02)
        codes = [process.poll() for process in processes]
        for process in processes:
            self.end_now(process)
        return [(self.output(process), code) for process, code in zip(processes, codes)]

    def run(self, command, env=None):
        return self.finish(self.start(command, env))

    def require(self, command, env=None):
        output, code = self.run(command, env)
        if code != 0:
            raise Failed(f"{pathlib.Path(command[0]).name} ended with {code}: {tail(output)}")
        return output

    def attempt(self, name, limit, part):
        begin = time.monotonic()
        self.part, self.part_end = name, begin + limit
        result = {"name": name, "state": "passed"}
        try:
            if begin >= self.end:
                raise Skipped("no time is left")
            result["figures"] = part(self) or {}
        except Skipped as why:
            result.update(state="skipped", why=str(why))
        except Failed as why:
            result.update(state="failed", why=str(why), figures=why.figures)
        except Exception as why:  # of any kind: the other parts go on
            (self.logs / f"{name}-exception.log").write_text(traceback.format_exc())
            result.update(state="failed", why=f"{type(why).__name__}: {why}")
        result["seconds"] = round(time.monotonic() - begin, 1)
        return result

    def describe(self):
        """What is not known is left out: a tool that hangs or is missing stops nothing."""
        figures = {"host": platform.machine(), "cores": os.cpu_count(),
                   "name": "no GPU: the stand-in" if self.dry else "unknown"}

        def ask(_):
            output, _ = self.run([self.program("tessera"), "--version"])
            figures["tessera"] = output.strip()
            if self.dry or not shutil.which("nvidia-smi"):
                return
            query = "name,driver_version,memory.total,clocks.max.sm,power.limit"
            output, code = self.run(["nvidia-smi", f"--query-gpu={query}",
                                     "--format=csv,noheader"])
            if code == 0:
                gpus = output.strip().splitlines()
                figures.update(zip(query.split(","), gpus[0].split(", ")))
                self.gpu = figures["name"]
                figures["GPUs"] = len(gpus)
        return {**self.attempt("machine", 20, ask), "figures": figures}


def cuda_folders():
    """Where libcudart, libcublasLt and libnccl may be."""
    found = glob.glob("/usr/local/cuda*/lib64") + glob.glob("/usr/local/cuda*/lib")
    for folder in [*site.getsitepackages(), site.getusersitepackages()]:
        found += glob.glob(f"{folder}/nvidia/*/lib")
    return found


def tail(output, lines=6):
    return " | ".join(line.strip() for line in output.strip().splitlines()[-lines:])
