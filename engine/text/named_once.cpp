// SPDX-License-Identifier: Apache-2.0
#include "engine/text/named_once.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {

Status check_named_once(const std::string& flag, const std::vector<std::string>& names) {
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (std::find(names.begin(), name, *name) == name) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{}: '{}' is named twice: leave one out", flag, *name));
  }
  return {};
}

}  // namespace tessera
