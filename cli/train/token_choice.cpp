// SPDX-License-Identifier: Apache-2.0
#include "cli/train/token_choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

namespace tessera::cli {
namespace {

double uniform(std::uint64_t seed, std::uint64_t number) {  // splitmix64; in [0, 1)
  std::uint64_t z = seed + 0x9E3779B97F4A7C15ULL * (number + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1.0p-53;
}

}  // namespace

void penalise(std::span<float> logits, std::span<const std::int32_t> tokens, double penalty) {
  if (penalty == 1) return;
  for (const std::int32_t token : std::set<std::int32_t>(tokens.begin(), tokens.end())) {
    float& logit = logits[static_cast<std::size_t>(token)];
    logit = static_cast<float>(logit > 0 ? logit / penalty : logit * penalty);
  }
}

std::int32_t choose_token(std::span<const float> logits, const TokenChoice& choice,
                          std::uint64_t number) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  if (choice.temperature == 0) return order[0];
  const auto most = choice.top_k == 0 ? order.size() : static_cast<std::size_t>(choice.top_k);
  order.resize(std::min(order.size(), most));
  const double highest = logits[static_cast<std::size_t>(order[0])];
  std::vector<double> up_to;  // sums of the likelihoods so far
  double sum = 0;
  for (const std::int32_t token : order) {
    sum += std::exp((logits[static_cast<std::size_t>(token)] - highest) / choice.temperature);
    up_to.push_back(sum);
  }
  // A token stays as long as those before it are not likely enough.
  const auto among = std::lower_bound(up_to.begin(), up_to.end(), choice.top_p * sum);
  if (choice.top_p < 1 && among != up_to.end()) {
    up_to.erase(among + 1, up_to.end());
    sum = up_to.back();
  }
  const double drawn = uniform(choice.seed, number) * sum;
  const auto found = std::upper_bound(up_to.begin(), up_to.end(), drawn) - up_to.begin();
  return order[std::min(static_cast<std::size_t>(found), up_to.size() - 1)];
}

}  // namespace tessera::cli
