// SPDX-License-Identifier: Apache-2.0
// Finds the modules of a description by their paths, many times over.
#pragma once

#include <map>
#include <string>

#include "tessera/model.h"

namespace tessera {

class ModulePaths {
 public:
  /// `model` must outlive the index and keep its modules.
  explicit ModulePaths(const Model& model);

  /// Fails: invalid_argument, beginning with `where` (file and key), with the nearest known path.
  Result<ModuleId> find(const std::string& path, const std::string& where) const;

 private:
  const Model& model_;
  std::map<std::string, ModuleId, std::less<>> by_path_;
};

}  // namespace tessera
