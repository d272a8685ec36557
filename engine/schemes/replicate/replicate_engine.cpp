// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/replicate/replicate_engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/assert.h"

namespace tessera {
namespace {

Status too_late(const char* what) {
  return Status(Code::invalid_argument,
                fmt::format("{} after the first forward pass has begun: the buckets of a step that "
                            "runs cannot change; do it before",
                            what));
}

Result<GradientReducer*> reducer_of(Engine& engine, const char* call) {
  GradientReducer* const reducer = engine.gradient_reducer();
  if (reducer != nullptr) return reducer;
  return Status(Code::invalid_argument,
                fmt::format("{} is for engines made by replicate, this one shards", call));
}

}  // namespace

ReplicateEngine::ReplicateEngine(Runtime& runtime, const Model& model,
                                 const ReplicateOptions& options, const RankGroups& groups)
    : EngineBase(runtime, model, groups.ranks()),
      options_(options),
      groups_(groups),
      world_size_(groups.group_size_max()) {}

ReplicateEngine::~ReplicateEngine() {
  if (hook_) hook_->detach();
}

Status ReplicateEngine::setup() {
  for (const Bytes cap : bucket_caps()) {
    if (cap >= Bytes{1}) continue;
    return Status(Code::invalid_argument,
                  fmt::format("bucket caps must be at least 1 byte, found {}", cap.value));
  }
  if (!options_.bucket_caps.empty() && (options_.bucket_cap || options_.first_bucket_cap)) {
    return Status(Code::invalid_argument,
                  "bucket_caps says what bucket_cap and first_bucket_cap would: leave these out");
  }
  assign_whole_model();
  TESSERA_ASSIGN(compute_, create_stream("default", StreamRole::compute));
  TESSERA_ASSIGN(nccl_, create_stream("nccl", StreamRole::communication));
  const char* const name = groups_.group_count() == 1 ? "world" : "group";
  TESSERA_ASSIGN(world_, runtime_.create_communicator(groups_, name));
  TESSERA_TRY(add_parameters());
  TESSERA_TRY(make_values(*this));
  TESSERA_TRY(add_buffers());
  if (options_.init_sync && world_size_ > 1) TESSERA_TRY(sync_model());
  plan_first_buckets();
  TESSERA_TRY(allocate_buckets());
  return options_.comm_hook ? register_hook(options_.comm_hook) : Status{};
}

Status ReplicateEngine::register_hook(std::shared_ptr<CommHook> hook) {
  if (!hook) return Status(Code::invalid_argument, "there is no communication hook to register");
  if (hook_) {
    return Status(Code::invalid_argument,
                  fmt::format("communication hook {}: the engine has a hook already, {}; it is "
                              "registered once",
                              hook->name(), hook_->name()));
  }
  if (started_) return too_late("a communication hook was registered");
  TESSERA_TRY(hook->attach());
  hook_ = std::move(hook);
  return {};
}

Status ReplicateEngine::set_static_graph() {
  if (started_) return too_late("the graph was declared static");
  options_.static_graph = true;
  rebuilt_ = false;
  // No event: no forward pass has begun, so nothing was ever written there.
  for (Bucket& bucket : buckets_) TESSERA_TRY(release(bucket.buffer, EventId{}));
  plan_first_buckets();
  return allocate_buckets();
}

Cause ReplicateEngine::cause_of(const ReplicatedParameter& p, Reason reason) const {
  Cause why = cause("root", reason);
  why.module = name(p);
  return why;
}

View ReplicateEngine::slice(const ReplicatedParameter& p) const {
  TESSERA_ASSERT(p.trained && p.bucket < buckets_.size(), "only what is reduced lies in a bucket");
  return View::part(buckets_[p.bucket].buffer, p.shard.dtype, p.offset, p.numel);
}

Result<View> ReplicateEngine::parameter_view(ParameterId id) {
  return whole(at(id).shard.value, at(id));
}

Result<View> ReplicateEngine::gradient_view(ParameterId id) {
  ReplicatedParameter& p = at(id);
  if (!p.shard.map.requires_grad()) return trained_later(name(p));
  if (p.ready) return late_gradient(name(p));
  // A second backward without a step adds to what the bucket has: it needs memory of its own.
  const bool into_bucket = views() && p.trained && !p.has_gradient;
  if (into_bucket) return slice(p);
  if (!p.fresh.valid()) {
    TESSERA_ASSIGN(p.fresh,
                   allocate(fmt::format("{}.grad", name(p)), bytes_of(p.numel, p.shard.dtype),
                            MemoryClass::unsharded_gradients, compute_, cause_of(p, Reason::none)));
  }
  return whole(p.fresh, p);
}

std::vector<ParamShard*> ReplicateEngine::shards() {
  std::vector<ParamShard*> all;
  for (ReplicatedParameter& p : parameters_) {
    p.shard.gradient = {};
    if (p.has_gradient) {
      p.shard.gradient = p.gradient.valid() ? whole(p.gradient, p) : slice(p);
    }
    all.push_back(&p.shard);
  }
  return all;
}

Status ReplicateEngine::expect_finished() const {
  if (unfinished_.empty()) return {};
  return Status(Code::invalid_argument,
                fmt::format("the last backward did not finish its reduction: {} got no gradient; "
                            "set find_unused_parameters, or use every parameter in the loss",
                            unfinished_));
}

// torch steps what only some buckets have reduced, and complains in the next forward pass.
Status ReplicateEngine::complete_gradients() {
  TESSERA_TRY(expect_finished());
  for (const ReplicatedParameter& p : parameters_) {
    if (p.trained && p.has_gradient && used_since_sync_[p.id.index()]) return not_reduced(name(p));
  }
  return {};
}

Status ReplicateEngine::free_gradients(EventId stepped) {
  for (ReplicatedParameter& p : parameters_) {
    p.has_gradient = false;
    if (p.gradient.valid()) TESSERA_TRY(release(p.gradient, stepped));
  }
  return {};
}

Status ReplicateEngine::begin_forward() {
  TESSERA_TRY(expect(Stage::idle, "begin_forward"));
  begin_pass();
  TESSERA_TRY(enter(Stage::forward, Phase::forward));
  if (trains()) TESSERA_TRY(expect_finished());
  started_ = true;
  used_.assign(parameters_.size(), false);
  uses_now_.assign(parameters_.size(), 0);
  return announce_forward();
}

Status ReplicateEngine::compute(const ModuleWork& work) {
  TESSERA_TRY(expect_known("compute", work));
  for (ParameterId id : parameters_of(work)) {
    if (work.pass == ModuleWork::Pass::forward) used_[id.index()] = true;
    if (work.pass == ModuleWork::Pass::backward) ++uses_now_[id.index()];
  }
  return EngineBase::compute(work);
}

Status ReplicateEngine::begin_backward() {
  TESSERA_TRY(expect(Stage::forward, "begin_backward"));
  for (ReplicatedParameter& p : parameters_) p.ready = false;
  for (Bucket& bucket : buckets_) bucket.pending = bucket.parameters.size();
  next_bucket_ = 0;
  swept_unused_ = false;
  ready_order_.clear();
  TESSERA_TRY(enter(Stage::backward, Phase::backward));
  return views() ? clear_views() : Status{};
}

Status ReplicateEngine::grad_ready(ParameterId parameter) {
  TESSERA_TRY(expect(Stage::backward, "grad_ready", parameter));
  ReplicatedParameter& p = at(parameter);
  if (!p.trained) return accumulate(p);
  if (p.ready) return ready_twice(name(p));
  TESSERA_TRY(mark(cause_of(p, Reason::none), marks::gradient_ready, compute_).status());
  ready_order_.push_back(parameter.index());
  TESSERA_TRY(accumulate(p));
  p.ready = true;
  used_since_sync_[parameter.index()] = true;
  if (!reduces_) return {};
  // The first step of a static graph only counts; its buckets go at the end.
  if (options_.static_graph && synced_backwards_ == 0) return {};
  // Unused parameters count as ready with the first that is: no bucket may wait for them.
  const bool sweeps = finds_unused() || options_.static_graph;
  if (sweeps && !swept_unused_) TESSERA_TRY(mark_unused());
  return mark_ready(p);
}

Status ReplicateEngine::end_backward() {
  TESSERA_TRY(expect_end_of_backward());
  if (reduces_) {
    if (options_.static_graph && synced_backwards_ == 0) {
      uses_ = uses_now_;
      for (const std::size_t k : ready_order_) TESSERA_TRY(mark_ready(parameters_[k]));
      TESSERA_TRY(mark_unused());
    } else if (options_.static_graph) {
      TESSERA_TRY(check_same_uses());
    }
    TESSERA_TRY(finish_buckets());
    used_since_sync_.assign(parameters_.size(), false);
    ++synced_backwards_;
  }
  stage_ = Stage::idle;
  ++micro_batch_;
  return {};
}

Status ReplicateEngine::check_same_uses() const {
  if (uses_ == uses_now_) return {};
  std::vector<std::string_view> changed;
  for (std::size_t k = 0; k < uses_.size(); ++k) {
    if (uses_[k] != uses_now_[k]) changed.push_back(name(parameters_[k]));
  }
  return Status(Code::invalid_argument,
                fmt::format("static_graph was set, but {} are used another number of times than in "
                            "the first backward",
                            fmt::join(changed, ", ")));
}

std::vector<UnitInfo> ReplicateEngine::units() const {
  std::vector<UnitInfo> infos;
  for (const Bucket& b : buckets_) {
    infos.push_back({std::string(b.name),
                     static_cast<std::int32_t>(b.parameters.size()),
                     b.numel,
                     b.numel,
                     {},
                     b.numel});
  }
  return infos;
}

Result<std::unique_ptr<Engine>> replicate(Runtime& runtime, const Model& model,
                                          const ReplicateOptions& options) {
  TESSERA_TRY(Issuer::expect_not_driven(runtime, model));
  TESSERA_ASSIGN(const RankGroups groups,
                 process_groups(runtime.world(), options.group_size, options.groups));
  auto engine = std::make_unique<ReplicateEngine>(runtime, model, options, groups);
  TESSERA_TRY(engine->setup());
  return std::unique_ptr<Engine>(std::move(engine));
}

Status register_comm_hook(Engine& engine, std::shared_ptr<CommHook> hook) {
  TESSERA_ASSIGN(GradientReducer* const reducer, reducer_of(engine, "register_comm_hook"));
  return reducer->register_hook(std::move(hook));
}

Status set_static_graph(Engine& engine) {
  TESSERA_ASSIGN(GradientReducer* const reducer, reducer_of(engine, "set_static_graph"));
  return reducer->set_static_graph();
}

}  // namespace tessera
