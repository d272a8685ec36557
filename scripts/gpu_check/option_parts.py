# SPDX-License-Identifier: Apache-2.0
"""What options are worth: windows, CUDA graphs, fp8, Hopper's attention: speed, exposed communication."""
import json

from gpu_check.bench_parts import Shape, tokens_file
from gpu_check.machine import Failed, tail
from gpu_check.test_parts import free_port

WAYS = {"plain": [], "windows": ["--windows", "on"], "graphs": ["--cuda-graphs"],
        "fp8": ["--matmul-dtype", "fp8"], "hopper attention": ["--hopper-attention"]}
OTHER_CARD = "has compute capability"  # of a refusal
SHARED_WAYS = ("plain", "graphs")  # windows need GPUs that reach each other's memory


def command(machine, way, batch, steps):
    shape = Shape(machine)
    return [machine.program("tessera"), "train", machine.model(shape.name), "--data",
            str(tokens_file(machine)), "--dtype", "bfloat16", "--batch", str(batch),
            "--sequence-length", str(shape.length), "--steps", str(steps), "--device", "cuda", "-q",
            "--trace", str(machine.work / f"{way}.tessera"), *WAYS[way]]


def reported(machine, way):
    """Tokens per second and the share of a step in which communication is exposed."""
    trace = str(machine.work / f"{way}.tessera")
    report = json.loads(machine.require([machine.program("tessera"), "report", trace, "--json"]))
    return report["tokens_per_s"], report["time"]["exposed_ns"] / report["time"]["step_ns"]


def alone(machine, way):
    shape = Shape(machine)
    machine.require(command(machine, way, shape.batch, shape.steps))
    return reported(machine, way)


def shared(machine, way, ranks=2):
    """Ranks that share the GPU, as torchrun would start them."""
    steps = 6
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port() - 1)}
    processes = []
    for rank in range(ranks):
        env = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), **meeting}
        processes.append(machine.start([*command(machine, way, 2, steps), "--share-gpu"],
                                       machine.environment(env)))
    ended = machine.finish_all(processes)
    failed = [tail(output) for output, code in ended if code != 0]
    if failed:
        raise Failed(f"{ranks} ranks, {way}: {failed[0]}")
    return reported(machine, way)


def options(machine):
    """Processes cannot share the stand-in, so a dry run has no figures of two ranks."""
    figures, failed = {}, []

    def take(what, ask):
        """One way that fails keeps the figures of the others; what a card has not is no failure."""
        speed, exposed = None, None
        try:
            speed, exposed = ask()
        except Failed as why:
            if OTHER_CARD not in str(why):
                failed.append(f"{what}: {why}")
        figures[f"{what}: tokens/s"] = speed
        figures[f"{what}: exposed share"] = exposed

    def take_alone(way):
        take(way, lambda: alone(machine, way))

    *others, unproven = WAYS  # which may hang, and then takes all the time that is left
    for way in others:
        take_alone(way)
    for way in SHARED_WAYS:
        take(f"2 ranks, {way}",
             lambda: (None, None) if machine.dry else shared(machine, way))
    take_alone(unproven)
    if failed:
        raise Failed("; ".join(failed), figures)
    return figures
