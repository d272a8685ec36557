// SPDX-License-Identifier: Apache-2.0
// Which token comes next.
#pragma once

#include <cstdint>
#include <span>

namespace tessera::cli {

struct TokenChoice {
  double temperature = 1;
  std::int64_t top_k = 0;  // 0: all
  std::uint64_t seed = 0;
};

/// The place of the chosen logit; a pure function of all arguments. `number` counts the choices.
/// REQUIRES: not empty.
std::int32_t choose_token(std::span<const float> logits, const TokenChoice& choice,
                          std::uint64_t number);

}  // namespace tessera::cli
