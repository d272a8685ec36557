// SPDX-License-Identifier: Apache-2.0
// The parameters and buffers of a model that are replicated, and which of them are left alone.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/no_buffers.h"
#include "engine/schemes/replicate/replicate_engine.h"

namespace tessera {

std::vector<bool> ReplicateEngine::ignored_modules() const {
  std::vector<bool> out(model_.modules.size(), false);
  for (const std::string& path : options_.ignored_modules) {  // a second name, too
    const ModuleId named = model_.find_module(path);
    if (named.valid()) out[named.index()] = true;
  }
  for (std::size_t m = 0; m < model_.modules.size(); ++m) {  // parents come first
    const ModuleId parent = model_.modules[m].parent;
    if (parent.valid() && out[parent.index()]) out[m] = true;
  }
  return out;
}

// Parameters of an ignored module are left alone, even if a tie makes another module its owner.
std::vector<bool> ReplicateEngine::trained_parameters() const {
  std::vector<bool> out;
  for (const Parameter& p : model_.parameters) out.push_back(p.requires_grad);
  const std::vector<bool> ignored = ignored_modules();
  for (std::size_t m = 0; m < ignored.size(); ++m) {
    if (!ignored[m]) continue;
    for (ParameterId p : assignment_.used_by[m]) out[p.index()] = false;
  }
  return out;
}

Status ReplicateEngine::add_parameters() {
  for (const std::string& path : options_.ignored_modules) {
    if (model_.find_module(path).valid()) continue;
    return Status(Code::invalid_argument,
                  fmt::format("ignored module '{}' is no module of {}", path, model_.name));
  }
  const auto as_given = [&](const Parameter& p) { return p.dtype == options_.dtype; };
  if (options_.own_dtypes &&
      std::all_of(model_.parameters.begin(), model_.parameters.end(), as_given)) {
    return Status(
        Code::invalid_argument,
        fmt::format("own_dtypes changes nothing: all parameters of {} are {}, leave it out",
                    model_.name, name_of(options_.dtype)));
  }
  const std::vector<bool> trained = trained_parameters();
  if (std::find(trained.begin(), trained.end(), true) == trained.end()) {
    return Status(Code::invalid_argument,
                  fmt::format("{} has no parameter that requires a gradient: there is nothing to "
                              "replicate",
                              model_.name));
  }
  for (std::size_t k = 0; k < model_.parameters.size(); ++k) {
    const Parameter& source = model_.parameters[k];
    ReplicatedParameter p;
    p.id = ParameterId{static_cast<std::int32_t>(k)};
    p.numel = source.numel();
    p.trained = trained[k];
    p.shard.name = source.name;
    p.shard.unit = "root";
    p.shard.dtype = options_.own_dtypes ? source.dtype : options_.dtype;
    p.shard.map = ShardMap({{p.id, Numel{0}, p.numel, source.requires_grad}}, p.numel);
    TESSERA_ASSIGN(p.shard.value, allocate(source.name, bytes_of(p.numel, p.shard.dtype),
                                           MemoryClass::unsharded_parameters, compute_,
                                           cause("root", Reason::none)));
    parameters_.push_back(std::move(p));
  }
  used_.assign(parameters_.size(), false);
  used_since_sync_.assign(parameters_.size(), false);
  uses_now_.assign(parameters_.size(), 0);
  if (!options_.find_unused_parameters) return {};
  const Numel count{static_cast<std::int64_t>(parameters_.size())};
  TESSERA_ASSIGN(used_map_, allocate("used_parameters", bytes_of(count, DType::int32),
                                     MemoryClass::buffers, compute_, cause("root", Reason::none)));
  return {};
}

std::vector<std::string> ReplicateEngine::warnings() const {
  std::vector<std::string> out;
  for (const Parameter& p : model_.parameters) {
    const Parameter& first = model_.parameters.front();
    if (options_.own_dtypes || p.dtype == first.dtype) continue;
    out.push_back(fmt::format(
        "{} is {} and {} is {}: here both are {}; own_dtypes keeps them, as DDP "
        "does",
        first.name, name_of(first.dtype), p.name, name_of(p.dtype), name_of(options_.dtype)));
    break;
  }
  if (!options_.broadcast_buffers && buffer_views().empty()) {
    out.push_back(no_buffers_to_broadcast(model_));
  }
  return out;
}

Status ReplicateEngine::add_buffers() {
  const std::vector<bool> ignored = ignored_modules();
  Compute init;
  for (const Buffer& b : model_.buffers) {
    module_buffers_.emplace_back();
    if (ignored[static_cast<std::size_t>(b.module.value)]) continue;
    TESSERA_ASSIGN(module_buffers_.back(), allocate(b.name, b.bytes(), MemoryClass::buffers,
                                                    compute_, cause("root", Reason::none)));
  }
  init.writes = buffer_views();
  if (init.writes.empty()) return {};
  return submit(compute_, cause("root", Reason::none), std::move(init)).status();
}

}  // namespace tessera
