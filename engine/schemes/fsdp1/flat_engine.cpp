// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/fsdp1/flat_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "engine/schemes/fsdp1/marks.h"

namespace tessera {
namespace {

bool is_hybrid(ShardingStrategy strategy) {
  return strategy == ShardingStrategy::hybrid_shard ||
         strategy == ShardingStrategy::hybrid_shard_zero2;
}

// FSDP1 flattens in pre-order, which is the order of ids.
std::vector<ParameterId> pre_order(std::vector<ParameterId> parameters) {
  std::sort(parameters.begin(), parameters.end());
  return parameters;
}

// The first of those that train a part of their elements, and how many are like it.
template <class Units>
std::optional<std::string> mixed_units(const Units& units) {
  std::string first;
  std::size_t count = 0;
  for (const auto& unit : units) {
    Numel trained{};
    for (const auto& segment : unit.shard.map.segments()) {
      if (segment.requires_grad) trained += segment.numel;
    }
    if (trained == Numel{0} || trained == unit.layout.numel) continue;
    if (count++ > 0) continue;
    first = fmt::format("unit {} trains {} of {} elements, but its gradient has room for all",
                        unit.name, trained.value, unit.layout.numel.value);
  }
  if (count == 0) return std::nullopt;
  return count == 1 ? first : fmt::format("{}; so it is with {} more units", first, count - 1);
}

}  // namespace

FlatEngine::FlatEngine(Runtime& runtime, const Model& model, const Fsdp1Options& options)
    : EngineBase(runtime, model), options_(options), strategy_(options.strategy), flow_(model) {}

Status FlatEngine::plan_mesh() {
  const Rank world = everyone_.count();
  const bool hybrid = is_hybrid(strategy_);
  const Index group = options_.shard_group;
  if (hybrid && (group < 1 || world % group != 0)) {
    return Status(Code::invalid_argument,
                  fmt::format("a hybrid strategy needs shard_group, the number of ranks that "
                              "shard together: {} does not divide {} ranks",
                              group, world));
  }
  if (!hybrid && group != 0 && group != world) {
    return Status(Code::invalid_argument,
                  fmt::format("shard_group {} is for hybrid strategies only", group));
  }
  const bool none = strategy_ == ShardingStrategy::no_shard;
  TESSERA_ASSIGN(mesh_, DeviceMesh::sharding(world, none ? 1 : group));
  shard_size_ = mesh_.size("shard");
  replicas_ = mesh_.size("replicate");
  return {};
}

Status FlatEngine::create_streams_and_groups() {
  TESSERA_ASSIGN(compute_, create_stream("default", StreamRole::compute));
  TESSERA_ASSIGN(unshard_stream_, create_stream("unshard", StreamRole::communication));
  TESSERA_ASSIGN(pre_unshard_, create_stream("pre_unshard", StreamRole::copy));
  TESSERA_ASSIGN(post_backward_stream_, create_stream("post_backward", StreamRole::communication));
  all_reduce_ = post_backward_stream_;
  if (sharded()) {
    TESSERA_ASSIGN(const auto groups, mesh_.groups("shard"));
    TESSERA_ASSIGN(shard_group_, runtime_.create_communicator(groups, "shard"));
  }
  if (replicas_ == 1) return {};
  if (sharded()) {
    TESSERA_ASSIGN(all_reduce_, create_stream("all_reduce", StreamRole::communication));
  }
  TESSERA_ASSIGN(const auto groups, mesh_.groups("replicate"));
  TESSERA_ASSIGN(replica_group_, runtime_.create_communicator(groups, "replicate"));
  return {};
}

Status FlatEngine::setup() {
  TESSERA_TRY(plan_mesh());
  TESSERA_TRY(create_streams_and_groups());
  TESSERA_TRY(assign(options_.units, options_.plan, options_.original_dtype));
  entry_of_parameter_.resize(model_.parameters.size());
  for (const Parameter& p : model_.parameters) trained_.push_back(p.requires_grad);
  for (std::size_t u = 0; u < assignment_.units.size(); ++u) TESSERA_TRY(add_unit(u));
  return make_values(*this);
}

Status FlatEngine::add_unit(std::size_t u) {
  FlatUnit unit;
  unit.name = unit_name(u);
  unit.module = assignment_.units[u].module;
  const UnitOverrides known{.mixed_precision = overrides(u).mixed_precision,
                            .reshard_after_forward = overrides(u).reshard_after_forward};
  if (!(overrides(u) == known)) {
    return Status(Code::not_supported,
                  fmt::format("unit {}: the schemes of FSDP1 take only mixed_precision and "
                              "reshard_after_forward of a plan, fully_shard takes all",
                              unit.name));
  }
  const auto parameters = pre_order(assignment_.units[u].parameters);
  for (ParameterId id : parameters) {
    const Parameter& first = model_.parameter(parameters.front());
    const Parameter& p = model_.parameter(id);
    if (p.dtype != first.dtype) {
      return Status(Code::invalid_argument,
                    fmt::format("unit {} cannot be flattened: {} is {} and {} is {}", unit.name,
                                first.name, name_of(first.dtype), p.name, name_of(p.dtype)));
    }
    if (!options_.use_orig_params && p.requires_grad != first.requires_grad) {
      return Status(Code::invalid_argument,
                    fmt::format("unit {} mixes trained and frozen parameters ({}, {}): wrap them "
                                "apart, or set use_orig_params",
                                unit.name, first.name, p.name));
    }
  }
  const bool mixed = overrides(u).mixed_precision.value_or(true);
  unit.casts = mixed && options_.param_dtype.has_value();
  unit.param_dtype =
      mixed ? options_.param_dtype.value_or(options_.original_dtype) : options_.original_dtype;
  unit.reduce_dtype = mixed ? options_.reduce_dtype.value_or(unit.param_dtype) : unit.param_dtype;
  unit.frees_after_forward =
      (strategy_ == ShardingStrategy::full_shard || strategy_ == ShardingStrategy::hybrid_shard) &&
      overrides(u).reshard_after_forward.value_or(true);
  // Parameters begin at 16 bytes, so that views of them are as aligned as own tensors.
  const Numel align{options_.use_orig_params ? 16 / size_of(unit.param_dtype).value : 0};
  unit.layout = flat_layout(model_, parameters, shard_size_, align,
                            strategy_ == ShardingStrategy::no_shard ? everyone_.count() : 0);
  for (std::size_t e = 0; e < unit.layout.entries.size(); ++e) {
    const ParameterId id = unit.layout.entries[e].parameter;
    if (id.valid()) entry_of_parameter_[id.index()] = e;
  }
  unit.frozen = !parameters.empty() &&
                std::none_of(parameters.begin(), parameters.end(),
                             [&](auto p) { return model_.parameter(p).requires_grad; });
  unit.shard.name = fmt::format("{}.flat_param", unit.name);
  unit.shard.unit = unit.name;
  unit.shard.map = shard_map(model_, unit.layout);
  unit.shard.dtype = options_.original_dtype;
  if (options_.offload_params) unit.shard.memory = Memory::pinned_host;
  if (!parameters.empty()) {
    TESSERA_ASSIGN(unit.shard.value,
                   allocate(unit.shard.name, bytes_of(unit.layout.shard, options_.original_dtype),
                            options_.offload_params ? MemoryClass::pinned_host
                                                    : MemoryClass::sharded_parameters,
                            compute_, cause(unit.name, Reason::none),
                            options_.offload_params ? Memory::pinned_host : Memory::device));
  }
  units_.push_back(std::move(unit));
  return {};
}

FlatUnit* FlatEngine::unit_of(ModuleId module) {
  const int u = unit_at(module);
  return u < 0 ? nullptr : &units_[static_cast<std::size_t>(u)];
}

const FlatLayout::Entry& FlatEngine::entry_of(ParameterId id) const {
  const FlatUnit& unit = units_[assignment_.unit_of_parameter[id.index()]];
  return unit.layout.entries[entry_of_parameter_[id.index()]];
}

Result<View> FlatEngine::parameter_view(ParameterId id) {
  const FlatUnit& unit = unit_with(id);
  BufferId flat = unit.unsharded;
  if (!sharded()) flat = staged(unit) ? unit.staged : unit.shard.value;
  if (flat.valid())
    return View::part(flat, unit.param_dtype, entry_of(id).begin, entry_of(id).numel);
  return Status(Code::invalid_argument,
                fmt::format("parameter {} is used while it is sharded: call {} for unit {} first",
                            model_.parameter(id).name,
                            stage_ == Stage::backward ? "pre_backward" : "pre_forward", unit.name));
}

std::vector<ParamShard*> FlatEngine::shards() {
  std::vector<ParamShard*> all;
  for (FlatUnit& unit : units_) {
    if (!unit.shard.value.valid()) continue;
    unit.shard.gradient = unit.shard.unsharded = {};
    if (sharded() && unit.unsharded.valid()) {
      unit.shard.unsharded = View::whole(unit.unsharded, unit.param_dtype, unit.layout.padded());
    }
    if (unit.sharded_gradient.valid()) {
      unit.shard.gradient =
          View::whole(unit.sharded_gradient, gradient_dtype(unit), unit.layout.shard);
    }
    all.push_back(&unit.shard);
  }
  return all;
}

std::vector<StreamId> FlatEngine::side_streams() const {
  return {unshard_stream_, pre_unshard_, post_backward_stream_, all_reduce_};
}

Status FlatEngine::free_gradients(EventId stepped) {
  for (FlatUnit& unit : units_) {
    if (unit.sharded_gradient.valid()) TESSERA_TRY(release(unit.sharded_gradient, stepped));
  }
  return {};
}

Status FlatEngine::begin_forward() {
  TESSERA_TRY(expect(Stage::idle, "begin_forward"));
  begin_pass();
  TESSERA_TRY(enter(Stage::forward, Phase::forward));
  if (!initialised_ && sharded()) {
    for (const FlatUnit& unit : units_) {
      if (!unit.shard.value.valid()) continue;
      TESSERA_TRY(mark(cause(unit.name, Reason::none), marks::storage_prepared, compute_).status());
    }
  }
  // The gathers must see what the optimizer wrote.
  const Cause why = cause("root", Reason::order);
  TESSERA_TRY(wait_stream(unshard_stream_, compute_, why));
  TESSERA_TRY(wait_stream(pre_unshard_, compute_, why));
  for (FlatUnit& unit : units_) unit.needs_pre_forward = true;
  input_dtype_ = units_.front().casts ? units_.front().param_dtype : options_.original_dtype;
  return {};
}

Status FlatEngine::pre_forward(ModuleId module) {
  if (recomputing()) return {};
  TESSERA_TRY(expect(Stage::forward, "pre_forward", module));
  FlatUnit* unit = unit_of(module);
  if (unit == nullptr) return {};
  // The first training step decides the order in which forward prefetches from then on.
  if (!initialised_ && trains()) {
    pre_forward_order_.push_back(static_cast<std::size_t>(unit - units_.data()));
  }
  if (!unit->prefetched) TESSERA_TRY(unshard(*unit, Reason::needed));
  unit->needs_pre_forward = false;
  unit->casts_now = unit->casts && input_dtype_ != unit->param_dtype;
  if (unit->casts) input_dtype_ = unit->param_dtype;
  // For the whole stream, unlike fully_shard: gathers issued behind this one would hold it up, too.
  TESSERA_TRY(wait_stream(compute_, unshard_stream_, cause(unit->name, Reason::needed)));
  return prefetch_forward(*unit);
}

Status FlatEngine::post_forward(ModuleId module) {
  if (recomputing()) return {};
  TESSERA_TRY(expect(Stage::forward, "post_forward", module));
  FlatUnit* unit = unit_of(module);
  if (unit == nullptr) return {};
  const bool root = unit == &units_.front();
  // Without sharding there is at most a cast copy, which is cheap to make again.
  TESSERA_TRY(reshard(*unit, !sharded() || (unit->frees_after_forward && !root)));
  unit->post_forward_indices.push_back(post_forward_order_.size());
  unit->needs_pre_backward = flow_.out_of(module);
  // What has no parameters is no place in the order (torch: a state without a handle).
  if (!unit->layout.entries.empty()) {
    post_forward_order_.push_back(static_cast<std::size_t>(unit - units_.data()));
  }
  return ends_pass(module) ? end_evaluation() : Status{};
}

// Values change: what micro-batches without sync left gathered has the old ones.
Status FlatEngine::before_write() {
  for (FlatUnit& unit : units_) TESSERA_TRY(reshard(unit, true));
  return {};
}

// Training goes on as if nothing had run.
Status FlatEngine::end_evaluation() {
  for (FlatUnit& unit : units_) {
    TESSERA_TRY(reshard(unit, true));
    unit.post_forward_indices.clear();
    unit.needs_pre_backward = false;
  }
  post_forward_order_.clear();
  stage_ = Stage::idle;
  return {};
}

Status FlatEngine::begin_backward() {
  TESSERA_TRY(expect(Stage::forward, "begin_backward"));
  TESSERA_ASSERT(left_.empty(), "frozen units are freed in the backward pass that left them");
  initialised_ = true;
  return enter(Stage::backward, Phase::backward);
}

Status FlatEngine::pre_backward(ModuleId module) {
  TESSERA_TRY(expect(Stage::backward, "pre_backward", module));
  FlatUnit* unit = unit_of(module);
  if (unit == nullptr) return {};
  // torch's pre-backward hook hangs on the unit's outputs and runs before anything is waited for:
  // recorded runs are compared by this line.
  TESSERA_TRY(mark(cause(unit->name, Reason::none), marks::pre_backward, compute_).status());
  if (!unit->prefetched) TESSERA_TRY(unshard(*unit, Reason::needed));
  TESSERA_TRY(wait_stream(compute_, unshard_stream_, cause(unit->name, Reason::needed)));
  unit->needs_pre_backward = false;
  unit->backward_place = unit->post_forward_indices.empty() ? 0 : unit->post_forward_indices.back();
  const bool pre =
      options_.backward_prefetch == BackwardPrefetch::pre && !unit->layout.entries.empty();
  return pre ? prefetch_backward(*unit) : Status{};
}

Status FlatEngine::post_backward(ModuleId module) {
  TESSERA_TRY(expect(Stage::backward, "post_backward", module));
  FlatUnit* unit = unit_of(module);
  // The views of the root's flat parameter are autograd's first nodes, so it is reduced last.
  if (unit == nullptr || unit == &units_.front()) return {};
  if (unit->post_forward_indices.empty()) {
    return Status(Code::invalid_argument,
                  fmt::format("post_backward of unit {} came more often than its forward passes",
                              unit->name));
  }
  unit->post_forward_indices.pop_back();
  // A unit that ran several times in forward reduces after its last backward pass.
  if (!unit->post_forward_indices.empty()) return {};
  if (unit->frozen && !flow_.into(module)) return {};  // no gradient comes: end_backward frees it
  if (!unit->frozen || unit->casts_now) return finish_unit(*unit);
  left_.push_back(static_cast<std::size_t>(unit - units_.data()));
  return {};
}

Status FlatEngine::compute(const ModuleWork& work) {
  if (stage_ == Stage::backward) TESSERA_TRY(free_frozen());
  return EngineBase::compute(work);
}

Status FlatEngine::end_backward() {
  TESSERA_TRY(expect_end_of_backward());
  TESSERA_TRY(free_frozen());
  for (std::size_t u = units_.size(); u-- > 0;) {  // the root last
    FlatUnit& unit = units_[u];
    unit.post_forward_indices.clear();
    const bool computed = unit.gradient.valid() || unit.accumulated.valid();
    if (!unit.finished_backward && computed) TESSERA_TRY(finish_unit(unit));
  }
  for (FlatUnit& unit : units_) {  // what no hook told of (torch _catch_all_reshard)
    if (!unit.finished_backward) TESSERA_TRY(reshard(unit, frees_in_backward(unit)));
    unit.finished_backward = unit.needs_pre_backward = false;
  }
  TESSERA_TRY(locals_.accumulate());
  if (reduces_) TESSERA_TRY(await_reductions());
  post_forward_order_.clear();
  reduced_ = {};
  stage_ = Stage::idle;
  ++micro_batch_;
  return {};
}

std::vector<UnitInfo> FlatEngine::units() const {
  std::vector<UnitInfo> infos;
  for (const FlatUnit& unit : units_) {
    infos.push_back({std::string(unit.name),
                     static_cast<std::int32_t>(unit.shard.map.segments().size()), unit.layout.numel,
                     unit.layout.total, unit.layout.padding(), unit.layout.shard});
  }
  return infos;
}

std::vector<std::string> FlatEngine::warnings() const {
  std::vector<std::string> out = locals_.warnings();
  if (shard_size_ == 1 && strategy_ != ShardingStrategy::no_shard) {
    out.push_back("one rank has nobody to shard with: the strategy is no_shard");
  }
  for (const std::string& list : units_without_forward()) {
    out.push_back(
        fmt::format("unit {} only lists modules: PyTorch never calls its forward and does "
                    "not gather it, here it is gathered around its members",
                    list));
  }
  if (auto mixed = mixed_units(units_)) out.push_back(std::move(*mixed));
  return out;
}

DivideFactors divide_factors(Index world_size) {
  Index factor = 1;
  while (world_size % factor == 0 && world_size / factor > factor) factor *= 2;
  return {static_cast<float>(factor), static_cast<float>(world_size) / static_cast<float>(factor)};
}

Result<std::unique_ptr<Engine>> fsdp1(Runtime& runtime, const Model& model,
                                      const Fsdp1Options& options) {
  auto engine = std::make_unique<FlatEngine>(runtime, model, options);
  TESSERA_TRY(engine->setup());
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace tessera
