// SPDX-License-Identifier: Apache-2.0
// Parameters that a module needs of others: registered, touched, or returned by a module below
// (deepspeed partition_parameters.py: register_external_parameter; parameter_offload.py:
// ZeROOrderedDict, _post_forward_module_hook).
#include <fmt/format.h>

#include <algorithm>

#include "engine/schemes/zero3/zero3_engine.h"

namespace tessera {
namespace {

bool contains(const std::vector<ParameterId>& list, ParameterId id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

}  // namespace

bool Zero3Engine::needed_by(ModuleId module, ParameterId id) const {
  return contains(needs_[index(module)], id);
}

bool Zero3Engine::external_to(ModuleId module, ParameterId id) const {
  return needed_by(module, id) && !contains(own_needs_[index(module)], id);
}

Status Zero3Engine::add_need(ModuleId module, ParameterId id) {
  if (needed_by(module, id)) return {};
  auto& needs = needs_[index(module)];
  needs.insert(std::lower_bound(needs.begin(), needs.end(), id), id);
  const Status fits = policy_->check();
  if (!fits.ok()) std::erase(needs, id);
  return fits;
}

Status Zero3Engine::register_external_parameter(ModuleId module, ParameterId parameter) {
  TESSERA_TRY(expect(Stage::idle, "register_external_parameter"));
  if (!known(parameter)) {
    return Status(Code::invalid_argument,
                  fmt::format("what was registered with module '{}' is no parameter of {}",
                              model_.module(module).path, model_.name));
  }
  return add_need(module, parameter);
}

Status Zero3Engine::unregister_external_parameter(ModuleId module, ParameterId parameter) {
  TESSERA_TRY(expect(Stage::idle, "unregister_external_parameter"));
  if (external_to(module, parameter)) {
    std::erase(needs_[index(module)], parameter);
    return {};
  }
  return Status(Code::invalid_argument,
                fmt::format("{} is not registered with module '{}'",
                            known(parameter) ? name(at(parameter)) : "an unknown parameter",
                            model_.module(module).path));
}

Status Zero3Engine::touch(ParameterId parameter) {
  TESSERA_TRY(expect(Stage::forward, "touch"));
  if (!known(parameter) || running_.empty()) {
    return Status(Code::invalid_argument,
                  fmt::format("{} is touched while no module runs: call pre_forward of the module "
                              "that reads it first",
                              known(parameter) ? name(at(parameter)) : "an unknown parameter"));
  }
  return policy_->touch(running_.back(), at(parameter));
}

Status Zero3Engine::return_parameter(ParameterId parameter) {
  TESSERA_TRY(expect(Stage::forward, "return_parameter"));
  if (!known(parameter) || running_.size() < 2) {
    return Status(Code::invalid_argument,
                  fmt::format("{} is returned while no module runs inside of another one",
                              known(parameter) ? name(at(parameter)) : "an unknown parameter"));
  }
  returned_.push_back(parameter);
  return {};
}

// The module around the one that returned `id` answers for it from now on.
Status Zero3Engine::take_over(ModuleId from, ParameterId id) {
  const bool answered =
      std::any_of(running_.begin(), running_.end(), [&](ModuleId m) { return external_to(m, id); });
  if (answered) return {};
  at(id).dangling = true;
  at(id).active.insert(running_.back());
  TESSERA_TRY(add_need(running_.back(), id));
  if (external_to(from, id)) std::erase(needs_[index(from)], id);
  return {};
}

Status Zero3Engine::leave(ModuleId module) {
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
  for (ParameterId id : returned) TESSERA_TRY(take_over(module, id));
  return {};
}

}  // namespace tessera
