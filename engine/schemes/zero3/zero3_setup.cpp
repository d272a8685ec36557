// SPDX-License-Identifier: Apache-2.0
// Making the engine: partitions, persistent parameters, groups of the optimizer.
#include <fmt/format.h>

#include <algorithm>

#include "engine/model/used_by.h"
#include "engine/schemes/zero3/zero3_engine.h"

namespace tessera {

Zero3Engine::Zero3Engine(Runtime& runtime, const Model& model, const Zero3Options& options)
    : EngineBase(runtime, model),
      operations_(*this),
      facts_{.model = model,
             .options = options,
             .rules = rules_of(options.policy),
             .ranks = options.shard_group > 0 ? options.shard_group
                                              : static_cast<Index>(everyone_.count()),
             .everyone = static_cast<Index>(everyone_.count())},
      options_(options),
      ranks_(facts_.ranks),
      home_(options_),
      swapper_(operations_, facts_),
      states_swapper_(operations_, facts_),
      policy_(options.policy == Zero3Policy::strict ? make_strict_policy(*this, options)
                                                    : make_compatible_policy(*this, options)) {}

Status Zero3Engine::check_options() const {
  const std::pair<const char*, Numel> sizes[] = {
      {"prefetch_bucket", options_.prefetch_bucket},
      {"max_reuse_distance", options_.max_reuse_distance},
      {"max_live_parameters", options_.max_live_parameters},
      {"persistence_threshold", options_.persistence_threshold},
      {"model_persistence_threshold", options_.model_persistence_threshold},
      {"reduce_bucket", options_.reduce_bucket}};
  for (const auto& [name, value] : sizes) {
    if (value >= Numel{0}) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{} must be at least 0, found {}", name, value.value));
  }
  TESSERA_TRY(check_shard_group());
  if (options_.sub_group_size >= Numel{1}) return home_.check();
  return Status(Code::invalid_argument, fmt::format("sub_group_size must be at least 1, found {}",
                                                    options_.sub_group_size.value));
}

Status Zero3Engine::check_shard_group() const {
  const auto refuse = [&](const char* why) {
    return Status(Code::invalid_argument,
                  fmt::format("shard_group {} {}", options_.shard_group, why));
  };
  if (options_.shard_group == 0) return {};
  const auto world = static_cast<Index>(everyone_.count());
  if (options_.shard_group < 0 || world % options_.shard_group != 0) {
    return refuse(fmt::format("must divide the number of ranks, {}", world).c_str());
  }
  if (home_.moves_parameters() || home_.steps_on_host()) {
    return refuse("cannot be combined with offloading: MiCS keeps partitions on the device");
  }
  const ZeroPlusPlus& plus = options_.plus_plus;
  if (plus.secondary_group > 1 || plus.quantized_gradients) {
    return refuse(
        "cannot be combined with ZeRO++'s secondary groups or quantised gradients: both say how "
        "nodes share");
  }
  return {};
}

// Those of ZeRO++, as far as it is used.
Status Zero3Engine::create_node_groups() {
  const ZeroPlusPlus& o = options_.plus_plus;
  const std::pair<const char*, Index> sizes[] = {
      {"secondary_group", o.secondary_group},
      {"ranks_per_node", o.quantized_gradients ? o.ranks_per_node : 1}};
  for (const auto& [name, size] : sizes) {
    if (size >= 1 && ranks_ % size == 0) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{} {} must divide the number of ranks, {}", name, size, ranks_));
  }
  if (keeps_secondary()) {
    TESSERA_ASSIGN(const auto near, RankGroups::strided(ranks_, o.secondary_group));
    TESSERA_ASSIGN(secondary_, runtime_.create_communicator(near, "secondary"));
  }
  if (!o.quantized_gradients || o.ranks_per_node == ranks_) return {};
  TESSERA_ASSIGN(const auto inside, RankGroups::strided(ranks_, o.ranks_per_node));
  TESSERA_ASSIGN(node_, runtime_.create_communicator(inside, "node"));
  const Index nodes = ranks_ / o.ranks_per_node;
  TESSERA_ASSIGN(const auto between, RankGroups::strided(ranks_, nodes, o.ranks_per_node));
  TESSERA_ASSIGN(across_, runtime_.create_communicator(between, "across nodes"));
  return {};
}

Status Zero3Engine::create_streams_and_groups() {
  TESSERA_ASSIGN(compute_, runtime_.create_stream("default", StreamRole::compute));
  TESSERA_ASSIGN(all_gather_, runtime_.create_stream("all_gather", StreamRole::copy));
  TESSERA_ASSIGN(reduce_, runtime_.create_stream("reduce_and_partition", StreamRole::copy));
  // Gathers and reductions share a process group, so they share its stream.
  TESSERA_ASSIGN(nccl_, runtime_.create_stream("nccl", StreamRole::communication));
  if (home_.steps_on_host()) {
    TESSERA_ASSIGN(host_, runtime_.create_stream("cpu", StreamRole::host));
  }
  const Rank world = everyone_.count();
  TESSERA_ASSIGN(const auto groups, RankGroups::strided(world, ranks_));
  TESSERA_ASSIGN(world_, runtime_.create_communicator(groups, ranks_ == world ? "world" : "shard"));
  if (ranks_ < world) {
    TESSERA_ASSIGN(const auto replicas, RankGroups::strided(world, world / ranks_, ranks_));
    TESSERA_ASSIGN(replicas_, runtime_.create_communicator(replicas, "replicas"));
  }
  TESSERA_TRY(create_node_groups());
  facts_.compute = compute_;
  facts_.all_gather = all_gather_;
  facts_.reduce = reduce_;
  facts_.nccl = nccl_;
  facts_.host = host_;
  facts_.world = world_;
  facts_.replicas = replicas_;
  facts_.node = node_;
  facts_.secondary = secondary_;
  facts_.across = across_;
  return {};
}

// Every module with parameters of its own is a unit; ties need no common one.
Status Zero3Engine::assign_modules() {
  assignment_.used_by = used_by(model_);
  assignment_.unit_of_parameter.resize(model_.parameters.size());
  for (std::size_t m = 0; m < model_.modules.size(); ++m) {
    const Module& module = model_.modules[m];
    if (m == 0 || !module.parameters.empty()) {
      for (ParameterId id : module.parameters) {
        assignment_.unit_of_parameter[index(id)] = assignment_.units.size();
      }
      assignment_.unit_of_module.push_back(assignment_.units.size());
      assignment_.units.push_back({ModuleId{static_cast<std::int32_t>(m)}, module.parameters});
    } else {
      assignment_.unit_of_module.push_back(assignment_.unit_of_module[index(module.parent)]);
    }
    needs_.push_back(module.parameters);
  }
  TESSERA_TRY(find_leaf_modules());
  find_needs();
  return {};
}

// What a module reads or is given is a need from the start where a plan is made; DeepSpeed finds it
// when it happens.
void Zero3Engine::find_needs() {
  const bool planned = !facts_.rules.finds_needs_as_they_happen;
  const auto below = planned ? assignment_.used_by : registered_with(model_);
  auto add = [this](ModuleId m, ParameterId p) { needs_[index(leaf_of_[index(m)])].push_back(p); };
  for (const Tie& tie : model_.ties) add(module_of_alias(model_, tie), tie.parameter);
  if (planned) {
    for (const ParameterUse& read : model_.reads) add(read.module, read.parameter);
    for (const ParameterUse& use : model_.returns) {
      add(model_.module(use.module).parent, use.parameter);
    }
  }
  auto take_all = [&](ModuleId m) {
    auto& needs = needs_[index(m)];
    needs.insert(needs.end(), below[index(m)].begin(), below[index(m)].end());
  };
  for (ModuleId m : model_.forward) take_all(m);
  for (const Graph& graph : model_.graphs) {
    for (ModuleId m : graph.forward) take_all(m);
  }
  for (std::size_t m = 0; m < needs_.size(); ++m) {
    const ModuleId id{static_cast<std::int32_t>(m)};
    if (leaf_[m]) take_all(id);
    if (inside_leaf(id)) needs_[m].clear();
    auto& needs = needs_[m];
    std::sort(needs.begin(), needs.end());
    needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
  }
  own_needs_ = needs_;
}

void Zero3Engine::add_parameter(ParameterId id) {
  const Parameter& source = model_.parameter(id);
  OnDemandParameter p{.id = id, .held = {}, .numel = source.numel()};
  p.partition = Numel{(p.numel.value + ranks_ - 1) / ranks_};
  p.trained = source.requires_grad;
  p.held.name = source.name;
  p.held.unit = unit_name(assignment_.unit_of_parameter[index(id)]);
  p.held.map = ShardMap({{id, Numel{0}, p.numel, p.trained}}, p.partition);
  parameters_.push_back(std::move(p));
}

// What a parameter is at first decides for good: states do not move when other parameters are
// trained. Frozen ones are with the last group, which is offloaded if any is.
void Zero3Engine::find_homes() {
  const std::size_t groups = std::max<std::size_t>(sub_groups_.size(), 1);
  for (OnDemandParameter& p : parameters_) {
    p.home = home_.of_parameter(bytes_of(p.partition, param_dtype()), p.persistent);
    p.held.memory = home_.of_group(groups - 1, groups);
  }
  for (std::size_t g = 0; g < sub_groups_.size(); ++g) {
    Bytes bytes{};
    for (const OnDemandParameter* p : members(g)) {
      bytes += bytes_of(p->partition, p->held.dtype);
    }
    for (OnDemandParameter* p : members(g)) {
      p->held.memory = home_.of_group(g, groups);
      p->held.swapped = p->held.memory != Memory::device && home_.swaps_states(bytes);
    }
  }
}

Result<BufferId> Zero3Engine::allocate_in(Memory memory, const std::string& name, Bytes bytes,
                                          MemoryClass on_device, const Cause& why) {
  static constexpr MemoryClass classes[] = {
      {}, MemoryClass::pinned_host, MemoryClass::nvme_staging};
  const auto place = static_cast<std::size_t>(memory);
  return runtime_.allocate({.bytes = bytes,
                            .memory = memory,
                            .memory_class = memory == Memory::device ? on_device : classes[place],
                            .stream = compute_,
                            .where = everyone_,
                            .cause = why,
                            .name = name,
                            .directory = options_.offload_param.nvme_path});
}

Status Zero3Engine::allocate_partition(OnDemandParameter& p) {
  const Cause why = cause(p.held.unit, Reason::none);
  constexpr auto memory_class = MemoryClass::sharded_parameters;
  TESSERA_ASSIGN(p.held.value,
                 allocate_in(p.held.memory, p.held.name + ".partition",
                             bytes_of(p.partition, DType::float32), memory_class, why));
  // What comes and goes with the optimizer's step cannot be gathered meanwhile.
  if (!mixed() && p.home == p.held.memory && !p.held.swapped) return {};
  TESSERA_ASSIGN(p.cast, allocate_in(p.home, p.held.name + ".cast",
                                     bytes_of(p.partition, param_dtype()), memory_class, why));
  return {};
}

// DeepSpeedZeRoOffload.mark_persistent_parameters.
void Zero3Engine::mark_persistent() {
  Numel total{};
  for (OnDemandParameter& p : parameters_) {
    if (p.numel > options_.model_persistence_threshold - total) continue;
    p.persistent = p.numel <= options_.persistence_threshold;
    if (p.persistent) total += p.numel;
  }
}

// As in DeepSpeed both buffers exist from the start; but the bucket has no room that could never be
// used.
Status Zero3Engine::allocate_gradients() {
  Numel trained{};
  std::array<Numel, memory_count> partitions{};
  for (OnDemandParameter& p : parameters_) {
    if (!p.trained) continue;
    Numel& used = partitions[static_cast<std::size_t>(p.held.memory)];
    p.place = used;
    trained += p.numel;
    used += p.partition;
  }
  const Cause why = cause("root", Reason::none);
  const Numel bucket = std::min(trained, options_.reduce_bucket);
  for (std::size_t m = 0; m < partitions.size(); ++m) {
    if (partitions[m] == Numel{0}) continue;
    TESSERA_ASSIGN(partitions_[m], allocate_in(static_cast<Memory>(m), "gradient_partitions",
                                               bytes_of(partitions[m], param_dtype()),
                                               MemoryClass::sharded_gradients, why));
  }
  if (bucket == Numel{0}) return {};
  TESSERA_ASSIGN(bucket_buffer_, allocate("reduce_bucket", bytes_of(bucket, param_dtype()),
                                          MemoryClass::reduce_buffers, reduce_, why));
  return {};
}

Status Zero3Engine::setup() {
  TESSERA_TRY(check_options());
  TESSERA_TRY(create_streams_and_groups());
  TESSERA_TRY(assign_modules());
  for (std::size_t p = 0; p < model_.parameters.size(); ++p) {
    add_parameter(ParameterId{static_cast<std::int32_t>(p)});
  }
  mark_persistent();
  TESSERA_TRY(policy_->check());
  form_sub_groups();
  find_homes();
  for (OnDemandParameter& p : parameters_) TESSERA_TRY(allocate_partition(p));
  TESSERA_TRY(swapper_.setup(parameters_));
  TESSERA_TRY(allocate_gradients());
  TESSERA_TRY(move_states());
  return initialise_held();
}

Status Zero3Engine::move_states() {
  TESSERA_TRY(states_swapper_.check());
  std::vector<OnDemandParameter*> moved;
  for (OnDemandParameter& p : parameters_) {
    if (p.held.swapped) moved.push_back(&p);
  }
  return states_swapper_.setup(moved);
}

std::vector<PartitionedParameter> Zero3Engine::parameters() const {
  std::vector<PartitionedParameter> out;
  for (const OnDemandParameter& p : parameters_) {
    out.push_back({std::string(name(p)), p.numel, p.partition, p.persistent, -1, p.home});
  }
  for (std::size_t g = 0; g < sub_groups_.size(); ++g) {
    for (ParameterId id : sub_groups_[g]) out[index(id)].sub_group = static_cast<std::int32_t>(g);
  }
  return out;
}

std::vector<UnitInfo> Zero3Engine::units() const {
  std::vector<UnitInfo> infos;
  for (std::size_t u = 0; u < assignment_.units.size(); ++u) {
    UnitInfo info;
    info.name = unit_name(u);
    for (ParameterId id : assignment_.units[u].parameters) {
      const OnDemandParameter& p = at(id);
      ++info.parameters;
      info.numel += p.numel;
      info.unsharded += p.numel;
      info.padding += p.partition * ranks_ - p.numel;
      info.shard += p.partition;
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

Result<std::unique_ptr<Zero3>> zero3(Runtime& runtime, const Model& model,
                                     const Zero3Options& options) {
  Zero3Options complete = options;
  std::string& states = complete.offload_optimizer.nvme_path;
  if (states.empty()) states = options.offload_param.nvme_path;
  auto engine = std::make_unique<Zero3Engine>(runtime, model, complete);
  TESSERA_TRY(engine->setup());
  return std::unique_ptr<Zero3>(std::move(engine));
}

}  // namespace tessera
