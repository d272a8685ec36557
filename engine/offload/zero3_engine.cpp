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

Result<View> Zero3Engine::parameter_view(ParameterId id) {
  const OnDemandParameter& p = at(id);
  // strict: what is there for another module's sake, or was kept, may be gone the next time.
  const bool asked_for = options_.policy == Zero3Policy::compatible || !p.active.empty();
  if (p.state == State::available && asked_for) {
    return View::whole(p.full, param_dtype(), p.numel);
  }
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
  return policy_->values_changed();
}

Status Zero3Engine::begin_forward() {
  TESSERA_TRY(expect(Stage::idle, "begin_forward"));
  TESSERA_TRY(refresh_trainable());
  if (!training_) TESSERA_TRY(note("root", "", {Mark::Kind::evaluating}).status());
  TESSERA_TRY(enter(Stage::forward, Phase::forward));
  if (std::exchange(casts_are_old_, false)) TESSERA_TRY(cast_partitions(held()));
  // The gathers must see what the optimizer wrote.
  TESSERA_TRY(wait_stream(all_gather_, compute_, cause("root", Reason::order)));
  return policy_->begin_forward(training_);
}

// Recomputing is a forward pass inside of backward, and its hooks run as in any other. Only the
// recomputed module itself has what pre_backward fetched.
Status Zero3Engine::pre_forward(ModuleId module) {
  if (recomputes(module)) return {};
  if (!recomputing()) TESSERA_TRY(expect(Stage::forward, "pre_forward"));
  return policy_->pre_forward(module, recomputing());
}

Status Zero3Engine::post_forward(ModuleId module) {
  if (recomputes(module)) return {};
  if (!recomputing()) TESSERA_TRY(expect(Stage::forward, "post_forward"));
  TESSERA_TRY(policy_->post_forward(module, recomputing()));
  if (training_ || module != ModuleId{0}) return {};
  TESSERA_TRY(policy_->end_pass());
  stage_ = Stage::idle;
  return {};
}

Status Zero3Engine::compute(const ModuleWork& work) {
  TESSERA_TRY(EngineBase::compute(work));
  if (stage_ != Stage::forward) return {};
  const auto& used = assignment_.used_by[index(work.module)];
  policy_->ran(work.module,
               std::any_of(used.begin(), used.end(), [this](auto id) { return at(id).trained; }));
  return {};
}

Status Zero3Engine::begin_backward() {
  TESSERA_TRY(expect(Stage::forward, "begin_backward"));
  if (!training_) {
    return Status(Code::invalid_argument,
                  "backward pass is invalid for a model in evaluation: call set_training(true)");
  }
  for (OnDemandParameter& p : parameters_) p.reduced = false;
  TESSERA_TRY(enter(Stage::backward, Phase::backward));
  return policy_->begin_backward();
}

Status Zero3Engine::pre_backward(ModuleId module) {
  TESSERA_TRY(expect(Stage::backward, "pre_backward"));
  return policy_->pre_backward(module);
}

Status Zero3Engine::post_backward(ModuleId module) {
  TESSERA_TRY(expect(Stage::backward, "post_backward"));
  return policy_->post_backward(module);
}

Status Zero3Engine::end_backward() {
  TESSERA_TRY(expect(Stage::backward, "end_backward"));
  TESSERA_TRY(policy_->end_pass());
  TESSERA_TRY(finish_reductions());
  stage_ = Stage::idle;
  ++micro_batch_;
  return {};
}

Status Zero3Engine::set_training(bool training) {
  TESSERA_TRY(expect(Stage::idle, "set_training"));
  training_ = training;
  return {};
}

Status Zero3Engine::register_external_parameter(ModuleId module, ParameterId parameter) {
  TESSERA_TRY(expect(Stage::idle, "register_external_parameter"));
  if (!parameter.valid() || parameter.value >= std::ssize(parameters_)) {
    return Status(Code::invalid_argument,
                  fmt::format("what was registered with module '{}' is no parameter of {}",
                              model_.module(module).path, model_.name));
  }
  auto& needs = needs_[index(module)];
  const auto place = std::lower_bound(needs.begin(), needs.end(), parameter);
  if (place != needs.end() && *place == parameter) return {};
  needs.insert(place, parameter);
  const Status fits = policy_->check();
  if (!fits.ok()) std::erase(needs, parameter);
  return fits;
}

Status Zero3Engine::unregister_external_parameter(ModuleId module, ParameterId parameter) {
  TESSERA_TRY(expect(Stage::idle, "unregister_external_parameter"));
  auto& needs = needs_[index(module)];
  const auto& own = assignment_.used_by[index(module)];
  const bool known = std::find(needs.begin(), needs.end(), parameter) != needs.end();
  if (known && std::find(own.begin(), own.end(), parameter) == own.end()) {
    std::erase(needs, parameter);
    return {};
  }
  return Status(Code::invalid_argument,
                fmt::format("{} is not registered with module '{}'",
                            parameter.valid() && parameter.value < std::ssize(parameters_)
                                ? name(at(parameter))
                                : "an unknown parameter",
                            model_.module(module).path));
}

std::vector<std::string> Zero3Engine::warnings() const {
  if (!asked_for_no_sync_) return {};
  return {"gradients are kept as partitions only: every micro-batch reduces them"};
}

}  // namespace tessera
