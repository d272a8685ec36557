// SPDX-License-Identifier: Apache-2.0
#include "engine/model/module_aliases.h"

#include <fmt/format.h>

#include "engine/model/module_graph.h"
#include "engine/text/json_reader.h"
#include "engine/text/nearest_word.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

constexpr int alias_depth_max = 200;  // as for the tree itself

class AliasReader {
 public:
  AliasReader(const std::string& source, Model& model) : source_(source), model_(model) {
    further_.resize(model.modules.size());
    for (const Module& module : model.modules) {
      depth_.push_back(module.parent.valid() ? depth_[module.parent.index()] + 1 : 0);
    }
  }

  Status read(const Json& list) {
    if (!list.is_array()) return error("must be a list of pairs");
    for (std::size_t k = 0; k < list.size(); ++k) {
      where_ = fmt::format("module_aliases[{}]", k);
      const Json& pair = list[k];
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
        return error("must be a pair of module paths: [\"module\", \"further path\"]");
      }
      TESSERA_TRY(alias(pair[0].get<std::string>(), pair[1].get<std::string>()));
    }
    return {};
  }

 private:
  Status error(const std::string& what) const {
    return Status(Code::invalid_argument, fmt::format("{}: {} {}", source_, where_, what));
  }

  Result<ModuleId> find(std::string_view path) const {
    const ModuleId found = model_.find_module(path);
    if (found.valid()) return found;
    std::vector<std::string_view> known;
    for (const Module& m : model_.modules) known.push_back(m.path);
    return error(
        fmt::format("names {}, which is no module{}", in_quotes(path), did_you_mean(path, known)));
  }

  Status alias(const std::string& module, const std::string& path) {
    TESSERA_ASSIGN(const ModuleId id, find(module));
    const std::size_t dot = path.rfind('.');
    const std::string name = dot == std::string::npos ? path : path.substr(dot + 1);
    TESSERA_ASSIGN(const ModuleId owner,
                   find(dot == std::string::npos ? "" : std::string_view(path).substr(0, dot)));
    if (name.empty())
      return error(fmt::format("has {}, which ends without a name", in_quotes(path)));
    if (model_.find_module(path).valid() || model_.find_parameter(path).valid()) {
      return error(fmt::format("registers {} again: give a path that is free", in_quotes(path)));
    }
    TESSERA_TRY(deepen(id, owner, path));
    further_[owner.index()].push_back(id);
    // Stored without aliases in it, so that paths are resolved by one replacement at a time.
    const std::string& parent = model_.module(owner).path;
    model_.module_aliases.push_back({parent.empty() ? name : parent + "." + name, id});
    return {};
  }

  // Keeps the longest way from the root to every module, which bounds the recursion of all walks.
  // A module that contains its new owner would make that way endless.
  Status deepen(ModuleId id, ModuleId owner, const std::string& path) {
    std::vector<std::pair<ModuleId, int>> open = {{id, depth_[owner.index()] + 1}};
    while (!open.empty()) {
      const auto [m, depth] = open.back();
      open.pop_back();
      if (m == owner) {
        return error(fmt::format("puts {} inside itself, as {}", in_quotes(model_.module(id).path),
                                 in_quotes(path)));
      }
      if (depth <= depth_[m.index()]) continue;
      if (depth > alias_depth_max)
        return error(fmt::format("nests deeper than {}", alias_depth_max));
      depth_[m.index()] = depth;
      for (ModuleId child : model_.module(m).children) open.emplace_back(child, depth + 1);
      for (ModuleId child : further_[m.index()]) open.emplace_back(child, depth + 1);
    }
    return {};
  }

  const std::string& source_;
  Model& model_;
  std::string where_ = "module_aliases";
  std::vector<int> depth_;                      // by ModuleId: the longest way from the root
  std::vector<std::vector<ModuleId>> further_;  // by ModuleId: what aliases register in it
};

}  // namespace

Status read_module_aliases(const Json& json, const std::string& source, Model& model) {
  if (!json.contains("module_aliases")) return {};
  return AliasReader(source, model).read(json["module_aliases"]);
}

}  // namespace tessera
