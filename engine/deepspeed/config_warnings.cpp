// SPDX-License-Identifier: Apache-2.0
// Sentences about the keys of a file that do not act.
#include <fmt/format.h>

#include "tessera/deepspeed.h"

namespace tessera {
namespace {

// Some of them where they are many or long.
std::string shortened(const std::vector<std::string>& keys) {
  constexpr std::size_t most = 40, longest = 300;
  std::string text;
  for (std::size_t k = 0; k < keys.size() && k < most; ++k) {
    text += (k == 0 ? "" : ", ") + keys[k].substr(0, longest);
    if (keys[k].size() > longest) text += "...";
  }
  return keys.size() > most ? fmt::format("{} and {} more", text, keys.size() - most) : text;
}

}  // namespace

std::vector<std::string> DeepSpeedConfig::warnings(const std::string& source, const Scheme& run,
                                                   bool real) const {
  std::vector<std::string> sentences;
  const auto add = [&](const char* what, const std::vector<std::string>& keys) {
    if (keys.empty()) return;
    sentences.push_back(fmt::format("{}: {}: {}", source, what, shortened(keys)));
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
