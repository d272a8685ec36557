# SPDX-License-Identifier: Apache-2.0
"""Figures of errors (predicted / measured - 1) and of order."""
import math


def mean(values):
    return sum(values) / len(values)


def p90(errors):
    ordered = sorted(map(abs, errors))
    return ordered[max(0, math.ceil(0.9 * len(ordered)) - 1)]


def groups(rows, key):
    out = {}
    for row in rows:
        out.setdefault(key(row), []).append(row)
    return dict(sorted(out.items()))


def left_out(rows):
    """Errors of every system under the one factor that fits all other systems; [] for one."""
    systems = groups(rows, lambda row: row.system)
    if len(systems) < 2:
        return []
    out = []
    for system, inside in systems.items():
        logs = [math.log(1 + row.error) for row in rows if row.system != system]
        factor = math.exp(-mean(logs))
        out += [(1 + row.error) * factor - 1 for row in inside]
    return out


def kendall_tau(rows):
    """Of pairs of rows, how many more are in the measured order than are not; None for one row.
    Rows that are one simulation, as of another container, are no pair: nothing orders them."""
    agree = total = 0
    for i, a in enumerate(rows):
        for b in rows[:i]:
            measured = a.seconds - b.seconds
            if measured == 0 or a.key() == b.key():
                continue
            total += 1
            predicted = a.predicted - b.predicted
            agree += 1 if predicted * measured > 0 else -1 if predicted * measured < 0 else 0
    return agree / total if total else None
