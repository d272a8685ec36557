#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's float8_e4m3fn makes of numbers, and products of matrices rounded to it.

    tools/fp8_truth.py > tests/golden/fp8.json

Scales are the smallest powers of two by which a tile's numbers become at most 448; a tile is 128
numbers along the sum, or 128 x 128 of a weight (DeepSeek-V3, Transformer Engine's
Float8BlockScaling). Sums are float64. Numbers of matrices follow from their place (`number` of
tests/training/kernels/fp8_test.cpp), so that the file holds results alone."""
import json

import numpy
import torch

SIDE = 128
SIZES = [(3, 5, 300), (130, 2, 129), (1, 131, 7)]  # m, n, k


def codes_of(numbers):
    return torch.tensor(numbers, dtype=torch.float32).to(torch.float8_e4m3fn).view(torch.uint8)


def number(place, seed):
    share = numpy.float32((place * 7919 + seed * 104729) % 2003 - 1001) / numpy.float32(1001)
    return share * numpy.float32(2.0 ** ((place * 31 + seed) % 13 - 6))


def matrix(rows, columns, seed):
    return torch.tensor(numpy.array([[number(r * columns + c, seed) for c in range(columns)]
                                     for r in range(rows)], dtype=numpy.float32))


def scale_of(tile):
    largest, scale = float(tile.abs().max()), 2.0 ** -126
    while largest > 448 * scale:
        scale *= 2
    return scale if largest > 0 else 1.0


def rounded(x, rows, columns):
    out = torch.empty(x.shape, dtype=torch.float64)
    for r in range(0, x.shape[0], rows):
        for c in range(0, x.shape[1], columns):
            tile = x[r:r + rows, c:c + columns]
            scale = scale_of(tile)
            codes = (tile / scale).to(torch.float8_e4m3fn)
            out[r:r + rows, c:c + columns] = codes.to(torch.float64) * scale
    return out


def main():
    decoded = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).to(torch.float32)
    finite = sorted({abs(v) for v in decoded.tolist() if v == v})
    between = [(a + b) / 2 for a, b in zip(finite, finite[1:])]  # ties
    asked = [*finite, *between, *(b * (1 + 2.0 ** -20) for b in between),
             *(b * (1 - 2.0 ** -20) for b in between), 2.0 ** -126, 2.0 ** -149]
    asked = [sign * x for x in asked for sign in (1, -1)]
    products = []
    for m, n, k in SIZES:
        a, b = matrix(m, k, 1), matrix(k, n, 2)
        for weight in (False, True):
            c = rounded(a, 1, SIDE) @ (rounded(b, SIDE, SIDE) if weight else rounded(b, SIDE, 1))
            products.append({"m": m, "n": n, "k": k, "weight": weight,
                             "c": [float(numpy.float32(x)) for x in c.flatten()]})
    print(json.dumps({"torch": torch.__version__,
                      "decoded": [None if x != x else x for x in decoded.tolist()],
                      "asked": asked, "codes": codes_of(asked).tolist(), "products": products}))


if __name__ == "__main__":
    main()
