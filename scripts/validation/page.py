# SPDX-License-Identifier: Apache-2.0
"""docs/validation.md, its picture and the families that the program quotes."""
import json
import math

from . import collectives
from .figures import groups, kendall_tau, left_out, mean, p90

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f",
           "#bcbd22", "#e377c2", "#000000")
# Profiles whose numbers come from rows of their family.
FITTED = {"mosaic", "deepspeed", "megatron", "torchtitan", "torchtitan-compile", "fused"}
NOTES = {
    "InternEvo, zero1 over all ranks":
        "Said as `sharded_data_parallel`: InternEvo gives whole parameters to ranks and broadcasts "
        "what they have stepped (hybrid_zero_optim.py), though it reduces by all_reduce and not to "
        "the owner. As `zero1`, which cuts a slice for each of 1,024 ranks, that run is 66 % too "
        "slow.",
    "fsdp_qlora, LoRA":
        "AnswerDotAI's benchmarks of March 2024. Nothing was fitted to these rows, nor to those of "
        "QLoRA; paths of their own for the sockets of RTX A5000, and what a power limit leaves of "
        "the RTX 6000 Ada and 3090, came after seeing them. Said as `fully_shard`: fsdp_qlora wraps "
        "every adapter apart, inside of blocks that are units, so that FSDP1 gathers adapters one "
        "by one and reduces them alone.",
    "LLaMA-Factory + DeepSpeed, single":
        "Checkpointed and with Liger's kernels, which its defaults and the table's title say.",
    "Megatron-Bridge, data parallel":
        "Nothing was fitted to these rows. 70B on GB200 and GB300 offloads the activations of 40 "
        "and 20 layers (`cpu_offloading_num_layers` of its recipes).",
    "torchtitan FSDP2, fsdp2 full shard":
        "`torchtitan` was fitted to two eager rows; those of fp8 and of `torchtitan-compile` were "
        "not looked at before.",
}
HEADER = """# Validation

Made by `scripts/validate ROWS` from published rows, which are not part of the project.
error = simulated / measured - 1.

**In-sample:** no row has a number of its own in the program, but the numbers of the profiles `mosaic`, `deepspeed`, `megatron`, `torchtitan`, `fused` and of the clusters were fitted on these rows or on a part of them.
*Left out* is the 9-in-10 error where each system (GPU and model) is scaled by the one factor that fits all other systems: it shows how far systems of a family differ among each other, not how far a stack is off that nobody measured.
*Order* is Kendall's tau of step times (1: all pairs of rows are in the measured order; rows that are one simulation are no pair).
"""


def write(root, rows, refused, measured):
    done = [r for r in rows if r.error is not None]
    text = [HEADER]
    text += summary(done) + ["![simulated over measured](pictures/validation.svg)", ""]
    text += collectives.page(measured) if measured else []
    text += unsaid(rows, refused) + details(done)
    (root / "docs/validation.md").write_text("\n".join(text).rstrip() + "\n")
    (root / "docs/pictures/validation.svg").write_text(picture(done))


def cells_of(rows):
    errors = [r.error for r in rows]
    others, tau = left_out(rows), kendall_tau(rows)
    return [len(rows), f"{mean(list(map(abs, errors))):.1%}", f"{mean(errors):+.1%}",
            f"{p90(errors):.1%}", f"{p90(others):.1%}" if others else "–",
            f"{max(map(abs, errors)):.0%}", "–" if tau is None else f"{tau:.2f}",
            sum(not r.fits for r in rows)]


def summary(done):
    out = ["## Step times", "",
           "| family | profile | rows | mean | bias | 9 in 10 | left out | worst | order | "
           "do not fit |", "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for (family, profile), same in groups(done, lambda r: (r.family, r.profile)).items():
        out.append("| " + " | ".join(map(str, [family, profile, *cells_of(same)])) + " |")
    fitted = [r for r in done if r.profile in FITTED]
    for name, some in (("**all of profiles that were fitted to their rows**", fitted),
                       ("**all of others**", [r for r in done if r.profile not in FITTED]),
                       ("**all**", done)):
        if some:
            out.append("| " + " | ".join(map(str, [name, "", *cells_of(some)])) + " |")
    return out + [""]


def unsaid(rows, refused):
    out = ["## Rows that cannot be said", "", "| table | rows | why |", "| --- | --- | --- |"]
    out += [f"| {table} | {n} | {why} |" for (table, why), n in sorted(refused.items())]
    out += [f"| {r.family} | 1 | {r.name}: {r.refused} |" for r in rows if r.error is None]
    return out + [""]


def details(done):
    out = []
    for family, same in groups(done, lambda r: r.family).items():
        out += [f"## {family}", ""]
        out += [NOTES[family], ""] if family in NOTES else []
        out += ["| run | measured s | simulated s | error |",
                "| --- | --- | --- | --- |"]
        out += [f"| {r.name} | {r.seconds:.3f} | {r.predicted:.3f} | {r.error:+.1%} |"
                for r in sorted(same, key=lambda r: r.name)]
        out += [""]
    return out


# Of a trace's options: what families say in another way, or what changes no time worth a word.
NOT_COMPARED = {"cluster", "nodes", "profile", "validated", "steps", "seed", "jitter", "slow_ranks",
                "batch", "sequence_length", "accumulation", "passes", "max_grad_norm",
                "optimizer_states", "checkpointing", "recompute", "offload_activations"}


def text_of(value):
    """As the program compares the value of an option (sim/validation/simulated_run.cpp)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "given" if value else "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def options_of(rows):
    """By name, the values that any of these runs had."""
    seen = {}
    for row in rows:
        for name, value in row.report["options"].items():
            if name not in NOT_COMPARED:
                seen.setdefault(name, set()).add(text_of(value))
    return {name: sorted(values) for name, values in sorted(seen.items())}


def families(rows, measured, memory):
    """What the program says of its own error; `memory` was compared elsewhere."""
    done = [r for r in rows if r.error is not None]
    out = []
    for (family, profile, gpu, offload), same in groups(
            done,
            lambda r: (r.family, r.profile, r.report["gpu"], r.sizes()["offload"])).items():
        span = lambda key: [min(r.report[key] for r in same), max(r.report[key] for r in same)]
        others = left_out(same)
        sizes = [r.sizes() for r in same]
        between = lambda key: [min(s[key] for s in sizes), max(s[key] for s in sizes)]
        out.append({"name": family, "profile": profile, "gpu": gpu,
                    "clusters": sorted({r.cluster_name() for r in same}),
                    "schemes": sorted({r.report["scheme"] for r in same}),
                    "ranks": span("ranks"), "parameters": span("parameters"),
                    "sequence": between("sequence"), "tokens": between("tokens"),
                    "checkpointing": sorted({s["checkpointing"] for s in sizes}),
                    "offload": offload, "frozen": sizes[0]["frozen"],
                    "micro_batches": between("micro_batches"), "fitted": profile in FITTED,
                    "options": options_of(same), "rows": len(same),
                    "p90": round(max(p90([r.error for r in same]), p90(others) if others else 0),
                                 3)})
    errors = [r.error for r in done if r.profile not in FITTED]
    unfitted = {"rows": len(errors), "p90": round(p90(errors), 3) if errors else 0}
    lines = lambda items: ",\n".join("    " + json.dumps(item) for item in items)
    return ('{\n  "families": [\n' + lines(out) + '\n  ],\n  "unfitted": ' + json.dumps(unfitted)
            + ',\n  "memory": [\n' + lines(memory)
            + '\n  ],\n  "collectives": [\n' + lines(collectives.families(measured)) + "\n  ]\n}\n")


def picture(done):
    if not done:
        return ""
    low = math.floor(min(math.log10(min(r.seconds, r.predicted)) for r in done))
    high = math.ceil(max(math.log10(max(r.seconds, r.predicted)) for r in done))
    place = lambda seconds: 440 * (math.log10(seconds) - low) / max(1, high - low)
    names = sorted({r.family for r in done})
    colour = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="540" height="560" '
           'font-family="sans-serif" font-size="11"><rect width="540" height="560" fill="white"/>',
           '<path d="M60 500H500M60 500V60" stroke="#444"/>',
           '<line x1="60" y1="500" x2="500" y2="60" stroke="#999"/>']
    for power in range(low, high + 1):
        at = place(10.0**power)
        label = f"{10.0**power:g} s"
        out += [f'<text x="{60 + at:.0f}" y="516" text-anchor="middle">{label}</text>',
                f'<text x="54" y="{504 - at:.0f}" text-anchor="end">{label}</text>',
                f'<path d="M{60 + at:.0f} 500v4M56 {500 - at:.0f}h4" stroke="#444"/>']
    for r in sorted(done, key=lambda r: (r.family, r.name)):
        out.append(f'<circle cx="{60 + place(r.seconds):.1f}" cy="{500 - place(r.predicted):.1f}" '
                   f'r="2.5" fill="{colour[r.family]}" fill-opacity=".6"/>')
    for i, name in enumerate(names):
        out.append(f'<circle cx="70" cy="{66 + 14 * i}" r="3" fill="{colour[name]}"/>'
                   f'<text x="78" y="{70 + 14 * i}">{name}</text>')
    out += ['<text x="280" y="540" text-anchor="middle">measured step time</text>',
            '<text x="18" y="280" text-anchor="middle" transform="rotate(-90 18 280)">simulated '
            'step time</text>', "</svg>"]
    return "\n".join(out) + "\n"
