# SPDX-License-Identifier: Apache-2.0
"""What must be right: kernels, ranks, losses, repeats, and no access that is wrong."""
import json
import shutil
import socket

from gpu_check.machine import Failed, Skipped, tail

LOSS_BAR = 3e-5
SANITIZER_TOOLS = ("memcheck", "racecheck", "initcheck")
# CU_FILE_HANDLE_NOT_REGISTERED: it knows neither the drive nor the file system (virtual machines).
NO_FILE_OF_CUFILE = "cuFile's error 5027"
RANK_SCHEMES = (0, 3, 7, 10)  # fully_shard, full_shard, sharded_data_parallel, zero3


def summary(output):
    return tail(output, 1).strip("= ")


def kernels(machine):
    """Not those that no GPU has run: one that hangs, or reads what it must not, ends a program."""
    return tests(machine, "~[hopper]~[fp8]")


def hopper(machine):
    return tests(machine, "[hopper]")


def fp8(machine):
    return tests(machine, "[fp8]")


def tests(machine, which):
    return {"tests": summary(machine.require([machine.program("test_cuda_device"), which]))}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def one_world(machine, ranks, scheme):
    """Every rank is a process; the first words of one that fails."""
    meeting = f"127.0.0.1:{free_port()}"
    processes = []
    for rank in range(ranks):
        processes.append(machine.start([
            machine.program("test_cuda_ranks"), "--rank", str(rank), "--ranks", str(ranks),
            "--meet", meeting, "--scheme", str(scheme)]))
    ended = machine.finish_all(processes)
    # Rather one that says what was wrong than one that was ended for it.
    failed = [(code is None, rank, output) for rank, (output, code) in enumerate(ended)
              if code != 0]
    if not failed:
        return ""
    was_ended, rank, output = min(failed)
    return (f"scheme {scheme} on {ranks} ranks, rank {rank}{' was ended' if was_ended else ''}: "
            f"{tail(output, 12)}")


def ranks(machine):
    """Processes cannot share the stand-in, which is memory of one."""
    counts = (1,) if machine.dry else (1, 2, 3)
    worlds = [(count, scheme) for count in counts for scheme in RANK_SCHEMES]
    failed, right = [], 0
    for world in worlds:
        if machine.seconds_left() <= 1:
            break
        why = one_world(machine, *world)
        failed += [why] if why else []
        right += not why
    figures = {"worlds": right, "ranks": ", ".join(map(str, counts))}
    if failed:
        raise Failed(f"{len(failed)} of {len(worlds)} worlds: {failed[0]}", figures)
    if right < len(worlds):
        raise Failed(f"no time for {len(worlds) - right} of {len(worlds)} worlds", figures)
    return figures


def training(machine, steps):
    """Options of a short run in float32."""
    text = machine.work / "text.txt"
    if not text.exists():
        words = ["ring", "shard", "gather", "step", "loss", "rank", "the", "of", "and", "a"]
        text.write_text(" ".join(words[i * i % 97 % 10] for i in range(40_000)))
    size = ["--batch", "1", "--sequence-length", "16"] if machine.dry else ["--batch", "4"]
    return [machine.model("gpt-tiny.json"), "--data", str(text), *size, "--steps", str(steps),
            "--seed", "7"]


def losses_of(lines):
    return [json.loads(line)["loss"] for line in lines]


def losses(machine):
    steps = 5 if machine.dry else 100
    on_cpu = losses_of(machine.train(training(machine, steps), on_gpu=False))
    on_gpu = losses_of(machine.train(training(machine, steps)))
    if len(on_gpu) != steps or len(on_cpu) != steps:
        raise Failed(f"{len(on_gpu)} and {len(on_cpu)} steps instead of {steps}")
    apart = [abs(a - b) / abs(b) for a, b in zip(on_gpu, on_cpu)]
    worst = max(apart)
    figures = {"steps": steps, "largest relative difference": worst, "last loss": on_gpu[-1],
               "after 20 steps": max(apart[:20])}
    if not worst <= LOSS_BAR:
        first = next(k for k, difference in enumerate(apart) if not difference <= LOSS_BAR)
        raise Failed(f"losses differ by {worst:.2g}, more than {LOSS_BAR:.0e}, "
                     f"from step {first + 1} of {steps} on", figures)
    return figures


def repeats(machine):
    steps = 3 if machine.dry else 30
    runs = []
    for k in range(2):
        weights = machine.work / f"weights-{k}.safetensors"
        lines = machine.train([*training(machine, steps), "--deterministic", "--export",
                               str(weights)])
        runs.append((losses_of(lines), weights.read_bytes()))
    if runs[0] != runs[1]:
        raise Failed("two runs of the same options have different losses or weights")
    return {"steps": steps, "weights": f"{len(runs[0][1])} equal bytes"}


def files(machine):
    """Parameters in files: the losses of a run that keeps them in memory."""
    steps = 3 if machine.dry else 10
    own = [*training(machine, steps), "--scheme", "zero3", "--persistence-threshold", "0"]
    in_files = [*own, "--offload-param", "nvme", "--nvme-path", str(machine.work),
                "--nvme-smallest", "0"]
    expected = losses_of(machine.train(own))
    figures = {}
    doctor = json.loads(machine.require([machine.program("tessera"), "doctor", "--json"]))
    direct = doctor["gpu_direct_storage"]
    for way, options in {"through host memory": [], "past host memory": ["--use-gds"]}.items():
        if options and not direct.startswith("available"):
            figures[way] = f"not tried: {direct}"
            continue
        try:
            losses = losses_of(machine.train([*in_files, *options]))
        except Failed as why:
            if not options or NO_FILE_OF_CUFILE not in str(why):
                raise
            figures[way] = "not tried: cuFile does not take files of this machine's drives"
            continue
        if losses != expected:
            raise Failed(f"{way} losses are others than without files", figures)
        figures[way] = f"{steps} equal losses"
    return {**figures, "cuFile": direct}


def sanitizer(machine):
    if machine.dry or not shutil.which("compute-sanitizer"):
        raise Skipped("compute-sanitizer is not here")
    found, broken = {}, []
    for tool in SANITIZER_TOOLS:
        output, code = machine.run(["compute-sanitizer", "--tool", tool, "--error-exitcode", "9",
                                    machine.program("test_cuda_device"), "[small]"])
        if "Device not supported" in output:
            raise Skipped("compute-sanitizer does not support this machine's driver")
        verdict = next((line.strip("= \n") for line in output.splitlines()
                        if "SUMMARY" in line), "no summary")
        found[tool] = verdict
        if code != 0:
            broken.append(f"{tool}: {verdict}: {tail(output, 3)}")
    if broken:
        raise Failed("; ".join(broken), found)
    return found
