# SPDX-License-Identifier: Apache-2.0
"""Runs the program, and remembers what it answered, so that a stopped validation goes on."""
import hashlib
import json
import pathlib
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

STEPS = 3


class Answers:
    """Answers of one program, a line each in a file; another program's are thrown away."""

    def __init__(self, path, program):
        self.path, self.lock, self.known = path, threading.Lock(), {}
        stat = pathlib.Path(program).stat()
        self.header = json.dumps({"program": [str(program), stat.st_size, stat.st_mtime_ns]})
        if path is None:
            return
        lines = path.read_text().splitlines() if path.exists() else []
        if not lines or lines[0] != self.header:
            path.write_text(self.header + "\n")
            lines = []
        for line in lines[1:]:
            key, answer = json.loads(line)
            self.known[key] = answer

    def keep(self, key, answer):
        with self.lock:
            self.known[key] = answer
            if self.path is not None:
                with open(self.path, "a", encoding="utf-8") as file:
                    file.write(json.dumps([key, answer]) + "\n")


class Simulator:
    def __init__(self, program, presets, *, jobs, limit, answers):
        self.program, self.presets, self.jobs, self.limit = program, presets, jobs, limit
        self.answers = answers

    def run_all(self, rows, progress):
        done = 0
        with ThreadPoolExecutor(self.jobs) as pool:
            for _ in pool.map(self.run, rows):
                done += 1
                progress(done, len(rows))

    def run(self, row):
        # Of a changed cluster the old answer says nothing.
        key = hashlib.sha256((row.key() + self.cluster_text(row)).encode()).hexdigest()
        answer = self.answers.known.get(key)
        if answer is None:
            answer = self.ask(row)
            self.answers.keep(key, answer)
        if isinstance(answer, str):
            row.refused = answer
        else:
            row.set_prediction(answer)

    def ask(self, row):
        """What of the report counts, or a sentence."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "cluster.json").write_text(self.cluster_text(row))
            (folder / "model.json").write_text(json.dumps(row.model))
            command = [self.program, "simulate", folder / "model.json", "--cluster",
                       folder / "cluster.json", "--nodes", row.nodes, "--steps", STEPS,
                       "--record-ranks", "none", "--json", "-o", folder / "t.tessera",
                       "--profile", row.profile, *row.options]
            try:
                done = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                                      timeout=self.limit, check=False)
            except subprocess.TimeoutExpired:
                return f"takes more than {self.limit:.0f} s to simulate"
        if done.returncode not in (0, 3):
            return done.stderr.strip() or f"exit code {done.returncode}"
        report = json.loads(done.stdout)
        run = report["run"]
        return {"step_time_ns": report["step_time_steady_ns"], "fits": done.returncode == 0,
                "scheme": run["scheme"], "ranks": run["ranks"], "parameters": run["parameters"],
                "gpu": run["peak_name"].split(" bf16 ")[0], "options": run["options"]}

    def cluster_text(self, row):
        path = self.presets / f"{row.preset}.json"
        if not row.changes:
            return path.read_text()
        cluster = json.loads(path.read_text())
        for key, value in row.changes.items():
            if isinstance(value, dict):
                cluster[key].update(value)
            else:
                cluster[key] = value
        return json.dumps(cluster)

    def collective(self, operation, cluster, nodes, per_node, sizes):
        """Microseconds of every size, or a sentence."""
        command = [self.program, "collective", operation, "--cluster", cluster, "--nodes", nodes,
                   "--ranks-per-node", per_node, "--sizes", ",".join(map(str, sizes)), "--json"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                              timeout=self.limit, check=False)
        if done.returncode != 0:
            return done.stderr.strip()
        return [row["time_us"] for row in json.loads(done.stdout)["rows"]]
