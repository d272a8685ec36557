// SPDX-License-Identifier: Apache-2.0
#include "engine/base/call_order.h"

#include <fmt/format.h>

#include <utility>

#include "tessera/assert.h"

namespace tessera {

Status CallOrder::expect(Stage stage, const char* call) const {
  if (stage_ == stage) return {};
  static constexpr const char* names[] = {"outside forward and backward", "in forward",
                                          "in backward", "while full parameters are summoned"};
  return Status(Code::invalid_argument,
                fmt::format("{} was called {}, but belongs {}", call,
                            names[static_cast<int>(stage_)], names[static_cast<int>(stage)]));
}

Status CallOrder::expect(Stage stage, const char* call, ModuleId module) const {
  TESSERA_TRY(expect_known(call, module));
  return expect(stage, call);
}

Status CallOrder::expect(Stage stage, const char* call, ParameterId parameter) const {
  TESSERA_TRY(expect_known(call, parameter));
  return expect(stage, call);
}

Status CallOrder::expect_known(const char* call, ModuleId module) const {
  const std::size_t count = trained_model_.modules.size();
  if (module.valid() && module.index() < count) return {};
  return Status(Code::invalid_argument, fmt::format("{} of module {}: {} has modules 0 to {}", call,
                                                    module.value, trained_model_.name, count - 1));
}

Status CallOrder::expect_known(const char* call, ParameterId parameter) const {
  const std::size_t count = trained_model_.parameters.size();
  if (parameter.valid() && parameter.index() < count) return {};
  return Status(Code::invalid_argument,
                fmt::format("{} of parameter {}: {} has {} parameters, counted from 0", call,
                            parameter.value, trained_model_.name, count));
}

Status CallOrder::expect_known(const char* call, const ModuleWork& work) const {
  TESSERA_TRY(expect_known(call, work.module));
  for (const ParameterId id : work.only) TESSERA_TRY(expect_known(call, id));
  return {};
}

std::string_view CallOrder::busy() const {
  switch (stage_) {
    case Stage::idle: return "";
    case Stage::forward: return "in forward: finish the step's backward first";
    case Stage::backward: return "in backward: call end_backward first";
    case Stage::summoned: return "";  // others may be
  }
  return "";
}

void CallOrder::begin_summon(const std::vector<std::size_t>& units) {
  TESSERA_ASSERT(busy().empty(), "full parameters are summoned between two passes");
  for (const std::size_t unit : units) {
    const bool fresh = summoned_.insert(unit).second;
    TESSERA_ASSERT(fresh, "a unit is summoned once at a time");
  }
  stage_ = Stage::summoned;
}

void CallOrder::end_summon(const std::vector<std::size_t>& units) {
  TESSERA_ASSERT(stage_ == Stage::summoned, "what is closed was summoned");
  for (const std::size_t unit : units) summoned_.erase(unit);
  if (summoned_.empty()) stage_ = Stage::idle;
}

Status CallOrder::announce_pass(const ForwardPass& pass, bool any_graph) {
  TESSERA_TRY(expect(Stage::idle, "next_forward"));
  if (trained_model_.find_graph(pass.graph) == nullptr) {
    return Status(Code::invalid_argument,
                  fmt::format("{} has no graph '{}'", trained_model_.name, pass.graph));
  }
  if (!pass.graph.empty() && !any_graph) {
    return Status(Code::not_supported,
                  fmt::format("training along the graph '{}' is nothing that this scheme can do "
                              "with {}: use zero3",
                              pass.graph, trained_model_.name));
  }
  next_ = pass;
  return {};
}

Status CallOrder::expect_end_of_backward() const {
  TESSERA_TRY(expect(Stage::backward, "end_backward"));
  if (!recomputing()) return {};
  return Status(Code::invalid_argument,
                fmt::format("end_backward was called while module {} is recomputed: call "
                            "recompute_end first",
                            trained_model_.module(recomputed_).path));
}

void CallOrder::begin_pass() {
  TESSERA_ASSERT(stage_ == Stage::idle && !recomputing(), "the pass before is over");
  pass_ = std::exchange(next_, ForwardPass{});
}

Status CallOrder::begin_recompute(ModuleId module) {
  TESSERA_TRY(expect(Stage::backward, "recompute_begin", module));
  if (recomputing()) {
    return Status(
        Code::invalid_argument,
        fmt::format("module {} is recomputed inside of module {}: end that first",
                    trained_model_.module(module).path, trained_model_.module(recomputed_).path));
  }
  recomputed_ = module;
  return {};
}

Status CallOrder::end_recompute(ModuleId module) {
  TESSERA_TRY(expect_known("recompute_end", module));
  if (recomputed_ != module) {
    return Status(Code::invalid_argument,
                  fmt::format("recompute_end of module {}, which is not being recomputed",
                              trained_model_.module(module).path));
  }
  recomputed_ = {};
  return {};
}

Status CallOrder::ready_twice(std::string_view parameter) {
  return Status(Code::invalid_argument,
                fmt::format("the gradient of {} became ready twice in one backward: it is used "
                            "outside of forward, or by two reentrant backward passes",
                            parameter));
}

Status CallOrder::late_gradient(std::string_view parameter) {
  return Status(
      Code::invalid_argument,
      fmt::format("{} gets a gradient after its gradient was ready: call grad_ready after "
                  "its last use in backward",
                  parameter));
}

Status CallOrder::late_gradient(std::string_view parameter, std::string_view unit) {
  return Status(
      Code::invalid_argument,
      fmt::format("{} gets a gradient after unit {} was reduced: call post_backward after "
                  "its last use in backward",
                  parameter, unit));
}

Status CallOrder::trained_later(std::string_view parameter) {
  return Status(
      Code::invalid_argument,
      fmt::format("requires_grad of {} changed after the engine was made: what is stepped "
                  "is fixed then",
                  parameter));
}

Status CallOrder::trained_meanwhile(std::string_view parameter) {
  return Status(Code::invalid_argument,
                fmt::format("requires_grad of {} changed in the middle of a step", parameter));
}

Status CallOrder::not_reduced(std::string_view what) {
  return Status(Code::invalid_argument,
                fmt::format("gradients of {} were not reduced, so ranks would drift apart: set "
                            "requires_gradient_sync before the last backward pass of a step",
                            what));
}

}  // namespace tessera
