// SPDX-License-Identifier: Apache-2.0
#include "engine/model/graft.h"

#include <cstdint>

namespace tessera {
namespace {

// Ids of a part in the whole: its root is the whole's, what is below stands behind all others.
struct Moved {
  std::int32_t modules, parameters;

  ModuleId operator()(ModuleId id) const {
    const auto old = static_cast<std::int32_t>(id.index());
    return !id.valid() || old == 0 ? id : ModuleId{modules + old - 1};
  }
  ParameterId operator()(ParameterId id) const {
    return ParameterId{parameters + static_cast<std::int32_t>(id.index())};
  }
};

}  // namespace

void graft(Model& onto, const Model& part) {
  TESSERA_ASSERT(part.modules[0].parameters.empty() && part.graphs.empty() && part.again.empty() &&
                     part.module_aliases.empty() && part.reads.empty() && part.returns.empty(),
                 "parts are models as architectures build them");
  const Moved moved{static_cast<std::int32_t>(onto.modules.size()),
                    static_cast<std::int32_t>(onto.parameters.size())};
  for (std::size_t m = 1; m < part.modules.size(); ++m) {
    Module module = part.modules[m];
    module.parent = moved(module.parent);
    for (ModuleId& child : module.children) child = moved(child);
    for (ParameterId& own : module.parameters) own = moved(own);
    onto.modules.push_back(std::move(module));
  }
  for (const ModuleId child : part.modules[0].children) {
    onto.modules[0].children.push_back(moved(child));
  }
  for (Parameter parameter : part.parameters) {
    parameter.module = moved(parameter.module);
    onto.parameters.push_back(std::move(parameter));
  }
  for (Buffer buffer : part.buffers) {
    buffer.module = moved(buffer.module);
    onto.buffers.push_back(std::move(buffer));
  }
  for (const Tie& tie : part.ties) onto.ties.push_back({tie.alias, moved(tie.parameter)});
  for (const ModuleId id : part.forward) onto.forward.push_back(moved(id));
  onto.warnings.insert(onto.warnings.end(), part.warnings.begin(), part.warnings.end());
}

}  // namespace tessera
