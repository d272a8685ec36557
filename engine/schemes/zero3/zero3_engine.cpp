// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/zero3_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/schemes/zero3/parameters/marks.h"
#include "engine/schemes/zero3/without_effect.h"

namespace tessera {

Status Zero3Engine::begin_forward() {
  TESSERA_TRY(failure());
  TESSERA_TRY(expect(Stage::idle, "begin_forward"));
  return remember(start_forward());
}

// What may have changed since the last pass comes first: which parameters are trained, then values.
Status Zero3Engine::start_forward() {
  TESSERA_TRY(refresh_trainable());
  begin_pass();
  if (!trains()) {
    const bool training = pass_.use == ForwardPass::Use::no_backward;
    TESSERA_TRY(note({marks::evaluating, training ? 1 : 0}));
  }
  TESSERA_TRY(enter(Stage::forward, Phase::forward));
  TESSERA_TRY(refresh_partitions());
  parts_.external.begin_forward();
  parts_.leaves.begin_forward();
  return parts_.policy->begin_forward(pass_);
}

// Recomputing is a forward pass inside of backward, and its hooks run as in any other. Only the
// recomputed module itself has what pre_backward fetched.
Status Zero3Engine::pre_forward(ModuleId module) {
  TESSERA_TRY(expect_known("pre_forward", module));
  if (recomputes(module) || parts_.leaves.inside(module)) return {};
  if (!recomputing()) {
    TESSERA_TRY(expect(Stage::forward, "pre_forward"));
    parts_.external.enter(module);
    parts_.leaves.enter(module);
  }
  return remember(parts_.policy->pre_forward(module, recomputing()));
}

Status Zero3Engine::post_forward(ModuleId module) {
  TESSERA_TRY(expect_known("post_forward", module));
  if (recomputes(module) || parts_.leaves.inside(module)) return {};
  if (!recomputing()) {
    TESSERA_TRY(expect(Stage::forward, "post_forward"));
    TESSERA_TRY(parts_.external.leave(module, *parts_.policy));
  }
  TESSERA_TRY(parts_.policy->post_forward(module));
  if (!ends_pass(module)) return {};
  TESSERA_TRY(parts_.policy->end_pass(pass_.use != ForwardPass::Use::evaluate));
  stage_ = Stage::idle;
  return {};
}

// DeepSpeed sees reads of what the module does not need; a plan wants to know before.
Status Zero3Engine::compute(const ModuleWork& work) {
  TESSERA_TRY(expect_known("compute", work));
  const bool forward = stage_ == Stage::forward;
  const bool finds = forward && parts_.facts.rules.finds_needs_as_they_happen;
  const ModuleId runs = parts_.leaves.around(work.module);
  bool trains = false;
  for (ParameterId id : parameters_of(work)) {
    trains |= at(id).trained;
    if (finds && !parts_.needs.contain(runs, id)) TESSERA_TRY(remember(touch(id)));
  }
  TESSERA_TRY(EngineBase::compute(work));
  if (stage_ == Stage::forward && !work.no_parameters) parts_.policy->ran(work.module, trains);
  return {};
}

Status Zero3Engine::begin_backward() {
  TESSERA_TRY(expect(Stage::forward, "begin_backward"));
  if (!trains()) {
    return Status(Code::invalid_argument,
                  "backward pass is invalid for a model in evaluation: announce a forward pass for "
                  "training");
  }
  TESSERA_TRY(parts_.gradients.expect_not_added());
  parts_.bucket.begin_backward();
  return enter(Stage::backward, Phase::backward);
}

Status Zero3Engine::pre_backward(ModuleId module) {
  TESSERA_TRY(expect(Stage::backward, "pre_backward", module));
  return parts_.leaves.inside(module) ? Status{} : remember(parts_.policy->pre_backward(module));
}

Status Zero3Engine::grad_ready(ParameterId parameter) {
  TESSERA_TRY(expect(Stage::backward, "grad_ready", parameter));
  return parts_.bucket.ready(parameter);
}

// A leaf module's missing gradients are made up before it is released, as those that came are.
Status Zero3Engine::post_backward(ModuleId module) {
  TESSERA_TRY(expect(Stage::backward, "post_backward", module));
  if (parts_.leaves.inside(module)) return {};
  if (parts_.leaves.is_leaf(module) && parts_.leaves.leave(module)) {
    const auto only =
        parts_.leaves.used_only_in(module, parts_.needs.own(module), parts_.needs.all());
    TESSERA_TRY(parts_.bucket.fill_missing(only));
  }
  return parts_.policy->post_backward(module);
}

// Freeing comes before the last reduction, which needs no gathered parameter; or as DeepSpeed.
Status Zero3Engine::end_backward() {
  TESSERA_TRY(expect_end_of_backward());
  const bool behind = parts_.facts.rules.frees_after_reducing;
  if (!behind) TESSERA_TRY(parts_.policy->end_pass(false));
  TESSERA_TRY(parts_.bucket.finish());
  if (behind) TESSERA_TRY(parts_.policy->end_pass(false));
  stage_ = Stage::idle;
  ++micro_batch_;
  return {};
}

Status Zero3Engine::register_external_parameter(ModuleId module, ParameterId parameter) {
  TESSERA_TRY(expect_known("register_external_parameter", module));
  TESSERA_TRY(expect(Stage::idle, "register_external_parameter"));
  return parts_.external.add(module, parameter, *parts_.policy);
}

Status Zero3Engine::unregister_external_parameter(ModuleId module, ParameterId parameter) {
  TESSERA_TRY(expect_known("unregister_external_parameter", module));
  TESSERA_TRY(expect(Stage::idle, "unregister_external_parameter", parameter));
  return parts_.external.remove(module, parameter);
}

Status Zero3Engine::touch(ParameterId parameter) {
  TESSERA_TRY(expect(Stage::forward, "touch", parameter));
  return parts_.external.touch(parameter, *parts_.policy);
}

Status Zero3Engine::return_parameter(ParameterId parameter) {
  TESSERA_TRY(expect(Stage::forward, "return_parameter", parameter));
  return parts_.external.give_back(parameter);
}

Status Zero3Engine::partition_all_parameters() {
  TESSERA_TRY(expect(Stage::idle, "partition_all_parameters"));
  return parts_.policy->values_changed();
}

std::vector<PartitionedParameter> Zero3Engine::parameters() const {
  std::vector<PartitionedParameter> out;
  for (const OnDemandParameter& p : parts_.parameters) {
    out.push_back({p.shard.name, p.numel, p.partition, p.persistent, -1, p.home});
  }
  for (std::size_t g = 0; g < parts_.groups.count(); ++g) {
    for (ParameterId id : parts_.groups.ids(g)) {
      out[id.index()].sub_group = static_cast<std::int32_t>(g);
    }
  }
  return out;
}

std::vector<UnitInfo> Zero3Engine::units() const {
  std::vector<UnitInfo> infos;
  for (std::size_t u = 0; u < assignment_.units.size(); ++u) {
    UnitInfo info;
    info.name = unit_name(u);
    for (ParameterId id : assignment_.units[u].parameters) {
      const OnDemandParameter& p = parts_.parameters[id];
      ++info.parameters;
      info.numel += p.numel;
      info.unsharded += p.numel;
      info.padding += p.partition * parts_.facts.ranks - p.numel;
      info.shard += p.partition;
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

std::vector<std::string> Zero3Engine::warnings() const {
  std::vector<std::string> all = parts_.states.warnings();
  for (std::string& idle : without_effect(parts_)) all.push_back(std::move(idle));
  if (asked_for_no_sync_) {
    all.emplace_back("gradients are kept as partitions only: every micro-batch reduces them");
  }
  // Where nobody asked for less than DeepSpeed's default, room for two modules needs no words.
  const Zero3Options& asked = parts_.facts.options;
  const Bytes wanted = bytes_of(
      std::min(asked.max_live_parameters, Zero3Options{}.max_live_parameters), asked.param_dtype);
  const bool less = asked.max_live_parameters < Zero3Options{}.max_live_parameters;
  if (less && !asked.live_budget && live_budget().value_or(wanted) > wanted) {
    all.push_back(fmt::format(
        "max_live_parameters {} is less than two of the largest module need: the live budget is {} "
        "bytes instead; live_budget may set less",
        asked.max_live_parameters.value, live_budget()->value));
  }
  return all;
}

Result<std::unique_ptr<Zero3>> zero3(Runtime& runtime, const Model& model,
                                     const Zero3Options& options) {
  Zero3Options complete = options;
  std::string& states = complete.offload_optimizer.nvme_path;
  if (states.empty()) states = options.offload_param.nvme_path;
  TESSERA_ASSIGN(const RankGroups groups,
                 process_groups(runtime.world(), options.group_size, options.groups));
  auto engine = std::make_unique<Zero3Engine>(runtime, model, complete, groups);
  TESSERA_TRY(engine->setup());
  return std::unique_ptr<Zero3>(std::move(engine));
}

}  // namespace tessera
