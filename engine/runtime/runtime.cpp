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

std::shared_ptr<const void> Runtime::hold(StreamId stream) {
  auto& all = holders_[stream];
  std::erase_if(all, [](const auto& holder) { return holder.expired(); });
  auto token = std::make_shared<StreamId>(stream);
  all.push_back(token);
  return token;
}

std::optional<std::size_t> Runtime::holders_of(StreamId stream) const {
  const auto found = holders_.find(stream);
  if (found == holders_.end()) return std::nullopt;
  return static_cast<std::size_t>(std::count_if(found->second.begin(), found->second.end(),
                                                [](const auto& h) { return !h.expired(); }));
}

}  // namespace tessera
