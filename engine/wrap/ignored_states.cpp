// SPDX-License-Identifier: Apache-2.0
#include "engine/wrap/ignored_states.h"

#include <fmt/format.h>

#include "engine/text/json_reader.h"
#include "engine/text/nearest_word.h"

namespace tessera {
namespace {

Status error(const std::string& message) { return Status(Code::invalid_argument, message); }

// The error for an unknown name, with the known name that was probably meant.
Status unknown(const Model& model, const char* option, const std::string& name,
               bool also_parameters) {
  std::vector<std::string_view> known;
  for (const Module& m : model.modules) known.push_back(m.path);
  if (also_parameters) {
    for (const Parameter& p : model.parameters) known.push_back(p.name);
    for (const Tie& tie : model.ties) known.push_back(tie.alias);
  }
  return error(fmt::format("{} names {}, which is {} of {}{}", option, in_quotes(name),
                           also_parameters ? "neither a module nor a parameter" : "no module",
                           model.name, did_you_mean(name, known)));
}

// Ignoring goes through the graph of objects and not through paths: a parameter that is tied into
// an ignored module is ignored under all its names, as torch collects `module.parameters()`.
void ignore_module(const ModuleGraph& graph, ModuleId id, IgnoredStates& out) {
  TESSERA_ASSERT(id.valid(), "an ignored module is one of the model");
  if (id.value == 0) {
    out.warnings.push_back("the root is ignored, and with it every parameter: nothing is sharded");
  }
  for (ModuleId m : graph.modules_below(id)) out.modules[m.index()] = true;
  for (ParameterId p : graph.parameters_below(id)) out.parameters[p.index()] = true;
}

// Like torch, takes only modules or only parameters: the kind of the first name, kept in `first`
// and `first_is_module`, is the kind of all.
Status ignore_state(const Model& model, const ModuleGraph& graph, const std::string& name,
                    std::string& first, bool& first_is_module, IgnoredStates& out) {
  const ModuleId module = model.find_module(name);
  const ParameterId parameter = model.find_parameter(name);
  if (!module.valid() && !parameter.valid()) {
    return unknown(model, "ignored_states", name, /*also_parameters=*/true);
  }
  if (first.empty()) {
    first = in_quotes(name);
    first_is_module = module.valid();
  }
  if (first_is_module != module.valid()) {
    return error(fmt::format(
        "ignored_states names the {} {} and the {} {}: give only modules or only parameters",
        first_is_module ? "module" : "parameter", first, module.valid() ? "module" : "parameter",
        in_quotes(name)));
  }
  if (module.valid()) {
    ignore_module(graph, module, out);
  } else {
    out.parameters[parameter.index()] = true;
  }
  return {};
}

}  // namespace

Result<IgnoredStates> ignored_states(const Model& model, const ModuleGraph& graph,
                                     const WrapOptions& options) {
  if (!options.ignored_modules.empty() && !options.ignored_states.empty()) {
    return error("give ignored_modules or ignored_states, not both");
  }
  IgnoredStates out;
  out.modules.assign(model.modules.size(), false);
  out.parameters.assign(model.parameters.size(), false);
  for (const std::string& path : options.ignored_modules) {
    const ModuleId id = model.find_module(path);
    if (!id.valid() && model.find_parameter(path).valid()) {
      return error(
          fmt::format("ignored_modules names {}, which is a parameter: give it as one of "
                      "ignored_states",
                      in_quotes(path)));
    }
    if (!id.valid()) return unknown(model, "ignored_modules", path, /*also_parameters=*/false);
    ignore_module(graph, id, out);
  }
  std::string first;
  bool first_is_module = false;
  for (const std::string& name : options.ignored_states) {
    TESSERA_TRY(ignore_state(model, graph, name, first, first_is_module, out));
  }
  return out;
}

}  // namespace tessera
