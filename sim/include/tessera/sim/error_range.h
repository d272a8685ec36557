// SPDX-License-Identifier: Apache-2.0
// How far a simulated step time may be from the real one, by what published runs near it showed.
//
//   const auto range = error_range({.profile = "mosaic", .gpu = "H100 SXM 80 GB", ...});
//   range->text;   // "step time within 10 % of 9 in 10 measured runs: 35 of ..."
#pragma once

#include <optional>
#include <string>

#include "tessera/types.h"

namespace tessera::sim {

struct SimulatedRun {
  std::string profile, gpu, scheme;
  Rank ranks = 1;
  Numel parameters{};
};

struct ErrorRange {
  bool near = false;  // whether runs like it were validated
  double p90 = 0;     // of 10 validated runs, 9 are nearer: 0.1 is 10 %
  std::string text;   // a sentence
};

/// From the family of validated runs (docs/validation.md) that is nearest; a sentence that says so
/// where none is near. None, if there are no families at all.
std::optional<ErrorRange> error_range(const SimulatedRun& run);

}  // namespace tessera::sim
