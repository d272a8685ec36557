// SPDX-License-Identifier: Apache-2.0
#include "engine/model/module_paths.h"

#include <fmt/format.h>

#include "engine/text/json_reader.h"
#include "engine/text/nearest_word.h"

namespace tessera {

ModulePaths::ModulePaths(const Model& model) : model_(model) {
  for (std::size_t m = 0; m < model.modules.size(); ++m) {
    by_path_[model.modules[m].path] = ModuleId{static_cast<std::int32_t>(m)};
  }
}

Result<ModuleId> ModulePaths::find(const std::string& path, const std::string& where) const {
  const auto found = by_path_.find(path);
  if (found != by_path_.end()) return found->second;
  if (const ModuleId alias = model_.find_module(path); alias.valid()) return alias;
  std::vector<std::string_view> known;
  for (const Module& m : model_.modules) known.push_back(m.path);
  return Status(Code::invalid_argument, fmt::format("{} names {}, which is no module{}", where,
                                                    in_quotes(path), did_you_mean(path, known)));
}

}  // namespace tessera
