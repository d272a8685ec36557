#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records which keys of a configuration the installed DeepSpeed reads, into VERSION.json beside it.

    python3 record.py FOLDER

Its classes are asked for their fields; what other code reads by name is seen by handing it
dictionaries that note the keys they are asked for. Each key has a value that differs from the
default, of a type that the class accepts, or none where only a name is known. Of classes and of
the file's top it is recorded which keys may not be null.
Runs with DeepSpeed 0.19.8 (torch 2.15), and 0.9.0 (with pydantic 1).
"""
import contextlib
import enum
import io
import json
import os
import sys
import typing

os.environ["DS_ACCELERATOR"] = "cpu"
import numpy

numpy.BUFSIZE = getattr(numpy, "BUFSIZE", 8192)  # imported, but not used, by the old one
import deepspeed
from deepspeed.runtime.config import DeepSpeedConfig
from deepspeed.runtime.config_utils import DeepSpeedConfigModel

SECTIONS = {  # where a file has the fields of a class; None: in no file
    "DeepSpeedZeroConfig": ["zero_optimization"],
    "DeepSpeedZeroOffloadParamConfig": ["zero_optimization.offload_param"],
    "DeepSpeedZeroOffloadOptimizerConfig": ["zero_optimization.offload_optimizer"],
    "DeepSpeedZeroLeafModuleConfig": ["zero_optimization.leaf_module"],
    "ZenFlowConfig": ["zero_optimization.zenflow"],
    "DeepSpeedFP16Config": ["fp16"],
    "DeepSpeedBF16Config": ["bf16"],
    "HybridEngineConfig": ["hybrid_engine"],
    "TensorBoardConfig": ["tensorboard"],
    "WandbConfig": ["wandb"],
    "CSVConfig": ["csv_monitor"],
    "CometConfig": ["comet"],
    "CommsLoggerConfig": ["comms_logger"],
    "DeepSpeedFlopsProfilerConfig": ["flops_profiler"],
    "DeepSpeedThroughputTimerConfig": ["timers.throughput"],
    "CompileConfig": ["compile"],
    "TPTrainingConfig": ["tensor_parallel"],
    "TPConfig": ["tensor_parallel.tensor_parallel", "tensor_parallel.tp"],
    "DeepSpeedMonitorConfig": None,  # its fields are sections of the file's top
}
MODES = ["weight_quantization", "activation_quantization", "sparse_pruning", "row_pruning",
         "head_pruning", "channel_pruning"]
# Sections that other code reads by name; what is on lets it read on.
BY_NAME = {
    "optimizer": {"type": "Adam", "params": {"max_grad_norm": 0.0}},
    "scheduler": {"type": "WarmupLR", "params": {}},
    "activation_checkpointing": {}, "aio": {}, "checkpoint": {"writer": {}}, "data_types": {},
    "pipeline": {}, "datastates_ckpt": {}, "torch_autocast": {"enabled": True},
    "expert_parallel": {"enabled": True, "autoep_size": 1},
    "data_efficiency": {"enabled": True, "data_sampling": {"curriculum_learning": {}},
                        "data_routing": {"random_ltd": {"enabled": False}}},
    "sparse_attention": {"mode": "fixed"}, "amp": {"enabled": False}, "autotuning": {},
    "elasticity": {"enabled": True, "max_train_batch_size": 8, "micro_batch_sizes": [1],
                   "version": 0.2, "ignore_non_elastic_batch_info": True}, "flops_profiler": {},
    "fp16": {"enabled": True}, "bf16": {"enabled": True}, "progressive_layer_drop": {"enabled": True}, "eigenvalue": {"enabled": True},
    "curriculum_learning": {"enabled": False}, "quantize_training": {}, "nebula": {},
    "compression_training": {mode: {"shared_parameters": {}, "different_groups": {}} for mode in MODES},
}


def subclasses(base):
    for one in base.__subclasses__():
        yield one
        yield from subclasses(one)


def accepted(model, key, value, default):
    if value == default:
        return False
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            made = model(**{key: value})
        json.dumps(value)
        return made is not None
    except Exception:
        return False


def candidates(annotation, default):
    if isinstance(default, bool):
        yield not default
    elif isinstance(default, (int, float)):
        yield from (70, 2, 0.5)
    for part in (annotation, *typing.get_args(annotation)):
        if isinstance(part, type) and issubclass(part, enum.Enum):
            yield from (member.value for member in part)
    yield from (True, False, 70, 0.5, 2, "cpu", "/a", "liger", "bf16", ["a"], {"a": 1}, {})


def fields_of(model):
    """Field or alias -> a value other than the default, or None."""
    found = {}
    new = hasattr(model, "model_fields")
    for name, field in (model.model_fields if new else model.__fields__).items():
        annotation = field.annotation if new else field.outer_type_
        default = field.default
        for key in dict.fromkeys([name, field.alias or name]):
            good = (v for v in candidates(annotation, default) if accepted(model, key, v, default))
            found[key] = next(good, None)
    return found


class Noting(dict):
    """Notes what it is asked for, and answers as its content says."""

    def __init__(self, content, path, asked):
        super().__init__({key: Noting(value, f"{path}{key}.", asked)
                          if isinstance(value, dict) else value for key, value in content.items()})
        self.path, self.asked = path, asked

    def note(self, key):
        if isinstance(key, str):
            self.asked.add(self.path + key)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __contains__(self, key):
        self.note(key)
        return super().__contains__(key)

    def __getitem__(self, key):
        self.note(key)
        return super().__getitem__(key)

    def get(self, key, default=None):
        self.note(key)
        return super().get(key, default)

    def keys(self):
        return Keys(self)


class Keys:
    def __init__(self, noting):
        self.noting = noting

    def __contains__(self, key):
        return key in self.noting

    def __iter__(self):
        return iter(list(dict.keys(self.noting)))


def by_name():
    asked = set()
    for section, content in [("", {}), *BY_NAME.items(), ("zero_optimization", True)]:
        config = {"train_batch_size": 1}
        if section:
            config[section] = content
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                DeepSpeedConfig(Noting(config, "", asked))
            except Exception as error:  # what is removed says so, after it has been asked for
                print(section, type(error).__name__, str(error)[:90], file=sys.stderr)
    return asked


def takes(path, value):
    config = {"train_batch_size": 1}
    inner = config
    for section in path.split(".")[:-1]:
        inner = inner.setdefault(section, {})
    inner[path.split(".")[-1]] = value
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            DeepSpeedConfig(config)
        return True
    except Exception:
        return False


def main():
    deepspeed.comm.get_rank, deepspeed.comm.get_world_size = lambda: 0, lambda *group: 1
    keys = {key: None for key in sorted(by_name())}
    for model in subclasses(DeepSpeedConfigModel):
        if model.__module__.startswith("deepspeed.inference"):
            continue
        for section in SECTIONS[model.__name__] or []:
            keys.update({f"{section}.{key}": value for key, value in fields_of(model).items()})
    read_by_class = {section for sections in SECTIONS.values() for section in sections or []}
    of_class = [key for key in keys if "." not in key or key.rpartition(".")[0] in read_by_class]
    not_null = [key for key in of_class if not takes(key, None)]
    folder = sys.argv[1]
    with open(f"{folder}/{deepspeed.__version__}.json", "w", encoding="utf-8") as file:
        json.dump({"deepspeed": deepspeed.__version__, "keys": keys, "not_null": not_null}, file,
                  indent=0)
        file.write("\n")
    print(len(keys), "keys")


main()
