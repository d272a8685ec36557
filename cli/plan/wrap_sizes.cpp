// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/wrap_sizes.h"

#include <fmt/format.h>

#include <limits>

#include "engine/model/module_graph.h"
#include "engine/schemes/fsdp1/flat_layout.h"
#include "engine/schemes/fully_shard/dim0_layout.h"
#include "tessera/device_mesh.h"

namespace tessera::cli {
namespace {

struct Shard {
  Numel per_rank{};
  Numel padding{};
};

Result<Shard> shard_of(const Model& model, const std::vector<ParameterId>& parameters,
                       const WrapSharding& sharding) {
  if (sharding.layout == WrapLayout::flat) {
    const FlatLayout layout = flat_layout(model, parameters, sharding.ranks);
    return Shard{layout.shard, layout.padding()};
  }
  TESSERA_ASSIGN(const UnitLayout layout, dim0_layout(model, parameters, sharding.ranks));
  return Shard{layout.shard, layout.padding};
}

// A unit may have a mesh of its own.
Result<WrapSharding> own_sharding(const WrapUnit& unit, WrapSharding sharding) {
  if (const Index own = unit.overrides.shard_group.value_or(0); own > 0) {
    TESSERA_TRY(DeviceMesh::sharding(sharding.ranks, own).status());
    sharding.ranks = own;
  }
  return sharding;
}

// By ParameterId: the tensor has a second name, its own or that of a module above it.
std::vector<bool> shared_parameters(const Model& model) {
  std::vector<bool> shared(model.parameters.size(), false);
  for (const Tie& tie : model.ties) shared[tie.parameter.index()] = true;
  if (model.module_aliases.empty()) return shared;
  const ModuleGraph graph(model);
  for (const ModuleAlias& alias : model.module_aliases) {
    for (ParameterId id : graph.parameters_below(alias.module)) shared[id.index()] = true;
  }
  return shared;
}

// A rank may hold a whole padded parameter, and every element takes up to 8 bytes.
Status check_countable(const Model& model, Index ranks) {
  const std::int64_t numel = model.parameter_count().value;
  if (numel <= std::numeric_limits<std::int64_t>::max() / 8 / ranks) return {};
  return Status(Code::invalid_argument,
                fmt::format("{} with {} elements on {} ranks takes more bytes than can be counted: "
                            "choose fewer ranks",
                            model.name, numel, ranks));
}

void count(const Model& model, const std::vector<ParameterId>& parameters,
           const std::vector<bool>& shared, UnitSizes& sizes) {
  for (ParameterId id : parameters) {
    const Parameter& parameter = model.parameter(id);
    sizes.parameters += 1;
    sizes.shared += shared[id.index()] ? 1 : 0;
    sizes.frozen += parameter.requires_grad ? 0 : 1;
    sizes.numel += parameter.numel();
  }
}

}  // namespace

UnitSizes& UnitSizes::operator+=(const UnitSizes& other) {
  parameters += other.parameters;
  shared += other.shared;
  frozen += other.frozen;
  numel += other.numel;
  padding += other.padding;
  unsharded += other.unsharded;
  per_rank += other.per_rank;
  return *this;
}

Result<WrapSizes> sizes_of(const Model& model, const WrapPlan& plan, const WrapSharding& sharding) {
  TESSERA_TRY(check_countable(model, sharding.ranks));
  WrapSizes sizes{.model = model.name, .sharding = sharding, .warnings = plan.warnings};
  const std::vector<bool> shared = shared_parameters(model);
  for (const WrapUnit& unit : plan.units) {
    const Module& module = model.module(unit.module);
    UnitSizes made{.path = module.path.empty() ? "(root)" : module.path,
                   .class_name = module.class_name,
                   .aliases = unit.aliases};
    count(model, unit.parameters, shared, made);
    TESSERA_ASSIGN(const WrapSharding own, own_sharding(unit, sharding));
    TESSERA_ASSIGN(const Shard shard, shard_of(model, unit.parameters, own));
    made.padding = shard.padding;
    made.unsharded = bytes_of(made.numel, sharding.dtype);
    made.per_rank = bytes_of(shard.per_rank, sharding.dtype);
    sizes.total += made;
    sizes.units.push_back(std::move(made));
  }
  count(model, plan.ignored, shared, sizes.ignored);
  sizes.ignored.unsharded = bytes_of(sizes.ignored.numel, sharding.dtype);
  return sizes;
}

}  // namespace tessera::cli
