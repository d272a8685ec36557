// SPDX-License-Identifier: Apache-2.0
#include "engine/model/execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/model/used_by.h"
#include "engine/text/json_reader.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

class ExecutionReader {
 public:
  ExecutionReader(const Json& json, const std::string& source, const ModulePaths& paths,
                  Model& model)
      : json_(json), source_(source), paths_(paths), model_(model) {}

  Status read() {
    TESSERA_TRY(forward());
    TESSERA_TRY(graphs());
    TESSERA_TRY(check_entries());
    const auto used = used_by(model_);
    TESSERA_TRY(pairs("reads", [&](ModuleId module, ParameterId parameter, const auto& where) {
      return read_of(used, module, parameter, where);
    }));
    return pairs("returns", [&](ModuleId module, ParameterId parameter, const auto& where) {
      return returned(used, module, parameter, where);
    });
  }

 private:
  Status error(const std::string& where, const std::string& what) const {
    return Status(Code::invalid_argument, fmt::format("{}: {} {}", source_, where, what));
  }

  // {"again": "blk"}: the call of blk that the last entry belongs to has ended.
  static bool is_revisit(const Json& entry) {
    return entry.is_object() && entry.size() == 1 && entry.contains("again") &&
           entry["again"].is_string();
  }

  Result<Graph> order(const Json& list, const std::string& where) const {
    bool good = list.is_array();
    for (const Json& entry : list) good = good && (entry.is_string() || is_revisit(entry));
    if (!good) return error(where, "must be a list of strings and {\"again\": \"PATH\"}");
    Graph out;
    for (std::size_t k = 0; k < list.size(); ++k) {
      const std::string here = fmt::format("{}: {}[{}]", source_, where, k);
      const bool again = !list[k].is_string();
      const Json& path = again ? list[k]["again"] : list[k];
      TESSERA_ASSIGN(const ModuleId id, paths_.find(path.get<std::string>(), here));
      if (again) {
        out.again.push_back({out.forward.size(), id});
      } else {
        out.forward.push_back(id);
      }
    }
    for (const Revisit& revisit : out.again) TESSERA_TRY(check(revisit, out.forward, where));
    return out;
  }

  bool lies_in(ModuleId id, ModuleId container) const {
    for (ModuleId m = model_.module(id).parent; m.valid(); m = model_.module(m).parent) {
      if (m == container) return true;
    }
    return false;
  }

  Status check(const Revisit& revisit, const std::vector<ModuleId>& forward,
               const std::string& where) const {
    const auto inside = [&](std::size_t entry) {
      return entry < forward.size() && lies_in(forward[entry], revisit.module);
    };
    if (revisit.entry > 0 && inside(revisit.entry - 1) && inside(revisit.entry)) return {};
    return error(where, fmt::format("has \"again\": {} where the entries before and behind it are "
                                    "not both in that module",
                                    in_quotes(model_.module(revisit.module).path)));
  }

  Status forward() {
    if (json_.contains("forward")) {
      TESSERA_ASSIGN(Graph whole, order(json_["forward"], "forward"));
      model_.forward = std::move(whole.forward);
      model_.again = std::move(whole.again);
      return {};
    }
    for (std::size_t m = 0; m < model_.modules.size(); ++m) {
      if (model_.modules[m].children.empty()) {
        model_.forward.push_back(ModuleId{static_cast<std::int32_t>(m)});
      }
    }
    return {};
  }

  Status graphs() {
    if (!json_.contains("graphs")) return {};
    const Json& all = json_["graphs"];
    if (!all.is_object()) {
      return error("graphs", "must name lists of module paths: {\"short\": [\"a\", \"c\"]}");
    }
    for (const auto& [name, list] : all.items()) {
      // Names stand in lists that are separated by commas and colons.
      const bool plain = !name.empty() && name.find_first_of(",: \t\n\"") == std::string::npos;
      if (!plain) {
        return error("graphs", fmt::format("names a graph {}: use letters, digits and dashes",
                                           in_quotes(name)));
      }
      TESSERA_ASSIGN(Graph graph, order(list, fmt::format("graphs.{}", name)));
      graph.name = name;
      model_.graphs.push_back(std::move(graph));
    }
    return {};
  }

  // An entry that contains another would charge its work twice. All graphs agree: a module that one
  // of them lists is a whole in the others, too.
  Status check_entries() const {
    std::set<ModuleId> entries(model_.forward.begin(), model_.forward.end());
    for (const Graph& graph : model_.graphs) {
      entries.insert(graph.forward.begin(), graph.forward.end());
    }
    for (ModuleId id : entries) {
      for (ModuleId m = model_.module(id).parent; m.valid(); m = model_.module(m).parent) {
        // The root may compute with parameters of its own beside its children.
        if (m.value == 0 || !entries.contains(m)) continue;
        return error(
            model_.graphs.empty() ? "forward" : "forward with graphs",
            fmt::format("lists {} and also {}, which contains it",
                        in_quotes(model_.module(id).path), in_quotes(model_.module(m).path)));
      }
    }
    return {};
  }

  template <class Add>
  Status pairs(const char* key, const Add& add) const {
    if (!json_.contains(key)) return {};
    const Json& list = json_[key];
    if (!list.is_array()) return error(key, "must be a list of pairs");
    for (std::size_t k = 0; k < list.size(); ++k) {
      const std::string where = fmt::format("{}[{}]", key, k);
      const Json& pair = list[k];
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
        return error(where, "must be a module path and a parameter name: [\"c\", \"a.weight\"]");
      }
      const std::string here = fmt::format("{}: {}", source_, where);
      TESSERA_ASSIGN(const ModuleId module, paths_.find(pair[0].get<std::string>(), here));
      const std::string name = pair[1].get<std::string>();
      const ParameterId parameter = model_.find_parameter(name);
      if (!parameter.valid()) {
        return error(where, fmt::format("names {}, which is no parameter", in_quotes(name)));
      }
      TESSERA_TRY(add(module, parameter, where));
    }
    return {};
  }

  static bool has(const std::vector<std::vector<ParameterId>>& used, ModuleId m, ParameterId p) {
    const auto& list = used[m.index()];
    return std::find(list.begin(), list.end(), p) != list.end();
  }

  Status read_of(const std::vector<std::vector<ParameterId>>& used, ModuleId module,
                 ParameterId parameter, const std::string& where) {
    const ParameterUse use{module, parameter};
    if (std::find(model_.reads.begin(), model_.reads.end(), use) != model_.reads.end()) {
      return error(where, "is there twice");
    }
    const bool listed =
        std::find(model_.forward.begin(), model_.forward.end(), module) != model_.forward.end();
    if (listed && has(used, module, parameter)) {
      return error(where, fmt::format("says that {} reads {}, which it has anyway",
                                      in_quotes(model_.module(module).path),
                                      in_quotes(model_.parameter(parameter).name)));
    }
    model_.reads.push_back(use);
    return {};
  }

  Status returned(const std::vector<std::vector<ParameterId>>& used, ModuleId module,
                  ParameterId parameter, const std::string& where) {
    if (module.value == 0) {
      return error(where, "is the root, which has no module around it to return to");
    }
    if (!has(used, module, parameter)) {
      return error(where, fmt::format("says that {} returns {}, which it does not have",
                                      in_quotes(model_.module(module).path),
                                      in_quotes(model_.parameter(parameter).name)));
    }
    const ParameterUse use{module, parameter};
    if (std::find(model_.returns.begin(), model_.returns.end(), use) != model_.returns.end()) {
      return error(where, "is there twice");
    }
    model_.returns.push_back(use);
    return {};
  }

  const Json& json_;
  const std::string& source_;
  const ModulePaths& paths_;
  Model& model_;
};

}  // namespace

Status read_execution(const Json& json, const std::string& source, const ModulePaths& paths,
                      Model& model) {
  return ExecutionReader(json, source, paths, model).read();
}

}  // namespace tessera
