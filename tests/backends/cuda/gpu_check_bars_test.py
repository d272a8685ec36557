#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What scripts/gpu-check says of its bars, from results as its parts give them."""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts"))
from gpu_check import bars, report  # noqa: E402

RESULTS = [
    {"name": "machine", "state": "passed", "seconds": 0, "figures": {"name": "a GPU"}},
    {"name": "losses", "state": "passed", "seconds": 1,
     "figures": {"largest relative difference": 2.5e-6}},
    {"name": "overhead", "state": "failed", "seconds": 1, "why": "too slow",
     "figures": {"fully_shard to no_shard": 1.05}},
    {"name": "sanitizer", "state": "skipped", "seconds": 0, "why": "not here"},
    {"name": "throughput", "state": "passed", "seconds": 1, "figures": {"MFU": None}},
]


def row(what, dry=False):
    return next(row[1:] for row in bars.rows(RESULTS, report.shown, dry) if row[0] == what)


class Bars(unittest.TestCase):
    def test_a_bar_is_met_if_its_part_passed(self):
        self.assertEqual(row("losses in float32, of the CPU's"),
                         ("2.5e-06", "at most 3e-05 in 100 steps", "met"))

    def test_a_bar_that_is_not_met_has_its_figure_and_the_reason(self):
        self.assertEqual(row("step with sharding, of one without"),
                         ("1.05", "at most 1.02", "**not met**: too slow"))

    def test_what_was_not_tried_is_never_met(self):
        self.assertEqual(row("compute-sanitizer")[2], "not tried: not here")
        self.assertEqual(row("of torch.compile")[2], "not tried")

    def test_a_figure_without_a_bar_is_measured_or_not(self):
        self.assertEqual(row("MFU"), ("-", "a figure", "not measured: "))

    def test_a_dry_run_meets_nothing(self):
        self.assertEqual(row("losses in float32, of the CPU's", dry=True)[2], "dry run")
        self.assertEqual(row("step with sharding, of one without", dry=True)[2],
                         "dry run failed: too slow")

    def test_a_figure_that_no_part_knows_is_found(self):
        self.assertEqual(bars.unknown(RESULTS), [
            f"throughput: {key}" for key in ("tokens/s", "model", "batch", "length", "dtype")])

    def test_a_row_shows_the_figures_that_are_there(self):
        options = {"name": "options", "state": "passed", "seconds": 1, "figures": {
            "plain: tokens/s": 1000.0, "windows: tokens/s": 1100.0, "graphs: tokens/s": 1200.0,
            "2 ranks, plain: exposed share": None, "2 ranks, graphs: exposed share": None}}
        shown = {row[0]: row[1:] for row in bars.rows([*RESULTS, options], report.shown, False)}
        self.assertEqual(shown["tokens/s plain, with windows, with CUDA graphs, in fp8, with Hopper's attention"],
                         ("1000; 1100; 1200", "a figure", "measured"))
        self.assertEqual(shown["exposed communication of 2 ranks, plain, with CUDA graphs"],
                         ("-", "a figure", "not measured: "))

    def test_every_bar_has_one_row(self):
        table = report.table(RESULTS, dry=False)
        self.assertEqual(sum(line.count("|") == 5 and line.startswith("| ") and
                             "---" not in line and "asked" not in line and "state" not in line
                             for line in table.split("## Parts")[0].splitlines()),
                         len(bars.BARS))


if __name__ == "__main__":
    unittest.main()
