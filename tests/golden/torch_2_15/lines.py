# SPDX-License-Identifier: Apache-2.0
"""Rank 0's lines, and how functions of torch are listened to."""
import torch

LINES = []
DTYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}


def wrap(owner, name, before=None, after=None):
    original = getattr(owner, name)

    def called(*args, **kwargs):
        if before:
            before(*args, **kwargs)
        result = original(*args, **kwargs)
        if after:
            after(*args, **kwargs)
        return result

    setattr(owner, name, called)
