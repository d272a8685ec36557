# SPDX-License-Identifier: Apache-2.0
# Makes values.p0 ... values.p5, one value by every protocol of pickles, and values.txt, what a
# reader has to find in each:
#
#   python3 make_pickles.py
import collections
import pickle


class Thing:
    def __init__(self):
        self.size = 7


shared = [1, 2]
numbers = [0, 1, -1, 255, 256, 65535, 65536, 2**29 - 1, 2**29, -2**29, -2**29 - 1, 2**31 - 1,
           -2**31, 2**40, 2**62, 2**63 - 1, -2**63, True, False, None, 1.5, -0.25, 1e300]
value = {
    "numbers": numbers,
    "beyond": 2**70,
    "texts": ["", "plain", "tab\t line\n quote' \\ back", "\u00e9\u6f22\U0001f600", b"bytes\x00"],
    "tuples": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
    "sets": [{1}, frozenset([2])],
    "shared": [shared, shared],
    "long": list(range(2500)),
    "ordered": collections.OrderedDict([("a", 1), ("b", 2)]),
    "counted": collections.Counter({"x": 3}),
    "thing": Thing(),
    5: "a key that is a number",
}

for protocol in range(6):
    with open(f"values.p{protocol}", "wb") as out:
        pickle.dump(value, out, protocol)
