// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/sharded_data_parallel/owner_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/process_groups.h"
#include "tessera/assert.h"

namespace tessera {
namespace {

bool is_float(std::optional<DType> dtype) {
  return !dtype || *dtype <= DType::float64;  // integers come after
}

}  // namespace

OwnerEngine::OwnerEngine(Runtime& runtime, const Model& model,
                         const ShardedDataParallelOptions& options, const RankGroups& groups)
    : EngineBase(runtime, model, groups.ranks()),
      options_(options),
      groups_(groups),
      ranks_(groups.group_size_max()),
      owner_map_(ranks_) {
  for (Index index = 0; index < ranks_; ++index) {
    std::vector<Rank> alike;
    for (Index g = 0; g < groups_.group_count(); ++g) alike.push_back(groups_.member(g, index));
    owners_.push_back(RankSet::of(std::move(alike)));
  }
}

Status OwnerEngine::setup() {
  if (options_.reduce_buffer_size < Numel{0}) {
    return Status(Code::invalid_argument,
                  fmt::format("reduce_buffer_size must not be negative, found {}",
                              options_.reduce_buffer_size.value));
  }
  for (const auto dtype : {options_.dtype, options_.reduce_dtype, options_.broadcast_dtype}) {
    if (is_float(dtype)) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{} is no dtype of gradients: choose a float", name_of(*dtype)));
  }
  assign_whole_model();
  TESSERA_ASSIGN(compute_, create_stream("default", StreamRole::compute));
  TESSERA_ASSIGN(comm_, create_stream("nccl", StreamRole::communication));
  const char* const name = groups_.group_count() == 1 ? "world" : "group";
  TESSERA_ASSIGN(group_, runtime_.create_communicator(groups_, name));
  TESSERA_TRY(add_parameters());
  TESSERA_TRY(lay_out_values());
  plan_buckets();
  TESSERA_TRY(make_values(*this));
  TESSERA_TRY(add_buffers());
  const bool syncs = options_.sync_models_at_startup && ranks_ > 1;
  return syncs ? sync_model() : Status{};
}

// fairscale lays out anew in evaluation, too, and once more when training goes on.
Status OwnerEngine::begin_forward() {
  TESSERA_TRY(expect(Stage::idle, "begin_forward"));
  begin_pass();
  if (trains() && mask_changed()) TESSERA_TRY(refresh_trainable());
  TESSERA_TRY(enter(Stage::forward, Phase::forward));
  const bool stale = sync_ && options_.broadcast_buffers && ranks_ > 1;
  return stale ? broadcast_buffers() : Status{};
}

Status OwnerEngine::sync_buffers() {
  TESSERA_TRY(expect(Stage::idle, "sync_buffers"));
  return ranks_ > 1 ? broadcast_buffers() : Status{};
}

Status OwnerEngine::begin_backward() {
  TESSERA_TRY(expect(Stage::forward, "begin_backward"));
  for (OwnedParameter& p : parameters_) p.touched = p.ready = false;
  for (GradientBucket& b : buckets_) b.pending = b.parameters.size();
  next_bucket_ = 0;
  return enter(Stage::backward, Phase::backward);
}

Status OwnerEngine::grad_ready(ParameterId parameter) {
  TESSERA_TRY(expect(Stage::backward, "grad_ready", parameter));
  OwnedParameter& p = at(parameter);
  if (!p.trained) return {};
  if (p.ready) return ready_twice(p.shard.name);
  Cause why = cause_of(buckets_[p.bucket], Reason::none);
  why.module = model_.parameter(p.id).name;
  TESSERA_TRY(mark(why, marks::gradient_ready, compute_).status());
  TESSERA_TRY(accumulate(p));
  p.ready = true;
  TESSERA_ASSERT(buckets_[p.bucket].pending > 0, "a gradient is ready once in a backward pass");
  --buckets_[p.bucket].pending;
  return reduces_ ? launch_ready() : Status{};
}

Status OwnerEngine::end_backward() {
  TESSERA_TRY(expect_end_of_backward());
  for (OwnedParameter& p : parameters_) {
    // A body wrote it, but the host program never said that it was ready.
    if (p.touched && !p.ready) TESSERA_TRY(accumulate(p));
  }
  TESSERA_TRY(drop_unowned());
  if (reduces_) TESSERA_TRY(flush());
  stage_ = Stage::idle;
  ++micro_batch_;
  return {};
}

Status OwnerEngine::reduce() {
  TESSERA_TRY(expect(Stage::idle, "reduce"));
  if (!unreduced()) {
    return Status(Code::invalid_argument,
                  "reduce: no gradient waits to be reduced; run backward without synchronisation "
                  "before");
  }
  next_bucket_ = 0;
  return flush();
}

Status OwnerEngine::step(const AdamOptions& options) {
  TESSERA_TRY(expect(Stage::idle, "step"));
  TESSERA_TRY(expect_reduced("step"));
  return EngineBase::step(options);
}

Status OwnerEngine::step_optimizer(std::int32_t optimizer, const AdamOptions& options) {
  const auto& all = param_groups();
  if (std::none_of(all.begin(), all.end(),
                   [&](const ParamGroup& g) { return g.optimizer == optimizer; })) {
    return Status(Code::invalid_argument,
                  fmt::format("step_optimizer: no param group has optimizer {}", optimizer));
  }
  optimizer_.select(optimizer);
  const Status done = step(options);
  optimizer_.select(std::nullopt);
  return done;
}

Status OwnerEngine::set_norm_group(const RankGroups& groups) {
  if (groups.ranks() != everyone_) {
    return Status(Code::invalid_argument,
                  fmt::format("set_norm_group: ranks {} train, but the groups are of ranks {}",
                              everyone_.to_string(), groups.ranks().to_string()));
  }
  TESSERA_ASSIGN(norm_group_, runtime_.create_communicator(groups, "norm"));
  return {};
}

Status OwnerEngine::clip_grad_norm(float max_norm, double norm_type,
                                   const std::function<void(Rank, float)>& total) {
  TESSERA_TRY(expect(Stage::idle, "clip_grad_norm"));
  TESSERA_TRY(expect_reduced("clip_grad_norm"));
  return EngineBase::clip_grad_norm(max_norm, norm_type, total);
}

Status OwnerEngine::inspect_gradient(
    ParameterId parameter, const std::function<void(Rank, std::span<const float>)>& read) {
  TESSERA_TRY(expect(Stage::idle, "inspect_gradient", parameter));
  const OwnedParameter& p = at(parameter);
  if (!p.trained || !buckets_[p.bucket].gradient.valid()) return {};
  Compute look;
  look.reads = {slice(buckets_[p.bucket].gradient, p)};
  look.body = [read, dtype = p.dtype, numel = p.numel](const BodyContext& context) {
    std::vector<float> values(static_cast<std::size_t>(numel.value));
    context.kernels().read({context.read(0), dtype}, values);
    read(context.rank(), values);
  };
  TESSERA_ASSIGN(const EventId seen, submit_on(owner_set(p.owner), compute_,
                                               cause("root", Reason::none), std::move(look)));
  return runtime_.wait(seen);
}

std::vector<UnitInfo> OwnerEngine::units() const {
  std::vector<UnitInfo> infos;
  for (const OwnerShard& s : shards_) {
    infos.push_back({std::string(s.name), s.parameters, s.numel, s.numel, {}, s.numel});
  }
  return infos;
}

Result<std::unique_ptr<ShardedDataParallel>> sharded_data_parallel(
    Runtime& runtime, const Model& model, const ShardedDataParallelOptions& options) {
  TESSERA_TRY(Issuer::expect_not_driven(runtime, model));
  TESSERA_ASSIGN(const RankGroups groups,
                 process_groups(runtime.world(), options.group_size, options.groups));
  auto engine = std::make_unique<OwnerEngine>(runtime, model, options, groups);
  TESSERA_TRY(engine->setup());
  return std::unique_ptr<ShardedDataParallel>(std::move(engine));
}

}  // namespace tessera
