// SPDX-License-Identifier: Apache-2.0
// torch._amp_update_scale_ and, with hysteresis and a minimum, deepspeed's DynamicLossScaler.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/grad_scaler.h"

namespace tessera {

LossScaleOptions deepspeed_loss_scale() {
  return {.growth_interval = 1000, .hysteresis = 2, .min_scale = 1};
}

Status LossScale::update(bool overflow) {
  if (!overflow) {
    if (++state_.growth_tracker < options_.growth_interval) return {};
    state_.growth_tracker = 0;
    state_.hysteresis_left = options_.hysteresis;
    const float grown = state_.scale * options_.growth_factor;
    if (std::isfinite(grown)) state_.scale = grown;
    return {};
  }
  state_.growth_tracker = 0;
  if (state_.hysteresis_left > 1) {
    --state_.hysteresis_left;
    return {};
  }
  if (options_.min_scale > 0 && state_.scale <= options_.min_scale) {
    return Status(Code::invalid_argument,
                  fmt::format("Current loss scale already at minimum ({}): gradients overflow "
                              "whatever the scale, so look at the model or the learning rate",
                              state_.scale));
  }
  state_.scale = std::max(state_.scale * options_.backoff_factor, options_.min_scale);
  return {};
}

}  // namespace tessera
