# SPDX-License-Identifier: Apache-2.0
"""What was found, for programs and for people."""
import json
import os
import time

from gpu_check import bars


def shown(value):
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int) and abs(value) >= 10_000:
        return f"{value:,}"
    return str(value)


def words(result):
    figures = "; ".join(f"{key} {shown(value)}" for key, value in result.get("figures", {}).items()
                        if value is not None)
    return figures if result["state"] == "passed" else "; ".join(
        part for part in (result.get("why", ""), figures) if part)


def line(result):
    return f"{result['name']}: {result['state']} ({result['seconds']} s) {words(result)}"


def table(results, dry):
    machine = results[0]["figures"]
    lines = [
        "# What a GPU shows", "",
        f"`scripts/gpu-check`, {time.strftime('%Y-%m-%d')}, on "
        + "; ".join(f"{key} {value}" for key, value in machine.items()) + ".", "",
        "| asked of a GPU | found | bar | verdict |", "| --- | --- | --- | --- |"]
    for row in bars.rows(results[1:], shown, dry):
        lines.append("| " + " | ".join(cell.replace("|", "/") for cell in row) + " |")
    lines += [
        "", "## Parts", "",
        "| part | state | seconds | what was found |", "| --- | --- | --- | --- |"]
    for result in results[1:]:
        found = words(result).replace("|", "/")
        lines.append(f"| {result['name']} | {result['state']} | {result['seconds']} | {found} |")
    return "\n".join(lines) + "\n"


def replace(path, text):
    """As a whole: whoever looks, or comes after a kill, finds the old text or the new one."""
    fresh = path.with_suffix(path.suffix + ".new")
    fresh.write_text(text)
    os.replace(fresh, path)


def write(folder, results, dry):
    folder.mkdir(parents=True, exist_ok=True)
    replace(folder / "gpu-check.json", json.dumps(results, indent=1) + "\n")
    replace(folder / "gpu-check.md", table(results, dry))
