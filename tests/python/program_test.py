# SPDX-License-Identifier: Apache-2.0
"""The part of the Python package that runs the program: no other package is needed for it."""
import ast
import json
import os
import tempfile
import unittest
from pathlib import Path

import tessera
from tessera._program import flags_of

MODELS = Path("examples/models")
TINY = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "activation_function": "gelu_new",
    "vocab_size": 256,
    "n_positions": 32,
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 2,
}


class Mistakes(unittest.TestCase):
    def test_options_that_say_two_things_or_nothing_are_refused(self):
        for sentence, options in [
            ("processes and launcher both", {"processes": 2, "launcher": ["srun"]}),
            ("processes: a whole number", {"processes": 0}),
            ("processes: a whole number", {"processes": 1.5}),
            ("has a comma", {"units": ["h.0,h.1"]}),
            ("units: a text, a number or a list", {"units": {"h.0"}}),
            ("units: a list of texts", {"units": [["h.0"]]}),
            ("did you mean", {"lerning_rate": 1}),
            ("--steps", {"steps": True}),
            ("--steps", {"steps": float("nan")}),
        ]:
            with self.subTest(options), self.assertRaisesRegex(tessera.TesseraError, sentence):
                tessera.train(TINY, "nowhere.txt", **options)
        with self.assertRaisesRegex(tessera.TesseraError, "data: a,b.txt has a comma"):
            tessera.train(TINY, ["a,b.txt"])

    def test_what_a_plan_warns_of_is_a_warning(self):
        with self.assertWarnsRegex(UserWarning, "mine"):
            tessera.plan({**TINY, "mine": 1}, ranks=2)


class Simulating(unittest.TestCase):
    def test_a_run_says_time_memory_and_how_sure_it_is(self):
        run = tessera.simulate(MODELS / "gpt2.json", nodes=1, steps=3, batch=2)
        self.assertTrue(run.fits)
        self.assertIsNone(run.trace)
        self.assertEqual(run.step_time, run.report["step_time_steady_ns"] / 1e9)
        self.assertGreater(run.mfu, 0)
        self.assertEqual(sum(run.memory_by_class().values()) > 0, True)
        low, high = run.peak_memory_range
        self.assertLess(low, run.peak_memory)
        self.assertGreater(high, run.peak_memory)
        self.assertEqual(len(run.how_sure), 2)

    def test_options_act_and_false_is_what_the_program_calls_no(self):
        plain = tessera.simulate(TINY, scheme="full_shard", sequence_length=32, steps=2)
        same = tessera.simulate(
            TINY, scheme="full_shard", sequence_length=32, steps=2, limit_all_gathers=True
        )
        other = tessera.simulate(
            TINY,
            scheme="full_shard",
            sequence_length=32,
            steps=2,
            limit_all_gathers=False,
            offload_params=False,
            units=["h.0"],
        )
        options = "run", "options"
        get = lambda run: run.report[options[0]][options[1]]
        self.assertEqual(get(plain), get(same))
        self.assertFalse(get(other)["limit_all_gathers"])
        self.assertEqual(get(other)["units"], ["h.0"])
        self.assertEqual(flags_of("simulate", {"batch": None}), [])

    def test_a_run_that_does_not_fit_is_a_result(self):
        run = tessera.simulate(
            MODELS / "llama-3-8b.json", scheme="replicate", nodes=1, steps=1, batch=1
        )
        self.assertFalse(run.fits)
        self.assertTrue(any("memory" in said["message"] for said in run.diagnostics))

    def test_what_the_program_refuses_is_an_exception_with_its_sentence(self):
        for options, part in [
            ({"bach": 2}, "--batch"),
            ({"cluster": "dgx-h1000"}, "dgx-h1000"),
            ({"batch": 0}, "--batch"),
            ({"batch": True}, "--batch"),
            ({"sharded": True}, "sharded"),
            ({"sharded": False}, "sharded"),
            ({"scheme": "zero4"}, "zero4"),
            ({"trace": "/nowhere/run.tessera"}, "/nowhere"),
        ]:
            with self.subTest(options), self.assertRaises(tessera.TesseraError) as caught:
                tessera.simulate(TINY, **options)
            self.assertIn(part, str(caught.exception))
            self.assertEqual(caught.exception.code, 2)
        with self.assertRaisesRegex(tessera.TesseraError, "nowhere.json"):
            tessera.simulate("nowhere.json")

    def test_plans_and_estimates_are_the_programs_objects(self):
        units = tessera.plan(TINY, ranks=4)["units"]
        self.assertEqual([unit["path"] for unit in units], ["", "h.0", "h.1"])
        stages = tessera.estimate(TINY, nodes=1)["stages"]
        self.assertEqual([stage["stage"] for stage in stages], [1, 2, 3])


class Training(unittest.TestCase):
    def test_a_run_returns_its_log(self):
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder) / "text.txt"
            text.write_text("what a rank reads, all ranks have read. " * 100)
            run = tessera.train(
                TINY,
                [text],
                steps=4,
                batch=2,
                sequence_length=16,
                threads=1,
                save=Path(folder) / "run",
            )
            self.assertEqual([step["step"] for step in run.steps], [1, 2, 3, 4])
            self.assertLess(run.steps[-1]["loss"], run.steps[0]["loss"])
            self.assertTrue((Path(folder) / "run").is_dir())
            with self.assertRaisesRegex(tessera.TesseraError, "learning-rate"):
                tessera.train(TINY, text, learning_rate=-1)


class ThePackage(unittest.TestCase):
    def test_everything_public_has_a_docstring_and_types(self):
        for file in Path("python/src/tessera").glob("*.py"):
            tree = ast.parse(file.read_text())
            self.assertIsNotNone(ast.get_docstring(tree), file)
            public = [node for node in tree.body if not getattr(node, "name", "_").startswith("_")]
            public += [node for parent in public for node in getattr(parent, "body", [])]
            for node in public:
                if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                    continue
                with self.subTest(f"{file.name}: {node.name}"):
                    self.assertIsNotNone(node.returns)
                    every = node.args.args + node.args.kwonlyargs
                    self.assertTrue(all(a.annotation or a.arg == "self" for a in every))
                    self.assertTrue(ast.get_docstring(node) or file.name == "_library.py")
        self.assertTrue(Path("python/src/tessera/py.typed").exists())

    def test_a_program_that_is_not_there_is_said(self):
        import subprocess
        import sys

        environment = {**os.environ, "TESSERA_PROGRAM": "/nowhere", "PATH": ""}
        said = subprocess.run(
            [sys.executable, "-c", "import tessera"],
            env=environment,
            capture_output=True,
            text=True,
        )
        self.assertIn("the program tessera is not there", said.stderr)


if __name__ == "__main__":
    unittest.main()
