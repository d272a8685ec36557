// SPDX-License-Identifier: Apache-2.0
// Another value than an option's default, for tests that go through all options.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tessera/option.h"

namespace tessera::test {

inline OptionValue sample_value(const Option& option) {
  switch (option.kind) {
    case OptionKind::flag: return !std::get<bool>(option.standard);
    case OptionKind::integer: {
      const auto least = static_cast<std::int64_t>(option.least);
      if (option.standard != OptionValue(least + 2)) return least + 2;
      return static_cast<double>(least + 3) <= option.most ? least + 3 : least + 1;
    }
    case OptionKind::number: return std::clamp(0.5, option.least, option.most);
    case OptionKind::text: return std::string("somewhere");
    case OptionKind::word:
      for (const std::string& word : option.words) {
        if (OptionValue(word) != option.standard) return word;
      }
      break;
    case OptionKind::list:
      if (option.name == "bucket_caps") return std::vector<std::string>{"200", "400"};
      if (option.name == "recompute") return std::vector<std::string>{"norm", "ffn"};
      // The only other list that is more than names has numbers in it.
      return std::vector<std::string>{option.name == "process_groups" ? "0 2" : "h.0"};
  }
  return option.standard;
}

}  // namespace tessera::test
