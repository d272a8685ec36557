// SPDX-License-Identifier: Apache-2.0
// The learning rate of every step.
//
// The idea: a pure function of the step, without libm, so that it is the same bits everywhere and a
// resumed run goes on where it was.
//
//   LearningRate rate{.schedule = LearningRate::Schedule::cosine, .peak = 3e-4F, .warmup = 100,
//                     .steps = 5000};
//   adam.learning_rate = rate.at(step);
#pragma once

#include <cstdint>

#include "tessera/status.h"

namespace tessera {

struct LearningRate {
  enum class Schedule : std::uint8_t {
    constant,  // the peak
    linear,    // falls from the peak to the minimum
    cosine,    // the same along half a cosine (Loshchilov and Hutter, arXiv 1608.03983)
    wsd,       // warmup, stable, decay (arXiv 2404.06395): the last `decay` steps fall linearly
  };
  Schedule schedule = Schedule::constant;
  float peak = 1e-3F;
  float minimum = 0;
  std::int64_t warmup = 0;  // steps that rise linearly to the peak, in every schedule
  std::int64_t steps = 1;   // of the whole run; later ones have the last one's rate
  std::int64_t decay = 0;   // wsd

  /// The learning rate of step `step`, counted from 0. REQUIRES: step >= 0, check() is ok.
  float at(std::int64_t step) const;
  /// Fails: invalid_argument (no steps, a warmup or decay that is longer than the run, a minimum
  /// above the peak, a negative number), naming it.
  Status check() const;
};

}  // namespace tessera
