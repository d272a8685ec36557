// SPDX-License-Identifier: Apache-2.0
// A model as a graph of objects: modules registered under several names and tied parameters are
// each one object that several owners reach.
//
// The idea: torch's modules(), named_children() and parameters() meet every object once. These are
// the same walks over a Model, whose tree holds each object under its first name only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/model.h"

namespace tessera {

class ModuleGraph {
 public:
  /// `model` must outlive the graph.
  explicit ModuleGraph(const Model& model);

  /// Children in registration order, then modules registered here under a further name; each once.
  const std::vector<ModuleId>& children(ModuleId id) const;
  /// `id` and every module below it, pre-order, each once.
  std::vector<ModuleId> modules_below(ModuleId id) const;
  /// Parameters of those modules, tied ones included, ascending, each once.
  std::vector<ParameterId> parameters_below(ModuleId id) const;

 private:
  const Model& model_;
  std::vector<std::vector<ModuleId>> children_;       // by ModuleId
  std::vector<std::vector<ParameterId>> parameters_;  // by ModuleId, tied ones included
};

/// `path` with every alias in it replaced by the path of the module it stands for.
std::string without_aliases(const Model& model, std::string_view path);

/// The module that the last name of `path` is registered in, or an invalid id.
ModuleId owner_of(const Model& model, std::string_view path);

/// Whether modules of the class only hold others, and have no forward: ModuleList and ModuleDict.
bool is_list_of_modules(std::string_view class_name);

}  // namespace tessera
