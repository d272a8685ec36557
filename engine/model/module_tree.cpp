// SPDX-License-Identifier: Apache-2.0
// Models described as a module tree in JSON, for everything that no published config describes
// (docs/model-format.md).
#include "engine/model/module_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/model/execution.h"
#include "engine/model/module_aliases.h"
#include "engine/model/module_graph.h"
#include "engine/model/shape_costs.h"
#include "engine/model/tree_builder.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t outputs_max = 1000;
constexpr int depth_max = 200;  // deeper trees are mistakes, and would exhaust the stack

class TreeReader {
 public:
  TreeReader(const Json& json, const std::string& source)
      : json_(json), source_(source), top_(json, source) {}

  Result<Model> read() {
    top_.only({"tessera_model", "name", "dtype", "root", "forward", "graphs", "reads", "returns",
               "ties", "module_aliases", "units", "input_requires_grad", "class_bases"});
    if (top_.integer("tessera_model", 1) != 1) {
      top_.fail("tessera_model", "must be 1, the only version there is");
    }
    const std::string name = top_.text("name");
    const DType dtype = top_.dtype({"dtype"}, DType::float32);
    if (!top_.has("root")) top_.fail("root", "is missing");
    TESSERA_TRY(top_.status());
    const bool named = json_["root"].is_object() && json_["root"].contains("class") &&
                       json_["root"]["class"].is_string();
    TreeBuilder tree(name, named ? json_["root"]["class"].get<std::string>() : "", dtype);
    tree_ = &tree;
    tree.model().input_requires_grad = top_.boolean("input_requires_grad", false);
    TESSERA_TRY(top_.status());
    TESSERA_TRY(module(json_["root"], "root", ModuleId{0}, 0));
    TESSERA_TRY(check_size(model(), source_));
    TESSERA_TRY(read_module_aliases(json_, source_, model()));
    TESSERA_TRY(ties());
    TESSERA_TRY(class_bases());
    const ModulePaths paths(model());
    TESSERA_TRY(read_execution(json_, source_, paths, model()));
    TESSERA_TRY(units(paths));
    add_costs(stated_, model());
    return tree.take();
  }

 private:
  Model& model() { return tree_->model(); }
  std::string at(const std::string& where) const { return fmt::format("{}: {}", source_, where); }
  Status error(const std::string& where, const std::string& what) const {
    return Status(Code::invalid_argument, fmt::format("{} {}", at(where), what));
  }

  Status module(const Json& json, const std::string& where, ModuleId id, int depth) {
    JsonReader reader(json, at(where));
    std::vector<std::string_view> known = {"class",   "name",    "parameters",
                                           "buffers", "modules", "outputs"};
    known.insert(known.end(), cost_keys().begin(), cost_keys().end());
    reader.only(known);
    reader.text("class");
    const std::int64_t outputs = reader.integer("outputs", 1, 1);
    if (outputs > outputs_max) {
      reader.fail("outputs", fmt::format("must be at most {}, found {}", outputs_max, outputs));
    }
    TESSERA_TRY(reader.status());
    tree_->module(id).outputs = static_cast<std::int32_t>(outputs);
    if (depth > depth_max) return error(where, fmt::format("is nested deeper than {}", depth_max));
    stated_.resize(model().modules.size());
    TESSERA_ASSIGN(stated_[id.index()], read_costs(reader));
    std::set<std::string> names;
    TESSERA_TRY(parameters(json, where, names));
    TESSERA_TRY(buffers(json, where, names, id));
    if (!reader.has("modules")) return {};
    if (!json["modules"].is_array()) return error(where + ".modules", "must be a list");
    for (std::size_t k = 0; k < json["modules"].size(); ++k) {
      const Json& child = json["modules"][k];
      const std::string child_where = fmt::format("{}.modules[{}]", where, k);
      JsonReader named(child, at(child_where));
      const std::string name = named.text("name");
      const std::string class_name = named.text("class");
      TESSERA_TRY(named.status());
      TESSERA_TRY(check_name(name, child_where, names));
      const ModuleId opened = tree_->open(name, class_name);
      TESSERA_TRY(module(child, child_where, opened, depth + 1));
      tree_->close();
    }
    return {};
  }

  Status check_name(const std::string& name, const std::string& where,
                    std::set<std::string>& names) const {
    if (name.empty() || name.find('.') != std::string::npos) {
      return error(where + ".name",
                   fmt::format("must not be empty or contain a dot, found {}", in_quotes(name)));
    }
    if (!names.insert(name).second) {
      return error(where + ".name", fmt::format("{} is used twice in one module", in_quotes(name)));
    }
    return {};
  }

  Status parameters(const Json& json, const std::string& where, std::set<std::string>& names) {
    if (!json.contains("parameters")) return {};
    const std::string list = where + ".parameters";
    if (!json["parameters"].is_array()) return error(list, "must be a list");
    for (std::size_t k = 0; k < json["parameters"].size(); ++k) {
      const Json& entry = json["parameters"][k];
      const std::string here = fmt::format("{}[{}]", list, k);
      JsonReader reader(entry, at(here));
      reader.only({"name", "shape", "dtype", "requires_grad"});
      const std::string name = reader.text("name");
      const bool trained = reader.boolean("requires_grad", true);
      const DType dtype = reader.dtype({"dtype"}, model().dtype);
      TESSERA_TRY(reader.status());
      TESSERA_TRY(check_name(name, here, names));
      if (trained && !is_floating(dtype)) {
        return error(here, fmt::format("is {}, which cannot be trained: give a floating-point "
                                       "dtype or \"requires_grad\": false",
                                       name_of(dtype)));
      }
      TESSERA_ASSIGN(auto shape, shape_of(entry, here + ".shape"));
      const ParameterId id = tree_->parameter(name, std::move(shape));
      auto& parameter = model().parameters[id.index()];
      parameter.requires_grad = trained;
      parameter.dtype = dtype;
    }
    return {};
  }

  Status buffers(const Json& json, const std::string& where, std::set<std::string>& names,
                 ModuleId id) {
    if (!json.contains("buffers")) return {};
    const std::string list = where + ".buffers";
    if (!json["buffers"].is_array()) return error(list, "must be a list");
    for (std::size_t k = 0; k < json["buffers"].size(); ++k) {
      const Json& entry = json["buffers"][k];
      const std::string here = fmt::format("{}[{}]", list, k);
      JsonReader reader(entry, at(here));
      reader.only({"name", "shape", "dtype"});
      const std::string name = reader.text("name");
      const DType dtype = reader.dtype({"dtype"}, model().dtype);
      TESSERA_TRY(reader.status());
      TESSERA_TRY(check_name(name, here, names));
      TESSERA_ASSIGN(auto shape, shape_of(entry, here + ".shape"));
      model().buffers.push_back({tree_->path_of(name), std::move(shape), dtype, id});
    }
    return {};
  }

  Result<std::vector<std::int64_t>> shape_of(const Json& entry, const std::string& where) const {
    if (!entry.contains("shape") || !entry["shape"].is_array()) {
      return error(where, "must be a list of integers such as [4, 5]");
    }
    std::vector<std::int64_t> shape;
    for (const Json& dimension : entry["shape"]) {
      const bool fits = dimension.is_number_integer() && dimension.get<std::int64_t>() >= 0;
      if (!fits) return error(where, "must hold integers that are not negative");
      shape.push_back(dimension.get<std::int64_t>());
    }
    return shape;
  }

  Result<std::vector<std::string>> strings(const char* key) const {
    std::vector<std::string> out;
    if (!json_.contains(key)) return out;
    const Json& list = json_[key];
    bool good = list.is_array();
    for (const Json& entry : list) good = good && entry.is_string();
    if (!good) return error(key, "must be a list of strings");
    for (const Json& entry : list) out.push_back(entry.get<std::string>());
    return out;
  }

  Status class_bases() {
    if (!json_.contains("class_bases")) return {};
    const Json& all = json_["class_bases"];
    if (!all.is_object()) return error("class_bases", R"(must be like {"MyLinear": ["Linear"]})");
    std::set<std::string> known;
    for (const Module& m : model().modules) known.insert(m.class_name);
    for (const auto& [name, bases] : all.items()) {
      const bool good = bases.is_array() && std::all_of(bases.begin(), bases.end(), [](auto& base) {
                          return base.is_string();
                        });
      const std::string where = fmt::format("class_bases[{}]", in_quotes(name));
      if (!good) return error(where, "must be a list of names of classes");
      if (!known.contains(name)) return error(where, "is the class of no module");
      model().class_bases[name] = bases.get<std::vector<std::string>>();
    }
    return {};
  }

  Status units(const ModulePaths& paths) {
    TESSERA_ASSIGN(const auto names, strings("units"));
    for (std::size_t k = 0; k < names.size(); ++k) {
      const std::string where = fmt::format("units[{}]", k);
      TESSERA_ASSIGN(const ModuleId id, paths.find(names[k], at(where)));
      if (id.value == 0) return error(where, "is the root, which always is a unit: leave it out");
      if (tree_->module(id).is_block)
        return error(where, fmt::format("repeats {}", in_quotes(names[k])));
      tree_->module(id).is_block = true;
    }
    if (json_.contains("units")) return {};
    default_units(ModuleId{0});
    return {};
  }

  // Children that own parameters, and those of lists, which have no forward themselves.
  void default_units(ModuleId around) {
    for (const ModuleId child : model().module(around).children) {
      if (is_list_of_modules(model().module(child).class_name)) {
        default_units(child);
      } else {
        tree_->module(child).is_block = owns_parameters(child);
      }
    }
  }

  bool owns_parameters(ModuleId id) {
    const Module& m = model().module(id);
    return !m.parameters.empty() ||
           std::any_of(m.children.begin(), m.children.end(),
                       [this](ModuleId child) { return owns_parameters(child); });
  }

  Status ties() {
    if (!json_.contains("ties")) return {};
    const Json& list = json_["ties"];
    if (!list.is_array()) return error("ties", "must be a list of pairs");
    for (std::size_t k = 0; k < list.size(); ++k) {
      const std::string where = fmt::format("ties[{}]", k);
      const Json& pair = list[k];
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
        return error(where, "must be a pair of parameter names: [\"owner\", \"alias\"]");
      }
      TESSERA_TRY(tie(pair[0].get<std::string>(), pair[1].get<std::string>(), where));
    }
    return {};
  }

  // The alias stops being a tensor of its own.
  Status tie(const std::string& owner, const std::string& other, const std::string& where) {
    const std::string alias = without_aliases(model(), other);
    const ParameterId kept = model().find_parameter(owner);
    const ParameterId gone = model().find_parameter(alias);
    for (const auto& [id, name] : {std::pair{kept, owner}, {gone, alias}}) {
      if (!id.valid())
        return error(where, fmt::format("names {}, which is no parameter", in_quotes(name)));
    }
    for (const Tie& earlier : model().ties) {
      if (earlier.alias != alias) continue;
      return error(where, fmt::format("ties {} again, one owner is enough", in_quotes(alias)));
    }
    if (kept == gone) return error(where, fmt::format("ties {} to itself", in_quotes(alias)));
    const Parameter& a = model().parameter(kept);
    const Parameter& b = model().parameter(gone);
    if (a.shape != b.shape || a.dtype != b.dtype || a.requires_grad != b.requires_grad) {
      return error(where,
                   fmt::format("ties {} and {}, which differ in shape, dtype or requires_grad",
                               in_quotes(owner), in_quotes(alias)));
    }
    for (Tie& earlier : model().ties) {  // what was tied to the alias follows it
      if (earlier.parameter == gone) earlier.parameter = kept;
    }
    remove(gone);
    model().ties.push_back({alias, model().find_parameter(owner)});
    return {};
  }

  void remove(ParameterId gone) {
    auto& parameters = model().parameters;
    parameters.erase(parameters.begin() + gone.value);
    auto shift = [&](ParameterId& id) {
      if (id.value > gone.value) --id.value;
    };
    for (Module& m : model().modules) {
      std::erase(m.parameters, gone);
      for (ParameterId& id : m.parameters) shift(id);
    }
    for (Tie& tie : model().ties) shift(tie.parameter);
  }

  const Json& json_;
  const std::string source_;
  JsonReader top_;
  TreeBuilder* tree_ = nullptr;
  std::vector<StatedCosts> stated_;  // by ModuleId
};

}  // namespace

Result<Model> module_tree_model(const nlohmann::json& json, const std::string& source) {
  return TreeReader(json, source).read();
}

}  // namespace tessera
