// SPDX-License-Identifier: Apache-2.0
#include "engine/reduce/replicate_engine.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {

ReplicateEngine::ReplicateEngine(Runtime& runtime, const Model& model,
                                 const ReplicateOptions& options)
    : EngineBase(runtime, model), options_(options), world_size_(everyone_.count()) {}

Status ReplicateEngine::setup() {
  if (options_.bucket_cap < Bytes{1} || options_.first_bucket_cap < Bytes{1}) {
    return Status(Code::invalid_argument,
                  fmt::format("bucket caps must be at least 1 byte, found {} and {}",
                              options_.first_bucket_cap.value, options_.bucket_cap.value));
  }
  assignment_.units = {{.module = ModuleId{0}, .parameters = {}}};  // one unit: the whole model
  assignment_.unit_of_module.assign(model_.modules.size(), 0);
  assignment_.unit_of_parameter.assign(model_.parameters.size(), 0);
  assignment_.used_by = used_by(model_);
  TESSERA_ASSIGN(compute_, runtime_.create_stream("default", StreamRole::compute));
  TESSERA_ASSIGN(nccl_, runtime_.create_stream("nccl", StreamRole::communication));
  TESSERA_ASSIGN(const auto groups, RankGroups::strided(world_size_, world_size_));
  TESSERA_ASSIGN(world_, runtime_.create_communicator(groups, "world"));
  TESSERA_TRY(add_parameters());
  TESSERA_TRY(initialise_held());
  if (options_.init_sync && world_size_ > 1) TESSERA_TRY(sync_model());
  plan_first_buckets();
  return allocate_buckets();
}

std::vector<bool> ReplicateEngine::ignored() const {
  std::vector<bool> out(model_.modules.size(), false);
  for (std::size_t m = 0; m < model_.modules.size(); ++m) {  // parents come first
    const Module& module = model_.modules[m];
    out[m] = module.parent.valid() && out[static_cast<std::size_t>(module.parent.value)];
    for (const std::string& path : options_.ignored_modules) {
      if (module.path == path) out[m] = true;
    }
  }
  return out;
}

Status ReplicateEngine::add_parameters() {
  for (const std::string& path : options_.ignored_modules) {
    if (model_.find_module(path).valid()) continue;
    return Status(Code::invalid_argument,
                  fmt::format("ignored module '{}' is no module of {}", path, model_.name));
  }
  const std::vector<bool> is_ignored = ignored();
  for (std::size_t k = 0; k < model_.parameters.size(); ++k) {
    const Parameter& source = model_.parameters[k];
    ReplicatedParameter p;
    p.id = ParameterId{static_cast<std::int32_t>(k)};
    p.numel = source.numel();
    p.trained = source.requires_grad && !is_ignored[static_cast<std::size_t>(source.module.value)];
    p.held.name = source.name;
    p.held.unit = "root";
    p.held.dtype = options_.dtype;
    p.held.map = ShardMap({{p.id, Numel{0}, p.numel, source.requires_grad}}, p.numel);
    TESSERA_ASSIGN(p.held.value, allocate(source.name, bytes_of(p.numel, options_.dtype),
                                          MemoryClass::unsharded_parameters, compute_,
                                          cause("root", Reason::none)));
    parameters_.push_back(std::move(p));
  }
  if (std::none_of(parameters_.begin(), parameters_.end(),
                   [](const ReplicatedParameter& p) { return p.trained; })) {
    return Status(Code::invalid_argument,
                  fmt::format("{} has no parameter that requires a gradient: there is nothing to "
                              "replicate",
                              model_.name));
  }
  used_.assign(parameters_.size(), false);
  uses_now_.assign(parameters_.size(), 0);
  return {};
}

Cause ReplicateEngine::cause_of(const ReplicatedParameter& p, Reason reason) const {
  Cause why = cause("root", reason);
  why.module = name(p);
  return why;
}

View ReplicateEngine::slice(const ReplicatedParameter& p) const {
  return View::part(buckets_[p.bucket].buffer, options_.dtype, p.offset, p.numel);
}

Result<View> ReplicateEngine::parameter_view(ParameterId id) {
  return whole(at(id).held.value, at(id));
}

Result<View> ReplicateEngine::gradient_view(ParameterId id) {
  ReplicatedParameter& p = at(id);
  const bool into_bucket = options_.gradient_as_bucket_view && p.trained && !p.has_gradient;
  if (into_bucket) return slice(p);
  if (!p.fresh.valid()) {
    TESSERA_ASSIGN(p.fresh,
                   allocate(fmt::format("{}.grad", name(p)), bytes_of(p.numel, options_.dtype),
                            MemoryClass::unsharded_gradients, compute_, cause_of(p, Reason::none)));
  }
  return whole(p.fresh, p);
}

std::vector<Held*> ReplicateEngine::held() {
  std::vector<Held*> all;
  for (ReplicatedParameter& p : parameters_) {
    p.held.gradient = {};
    if (p.has_gradient) {
      p.held.gradient = p.gradient.valid() ? whole(p.gradient, p) : slice(p);
    }
    all.push_back(&p.held);
  }
  return all;
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
  TESSERA_TRY(enter(Stage::forward, Phase::forward));
  if (!unfinished_.empty()) {
    return Status(Code::invalid_argument,
                  fmt::format("the last backward did not finish its reduction: {} got no gradient; "
                              "set find_unused_parameters, or use every parameter in the loss",
                              unfinished_));
  }
  used_.assign(parameters_.size(), false);
  uses_now_.assign(parameters_.size(), 0);
  return rebuild_if_due();
}

Status ReplicateEngine::compute(const ModuleWork& work) {
  for (ParameterId id : assignment_.used_by[static_cast<std::size_t>(work.module.value)]) {
    if (work.pass == ModuleWork::Pass::forward) used_[static_cast<std::size_t>(id.value)] = true;
    if (work.pass == ModuleWork::Pass::backward) ++uses_now_[static_cast<std::size_t>(id.value)];
  }
  return EngineBase::compute(work);
}

Status ReplicateEngine::begin_backward() {
  TESSERA_TRY(expect(Stage::forward, "begin_backward"));
  for (ReplicatedParameter& p : parameters_) p.ready = false;
  for (Bucket& bucket : buckets_) bucket.pending = bucket.parameters.size();
  next_bucket_ = 0;
  swept_unused_ = false;
  if (!rebuilt_) ready_order_.clear();
  TESSERA_TRY(enter(Stage::backward, Phase::backward));
  return options_.gradient_as_bucket_view ? clear_views() : Status{};
}

Status ReplicateEngine::grad_ready(ParameterId parameter) {
  TESSERA_TRY(expect(Stage::backward, "grad_ready"));
  ReplicatedParameter& p = at(parameter);
  if (!p.trained) return accumulate(p);
  if (p.ready) {
    return Status(Code::invalid_argument,
                  fmt::format("the gradient of {} became ready twice in one backward: it is used "
                              "outside of forward, or by two reentrant backward passes",
                              name(p)));
  }
  TESSERA_TRY(mark(cause_of(p, Reason::none), Mark::Kind::gradient_ready, compute_).status());
  ready_order_.push_back(static_cast<std::size_t>(parameter.value));
  TESSERA_TRY(accumulate(p));
  p.ready = true;
  if (!sync_) return {};
  if (options_.find_unused_parameters && !swept_unused_) TESSERA_TRY(mark_unused());
  // The first step of a static graph only counts; its buckets go at the end.
  if (options_.static_graph && synced_backwards_ == 0) return {};
  return mark_ready(p);
}

Status ReplicateEngine::end_backward() {
  TESSERA_TRY(expect(Stage::backward, "end_backward"));
  if (sync_) {
    if (options_.static_graph) {
      if (synced_backwards_ == 0) {
        uses_ = uses_now_;
        for (const std::size_t k : ready_order_) TESSERA_TRY(mark_ready(parameters_[k]));
        TESSERA_TRY(mark_unused());
      } else if (uses_ != uses_now_) {
        return Status(Code::invalid_argument,
                      "static_graph was set, but this backward uses other parameters, or uses them "
                      "another number of times, than the first one");
      }
    }
    TESSERA_TRY(finish_buckets());
    ++synced_backwards_;
  }
  stage_ = Stage::idle;
  ++micro_batch_;
  return {};
}

std::vector<UnitInfo> ReplicateEngine::units() const {
  std::vector<UnitInfo> infos;
  for (const Bucket& b : buckets_) {
    infos.push_back(
        {b.name, static_cast<std::int32_t>(b.parameters.size()), b.numel, b.numel, {}, b.numel});
  }
  return infos;
}

Result<std::unique_ptr<Engine>> replicate(Runtime& runtime, const Model& model,
                                          const ReplicateOptions& options) {
  auto engine = std::make_unique<ReplicateEngine>(runtime, model, options);
  TESSERA_TRY(engine->setup());
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace tessera
