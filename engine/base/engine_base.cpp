// SPDX-License-Identifier: Apache-2.0
#include "engine/base/engine_base.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/model/at.h"
#include "engine/numbers/arithmetic.h"

namespace tessera {
namespace {

View all_of(BufferId id, Bytes bytes) { return View::whole(id, DType::uint8, Numel{bytes.value}); }

}  // namespace

EngineBase::EngineBase(Runtime& runtime, const Model& model)
    : EngineBase(runtime, model, runtime.world()) {}

EngineBase::EngineBase(Runtime& runtime, const Model& model, const RankSet& ranks)
    : Issuer(runtime, model, ranks), param_groups_(model), activations_(model.modules.size()) {}

Status EngineBase::expect(Stage stage, const char* call) const {
  if (stage_ == stage) return {};
  static constexpr const char* names[] = {"outside forward and backward", "in forward",
                                          "in backward", "while full parameters are summoned"};
  return Status(Code::invalid_argument,
                fmt::format("{} was called {}, but belongs {}", call,
                            names[static_cast<int>(stage_)], names[static_cast<int>(stage)]));
}

Status EngineBase::enter(Stage stage, Phase phase) {
  stage_ = stage;
  return begin_phase(phase);
}

std::string_view EngineBase::unit_name(std::size_t unit) const {
  return unit == 0 ? std::string_view("root") : model_.module(assignment_.units[unit].module).path;
}

std::string_view EngineBase::unit_name_of(ModuleId module) const {
  return unit_name(assignment_.unit_of_module[at(module)]);
}

int EngineBase::unit_at(ModuleId module) const {
  TESSERA_ASSERT(module.valid() && at(module) < model_.modules.size(), "a module of the model");
  const std::size_t unit = assignment_.unit_of_module[at(module)];
  return assignment_.units[unit].module == module ? static_cast<int>(unit) : -1;
}

const std::vector<ParameterId>& EngineBase::parameters_of(const ModuleWork& work) const {
  return work.only.empty() ? assignment_.used_by[at(work.module)] : work.only;
}

// Bodies add to gradients, so the first one to write finds zeros.
void EngineBase::add_gradient(const View& gradient, Compute& what) {
  if (first_write(gradient)) what.zeroed.push_back(what.writes.size());
  what.writes.push_back(gradient);
}

// What the work concerns, and in backward the gradients of those that are trained.
Status EngineBase::add_views(const ModuleWork& work, Compute& what) {
  for (ParameterId id : parameters_of(work)) {
    const bool needs_gradient =
        work.pass == ModuleWork::Pass::backward && model_.parameter(id).requires_grad;
    if (Local* const own = local(id)) {
      what.reads.push_back(own->held.values());
      if (!needs_gradient) continue;
      TESSERA_ASSIGN(const View gradient, local_gradient(*own));
      add_gradient(gradient, what);
      continue;
    }
    TESSERA_ASSIGN(const View parameter, parameter_view(id));
    what.reads.push_back(parameter);
    what.cost.dtype = parameter.dtype;
    if (!needs_gradient) continue;
    TESSERA_ASSIGN(const View gradient, gradient_view(id));
    add_gradient(gradient, what);
  }
  return {};
}

Status EngineBase::pre_forward(ModuleId) {
  return recomputing() ? Status{} : expect(Stage::forward, "pre_forward");
}

Status EngineBase::post_forward(ModuleId module) {
  if (recomputing()) return {};
  TESSERA_TRY(expect(Stage::forward, "post_forward"));
  if (ends_pass(module)) stage_ = Stage::idle;
  return {};
}

Status EngineBase::pre_backward(ModuleId) { return expect(Stage::backward, "pre_backward"); }

Status EngineBase::post_backward(ModuleId) { return expect(Stage::backward, "post_backward"); }

Status EngineBase::ready_twice(std::string_view parameter) {
  return Status(Code::invalid_argument,
                fmt::format("the gradient of {} became ready twice in one backward: it is used "
                            "outside of forward, or by two reentrant backward passes",
                            parameter));
}

Status EngineBase::next_forward(const ForwardPass& pass) {
  TESSERA_TRY(expect(Stage::idle, "next_forward"));
  if (model_.find_graph(pass.graph) == nullptr) {
    return Status(Code::invalid_argument,
                  fmt::format("{} has no graph '{}'", model_.name, pass.graph));
  }
  if (!pass.graph.empty() && !runs_any_graph()) {
    return Status(Code::not_supported,
                  fmt::format("training along the graph '{}' is nothing that this scheme can do "
                              "with {}: use zero3",
                              pass.graph, model_.name));
  }
  next_ = pass;
  return {};
}

Status EngineBase::recompute_begin(ModuleId module) {
  TESSERA_TRY(expect(Stage::backward, "recompute_begin"));
  if (recomputing()) {
    return Status(Code::invalid_argument,
                  fmt::format("module {} is recomputed inside of module {}: end that first",
                              model_.module(module).path, model_.module(recomputed_).path));
  }
  recomputed_ = module;
  return {};
}

Status EngineBase::recompute_end(ModuleId module) {
  if (recomputed_ != module) {
    return Status(Code::invalid_argument,
                  fmt::format("recompute_end of module {}, which is not being recomputed",
                              model_.module(module).path));
  }
  recomputed_ = {};
  return {};
}

Status EngineBase::compute(const ModuleWork& work) {
  const bool backward = work.pass == ModuleWork::Pass::backward;
  const Module& module = model_.module(work.module);
  Cause why = cause(unit_name_of(work.module),
                    work.pass == ModuleWork::Pass::recompute ? Reason::recompute : Reason::none);
  why.module = module.path;
  Compute what{.cost = work.cost, .reads = {}, .writes = {}, .body = work.body};
  what.on_numbers = !work.on_device;
  what.repeated = work.repeated;
  TESSERA_TRY(add_views(work, what));
  auto& stack = activations_[at(work.module)];
  BufferId temporary;
  if (work.temporary > Bytes{0}) {
    TESSERA_ASSIGN(temporary, allocate(module.path + ".temporary", work.temporary,
                                       MemoryClass::temporary, compute_, why));
    what.writes.push_back(all_of(temporary, work.temporary));
  }
  if (!backward && work.saves > Bytes{0}) {
    TESSERA_ASSIGN(const BufferId saved, allocate(module.path + ".activations", work.saves,
                                                  MemoryClass::activations, compute_, why));
    what.writes.push_back(all_of(saved, work.saves));
    stack.push_back(saved);
  }
  what.writes.insert(what.writes.end(), work.workspace.begin(), work.workspace.end());
  const bool uses_saved = backward && work.saves > Bytes{0} && !stack.empty();
  if (uses_saved) what.reads.push_back(all_of(stack.back(), work.saves));
  TESSERA_ASSIGN(const EventId done, submit(compute_, why, std::move(what)));
  if (temporary.valid()) TESSERA_TRY(release(temporary, done));
  if (!uses_saved) return {};
  TESSERA_TRY(release(stack.back(), done));
  stack.pop_back();
  return {};
}

Status EngineBase::keep_activations(const ModuleWork& work) {
  const Cause why = cause(unit_name_of(work.module), Reason::none);
  TESSERA_ASSIGN(const BufferId kept,
                 allocate(model_.module(work.module).path + ".checkpoint", work.saves,
                          MemoryClass::activations, compute_, why));
  activations_[at(work.module)].push_back(kept);
  if (!work.body) return {};
  Compute what{.cost = work.cost, .reads = {}, .writes = {}, .body = work.body};
  what.writes.push_back(all_of(kept, work.saves));
  what.writes.insert(what.writes.end(), work.workspace.begin(), work.workspace.end());
  return submit(compute_, of_module(why, work), std::move(what)).status();
}

Status EngineBase::restore_activations(const ModuleWork& work) {
  const auto& stack = activations_[at(work.module)];
  if (stack.empty()) return keeps_none(work.module);
  if (!work.body) return {};
  const Cause why = cause(unit_name_of(work.module), Reason::recompute);
  Compute what{.cost = work.cost, .reads = {}, .writes = work.workspace, .body = work.body};
  what.on_numbers = !work.on_device;
  what.reads.push_back(all_of(stack.back(), work.saves));
  return submit(compute_, of_module(why, work), std::move(what)).status();
}

Status EngineBase::keeps_none(ModuleId module) const {
  return Status(Code::invalid_argument,
                fmt::format("module {} keeps no activations", model_.module(module).path));
}

Cause EngineBase::of_module(Cause cause, const ModuleWork& work) const {
  cause.module = model_.module(work.module).path;
  return cause;
}

Status EngineBase::free_activations(ModuleId module) {
  auto& stack = activations_[at(module)];
  if (stack.empty()) return keeps_none(module);
  TESSERA_TRY(release(stack.back(), last_compute()));
  stack.pop_back();
  return {};
}

}  // namespace tessera
