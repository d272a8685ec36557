// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/fully_shard/fully_shard_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/schemes/fully_shard/marks.h"
#include "tessera/assert.h"

namespace tessera {

FullyShardEngine::FullyShardEngine(Runtime& runtime, const Model& model, FullyShardOptions options)
    : EngineBase(runtime, model), options_(std::move(options)), flow_(model) {}

Status FullyShardEngine::check_options() {
  TESSERA_ASSIGN(mesh_, DeviceMesh::sharding(everyone_.count(), options_.shard_group));
  main_.size = mesh_.size("shard");
  main_.replicas = mesh_.size("replicate");
  const Index k = options_.reshard_group;
  const bool to_group = options_.reshard_after_forward == ReshardAfterForward::to_group;
  if (to_group ? k < 1 || main_.size % k != 0 : k != 0) {
    return Status(Code::invalid_argument,
                  to_group
                      ? fmt::format("reshard_group {}: must divide the {} ranks that shard "
                                    "together",
                                    k, main_.size)
                      : fmt::format("reshard_group {} is for reshard_after_forward to_group", k));
  }
  if (options_.reduce_scatter_max_input_buffers < 1) {
    return Status(Code::invalid_argument,
                  fmt::format("reduce_scatter_max_input_buffers must be at least 1, found {}",
                              options_.reduce_scatter_max_input_buffers));
  }
  return {};
}

Status FullyShardEngine::create_streams_and_groups() {
  TESSERA_ASSIGN(compute_, create_stream("default", StreamRole::compute));
  TESSERA_TRY(create_streams(trees_.emplace_back(), ""));
  TESSERA_ASSIGN(const auto shards, mesh_.groups("shard"));
  TESSERA_ASSIGN(main_.shard,
                 runtime_.create_communicator(shards, main_.replicas == 1 ? "world" : "shard"));
  if (main_.replicas > 1) {
    TESSERA_TRY(create_all_reduce_streams());
    TESSERA_ASSIGN(const auto replicas, mesh_.groups("replicate"));
    TESSERA_ASSIGN(main_.replicate, runtime_.create_communicator(replicas, "replicate"));
  }
  if (options_.reshard_group == 0) return {};
  TESSERA_ASSIGN(const auto smaller,
                 RankGroups::strided(mesh_.world_size(), options_.reshard_group));
  TESSERA_ASSIGN(post_forward_groups_[options_.reshard_group],
                 runtime_.create_communicator(smaller, "post_forward"));
  return {};
}

Status FullyShardEngine::setup() {
  TESSERA_TRY(check_options());
  TESSERA_TRY(create_streams_and_groups());
  if (options_.plain_root) TESSERA_TRY(leave_root_plain());
  TESSERA_TRY(assign(options_.units, options_.plan, options_.sharded_dtype));
  if (const auto lists = units_without_forward(); !lists.empty()) {  // as torch 2.15
    return Status(Code::invalid_argument,
                  fmt::format("unit '{}' only lists modules and has no forward, before which it "
                              "could be gathered: name its members as units",
                              lists.front()));
  }
  TESSERA_TRY(share_by_units());
  slot_of_parameter_.resize(model_.parameters.size());
  for (std::size_t u = 0; u < assignment_.units.size(); ++u) TESSERA_TRY(add_unit(u));
  if (trees_.front().all_reduce.valid()) TESSERA_TRY(create_all_reduce_streams());
  for (Unit& unit : units_) TESSERA_TRY(allocate_shards(unit));
  return make_values(*this);
}

Status FullyShardEngine::add_unit(std::size_t index) {
  const auto& assigned = assignment_.units[index];
  const bool root = index == 0;
  Unit unit;
  unit.module = assigned.module;
  unit.name = unit_name(index);
  TESSERA_TRY(plant(index, unit));
  TESSERA_TRY(settings_of(index, unit));
  TESSERA_ASSIGN(unit.layout, dim0_layout(model_, assigned.parameters, unit.mesh.size));
  const std::size_t prefix = root ? 0 : unit.name.size() + 1;
  for (const auto& layout : unit.layout.parameters) {
    const Parameter& source = model_.parameter(layout.id);
    slot_of_parameter_[layout.id.index()] = unit.parameters.size();
    UnitParameter p{.layout = layout, .name = source.name.substr(prefix), .shard = {}};
    p.shard.name = fmt::format("{}.{}", unit.name, p.name);
    p.shard.unit = unit.name;
    p.shard.dtype = options_.sharded_dtype;
    if (unit.offload) p.shard.memory = Memory::pinned_host;
    if (!meshes_.empty()) p.shard.groups = groups_of_mesh(unit.mesh);
    p.shard.map =
        ShardMap({{layout.id, Numel{0}, layout.numel, source.requires_grad}}, layout.shard);
    unit.parameters.push_back(std::move(p));
  }
  units_.push_back(std::move(unit));
  return {};
}

Unit* FullyShardEngine::unit_of(ModuleId module) {
  const int index = unit_at(module);
  return index < 0 ? nullptr : &units_[static_cast<std::size_t>(index)];
}

Unit& FullyShardEngine::unit_with(ParameterId id) {
  const std::size_t unit = assignment_.unit_of_parameter[id.index()];
  TESSERA_ASSERT(unit < units_.size(), "ignored parameters are in no unit and are not asked for");
  return units_[unit];
}

UnitParameter& FullyShardEngine::parameter(ParameterId id) {
  return unit_with(id).parameters[slot_of_parameter_[id.index()]];
}

Result<View> FullyShardEngine::parameter_view(ParameterId id) {
  const UnitParameter& p = parameter(id);
  const Unit& unit = unit_with(id);
  if (unit.unsharded) return View::whole(p.unsharded, unit.param_dtype, p.layout.numel);
  return Status(
      Code::invalid_argument,
      fmt::format("parameter {} is used while it is sharded: call {} for unit {} first",
                  model_.parameter(id).name,
                  stage_ == Stage::backward ? "pre_backward" : "pre_forward", unit_with(id).name));
}

std::vector<ParamShard*> FullyShardEngine::shards() {
  std::vector<ParamShard*> all;
  for (Unit& unit : units_) {
    for (UnitParameter& p : unit.parameters) {
      p.shard.gradient = p.shard.unsharded = {};
      if (unit.unsharded) {
        p.shard.unsharded =
            View::whole(p.unsharded, unit.param_dtype, p.layout.shard * unit.mesh.size);
      }
      if (unit.sharded_gradient.valid() && p.layout.gradient) {
        p.shard.gradient = View::part(unit.sharded_gradient, options_.sharded_dtype,
                                      *p.layout.gradient, p.layout.shard);
      }
      all.push_back(&p.shard);
    }
  }
  return all;
}

std::vector<StreamId> FullyShardEngine::side_streams() const {
  std::vector<StreamId> streams;
  for (const UnitTree& tree : trees_) {
    if (std::find(streams.begin(), streams.end(), tree.copy_in) != streams.end()) break;
    streams.insert(streams.end(), {tree.copy_in, tree.all_gather, tree.reduce_scatter});
    if (tree.all_reduce.valid()) streams.push_back(tree.all_reduce);
  }
  return streams;
}

Status FullyShardEngine::free_gradients(EventId stepped) {
  for (Unit& unit : units_) {
    if (unit.sharded_gradient.valid()) TESSERA_TRY(release(unit.sharded_gradient, stepped));
  }
  return {};
}

Status FullyShardEngine::begin_forward() {
  TESSERA_TRY(expect(Stage::idle, "begin_forward"));
  begin_pass();
  TESSERA_TRY(enter(Stage::forward, Phase::forward));
  return options_.plain_root ? Status{} : follow_optimizer(trees_[0]);
}

Status FullyShardEngine::pre_forward(ModuleId module) {
  if (recomputing()) return {};
  TESSERA_TRY(expect(Stage::forward, "pre_forward", module));
  Unit* unit = unit_of(module);
  if (unit == nullptr) return {};
  if (options_.plain_root && is_root(*unit)) TESSERA_TRY(follow_optimizer(tree_of(*unit)));
  TESSERA_TRY(unshard(*unit, Reason::needed));
  TESSERA_TRY(wait_for_unshard(*unit));
  // Issued behind this unit's copy-out: its all_gather overlaps what the unit computes now.
  for (std::size_t next : unit->forward_prefetch) {
    TESSERA_TRY(unshard(units_[next], Reason::forward_prefetch));
  }
  return {};
}

Status FullyShardEngine::post_forward(ModuleId module) {
  if (recomputing()) return {};
  TESSERA_TRY(expect(Stage::forward, "post_forward", module));
  Unit* unit = unit_of(module);
  if (unit == nullptr) return {};
  // Without a backward to gather for again, keeping a slice would be for nothing.
  const bool to_group = unit->reshards_to_group && flow_.out_of(module) && trains();
  if (unit->reshard_after_forward) {
    TESSERA_TRY(to_group ? reshard_to_group(*unit) : reshard(*unit));
  }
  // What has no parameters is no place in the order (torch: a state without a parameter group).
  if (!unit->parameters.empty()) {
    unit->post_forward_indices.push_back(tree_of(*unit).forward_order.size());
    tree_of(*unit).forward_order.push_back(place(*unit));
  }
  // After the root's forward no unit comes that would free the last gather's buffer.
  UnitTree& tree = tree_of(*unit);
  if (is_root(*unit) && tree.last_gathered) {
    TESSERA_TRY(free_gathered(tree, *tree.last_gathered, cause(unit->name, Reason::free_memory)));
    tree.last_gathered.reset();
  }
  return ends_pass(module) ? end_evaluation() : Status{};
}

// Training goes on as if nothing had run.
Status FullyShardEngine::end_evaluation() {
  for (Unit& unit : units_) {
    TESSERA_TRY(reshard(unit));
    unit.post_forward_indices.clear();
  }
  for (UnitTree& tree : trees_) tree.forward_order.clear();
  stage_ = Stage::idle;
  return {};
}

Status FullyShardEngine::begin_backward() {
  TESSERA_TRY(expect(Stage::forward, "begin_backward"));
  TESSERA_TRY(enter(Stage::backward, Phase::backward));
  for (Unit& unit : units_) unit.reduces = reduces_ && unit.requires_sync;
  return {};
}

Status FullyShardEngine::pre_backward(ModuleId module) {
  TESSERA_TRY(expect(Stage::backward, "pre_backward", module));
  Unit* unit = unit_of(module);
  if (unit == nullptr) return {};
  enter_backward(tree_of(*unit));
  TESSERA_TRY(unshard(*unit, Reason::needed));
  TESSERA_TRY(wait_for_unshard(*unit));
  if (unit->post_forward_indices.empty()) return {};
  const std::size_t index = unit->post_forward_indices.back();
  unit->post_forward_indices.pop_back();
  if (unit->backward_prefetch.empty()) return prefetch_before(tree_of(*unit), index);
  for (std::size_t next : unit->backward_prefetch) {
    TESSERA_TRY(unshard(units_[next], Reason::backward_prefetch));
  }
  return {};
}

Status FullyShardEngine::post_backward(ModuleId module) {
  TESSERA_TRY(expect(Stage::backward, "post_backward", module));
  Unit* unit = unit_of(module);
  if (unit == nullptr) return {};
  // Without a gradient for its inputs nothing tells autograd that a unit is done: the end does.
  if (!flow_.into(module)) return {};
  // A unit that ran several times in forward reduces after its last backward pass.
  if (!unit->post_forward_indices.empty()) return {};
  return reduce_gradients(*unit);
}

Status FullyShardEngine::end_backward() {
  TESSERA_TRY(expect_end_of_backward());
  TESSERA_TRY(mark(cause("root", Reason::none), marks::backward_finishing, compute_).status());
  for (UnitTree& tree : trees_) enter_backward(tree);  // those without a gradient, too
  for (const std::size_t tree : backward_order_) {
    TESSERA_TRY(end_backward(tree, tree == backward_order_.front()));
  }
  backward_order_.clear();
  stage_ = Stage::idle;
  ++micro_batch_;
  return {};
}

Status FullyShardEngine::complete_gradients() {
  for (const Unit& unit : units_) {
    bool waits = unit.partial.valid();
    for (const UnitParameter& p : unit.parameters) waits |= p.accumulated.valid();
    if (waits) return not_reduced(unit.name);
  }
  return {};
}

Status FullyShardEngine::step(const AdamOptions& options) {
  TESSERA_TRY(expect(Stage::idle, "step"));
  TESSERA_TRY(before_write());  // what is gathered is outdated afterwards
  for (UnitTree& tree : trees_) TESSERA_TRY(finish_reduce(tree));
  return EngineBase::step(options);
}

std::vector<UnitInfo> FullyShardEngine::units() const {
  std::vector<UnitInfo> infos;
  for (const Unit& unit : units_) {
    infos.push_back({std::string(unit.name), static_cast<std::int32_t>(unit.parameters.size()),
                     unit.layout.numel, unit.layout.numel, unit.layout.padding, unit.layout.shard});
  }
  return infos;
}

Result<std::unique_ptr<FullyShard>> fully_shard(Runtime& runtime, const Model& model,
                                                const FullyShardOptions& options) {
  auto engine = std::make_unique<FullyShardEngine>(runtime, model, options);
  TESSERA_TRY(engine->setup());
  return std::unique_ptr<FullyShard>(std::move(engine));
}

}  // namespace tessera
