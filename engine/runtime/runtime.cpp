// SPDX-License-Identifier: Apache-2.0
// What every runtime remembers of the engines on it.
#include "tessera/runtime.h"

#include <algorithm>
#include <utility>

namespace tessera {

std::string_view Runtime::keep_name(std::string name) {
  return *names_.insert(std::move(name)).first;
}

std::shared_ptr<const void> Runtime::drive(const Model& model) {
  std::erase_if(drivers_, [](const auto& driver) { return driver.second.expired(); });
  auto token = std::make_shared<const Model*>(&model);
  drivers_.emplace(&model, token);
  return token;
}

bool Runtime::is_driven(const Model& model) const {
  const auto [begin, end] = drivers_.equal_range(&model);
  return std::any_of(begin, end, [](const auto& driver) { return !driver.second.expired(); });
}

}  // namespace tessera
