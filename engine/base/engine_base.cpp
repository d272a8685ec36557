// SPDX-License-Identifier: Apache-2.0
#include "engine/base/engine_base.h"

#include <utility>

namespace tessera {

EngineBase::EngineBase(Runtime& runtime, const Model& model, const std::optional<RankSet>& ranks)
    : Issuer(runtime, model, ranks.value_or(runtime.world())),
      CallOrder(model),
      UnitTable(model),
      activations_(*this),
      locals_(*this),
      optimizer_(*this, *this, *this) {}

Status EngineBase::assign(const std::vector<std::string>& units,
                          const std::optional<WrapPlan>& plan, DType local_dtype) {
  TESSERA_TRY(UnitTable::assign(units, plan));
  if (!plan) return {};
  for (ParameterId id : plan->ignored) TESSERA_TRY(locals_.add(id, local_dtype));
  return {};
}

Status EngineBase::enter(Stage stage, Phase phase) {
  stage_ = stage;
  // A pass reduces all of its gradients or none: who turns sync on or off in the middle of it means
  // the next one.
  if (stage == Stage::backward) reduces_ = sync_;
  return begin_phase(phase);
}

Status EngineBase::next_forward(const ForwardPass& pass) {
  return announce_pass(pass, runs_any_graph());
}

Status EngineBase::pre_forward(ModuleId module) {
  return recomputing() ? Status{} : expect(Stage::forward, "pre_forward", module);
}

Status EngineBase::post_forward(ModuleId module) {
  if (recomputing()) return {};
  TESSERA_TRY(expect(Stage::forward, "post_forward", module));
  if (ends_pass(module)) stage_ = Stage::idle;
  return {};
}

Status EngineBase::pre_backward(ModuleId module) {
  return expect(Stage::backward, "pre_backward", module);
}

Status EngineBase::post_backward(ModuleId module) {
  return expect(Stage::backward, "post_backward", module);
}

Cause EngineBase::cause_of(const ModuleWork& work, Reason reason) const {
  return cause(unit_name_of(work.module), model_.module(work.module).path, reason);
}

// Adds the parameters that the work concerns, and in backward the gradients of trained ones.
Status EngineBase::add_views(const ModuleWork& work, Compute& what) {
  // Bodies add to gradients, so the first one to write finds zeros.
  const auto add_gradient = [&](const View& gradient) {
    if (first_write(gradient)) what.zeroed.push_back(what.writes.size());
    what.writes.push_back(gradient);
  };
  for (ParameterId id : parameters_of(work)) {
    const bool needs_gradient =
        work.pass == ModuleWork::Pass::backward && model_.parameter(id).requires_grad;
    if (const ParamShard* const own = locals_.find(id)) {
      what.reads.push_back(own->values());
      if (!needs_gradient) continue;
      TESSERA_ASSIGN(const View gradient, locals_.gradient_view(id));
      add_gradient(gradient);
      continue;
    }
    TESSERA_ASSIGN(const View parameter, parameter_view(id));
    what.reads.push_back(parameter);
    what.cost.dtype = parameter.dtype;
    if (!needs_gradient) continue;
    TESSERA_ASSIGN(const View gradient, gradient_view(id));
    add_gradient(gradient);
  }
  return {};
}

Status EngineBase::compute(const ModuleWork& work) {
  TESSERA_TRY(expect_known("compute", work));
  Compute what{.cost = work.cost, .reads = {}, .writes = {}, .body = work.body};
  what.on_numbers = !work.on_device;
  what.repeated = work.repeated;
  TESSERA_TRY(add_views(work, what));
  const bool again = work.pass == ModuleWork::Pass::recompute;
  const Cause why = cause_of(work, again ? Reason::recompute : Reason::none);
  if (work.summed.empty()) return activations_.run(work, why, std::move(what));
  ModuleWork beside = work;
  for (ParameterId id : work.summed) {
    TESSERA_ASSIGN(const View gradient,
                   locals_.find(id) != nullptr ? locals_.gradient_view(id) : gradient_view(id));
    beside.temporary += 2 * bytes_of(gradient.numel, gradient.dtype);
  }
  return activations_.run(beside, why, std::move(what));
}

Status EngineBase::keep_activations(const ModuleWork& work) {
  TESSERA_TRY(expect_known("keep_activations", work));
  return activations_.keep(work, cause_of(work, Reason::none));
}

Status EngineBase::restore_activations(const ModuleWork& work) {
  TESSERA_TRY(expect_known("restore_activations", work));
  return activations_.restore(work, cause_of(work, Reason::recompute));
}

Status EngineBase::free_activations(ModuleId module) {
  TESSERA_TRY(expect_known("free_activations", module));
  return activations_.free(module);
}

}  // namespace tessera
