// SPDX-License-Identifier: Apache-2.0
// Which token comes next.
#pragma once

#include <cstdint>
#include <span>

namespace tessera::cli {

struct TokenChoice {
  double temperature = 1;
  std::int64_t top_k = 0;  // 0: all
  double top_p = 1;        // the fewest most likely tokens that are together as likely
  double repetition_penalty = 1;
  std::uint64_t seed = 0;
};

/// Divides the logits of `tokens` that are above 0 by the penalty, and multiplies others by it
/// (arXiv 1909.05858), each once. REQUIRES: tokens below the number of logits.
void penalise(std::span<float> logits, std::span<const std::int32_t> tokens, double penalty);

/// The place of the chosen logit; a pure function of all arguments. `number` counts the choices.
/// REQUIRES: not empty.
std::int32_t choose_token(std::span<const float> logits, const TokenChoice& choice,
                          std::uint64_t number);

}  // namespace tessera::cli
