// SPDX-License-Identifier: Apache-2.0
#include "engine/offload/zero3_engine.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {

Result<EventId> Zero3Engine::note(std::string_view unit, std::string_view what, Mark mark,
                                  Reason reason, StreamId stream) {
  Cause why = cause(unit, reason);
  why.module = what;
  return submit(stream.valid() ? stream : compute_, why, mark);
}

Result<EventId> Zero3Engine::note(const OnDemandParameter& p, Mark mark, Reason reason,
                                  StreamId stream) {
  return note(p.held.unit, name(p), mark, reason, stream);
}

Status Zero3Engine::note(ModuleId module, Mark::Kind kind) {
  return note(unit_name_of(module), model_.module(module).path, {kind, coordinator().trace.step()},
              recomputing() ? Reason::recompute : Reason::none)
      .status();
}

Result<View> Zero3Engine::parameter_view(ParameterId id) {
  const OnDemandParameter& p = at(id);
  if (p.state == State::available) return View::whole(p.full, param_dtype(), p.numel);
  return Status(Code::invalid_argument,
                fmt::format("parameter {} is used while it is partitioned: call {} for module {} "
                            "first",
                            name(p), stage_ == Stage::backward ? "pre_backward" : "pre_forward",
                            model_.module(model_.parameter(id).module).path));
}

std::vector<Held*> Zero3Engine::held() {
  std::vector<Held*> all;
  for (OnDemandParameter& p : parameters_) {
    p.held.gradient = p.held.unsharded = {};
    if (p.has_gradient) {
      p.held.gradient = View::part(partitions_, param_dtype(), p.place, p.partition);
    }
    if (p.state == State::available) {
      p.held.unsharded = View::whole(p.full, param_dtype(), p.partition * ranks_);
    }
    all.push_back(&p.held);
  }
  return all;
}

ShardGroups Zero3Engine::shard_groups() const {
  return {ranks_, ranks_ > 1 ? world_ : CommunicatorId{}, {}};
}

// Whoever asks may write the partitions.
Status Zero3Engine::finish_gathers() {
  casts_are_old_ = true;
  return {};
}

Status Zero3Engine::initialise(const std::function<float(ParameterId, Numel)>& value) {
  TESSERA_TRY(EngineBase::initialise(value));
  casts_are_old_ = true;
  for (OnDemandParameter& p : parameters_) TESSERA_TRY(release_parameter(p));
  return {};
}

Status Zero3Engine::next_forward(const ForwardPass& pass) {
  next_use_ = pass.use;
  return EngineBase::next_forward({.use = ForwardPass::Use::train, .graph = pass.graph});
}

Status Zero3Engine::begin_forward() {
  TESSERA_TRY(expect(Stage::idle, "begin_forward"));
  use_ = std::exchange(next_use_, ForwardPass::Use::train);
  if (use_ != ForwardPass::Use::train) {
    const bool training = use_ == ForwardPass::Use::no_backward;
    TESSERA_TRY(note("root", "", {Mark::Kind::evaluating, training ? 1 : 0}).status());
  }
  TESSERA_TRY(enter(Stage::forward, Phase::forward));
  if (std::exchange(casts_are_old_, false)) TESSERA_TRY(cast_partitions(held()));
  // The gathers must see what the optimizer wrote.
  TESSERA_TRY(wait_stream(all_gather_, compute_, cause("root", Reason::order)));
  gradient_flows_ = model_.input_requires_grad;
  for (auto& visits : inputs_) visits.clear();
  running_.clear();
  return {};
}

// Recomputing is a forward pass inside of backward, and its hooks run as in any other. Only the
// recomputed module itself has what pre_backward fetched.
Status Zero3Engine::pre_forward(ModuleId module) {
  if (recomputes(module) || inside_leaf(module)) return {};
  auto& visits = inputs_[index(module)];
  if (!recomputing()) {
    TESSERA_TRY(expect(Stage::forward, "pre_forward"));
    visits.push_back(gradient_flows_);
    running_.push_back(module);
  }
  gradients_remaining_[index(module)] = !visits.empty() && visits.back() ? 1 : 0;
  return fetch(module);
}

Status Zero3Engine::post_forward(ModuleId module) {
  if (recomputes(module) || inside_leaf(module)) return {};
  if (!recomputing()) {
    TESSERA_TRY(expect(Stage::forward, "post_forward"));
    TESSERA_TRY(leave(module));
  }
  TESSERA_TRY(release_module(module));
  if (use_ == ForwardPass::Use::train || module != ModuleId{0}) return {};
  if (use_ == ForwardPass::Use::evaluate) TESSERA_TRY(reset_trace());
  use_ = ForwardPass::Use::train;
  stage_ = Stage::idle;
  return {};
}

// What nobody announced is touched, once per pass.
Status Zero3Engine::compute(const ModuleWork& work) {
  for (ParameterId id : parameters_of(work)) {
    const bool external =
        stage_ == Stage::forward && at(id).state != State::available && !needed_by(work.module, id);
    if (external) TESSERA_TRY(touch(id));
  }
  TESSERA_TRY(EngineBase::compute(work));
  for (ParameterId id : parameters_of(work)) {
    gradient_flows_ |= stage_ == Stage::forward && at(id).trained;
  }
  return {};
}

Status Zero3Engine::begin_backward() {
  TESSERA_TRY(expect(Stage::forward, "begin_backward"));
  if (use_ != ForwardPass::Use::train) {
    return Status(Code::invalid_argument,
                  "backward pass is invalid for a model in evaluation: announce a forward pass for "
                  "training");
  }
  for (OnDemandParameter& p : parameters_) p.reduced = false;
  return enter(Stage::backward, Phase::backward);
}

Status Zero3Engine::pre_backward(ModuleId module) {
  TESSERA_TRY(expect(Stage::backward, "pre_backward"));
  return inside_leaf(module) ? Status{} : fetch(module);
}

// The hook that frees hangs on the module's inputs: it never runs if none of them needs a gradient,
// and runs once for a module that ran several times, because every forward pass starts the count
// anew.
Status Zero3Engine::post_backward(ModuleId module) {
  TESSERA_TRY(expect(Stage::backward, "post_backward"));
  if (inside_leaf(module)) return {};
  auto& visits = inputs_[index(module)];
  if (visits.empty()) {
    return Status(Code::invalid_argument,
                  fmt::format("post_backward of module '{}', which did not run in this forward",
                              model_.module(module).path));
  }
  const bool hooked = visits.back();
  visits.pop_back();
  if (leaf_[index(module)] && visits.empty()) TESSERA_TRY(fill_missing_gradients(module));
  if (!hooked || --gradients_remaining_[index(module)] != 0) return {};
  return release_module(module);
}

Status Zero3Engine::end_backward() {
  TESSERA_TRY(expect(Stage::backward, "end_backward"));
  TESSERA_TRY(reset_trace());
  TESSERA_TRY(finish_reductions());
  stage_ = Stage::idle;
  ++micro_batch_;
  return {};
}

std::vector<std::string> Zero3Engine::warnings() const {
  if (!asked_for_no_sync_) return {};
  return {"gradients are kept as partitions only: every micro-batch reduces them"};
}

}  // namespace tessera
