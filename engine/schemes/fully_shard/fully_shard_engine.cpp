// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/fully_shard/fully_shard_engine.h"

#include <fmt/format.h>

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
  TESSERA_ASSIGN(copy_in_, create_stream("ag_copy_in", StreamRole::copy));
  TESSERA_ASSIGN(all_gather_, create_stream("all_gather", StreamRole::communication));
  TESSERA_ASSIGN(reduce_scatter_, create_stream("reduce_scatter", StreamRole::communication));
  TESSERA_ASSIGN(const auto shards, mesh_.groups("shard"));
  TESSERA_ASSIGN(main_.shard,
                 runtime_.create_communicator(shards, main_.replicas == 1 ? "world" : "shard"));
  if (main_.replicas > 1) {
    TESSERA_ASSIGN(all_reduce_, create_stream("all_reduce", StreamRole::communication));
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
  for (Unit& unit : units_) TESSERA_TRY(allocate_shards(unit));
  return make_values(*this);
}

Status FullyShardEngine::add_unit(std::size_t index) {
  const auto& assigned = assignment_.units[index];
  const bool root = index == 0;
  Unit unit;
  unit.module = assigned.module;
  unit.name = unit_name(index);
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
  std::vector<StreamId> streams = {copy_in_, all_gather_, reduce_scatter_};
  if (all_reduce_.valid()) streams.push_back(all_reduce_);
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
  // The gathers must see what the optimizer wrote.
  const Cause why = cause("root", Reason::order);
  TESSERA_TRY(wait_stream(copy_in_, compute_, why));
  return wait_stream(all_gather_, compute_, why);
}

Status FullyShardEngine::pre_forward(ModuleId module) {
  if (recomputing()) return {};
  TESSERA_TRY(expect(Stage::forward, "pre_forward", module));
  Unit* unit = unit_of(module);
  if (unit == nullptr) return {};
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
    unit->post_forward_indices.push_back(forward_order_.size());
    forward_order_.push_back(static_cast<std::size_t>(unit - units_.data()));
  }
  // After the root's forward no unit comes that would free the last gather's buffer.
  const bool root = unit == &units_.front();
  if (root && last_gathered_) {
    TESSERA_TRY(free_gathered(*last_gathered_, cause(unit->name, Reason::free_memory)));
    last_gathered_.reset();
  }
  return ends_pass(module) ? end_evaluation() : Status{};
}

// Training goes on as if nothing had run.
Status FullyShardEngine::end_evaluation() {
  for (Unit& unit : units_) {
    TESSERA_TRY(reshard(unit));
    unit.post_forward_indices.clear();
  }
  forward_order_.clear();
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
  TESSERA_TRY(unshard(*unit, Reason::needed));
  TESSERA_TRY(wait_for_unshard(*unit));
  if (unit->post_forward_indices.empty()) return {};
  const std::size_t index = unit->post_forward_indices.back();
  unit->post_forward_indices.pop_back();
  if (unit->backward_prefetch.empty()) return prefetch_before(index);
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
  for (Unit& unit : units_) {
    unit.post_forward_indices.clear();
    // The root, and units whose end autograd does not tell.
    if (!unit.finished_backward) TESSERA_TRY(reduce_gradients(unit));
    unit.finished_backward = false;
  }
  TESSERA_TRY(locals_.accumulate());
  if (is_last_backward_) {
    TESSERA_TRY(finish_reduce());
    TESSERA_TRY(drop_gathers());
  }
  forward_order_.clear();
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
  TESSERA_TRY(finish_reduce());
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
