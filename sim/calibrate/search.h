// SPDX-License-Identifier: Apache-2.0
// A search along one number after the other: enough where a handful of numbers have a meaning, and
// the same on every machine.
#pragma once

#include <algorithm>
#include <vector>

namespace tessera::sim {

/// A number of a `T` that may move, and by how much at first.
template <class T>
struct Knob {
  double (*get)(const T&);
  void (*set)(T&, double);
  double least, most, step;
};

#define TESSERA_KNOB(Type, member, least, most, step)                                          \
  tessera::sim::Knob<Type> {                                                                   \
    [](const Type& c) { return static_cast<double>(c.member); },                               \
        [](Type& c, double v) { c.member = static_cast<decltype(c.member)>(v); }, least, most, \
        step                                                                                   \
  }

/// The `T` of the least error that is found; halves the steps as long as no knob helps.
template <class T, class Error>
T search(T best, const std::vector<Knob<T>>& knobs, const Error& error_of) {
  constexpr int rounds_max = 400;
  constexpr double finest = 1.0 / 256;
  double error = error_of(best);
  double scale = 4;
  for (int round = 0; round < rounds_max && scale > finest; ++round) {
    bool better = false;
    for (const Knob<T>& knob : knobs) {
      for (const double direction : {1.0, -1.0}) {
        T tried = best;
        const double moved = knob.get(best) + direction * scale * knob.step;
        knob.set(tried, std::clamp(moved, knob.least, knob.most));
        const double found = error_of(tried);
        if (found >= error) continue;
        best = tried;
        error = found;
        better = true;
      }
    }
    if (!better) scale /= 2;
  }
  return best;
}

}  // namespace tessera::sim
