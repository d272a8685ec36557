#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-check loses nothing: killed at any moment, with parts that fail, hang or break."""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from unittest import mock

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))
from gpu_check import machine, pack, test_parts, torch_parts  # noqa: E402


def program():
    path = str(ROOT / "scripts/gpu-check")
    loader = importlib.machinery.SourceFileLoader("gpu_check_program", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def fake_build(folder):
    """Programs that say their name."""
    for name, place in pack.PROGRAMS.items():
        (folder / place).mkdir(parents=True, exist_ok=True)
        (folder / place / name).write_text(f"#!/bin/sh\necho {name}\n")
        (folder / place / name).chmod(0o755)
    return folder


def arguments_for(folder, **more):
    return argparse.Namespace(**{"dry_run": True, "build": fake_build(folder / "build"), "only": "",
                                 "out": folder / "out", "packed": None, **more})


def short_parts():
    """Each runs a program, and all take a second together."""
    def part(here):
        return {"said": here.require(["/bin/sh", "-c", "echo begun; sleep 0.05; echo over"])}
    return [(f"part{k}", 10, part) for k in range(15)]


class Loses(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.at = pathlib.Path(self.folder.name)

    def here(self, **more):
        work = self.at / "work"
        work.mkdir(exist_ok=True)
        return machine.Machine(ROOT, arguments_for(self.at, **more), work)

    def check(self, parts):
        with mock.patch("builtins.print"):
            code = program().check(arguments_for(self.at), parts)
        return code, {result["name"]: result
                      for result in json.loads((self.at / "out/gpu-check.json").read_text())}

    def test_killed_at_any_moment_the_report_of_the_finished_parts_is_there(self):
        for seed in range(8):
            with self.subTest(seed=seed), tempfile.TemporaryDirectory() as name:
                child = subprocess.Popen([sys.executable, __file__, "--killed", name],
                                         stdout=subprocess.PIPE, text=True)
                time.sleep(random.Random(seed).random() * 1.5)
                child.kill()
                said, _ = child.communicate()
                finished = [line.split(":")[0] for line in said.splitlines()
                            if line.startswith("part")]
                report = pathlib.Path(name) / "out/gpu-check.json"
                results = json.loads(report.read_text()) if report.exists() else []
                known = [r["name"] for r in results if r["state"] == "passed"]
                self.assertEqual([part for part in finished if part not in known], [])
                if results:
                    table = report.with_suffix(".md").read_text() if finished else finished
                    for part in finished[:-1]:
                        self.assertIn(f"| {part} |", table)

    def test_a_part_that_breaks_in_any_way_stops_no_other(self):
        def divides(_):
            return 1 / 0
        code, results = self.check([("breaks", 5, divides), ("goes on", 5, lambda _: {"x": 1})])
        self.assertEqual(code, 1)
        self.assertIn("ZeroDivisionError", results["breaks"]["why"])
        self.assertEqual(results["goes on"]["state"], "passed")
        self.assertIn("1 / 0", (self.at / "out/gpu-check.logs/breaks-exception.log").read_text())

    def test_a_part_that_hangs_is_ended_and_all_that_it_said_is_kept(self):
        def hangs(here):
            lines = "for k in 1 2 3 4 5 6 7 8 9; do echo line $k; done"
            here.require(["/bin/sh", "-c", f"{lines}; sleep 60"])
        _, results = self.check([("hangs", 1, hangs)])
        self.assertIn("out of time: line 4", results["hangs"]["why"])
        logs = list((self.at / "out/gpu-check.logs").glob("hangs-*-sh.log"))
        self.assertIn("line 1\n", logs[0].read_text())

    def test_peers_of_a_rank_that_fails_are_ended(self):
        here = self.here()
        processes = [here.start(["/bin/sh", "-c", "echo waits; sleep 60"]),
                     here.start(["/bin/sh", "-c", "echo why; exit 3"])]
        ended = here.finish_all(processes)
        self.assertEqual(ended, [("waits\n", None), ("why\n", 3)])

    def test_of_ranks_that_fail_the_one_that_says_why_is_named(self):
        here = mock.Mock()
        here.finish_all.return_value = [("was waiting", None), ("no memory", 1)]
        self.assertEqual(test_parts.one_world(here, 2, 3),
                         "scheme 3 on 2 ranks, rank 1: no memory")

    def test_a_machine_whose_tools_are_missing_is_described_all_the_same(self):
        here = self.here()
        here.programs = self.at / "nowhere"
        self.assertEqual(here.describe()["figures"]["name"], "no GPU: the stand-in")

    def test_programs_may_come_as_an_archive_and_without_their_modes(self):
        packed = self.at / "gpu-check"
        packed.mkdir()
        (packed / "tessera").write_text("#!/bin/sh\necho 1.0\n")
        (packed / "tessera").chmod(0o644)
        archive = self.at / "gpu-check.tar.xz"
        with tarfile.open(archive, "w:xz") as file:
            file.add(packed, "gpu-check")
        here = self.here(dry_run=False, packed=archive)
        self.assertEqual(here.require([here.program("tessera")]), "1.0\n")

    def test_nccl_warns_into_a_log(self):
        with mock.patch.dict(os.environ):
            os.environ.pop("NCCL_DEBUG", None)
            env = self.here().environment()
        self.assertEqual(env["NCCL_DEBUG"], "WARN")
        self.assertTrue(env["NCCL_DEBUG_FILE"].startswith(str(self.at / "out/gpu-check.logs")))


class PyTorch(unittest.TestCase):
    def beside(self, slow, own=None):
        def require(command, env):
            self.env = env
            if command[2] in slow:
                raise machine.Failed("out of time")
            return f'{{"step_ms": {40 if command[2] == "eager" else 20}}}\n'
        here = mock.Mock(dry=False, measured={} if own is None else {"step_ms": own}, root=ROOT,
                         require=require)
        with mock.patch("importlib.util.find_spec"):
            return torch_parts.beside(here)

    def test_a_compiler_that_takes_too_long_leaves_what_was_measured(self):
        with self.assertRaises(machine.Failed) as caught:
            self.beside(slow=["compile"], own=30.0)
        self.assertEqual(caught.exception.figures["eager, ms"], 40)
        self.assertAlmostEqual(caught.exception.figures["to eager"], 4 / 3)

    def test_without_our_own_step_its_figures_are_kept(self):
        with self.assertRaises(machine.Failed) as caught:
            self.beside(slow=[])
        self.assertEqual(caught.exception.figures["compile, ms"], 20)

    def test_it_finds_the_driver_where_the_caller_does(self):
        with mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": "/of/the/driver"}):
            figures = self.beside(slow=[], own=10.0)
        self.assertEqual(self.env["LD_LIBRARY_PATH"], "/of/the/driver")
        self.assertEqual(figures["to compile"], 2)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--killed"]:
        at = pathlib.Path(sys.argv[2])
        sys.exit(program().check(arguments_for(at), short_parts()))
    unittest.main()
