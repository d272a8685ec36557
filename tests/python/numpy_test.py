# SPDX-License-Identifier: Apache-2.0
"""The part of the Python package that has arrays: engines, traces, and the examples."""
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("skipped: python3-numpy is not installed")
    sys.exit(77)

import tessera

ROOT = Path(__file__).resolve().parent.parent.parent
MODEL = {
    "tessera_model": 1,
    "name": "two",
    "root": {
        "class": "Net",
        "modules": [
            {
                "name": "a",
                "class": "Linear",
                "parameters": [
                    {"name": "weight", "shape": [3, 5]},
                    {"name": "bias", "shape": [3]},
                ],
            },
            {"name": "b", "class": "Linear", "parameters": [{"name": "weight", "shape": [7]}]},
        ],
    },
}


def ramp(name, shape):
    return np.arange(np.prod(shape)).reshape(shape)


def ones(p):
    for gradient in p.gradients.values():
        gradient += p.rank + 1


class Mistakes(unittest.TestCase):
    """What people get wrong is refused with a sentence, and nothing is cut off."""

    def refused(self, sentence, function, *given, **named):
        with self.assertRaisesRegex(tessera.TesseraError, sentence):
            function(*given, **named)

    def test_numbers_are_neither_wrapped_nor_rounded(self):
        for ranks in (0, -1, 2**32 + 1, 2.5, "2", True, float("nan")):
            with self.subTest(ranks=ranks):
                self.refused("ranks: a", tessera.Runtime, "simulator", ranks=ranks)
        for deadline in (-1, float("nan"), float("inf"), "5"):
            with self.subTest(deadline=deadline):
                self.refused("deadline: a number", tessera.Runtime, deadline=deadline)
        with tessera.Runtime("simulator", ranks=2) as runtime:
            engine = tessera.Engine(runtime, tessera.Model(MODEL))
            engine.initialise(ramp)
            for name, value in [
                ("accumulation", 0),
                ("accumulation", 2**32 + 1),
                ("accumulation", 1.5),
                ("checkpoint", "no"),
                ("reduce_last_only", 1),
                ("learning_rate", float("nan")),
                ("learning_rate", "0.1"),
                ("learning_rate", 0),
                ("beta1", -0.5),
                ("weight_decay", float("inf")),
                ("max_grad_norm", -1),
                ("learning_rat", 0.1),
            ]:
                with self.subTest(name, value=value):
                    self.refused(name, engine.step, ones, **{name: value})
            for keep in (0, -2, 2**32 + 2, 1.0):
                self.refused("keep", engine.save, "nowhere", 1, keep=keep)
            for step in (-1, 2**64 + 1, "1"):
                self.refused("step: a whole", engine.save, "nowhere", step)
            near = "no parameter 'a.wieght', did you mean 'a.weight'"
            self.refused(near, engine.__getitem__, "a.wieght")
            group = {"parameters": ["a.weight"], "weight_decay": None}
            self.refused("weight_decay of a group", engine.set_groups, [group])
            self.refused("parameters are a list", engine.set_groups, [{"parameters": "a.weight"}])
            three = {0: 1, 1: 2, 2: 3}
            self.refused("of rank 2, but local are the ranks 0 to 1", runtime.mean, three)
            self.refused("missing of rank 1", runtime.mean, {0: 1})
            engine.step(ones, learning_rate=np.float32(0.5), accumulation=np.int64(2))

    def test_questions_to_a_trace_are_about_whole_numbers(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "run.tessera"
            with tessera.Runtime("simulator", ranks=2, trace=file) as runtime:
                engine = tessera.Engine(runtime, tessera.Model(MODEL))
                engine.initialise(ramp)
                engine.step(ones)
            trace = tessera.open_trace(file)
            for rank in ("0", 0.5, -1, True):
                self.refused("rank: a whole number", trace.spans, rank=rank)
            self.refused("has no rank 2", trace.spans, rank=2)
            self.refused("has no step 9", trace.rank_steps, step=9)
            near = "no kind 'allgather', did you mean 'all_gather'"
            self.refused(near, trace.spans, kind="allgather")
            self.refused("kind: a text", trace.spans, kind=3)


class Engines(unittest.TestCase):
    def test_parameters_are_arrays_of_their_shape(self):
        model = tessera.Model(MODEL)
        self.assertEqual(model.parameters, {"a.weight": (3, 5), "a.bias": (3,), "b.weight": (7,)})
        for scheme in ("fully_shard", "zero1", "zero3", "replicate"):
            with self.subTest(scheme), tessera.Runtime("simulator", ranks=3) as runtime:
                engine = tessera.Engine(runtime, model, scheme)
                engine.initialise(ramp)
                np.testing.assert_array_equal(engine["a.weight"], ramp("", (3, 5)))
                engine["a.bias"] = [1, 2, 3]
                np.testing.assert_array_equal(engine["a.bias"], [1, 2, 3])
                engine.step(ones, learning_rate=0.5, max_grad_norm=1e9)
                self.assertAlmostEqual(engine.grad_norm(), np.sqrt(25 * 4), places=4)
                np.testing.assert_allclose(engine["a.bias"], [0.5, 1.5, 2.5])

    def test_compute_sees_modules_in_order_and_cannot_write_values(self):
        calls = []

        def compute(p):
            calls.append((p.kind, p.module, p.micro_batch))
            self.assertEqual(set(p.gradients), set(p.values) if p.kind == "backward" else set())
            with self.assertRaises(ValueError):
                next(iter(p.values.values()))[...] = 0

        with tessera.Runtime() as runtime:
            engine = tessera.Engine(runtime, tessera.Model(MODEL), "fully_shard")
            engine.initialise(lambda name, shape: 0.5)
            engine.step(compute, accumulation=2)
            runtime.wait()
        forward = [("forward", "a"), ("forward", "b")]
        backward = [("backward", "b"), ("backward", "a")]
        expected = [(*call, k) for k in (0, 1) for call in forward + backward]
        self.assertEqual(calls, expected)

    def test_what_compute_raises_goes_on_in_python(self):
        def broken(p):
            raise ZeroDivisionError("in " + p.module)

        with self.assertRaisesRegex(ZeroDivisionError, "in a"):
            with tessera.Runtime() as runtime:
                engine = tessera.Engine(runtime, tessera.Model(MODEL))
                engine.step(broken)
                runtime.wait()

    def test_groups_checkpoints_and_weights(self):
        with tempfile.TemporaryDirectory() as folder, tessera.Runtime() as runtime:
            model = tessera.Model(MODEL)
            engine = tessera.Engine(runtime, model, "zero2")
            engine.initialise(ramp)
            engine.set_groups(
                [{"parameters": ["a.weight"]}, {"parameters": ["a.bias"], "learning_rate": 0.0}]
            )
            engine.step(ones, learning_rate=0.5)
            np.testing.assert_allclose(engine["a.weight"], ramp("", (3, 5)) - 0.5)
            np.testing.assert_array_equal(engine["a.bias"], ramp("", (3,)))
            engine.save(folder, 7, state="so far")
            engine.export_weights(Path(folder) / "w.safetensors")
            runtime.wait()
            engine.close()
            other = tessera.Engine(runtime, model, "fully_shard")
            other.initialise(lambda name, shape: 0)
            other.import_weights(Path(folder) / "w.safetensors")
            np.testing.assert_allclose(other["a.weight"], ramp("", (3, 5)) - 0.5)

    def test_a_pass_in_the_programs_own_order(self):
        with tessera.Runtime("simulator", ranks=2) as runtime:
            engine = tessera.Engine(runtime, tessera.Model(MODEL), "full_shard", units=["a"])
            engine.initialise(ramp)
            engine.begin("forward")
            for module in ("a", "b"):
                engine.enter(module)
                engine.compute(module, lambda p: None)
                engine.leave(module)
            engine.end()
            engine.begin("backward")
            for module in ("b", "a"):
                engine.enter(module)
                engine.compute(module, ones)
                engine.leave(module)
            engine.end()
            engine.update(learning_rate=0.25)
            np.testing.assert_allclose(engine["a.bias"], ramp("", (3,)) - 0.25)

    def test_errors_are_exceptions_with_a_sentence(self):
        model = tessera.Model(MODEL)
        refused = self.assertRaisesRegex
        with refused(tessera.TesseraError, "nowhere.json"):
            tessera.Model("nowhere.json")
        with refused(tessera.TesseraError, "must be one of local"):
            tessera.Runtime("gpu")
        with refused(tessera.TesseraError, "simulator's to choose"):
            tessera.Runtime(ranks=2)
        with tessera.Runtime("simulator", ranks=2) as runtime:
            with refused(tessera.TesseraError, 'unknown key "bucket"'):
                tessera.Engine(runtime, model, "zero3", bucket=3)
            engine = tessera.Engine(runtime, model)
            with refused(tessera.TesseraError, "no parameter 'c'"):
                engine["c"]
            with refused(tessera.TesseraError, "a step has no momentum"):
                engine.step(ones, momentum=1)
            with refused(tessera.TesseraError, "above 0"):
                engine.step(ones, learning_rate=0)
            with refused(ValueError, "broadcast"):
                engine["a.bias"] = [1, 2]
            with refused(tessera.TesseraError, "1 values for 2 local ranks"):
                runtime.mean(1.0)
            with refused(tessera.TesseraError, "a group has no momentum"):
                engine.set_groups([{"parameters": [], "momentum": 1}])


class Traces(unittest.TestCase):
    def test_tables_are_arrays(self):
        trace = tessera.open_trace("traces/gpt2-8-h100.tessera")
        answer = trace.query("SELECT name, ranks, NULL AS none, 1.5 AS half FROM run")
        self.assertEqual(answer["ranks"].dtype, np.int64)
        self.assertEqual(answer["half"].tolist(), [1.5])
        self.assertTrue(np.isnan(answer["none"][0]))
        self.assertIn("gpt2", answer["name"][0])
        gathers = trace.spans(rank=3, step=1, kind="all_gather")
        self.assertGreater(len(gathers["begin"]), 0)
        self.assertEqual(set(gathers["kind"]), {"all_gather"})
        self.assertEqual(set(gathers["rank"]), {3})
        self.assertTrue((gathers["end"] - gathers["begin"] == gathers["duration"]).all())
        steps = trace.rank_steps(step=1)
        self.assertEqual(steps["rank"].tolist(), list(range(8)))
        self.assertEqual(int(trace.memory(rank=0)["allocated"].min()) >= 0, True)
        self.assertEqual(trace.report()["run"]["ranks"], 8)
        self.assertEqual(len(trace.query("SELECT * FROM span WHERE rank = 77")["begin"]), 0)

    def test_a_run_of_python_is_recorded(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "own.tessera"
            with tessera.Runtime("simulator", ranks=2, trace=path) as runtime:
                engine = tessera.Engine(runtime, tessera.Model(MODEL), "zero3")
                engine.initialise(ramp)
                for _ in range(3):
                    engine.step(ones)
            trace = tessera.open_trace(path)
            kinds = set(trace.spans(rank=1)["kind"])
            self.assertTrue({"compute", "all_gather", "reduce_scatter"} <= kinds, kinds)

    def test_what_is_no_trace_or_no_question_is_refused(self):
        with self.assertRaisesRegex(tessera.TesseraError, "nowhere.tessera"):
            tessera.open_trace("nowhere.tessera")
        trace = tessera.open_trace("traces/gpt2-8-h100.tessera")
        with self.assertRaisesRegex(tessera.TesseraError, "no such column"):
            trace.query("SELECT colour FROM span")
        with self.assertRaises(tessera.TesseraError):
            trace.query("DELETE FROM op")

    def test_a_data_frame_has_the_same_columns(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed")
        trace = tessera.open_trace("traces/gpt2-8-h100.tessera")
        frame = trace.pandas("SELECT rank, step, compute FROM rank_step WHERE step = 1")
        self.assertEqual(list(frame.columns), ["rank", "step", "compute"])
        self.assertEqual(len(frame), 8)


class Examples(unittest.TestCase):
    # From a folder where nothing is: no example may count on where it was started.
    def said(self, name, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, str(ROOT / f"examples/python/{name}.py"), *arguments],
                capture_output=True,
                text=True,
                cwd=folder,
            )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_blocks_of_the_manual(self):
        manual = (ROOT / "docs/python.md").read_text()
        blocks = [part.split("```")[0] for part in manual.split("```python\n")[1:]]
        program = "\n".join(block for block in blocks if "{...}" not in block)
        smaller = {"processes=4, ": "", "steps=500, batch=8": "steps=2, batch=1, threads=1"}
        for said, run in smaller.items():
            self.assertEqual(program.count(said), 1, said)
            program = program.replace(said, run)
        program = re.sub(r"(?m)^trace\.pandas.*$", "", program)  # Debian's CI has none
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(ROOT / "examples/models/gpt-tiny.json", folder + "/config.json")
            np.zeros(2000, np.uint16).tofile(folder + "/tokens.bin")
            shutil.copy(ROOT / "traces/gpt2-8-h100.tessera", folder + "/run.tessera")
            done = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, cwd=folder
            )
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_simulate(self):
        said = self.said("simulate")
        self.assertIn("ms exposed  reduce_scatter of", said)
        self.assertIn("GiB  activations", said)

    def test_train_numpy_whatever_the_scheme(self):
        said = [self.said("train_numpy", scheme) for scheme in ("fully_shard", "zero2")]
        loss = float(said[0].split("step 60 loss ")[1].split()[0])
        self.assertLess(loss, 0.5)
        self.assertEqual(said[0], said[1])
        self.assertIn("step 60", self.said("train_numpy", "replicate", "local"))

    def test_train_language_model(self):
        said = self.said("train_language_model")
        self.assertIn("step 0:", said)


if __name__ == "__main__":
    unittest.main()
