// SPDX-License-Identifier: Apache-2.0
// A model without an engine: logits of the next token.
#pragma once

#include <map>

#include "engine/train/language/plan.h"

namespace tessera::language {

class Sampler {
 public:
  Sampler(const Model& model, int threads) : model_(model), threads_(threads) {}

  /// See LanguageModel::next_logits.
  Result<std::vector<float>> next_logits(std::span<const std::span<const float>> parameters,
                                         std::span<const std::int32_t> tokens);

 private:
  Status check(std::span<const std::span<const float>> parameters,
               std::span<const std::int32_t> tokens) const;
  /// For sequences of this length, or longer ones: what follows a token changes nothing before it.
  Result<Plan*> plan_for(std::int64_t length);

  const Model model_;
  const int threads_;
  std::map<std::int64_t, std::unique_ptr<Plan>> plans_;  // by length
};

}  // namespace tessera::language
