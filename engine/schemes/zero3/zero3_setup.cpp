// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/zero3_setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/model/used_by.h"

namespace tessera {

Zero3Parts::Zero3Parts(Operations& issued, const Model& model, const Zero3Options& options,
                       const RankGroups& each)
    : operations(issued),
      facts{.model = model,
            .options = options,
            .rules = rules_of(options.policy),
            .ranks = options.shard_group > 0 ? options.shard_group : each.group_size_max(),
            .groups = each,
            .everyone = each.group_size_max()},
      leaves(model),
      external(model, parameters, needs),
      home(facts.options),
      groups(parameters, options.sub_group_size),
      swapper(issued, facts),
      states(issued, facts),
      partitions(issued, facts, parameters, swapper),
      update(issued, facts, parameters, partitions, swapper, states),
      memory(issued, facts, parameters),
      secondary(issued, facts, parameters),
      mover({issued, facts, parameters, partitions, secondary, memory}, needs, swapper),
      policy(make_fetch_policy(options.policy, {facts, parameters, needs, mover, swapper})),
      gradients(issued, facts, parameters),
      bucket(issued, facts, parameters, gradients) {}

Status Zero3Setup::check_options() const {
  const Zero3Options& o = options();
  const std::pair<const char*, Numel> sizes[] = {
      {"prefetch_bucket", o.prefetch_bucket},
      {"max_reuse_distance", o.max_reuse_distance},
      {"max_live_parameters", o.max_live_parameters},
      {"persistence_threshold", o.persistence_threshold},
      {"model_persistence_threshold", o.model_persistence_threshold},
      {"reduce_bucket", o.reduce_bucket}};
  for (const auto& [name, value] : sizes) {
    if (value >= Numel{0}) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{} must be at least 0, found {}", name, value.value));
  }
  TESSERA_TRY(check_shard_group());
  const bool nodes = o.plus_plus.secondary_group > 1 || o.plus_plus.quantized_gradients;
  if ((o.groups || o.group_size > 0) && (o.shard_group > 0 || nodes)) {
    return Status(
        Code::invalid_argument,
        "process groups cannot be combined with shard_group, ZeRO++'s secondary groups or "
        "quantised gradients: these say how all ranks share");
  }
  if (o.sub_group_size >= Numel{0}) return parts_.home.check();
  return Status(Code::invalid_argument,
                fmt::format("sub_group_size must be at least 0, found {}", o.sub_group_size.value));
}

Status Zero3Setup::check_shard_group() const {
  const Index group = options().shard_group;
  const Index world = parts_.facts.everyone;
  const auto refuse = [&](const std::string& why) {
    return Status(Code::invalid_argument, fmt::format("shard_group {} {}", group, why));
  };
  if (group == 0) return {};
  if (group < 0 || world % group != 0) {
    return refuse(fmt::format("must divide the number of ranks, {}", world));
  }
  if (parts_.home.moves_parameters() || parts_.home.steps_on_host()) {
    return refuse("cannot be combined with offloading: MiCS keeps partitions on the device");
  }
  const ZeroPlusPlus& plus = options().plus_plus;
  if (plus.secondary_group > 1 || plus.quantized_gradients) {
    return refuse(
        "cannot be combined with ZeRO++'s secondary groups or quantised gradients: both say how "
        "nodes share");
  }
  return {};
}

// Those of ZeRO++, as far as it is used.
Status Zero3Setup::create_node_groups() {
  Zero3Facts& facts = parts_.facts;
  const ZeroPlusPlus& o = options().plus_plus;
  const Index ranks = facts.ranks;
  const std::pair<const char*, Index> sizes[] = {
      {"secondary_group", o.secondary_group},
      {"ranks_per_node", o.quantized_gradients ? o.ranks_per_node : 1}};
  for (const auto& [name, size] : sizes) {
    if (size >= 1 && ranks % size == 0) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{} {} must divide the number of ranks, {}", name, size, ranks));
  }
  if (parts_.secondary.exist()) {
    TESSERA_ASSIGN(const auto near, RankGroups::strided(ranks, o.secondary_group));
    TESSERA_ASSIGN(facts.secondary, runtime_.create_communicator(near, "secondary"));
  }
  if (!o.quantized_gradients || o.ranks_per_node == ranks) return {};
  TESSERA_ASSIGN(const auto inside, RankGroups::strided(ranks, o.ranks_per_node));
  TESSERA_ASSIGN(facts.node, runtime_.create_communicator(inside, "node"));
  const Index nodes = ranks / o.ranks_per_node;
  TESSERA_ASSIGN(const auto between, RankGroups::strided(ranks, nodes, o.ranks_per_node));
  TESSERA_ASSIGN(facts.across, runtime_.create_communicator(between, "across nodes"));
  return {};
}

Status Zero3Setup::create_streams_and_groups() {
  Zero3Facts& facts = parts_.facts;
  TESSERA_ASSIGN(facts.compute, parts_.operations.create_stream("default", StreamRole::compute));
  TESSERA_ASSIGN(facts.all_gather, parts_.operations.create_stream("all_gather", StreamRole::copy));
  TESSERA_ASSIGN(facts.reduce,
                 parts_.operations.create_stream("reduce_and_partition", StreamRole::copy));
  // Gathers and reductions share a process group, so they share its stream.
  TESSERA_ASSIGN(facts.nccl, parts_.operations.create_stream("nccl", StreamRole::communication));
  if (parts_.home.steps_on_host()) {
    TESSERA_ASSIGN(facts.host, parts_.operations.create_stream("cpu", StreamRole::host));
  }
  const Rank world = facts.everyone;
  const Index ranks = facts.ranks;
  if (ranks == world) {
    const char* const name = facts.groups.group_count() == 1 ? "world" : "group";
    TESSERA_ASSIGN(facts.world, runtime_.create_communicator(facts.groups, name));
  } else {
    TESSERA_ASSIGN(const auto groups, RankGroups::strided(world, ranks));
    TESSERA_ASSIGN(facts.world, runtime_.create_communicator(groups, "shard"));
    TESSERA_ASSIGN(const auto replicas, RankGroups::strided(world, world / ranks, ranks));
    TESSERA_ASSIGN(facts.replicas, runtime_.create_communicator(replicas, "replicas"));
  }
  return create_node_groups();
}

Result<UnitAssignment> Zero3Setup::assign_modules() {
  UnitAssignment assignment;
  assignment.used_by = used_by(model());
  assignment.unit_of_parameter.resize(model().parameters.size());
  for (std::size_t m = 0; m < model().modules.size(); ++m) {
    const Module& module = model().modules[m];
    if (m == 0 || !module.parameters.empty()) {
      for (ParameterId id : module.parameters) {
        assignment.unit_of_parameter[id.index()] = assignment.units.size();
      }
      assignment.unit_of_module.push_back(assignment.units.size());
      assignment.units.push_back({ModuleId{static_cast<std::int32_t>(m)}, module.parameters});
    } else {
      assignment.unit_of_module.push_back(assignment.unit_of_module[module.parent.index()]);
    }
  }
  TESSERA_TRY(parts_.leaves.find(options().leaf_modules, options().module_granularity));
  // What a module reads or is given is a need from the start where a plan is made; DeepSpeed finds
  // it when it happens.
  const bool planned = !parts_.facts.rules.finds_needs_as_they_happen;
  parts_.needs.find(model(), parts_.leaves, planned ? assignment.used_by : registered_with(model()),
                    planned);
  return assignment;
}

// The last ranks hold padding, so that all ranks hold the same number of elements.
void Zero3Setup::add_parameters(const std::function<std::string_view(ParameterId)>& unit_of) {
  for (std::size_t k = 0; k < model().parameters.size(); ++k) {
    const ParameterId id{static_cast<std::int32_t>(k)};
    const Parameter& source = model().parameter(id);
    OnDemandParameter p{.id = id, .shard = {}, .numel = source.numel()};
    p.partition = Numel{(p.numel.value + parts_.facts.ranks - 1) / parts_.facts.ranks};
    p.trained = source.requires_grad;
    p.shard.name = source.name;
    p.shard.unit = unit_of(id);
    p.shard.map = ShardMap({{id, Numel{0}, p.numel, p.trained}}, p.partition);
    parts_.parameters.add(std::move(p));
  }
}

// DeepSpeedZeRoOffload.mark_persistent_parameters: one that would exceed the limit is left out, and
// a smaller one behind it may still fit.
void Zero3Setup::mark_persistent() {
  Numel total{};
  for (OnDemandParameter& p : parts_.parameters) {
    if (p.numel > options().model_persistence_threshold - total) continue;
    p.persistent = p.numel <= options().persistence_threshold;
    if (p.persistent) total += p.numel;
  }
}

// What a parameter is at first decides for good: states do not move when other parameters are
// trained. Frozen ones are with the last group, which is offloaded if any is.
void Zero3Setup::find_homes() {
  const PartitionHome& home = parts_.home;
  const std::size_t groups = std::max<std::size_t>(parts_.groups.count(), 1);
  for (OnDemandParameter& p : parts_.parameters) {
    p.home = home.of_parameter(bytes_of(p.partition, parts_.facts.param_dtype()), p.persistent);
    p.shard.memory = home.of_group(groups - 1, groups);
  }
  for (std::size_t g = 0; g < parts_.groups.count(); ++g) {
    Bytes bytes{};
    for (const ParamShard* shard : parts_.groups.shards(g)) {
      bytes += bytes_of(shard->map.shard(), shard->dtype);
    }
    for (ParamShard* shard : parts_.groups.shards(g)) {
      shard->memory = home.of_group(g, groups);
      shard->swapped = shard->memory != Memory::device && home.swaps_states(bytes);
    }
  }
}

// The policy may say that fewer parameters are persistent, which decides where they live; groups
// decide where states live, so memory comes last.
Status Zero3Setup::allocate(const ParamGroups& groups) {
  mark_persistent();
  TESSERA_TRY(parts_.policy->check());
  parts_.groups.form(groups);
  find_homes();
  for (OnDemandParameter& p : parts_.parameters) TESSERA_TRY(parts_.partitions.allocate(p));
  TESSERA_TRY(parts_.swapper.setup(parts_.parameters));
  TESSERA_TRY(parts_.gradients.allocate());
  TESSERA_TRY(parts_.bucket.allocate());
  TESSERA_TRY(parts_.states.check());
  std::vector<OnDemandParameter*> swapped;
  for (OnDemandParameter& p : parts_.parameters) {
    if (p.shard.swapped) swapped.push_back(&p);
  }
  return parts_.states.setup(swapped);
}

}  // namespace tessera
