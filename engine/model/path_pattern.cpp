// SPDX-License-Identifier: Apache-2.0
#include "engine/model/path_pattern.h"

#include <fmt/format.h>

#include <vector>

#include "engine/text/json_reader.h"
#include "engine/text/nearest_word.h"

namespace tessera {

// `ends` are places of the path where what was read of the pattern may end, so that no pattern
// takes longer than its length times that of the path.
bool matches_path(std::string_view pattern, std::string_view path) {
  std::vector<bool> ends(path.size() + 1, false);
  ends[0] = true;
  while (!pattern.empty()) {
    const bool star = pattern.front() == '*';
    const bool dots = pattern.starts_with("**");
    if (star) {
      for (std::size_t at = 0; at < path.size(); ++at) {
        if (ends[at] && (dots || path[at] != '.')) ends[at + 1] = true;
      }
    } else {
      for (std::size_t at = path.size(); at > 0; --at) {
        ends[at] = ends[at - 1] && path[at - 1] == pattern.front();
      }
      ends[0] = false;
    }
    pattern.remove_prefix(dots ? 2 : 1);
  }
  return ends[path.size()];
}

Result<std::vector<bool>> blocks_named(const Model& model, const std::vector<std::string>& names) {
  std::vector<bool> chosen(model.modules.size(), names.empty());
  for (const std::string& name : names) {
    const Module* other = nullptr;  // that is no block
    bool any = false;
    for (std::size_t m = 0; m < model.modules.size(); ++m) {
      const Module& module = model.modules[m];
      if (!matches_path(name, module.path) && !model.is_a(module, name)) continue;
      if (!module.is_block && other == nullptr) other = &module;
      if (module.is_block) any = chosen[m] = true;
    }
    if (any) continue;
    if (other != nullptr) {
      return Status(Code::not_supported,
                    fmt::format("checkpoint_blocks {} names {}, a {} that is no block of {}: {}",
                                in_quotes(name), in_quotes(other->path), other->class_name,
                                model.name, only_whole_blocks));
    }
    std::vector<std::string_view> known;
    for (const Module& module : model.modules) {
      if (!module.is_block) continue;
      known.push_back(module.path);
      known.push_back(module.class_name);
    }
    return Status(Code::invalid_argument,
                  fmt::format("checkpoint_blocks: {} is no path or class of a module of {}{}",
                              in_quotes(name), model.name, did_you_mean(name, known)));
  }
  return chosen;
}

}  // namespace tessera
