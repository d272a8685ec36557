// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero12/zero12_engine.h"

namespace tessera {

Result<View> Zero12Engine::parameter_view(ParameterId id) {
  const PartedParameter& p = at(id);
  return View::part(flat_of(p).value, param_dtype(), p.place, p.numel);
}

// Those of frozen parameters come first: together they are shown in the dtype of the last.
std::vector<ParamShard*> Zero12Engine::shards() {
  std::vector<ParamShard*> all;
  for (FlatBuffer* flat : {&frozen_, &flat_}) {
    if (!flat->value.valid()) continue;
    const View whole = View::whole(flat->value, param_dtype(), flat->layout.padded());
    flat->shard.unsharded = values_are_old_ ? View{} : whole;
    all.push_back(&flat->shard);
  }
  flat_.shard.gradient = {};
  if (part_.valid()) {
    flat_.shard.gradient = View::whole(part_, param_dtype(), flat_.layout.shard);
  }
  return all;
}

std::vector<StreamId> Zero12Engine::side_streams() const {
  std::vector<StreamId> streams = {nccl_};
  if (overlaps()) streams.insert(streams.begin(), reduce_);
  if (host_.valid()) streams.push_back(host_);
  return streams;
}

Status Zero12Engine::begin_forward() {
  TESSERA_TRY(expect(Stage::idle, "begin_forward"));
  begin_pass();
  TESSERA_TRY(enter(Stage::forward, Phase::forward));
  // Somebody wrote parts, each rank its own: the whole parameters come from them.
  return std::exchange(values_are_old_, false) ? refresh() : Status{};
}

Status Zero12Engine::begin_backward() {
  TESSERA_TRY(expect(Stage::forward, "begin_backward"));
  for (PartedParameter& p : parameters_) p.ready = false;
  asked_for_no_sync_ |= !sync_ && parts_gradients();
  TESSERA_TRY(enter(Stage::backward, Phase::backward));
  return parts_gradients() ? open_buckets() : Status{};
}

Status Zero12Engine::grad_ready(ParameterId parameter) {
  TESSERA_TRY(expect(Stage::backward, "grad_ready", parameter));
  PartedParameter& p = at(parameter);
  if (!p.trained) return {};
  if (p.ready) return ready_twice(name(p));
  Cause why = cause("root", Reason::none);
  why.module = name(p);
  TESSERA_TRY(mark(why, marks::gradient_ready, compute_).status());
  p.ready = true;
  return finish_gradient(p);
}

Status Zero12Engine::end_backward() {
  TESSERA_TRY(expect_end_of_backward());
  for (PartedParameter& p : parameters_) {
    // Gradients that the host program never called ready are complete now.
    if (!p.ready) TESSERA_TRY(finish_gradient(p));
  }
  if (parts_gradients()) {
    TESSERA_TRY(flush());
  } else if (reduces_) {
    TESSERA_TRY(reduce_rest());
  }
  stage_ = Stage::idle;
  ++micro_batch_;
  return {};
}

Status Zero12Engine::clip_grad_norm(float max_norm, double norm_type,
                                    const std::function<void(Rank, float)>& total) {
  TESSERA_TRY(expect(Stage::idle, "clip_grad_norm"));
  TESSERA_TRY(reduce_rest());
  return EngineBase::clip_grad_norm(max_norm, norm_type, total);
}

Status Zero12Engine::free_gradients(EventId stepped) {
  for (PartedParameter& p : parameters_) p.has_gradient = false;
  return part_.valid() ? release(part_, stepped) : Status{};
}

std::vector<UnitInfo> Zero12Engine::units() const {
  std::vector<UnitInfo> infos;
  for (const FlatBuffer* flat : {&flat_, &frozen_}) {
    if (!flat->value.valid()) continue;
    const FlatLayout& l = flat->layout;
    infos.push_back({flat->shard.name, static_cast<std::int32_t>(l.entries.size()), l.numel,
                     l.total, l.padding(), l.shard});
  }
  return infos;
}

std::vector<std::string> Zero12Engine::warnings() const {
  std::vector<std::string> out;
  if (asked_for_no_sync_) {
    out.emplace_back("stage 2 keeps parts of gradients only: every micro-batch reduces them");
  }
  const bool ignored = options_.overlap_comm || options_.round_robin_gradients;
  if (ignored && !parts_gradients()) {
    out.emplace_back(
        "stage 1 reduces gradients when backward is over: overlap_comm and round_robin_gradients "
        "have no effect");
  }
  return out;
}

Result<std::unique_ptr<Engine>> zero12(Runtime& runtime, const Model& model,
                                       const Zero12Options& options) {
  TESSERA_TRY(Issuer::expect_not_driven(runtime, model));
  auto engine = std::make_unique<Zero12Engine>(runtime, model, options);
  TESSERA_TRY(engine->setup());
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace tessera
