#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The simulator's peak of fully_shard's memory beside that of PyTorch's FSDPMemTracker.

    python3 tests/bench/torch_memory.py build/release/tessera

Needs torch (a CPU build will do: tensors are fake, and so are the 8 ranks). Norms and dropout keep
for backward what their CUDA kernels keep; PyTorch's CPU kernels keep more.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

GPT2 = {"architectures": ["GPT2LMHeadModel"], "vocab_size": 50257, "n_positions": 1024,
        "n_embd": 768, "n_layer": 12, "n_head": 12, "n_inner": 3072}
LLAMA = {"architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 4096,
         "num_hidden_layers": 32, "intermediate_size": 14336, "num_attention_heads": 32,
         "num_key_value_heads": 8, "max_position_embeddings": 8192, "torch_dtype": "bfloat16"}
# model, batch, sequence, checkpointed, dtype of the reduction, reshard after forward
CASES = [("gpt2", 1, 256, False, "fp32", "auto"), ("gpt2", 4, 1024, False, "fp32", "auto"),
         ("gpt2", 4, 1024, True, "fp32", "auto"), ("gpt2", 4, 1024, False, "bf16", "never"),
         ("llama", 1, 256, False, "fp32", "auto"), ("llama", 1, 2048, False, "fp32", "auto"),
         ("llama", 2, 4096, False, "fp32", "auto"), ("llama", 1, 8192, True, "fp32", "auto"),
         ("llama", 1, 2048, False, "bf16", "always"), ("llama", 1, 2048, False, "fp32", "never")]
RANKS = 8


def models():
    """Classes of both models, of plain torch modules."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class RowNorm(torch.autograd.Function):
        """Keeps its input, its weight and a number per row."""

        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight, x.new_empty(x.shape[:-1], dtype=torch.float32))
            return torch.empty_like(x)

        @staticmethod
        def backward(ctx, grad):
            x, weight, _ = ctx.saved_tensors
            return torch.empty_like(x), torch.empty_like(weight)

    class ByteMask(torch.autograd.Function):
        """Dropout that keeps a byte per element."""

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(torch.empty_like(x, dtype=torch.bool))
            return torch.empty_like(x)

        @staticmethod
        def backward(ctx, grad):
            return torch.empty_like(grad)

    class Norm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(width))

        def forward(self, x):
            return RowNorm.apply(x, self.weight)

    def attend(q, k, v):
        """q, k, v: batch, tokens, heads, size."""
        shape = q.shape
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                             enable_gqa=q.shape[1] != k.shape[1])
        return out.transpose(1, 2).reshape(*shape[:2], -1)

    class LlamaBlock(nn.Module):
        def __init__(self, c):
            super().__init__()
            width, inner = c["hidden_size"], c["intermediate_size"]
            self.size = width // c["num_attention_heads"]
            narrow = self.size * c["num_key_value_heads"]
            self.norms = nn.ModuleList(Norm(width) for _ in range(2))
            shapes = {"q": (width, width), "k": (width, narrow), "v": (width, narrow),
                      "o": (width, width), "gate": (width, inner), "up": (width, inner),
                      "down": (inner, width)}
            for name, (rows, columns) in shapes.items():
                setattr(self, name, nn.Linear(rows, columns, bias=False))

        def heads(self, x):
            return x.view(*x.shape[:2], -1, self.size)

        def rotate(self, x, cos, sin):
            left, right = x.chunk(2, -1)
            return x * cos + torch.cat((-right, left), -1) * sin

        def forward(self, x, cos, sin):
            y = self.norms[0](x)
            q, k = (self.rotate(self.heads(t(y)), cos, sin) for t in (self.q, self.k))
            x = x + self.o(attend(q, k, self.heads(self.v(y))))
            y = self.norms[1](x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    class Llama(nn.Module):
        def __init__(self, c, tokens):
            super().__init__()
            width = c["hidden_size"]
            self.embed = nn.Embedding(c["vocab_size"], width)
            self.layers = nn.ModuleList(
                LlamaBlock(c) for _ in range(c["num_hidden_layers"]))
            self.norm = Norm(width)
            self.head = nn.Linear(width, c["vocab_size"], bias=False)
            for name in ("cos", "sin"):
                table = torch.empty(tokens, 1, self.layers[0].size, dtype=torch.bfloat16)
                self.register_buffer(name, table)

        def forward(self, x):
            x = self.embed(x)
            for layer in self.layers:
                x = layer(x, self.cos, self.sin)
            return self.head(self.norm(x))

    class GptBlock(nn.Module):
        def __init__(self, c):
            super().__init__()
            width = c["n_embd"]
            self.heads = c["n_head"]
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            parts = self.qkv(self.norms[0](x)).chunk(3, -1)
            q, k, v = (t.view(*t.shape[:2], self.heads, -1) for t in parts)
            x = x + ByteMask.apply(self.o(attend(q, k, v)))
            y = F.gelu(self.up(self.norms[1](x)), approximate="tanh")
            return x + ByteMask.apply(self.down(y))

    class Gpt(nn.Module):
        def __init__(self, c, _tokens):
            super().__init__()
            width = c["n_embd"]
            self.tokens = nn.Embedding(c["vocab_size"], width)
            self.places = nn.Embedding(c["n_positions"], width)
            self.layers = nn.ModuleList(GptBlock(c) for _ in range(c["n_layer"]))
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, c["vocab_size"], bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, x):
            x = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
            for layer in self.layers:
                x = layer(x)
            return self.head(self.norm(x))

    return {"gpt2": Gpt, "llama": Llama}


def tracked(case):
    """Bytes at the peak of the second step's forward and backward, by PyTorch."""
    import torch
    import torch.distributed as dist
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    kind, batch, tokens, checkpointed, reduction, reshard = case
    dist.init_process_group("fake", rank=0, world_size=RANKS, store=FakeStore())
    mesh = init_device_mesh("cpu", (RANKS,))
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16,
        reduce_dtype={"fp32": torch.float32, "bf16": torch.bfloat16}[reduction])
    with FakeTensorMode():
        model = models()[kind](GPT2 if kind == "gpt2" else LLAMA, tokens)
        for k, layer in enumerate(model.layers):
            if checkpointed:
                layer = model.layers[k] = checkpoint_wrapper(layer, preserve_rng_state=False)
            fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard != "never")
        root = {} if reshard == "auto" else {"reshard_after_forward": reshard == "always"}
        fully_shard(model, mesh=mesh, mp_policy=policy, **root)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        x, y = (torch.randint(0, 1000, (batch, tokens)) for _ in range(2))
        tracker = FSDPMemTracker(model, optimizer)
        tracker.track_inputs((x, y))
        with tracker:
            for step in range(2):
                out = model(x)
                loss = torch.nn.functional.cross_entropy(out.float().flatten(0, 1), y.flatten())
                del out
                loss.backward()
                if step > 0:
                    break
                optimizer.step()  # states exist from now on; the step itself is not compared
                optimizer.zero_grad()
                tracker.reset_mod_stats()
                for device in tracker._peak_mem:
                    tracker._peak_mem[device] = 0
        (peak,) = tracker.get_tracker_snapshot("peak").values()
    return peak["Total"]


def simulated(program, case, folder):
    kind, batch, tokens, checkpointed, reduction, reshard = case
    model = folder / "config.json"
    model.write_text(json.dumps(GPT2 if kind == "gpt2" else LLAMA))
    command = [program, "simulate", model, "--cluster", "dgx-h100", "--steps", 3,
               "--record-ranks", "none", "--json", "-o", folder / "run.tessera", "--batch", batch,
               "--sequence-length", tokens, "--reduce-dtype", reduction,
               "--reshard-after-forward", reshard]
    command += ["--checkpointing", "full"] if checkpointed else []
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        sys.exit(done.stderr)
    return max(g["allocated_bytes"] for g in json.loads(done.stdout)["memory"]["groups"])


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--torch":  # of one case, in a process of its own
        print(tracked(CASES[int(sys.argv[2])]))
        return
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    errors = []
    with tempfile.TemporaryDirectory() as name:
        for k, case in enumerate(CASES):
            ours = simulated(sys.argv[1], case, pathlib.Path(name))
            done = subprocess.run([sys.executable, __file__, "--torch", str(k)],
                                  capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(done.stderr)
            torch_peak = int(done.stdout.splitlines()[-1])
            errors.append(ours / torch_peak - 1)
            print(f"{' '.join(map(str, case)):36} torch {torch_peak / 2**20:9.1f} MiB, simulated "
                  f"{ours / 2**20:9.1f} MiB, {errors[-1]:+.1%}", flush=True)
    worst = max(errors, key=abs)
    print(f"mean {sum(map(abs, errors)) / len(errors):.2%}, worst {worst:+.1%}")


if __name__ == "__main__":
    main()
