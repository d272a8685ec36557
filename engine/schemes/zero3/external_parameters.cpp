// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/external_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tessera/assert.h"

namespace tessera {

Status ExternalParameters::add(ModuleId module, ParameterId id, FetchPolicy& policy) {
  if (parameters_.contains(id)) return policy.add_need(module, id);
  return Status(Code::invalid_argument,
                fmt::format("what was registered with module '{}' is no parameter of {}",
                            model_.module(module).path, model_.name));
}

Status ExternalParameters::remove(ModuleId module, ParameterId id) {
  if (needs_.external(module, id)) {
    needs_.remove(module, id);
    return {};
  }
  return Status(Code::invalid_argument, fmt::format("{} is not registered with module '{}'",
                                                    name(id), model_.module(module).path));
}

Status ExternalParameters::touch(ParameterId id, FetchPolicy& policy) {
  if (parameters_.contains(id) && !running_.empty()) {
    return policy.touch(running_.back(), parameters_[id]);
  }
  return Status(Code::invalid_argument,
                fmt::format("{} is touched while no module runs: call pre_forward of the module "
                            "that reads it first",
                            name(id)));
}

Status ExternalParameters::give_back(ParameterId id) {
  if (!parameters_.contains(id) || running_.size() < 2) {
    return Status(
        Code::invalid_argument,
        fmt::format("{} is returned while no module runs inside of another one", name(id)));
  }
  returned_.push_back(id);
  return {};
}

// The module around the one that returned it answers for it from now on, unless one further out
// does so already.
Status ExternalParameters::take_over(ModuleId from, ParameterId id, FetchPolicy& policy) {
  TESSERA_ASSERT(!running_.empty(), "a module runs around the one that returned it");
  const bool answered = std::any_of(running_.begin(), running_.end(),
                                    [&](ModuleId m) { return needs_.external(m, id); });
  if (answered) return {};
  parameters_[id].dangling = true;
  parameters_[id].active.insert(running_.back());
  TESSERA_TRY(policy.add_need(running_.back(), id));
  if (needs_.external(from, id)) needs_.remove(from, id);
  return {};
}

Status ExternalParameters::leave(ModuleId module, FetchPolicy& policy) {
  if (running_.empty() || running_.back() != module) {
    return Status(
        Code::invalid_argument,
        fmt::format("post_forward of module '{}', while {} runs", model_.module(module).path,
                    running_.empty() ? "no module"
                                     : fmt::format("'{}'", model_.module(running_.back()).path)));
  }
  running_.pop_back();
  auto returned = std::exchange(returned_, {});
  for (const ParameterUse& use : model_.returns) {
    if (use.module == module) returned.push_back(use.parameter);
  }
  if (running_.empty()) return {};
  for (ParameterId id : returned) TESSERA_TRY(take_over(module, id, policy));
  return {};
}

}  // namespace tessera
