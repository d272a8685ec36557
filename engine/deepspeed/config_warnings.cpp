// SPDX-License-Identifier: Apache-2.0
// Sentences about the keys of a file that do not act.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/deepspeed.h"

namespace tessera {

std::vector<std::string> DeepSpeedConfig::warnings(const std::string& source, const Scheme& run,
                                                   bool real) const {
  std::vector<std::string> sentences;
  const auto add = [&](const char* what, const std::vector<std::string>& keys) {
    if (keys.empty()) return;
    sentences.push_back(fmt::format("{}: {}: {}", source, what, fmt::join(keys, ", ")));
  };
  std::vector<std::string> cost = cost_differs;
  const auto* const zero3 = std::get_if<Zero3Options>(&run);
  if (zero3 != nullptr && zero3->policy == Zero3Policy::strict) {
    cost.insert(cost.end(), only_compatible.begin(), only_compatible.end());
  }
  add("time or memory differ from DeepSpeed's by", cost);
  if (real) add("numbers differ from DeepSpeed's by", numbers_differ);
  std::vector<std::string> nothing = without_meaning;
  if (!real) nothing.insert(nothing.end(), numbers_differ.begin(), numbers_differ.end());
  add("no meaning here", nothing);
  add("keys that DeepSpeed does not know and does not look at", unknown);
  return sentences;
}

}  // namespace tessera
