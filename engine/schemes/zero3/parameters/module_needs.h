// SPDX-License-Identifier: Apache-2.0
// Which parameters each module needs while it runs: its own, those tied to it, and those of others
// that it was found, or said, to read.
#pragma once

#include <vector>

#include "tessera/model.h"

namespace tessera {

class LeafModules;

class ModuleNeeds {
 public:
  /// By ModuleId, each in ascending order.
  using Lists = std::vector<std::vector<ParameterId>>;

  /// From the model alone. `used_by`: what a module of Model::forward needs of those below it, by
  /// ModuleId. `planned`: also what it reads and is given, before that happens.
  void find(const Model& model, const LeafModules& leaves, const Lists& used_by, bool planned);

  const Lists& all() const { return now_; }
  const std::vector<ParameterId>& of(ModuleId module) const { return now_[index(module)]; }
  bool contain(ModuleId module, ParameterId id) const { return holds(of(module), id); }
  /// Without what was added since.
  const std::vector<ParameterId>& own(ModuleId module) const { return own_[index(module)]; }
  /// It was added since.
  bool external(ModuleId module, ParameterId id) const {
    return contain(module, id) && !holds(own(module), id);
  }
  void add(ModuleId module, ParameterId id);
  void remove(ModuleId module, ParameterId id) { std::erase(now_[index(module)], id); }

 private:
  static std::size_t index(ModuleId id) { return id.index(); }
  static bool holds(const std::vector<ParameterId>& list, ParameterId id);
  void add_from_model(const Model& model, const LeafModules& leaves, const Lists& used_by,
                      bool planned);

  Lists now_, own_;
};

}  // namespace tessera
