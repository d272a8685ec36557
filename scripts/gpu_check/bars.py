# SPDX-License-Identifier: Apache-2.0
"""What is asked of a GPU, one line each: what, which part finds it, by which figures."""
from gpu_check import bench_parts, option_parts, test_parts, torch_parts

BARS = [  # what; part; figures; asked
    ("losses in float32, of the CPU's", "losses", ("largest relative difference",),
     f"at most {test_parts.LOSS_BAR:.0e} in 100 steps"),
    ("a run repeated, deterministic", "repeats", ("weights",), "bitwise equal"),
    ("kernels against their CPU twins", "kernels", ("tests",), "all pass"),
    ("products in fp8, likewise", "fp8", ("tests",), "all pass"),
    ("attention's kernels for Hopper, likewise", "hopper", ("tests",), "all pass"),
    ("ranks that share the GPU", "ranks", ("worlds", "ranks"), "as the simulator, 1 to 3 ranks"),
    ("parameters in files, through host memory and past it", "files",
     ("through host memory", "past host memory"), "the losses of a run without files"),
    ("compute-sanitizer", "sanitizer", test_parts.SANITIZER_TOOLS, "no error in any kernel"),
    ("GPT-2 124M tokens/s", "throughput", ("tokens/s", "model", "batch", "length", "dtype"),
     "a figure"),
    ("of PyTorch eager", "pytorch", ("to eager",), "a figure"),
    ("of torch.compile", "pytorch", ("to compile",), f"at least {torch_parts.COMPILE_BAR:.1f}"),
    ("matrix products' share of the step", "pytorch", ("their share of the step",), "a figure"),
    ("MFU", "throughput", ("MFU",), "a figure"),
    ("step with sharding, of one without", "overhead", ("fully_shard to no_shard",),
     f"at most {bench_parts.OVERHEAD_BAR}"),
    ("copies of offloading, of plain pinned ones", "copies",
     ("to_host, of plain", "to_device, of plain"), f"at least {bench_parts.COPIES_BAR}"),
    ("simulated step time, of the measured", "simulated", ("of measured",),
     f"within {bench_parts.SIMULATED_BAR:.0%}"),
    ("memory, simulated and real", "memory", ("bytes",), "equal to the byte"),
    ("tokens/s plain, with windows, with CUDA graphs, in fp8, with Hopper's attention", "options",
     tuple(f"{way}: tokens/s" for way in option_parts.WAYS), "a figure"),
    ("exposed communication, likewise", "options",
     tuple(f"{way}: exposed share" for way in option_parts.WAYS), "a figure"),
    ("tokens/s of 2 ranks on the GPU, plain, with CUDA graphs", "options",
     tuple(f"2 ranks, {way}: tokens/s" for way in option_parts.SHARED_WAYS), "a figure"),
    ("exposed communication of 2 ranks, plain, with CUDA graphs", "options",
     tuple(f"2 ranks, {way}: exposed share" for way in option_parts.SHARED_WAYS), "a figure"),
]


def verdict(result, asked, found, dry):
    """`found`: there are figures."""
    if result is None:
        return "not tried"
    if result["state"] == "skipped":
        return f"not tried: {result['why']}"
    if dry:
        return "dry run" if result["state"] == "passed" else f"dry run failed: {result['why']}"
    if asked == "a figure":
        return "measured" if found else f"not measured: {result.get('why', '')}"
    return "met" if result["state"] == "passed" else f"**not met**: {result['why']}"


def rows(results, shown, dry):
    """What, figures, asked, verdict: of every bar."""
    by_name = {result["name"]: result for result in results}
    for what, part, keys, asked in BARS:
        result = by_name.get(part)
        figures = (result or {}).get("figures", {})
        found = [shown(figures[key]) for key in keys if figures.get(key) is not None]
        yield what, "; ".join(found) or "-", asked, verdict(result, asked, found, dry)


def unknown(results):
    """Figures that a bar names and its part, which passed, does not know."""
    by_name = {result["name"]: result for result in results if result["state"] == "passed"}
    return [f"{part}: {key}" for _, part, keys, _ in BARS for key in keys
            if part in by_name and key not in by_name[part]["figures"]]
