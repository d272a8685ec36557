// SPDX-License-Identifier: Apache-2.0
// Modules that are fetched and freed with all below them (deepspeed.utils.set_z3_leaf_modules).
//
// The idea: ranks may run different experts of one; fetching all of them keeps collectives the same
// everywhere, and gradients of what did not run are zeros.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/model.h"
#include "tessera/status.h"

namespace tessera {

class LeafModules {
 public:
  explicit LeafModules(const Model& model) : model_(model) {}

  /// By path, class or, as in "*.experts", end of path, and all of at most `granularity` elements
  /// per module (Zero3Options::module_granularity); of nested ones the outermost counts. Fails:
  /// invalid_argument, naming one that is no module.
  Status find(const std::vector<std::string>& names, Numel granularity = {});
  /// Where a granularity was given: the fewest elements per module that any module has.
  Numel finest() const { return finest_; }
  /// Names of modules that have no others in them, or lie in another leaf module, so that nothing
  /// changes.
  const std::vector<std::string>& idle() const { return idle_; }

  bool is_leaf(ModuleId module) const { return leaf_[index(module)]; }
  /// The leaf module around it, or itself.
  ModuleId around(ModuleId module) const { return around_[index(module)]; }
  bool inside(ModuleId module) const { return around(module) != module; }

  void begin_forward() { visits_.assign(model_.modules.size(), 0); }
  /// In forward, any module.
  void enter(ModuleId module) { ++visits_[index(module)]; }
  /// In backward. True: as often as it was entered, so no gradient will come any more.
  bool leave(ModuleId leaf) { return --visits_[index(leaf)] <= 0; }
  /// Parameters that only `leaf` uses: nobody else will bring their gradients.
  std::vector<ParameterId> used_only_in(
      ModuleId leaf, const std::vector<ParameterId>& own,
      const std::vector<std::vector<ParameterId>>& needs_of_all) const;

 private:
  static std::size_t index(ModuleId id) { return id.index(); }

  const Model& model_;
  Numel finest_{};
  std::vector<std::string> idle_;
  // By ModuleId.
  std::vector<ModuleId> around_;
  std::vector<bool> leaf_;
  std::vector<std::int32_t> visits_;  // that have no backward yet
};

}  // namespace tessera
