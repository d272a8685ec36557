# SPDX-License-Identifier: Apache-2.0
"""One published run and what it is for the simulator."""
import json


class Row:
    """A run: `cluster` is a shipped cluster and changes of its file, `seconds` its measured step."""

    def __init__(self, *, family, system, name, profile, cluster, ranks, model, options, seconds,
                 per_node=8):
        preset, changes = cluster
        self.family, self.system, self.name, self.profile = family, system, name, profile
        self.preset, self.changes = preset, dict(changes)
        self.model, self.options, self.seconds = model, [str(o) for o in options], seconds
        self.nodes = max(1, ranks // per_node)
        if ranks < 8 or per_node != 8:
            self.changes["gpus_per_node"] = min(ranks, per_node)
        self.report, self.error, self.refused = None, None, ""

    def option(self, name, otherwise):
        """What follows `name` among the options."""
        return self.options[self.options.index(name) + 1] if name in self.options else otherwise

    def sizes(self):
        """Tokens of a sequence and of a micro-batch, checkpointing, what is offloaded."""
        sequence = int(self.option("--sequence-length", 0))
        return {"sequence": sequence, "micro_batches": int(self.option("--accumulation", 1)),
                "tokens": sequence * int(self.option("--batch", 1)),
                "checkpointing": self.option("--checkpointing",
                                             self.option("--recompute", "none").replace(",", "+")),
                "offload": "optimizer" if "--offload-optimizer" in self.options
                else "parameters" if "--offload-params" in self.options
                else "activations" if "--offload-activations" in self.options else "",
                "frozen": "" if "--lora" not in self.options
                else "QLoRA" if "base=nf4" in self.option("--lora", "") else "LoRA"}

    def cluster_name(self):
        """The preset; a run on other links is near to none of it."""
        other = set(self.changes) - {"gpus_per_node"}
        return f"{self.preset} with another {' and '.join(sorted(other))}" if other else self.preset

    def key(self):
        """Text that two equal simulations share."""
        return json.dumps([self.profile, self.preset, self.changes, self.nodes, self.model,
                           self.options])

    def set_prediction(self, report):
        self.report = report
        self.predicted = report["step_time_ns"] / 1e9
        self.fits = report["fits"]
        self.error = self.predicted / self.seconds - 1


def gpt(hidden, layers, length, vocabulary, heads):
    return {"architectures": ["GPT2LMHeadModel"], "vocab_size": vocabulary, "n_positions": length,
            "n_embd": hidden, "n_layer": layers, "n_head": heads, "n_inner": 4 * hidden}
