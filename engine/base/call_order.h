// SPDX-License-Identifier: Apache-2.0
// A training step's position, and the calls that belong there.
//
// The idea: a scheme's transitions rely on the order in which the host program calls; it is checked
// here, at the door, so that a unit is never asked for something in the middle of something else.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "tessera/engine.h"

namespace tessera {

class CallOrder {
 public:
  enum class Stage : std::uint8_t { idle, forward, backward, summoned };

  explicit CallOrder(const Model& model) : trained_model_(model) {}

  /// Fails: invalid_argument, naming `call` and where it belongs.
  Status expect(Stage stage, const char* call) const;
  /// The same for a call that names a module or a parameter. Fails: invalid_argument, too, if the
  /// model has none with this id.
  Status expect(Stage stage, const char* call, ModuleId module) const;
  Status expect(Stage stage, const char* call, ParameterId parameter) const;
  Status expect_known(const char* call, ModuleId module) const;
  Status expect_known(const char* call, ParameterId parameter) const;
  Status expect_known(const char* call, const ModuleWork& work) const;
  bool in(Stage stage) const { return stage_ == stage; }
  /// Why nothing can be summoned now, for a message; "" if it can.
  std::string_view busy() const;
  bool is_summoned(std::size_t unit) const { return summoned_.contains(unit); }
  /// While full parameters of any unit are summoned nothing else may be called.
  /// REQUIRES: not busy; none of `units` is summoned.
  void begin_summon(const std::vector<std::size_t>& units);
  void end_summon(const std::vector<std::size_t>& units);

  /// Fails: invalid_argument (no such graph, or not between two passes), not_supported (a graph
  /// where `any_graph` is false).
  Status announce_pass(const ForwardPass& pass, bool any_graph);
  /// As `expect` for the end of a backward pass: a module that is still recomputed would make the
  /// next pass's hooks do nothing.
  Status expect_end_of_backward() const;
  /// At the beginning of a forward pass: it is what was announced.
  void begin_pass();
  bool trains() const { return pass_.use == ForwardPass::Use::train; }
  /// A pass without backward ends where its root does.
  bool ends_pass(ModuleId left) const { return !trains() && left == ModuleId{0}; }

  Status begin_recompute(ModuleId module);
  Status end_recompute(ModuleId module);
  bool recomputing() const { return recomputed_.valid(); }
  bool recomputes(ModuleId module) const { return recomputed_ == module; }

  /// The refusal of a gradient that became ready a second time in one backward pass.
  static Status ready_twice(std::string_view parameter);
  /// The refusal of a gradient that is written after it became ready: nobody would look at it in
  /// this pass, and the next one would add to it.
  static Status late_gradient(std::string_view parameter);
  /// The same of one whose unit was reduced.
  static Status late_gradient(std::string_view parameter, std::string_view unit);
  /// The refusal of a gradient of what was frozen when the engine was made: nobody would step it.
  static Status trained_later(std::string_view parameter);
  /// The same where what is trained may change, but not between a forward pass and its backward.
  static Status trained_meanwhile(std::string_view parameter);
  /// The refusal of a step, or a norm, of gradients that differ from rank to rank. `what`: a
  /// parameter or a unit.
  static Status not_reduced(std::string_view what);

 protected:
  ForwardPass pass_;  // that runs, or ran last
  Stage stage_ = Stage::idle;

 private:
  const Model& trained_model_;
  ForwardPass next_;  // begin_pass takes it
  ModuleId recomputed_;
  std::set<std::size_t> summoned_;  // units
};

}  // namespace tessera
